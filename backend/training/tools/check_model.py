"""Check that a model can be trained: imported, built, and one step on one batch.

A check that passes a model which fails in its first step is worse than none, so the step is made as
a rank makes it: the loader's batch, forward, loss, backward, metrics.
"""

from __future__ import annotations

import math
import pickle
import random
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

import numpy

from backend.base.log import swallowed
from backend.records.base.number_format import name_list
from backend.records.jobs.config import JobConfig
from backend.records.library.preview import LayerRow, ModelCheck
from backend.training.tools import protocol as tool_protocol
from backend.training.tools.inspected_model import layer_modules
from backend.training.tools.preview import class_names
from backend.training.user_code import (
    UserCodeError,
    UserData,
    calling,
    compute_loss,
    compute_metrics,
    compute_output,
    load_loader,
    load_model,
    materialize,
    needs_first_batch,
    require_restorable,
    require_same_state,
    require_shapes,
    shape_of,
    split_batch,
    state_shapes,
)

if TYPE_CHECKING:
    import torch

_MOST_LAYERS = 500
_RATE = 0.01
"""The learning rate with which a model's own optimizer is made."""
_GENERATORS = (random.Random, numpy.random.Generator, numpy.random.RandomState)


class _ParameterCounts(TypedDict):
    parameters: int
    trainable_parameters: int
    parameter_bytes: int


def check_model(request: Mapping[str, Any], report: tool_protocol.Report) -> dict[str, Any]:
    """``model``; optional ``loader`` with ``dataset``, and ``batch_size`` (4)."""
    report("Loading PyTorch…")
    from backend.training.data import seed_everything

    if request.get("loader"):
        # The loader first, and the same seed twice: as in a rank.
        report("Loading a batch…")
        seed_everything(JobConfig.seed)
        try:
            dataset, data, target, used_generators = _first_batch(request)
        except UserCodeError as error:
            error.part = "loader"
            raise
    report("Importing and building the model…")
    seed_everything(JobConfig.seed)
    model = load_model(Path(request["model"]))
    has_metrics = callable(getattr(model, "metrics", None))
    if not request.get("loader"):
        warnings = ["No loader was given, so no step was made."]
        if needs_first_batch(model):
            warnings.append("Layers that take their size from the first batch are not counted.")
        return ModelCheck(
            **_parameter_counts(_known_parameters(model)),
            layers=tuple(_layer_rows(model, {})),
            has_metrics=has_metrics,
            warnings=tuple(warnings),
        ).to_dict()
    if needs_first_batch(model):
        report("Passing the first batch to the model…")
        materialize(model, data, target)
        require_shapes(model)
    require_restorable(model)
    check = _run_step(model, data, target, has_metrics, report, class_names(dataset.user_dataset))
    warnings = [
        f"“{name}” of the loader is its own random generator: its state is in no checkpoint, and "
        "a resumed job draws other numbers. Use random, numpy.random or torch instead."
        for name in used_generators
    ]
    warnings += dataset.reading_notes()
    return replace(check, warnings=(*check.warnings, *warnings)).to_dict()


def _first_batch(request: Mapping[str, Any]) -> tuple[UserData, Any, Any, list[str]]:
    """Return the dataset, data and target of its first batch, and its generators that were used."""
    dataset = load_loader(Path(request["loader"])).training(Path(request["dataset"]))
    dataset.weights()
    size = min(len(dataset), int(request.get("batch_size", 4)))
    previous_states = _generator_states(dataset.user_dataset)
    data, target = split_batch(dataset.collate([dataset[index] for index in range(size)]))
    return (
        dataset,
        data,
        target,
        _changed_names(previous_states, _generator_states(dataset.user_dataset)),
    )


