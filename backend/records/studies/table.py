"""The table of a study: measured and published values.

Mean, standard deviation and the 95 % interval of the mean, by Student's t (“Student”, *The probable
error of a mean*, Biometrika 6, 1908).
"""

from __future__ import annotations

import csv
import io
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from types import MappingProxyType

from backend.records.base.schema import KEY
from backend.records.jobs.metric_names import spreadsheet_text
from backend.records.jobs.run_environment import RunEnvironment
from backend.records.studies.study import (
    RELATIVE,
    TIMED,
    FormName,
    Measure,
    StartedStudy,
    Study,
    StudyRow,
)

JobMeasures = Mapping[Measure, float]
"""The values of one finished job."""
_BUSY_SHARE = 0.1
"""The share of all processors that other programs use on a busy computer."""


@dataclass(frozen=True)
class Cell:
    """Mean and standard deviation over the seeds; None where too few jobs are finished."""

    n: int = 0
    mean: float | None = None
    sd: float | None = None

    @property
    def interval(self) -> tuple[float, float] | None:
        """The 95 % interval of the mean."""
        if self.mean is None or self.sd is None:
            return None
        half_width = _student_t(self.n - 1) * self.sd / math.sqrt(self.n)
        return self.mean - half_width, self.mean + half_width


@dataclass(frozen=True)
class JobValues:
    """The values of a finished job, and where it ran. ``busy`` is as in `TableRow`, of any size."""

    row: str
    seed: int
    job: str
    values: JobMeasures
    busy: float | None = None
    environment: RunEnvironment | None = None


@dataclass(frozen=True)
class Column:
    """A measure that the table has besides its main one."""

    label: str
    unit: str


@dataclass(frozen=True)
class TableRow:
    """A row. ``jobs`` are those that fill it, ``further_cells`` has a cell for each further column.

    Attributes:
        difference: None also where the published value is of other data.
        is_best: The best row of its series, if the study compares by that.
        busy: The largest share of the processors that other programs used during one of its jobs,
            if the table has times and the computer was busy.
        against: The row that it is compared with, "" for none.
        seed_difference: The difference from that row, over the seeds that both have.
    """

    name: str
    series: str
    plot_x: float = field(metadata={KEY: "place"})
    jobs: int
    value: Cell
    published: float | None
    further_cells: tuple[Cell, ...] = field(default=(), metadata={KEY: "also"})
    difference: float | None = None
    is_best: bool = False
    busy: float | None = None
    against: str = ""
    seed_difference: Cell = Cell()

    @property
    def label(self) -> str:
        return f"{self.name}{', best' if self.is_best else ''}{' *' if self.busy else ''}"


@dataclass(frozen=True)
class StudyTable:
    """The table of a started study, and what its plot needs."""

    title: str
    question: str
    source: str
    note: str
    form: FormName
    value: Column
    further_columns: tuple[Column, ...] = field(metadata={KEY: "also"})
    x: str
    rows: tuple[TableRow, ...]
    seeds: tuple[int, ...] = ()
    published_on: str = ""
    jobs: tuple[JobValues, ...] = ()
    seed_column: Column | None = None
    """The measure of which rows are compared by seed; None if none are."""
    has_own_mean: bool = False
    """The first row of a series is compared with its own mean."""

    @property
    def compares(self) -> bool:
        """True if the published values are of the same data."""
        return not self.published_on and any(row.published is not None for row in self.rows)

    @property
    def remarks(self) -> tuple[str, ...]:
        """Sentences about how to read the figures."""
        remarks = ["Mean ± standard deviation; the interval is that of the mean (Student's t)."]
        if self.published_on and any(row.published is not None for row in self.rows):
            remarks.append(
                f"The published values are for {self.published_on}: there is no difference to show."
            )
        if self.has_own_mean:
            remarks.append(
                "The first row of a series is compared with its own mean, the others with it by "
                "seed."
            )
        if any(row.is_best for row in self.rows):
            is_same = self.seed_column is None or self.seed_column == self.value
            label = "these same values" if is_same else f"“{self.value.label}”, not by the test set"
            remarks.append(f"Compare the rows marked “best”, which were chosen by {label}.")
        if self.seed_column is not None:
            remarks.append(
                "By seed: the mean difference of jobs with the same seed and its 95 % interval, "
                "not corrected for the number of rows."
            )
        busy_share = max((row.busy or 0.0 for row in self.rows), default=0.0)
        if busy_share:
            remarks.append(
                f"* Other programs used up to {100 * busy_share:.0f} % of the processors "
                "meanwhile, so these times are too long."
            )
        environments = (job.environment for job in self.jobs)
        ran_on = dict.fromkeys(_environment_label(e) for e in environments if e is not None)
        return (*remarks, *(f"Ran on {label}." for label in ran_on))


