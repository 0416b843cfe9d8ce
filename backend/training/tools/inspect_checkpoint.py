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
from backend.training.tools import protocol as tool_protocol
from backend.training.tools.histogram import ChannelSpread
from backend.training.tools.inspected_model import layer_modules, model_batch, prepare_process
from backend.training.tools.layers import evaluating_step_by_step, tensors_in
from backend.training.tools.thumbnails import (
    PART_LIMIT,
    as_array,
    display_part,
    leaves_of,
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
from backend.training.weights_file import fit_weights, load_weights

_ROW_LIMIT = 2000
_MAP_LIMIT, _MAPS_PER_LAYER = 400, 6
_CHUNK_VALUES = 2**20
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
    other_weights: dict[str, torch.Tensor] = {}
    if request.get("against"):
        report("Reading the other checkpoint…")
        _load(model, Path(request["against"]))
        other_weights = {
            name: parameter.detach().clone() for name, parameter in model.named_parameters()
        }
    report("Reading the checkpoint…")
    _load(model, Path(request["checkpoint"]))
    report(f"Passing sample {number_format.count(sample)} through the layers…")
    item = batch.dataset[sample]
    data, target = split_batch(batch.dataset.collate([item]))
    with evaluating_step_by_step(model):
        sample_pass = _SamplePass(model, data)
    report("Computing the gradients of a batch…")
    loss, warnings = _compute_gradients(model, batch.data, batch.target)
    return CheckpointInspection(
        sample=sample,
        target=target_text(target, []),
        data=tuple(display_part(*leaf) for leaf in leaves_of(data_of(item))[:PART_LIMIT]),
        top_output=sample_pass.top_output,
        loss=loss,
        weights=tuple(_weight_rows(model, other_weights, report)),
        activations=tuple(sample_pass.rows),
        saliency=tuple(sample_pass.saliency),
        warnings=(*sample_pass.warnings, *warnings),
    ).to_dict()


def data_of(item: Any) -> Any:
    """Return the data of an item, which is a pair of data and target unless the user collates."""
    return item[0] if isinstance(item, (tuple, list)) and len(item) == 2 else item


def _load(model: torch.nn.Module, path: Path) -> None:
    fit_weights(model, load_weights(path), path.stem)


def tensor_values(tensor: torch.Tensor) -> TensorValues:
    """Return the distribution of the numbers in a tensor."""
    array = as_array(tensor)
    assert array is not None
    vector = (numpy.abs(array) if array.dtype.kind == "c" else array).reshape(-1)
    spread, zeros = ChannelSpread(), 0
    for start in range(0, vector.size, _CHUNK_VALUES):
        chunk = vector[start : start + _CHUNK_VALUES]
        zeros += int((chunk == 0).sum())
        spread.add(chunk)
    return TensorValues(vector.size, zeros, spread.result("", 0))


def _weight_rows(
    model: torch.nn.Module, other_weights: Mapping[str, torch.Tensor], report: tool_protocol.Report
) -> Iterator[WeightRow]:
    parameters = list(model.named_parameters())[:_ROW_LIMIT]
    for number, (name, parameter) in enumerate(parameters):
        report(
            f"Reading weight {number_format.count_of(number + 1, len(parameters))}",
            number,
            len(parameters),
        )
        value = parameter.detach()
        yield WeightRow(
            name,
            tuple(parameter.shape),
            parameter.requires_grad,
            tensor_values(value),
            tensor_values(value - other_weights[name]) if name in other_weights else None,
            None if parameter.grad is None else tensor_values(parameter.grad),
        )


def _compute_gradients(
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


class _SamplePass:
    """One sample passed through the layers, and where its largest output comes from."""

    def __init__(self, model: torch.nn.Module, data: Any) -> None:
        self.rows: list[ActivationRow] = []
        self.saliency: list[SaliencyMap] = []
        self.warnings: list[str] = []
        self.top_output: int | None = None
        self._map_count = 0
        self._convolution: tuple[str, torch.Tensor] | None = None
        handles = [
            element.module.register_forward_hook(self._layer_hook(element.name, element.module))
            for element in layer_modules(model)
            if not element.has_parts and not isinstance(element.module, torch.jit.ScriptModule)
        ]
        inputs = [
            element for element in tensors_in(data) if element.is_floating_point() and element.ndim
        ]
        for element in inputs:
            element.requires_grad_()
        # A model may change its input in place, which only copies allow.
        data_copy = tree_map_only(torch.Tensor, torch.clone, data)
        try:
            outputs = [
                element
                for element in tensors_in(compute_output(model, data_copy))
                if element.is_floating_point()
            ]
        finally:
            for handle in handles:
                handle.remove()
        if not outputs:
            self.warnings.append("There is no saliency: the output holds no floating-point number.")
            return
        try:
            self._add_saliency(outputs[0], inputs)
        except RuntimeError as error:
            self.warnings.append(f"There is no saliency: {str(error).splitlines()[0]}")

    def _layer_hook(self, name: str, module: torch.nn.Module) -> Callable[..., None]:
        def hook(_module: object, _inputs: object, output: Any) -> None:
            tensors = tensors_in(output)
            if not tensors:
                return
            if isinstance(module, torch.nn.Conv2d) and tensors[0].ndim == 4:
                self._convolution = name, tensors[0]
            if len(self.rows) < _ROW_LIMIT:
                value = tensors[0].detach()
                maps = tuple(self._feature_maps(value))
                self.rows.append(
                    ActivationRow(
                        name, type(module).__name__, tuple(value.shape), tensor_values(value), maps
                    )
                )

        return hook

    def _feature_maps(self, value: torch.Tensor) -> Iterator[SamplePart]:
        if value.ndim != 4 or min(value.shape[2:]) < 2 or not value.is_floating_point():
            return
        for number in range(min(value.shape[1], _MAPS_PER_LAYER, _MAP_LIMIT - self._map_count)):
            self._map_count += 1
            yield _picture(f"[{number}]", value[0, number])

    def _add_saliency(self, output: torch.Tensor, inputs: list[torch.Tensor]) -> None:
        flat_output = output.reshape(-1)  # All of it is of one sample, in any form.
        self.top_output = int(flat_output.argmax())
        convolution = self._convolution
        sources = [*inputs, *([convolution[1]] if convolution else [])]
        gradients = torch.autograd.grad(flat_output[self.top_output], sources, allow_unused=True)
        for gradient in gradients[: len(inputs)]:
            if gradient is not None:
                self.saliency.append(SaliencyMap(_GRADIENT, _saliency(gradient[0].abs())))
        if convolution is not None and gradients[-1] is not None:
            name, activation = convolution
            channel_weights = gradients[-1].mean((2, 3), keepdim=True)
            heat_map = (channel_weights * activation.detach()).sum(1, keepdim=True).relu()
            if inputs and inputs[0].ndim == 4:
                size = inputs[0].shape[2:]
                heat_map = torch.nn.functional.interpolate(heat_map, size, mode="bilinear")
            self.saliency.append(
                SaliencyMap(_GRAD_CAM.format(name), _picture("Grad-CAM", heat_map[0, 0]))
            )
        if not self.saliency:
            self.warnings.append("There is no saliency: the output does not depend on the data.")


def _saliency(size: torch.Tensor) -> SamplePart:
    layout = picture_layout(tuple(size.shape))
    if layout in ("CHW", "HWC"):
        return _picture("data", size.amax(0 if layout == "CHW" else 2))
    return display_part("data", size)


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
