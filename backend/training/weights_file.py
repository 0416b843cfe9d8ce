"""Files of weights: read without running code of the file, and fitted to a model.

``torch.save`` stores all objects that a script puts next to the weights: arguments, dates, NumPy
numbers. ``weights_only=True`` refuses the whole file for one of them. Here each class that is not
of the weights is replaced by an empty stand-in, so that none of its code is imported or called.
"""

from __future__ import annotations

import json
import pickle
import re
import shlex
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any

import torch
from torch.nn.parameter import is_lazy
from torch.serialization import get_unsafe_globals_in_checkpoint, safe_globals

from backend.base.errors import BackendError
from backend.records.base import number_format
from backend.records.base.validation import sanitize
from backend.training.checkpoint import damage_reason, first_line, resume_remedy, sidecar_of

_MAX_CLASSES = 200
_MAX_PREFIXES = 4
"""Number of prefixes that the remedy proposes to leave out: with more, it is another model."""
_UNKNOWN_CLASS = re.compile(r"GLOBAL (\S+) was not an allowed global")
_FILLED_CONTAINER = re.compile(
    r"(SETITEMS?|append to lists|extend lists).* got <class '[\w.]*\.(\w+)'>"
)


def load_weights(path: Path) -> dict[str, torch.Tensor]:
    """Read initial weights: a state dict, a safetensors file, or a checkpoint of Ringmaster.

    Raises:
        BackendError: The file is none of these.
    """
    return read_weights(path)[0]


def read_weights(path: Path) -> tuple[dict[str, torch.Tensor], tuple[str, ...]]:
    """Read weights as `load_weights`; return also the names of other content of the file."""
    if not path.is_file():
        raise BackendError(f"The weights file {path} does not exist.", "Choose another file.")
    if path.suffix == ".safetensors":
        return _load_safetensors(path), ()
    if sidecar_of(path).is_file():
        reason = damage_reason(path)
        if reason:
            raise BackendError(
                f"The checkpoint {path.name} cannot be used: {reason}.", resume_remedy(path)
            )
    try:
        file_content = _load(path)
    except Exception as error:
        raise BackendError(
            f"{path.name} is not a weights file: {first_line(error)}.", _remedy(path)
        ) from error
    weights = _find_state_dict(file_content)
    if weights is None:
        raise BackendError(f"{path.name} contains no named weights.", _remedy(path))
    tensors = {str(k): v for k, v in weights.items() if not isinstance(v, _StandIn)}
    return tensors, _other_names(file_content, weights)


def _find_state_dict(file_content: object) -> Mapping[Any, Any] | None:
    """Return the state dict of a saved object: itself, under a usual key, or its only dict."""
    if not isinstance(file_content, Mapping):
        return None
    inner_dicts = {
        key: value
        for key, value in file_content.items()
        if isinstance(value, Mapping)
        and any(isinstance(item, torch.Tensor) for item in value.values())
    }
    for key in ("model", "state_dict", "model_state_dict"):
        if key in inner_dicts:
            return inner_dicts[key]
    if any(isinstance(value, torch.Tensor) for value in file_content.values()):
        return file_content
    return next(iter(inner_dicts.values())) if len(inner_dicts) == 1 else None


def _load_safetensors(path: Path) -> dict[str, torch.Tensor]:
    import safetensors
    import safetensors.torch

    try:
        return safetensors.torch.load_file(path)
    except (safetensors.SafetensorError, OSError, ValueError) as error:
        raise BackendError(
            f"{path.name} is not a safetensors file: {first_line(error)}.",
            "Save it again with safetensors.torch.save_file(model.state_dict(), …).",
        ) from error


def fit_weights(
    model: torch.nn.Module,
    weights: Mapping[str, Any],
    source: str,
    pass_batch: Callable[[], None] | None = None,
    excluded_prefixes: Sequence[str] = (),
) -> str:
    """Load ``weights`` into the model, all or none. Of tied weights, one is enough.

    If the names do not match, one prefix common to all of them is removed or added: compiled models
    have ``_orig_mod.``, data-parallel ones ``module.``, Lightning's ``model.``.

    Args:
        pass_batch: Passes a batch to the model, which ties the weights of some models.
        excluded_prefixes: Prefixes of the names of weights that keep the model's values.

    Returns:
        A message on the prefix that was removed or added, otherwise "".

    Raises:
        BackendError: The weights belong to another architecture, or match only in part.
    """
    names = list(model.state_dict())
    candidates = [(weights, "")]
    for prefix in _common_prefixes(weights):
        message = f"The prefix “{prefix}” was removed from the names in {source}."
        candidates.append(({name.removeprefix(prefix): weights[name] for name in weights}, message))
    for prefix in _common_prefixes(names):
        message = f"The prefix “{prefix}” was added to the names in {source}."
        candidates.append(({prefix + name: weights[name] for name in weights}, message))
    # The first of equal candidates: the names as they are.
    fitting_weights, message = max(
        candidates, key=lambda candidate: len(candidate[0].keys() & set(names))
    )
    if pass_batch and _add_tied(model.state_dict(), fitting_weights).keys() < set(names):
        pass_batch()
    if excluded_prefixes:
        fitting_weights = _keep_model_values(model, fitting_weights, excluded_prefixes)
    _load_weights_into(model, fitting_weights, source)
    return message


