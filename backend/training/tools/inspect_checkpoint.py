"""Look into a checkpoint: its weights, their gradients, and one sample on its way through them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy
import torch
from torch.utils._pytree import tree_map_only

from backend.base.errors import BackendError
from backend.records.base import number_format
from backend.records.library.inspection import (
    ActivationRow,
    CheckpointInspection,
    SaliencyMap,
    TensorValues,
    WeightRow,
)
from backend.records.library.preview import SamplePart
from backend.training.checkpoint import fit_weights, load_weights
from backend.training.tools import protocol as tool_protocol
from backend.training.tools.histogram import ChannelSpread
from backend.training.tools.layer_modules import layer_modules
from backend.training.tools.layers import step_by_step, tensors_in
from backend.training.tools.model_batch import model_batch, prepare_process
from backend.training.tools.thumbnails import (
    MOST_SHOWN,
    as_array,
    part,
    parts_of,
    picture,
    picture_layout,
    target_text,
    type_name,
)
from backend.training.user_code import (
    UserCodeError,
    compute_loss,
    compute_output,
    is_out_of_memory,
    split_batch,
)

_MOST_ROWS = 2000
_MOST_MAPS, _MAPS_OF_EACH = 400, 6
_PIECE = 2**20
_GRADIENT, _GRAD_CAM = "Input gradient", "Grad-CAM of {}"


def inspect_checkpoint(request: Mapping[str, Any], report: tool_protocol.Report) -> dict[str, Any]:
    """``model``, ``loader``, ``dataset``, ``checkpoint``, ``against`` (or ""), ``sample``.

    ``batch_size`` is that of the batch whose gradients are shown.
    """
    sample = int(request["sample"])
    batch = model_batch(request, report, int(request["batch_size"]))
    model = batch.model
    if sample >= len(batch.dataset):
        raise BackendError(
            f"There is no sample {number_format.count(sample)}: the training data has "
            f"{number_format.count(len(batch.dataset))}.",
            "They are numbered from 0.",
        )
    before: dict[str, torch.Tensor] = {}
    if request.get("against"):
        report("Reading the other checkpoint…")
        _load(model, Path(request["against"]))
        before = {name: one.detach().clone() for name, one in model.named_parameters()}
    report("Reading the checkpoint…")
    _load(model, Path(request["checkpoint"]))
    report(f"Passing sample {number_format.count(sample)} through the layers…")
    item = batch.dataset[sample]
    data, target = split_batch(batch.dataset.collate([item]))
    with step_by_step(model):
        passed = _Passed(model, data)
    report("Computing the gradients of a batch…")
    loss, warnings = _gradients(model, batch.data, batch.target)
    return CheckpointInspection(
        sample=sample,
        target=target_text(target, []),
        data=tuple(part(*leaf) for leaf in parts_of(data_of(item))[:MOST_SHOWN]),
        top_output=passed.top,
        loss=loss,
        weights=tuple(_weights(model, before, report)),
        activations=tuple(passed.rows),
        saliency=tuple(passed.saliency),
        warnings=(*passed.warnings, *warnings),
    ).to_dict()


def data_of(item: Any) -> Any:
    """Return the data of an item, which is a pair of data and target unless the user collates."""
    return item[0] if isinstance(item, (tuple, list)) and len(item) == 2 else item


def _load(model: torch.nn.Module, path: Path) -> None:
    fit_weights(model, load_weights(path), path.stem)


def values_of(tensor: torch.Tensor) -> TensorValues:
    """Return the distribution of the numbers in a tensor."""
    array = as_array(tensor)
    assert array is not None
    flat = (numpy.abs(array) if array.dtype.kind == "c" else array).reshape(-1)
    spread, zeros = ChannelSpread(), 0
    for begin in range(0, flat.size, _PIECE):
        piece = flat[begin : begin + _PIECE]
        zeros += int((piece == 0).sum())
        spread.add(piece)
    return TensorValues(flat.size, zeros, spread.result("", 0))


def _weights(
    model: torch.nn.Module, before: Mapping[str, torch.Tensor], report: tool_protocol.Report
) -> Iterator[WeightRow]:
    named = list(model.named_parameters())[:_MOST_ROWS]
    for number, (name, one) in enumerate(named):
        report(f"Reading weight {number_format.count_of(number + 1, len(named))}", number, len(named))
        value = one.detach()
        yield WeightRow(
            name,
            tuple(one.shape),
            one.requires_grad,
            values_of(value),
            values_of(value - before[name]) if name in before else None,
            None if one.grad is None else values_of(one.grad),
        )


def _gradients(
    model: torch.nn.Module, data: Any, target: Any
) -> tuple[float | None, tuple[str, ...]]:
    """Leave the gradients of a batch in the parameters; return its loss, and a warning if none."""
    model.train()
    model.zero_grad(set_to_none=True)
    try:
        loss = compute_loss(model, compute_output(model, data), target)
        torch.autograd.backward(loss)
    except (UserCodeError, RuntimeError) as error:
        if is_out_of_memory(error):
            raise
        return None, (f"There are no gradients: {error}",)
    return loss.item(), ()


class _Passed:
    """One sample passed through the layers, and where its largest output comes from."""

    def __init__(self, model: torch.nn.Module, data: Any) -> None:
        self.rows: list[ActivationRow] = []
        self.saliency: list[SaliencyMap] = []
        self.warnings: list[str] = []
        self.top: int | None = None
        self._maps = 0
        self._convolution: tuple[str, torch.Tensor] | None = None
        handles = [
            one.module.register_forward_hook(self._noter(one.name, one.module))
            for one in layer_modules(model)
            if not one.has_parts and not isinstance(one.module, torch.jit.ScriptModule)
        ]
        inputs = [one for one in tensors_in(data) if one.is_floating_point() and one.ndim]
        for one in inputs:
            one.requires_grad_()
        # A model may change its input in place, which only copies allow.
        given = tree_map_only(torch.Tensor, torch.clone, data)
        try:
            outputs = [
                one for one in tensors_in(compute_output(model, given)) if one.is_floating_point()
            ]
        finally:
            for handle in handles:
                handle.remove()
        if not outputs:
            self.warnings.append("There is no saliency: the output holds no floating-point number.")
            return
        try:
            self._explain(outputs[0], inputs)
        except RuntimeError as error:
            self.warnings.append(f"There is no saliency: {str(error).splitlines()[0]}")

    def _noter(self, name: str, module: torch.nn.Module) -> Callable[..., None]:
        def note(_module: object, _inputs: object, output: Any) -> None:
            found = tensors_in(output)
            if not found:
                return
            if isinstance(module, torch.nn.Conv2d) and found[0].ndim == 4:
                self._convolution = name, found[0]
            if len(self.rows) < _MOST_ROWS:
                value = found[0].detach()
                maps = tuple(self._feature_maps(value))
                self.rows.append(
                    ActivationRow(
                        name, type(module).__name__, tuple(value.shape), values_of(value), maps
                    )
                )

        return note

    def _feature_maps(self, value: torch.Tensor) -> Iterator[SamplePart]:
        if value.ndim != 4 or min(value.shape[2:]) < 2 or not value.is_floating_point():
            return
        for number in range(min(value.shape[1], _MAPS_OF_EACH, _MOST_MAPS - self._maps)):
            self._maps += 1
            yield _picture(f"[{number}]", value[0, number])

    def _explain(self, output: torch.Tensor, inputs: list[torch.Tensor]) -> None:
        flat = output.reshape(-1)  # All of it is of one sample, in any form.
        self.top = int(flat.argmax())
        convolution = self._convolution
        wanted = [*inputs, *([convolution[1]] if convolution else [])]
        found = torch.autograd.grad(flat[self.top], wanted, allow_unused=True)
        for gradient in found[: len(inputs)]:
            if gradient is not None:
                self.saliency.append(SaliencyMap(_GRADIENT, _saliency(gradient[0].abs())))
        if convolution is not None and found[-1] is not None:
            name, activation = convolution
            shares = found[-1].mean((2, 3), keepdim=True)
            seen = (shares * activation.detach()).sum(1, keepdim=True).relu()
            if inputs and inputs[0].ndim == 4:
                size = inputs[0].shape[2:]
                seen = torch.nn.functional.interpolate(seen, size, mode="bilinear")
            self.saliency.append(
                SaliencyMap(_GRAD_CAM.format(name), _picture("Grad-CAM", seen[0, 0]))
            )
        if not self.saliency:
            self.warnings.append("There is no saliency: the output does not depend on the data.")


def _saliency(size: torch.Tensor) -> SamplePart:
    layout = picture_layout(tuple(size.shape))
    if layout in ("CHW", "HWC"):
        return _picture("data", size.amax(0 if layout == "CHW" else 2))
    return part("data", size)


def _picture(path: str, value: torch.Tensor) -> SamplePart:
    """Return a picture of a table of numbers, from its lowest in black to its highest in white."""
    array = as_array(value)
    assert array is not None
    finite = array[numpy.isfinite(array)]
    low, high = (finite.min(), finite.max()) if finite.size else (0.0, 0.0)
    if high > low:
        array = (array - low) / (high - low)
    shape = tuple(value.shape)
    return SamplePart(path, shape, type_name(value), "image", png=picture(array, "HW"))


if __name__ == "__main__":
    prepare_process()
    tool_protocol.main(inspect_checkpoint)
