"""Messages between one worker and one server.

Each pair of them has a process group of its own: when a worker dies, only its group fails.
"""

from __future__ import annotations

import os
import pickle
import socket
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from backend.base.log import suppress
from backend.training.strategies.base import bytes_of, pack, unpack
from backend.training.strategies.rendezvous import Rendezvous, distributed

_KEEPALIVE = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 20),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 10),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 4),
    (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 60_000),
)
"""A lost node is noticed within a minute, as by mpirun (`backend.launch.mpirun`)."""
_LARGE = 65536
"""Bytes from which a message of its own costs less than to copy the tensor."""


class PeerLost(Exception):
    """The rank at the other end has ended."""


class Channel:
    """One end; both are made at the same time, by a server and a worker.

    With ``keepalive`` it notices the loss of the other's node; otherwise only mpirun does.
    """

    def __init__(
        self, meeting: Rendezvous, worker: int, server: int, keepalive: bool = False
    ) -> None:
        is_server = meeting.rank == server
        self._peer = 1 if is_server else 0
        self._reused: list[torch.Tensor] = []
        self._group = distributed.ProcessGroupGloo(
            distributed.PrefixStore(f"{worker}-{server}", meeting.store),
            0 if is_server else 1,
            2,
            meeting.limit,
        )
        if keepalive:
            _keep_alive()

    def send(self, message: Any, tensors: Sequence[torch.Tensor] = ()) -> None:
        """Send a message of plain values, with tensors whose shapes the receiver knows.

        Raises:
            PeerLost: The other process has ended.
        """
        words = torch.frombuffer(bytearray(pickle.dumps(message)), dtype=torch.uint8)
        self._put(torch.tensor([words.numel(), len(tensors)]))
        self._put(words)
        large, small = _by_size(tensors)
        for tensor in large:
            self._put(bytes_of(tensor.detach().cpu()))
        content = pack(small)
        if content.numel():
            self._put(content)

    def receive(
        self, like: Sequence[torch.Tensor] | Callable[[Any], Sequence[torch.Tensor]] = ()
    ) -> tuple[Any, list[torch.Tensor]]:
        """Return the next message and its tensors, shaped as those of ``like``; [] without any.

        Args:
            like: Tensors, or a function of the message that returns them. Results that are shaped
                as given tensors are valid until the next call, which writes into their memory:
                new memory costs as much time as the transfer (``tests.benchmarks.strategies``).

        Raises:
            PeerLost: The other process has ended.
        """
        sizes = self._get(torch.zeros(2, dtype=torch.int64))
        words = self._get(torch.empty(int(sizes[0]), dtype=torch.uint8))
        message = pickle.loads(words.numpy().tobytes())
        if not sizes[1]:
            return message, []
        shaped = like(message) if callable(like) else like
        large, small = _by_size(shaped)
        found = self._reused
        if callable(like) or list(map(_form, found)) != list(map(_form, large)):
            found = [torch.empty(tensor.shape, dtype=tensor.dtype) for tensor in large]
        if not callable(like):
            self._reused = found
        for tensor in found:
            self._get(bytes_of(tensor))
        packed = torch.empty(sum(map(_bytes, small)), dtype=torch.uint8)
        if packed.numel():
            self._get(packed)
        whole, others = iter(found), iter(unpack(packed, small))
        return message, [next(whole if _bytes(t) >= _LARGE else others) for t in shaped]

    def _put(self, tensor: torch.Tensor) -> None:
        with _lost_peer():
            self._group.send([tensor], self._peer, 0).wait()

    def _get(self, tensor: torch.Tensor) -> torch.Tensor:
        with _lost_peer():
            self._group.recv([tensor], self._peer, 0).wait()
        return tensor


def _by_size(tensors: Sequence[torch.Tensor]) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """Return the large tensors, and the small ones, which share a message."""
    large = [tensor for tensor in tensors if _bytes(tensor) >= _LARGE]
    return large, [tensor for tensor in tensors if _bytes(tensor) < _LARGE]


def _form(tensor: torch.Tensor) -> tuple[torch.Size, torch.dtype]:
    return tensor.shape, tensor.dtype


def _bytes(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()


@contextmanager
def _lost_peer() -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:
        # torch 2.13: gloo raises a plain RuntimeError.
        raise PeerLost(str(error)) from error


def _keep_alive() -> None:
    """Set the keepalive of each TCP connection of this process; gloo does not name its own."""
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            if stat.S_ISSOCK(os.stat(f"/proc/self/fd/{name}").st_mode):
                with socket.socket(fileno=os.dup(int(name))) as one:
                    if one.family in (socket.AF_INET, socket.AF_INET6):
                        for level, option, value in _KEEPALIVE:
                            one.setsockopt(level, option, value)
