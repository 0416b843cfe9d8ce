"""History of the last hours and the last week that the agent keeps, in files of bounded size."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from backend.records.base.access_modes import open_for_writing
from backend.records.base.layout import NodeFolder
from backend.records.nodes.health import Health
from backend.records.nodes.history import EVERY_S, WEEK_EVERY_S, names_line, past_line, uuids_of
from backend.records.nodes.reading import HealthFinding, NodeReading, bad_gpu_uuids, problems_by_gpu

LIMIT_BYTES = 1_500_000
"""For each file: with eight GPUs more than a day in short steps, more than a week in long ones."""


@dataclass(frozen=True)
class HistoryLines:
    """The lines that are due, None if none is."""

    hours: bytes | None = None
    week: bytes | None = None


class HistoryWriter:
    """Gathers readings into lines. `lines` belongs to the thread that reads; `append` may hang."""

    def __init__(
        self,
        folder: NodeFolder,
        every_s: float = EVERY_S,
        limit_bytes: int = LIMIT_BYTES,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._clock = clock
        self._health = Health()
        self._hours = _LineFile(folder.history, folder.earlier_history, every_s, limit_bytes)
        self._week = _LineFile(
            folder.week_history, folder.earlier_week_history, WEEK_EVERY_S, limit_bytes
        )

    def lines(self, reading: NodeReading) -> HistoryLines:
        """Return the lines that are due; problems between them are in the next ones."""
        now_s, at_s = time.monotonic(), self._clock()
        self._health = self._health.after_reading(reading, now_s)
        findings = self._health.findings
        hours, week = (
            line_file.line(reading, findings, now_s, at_s)
            for line_file in (self._hours, self._week)
        )
        return HistoryLines(hours, week)

    def append(self, lines: HistoryLines, reading: NodeReading) -> None:
        """Append the lines to the files.

        Raises:
            OSError: They cannot be written now.
        """
        for line_file, line in ((self._hours, lines.hours), (self._week, lines.week)):
            if line is not None:
                line_file.append(line, reading)


class _LineFile:
    """Lines at one interval, in a file and the full file before it."""

    def __init__(self, path: Path, earlier_path: Path, every_s: float, limit_bytes: int) -> None:
        self._path, self._earlier_path = path, earlier_path
        self._every_s = every_s
        self._limit_bytes = limit_bytes
        self._unhealthy_findings: dict[str, HealthFinding] = {}
        self._next_s: float | None = None
        self._written_uuids: tuple[str, ...] | None = None

    def line(
        self,
        reading: NodeReading,
        findings: tuple[HealthFinding, ...],
        now_s: float,
        clock_s: float,
    ) -> bytes | None:
        self._unhealthy_findings.update((finding.key, finding) for finding in findings)
        if self._next_s is not None and now_s < self._next_s:
            return None
        self._next_s = now_s + self._every_s
        unhealthy_findings, self._unhealthy_findings = self._unhealthy_findings.values(), {}
        return past_line(
            reading, clock_s, problems_by_gpu(unhealthy_findings), bad_gpu_uuids(unhealthy_findings)
        )

    def append(self, line: bytes, reading: NodeReading) -> None:
        with open(open_for_writing(self._path), "ab") as file:
            is_full = file.tell() + len(line) > self._limit_bytes
            if not is_full:
                self._write(file.fileno(), line, uuids_of(reading), file.tell() == 0)
                return
        os.replace(self._path, self._earlier_path)
        with open(open_for_writing(self._path), "ab") as file:
            self._write(file.fileno(), line, uuids_of(reading), True)

    def _write(self, descriptor: int, line: bytes, uuids: tuple[str, ...], is_new: bool) -> None:
        if is_new or uuids != self._written_uuids:
            # A line that an agent did not finish must not damage the next one.
            line = (b"" if is_new else b"\n") + names_line(uuids) + line
        os.write(descriptor, line)
        self._written_uuids = uuids
