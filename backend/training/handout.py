"""Pieces of work for whichever worker is free, with backup copies of late ones.

Dean et al., "Large scale distributed deep networks" (NIPS 2012), section 4.2: the coordinator hands
out small portions, and copies of the slowest ones at the end. No process and no clock here.
"""

from __future__ import annotations

import math
from collections import deque

_LATE = 2.0
"""A piece is late after twice the mean time of those that are done."""


class Handout:
    """The pieces 0, 1, … of one pass; of a piece with copies the first result counts.

    Attributes:
        copies: The backup copies that were given.
    """

    def __init__(self, pieces: int, usual_s: float = math.inf) -> None:
        """Begin a pass; ``usual_s`` is the time of a piece until one is done."""
        self._waiting = deque(range(pieces))
        self._out: dict[int, dict[int, float]] = {}
        self._usual_s = usual_s
        self._took: list[float] = []
        self.copies = 0

    @property
    def is_over(self) -> bool:
        return not self._waiting and not self._out

    @property
    def usual_s(self) -> float:
        return sum(self._took) / len(self._took) if self._took else self._usual_s

    def take(self, worker: int, now: float) -> int | None:
        """Return the next piece for a worker that has none; None if there is nothing to do."""
        if self._waiting:
            piece = self._waiting.popleft()
        else:
            late = [
                piece
                for piece, given in self._out.items()
                if now - max(given.values()) > _LATE * self.usual_s
            ]
            if not late:
                return None
            piece = min(late, key=lambda one: min(self._out[one].values()))
            self.copies += 1
        self._out.setdefault(piece, {})[worker] = now
        return piece

    def done(self, worker: int, piece: int, now: float) -> bool:
        """Return whether this result counts: it is of this pass, and the piece's first."""
        given = self._out.get(piece, {})
        if worker not in given:
            return False
        del self._out[piece]
        self._took.append(now - given[worker])
        return True

    def lose(self, worker: int) -> None:
        """Give the piece of a worker that has ended to the next free one."""
        for piece, given in list(self._out.items()):
            if given.pop(worker, None) is not None and not given:
                del self._out[piece]
                self._waiting.appendleft(piece)
