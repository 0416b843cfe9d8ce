"""Messages between one worker and one server.

Each pair has its own connection: when a worker dies, only its connection fails.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from backend.training.strategies.peer_link import LinkClosed
from backend.training.strategies.rendezvous import Rendezvous
from backend.training.strategies.wire_format import bytes_of, decode, encode

_HEADER = "<3Q"
"""The bytes of the message, the number of its tensors, and their bytes."""


class PeerLost(Exception):
    """The rank at the other end has ended, or cannot be reached."""

    def __init__(self, error: OSError) -> None:
        super().__init__(str(error))
        self.has_ended = isinstance(error, (LinkClosed, ConnectionResetError, BrokenPipeError))
        """Whether its process closed the connection, and not only its node fell silent."""


class Channel:
    """One end of a connection; both ends are made at the same time, by a server and a worker.

    With ``keepalive`` the loss of the other node is noticed here; otherwise only by mpirun.
    """

    def __init__(
        self, rendezvous: Rendezvous, worker: int, server: int, keepalive: bool = False
    ) -> None:
        self._reused_tensors: list[torch.Tensor] = []
        with _convert_errors():
            self._link = rendezvous.open_link(f"{worker}-{server}", server)
        if keepalive:
            self._link.keep_alive()

    def close(self) -> None:
        self._link.close()

    def send(self, message: Any, tensors: Sequence[torch.Tensor] = ()) -> None:
        """Send a message (see `encode`), with tensors whose shapes the receiver knows.

        Raises:
            PeerLost: The other process has ended.
        """
        content = encode(message)
        parts = [_view(tensor.detach().cpu()) for tensor in tensors]
        with _convert_errors():
            self._link.send(struct.pack(_HEADER, len(content), len(parts), sum(map(len, parts))))
            self._link.send(content)
            if parts:
                self._link.send(*parts)

    def receive(
        self,
        expected_tensors: Sequence[torch.Tensor] | Callable[[Any], Sequence[torch.Tensor]] = (),
        *,
        is_lasting: bool = False,
    ) -> tuple[Any, list[torch.Tensor]]:
        """Return the next message and its tensors, or [] if it has none.

        Args:
            expected_tensors: Tensors of the expected shapes, or a function of the message that
                returns them.
            is_lasting: The results stay valid. Otherwise the next call writes into their memory:
                new memory costs as much time as the transfer (``tests.benchmarks.strategies``).

        Raises:
            PeerLost: The other process has ended.
            ValueError: The tensors have other sizes than ``expected_tensors``.
        """
        header = bytearray(struct.calcsize(_HEADER))
        with _convert_errors():
            self._link.receive(header)
            size, count, tensor_bytes = struct.unpack(_HEADER, header)
            content = bytearray(size)
            self._link.receive(content)
        message = decode(content)
        if not count:
            return message, []
        templates = expected_tensors(message) if callable(expected_tensors) else expected_tensors
        tensors = self._reused_tensors
        if is_lasting or list(map(_layout, tensors)) != list(map(_layout, templates)):
            tensors = [torch.empty(tensor.shape, dtype=tensor.dtype) for tensor in templates]
        if not is_lasting:
            self._reused_tensors = tensors
        parts = list(map(_view, tensors))
        if sum(map(len, parts)) != tensor_bytes:
            raise ValueError(f"{tensor_bytes} bytes came for tensors of {sum(map(len, parts))}")
        with _convert_errors():
            self._link.receive(*parts)
        return message, list(tensors)


def _view(tensor: torch.Tensor) -> memoryview:
    content: memoryview = bytes_of(tensor).numpy().data
    return content


def _layout(tensor: torch.Tensor) -> tuple[torch.Size, torch.dtype]:
    return tensor.shape, tensor.dtype


@contextmanager
def _convert_errors() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise PeerLost(error) from error
