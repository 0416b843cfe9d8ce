"""The heartbeat of a rank: a counter and a phase in memory shared with its guard.

The guard of a rank must distinguish a rank that works from one that hangs, and a rank that hangs
from one that waits for it. A file would cost a write per step on the share; the cost of eight
mapped bytes cannot be measured.

The guard creates the memory and passes the file descriptor in ``RINGMASTER_BEAT_FD``.
"""

from __future__ import annotations

import json
import mmap
import os
import struct
from collections.abc import Mapping
from enum import IntEnum
from typing import Any

from backend.base.log import suppress

BEAT_VARIABLE = "RINGMASTER_BEAT_FD"
LAST_WORDS_VARIABLE = "RINGMASTER_LAST_WORDS_FD"
"""Memory of the guard's too: what ended the rank, for the case that no disk can store it."""
BEAT_BYTES = 16
_FORMAT = struct.Struct("=QB")


class Phase(IntEnum):
    """Activity of a rank. FINISHED and INTERRUPTED mean that it ended as it should."""

    IMPORTING = 0
    SETUP = 1
    LOADING_DATA = 2
    COMPUTING = 3
    WAITING_FOR_OTHERS = 4
    EVALUATING = 5
    SAVING = 6
    FINISHED = 7
    INTERRUPTED = 8
    RUNNING = 9
    """A script runs; what it does is not known."""

    @property
    def text(self) -> str:
        return _PHASE_TEXTS[self]


_PHASE_TEXTS = {
    Phase.IMPORTING: "while Python was starting",
    Phase.SETUP: "while loading the model and the data",
    Phase.LOADING_DATA: "while the loader was making a batch",
    Phase.COMPUTING: "in the model's step",
    Phase.WAITING_FOR_OTHERS: "while waiting for the other ranks",
    Phase.EVALUATING: "in the validation",
    Phase.SAVING: "while writing a checkpoint",
    Phase.FINISHED: "after the last step",
    Phase.INTERRUPTED: "after the stop",
    Phase.RUNNING: "while the script ran",
}


def report_to_guard(record: Mapping[str, Any]) -> None:
    """Report to the guard what ended the rank; without a guard there is no memory for it."""
    with suppress(KeyError, ValueError, OSError):
        descriptor = int(os.environ[LAST_WORDS_VARIABLE])
        os.pwrite(descriptor, json.dumps(record).encode(), 0)


class RankHeartbeat:
    """Both ends of the heartbeat. Without a guard (tests, notebooks) it uses private memory."""

    def __init__(self, memory: mmap.mmap) -> None:
        self._memory = memory
        self._count = 0

    @classmethod
    def inherited(cls) -> RankHeartbeat:
        """Return the rank's end, from the environment that its guard made."""
        descriptor = os.environ.get(BEAT_VARIABLE)
        if descriptor is None:
            return cls(mmap.mmap(-1, BEAT_BYTES))
        return cls(mmap.mmap(int(descriptor), BEAT_BYTES))

    def beat(self, phase: Phase) -> None:
        """Count one beat and begin ``phase``. Cheap enough for every batch."""
        self._count += 1
        _FORMAT.pack_into(self._memory, 0, self._count, phase)

    def read(self) -> tuple[int, Phase]:
        """Return the number of beats and the phase, for the guard."""
        count, phase = _FORMAT.unpack_from(self._memory, 0)
        return count, Phase(phase)
