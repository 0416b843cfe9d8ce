"""Comparison of several jobs, and export of all their scalars to one file."""

from __future__ import annotations

import csv
import io
import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from backend.base.errors import BackendError, as_backend_error, exists_error
from backend.base.log import suppress
from backend.base.progress import Progress
from backend.records.base.account import expand_home
from backend.records.base.atomic_files import replace_chunks
from backend.records.jobs.comparison import (
    FEWEST_JOBS,
    MOST_JOBS,
    ComparedUpdate,
    ComparisonTable,
    MetricFigures,
    RunFigures,
    compare,
)
from backend.records.jobs.history import HistoryUpdate, RunStart
from backend.records.jobs.metric_names import headings, spreadsheet_text
from backend.records.jobs.view import JobView, RunUpdate
from backend.services.jobs.queries import JobQueries

COLUMNS = ("job", "name", "run", "step", "epoch", "epochs done", "time", "seconds")
"""Before the metrics. ``time`` is in seconds since 1970, ``seconds`` since the job's first step."""
_ROWS_PER_CHUNK = 20_000


@dataclass(frozen=True)
class _Cursor:
    inner: object
    figures: RunFigures
    last_step_s: float
    run_start_s: float


class ComparisonService:
    """Compare jobs without changing them. Every call blocks and may run on any thread."""

    def __init__(self, jobs: JobQueries) -> None:
        self._jobs = jobs

    def poll(self, job_id: str, cursor: object = None) -> ComparedUpdate:
        """Read a job: its current view, the new points of its curves, and its figures."""
        own_cursor = cursor if isinstance(cursor, _Cursor) else None
        update = self._jobs.poll(job_id, None if own_cursor is None else own_cursor.inner)
        if own_cursor is not None and update.history.drop_from:
            # The repeated steps may have had the best value: count again.
            own_cursor, update = None, self._jobs.poll(job_id)
        history = update.history
        is_restart = own_cursor is None or history.drop_from == 0
        previous_figures = RunFigures() if own_cursor is None or is_restart else own_cursor.figures
        last_step_s = math.nan if own_cursor is None or is_restart else own_cursor.last_step_s
        run_start_s = math.nan if own_cursor is None or is_restart else own_cursor.run_start_s
        figures, run_start_s = _add_figures(previous_figures, history, last_step_s, run_start_s)
        if len(history.seconds):
            last_step_s = float(history.seconds[-1])
        return ComparedUpdate(
            update.view, history, figures, _Cursor(update.cursor, figures, last_step_s, run_start_s)
        )

    def views(self, job_ids: Sequence[str]) -> tuple[JobView, ...]:
        """Return these jobs, without those that were removed."""
        views = []
        for job_id in job_ids:
            with suppress(BackendError):
                views.append(self._jobs.show(job_id))
        return tuple(views)

    def compare(self, job_ids: Sequence[str]) -> ComparisonTable:
        """Return the results of the jobs and the settings that differ.

        Raises:
            BackendError: There are fewer than 2 or more than 8 jobs, or a job does not exist.
        """
        if len(set(job_ids)) < len(job_ids):
            raise BackendError("One of these jobs is named twice.", "Name each job once.")
        if not FEWEST_JOBS <= len(job_ids) <= MOST_JOBS:
            raise BackendError(
                f"{FEWEST_JOBS} to {MOST_JOBS} jobs can be compared, and {len(job_ids)} "
                f"{'was' if len(job_ids) == 1 else 'were'} given."
            )
        updates = [self.poll(job_id) for job_id in job_ids]
        return compare([(update.view, update.figures) for update in updates])

    def write_csv(
        self,
        job_ids: Sequence[str],
        path: Path,
        *,
        overwrite: bool = False,
        progress: Progress | None = None,
    ) -> Path:
        """Write every scalar of every step of these jobs: a line per step, a column per metric.

        An empty field means "no value". Numbers have all their digits: plotted again, the table
        gives the curves of the window.

        Raises:
            BackendError: A job does not exist, or the file cannot be written, or it exists and
                ``overwrite`` is not set. No partial file remains.
        """
        path = expand_home(path).absolute()
        if path.exists() and not overwrite:
            raise exists_error(path)
        lines = _csv(self._jobs, job_ids, progress or Progress())
        with as_backend_error(f"{path} could not be written"):
            replace_chunks(path, lines)
        return path


