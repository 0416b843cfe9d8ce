"""Messages between one worker and one server.

Each pair of them has a process group of its own: when a worker dies, only its group fails.
"""

from __future__ import annotations

import os
import pickle
import socket
import stat
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from backend.base.log import suppress
from backend.training.strategies.base import bytes_of, unpack
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
_FRAME = 4096
"""Bytes of a first transfer, whose size both ends must know; most messages need no second one.
A transfer and its answer take 0.6 ms between two processes of one computer that have slept."""
_HEAD = "3q"
"""Its first values: the bytes of the pickled message and of the small tensors, and the number of
all tensors."""


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
        words = pickle.dumps(message)
        large, small = _by_size([tensor.detach().cpu() for tensor in tensors])
        packed = b"".join(bytes_of(tensor).numpy().tobytes() for tensor in small)
        head = struct.pack(_HEAD, len(words), len(packed), len(tensors))
        content = bytearray(b"".join((head, words, packed)).ljust(_FRAME, b"\0"))
        whole = torch.frombuffer(content, dtype=torch.uint8)
        rest = [whole[_FRAME:]] if len(content) > _FRAME else []
        self._put(whole[:_FRAME], *rest, *map(bytes_of, large))

    def receive(
        self,
        like: Sequence[torch.Tensor] | Callable[[Any], Sequence[torch.Tensor]] = (),
        *,
        is_lasting: bool = False,
    ) -> tuple[Any, list[torch.Tensor]]:
        """Return the next message and its tensors, shaped as those of ``like``; [] without any.

        Args:
            like: Tensors, or a function of the message that returns them.
            is_lasting: The results stay valid. Otherwise the next call writes into their memory:
                new memory costs as much time as the transfer (``tests.benchmarks.strategies``).

        Raises:
            PeerLost: The other process has ended.
        """
        content = bytearray(_FRAME)
        self._get(torch.frombuffer(content, dtype=torch.uint8))
        words, packed, count = struct.unpack_from(_HEAD, content)
        place = struct.calcsize(_HEAD) + words
        if place + packed > _FRAME:
            rest = bytearray(place + packed - _FRAME)
            self._get(torch.frombuffer(rest, dtype=torch.uint8))
            content += rest
        message = pickle.loads(memoryview(content)[place - words : place])
        if not count:
            return message, []
        shaped = like(message) if callable(like) else like
        large, small = _by_size(shaped)
        found = self._reused
        if is_lasting or list(map(_form, found)) != list(map(_form, large)):
            found = [torch.empty(tensor.shape, dtype=tensor.dtype) for tensor in large]
        if not is_lasting:
            self._reused = found
        self._get(*map(bytes_of, found))
        flat = torch.frombuffer(content, dtype=torch.uint8)[place : place + packed]
        whole, others = iter(found), iter(unpack(flat, small))
        return message, [next(whole if _bytes(t) >= _LARGE else others) for t in shaped]

    def _put(self, *tensors: torch.Tensor) -> None:
        with _lost_peer():
            for work in [self._group.send([tensor], self._peer, 0) for tensor in tensors]:
                work.wait()

    def _get(self, *tensors: torch.Tensor) -> None:
        with _lost_peer():
            for work in [self._group.recv([tensor], self._peer, 0) for tensor in tensors]:
                work.wait()


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