def _run_step(
    model: torch.nn.Module,
    data: Any,
    target: Any,
    has_metrics: bool,
    report: tool_protocol.Report,
    classes: Sequence[str],
) -> ModelCheck:
    import torch

    from backend.training.optimizer import make_user_optimizer, trained_parameters

    model.train()
    outputs: dict[str, str] = {}
    hooks = [
        module.register_forward_hook(_shape_hook(outputs, name))
        for name, module in list(model.named_modules())[:_MOST_LAYERS]
        # Compiled to TorchScript, a module accepts no hooks.
        if name and not isinstance(module, torch.jit.ScriptModule)
    ]
    report("Running the model's forward…")
    started_s = time.perf_counter()
    shapes, previous_state = state_shapes(model), _unsaved_state(model)
    output = compute_output(model, data)
    require_same_state(model, shapes)
    for hook in hooks:
        hook.remove()
    report("Computing the model's loss…")
    loss = compute_loss(model, output, target)
    forward_ms = (time.perf_counter() - started_s) * 1000
    report("Running the backward pass…")
    started_s = time.perf_counter()
    with calling("The backward of the model's loss"):
        torch.autograd.backward(loss)
    if callable(user_function := getattr(type(model), "optimizer", None)):
        report("Making the model's optimizer…")
        make_user_optimizer(model, user_function, trained_parameters(model), _RATE)
    backward_ms = (time.perf_counter() - started_s) * 1000
    report("Computing the model's metrics…")
    metrics = compute_metrics(model, output, target)
    warnings = (
        *_warnings(model, loss, metrics, _changed_names(previous_state, _unsaved_state(model))),
        *_unpredictable_classes(output, target, classes),
    )
    return ModelCheck(
        **_parameter_counts(model.parameters()),
        layers=tuple(_layer_rows(model, outputs)),
        loss=loss.item() if math.isfinite(loss.item()) else None,
        metrics=metrics,
        batch=shape_of((data, target)),
        output_shape=shape_of(output),
        forward_ms=forward_ms,
        backward_ms=backward_ms,
        activation_bytes=_activation_bytes(model, data, target),
        has_metrics=has_metrics,
        warnings=warnings,
    )


def _shape_hook(outputs: dict[str, str], name: str) -> Any:
    def hook(module: torch.nn.Module, inputs: object, output: object) -> None:
        outputs[name] = shape_of(output)

    return hook


def _activation_bytes(model: torch.nn.Module, data: Any, target: Any) -> int | None:
    """Return what a step keeps of a sample for its backward pass; None if it is not known.

    A pass of its own: with the hooks, autograd does not notice a change in place, and torch.func
    refuses them.
    """
    from backend.training.saved_tensors import SavedTensors

    first_tensor = next((tensor for tensor in _tensors(data) if tensor.ndim and len(tensor)), None)
    if first_tensor is None:
        return None
    try:
        with SavedTensors(model) as saved_tensors:
            # The loss keeps the graph, and the graph the tensors, until they are added up.
            loss = compute_loss(model, compute_output(model, data), target)
        del loss
    except Exception as error:  # noqa: BLE001 - code of a user, which has run once without an error
        swallowed(error)
        return None
    return saved_tensors.bytes // len(first_tensor)


def _tensors(values: object) -> Iterator[torch.Tensor]:
    import torch
    from torch.utils._pytree import tree_leaves

    return (leaf for leaf in tree_leaves(values) if isinstance(leaf, torch.Tensor))


def _warnings(
    model: torch.nn.Module,
    loss: torch.Tensor,
    metrics: Mapping[str, float],
    unsaved_names: Sequence[str],
) -> Iterator[str]:
    import torch

    if not math.isfinite(loss.item()):
        yield (
            f"The loss of the first batch is {loss.item()}. Check the data for such values, and "
            "the loss for logarithms and divisions by zero."
        )
    idle_names = [n for n, p in model.named_parameters() if p.requires_grad and p.grad is None]
    if idle_names:
        yield (
            f"{len(idle_names)} parameters got no gradient ({name_list(idle_names)}); training "
            "will not change them."
        )
    bad_names = [
        name
        for name, parameter in model.named_parameters()
        if parameter.grad is not None and not torch.isfinite(parameter.grad).all()
    ]
    if bad_names and math.isfinite(loss.item()):
        yield f"The gradient of {bad_names[0]} contains NaN or infinite values."
    for name, value in metrics.items():
        if not math.isfinite(value):
            yield f"The metric “{name}” is {value} for the first batch."
    for name in unsaved_names:
        yield (
            f"“{name}” of the model changes during training and is in no checkpoint: a resumed "
            "job begins with its first value. Make it a buffer, or use get_extra_state."
        )


