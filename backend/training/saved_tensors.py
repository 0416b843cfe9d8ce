"""Memory that a forward pass holds for its backward pass."""

from __future__ import annotations

from types import TracebackType

import torch

from backend.base.log import suppress


class SavedTensors:
    """Context that adds up the tensors that autograd saves in it.

    A storage counts once, however many tensors share it: the input of two layers, a view, the
    output of a layer that works in place. Parameters and buffers of the model do not count.
    """

    def __init__(self, model: torch.nn.Module) -> None:
        model_tensors = [*model.parameters(), *model.buffers()]
        self._storage_bytes: dict[int, int] = {}
        for tensor in model_tensors:
            self._pack(tensor)
        self._model_addresses = frozenset(self._storage_bytes)
        self._hooks = torch.autograd.graph.saved_tensors_hooks(self._pack, lambda tensor: tensor)

    def __enter__(self) -> SavedTensors:
        self._hooks.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._hooks.__exit__(kind, error, traceback)

    @property
    def bytes(self) -> int:
        return sum(
            size
            for address, size in self._storage_bytes.items()
            if address not in self._model_addresses
        )

    def _pack(self, tensor: torch.Tensor) -> torch.Tensor:
        # Sparse tensors, and those of torch.func, have no storage.
        with suppress(RuntimeError):
            storage = tensor.untyped_storage()
            # The graph keeps the storage, so its address is not used again while it is counted.
            self._storage_bytes[storage.data_ptr()] = storage.nbytes()
        return tensor.detach()
