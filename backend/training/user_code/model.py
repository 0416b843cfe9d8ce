"""The user's ``bks_model.py``: building the model, calling it, and its requirements."""

from __future__ import annotations

import functools
import io
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from backend.records.base.number_format import name_list
from backend.training.user_code.errors import (
    FORWARD,
    LOSS,
    UserCodeError,
    calling,
    describe,
    with_article,
)
from backend.training.user_code.importing import import_entry

if TYPE_CHECKING:
    import torch

MODEL_FILE = "bks_model.py"


def load_model(folder: Path) -> torch.nn.Module:
    """Return the user's model, built on the CPU. Seed before: weights are drawn here.

    Its parameters may not exist before the first batch; see `needs_first_batch`.

    Raises:
        UserCodeError: It cannot be loaded or built, or does not meet the requirements.
    """
    import torch

    source, module = import_entry(folder, MODEL_FILE, "model")
    user_class = getattr(module, "UserModel", None)
    if user_class is None:
        raise UserCodeError(
            f"{MODEL_FILE} defines no UserModel.",
            "Name the model's class UserModel: class UserModel(torch.nn.Module).",
        )
    if not (isinstance(user_class, type) and issubclass(user_class, torch.nn.Module)):
        is_keras = isinstance(user_class, type) and any(
            base.__module__.partition(".")[0] == "keras" for base in user_class.__mro__
        )
        raise UserCodeError(
            f"UserModel in {MODEL_FILE} is not a torch.nn.Module.",
            "Keras uses another backend here; start with KERAS_BACKEND=torch."
            if is_keras
            else "Write class UserModel(torch.nn.Module).",
        )
    with calling("UserModel()", source):
        model = user_class()
    if not isinstance(model, torch.nn.Module):
        raise UserCodeError(f"UserModel() creates a {type(model).__name__}, not a torch.nn.Module.")
    _loss_of(model)
    return model


def _loss_of(model: torch.nn.Module) -> Callable[[Any, Any], Any]:
    """Return the model's ``loss``: a method, or a module that its ``__init__`` set."""
    loss: Any = getattr(model, "loss", None)
    model_class: Any = type(model)
    if loss is None and callable(getattr(model_class, "loss", None)):
        # Keras sets an attribute of this name to None in __init__, over the user's method.
        loss = functools.partial(model_class.loss, model)
    if not callable(loss):
        raise UserCodeError(
            "UserModel has no method loss.",
            "Add def loss(self, output, target) and return one number as a tensor.",
        )
    return cast("Callable[[Any, Any], Any]", loss)


def needs_first_batch(model: torch.nn.Module) -> bool:
    """Return whether the first forward creates parameters: Keras, and torch's lazy layers."""
    if getattr(model, "built", True) is False:
        return True
    return bool(_lazy_modules(model))


def materialize(model: torch.nn.Module, data: Any, target: Any = None) -> None:
    """Run forwards without changes to statistics and random states; see `needs_first_batch`.

    Run one forward in evaluation mode; and others as in training, where some layers are still
    without a shape: parts that only training, only the loss, or only every second step calls.
    """
    import torch

    was_training = model.training
    # Attributes that Keras has not built must not be read before.
    lazy_modules = _lazy_modules(model) if getattr(model, "built", True) else []
    named_buffers = model.named_buffers() if lazy_modules else ()
    buffers = {name: buffer.clone() for name, buffer in named_buffers if not _is_lazy(buffer)}
    attributes = [(module, _plain_attributes(module)) for module in model.modules() if lazy_modules]
    model.eval()
    try:
        with torch.no_grad(), torch.random.fork_rng():
            with calling(FORWARD):
                model(data)
            for _ in range(_MAX_STEPS if lazy_modules else 0):
                if not _lazy_modules(model):
                    break
                model.train()
                with calling(FORWARD):
                    output = model(data)
                if target is not None:
                    compute_loss(model, output, target)
            for name, buffer in model.named_buffers() if lazy_modules else ():
                if name in buffers and buffer.shape == buffers[name].shape:
                    buffer.copy_(buffers[name])
    finally:
        model.train(was_training)
    for module, values in attributes:
        vars(module).update(values)
    still_lazy = _lazy_modules(model) if lazy_modules else []
    for module in lazy_modules:
        if module in still_lazy:
            continue
        if callable(reset := getattr(module, "reset_running_stats", None)):
            reset()
    # Keras creates a layer's container of parameters when they are read, and with it new keys of
    # the state; read here, the keys are the same in every process.
    for module in list(model.modules()):
        list(module.parameters(recurse=False))


_MAX_STEPS = 4


