"""Rows of the ledger: use by user, project, node and month. Pure."""

from __future__ import annotations

import csv
import io
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date
from enum import StrEnum
from math import inf

from backend.records.base.timestamps import seconds
from backend.records.jobs.placement import node_label
from backend.records.jobs.usage import NodeUsage, RunUsage
from backend.records.jobs.view import JOULES_A_KWH
from backend.records.sweeps.spec import sweep_of

HOUR_S = 3600.0


class LedgerKey(StrEnum):
    """A property of a run by which rows are made."""

    USER = "user"
    PROJECT = "project"
    NODE = "node"
    MONTH = "month"
    JOB = "job"


@dataclass
class LedgerRow:
    """Sums of all runs with the same ``keys``; a figure that is not known is in no sum.

    Attributes:
        node_s: The duration of each run on each of its nodes.
        gpu_s: The same, times the GPUs.
        energy_j: The energy in ``energy_gpu_s`` of them.
        idle_s: The seconds without work in ``sampled_gpu_s`` of them.
        run_ids: The runs, by job and number.
        waits_s: The time in the queue of each run that was queued and began in the period.
    """

    keys: tuple[str, ...]
    node_s: float = 0.0
    gpu_s: float = 0.0
    energy_j: float = 0.0
    energy_gpu_s: float = 0.0
    idle_s: float = 0.0
    sampled_gpu_s: float = 0.0
    run_ids: set[tuple[str, int]] = field(default_factory=set)
    waits_s: dict[tuple[str, int], float] = field(default_factory=dict)

    @property
    def idle_share(self) -> float | None:
        return self.idle_s / self.sampled_gpu_s if self.sampled_gpu_s else None

    @property
    def energy_kwh(self) -> float | None:
        """The energy that is known; None if none is."""
        return self.energy_j / JOULES_A_KWH if self.energy_gpu_s else None

    @property
    def energy_known_share(self) -> float | None:
        """The share of the GPU hours whose energy is known."""
        return self.energy_gpu_s / self.gpu_s if self.gpu_s else None

    @property
    def mean_wait_s(self) -> float | None:
        return sum(self.waits_s.values()) / len(self.waits_s) if self.waits_s else None

    def values(self) -> dict[str, float | None]:
        """Return the figures by the names that CSV and JSON have."""
        wait_s = self.mean_wait_s
        return {
            "runs": len(self.run_ids),
            "node_hours": self.node_s / HOUR_S,
            "gpu_hours": self.gpu_s / HOUR_S,
            "energy_kwh": self.energy_kwh,
            "energy_known_share": self.energy_known_share,
            "idle_share": self.idle_share,
            "mean_wait_hours": None if wait_s is None else wait_s / HOUR_S,
        }

    def _add(self, node: NodeUsage, duration_s: float, share: float) -> None:
        gpu_s = duration_s * node.gpus
        self.node_s += duration_s
        self.gpu_s += gpu_s
        if node.energy_j is not None:
            self.energy_j += node.energy_j * share
            self.energy_gpu_s += gpu_s
        if node.idle_share is not None:
            self.idle_s += node.idle_share * gpu_s
            self.sampled_gpu_s += gpu_s


@dataclass(frozen=True)
class UsageTable:
    """The use since a time: a row for each value of ``key``, their total, and rows by month."""

    key: LedgerKey
    rows: tuple[LedgerRow, ...] = ()
    total: tuple[LedgerRow, ...] = ()
    months: tuple[LedgerRow, ...] = ()
    unknown_runs: int = 0
    host: str = ""
    """Name of this computer."""

    def text(self, row: LedgerRow) -> str:
        name = row.keys[-1] if row.keys else "Total"
        return node_label(name, self.host) if self.key is LedgerKey.NODE else name

    @property
    def csv(self) -> str:
        return csv_text(self.months, (LedgerKey.MONTH, self.key))