def _unpredictable_classes(output: Any, target: Any, classes: Sequence[str]) -> Iterator[str]:
    """Yield a warning if the dataset has classes for which the output has no place."""
    import torch

    is_scored = isinstance(output, torch.Tensor) and isinstance(target, torch.Tensor)
    if not is_scored or output.ndim < 2 or target.ndim != 1 or target.is_floating_point():
        return
    if 1 < output.shape[1] < len(classes):
        yield (
            f"The dataset has {len(classes)} classes, but the model's output is for "
            f"{output.shape[1]}: {name_list(classes[output.shape[1] :])} cannot be predicted."
        )


def _known_parameters(model: torch.nn.Module) -> Iterator[torch.nn.Parameter]:
    from torch.nn.parameter import is_lazy

    return (parameter for parameter in model.parameters() if not is_lazy(parameter))


def _parameter_counts(parameters: Iterable[torch.nn.Parameter]) -> _ParameterCounts:
    counted_parameters = list(parameters)
    return {
        "parameters": sum(p.numel() for p in counted_parameters),
        "trainable_parameters": sum(p.numel() for p in counted_parameters if p.requires_grad),
        "parameter_bytes": sum(p.numel() * p.element_size() for p in counted_parameters),
    }


def _layer_rows(model: torch.nn.Module, outputs: Mapping[str, str]) -> Iterator[LayerRow]:
    """Yield modules that hold parameters themselves or have no parts. A parameter counts once."""
    layers = [layer for layer in layer_modules(model) if layer.is_layer]
    for name, module, parameters, _ in layers[:_MOST_LAYERS]:
        count = sum(parameter.numel() for parameter in parameters)
        yield LayerRow(name, type(module).__name__, count, outputs.get(name, ""))


def _unsaved_state(model: torch.nn.Module) -> dict[str, bytes]:
    """Return attributes of the user's modules, by name, except parameters, buffers and modules.

    torch does not save them, so a resumed job lacks what a step changes in them. Attributes of a
    module are saved if it defines ``get_extra_state`` (torch.nn.Module.get_extra_state).
    """
    import torch

    torch_names = vars(torch.nn.Module()).keys()
    state: dict[str, bytes] = {}
    for path, module in model.named_modules():
        module_type = type(module)
        has_extra_state = module_type.get_extra_state is not torch.nn.Module.get_extra_state
        if has_extra_state or module_type.__module__.partition(".")[0] in ("torch", "keras"):
            continue
        # A counter often begins as an attribute of the class.
        class_values = {n: v for n, v in vars(module_type).items() if isinstance(v, (int, float))}
        for name, value in {**class_values, **vars(module)}.items():
            if name not in torch_names and not name.startswith("__"):
                _add_state(state, f"{path}.{name}" if path else name, value)
    return state


def _generator_states(user_dataset: object) -> dict[str, bytes]:
    """Return the states of a dataset's own random generators, by name."""
    import torch

    states: dict[str, bytes] = {}
    for name, value in getattr(user_dataset, "__dict__", {}).items():
        if isinstance(value, (*_GENERATORS, torch.Generator)):
            _add_state(states, name, value)
    return states


def _changed_names(previous_states: dict[str, bytes], states: dict[str, bytes]) -> list[str]:
    return [name for name, state in previous_states.items() if states.get(name, state) != state]


def _add_state(states: dict[str, bytes], name: str, value: Any) -> None:
    import torch

    if isinstance(value, torch.Generator):
        value = value.get_state()
    if isinstance(value, torch.Tensor):
        # Computed again in each forward pass: not state.
        if value.requires_grad:
            return
        value = value.detach().cpu()
    try:
        states[name] = pickle.dumps(value)
    except Exception:  # noqa: BLE001 - a user's object may refuse in any way; then nothing is claimed
        return


if __name__ == "__main__":
    tool_protocol.main(check_model)