def study_table(
    study: Study,
    started_study: StartedStudy,
    measures_by_job: Mapping[str, JobMeasures],
    busy_shares: Mapping[str, float] = MappingProxyType({}),
    environments: Mapping[str, RunEnvironment] = MappingProxyType({}),
) -> StudyTable:
    """Return the table.

    Args:
        measures_by_job: The measures of the finished jobs, by id.
        busy_shares: The share of the processors that other programs used during a job, where known.
        environments: Of the finished jobs, where known.
    """
    return _TableMaker(study, started_study, measures_by_job, busy_shares, environments).table()


class _TableMaker:
    def __init__(
        self,
        study: Study,
        started_study: StartedStudy,
        measures_by_job: Mapping[str, JobMeasures],
        busy_shares: Mapping[str, float],
        environments: Mapping[str, RunEnvironment],
    ) -> None:
        self._study, self._form = study, study.form(started_study.form)
        self._rows = study.rows_of(started_study.form)
        self._finished_jobs = [job for job in started_study.jobs if job.id in measures_by_job]
        self._started_study, self._measures_by_job = started_study, measures_by_job
        self._busy_shares, self._environments = busy_shares, environments
        self._further_measures = (*study.further_measures, *self._form.further_measures)
        self._measures = (study.measure, *self._further_measures)
        self._measures_by_cell = {
            (job.row, job.seed): measures_by_job[job.id] for job in self._finished_jobs
        }
        self._first_rows: dict[str, StudyRow] = {}
        for row in self._rows:
            self._first_rows.setdefault(row.series, row)
        self._cells = {row.name: self._cell(row, study.measure) for row in self._rows}
        has_test_error = Measure.TEST_ERROR in self._further_measures
        self._compared_measure = Measure.TEST_ERROR if has_test_error else study.measure

    def table(self) -> StudyTable:
        study, table_rows = self._study, tuple(map(self._table_row, self._rows))
        compared_measure = self._compared_measure
        seed_column = Column(compared_measure.label, compared_measure.unit)
        columns = tuple(Column(measure.label, measure.unit) for measure in self._measures)
        return StudyTable(
            *(study.title, study.question, study.source, self._form.note),
            *(self._started_study.form, columns[0], columns[1:], study.x),
            rows=table_rows,
            seeds=self._form.seeds,
            published_on=self._form.published_on or study.published_on,
            jobs=tuple(
                JobValues(
                    *(job.row, job.seed, job.id, self._measures_by_job[job.id]),
                    *(self._busy_shares.get(job.id), self._environments.get(job.id)),
                )
                for job in self._finished_jobs
            ),
            seed_column=seed_column if any(row.against for row in table_rows) else None,
            has_own_mean=not RELATIVE.keys().isdisjoint(self._measures),
        )

    def _table_row(self, row: StudyRow) -> TableRow:
        study, cell, reference = self._study, self._cells[row.name], self._reference_of(row)
        mean, is_timed = cell.mean, not TIMED.isdisjoint(self._measures)
        job_count = sum(job.row == row.name for job in self._started_study.jobs)
        finished_ids = [job.id for job in self._finished_jobs if job.row == row.name]
        shares = [self._busy_shares.get(job_id, 0.0) for job_id in finished_ids if is_timed]
        means = [self._cells[peer.name].mean for peer in self._rows if peer.series == row.series]
        is_other_data = self._form.published_on or study.published_on
        return TableRow(
            *(row.name, row.series, row.plot_x, job_count, cell, row.published),
            tuple(self._cell(row, measure) for measure in self._further_measures),
            None
            if mean is None or row.published is None or is_other_data
            else mean - row.published,
            study.best and mean is not None and mean == min(m for m in means if m is not None),
            max((share for share in shares if share > _BUSY_SHARE), default=None),
            *(() if reference is None else (reference.name, self._difference(row, reference))),
        )

    def _value(self, row: StudyRow, measure: Measure, seed: int) -> float | None:
        base_row = self._first_rows[row.series]
        base_measures = self._measures_by_cell.get((base_row.name, seed))
        if row is base_row and measure in RELATIVE:
            # Compared with itself, each job would be its own mean, and the row had no spread.
            base_measure = RELATIVE[measure]
            peers = (
                self._measures_by_cell.get((row.name, peer_seed), {}).get(base_measure)
                for peer_seed in self._form.seeds
            )
            mean = cell_of([value for value in peers if value is not None]).mean
            base_measures = None if mean is None else {base_measure: mean}
        own_measures = self._measures_by_cell.get((row.name, seed))
        return _value(measure, row, base_row, own_measures, base_measures)

    def _cell(self, row: StudyRow, measure: Measure) -> Cell:
        values = (self._value(row, measure, seed) for seed in self._form.seeds)
        return cell_of([value for value in values if value is not None])

    def _reference_of(self, row: StudyRow) -> StudyRow | None:
        """Return the row that a row is compared with by seed."""
        name = row.against or self._study.against
        if not name:
            return None
        in_series = [peer for peer in self._rows if peer.series == name]
        means = {peer.name: self._cells[peer.name].mean for peer in in_series}
        best_mean = min((mean for mean in means.values() if mean is not None), default=None)
        for peer in self._rows:
            if peer is not row and (peer.name == name or means.get(peer.name, "") == best_mean):
                return peer
        return None

    def _difference(self, row: StudyRow, reference: StudyRow) -> Cell:
        """Return the difference of two rows in jobs with the same seed."""
        measure = self._compared_measure
        pairs = (
            (self._value(row, measure, seed), self._value(reference, measure, seed))
            for seed in self._form.seeds
        )
        return cell_of([a - b for a, b in pairs if a is not None and b is not None])


