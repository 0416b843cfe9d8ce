"""History of a node, as its agent keeps it: a line each 20 s for hours, each 5 min for a week.

A line names no GPU; a separate line names the GPUs whenever they change. Lines are short so that a
day of eight GPUs is 1 MB, because a desktop may have to fetch it.

Pure, standard library only and Python 3.9: the nodes import this.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from backend.base.log import swallowed
from backend.records.base.validation import sanitize
from backend.records.nodes.reading import Gpu, NodeReading

EVERY_S, WEEK_EVERY_S = 20.0, 300.0
MOST_GPUS = 64
_LONGEST_UUID, _LONGEST_PROBLEM = 80, 80
_LARGEST = 1e15


class PastGpu(NamedTuple):
    """A GPU at that time, with its problems since the line before, or ""."""

    uuid: str
    temperature_c: float | None = None
    sm_clock_mhz: float | None = None
    use_percent: float | None = None
    memory_percent: float | None = None
    power_w: float | None = None
    health_problem: str = ""
    is_bad: bool = False
    """The problem was bad, not only a warning."""
    ecc_corrected: float | None = None
    ecc_uncorrected: float | None = None


@dataclass(frozen=True)
class PastReading:
    """A node at that time. ``at_s`` is Unix time by the node's clock, until it is corrected."""

    at_s: float
    processor_percent: float | None = None
    network_bytes_per_s: float | None = None
    gpus: tuple[PastGpu, ...] = ()
    every_s: float = EVERY_S
    """Intended time to the next reading."""


def uuids_of(reading: NodeReading) -> tuple[str, ...]:
    return tuple(gpu.uuid for gpu in reading.gpus)


def names_line(uuids: Sequence[str]) -> bytes:
    """Return the line that names the GPUs of the lines after it."""
    return _line({"gpus": list(uuids)})


def past_line(
    reading: NodeReading,
    at_s: float,
    problems_by_uuid: Mapping[str, str],
    bad_uuids: Collection[str] = (),
) -> bytes:
    """Return one line with the problems of GPUs by UUID; ``bad_uuids`` are the bad GPUs."""
    record: dict[str, Any] = {
        "t": round(at_s, 1),
        "p": reading.cpu.use_percent,
        "n": _round(reading.network_bytes_per_s),
        "g": [_numbers(gpu) for gpu in reading.gpus],
    }
    problems = {
        str(index): problems_by_uuid[uuid]
        for index, uuid in enumerate(uuids_of(reading))
        if problems_by_uuid.get(uuid)
    }
    if problems:
        record["w"] = problems
    bad_indexes = [index for index, uuid in enumerate(uuids_of(reading)) if uuid in bad_uuids]
    if bad_indexes:
        record["b"] = bad_indexes
    return _line(record)


def _line(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, allow_nan=False, separators=(",", ":")).encode() + b"\n"


def _numbers(gpu: Gpu) -> list[float | None]:
    used_bytes, total_bytes = gpu.memory_used_bytes, gpu.memory_total_bytes
    share = (
        None if used_bytes is None or not total_bytes else round(100 * used_bytes / total_bytes, 1)
    )
    numbers = [gpu.temperature_c, gpu.sm_clock_mhz, gpu.use_percent, share, _round(gpu.power_w)]
    # Most GPUs have no ECC; their lines stay short.
    has_ecc = (gpu.ecc_corrected, gpu.ecc_uncorrected) != (None, None)
    return [*numbers, gpu.ecc_corrected, gpu.ecc_uncorrected] if has_ecc else numbers


def _round(value: float | None) -> float | None:
    return None if value is None else round(value)


class HistoryParser:
    """Parse the text into readings, piece by piece; an invalid line is skipped."""

    def __init__(self, every_s: float = EVERY_S) -> None:
        self._every_s = every_s
        self._uuids: tuple[str, ...] = ()
        self._incomplete_line = b""

    def feed(self, chunk: bytes) -> list[PastReading]:
        """Return the readings of the lines that this piece completes."""
        *lines, self._incomplete_line = (self._incomplete_line + chunk).split(b"\n")
        readings = (self._reading(line) for line in lines if line)
        return [reading for reading in readings if reading is not None]

    def _reading(self, line: bytes) -> PastReading | None:
        try:
            raw = json.loads(line)
            if "gpus" in raw:
                self._uuids = tuple(sanitize(str(u), _LONGEST_UUID) for u in raw["gpus"])
                self._uuids = self._uuids[:MOST_GPUS]
                return None
            at_s = _number(raw["t"])
            if at_s is None:
                return None
            problems, bad_indexes = raw.get("w", {}), raw.get("b", [])
            gpus = tuple(
                _gpu(uuid, numbers, problems.get(str(index), ""), index in bad_indexes)
                for index, (uuid, numbers) in enumerate(zip(self._uuids, raw["g"]))
            )
            node_numbers = _number(raw.get("p")), _number(raw.get("n"))
            return PastReading(at_s, *node_numbers, gpus, self._every_s)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            swallowed(error)
            return None


def _gpu(uuid: str, numbers: Sequence[object], problem: object, is_bad: bool) -> PastGpu:
    values = [_number(value) for value in (*numbers[:7], *[None] * 7)]
    health_problem = sanitize(str(problem), _LONGEST_PROBLEM) if problem else ""
    return PastGpu(
        uuid,
        values[0],
        values[1],
        values[2],
        values[3],
        values[4],
        health_problem,
        is_bad,
        values[5],
        values[6],
    )


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if -_LARGEST < value < _LARGEST else None
