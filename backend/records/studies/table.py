"""The table of a study: measured and published values."""

from __future__ import annotations

import csv
import io
import math
import statistics
from collections.abc import Mapping
from dataclasses import dataclass

from backend.records.jobs.metric_names import in_spreadsheet
from backend.records.studies.study import FormName, Measure, StartedStudy, Study, StudyRow

Measured = Mapping[Measure, float]
"""What one finished job gave."""
_HEAD = ("Row", "Jobs", "Mean", "SD", "Published", "Difference")


@dataclass(frozen=True)
class Cell:
    """Mean and standard deviation over the seeds; None where too few jobs are finished."""

    n: int = 0
    mean: float | None = None
    sd: float | None = None


@dataclass(frozen=True)
class Column:
    """A measure that the table has besides its main one."""

    label: str
    unit: str


@dataclass(frozen=True)
class TableRow:
    """A row. ``jobs`` are those that fill it, ``also`` has a cell for each further column."""

    name: str
    series: str
    place: float
    jobs: int
    value: Cell
    published: float | None
    also: tuple[Cell, ...] = ()

    @property
    def difference(self) -> float | None:
        if self.value.mean is None or self.published is None:
            return None
        return self.value.mean - self.published


@dataclass(frozen=True)
class StudyTable:
    """The table of a started study, and what its plot needs."""

    title: str
    question: str
    source: str
    note: str
    form: FormName
    value: Column
    also: tuple[Column, ...]
    x: str
    rows: tuple[TableRow, ...]
    seeds: tuple[int, ...] = ()


def study_table(
    study: Study, started: StartedStudy, measured: Mapping[str, Measured]
) -> StudyTable:
    """Return the table. ``measured`` is by id, of the finished jobs."""
    rows = study.rows_of(started.form)
    found: dict[tuple[str, int], Measured] = {
        (job.row, job.seed): measured[job.id] for job in started.jobs if job.id in measured
    }
    first: dict[str, StudyRow] = {}
    for row in rows:
        first.setdefault(row.series, row)
    seeds = study.form(started.form).seeds

    def cell(row: StudyRow, measure: Measure) -> Cell:
        base = first[row.series]
        values = (
            _value(measure, row, base, found.get((row.name, seed)), found.get((base.name, seed)))
            for seed in seeds
        )
        return cell_of([value for value in values if value is not None])

    made = tuple(
        TableRow(
            row.name,
            row.series,
            row.place,
            sum(job.row == row.name for job in started.jobs),
            cell(row, study.measure),
            row.published,
            tuple(cell(row, measure) for measure in study.also),
        )
        for row in rows
    )
    columns = tuple(Column(measure.label, measure.unit) for measure in (study.measure, *study.also))
    note = study.form(started.form).note
    return StudyTable(
        *(study.title, study.question, study.source, note, started.form),
        *(columns[0], columns[1:], study.x, made, seeds),
    )


def cell_of(values: list[float]) -> Cell:
    """Return mean and standard deviation of finite numbers."""
    values = [value for value in values if math.isfinite(value)]
    if not values:
        return Cell()
    spread = statistics.stdev(values) if len(values) > 1 else None
    return Cell(len(values), statistics.fmean(values), spread)


def _value(
    measure: Measure, row: StudyRow, base: StudyRow, own: Measured | None, of_base: Measured | None
) -> float | None:
    """Return the value of a job; growth and efficiency compare it with one of the same seed."""
    if own is None:
        return None
    if measure not in (Measure.GROWTH, Measure.EFFICIENCY):
        return own.get(measure)
    raw = Measure.EPOCH_TIME if measure is Measure.GROWTH else Measure.RATE
    here, there = own.get(raw), None if of_base is None else of_base.get(raw)
    if here is None or not there:
        return None
    if measure is Measure.GROWTH:
        return 100 * (here / there - 1)
    return 100 * here / there * base.workers / row.workers


def in_markdown(table: StudyTable) -> str:
    """Return the table as a page of documentation; all its figures are measured or published."""
    seeds = ", ".join(map(str, table.seeds))
    notes = [f"**Source.** {table.source}.", f"**Form.** {table.form.value}, seeds {seeds}."]
    if table.note:
        notes[-1] += f" {table.note}"
    head = [f"{table.value.label}{_in_unit(table.value)}", "published", "difference", "jobs"]
    head += [f"{column.label}{_in_unit(column)}" for column in table.also]
    lines = [f"# {table.title}", "", table.question, ""]
    for note in notes:
        lines += [note, ""]
    lines += [f"| | {' | '.join(head)} |", "|---" * (len(head) + 1) + "|"]
    for row in table.rows:
        cells = [
            *(spread(row.value), figure(row.published), figure(row.difference, "+")),
            f"{row.value.n} of {row.jobs}" if row.jobs else "not run",
            *map(spread, row.also),
        ]
        lines.append(f"| {row.name} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def in_csv(table: StudyTable) -> str:
    """Return the table with all digits, a line for each row."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    also = [f"{column.label} {part}" for column in table.also for part in ("mean", "SD")]
    writer.writerow([*_HEAD, "Unit", *also])
    for row in table.rows:
        value, others = row.value, [part for cell in row.also for part in (cell.mean, cell.sd)]
        numbers = (value.n, value.mean, value.sd, row.published, row.difference)
        writer.writerow([in_spreadsheet(row.name), *numbers, table.value.unit, *others])
    return text.getvalue()


def figure(value: float | None, sign: str = "") -> str:
    """Return a number with one decimal, below 10 with two; "" for None."""
    if value is None:
        return ""
    digits = 1 if abs(value) >= 10 else 2
    return f"{value:{sign}.{digits}f}"


def spread(cell: Cell) -> str:
    """Return mean and standard deviation: ``4.2 ± 1.5``."""
    if cell.mean is None:
        return ""
    if cell.sd is None:
        return figure(cell.mean)
    digits = 1 if abs(cell.mean) >= 10 else 2
    return f"{cell.mean:.{digits}f} ± {cell.sd:.{digits}f}"


def _in_unit(column: Column) -> str:
    return f", {column.unit}" if column.unit else ""