def cell_of(values: list[float]) -> Cell:
    """Return mean and standard deviation of finite numbers."""
    values = [value for value in values if math.isfinite(value)]
    if not values:
        return Cell()
    spread = statistics.stdev(values) if len(values) > 1 else None
    return Cell(len(values), statistics.fmean(values), spread)


def _value(
    measure: Measure,
    row: StudyRow,
    base: StudyRow,
    own_measures: JobMeasures | None,
    base_measures: JobMeasures | None,
) -> float | None:
    """Return the value of a job; of a relative measure the comparison with the base row."""
    if own_measures is None:
        return None
    if measure not in RELATIVE:
        return own_measures.get(measure)
    base_measure = RELATIVE[measure]
    value, base_value = (
        own_measures.get(base_measure),
        None if base_measures is None else base_measures.get(base_measure),
    )
    if not value or not base_value:
        return None
    if measure is Measure.GROWTH:
        return 100 * (value / base_value - 1)
    ratio = value / base_value
    speed_up = 1 / ratio if measure is Measure.WHOLE_EFFICIENCY else ratio
    return 100 * speed_up * base.workers / row.workers


def markdown_text(table: StudyTable) -> str:
    """Return the table as a page of documentation; all its figures are measured or published."""
    seeds = ", ".join(map(str, table.seeds))
    notes = [f"**Source.** {table.source}.", f"**Form.** {table.form.value}, seeds {seeds}."]
    if table.note:
        notes[-1] += f" {table.note}"
    lines = [f"# {table.title}", "", table.question, ""]
    for note in notes:
        lines += [note, ""]
    head, rows = table_texts(table)
    lines += [f"| | {' | '.join(head[1:])} |", "|---" * len(head) + "|"]
    lines += [f"| {' | '.join(cells)} |" for cells in rows]
    return "\n".join([*lines, "", *table.remarks]) + "\n"


