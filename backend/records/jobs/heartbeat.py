"""The pulse of a rank: a counter and a phase in memory shared with its guard.

The guard of a rank must tell a rank that works from one that hangs, and a rank that hangs by
itself from one that waits for it. A file per beat would cost a write per step on the share; eight
mapped bytes cost nothing that can be measured.

The guard makes the memory and hands the file descriptor down in ``RINGMASTER_BEAT_FD``.
"""

from __future__ import annotations

import mmap
import os
import struct
from enum import IntEnum

BEAT_VARIABLE = "RINGMASTER_BEAT_FD"
LAST_WORDS_VARIABLE = "RINGMASTER_LAST_WORDS_FD"
"""Memory of the guard's, too: what ended the rank, for when no disk takes it."""
BEAT_BYTES = 16
_FORMAT = struct.Struct("=QB")


class Phase(IntEnum):
    """What a rank does now. The last two are its word that it ended as it should."""

    IMPORTING = 0
    SETUP = 1
    LOADING_DATA = 2
    COMPUTING = 3
    WAITING_FOR_OTHERS = 4
    EVALUATING = 5
    SAVING = 6
    FINISHED = 7
    INTERRUPTED = 8

    @property
    def text(self) -> str:
        return _IN_WORDS[self]


_IN_WORDS = {
    Phase.IMPORTING: "while Python was starting",
    Phase.SETUP: "while the model and the data were set up",
    Phase.LOADING_DATA: "while the loader was making a batch",
    Phase.COMPUTING: "in the model's step",
    Phase.WAITING_FOR_OTHERS: "while it waited for the other ranks",
    Phase.EVALUATING: "in the validation",
    Phase.SAVING: "while a checkpoint was written",
    Phase.FINISHED: "after the last step",
    Phase.INTERRUPTED: "after the stop",
}


class RankHeartbeat:
    """Both ends of the pulse. Without a guard (tests, notebooks) it beats into private memory."""

    def __init__(self, memory: mmap.mmap) -> None:
        self._memory = memory
        self._count = 0

    @classmethod
    def inherited(cls) -> RankHeartbeat:
        """The rank's end, from the environment that its guard made."""
        descriptor = os.environ.get(BEAT_VARIABLE)
        if descriptor is None:
            return cls(mmap.mmap(-1, BEAT_BYTES))
        return cls(mmap.mmap(int(descriptor), BEAT_BYTES))

    def beat(self, phase: Phase) -> None:
        """Something was done, and ``phase`` begins. Cheap enough for every batch."""
        self._count += 1
        _FORMAT.pack_into(self._memory, 0, self._count, phase)

    def read(self) -> tuple[int, Phase]:
        """The guard's end: how many beats so far, and the phase."""
        count, phase = _FORMAT.unpack_from(self._memory, 0)
        return count, Phase(phase)