def _csv(jobs: JobQueries, job_ids: Sequence[str], progress: Progress) -> Iterator[bytes]:
    """Yield the table in chunks.

    Only one job is in memory at a time: every job is read twice, because the columns are known
    only after the last job.
    """
    names: dict[str, None] = {}
    total_steps = written_steps = 0
    for job_id in job_ids:
        history = jobs.history(job_id)
        names |= dict.fromkeys(history.metrics)
        total_steps += len(history.steps)
        del history  # before the next one is read: each may be large
    yield _lines([tuple(headings(COLUMNS, names))])
    for job_id in job_ids:
        for count, chunk in _csv_chunks(jobs.poll(job_id), tuple(names)):
            yield chunk
            written_steps += count
            progress.step(written_steps, max(written_steps, total_steps), "Writing the curves")


def _csv_chunks(update: RunUpdate, names: Sequence[str]) -> Iterator[tuple[int, bytes]]:
    """Yield the lines of one job in chunks, each after its number of lines."""
    head = (update.view.id, spreadsheet_text(update.view.name))
    rows = _rows(update.history, names)
    while chunk := list(itertools.islice(rows, _ROWS_PER_CHUNK)):
        yield len(chunk), _lines((*head, *row) for row in chunk)


def _lines(rows: Iterable[tuple[object, ...]]) -> bytes:
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode()


def _rows(history: HistoryUpdate, names: Sequence[str]) -> Iterator[tuple[object, ...]]:
    steps = [int(step) for step in history.steps]
    metrics: Mapping[str, Sequence[float]] = history.metrics
    columns = [
        map(_field, _to_floats(metrics[n])) if n in metrics else itertools.repeat("", len(steps))
        for n in names
    ]
    epochs_done = history.epochs_done if len(history.epochs_done) else history.epochs
    return zip(
        _runs(steps, history.run_starts),
        steps,
        (int(epoch) for epoch in history.epochs),
        (_field(float(epochs)) for epochs in _to_floats(epochs_done)),
        (_field(history.started_s + second) for second in _to_floats(history.seconds)),
        map(_field, _to_floats(history.seconds)),
        *columns,
        strict=True,
    )


def _to_floats(values: Any) -> list[float]:
    """Convert to Python's own numbers; the numbers of numpy print their type."""
    return values.tolist() if hasattr(values, "tolist") else [float(value) for value in values]


def _runs(steps: Sequence[int], starts: Sequence[RunStart]) -> Iterator[object]:
    """Yield the run that made each step; empty if the history does not say."""
    runs_by_step = {start.first_step: start.run for start in starts}
    run: object = ""
    for step in steps:
        run = runs_by_step.get(step, run)
        yield run


def _field(value: float) -> str:
    if math.isnan(value):
        return ""
    return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)


def _add_figures(
    base: RunFigures, history: HistoryUpdate, last_step_s: float, run_start_s: float
) -> tuple[RunFigures, float]:
    """Add the new points to ``base``; return also the seconds of the last run's first step.

    Args:
        last_step_s: Seconds of the last step in ``base``; NaN without steps.
        run_start_s: Seconds of the first step of its last run; NaN without steps.
    """
    import numpy as np

    metrics = dict(base.metrics)
    for name, values in history.metrics.items():
        column = np.asarray(values, np.float64)
        finite = column[np.isfinite(column)]
        if not len(finite):
            continue
        new_figures = MetricFigures(float(finite[-1]), float(finite.min()), float(finite.max()))
        old_figures = metrics.get(name, new_figures)
        metrics[name] = replace(
            new_figures,
            lowest=min(old_figures.lowest, new_figures.lowest),
            highest=max(old_figures.highest, new_figures.highest),
        )
    seconds = np.concatenate(([last_step_s], np.asarray(history.seconds, np.float64)))
    durations = np.diff(seconds)
    # From the end of one run to the first step of the next there was no training.
    is_run_start = np.isin(
        np.asarray(history.steps), [start.first_step for start in history.run_starts]
    )
    is_counted = ~is_run_start & (durations > 0)
    # Blocks that are written together have one time: all their steps were made until then.
    run_starts_s = np.concatenate(([run_start_s], seconds[1:][is_run_start]))
    is_timed = seconds[1:] != run_starts_s[np.cumsum(is_run_start)]
    figures = RunFigures(
        metrics,
        base.seconds + float(durations[is_counted].sum()),
        base.steps + int(is_timed.sum()),
        base.untimed_steps + int((~is_timed).sum()),
    )
    return figures, float(run_starts_s[-1])
