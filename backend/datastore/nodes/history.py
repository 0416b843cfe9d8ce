"""History of nodes over the last week, read on from the end of the last read.

The files are untrusted, as a node's status is: limited in size and type.
"""

from __future__ import annotations

import math
import os
from collections import OrderedDict
from dataclasses import replace
from pathlib import Path

from backend.records.base.atomic_files import open_at_once
from backend.records.base.layout import DataRoot
from backend.records.nodes.history import EVERY_S, MOST_GPUS, WEEK_EVERY_S, PastLines, PastReading

LIMIT_BYTES = 4_000_000
_HEAD_BYTES = 256
_MOST_LINES = 10_000
"""A day of an agent and a week in wide steps are 6,400: columns of more lines and GPUs would fill
the memory."""
_DAY_S = 86_400.0
"""Up to this age, lines of narrow steps are read; before it, those of wide ones."""
_MOST_NODES = 2
"""Number of nodes whose readings stay in memory: a day of eight GPUs is 12 MB, a week in wide steps
half of it, and reading them again takes a worker 0.2 to 0.4 s."""


class _File:
    """One file and what was read of it."""

    def __init__(self, path: Path, every_s: float) -> None:
        self._path = path
        self._every_s = every_s
        self._forget()

    def _forget(self) -> None:
        self._head = b""
        self._offset = 0
        self._lines = PastLines(self._every_s)
        self.readings: list[PastReading] = []

    def refresh(self) -> None:
        """Read what was appended; everything if the file was replaced."""
        try:
            descriptor = open_at_once(self._path)
        except (OSError, ValueError):
            self._forget()
            return
        with os.fdopen(descriptor, "rb") as file:
            head = file.read(_HEAD_BYTES)
            size = os.fstat(descriptor).st_size
            if size < self._offset or not head.startswith(self._head):
                self._forget()
            self._head = head
            if size > LIMIT_BYTES:
                return
            file.seek(self._offset)
            piece = file.read(LIMIT_BYTES - self._offset)
        self._offset += len(piece)
        self.readings += self._lines.take(piece)


class PastReader:
    """Reads the history of the nodes that are shown; each read adds what is new."""

    def __init__(self, root: DataRoot) -> None:
        self._root = root
        self._files: OrderedDict[str, tuple[_File, ...]] = OrderedDict()

    def read(
        self, name: str, now_s: float, ahead_s: float, over_s: float
    ) -> tuple[PastReading, ...]:
        """Return the last ``over_s`` seconds, oldest first, by the reader's clock.

        ``ahead_s`` is how much the node's clock was ahead of the reader's when they were compared.
        If it was set back since, the newest lines count.
        """
        folder = self._root.node(name)
        week, fine = (folder.earlier_week, folder.week), (folder.earlier, folder.past)
        files = self._files.setdefault(
            name,
            (*(_File(path, WEEK_EVERY_S) for path in week), *(_File(p, EVERY_S) for p in fine)),
        )
        self._files.move_to_end(name)
        if len(self._files) > _MOST_NODES:
            self._files.popitem(last=False)
        # The newer file first: if it becomes the earlier one meanwhile it is read twice, and lines
        # at known times are skipped below.
        for file in reversed(files):
            file.refresh()
        wide, narrow = (
            [one for file in some for one in file.readings] for some in (files[:2], files[2:])
        )
        for some in (wide, narrow):
            ahead_s = max(ahead_s, some[-1].at_s - now_s) if some else ahead_s
        day_s = now_s + ahead_s - _DAY_S
        narrow = [one for one in narrow if one.at_s >= day_s]
        begin_s = narrow[0].at_s if narrow else math.inf
        lines = [*(one for one in wide if one.at_s < begin_s), *narrow]
        found: list[PastReading] = []
        uuids: set[str] = set()
        before_s = now_s + 1.0
        for line in reversed(lines):
            at_s = line.at_s - ahead_s
            if at_s < now_s - over_s or len(found) == _MOST_LINES:
                break
            if at_s < before_s:
                before_s = at_s
                for gpu in line.gpus[: MOST_GPUS - len(uuids)]:
                    uuids.add(gpu.uuid)
                gpus = tuple(gpu for gpu in line.gpus if gpu.uuid in uuids)
                found.append(replace(line, at_s=at_s, gpus=gpus))
        return tuple(reversed(found))
