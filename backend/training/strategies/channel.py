"""Messages between one worker and one server.

Each pair of them has a process group of its own: when a worker dies, only its group fails.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from backend.training.strategies.base import pack, unpack
from backend.training.strategies.rendezvous import Rendezvous, distributed


class PeerLost(Exception):
    """The rank at the other end has ended."""


class Channel:
    """One end; both are made at the same time, by a server and a worker."""

    def __init__(self, meeting: Rendezvous, worker: int, server: int) -> None:
        is_server = meeting.rank == server
        self._peer = 1 if is_server else 0
        self._group = distributed.ProcessGroupGloo(
            distributed.PrefixStore(f"{worker}-{server}", meeting.store),
            0 if is_server else 1,
            2,
            meeting.limit,
        )

    def send(self, message: Any, tensors: Sequence[torch.Tensor] = ()) -> None:
        """Send a message of plain values, with tensors whose shapes the receiver knows.

        Raises:
            PeerLost: The other process has ended.
        """
        words = torch.frombuffer(bytearray(pickle.dumps(message)), dtype=torch.uint8)
        content = pack(tensors)
        self._put(torch.tensor([words.numel(), content.numel()]))
        self._put(words)
        if content.numel():
            self._put(content)

    def receive(
        self, like: Sequence[torch.Tensor] | Callable[[Any], Sequence[torch.Tensor]] = ()
    ) -> tuple[Any, list[torch.Tensor]]:
        """Return the next message and its tensors, shaped as those of ``like``; [] without any.

        Args:
            like: Tensors, or a function of the message that returns them.

        Raises:
            PeerLost: The other process has ended.
        """
        sizes = self._get(torch.zeros(2, dtype=torch.int64))
        words = self._get(torch.zeros(int(sizes[0]), dtype=torch.uint8))
        message = pickle.loads(words.numpy().tobytes())
        if not sizes[1]:
            return message, []
        shaped = like(message) if callable(like) else like
        return message, unpack(self._get(torch.zeros(int(sizes[1]), dtype=torch.uint8)), shaped)

    def _put(self, tensor: torch.Tensor) -> None:
        with _lost_peer():
            self._group.send([tensor], self._peer, 0).wait()

    def _get(self, tensor: torch.Tensor) -> torch.Tensor:
        with _lost_peer():
            self._group.recv([tensor], self._peer, 0).wait()
        return tensor


@contextmanager
def _lost_peer() -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:
        # torch 2.13: gloo raises a plain RuntimeError.
        raise PeerLost(str(error)) from error