def _keep_model_values(
    model: torch.nn.Module, weights: Mapping[str, Any], excluded_prefixes: Sequence[str]
) -> dict[str, Any]:
    """Return the weights with the model's own values in place of the excluded weights.

    Raises:
        BackendError: The model has no weight with such a prefix.
    """
    model_state = model.state_dict()
    names_with_prefix(model_state, excluded_prefixes, "start_from_except")
    prefixes = tuple(excluded_prefixes)
    other_weights = {
        name: value for name, value in weights.items() if not name.startswith(prefixes)
    }
    return other_weights | {n: value for n, value in model_state.items() if n.startswith(prefixes)}


def names_with_prefix(names: Iterable[str], prefixes: Sequence[str], setting: str) -> set[str]:
    """Return the names that begin with a prefix.

    Raises:
        BackendError: No name begins with one of the prefixes.
    """
    all_names = list(names)
    for prefix in prefixes:
        if not any(name.startswith(prefix) for name in all_names):
            first_parts = list(dict.fromkeys("".join(n.partition(".")[:2]) for n in all_names))
            raise BackendError(
                f"The setting {setting} has “{sanitize(prefix)}”, but no name of the model begins "
                f"with it; they begin with {number_format.name_list(first_parts)}.",
                "Give the beginning of a name, such as “layers.0.”.",
            )
    return {name for name in all_names if name.startswith(tuple(prefixes))}


def _add_tied(model_state: Mapping[str, Any], weights: Mapping[str, Any]) -> dict[str, Any]:
    """Add the tensors to ``weights`` that share the memory of others, such as tied weights.

    Files often hold these once: safetensors' ``save_model`` drops the second name.
    """
    all_weights = dict(weights)
    memories: dict[int, list[str]] = {}
    for name, value in model_state.items():
        if type(value) is torch.Tensor and value.layout is torch.strided and value.numel():
            memories.setdefault(value.untyped_storage().data_ptr(), []).append(name)
    for names in memories.values():
        saved_names = [
            name
            for name in names
            if isinstance(weights.get(name), torch.Tensor)
            and weights[name].shape == model_state[name].shape
        ]
        missing_names = [name for name in names if name not in weights]
        if not saved_names or not missing_names:
            continue
        # The future memory, and flags for its bytes that are in the file.
        nbytes = model_state[names[0]].untyped_storage().nbytes()
        memory = torch.zeros(nbytes, dtype=torch.uint8)
        is_known = torch.zeros(nbytes, dtype=torch.uint8)
        for name in saved_names:
            _view_as(memory, model_state[name]).copy_(weights[name])
            _byte_view_as(is_known, model_state[name]).fill_(1)
        for name in missing_names:
            if _byte_view_as(is_known, model_state[name]).all():
                all_weights[name] = _view_as(memory, model_state[name])
    return all_weights


def _view_as(memory: torch.Tensor, tensor: torch.Tensor) -> torch.Tensor:
    """Return the part of ``memory`` at which ``tensor`` lies in its storage."""
    typed_memory = memory[: len(memory) // tensor.element_size() * tensor.element_size()].view(
        tensor.dtype
    )
    return typed_memory.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())


def _byte_view_as(memory: torch.Tensor, tensor: torch.Tensor) -> torch.Tensor:
    """Return the bytes of the part of ``memory`` at which ``tensor`` lies in its storage."""
    size = tensor.element_size()
    return memory.as_strided(
        (*tensor.shape, size),
        (*(size * stride for stride in tensor.stride()), 1),
        tensor.storage_offset() * size,
    )


def _common_prefixes(names: Iterable[str]) -> list[str]:
    """Return the dotted prefixes of all names, ``a.`` and ``a.b.`` of ``a.b.x`` and ``a.b.y``."""
    levels = zip(*(name.split(".")[:-1] for name in names), strict=False)
    parts = [level[0] for level in takewhile(lambda level: len(set(level)) == 1, levels)]
    return [".".join(parts[: number + 1]) + "." for number in range(len(parts))]


