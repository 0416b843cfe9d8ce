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
from backend.training.tools.layer_modules import LayerModule, layer_modules
from backend.training.tools.model_batch import model_batch, prepare_process
from backend.training.user_code import UserCodeError, compute_output, is_out_of_memory

_MOST_SAMPLES = 4
"""Larger batches are computed from this one, because loading them takes long."""
_MOST_INPUTS = 64
_NOT_COUNTED = (
    "The multiply-adds could not be counted, and the layers are shown in the order in which they "
    "ran: the model's forward does not run under PyTorch's counter."
)


def layers(request: Mapping[str, Any], report: tool_protocol.Report) -> dict[str, Any]:
    """``model``, ``loader``, ``dataset``; optional ``batch_size`` (1)."""
    batch_size = int(request.get("batch_size", 1))
    batch = model_batch(request, report, min(batch_size, _MOST_SAMPLES))
    report("Running the model's forward…")
    return layers_of(batch.model, batch.data, batch.samples).of_batch(batch_size).to_dict()


def layers_of(model: torch.nn.Module, data: Any, samples: int) -> ModelLayers:
    """Return the layers of a model, from one forward pass of a batch of ``samples``."""
    with step_by_step(model):
        seen, is_counted = _observed(model, data)
    return ModelLayers(
        batch_size=samples,
        layers=tuple(_rows(seen, samples, is_counted)),
        warnings=() if is_counted else (_NOT_COUNTED,),
    )


@contextlib.contextmanager
def step_by_step(model: torch.nn.Module) -> Iterator[None]:
    """Evaluate a model step by step: nothing is fused into one operation."""
    fast, fused = torch.backends.mha.get_fastpath_enabled(), torch._C._get_mkldnn_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    if any(isinstance(one, torch.nn.RNNBase) for one in model.modules()):
        # The counter knows no fused LSTM. The public context manager warns at each use.
        torch._C._set_mkldnn_enabled(False)
    model.eval()
    try:
        with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)
        torch._C._set_mkldnn_enabled(fused)


def tensors_in(*values: Any) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(values) if isinstance(leaf, torch.Tensor)]


@dataclass
class _Seen:
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
        for index, one in enumerate(modules):
            for parameter in one.own if one.has_parts else ():
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
        changed = tensors_in(output) or tensors_in(args)[:1]
        if changed and (found := self.of(tensors_in(args, kwargs))):
            self.mark(changed, found)
        return output

    def of(self, tensors: Iterable[torch.Tensor]) -> set[int]:
        return set().union(*(self._sources.get(one, ()) for one in tensors))

    def mark(self, tensors: Iterable[torch.Tensor], sources: set[int]) -> None:
        for one in tensors:
            self._sources[one] = sources


class _Hooks:
    """Hooks on all modules, which fill a `_Seen` for each."""

    def __init__(
        self, modules: Sequence[LayerModule], trace: _Trace | None, flops: Callable[[], int]
    ) -> None:
        self.seen = [_Seen(index, one) for index, one in enumerate(modules)]
        self._trace = trace
        self._flops = flops
        self._calls: list[_Call] = []
        self._handles: list[Any] = []
        self._count = 0

    def __enter__(self) -> _Hooks:
        for index, one in enumerate(self.seen):
            module = one.module.module
            # Compiled to TorchScript, a module accepts no hooks.
            if not isinstance(module, torch.jit.ScriptModule):
                self._handles += (
                    module.register_forward_pre_hook(self._before(index), with_kwargs=True),
                    module.register_forward_hook(self._after(index)),
                )
        return self

    def __exit__(self, *error: object) -> None:
        for handle in self._handles:
            handle.remove()

    def _before(self, index: int) -> Callable[..., None]:
        def note(_module: object, args: Any, kwargs: Any) -> None:
            seen = self.seen[index]
            if seen.order is None:
                seen.order, self._count = self._count, self._count + 1
            found = self._trace.of(tensors_in(args, kwargs)) if self._trace else set()
            self._calls.append(_Call(index, self._flops(), found))

        return note

    def _after(self, index: int) -> Callable[..., None]:
        def note(_module: object, _args: object, output: Any) -> None:
            call = self._calls.pop()
            # The forward may have caught an error of a part, whose call then has no end.
            while call.index != index:
                call = self._calls.pop()
            self._take(call, tensors_in(output))

        return note

    def _take(self, call: _Call, outputs: Sequence[torch.Tensor]) -> None:
        seen = self.seen[call.index]
        total = self._flops() - call.flops
        seen.flops += total - call.inner_flops
        seen.shape = tuple(outputs[0].shape) if outputs else ()
        sources = self._trace.of(outputs) if self._trace else set()
        # A residual block adds its parts up. Without this the next block would read all before.
        joins = call.index > 0 and len(sources) > 1 and call.index not in sources
        if joins or not call.has_inner:
            seen.is_node = True
            seen.bytes += sum(one.numel() * one.element_size() for one in outputs)
            seen.inputs |= sources if call.has_inner else call.sources | sources
            if self._trace is not None:
                self._trace.mark(outputs, {call.index})
        if self._calls:
            self._calls[-1].inner_flops += total
            self._calls[-1].has_inner = True


def _observed(model: torch.nn.Module, data: Any) -> tuple[list[_Seen], bool]:
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
        _chain(hooks.seen)
    if output is None:
        raise UserCodeError(
            "The model's forward returns nothing (None).", "Return its output from forward."
        )
    return hooks.seen, is_counted


def _chain(seen: Sequence[_Seen]) -> None:
    """Let each layer read the one that ran before it."""
    ran = [n for n, one in enumerate(seen) if one.is_node]
    ran.sort(key=lambda number: seen[number].order or 0)
    for before, after in pairwise(ran):
        seen[after].inputs = {before}


def _rows(seen: Sequence[_Seen], samples: int, is_counted: bool) -> Iterator[Layer]:
    """Yield the layers in the order of the forward pass, then those that it did not call."""
    for one in sorted(seen, key=lambda one: (one.order is None, one.order or 0)):
        name, module, own, _ = one.module
        if not (one.module.is_layer or one.is_node or one.flops):
            continue
        inputs = sorted(one.inputs - {one.index})[:_MOST_INPUTS]
        yield Layer(
            name=name,
            kind=type(module).__name__,
            output_shape=one.shape,
            parameters=sum(parameter.numel() for parameter in own),
            multiply_adds=round(one.flops / 2 / samples) if is_counted else None,
            activation_bytes=one.bytes,
            trained=any(parameter.requires_grad for parameter in own),
            inputs=tuple(seen[number].module.name for number in inputs),
        )


if __name__ == "__main__":
    prepare_process()
    tool_protocol.main(layers)