def table_texts(table: StudyTable) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    """Return the head and the rows of the table; the first column has the names of the rows."""
    head = ["", f"{table.value.label}{_unit_suffix(table.value)}", "95 % interval", "published"]
    head += [*["difference"] * table.compares, *seed_difference_titles(table), "jobs"]
    head += [f"{column.label}{_unit_suffix(column)}" for column in table.further_columns]
    rows = (
        (
            *(row.label, spread_text(row.value), interval_text(row.value)),
            *(number_text(row.published), *[number_text(row.difference, "+")] * table.compares),
            *[seed_difference_label(row)] * (table.seed_column is not None),
            f"{row.value.n} of {row.jobs}" if row.jobs else "not run",
            *map(spread_text, row.further_cells),
        )
        for row in table.rows
    )
    return tuple(head), tuple(rows)


def csv_text(table: StudyTable) -> str:
    """Return what each finished job gave, with all digits: a line for each row and seed."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    measures = [m for m in Measure if any(m in job.values for job in table.jobs)]
    labels = [f"{m.label}{_unit_suffix(Column(m.label, m.unit))}" for m in measures]
    writer.writerow(["Row", "Seed", "Job", *labels, "Busy", "Device", "PyTorch", "Program"])
    for job in table.jobs:
        environment = job.environment or RunEnvironment(0, job.seed, 0)
        writer.writerow(
            [
                *(spreadsheet_text(job.row), job.seed, job.job),
                *(job.values.get(measure) for measure in measures),
                *(job.busy, environment.device, environment.torch, environment.program),
            ]
        )
    return text.getvalue()


def seed_difference_label(row: TableRow) -> str:
    """Return the difference by seed: ``-0.58 (-2.10 to 0.94) against relu``, or ""."""
    if row.seed_difference.mean is None:
        return ""
    suffix = f" ({interval_text(row.seed_difference)})" if row.seed_difference.interval else ""
    return f"{number_text(row.seed_difference.mean, '+')}{suffix} against {row.against}"


def seed_difference_titles(table: StudyTable) -> Sequence[str]:
    """Return the title of the column with the differences by seed, if the table has one."""
    column = table.seed_column
    return () if column is None else (f"{column.label}, difference by seed{_unit_suffix(column)}",)


def _environment_label(environment: RunEnvironment) -> str:
    """Return the device and the versions: ``GPU NVIDIA H200, PyTorch 2.6.0, program 0.1.0``."""
    kind = "GPU" if environment.cuda else "CPU"
    program = environment.program or "of an unknown version"
    return f"{kind} {environment.device}, PyTorch {environment.torch}, program {program}"


def number_text(value: float | None, sign: str = "") -> str:
    """Return a number with one decimal, below 10 with two; "" for None."""
    if value is None:
        return ""
    digits = 1 if abs(value) >= 10 else 2
    return f"{value:{sign}.{digits}f}"


def spread_text(cell: Cell) -> str:
    """Return mean and standard deviation: ``4.2 ± 1.5``."""
    if cell.mean is None:
        return ""
    if cell.sd is None:
        return number_text(cell.mean)
    digits = 1 if abs(cell.mean) >= 10 else 2
    return f"{cell.mean:.{digits}f} ± {cell.sd:.{digits}f}"


def interval_text(cell: Cell) -> str:
    """Return the ends of the 95 % interval: ``2.3 to 6.1``."""
    if cell.mean is None or cell.interval is None:
        return ""
    digits = 1 if abs(cell.mean) >= 10 else 2
    return " to ".join(f"{end:.{digits}f}" for end in cell.interval)


@cache
def _student_t(freedom: int) -> float:
    """Return the t that 95 % of the values of Student's distribution do not exceed in size.

    By the series of Abramowitz and Stegun, *Handbook of mathematical functions*, 26.7.3 and 26.7.4.
    """

    def share(angle: float) -> float:
        cosine, is_odd = math.cos(angle), freedom % 2
        term, total = 1.0, 0.0
        for power in range(is_odd, freedom - 1, 2):
            if power > 1:
                term *= (power - 1) / power
            total += term * cosine**power
        total *= math.sin(angle)
        return 2 / math.pi * (angle + total) if is_odd else total

    low, high = 0.0, math.pi / 2
    for _ in range(60):
        center = (low + high) / 2
        low, high = (center, high) if share(center) < 0.95 else (low, center)
    return math.sqrt(freedom) * math.tan(low)


def _unit_suffix(column: Column) -> str:
    return f", {column.unit}" if column.unit else ""