def _load_weights_into(model: torch.nn.Module, weights: Mapping[str, Any], source: str) -> None:
    model_state = model.state_dict()
    weights = _add_tied(model_state, weights)
    missing_names = [key for key in model_state if key not in weights]
    surplus_names = [key for key in weights if key not in model_state]
    shape_errors = [
        f"{key} {list(weights[key].shape)} instead of {list(model_state[key].shape)}"
        for key in model_state
        if isinstance(model_state[key], torch.Tensor)
        and isinstance(weights.get(key), torch.Tensor)
        # A layer that only training uses takes its shape from the file.
        and not is_lazy(model_state[key])
        and weights[key].shape != model_state[key].shape
    ]
    if missing_names or surplus_names or shape_errors:
        fitting_count = len(model_state) - len(missing_names) - len(shape_errors)
        differences = {
            "not in the file": missing_names,
            "different shape": shape_errors,
            "not in the model": surplus_names,
        }
        parts = [f"{label}: {number_format.name_list(n)}" for label, n in differences.items() if n]
        summary = (
            f"{fitting_count} of the model's {len(model_state)} weights match"
            if fitting_count
            else "no name matches the model's"
        )
        raise BackendError(
            f"The weights in {source} do not belong to this model: {summary}; {'; '.join(parts)}.",
            _start_new_remedy(
                [*missing_names, *(part.split(" ")[0] for part in shape_errors), *surplus_names]
            )
            if fitting_count
            else "Choose weights that were trained with this model.",
        )
    try:
        model.load_state_dict(dict(weights))
    except (RuntimeError, TypeError, ValueError, KeyError) as error:
        raise BackendError(
            f"The weights in {source} do not belong to this model: {first_line(error)}.",
            "Choose weights that were trained with this model.",
        ) from error


def _start_new_remedy(names: Sequence[str]) -> str:
    prefixes = dict.fromkeys(name.rpartition(".")[0] + "." for name in names if "." in name)
    if not prefixes or len(prefixes) > _MAX_PREFIXES:
        return "Choose weights that were trained with this model."
    return (
        f"To start these with new weights, set start_from_except = {json.dumps(list(prefixes))}; "
        "or choose weights that were trained with this model."
    )


class _StandIn:
    """Empty stand-in for an object of the file."""

    def __init__(self, *_: object, **__: object) -> None:
        pass

    def __setstate__(self, state: object) -> None:
        pass


def _load(path: Path) -> Any:
    """Return the content of a file of ``torch.save``, with a `_StandIn` for each other object.

    Raises:
        pickle.UnpicklingError: The file names a class that cannot be replaced, or is damaged.
    """
    try:
        names = get_unsafe_globals_in_checkpoint(path)
    except ValueError:  # The format before PyTorch 1.6: the names are known from the refusals.
        names = []
    classes = {name: _make_stand_in(number) for number, name in enumerate(names)}
    while len(classes) < _MAX_CLASSES:
        refusal = ""
        with safe_globals([(stand_in, name) for name, stand_in in classes.items()]):
            try:
                return torch.load(path, map_location="cpu", weights_only=True)
            except pickle.UnpicklingError as error:
                refusal = str(error)
        unknown_class, filled_container = (
            _UNKNOWN_CLASS.search(refusal),
            _FILLED_CONTAINER.search(refusal),
        )
        name = unknown_class[1] if unknown_class else ""
        if unknown_class and "." not in name:
            name = f"builtins.{name}"
        if unknown_class and name not in classes:
            classes[name] = _make_stand_in(len(classes))
        elif filled_container:
            name = next(
                key for key, stand_in in classes.items() if stand_in.__name__ == filled_container[2]
            )
            classes[name] = _make_container(
                OrderedDict if filled_container[1].startswith("SET") else list
            )
        else:
            raise pickle.UnpicklingError(_reason(refusal))
    raise pickle.UnpicklingError("it contains objects of too many classes")


def _reason(refusal: str) -> str:
    """Return the line of torch's advice with the error of the file."""
    lines = refusal.rpartition("WeightsUnpickler error:")[2].strip().splitlines() or [""]
    return lines[0].partition(" Please use")[0].rstrip(".")


def _remedy(path: Path) -> str:
    """Return a remedy with which to make a file that has only weights."""
    script = (
        f"import torch; found = torch.load({path.name!r}, weights_only=False); "
        "torch.save(getattr(found, 'state_dict', lambda: found['state_dict'])(), 'clean.pt')"
    )
    return (
        "Save them with torch.save(model.state_dict(), …) or as .safetensors; from a file that you "
        f"trust, in the folder of its code: python -c {shlex.quote(script)}"
    )


def _other_names(file_content: Mapping[Any, Any], weights: Mapping[Any, Any]) -> tuple[str, ...]:
    """Return the names of the other content of a file of weights."""
    if file_content is weights:
        return tuple(str(key) for key, value in file_content.items() if isinstance(value, _StandIn))
    return tuple(str(key) for key, value in file_content.items() if value is not weights)


def _make_stand_in(number: int) -> Callable[..., Any]:
    return type(f"StandIn{number}", (_StandIn,), {})


def _make_container(kind: type) -> Callable[..., Any]:
    """Return a stand-in for a subclass of dict or list, which keeps its items."""
    return type("Container", (), {"__new__": lambda cls, *_, **__: kind()})
