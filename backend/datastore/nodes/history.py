"""History of nodes over the last week.

The files are untrusted, as a node's status is: limited in size and type.
"""

from __future__ import annotations

import math
import os
from dataclasses import replace
from pathlib import Path

from backend.base import worker_yield
from backend.base.log import swallowed
from backend.records.base.atomic_files import open_regular_file
from backend.records.base.layout import NodeFolder
from backend.records.nodes.history import (
    EVERY_S,
    MOST_GPUS,
    WEEK_EVERY_S,
    HistoryParser,
    PastReading,
)

LIMIT_BYTES = 4_000_000
_PIECE_BYTES = 4096
_MOST_LINES = 10_000
"""A day of an agent and a week in wide steps are 6,400: columns of more lines and GPUs would fill
the memory."""
_DAY_S = 86_400.0
"""Up to this age, lines of narrow steps are read; before it, those of wide ones."""


def read_past(
    folder: NodeFolder, now_s: float, ahead_s: float, over_s: float
) -> tuple[PastReading, ...]:
    """Return the last ``over_s`` seconds of a node, oldest first, by the reader's clock.

    ``ahead_s`` is how much the node's clock was ahead of the reader's when they were compared.
    If it was set back since, the newest lines count.
    """
    # The newer file first: if it becomes the earlier one meanwhile it is read twice, and lines
    # at known times are skipped below.
    week_readings, day_readings = (
        _readings(folder.week_history, WEEK_EVERY_S),
        _readings(folder.history, EVERY_S),
    )
    wide_readings = [*_readings(folder.earlier_week_history, WEEK_EVERY_S), *week_readings]
    narrow_readings = [*_readings(folder.earlier_history, EVERY_S), *day_readings]
    for readings in (wide_readings, narrow_readings):
        ahead_s = max(ahead_s, readings[-1].at_s - now_s) if readings else ahead_s
    day_s = now_s + ahead_s - _DAY_S
    narrow_readings = [reading for reading in narrow_readings if reading.at_s >= day_s]
    begin_s = narrow_readings[0].at_s if narrow_readings else math.inf
    lines = [*(reading for reading in wide_readings if reading.at_s < begin_s), *narrow_readings]
    past_readings: list[PastReading] = []
    uuids: set[str] = set()
    later_s = now_s + 1.0
    for line in reversed(lines):
        at_s = line.at_s - ahead_s
        if at_s < now_s - over_s or len(past_readings) == _MOST_LINES:
            break
        if at_s < later_s:
            later_s = at_s
            for gpu in line.gpus[: MOST_GPUS - len(uuids)]:
                uuids.add(gpu.uuid)
            gpus = tuple(gpu for gpu in line.gpus if gpu.uuid in uuids)
            past_readings.append(replace(line, at_s=at_s, gpus=gpus))
    return tuple(reversed(past_readings))


def _readings(path: Path, every_s: float) -> list[PastReading]:
    """Return what a file has now. It is not kept: a read of a day and a week takes a worker 0.2 s.

    Kept readings are 70,000 objects a node, which Python's collector goes through in the window.
    """
    try:
        descriptor = open_regular_file(path)
    except (OSError, ValueError) as error:
        swallowed(error)
        return []
    with os.fdopen(descriptor, "rb") as file:
        text = file.read(LIMIT_BYTES + 1)
    if len(text) > LIMIT_BYTES:
        return []
    lines = HistoryParser(every_s)
    readings: list[PastReading] = []
    for offset in range(0, len(text), _PIECE_BYTES):
        readings += lines.feed(text[offset : offset + _PIECE_BYTES])
        worker_yield.pause()
    return readings
