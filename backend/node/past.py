"""What the agent keeps of the last hours, in two files that together never grow beyond a bound."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from backend.records.health import Health
from backend.records.layout import NodeFolder
from backend.records.node import HealthFinding, NodeReading, bad_gpus, words_by_gpu
from backend.records.node_past import names_line, past_line, uuids_of

EVERY_S = 20.0
LIMIT_BYTES = 1_500_000
"""Of each file: with eight GPUs some 40 hours, with sixteen a day."""


class Past:
    """Gathers readings into lines. `line` belongs to the thread that reads, `append` may hang."""

    def __init__(
        self,
        folder: NodeFolder,
        every_s: float = EVERY_S,
        limit_bytes: int = LIMIT_BYTES,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._folder = folder
        self._every_s = every_s
        self._limit_bytes = limit_bytes
        self._clock = clock
        self._health = Health()
        self._unwell: dict[str, HealthFinding] = {}
        self._next_s: float | None = None
        self._named: tuple[str, ...] | None = None

    def line(self, reading: NodeReading) -> bytes | None:
        """A line when one is due; what is not well in between is in the next one."""
        now_s = time.monotonic()
        self._health = self._health.after(reading, now_s)
        self._unwell.update((finding.key, finding) for finding in self._health.findings)
        if self._next_s is not None and now_s < self._next_s:
            return None
        self._next_s = now_s + self._every_s
        unwell, self._unwell = self._unwell, {}
        found = unwell.values()
        return past_line(reading, self._clock(), words_by_gpu(found), bad_gpus(found))

    def append(self, line: bytes, reading: NodeReading) -> None:
        """Keep a line.

        Raises:
            OSError: It cannot be written now.
        """
        path = self._folder.past
        with path.open("ab") as file:
            is_full = file.tell() + len(line) > self._limit_bytes
            if not is_full:
                self._write(file.fileno(), line, uuids_of(reading), file.tell() == 0)
                return
        os.replace(path, self._folder.earlier)
        with path.open("ab") as file:
            self._write(file.fileno(), line, uuids_of(reading), True)

    def _write(self, descriptor: int, line: bytes, uuids: tuple[str, ...], is_new: bool) -> None:
        if is_new or uuids != self._named:
            # A line that an agent did not finish must not take the next one along.
            line = (b"" if is_new else b"\n") + names_line(uuids) + line
        os.write(descriptor, line)
        self._named = uuids