def require_shapes(model: torch.nn.Module) -> None:
    """Refuse a model with parameters whose shape is not known after `materialize`.

    Raises:
        UserCodeError: There are such parameters.
    """
    tensors = [*model.named_parameters(), *model.named_buffers()]
    lazy_names = [name for name, tensor in tensors if _is_lazy(tensor)]
    if lazy_names:
        raise UserCodeError(
            "The first batch does not give these parameters a shape, in evaluation or in "
            f"{_MAX_STEPS} steps of training: {name_list(lazy_names)}.",
            "Use these layers in the first step, or build them with their sizes in "
            "UserModel.__init__, such as torch.nn.Linear in place of LazyLinear.",
        )


def _lazy_modules(model: torch.nn.Module) -> list[torch.nn.Module]:
    return [
        module
        for module in model.modules()
        if any(
            _is_lazy(tensor)
            for tensor in (*module.parameters(recurse=False), *module.buffers(recurse=False))
        )
    ]


def _is_lazy(tensor: torch.Tensor) -> bool:
    from torch.nn.parameter import is_lazy

    return bool(is_lazy(tensor))


def _plain_attributes(module: torch.nn.Module) -> dict[str, Any]:
    """Return the plain attributes of a module of the user, such as a counter of steps."""
    kinds = {kind.__module__.partition(".")[0] for kind in type(module).__mro__}
    if type(module).__module__.startswith("torch.") or "keras" in kinds:
        return {}
    return {
        name: value
        for name, value in vars(module).items()
        if isinstance(value, (int, float, str)) and name != "training"
    }


def state_shapes(model: torch.nn.Module) -> dict[str, tuple[int, ...]]:
    """Return names and shapes in the model's state dict; () for other values than tensors."""
    with calling("The model's state_dict"):
        return _shapes(model.state_dict())


