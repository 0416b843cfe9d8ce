"""The layers of a model: shapes, parameters, multiply-adds, memory, and which reads which.

One forward pass of a small batch gives all of it. Hooks on the modules note shapes, torch's counter
of floating-point operations gives the multiply-adds, and every call into torch hands on from which
layers its tensors came. A symbolic trace would run the forward once more, with objects that are no
tensors, and fails at each ``if`` on a value; this does not.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import torch
import torch.nn.attention
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode
from torch.utils.weak import WeakTensorKeyDictionary

from backend.records.library.layers import Layer, ModelLayers
from backend.training.tools import protocol as tool_protocol
from backend.training.tools.inspected_model import (
    LayerModule,
    layer_modules,
    model_batch,
    prepare_process,
)
from backend.training.user_code import UserCodeError, compute_output, is_out_of_memory

_SAMPLE_LIMIT = 4
"""Larger batches are computed from this one, because loading them takes long."""
_INPUT_LIMIT = 64
_NOT_COUNTED = (
    "The multiply-adds could not be counted, and the layers are shown in the order in which they "
    "ran: the model's forward does not run under PyTorch's counter."
)


def layers(request: Mapping[str, Any], report: tool_protocol.Report) -> dict[str, Any]:
    """``model``, ``loader``, ``dataset``; optional ``batch_size`` (1)."""
    batch_size = int(request.get("batch_size", 1))
    batch = model_batch(request, report, min(batch_size, _SAMPLE_LIMIT))
    report("Running the model's forward…")
    return model_layers(batch.model, batch.data, batch.samples).of_batch(batch_size).to_dict()


def model_layers(model: torch.nn.Module, data: Any, samples: int) -> ModelLayers:
    """Return the layers of a model, from one forward pass of a batch of ``samples``."""
    with evaluating_step_by_step(model):
        records, is_counted = _observe_pass(model, data)
    return ModelLayers(
        batch_size=samples,
        layers=tuple(_layer_rows(records, samples, is_counted)),
        warnings=() if is_counted else (_NOT_COUNTED,),
    )


@contextlib.contextmanager
def evaluating_step_by_step(model: torch.nn.Module) -> Iterator[None]:
    """Evaluate a model step by step: nothing is fused into one operation."""
    had_fast_path, had_fused_layers = (
        torch.backends.mha.get_fastpath_enabled(),
        torch._C._get_mkldnn_enabled(),
    )
    torch.backends.mha.set_fastpath_enabled(False)
    if any(isinstance(module, torch.nn.RNNBase) for module in model.modules()):
        # The counter knows no fused LSTM. The public context manager warns at each use.
        torch._C._set_mkldnn_enabled(False)
    model.eval()
    try:
        with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(had_fast_path)
        torch._C._set_mkldnn_enabled(had_fused_layers)


def tensors_in(*values: Any) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(values) if isinstance(leaf, torch.Tensor)]


@dataclass
class _LayerRecord:
    """Observations of a module in a forward pass. ``order`` is None if it was not called."""

    index: int
    module: LayerModule
    order: int | None = None
    shape: tuple[int, ...] | None = None
    bytes: int = 0
    flops: int = 0
    is_node: bool = False
    """None of its parts ran in it, or it joined the outputs of several."""
    inputs: set[int] = field(default_factory=set)


@dataclass
class _Call:
    index: int
    flops: int
    sources: set[int]
    inner_flops: int = 0
    has_inner: bool = False


class _Trace(TorchFunctionMode):
    """Hand on with every tensor by which layers it was computed."""

    def __init__(self, modules: Sequence[LayerModule]) -> None:
        super().__init__()
        self._sources: MutableMapping[torch.Tensor, set[int]] = WeakTensorKeyDictionary()
        for index, layer in enumerate(modules):
            for parameter in layer.parameters if layer.has_parts else ():
                self._sources[parameter] = {index}

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        output = func(*args, **(kwargs or {}))
        # Assigning to a part of a tensor returns nothing.
        changed_tensors = tensors_in(output) or tensors_in(args)[:1]
        if changed_tensors and (sources := self.sources_of(tensors_in(args, kwargs))):
            self.set_sources(changed_tensors, sources)
        return output

    def sources_of(self, tensors: Iterable[torch.Tensor]) -> set[int]:
        return set().union(*(self._sources.get(tensor, ()) for tensor in tensors))

    def set_sources(self, tensors: Iterable[torch.Tensor], sources: set[int]) -> None:
        for tensor in tensors:
            self._sources[tensor] = sources


class _Hooks:
    """Hooks on all modules, which fill a `_LayerRecord` for each."""

    def __init__(
        self, modules: Sequence[LayerModule], trace: _Trace | None, flops: Callable[[], int]
    ) -> None:
        self.records = [_LayerRecord(index, layer) for index, layer in enumerate(modules)]
        self._trace = trace
        self._flops = flops
        self._calls: list[_Call] = []
        self._handles: list[Any] = []
        self._count = 0

    def __enter__(self) -> _Hooks:
        for index, record in enumerate(self.records):
            module = record.module.module
            # Compiled to TorchScript, a module accepts no hooks.
            if not isinstance(module, torch.jit.ScriptModule):
                self._handles += (
                    module.register_forward_pre_hook(self._pre_hook(index), with_kwargs=True),
                    module.register_forward_hook(self._post_hook(index)),
                )
        return self

    def __exit__(self, *error: object) -> None:
        for handle in self._handles:
            handle.remove()

    def _pre_hook(self, index: int) -> Callable[..., None]:
        def hook(_module: object, args: Any, kwargs: Any) -> None:
            record = self.records[index]
            if record.order is None:
                record.order, self._count = self._count, self._count + 1
            sources = self._trace.sources_of(tensors_in(args, kwargs)) if self._trace else set()
            self._calls.append(_Call(index, self._flops(), sources))

        return hook

    def _post_hook(self, index: int) -> Callable[..., None]:
        def hook(_module: object, _args: object, output: Any) -> None:
            call = self._calls.pop()
            # The forward may have caught an error of a part, whose call then has no end.
            while call.index != index:
                call = self._calls.pop()
            self._record_call(call, tensors_in(output))

        return hook

    def _record_call(self, call: _Call, outputs: Sequence[torch.Tensor]) -> None:
        record = self.records[call.index]
        total = self._flops() - call.flops
        record.flops += total - call.inner_flops
        record.shape = tuple(outputs[0].shape) if outputs else ()
        sources = self._trace.sources_of(outputs) if self._trace else set()
        # A residual block adds its parts up. Without this the next block would read all before.
        joins_layers = call.index > 0 and len(sources) > 1 and call.index not in sources
        if joins_layers or not call.has_inner:
            record.is_node = True
            record.bytes += sum(tensor.numel() * tensor.element_size() for tensor in outputs)
            record.inputs |= sources if call.has_inner else call.sources | sources
            if self._trace is not None:
                self._trace.set_sources(outputs, {call.index})
        if self._calls:
            self._calls[-1].inner_flops += total
            self._calls[-1].has_inner = True


def _observe_pass(model: torch.nn.Module, data: Any) -> tuple[list[_LayerRecord], bool]:
    """Return what one forward pass shows; False if it does not run under the counter."""
    modules = layer_modules(model)
    counter = FlopCounterMode(display=False)
    try:
        with (
            torch.no_grad(),
            counter,
            _Trace(modules) as trace,
            _Hooks(modules, trace, counter.get_total_flops) as hooks,
        ):
            output = model(data)
        is_counted = True
    except Exception as error:
        if is_out_of_memory(error):
            raise
        is_counted = False
        with torch.no_grad(), _Hooks(modules, None, lambda: 0) as hooks:
            output = compute_output(model, data)
        _connect_chain(hooks.records)
    if output is None:
        raise UserCodeError(
            "The model's forward returns nothing (None).", "Return its output from forward."
        )
    return hooks.records, is_counted


def _connect_chain(records: Sequence[_LayerRecord]) -> None:
    """Let each layer read the one that ran before it."""
    node_indices = [n for n, record in enumerate(records) if record.is_node]
    node_indices.sort(key=lambda number: records[number].order or 0)
    for previous_index, next_index in pairwise(node_indices):
        records[next_index].inputs = {previous_index}


def _layer_rows(records: Sequence[_LayerRecord], samples: int, is_counted: bool) -> Iterator[Layer]:
    """Yield the layers in the order of the forward pass, then those that it did not call."""
    for record in sorted(records, key=lambda record: (record.order is None, record.order or 0)):
        name, module, parameters, _ = record.module
        if not (record.module.is_layer or record.is_node or record.flops):
            continue
        inputs = sorted(record.inputs - {record.index})[:_INPUT_LIMIT]
        yield Layer(
            name=name,
            kind=type(module).__name__,
            output_shape=record.shape,
            parameters=sum(parameter.numel() for parameter in parameters),
            multiply_adds=round(record.flops / 2 / samples) if is_counted else None,
            activation_bytes=record.bytes,
            is_trained=any(parameter.requires_grad for parameter in parameters),
            inputs=tuple(records[number].module.name for number in inputs),
        )


if __name__ == "__main__":
    prepare_process()
    tool_protocol.main(layers)