def ledger_rows(
    runs: Iterable[RunUsage],
    keys: Sequence[LedgerKey] = (),
    start_s: float = -inf,
    end_s: float = inf,
) -> tuple[LedgerRow, ...]:
    """Return the use between two times, one row for each combination of ``keys``, in their order.

    The use of a run is spread evenly over its time. Without keys the one row is the total.
    """
    rows: dict[tuple[str, ...], LedgerRow] = {}
    for run in runs:
        run_end_s = seconds(run.ended_at)
        run_start_s = run_end_s - run.took_s
        for month, month_start_s, month_end_s in _months(run_start_s, run_end_s):
            piece_start_s = max(run_start_s, month_start_s, start_s)
            piece_s = min(run_end_s, month_end_s, end_s) - piece_start_s
            begins_here = piece_start_s == run_start_s < end_s
            if piece_s <= 0 and not begins_here:
                continue
            whole_s = run_end_s - run_start_s
            share = piece_s / whole_s if whole_s else 1.0
            for node in run.nodes:
                values = {
                    LedgerKey.USER: run.user or "(unknown)",
                    LedgerKey.PROJECT: project_of(run.tags),
                    LedgerKey.NODE: node.node,
                    LedgerKey.MONTH: month,
                    LedgerKey.JOB: f"{run.job_id} {run.name}".rstrip(),
                }
                row_keys = tuple(values[key] for key in keys)
                row = rows.setdefault(row_keys, LedgerRow(row_keys))
                row._add(node, run.took_s * share, share)
                row.run_ids.add((run.job_id, run.run))
                if begins_here and run.waited_s is not None:
                    row.waits_s[run.job_id, run.run] = run.waited_s
    return tuple(rows[row_keys] for row_keys in sorted(rows))


def project_of(tags: Sequence[str]) -> str:
    """Return the project of a job: its first tag, without the one of a sweep."""
    return next((tag for tag in tags if not sweep_of((tag,))), "(no tag)")


def _months(start_s: float, end_s: float) -> Iterator[tuple[str, float, float]]:
    """Yield each month of this computer's calendar that a run touches, with start and end."""
    year, month = time.localtime(start_s)[:2]
    while True:
        month_end_s = _local_s(year, month + 1)
        yield f"{year}-{month:02}", _local_s(year, month), month_end_s
        if month_end_s >= end_s:
            return
        year, month = time.localtime(month_end_s)[:2]


def _local_s(year: int, month: int = 1, day: int = 1) -> float:
    """Return the beginning of a day; month 13 is January of the next year."""
    return time.mktime((year, month, day, 0, 0, 0, 0, 0, -1))


def month_names(*months: str) -> list[str]:
    """Return all months from the first to the last of sorted ones, also those without a run."""
    names = list(months[:1])
    while names and names[-1] < months[-1]:
        year, month = map(int, names[-1].split("-"))
        names.append(f"{year + month // 12}-{month % 12 + 1:02}")
    return names


def months_start_s(count: int) -> float:
    """Return the beginning of the last ``count`` months, of which this is the last; 0 is all."""
    year, month = time.localtime()[:2]
    return _local_s(year, month - count + 1) if count else -inf


def period_of(text: str) -> tuple[float, float]:
    """Return start and end of a day, a month or a year: 2026-11-30, 2026-11, 2026.

    Raises:
        ValueError: It is none of them.
    """
    match = re.fullmatch(r"(\d{4})(?:-(\d\d?)(?:-(\d\d?))?)?", text)
    year, month, day = (int(part or 1) for part in match.groups()) if match else (0, 0, 0)
    if match is None or not 1970 < date(year, month, day).year < 9999:
        raise ValueError(f"no day, month or year: {text}")
    if match[3]:
        end_s = _local_s(year, month, day + 1)
    else:
        end_s = _local_s(year, month + 1) if match[2] else _local_s(year + 1)
    return _local_s(year, month, day), end_s


def csv_text(rows: Iterable[LedgerRow], keys: Sequence[LedgerKey]) -> str:
    """Return the rows as a table for a spreadsheet; an empty cell is not known."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow((*keys, *LedgerRow(()).values()))
    for row in rows:
        values = row.values().values()
        writer.writerow((*row.keys, *("" if v is None else round(v, 6) for v in values)))
    return text.getvalue()