def _shapes(state: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    return {name: tuple(value.shape) if _is_tensor(value) else () for name, value in state.items()}


def _is_tensor(value: Any) -> bool:
    import torch

    return isinstance(value, torch.Tensor)


def require_restorable(model: torch.nn.Module) -> None:
    """Refuse a model that does not load its own state dict: its checkpoints could not be resumed.

    Values that are no tensors, such as a module's extra state, go through a file.

    Raises:
        UserCodeError: Its ``load_state_dict`` refuses the result of its ``state_dict``.
    """
    with calling("The model's state_dict"):
        state = model.state_dict()
    _require_readable(state)
    state = {n: value if _is_plain(value) else _save_and_load(value) for n, value in state.items()}
    try:
        model.load_state_dict(state)
    except Exception as error:
        raise UserCodeError(
            f"The model's load_state_dict refuses the result of its state_dict: {describe(error)}.",
            "Let state_dict return all that load_state_dict needs, or give the model a "
            "load_state_dict that accepts a part; otherwise no checkpoint could be resumed.",
        ) from error


def require_same_state(model: torch.nn.Module, built_shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Refuse a model whose state dict differs from that at its creation.

    Args:
        built_shapes: `state_shapes` at its creation, as in the model of a resumed job.

    Raises:
        UserCodeError: A name was added or removed, or has another shape; or an entry could not be
            read from a checkpoint.
    """
    with calling("The model's state_dict"):
        state = model.state_dict()
    current_shapes = _shapes(state)
    changed_names = [
        name
        for name in {**built_shapes, **current_shapes}
        if built_shapes.get(name) != current_shapes.get(name)
    ]
    if changed_names:
        raise UserCodeError(
            "Training changed the names or shapes in the model's state_dict: "
            f"{name_list(changed_names)}.",
            "Register buffers and parameters with their final shape in UserModel.__init__; a new "
            "model could not load the checkpoint otherwise. A layer that is trained later can be "
            "frozen until then: requires_grad_(False).",
        )
    _require_readable(state)


def _require_readable(state: Mapping[str, Any]) -> None:
    """Refuse a state dict that could not be read from a checkpoint, by writing and reading it."""
    unreadable_parts = [
        text
        for name, value in state.items()
        if not _is_plain(value)
        for text in _unreadable_parts(value, name)
    ]
    if unreadable_parts:
        raise UserCodeError(
            "A checkpoint cannot hold a part of the model's state_dict: "
            f"{name_list(unreadable_parts)}.",
            "Let get_extra_state return a dict of tensors, numbers and text: torch.from_numpy(…) "
            "of an array, .item() of one number, str(…) of a path or a date.",
        )


def _is_plain(value: Any) -> bool:
    import torch

    return type(value) in (torch.Tensor, torch.nn.Parameter)


def _unreadable_parts(value: Any, path: str) -> Iterator[str]:
    """Yield the innermost parts of a value that do not come back from a file, with their types."""
    try:
        _save_and_load(value)
    except Exception:  # noqa: BLE001 - pickle calls user code, which may raise anything
        parts: Iterable[tuple[Any, Any]] = ()
        if isinstance(value, Mapping):
            parts = value.items()
        elif isinstance(value, (list, tuple)):
            parts = enumerate(value)
        parts_found = [
            text for key, part in parts for text in _unreadable_parts(part, f"{path}[{key!r}]")
        ]
        kind = type(value)
        name = kind.__qualname__ if kind.__module__ == "builtins" else _full_name(kind)
        yield from parts_found or [f"{path} ({name})"]


def _full_name(kind: type) -> str:
    return f"{kind.__module__.rpartition('.')[2]}.{kind.__qualname__}"


def _save_and_load(value: Any) -> Any:
    import torch

    file = io.BytesIO()
    torch.save(_to_saved_types(value), file)
    file.seek(0)
    return torch.load(file, map_location="cpu", weights_only=True)


def _to_saved_types(value: Any) -> Any:
    """Return a value in the types that it has in a checkpoint; see `Checkpointer`."""
    if isinstance(value, Mapping):
        return {key: _to_saved_types(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        parts = [_to_saved_types(part) for part in value]
        return tuple(parts) if isinstance(value, tuple) else parts
    return value


def compute_output(model: torch.nn.Module, data: Any) -> Any:
    with calling(FORWARD):
        return model(data)


class WeightedMean(float):
    """Loss or metric that is a sum over a weight, such as the weight of the classes in a batch."""

    weight: float

    @classmethod
    def with_weight(cls, value: float, weight: float) -> WeightedMean:
        """Return a mean with its weight; without a weight, 0, which does not count."""
        mean = cls(value if weight else 0.0)
        mean.weight = weight
        return mean


def compute_loss(model: torch.nn.Module, output: Any, target: Any) -> torch.Tensor:
    """Return the loss of a batch, after a check that it is one number that can be trained on."""
    return compute_weighted_loss(model, output, target)[0]


def compute_weighted_loss(
    model: torch.nn.Module, output: Any, target: Any
) -> tuple[torch.Tensor, float | None]:
    """Return the loss of a batch, and its weight if ``model.loss`` returns ``(sum, weight)``."""
    import torch

    loss_of = _loss_of(model)
    weight = None
    with calling(LOSS):
        loss = loss_of(output, target)
        if isinstance(loss, tuple) and len(loss) == 2:
            total, given_weight = loss
            weight = _number("weight of the loss", given_weight)
            loss = total / given_weight if weight else total
    if not isinstance(loss, torch.Tensor):
        raise UserCodeError(
            f"The model's loss returns {with_article(type(loss).__name__)}, not a tensor.",
            "Return the tensor itself, not its .item().",
        )
    if loss.numel() != 1:
        raise UserCodeError(
            f"The model's loss returns {tuple(loss.shape)} numbers, but must return one.",
            "Take the mean: return loss.mean().",
        )
    if torch.is_grad_enabled() and not loss.requires_grad:
        raise UserCodeError(
            "The model's loss does not depend on any parameter that is trained.",
            "Compute it from the output without .item(), .detach() or torch.no_grad().",
        )
    return loss.reshape(()), weight


def compute_metrics(model: torch.nn.Module, output: Any, target: Any) -> dict[str, float]:
    """Return the result of the model's ``metrics`` as numbers; empty if it has none."""
    import torch

    metrics_of = getattr(model, "metrics", None)
    # Keras has a property of this name, a list.
    if not callable(metrics_of):
        return {}
    with torch.no_grad(), calling("The model's metrics"):
        metrics = metrics_of(output, target)
    if metrics is None:
        return {}
    if not isinstance(metrics, Mapping):
        raise UserCodeError(
            f"The model's metrics returns {with_article(type(metrics).__name__)}, not a dict.",
            'Return a dict of numbers: {"accuracy": accuracy}.',
        )
    return {str(name): _number(str(name), value) for name, value in metrics.items()}


def _number(name: str, value: Any) -> float:
    if isinstance(value, tuple) and len(value) == 2:
        total, weight = (_number(name, part) for part in value)
        return WeightedMean.with_weight(total / weight if weight else 0.0, weight)
    try:
        return float(value)
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        raise UserCodeError(
            f"The metric “{name}” is {with_article(type(value).__name__)}, not one number.",
            "Return a float or a tensor of one element.",
        ) from error
