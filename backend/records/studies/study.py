"""A study: the jobs of a published table, and the measure that fills it.

Standard library only and Python 3.9: it is read by the rules of records.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import Any

from backend.records.base.schema import KEY, STRICT, Record
from backend.records.jobs.config import StrategyConfig
from backend.records.jobs.placement import THIS_COMPUTER, Placement
from backend.records.jobs.schedulers import SCHEDULERS
from backend.records.jobs.torch_options import STRATEGIES
from backend.records.library.item import KINDS, Kind
from backend.records.sweeps.spec import ROW_SEPARATOR, Point, Sweep, expand, leaf_values

MAX_SEEDS = 100
LIBRARY_KEYS = ("dataset", "loader", "model")
GALLERY_KEY = "gallery"
_NAME_LENGTH = 60
_STUDY_KEYS = ("name", "seed", "placement", "tags")
"""Keys of a job file that the study sets itself."""


class Measure(str, Enum):
    """A measure of a finished job. The value is its name in a study file."""

    ERROR = "error"
    TRAINING_ERROR = "training error"
    TEST_ERROR = "error, test set"
    LOSS = "loss"
    TRAINING_LOSS = "training loss"
    EPOCH_TIME = "epoch time"
    GROWTH = "growth"
    RATE = "samples per second"
    EFFICIENCY = "efficiency"
    WHOLE_EPOCH_TIME = "whole epoch time"
    WHOLE_EFFICIENCY = "efficiency of whole epochs"
    STALENESS = "staleness"
    AVERAGE_PRECISION = "average precision"
    STRICT_PRECISION = "average precision at an overlap of 0.75"
    TRAINING_PRECISION = "average precision, training set"
    TEST_PRECISION = "average precision, test set"

    @property
    def label(self) -> str:
        return self.value.capitalize()

    @property
    def unit(self) -> str:
        return _UNITS.get(self, "")


RELATIVE = {
    Measure.GROWTH: Measure.EPOCH_TIME,
    Measure.EFFICIENCY: Measure.RATE,
    Measure.WHOLE_EFFICIENCY: Measure.WHOLE_EPOCH_TIME,
}
"""The measures that compare a row with the first one of its series, and what they compare."""
TIMED = frozenset({*RELATIVE, *RELATIVE.values()})
"""The measures that other programs on the computer change."""
_UNITS = {
    Measure.ERROR: "%",
    Measure.TRAINING_ERROR: "%",
    Measure.TEST_ERROR: "%",
    Measure.EPOCH_TIME: "s",
    Measure.GROWTH: "%",
    Measure.EFFICIENCY: "%",
    Measure.WHOLE_EPOCH_TIME: "s",
    Measure.WHOLE_EFFICIENCY: "%",
    Measure.STALENESS: "updates",
    Measure.AVERAGE_PRECISION: "%",
    Measure.STRICT_PRECISION: "%",
    Measure.TRAINING_PRECISION: "%",
    Measure.TEST_PRECISION: "%",
}


class FormName(str, Enum):
    """The two forms of a study: minutes on two cores, or as published."""

    SMALL = "small"
    FULL = "full"


@dataclass(frozen=True)
class StudyRow:
    """A row of the table: a job for each seed.

    Attributes:
        workers: The processes that train; servers are added to them.
        published: The published value, None if there is none.
        series: Rows with the same one are a line of the plot. Growth and efficiency are relative
            to the first row of the series.
        x: The place on the plot, by default the number of workers.
        device: "cpu" or "gpu" for a row that runs only there.
        against: As that of the study, for this row.
        job: The keys of a job file that differ. A model or loader may be a table of the gallery's
            entry and its settings: ``model = { gallery = "lenet-5", side = 16 }``.
    """

    name: str
    workers: int = 1
    published: float | None = None
    series: str = ""
    x: float | None = None
    device: str = ""
    against: str = ""
    job: Mapping[str, Any] = field(default_factory=dict)

    @property
    def plot_x(self) -> float:
        return float(self.workers) if self.x is None else self.x


@dataclass(frozen=True)
class StudyForm:
    """The size of a study. Without names all rows are part of it; ``job`` comes before a row's.

    Attributes:
        published_on: As that of the study, for a form with other data than the published values.
        further_measures: Measures, after those of the study.
    """

    minutes: float
    seeds: tuple[int, ...] = (1, 2, 3)
    rows: tuple[str, ...] = ()
    job: Mapping[str, Any] = field(default_factory=dict)
    note: str = ""
    published_on: str = ""
    further_measures: tuple[Measure, ...] = field(default=(), metadata={KEY: "also"})


@dataclass(frozen=True)
class Study(Record, label="study", rules=STRICT):
    """A study file.

    Attributes:
        x: The title of the plot's axis; without one the rows are its places.
        published_on: What the published values were measured on, if it is not what the jobs are:
            then the table has no differences.
        best: The rows of a series differ in a setting that is tuned: the best is marked.
        against: The row with which the others are compared by seed, or a series, of which it is the
            best row.
    """

    title: str
    question: str
    source: str
    measure: Measure
    rows: tuple[StudyRow, ...]
    small: StudyForm
    full: StudyForm
    job: Mapping[str, Any]
    further_measures: tuple[Measure, ...] = field(default=(), metadata={KEY: "also"})
    x: str = ""
    published_on: str = ""
    best: bool = False
    against: str = ""

    def form(self, name: FormName) -> StudyForm:
        return self.small if name is FormName.SMALL else self.full

    def rows_of(self, name: FormName) -> tuple[StudyRow, ...]:
        """Return the rows of a form, in the order of the table."""
        row_names = self.form(name).rows
        return tuple(row for row in self.rows if not row_names or row.name in row_names)

    def usual_device(self, name: FormName) -> str:
        """Return "gpu" for jobs in a cluster that ask for GPUs, else "cpu"."""
        job = {**dict(leaf_values(self.job)), **dict(leaf_values(self.form(name).job))}
        return "gpu" if any(job.get(f"{key}.gpus") for key in SCHEDULERS) else "cpu"

    def rows_on(self, name: FormName, device: str) -> tuple[StudyRow, ...]:
        """Return the rows of a form that run on CPUs or on GPUs."""
        return tuple(row for row in self.rows_of(name) if row.device in ("", device))


@dataclass(frozen=True)
class GalleryPart:
    """An entry of the gallery that jobs use with these settings.

    Attributes:
        name: Its name in the library: that of the entry and the settings that its row has.
        settings: As typed, by name.
    """

    kind: Kind
    entry: str
    name: str
    settings: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class FormSize:
    """The jobs of a form if no nodes are chosen, how long they take, and a note about it."""

    jobs: int
    minutes: float
    note: str


@dataclass(frozen=True)
class GalleryStudy:
    """A study that can be started. ``name`` may be the path of its file."""

    name: str
    title: str
    question: str
    source: str
    sizes: Mapping[FormName, FormSize]

    @classmethod
    def from_study(cls, name: str, study: Study) -> GalleryStudy:
        sizes = {}
        for form in FormName:
            study_form = study.form(form)
            jobs = len(study.rows_on(form, study.usual_device(form))) * len(study_form.seeds)
            sizes[form] = FormSize(jobs, study_form.minutes, study_form.note)
        return cls(name, study.title, study.question, study.source, sizes)


@dataclass(frozen=True)
class StudyJob:
    """A job of a started study: the seed and the row that it fills."""

    id: str
    row: str
    seed: int


@dataclass(frozen=True)
class StartedStudy(Record, label="started study", newest_schema=1):
    """``studies/<sweep>.json``: the study that a sweep fills, with a copy of its file."""

    sweep: str
    form: FormName
    text: str
    jobs: tuple[StudyJob, ...]
    schema: int = 1


def read_study(raw: Mapping[str, Any]) -> Study:
    """Parse a study file, and check the jobs of both forms.

    Raises:
        ValueError: It is invalid; the message is a clause that names the key.
    """
    study = Study.from_dict(dict(raw))
    for error in _errors(study):
        raise ValueError(error)
    for name in FormName:
        for row in study.rows_of(name):
            for job_error in expand(_sweep(study, name, [(row, 1)], ())).errors:
                raise ValueError(f"the row “{row.name}”: {job_error.message.rstrip('.')}")
    return study


def rows_for(study: Study, form: FormName, placements: Sequence[Placement]) -> tuple[StudyRow, ...]:
    """Return the rows that run on these places; for () on this computer or the study's cluster.

    Raises:
        ValueError: There is none.
    """
    device = study.usual_device(form)
    if placements:
        device = "gpu" if any(placement.gpus for placement in placements) else "cpu"
    rows = study.rows_on(form, device)
    if not rows:
        raise ValueError(f"no row runs on {device.upper()}s")
    return rows


def library_of(study: Study, form: FormName, row: StudyRow) -> dict[str, str | GalleryPart]:
    """Return what the jobs of a row name of the library and of the gallery, by the key."""
    values = _values(study, form, row)
    return {key: values[key] for key in KINDS if isinstance(values.get(key), (str, GalleryPart))}


def sweep_of_study(
    study: Study,
    form: FormName,
    placements: Sequence[Placement],
    library: Mapping[str, str],
    added_parts: Mapping[GalleryPart, str] = MappingProxyType({}),
) -> tuple[Sweep, tuple[tuple[str, int], ...]]:
    """Return the jobs as a sweep, and the row and the seed of each.

    All rows have one seed before the next, so that a slow hour of a shared computer is in all rows.

    Args:
        placements: Where the jobs run; () for this computer, or the cluster that the study names.
        library: The dataset, loader and model of jobs whose file names none.
        added_parts: The references of entries of the gallery that are in the library.

    Raises:
        ValueError: No row can run on these places, or a row needs more processes than these have.
    """
    rows = rows_for(study, form, placements)
    cells = [(row, seed) for seed in study.form(form).seeds for row in rows]
    sweep = _sweep(study, form, cells, placements, library, added_parts)
    return sweep, tuple((row.name, seed) for row, seed in cells)


def _sweep(
    study: Study,
    form: FormName,
    cells: Iterable[tuple[StudyRow, int]],
    placements: Sequence[Placement],
    library: Mapping[str, str] = dict.fromkeys(LIBRARY_KEYS, "digits"),
    added_parts: Mapping[GalleryPart, str] = MappingProxyType({}),
) -> Sweep:
    points = []
    for row, seed in cells:
        values = {
            key: added_parts.get(value, value.name) if isinstance(value, GalleryPart) else value
            for key, value in _values(study, form, row).items()
        }
        # A script takes no model and no loader.
        library_values = {} if "script" in values else library
        process_count = row.workers + _servers(values)
        scheduler = next((key for key in SCHEDULERS if f"{key}.cluster" in values), None)
        if scheduler is not None and not placements:
            placement_values = _cluster_size(row, process_count, values, scheduler)
        else:
            values = {k: v for k, v in values.items() if k.partition(".")[0] not in SCHEDULERS}
            placement_values = {"placement": _placement(row, process_count, placements)}
        values = {**library_values, **values, "seed": seed, **placement_values}
        points.append(Point(f"{ROW_SEPARATOR} {row.name} seed={seed}", tuple(values.items())))
    return Sweep({"name": study.title}, points=tuple(points))


def _values(study: Study, form: FormName, row: StudyRow) -> dict[str, Any]:
    """Return the values of a row's jobs by path; an entry of the gallery is a `GalleryPart`.

    Raises:
        ValueError: A table of a model or loader names no entry.
    """
    row_values = dict(leaf_values(row.job))
    values = {
        **dict(leaf_values(study.job)),
        **dict(leaf_values(study.form(form).job)),
        **row_values,
    }
    for key, kind in KINDS.items():
        prefix = f"{key}."
        paths = [path for path in values if path.startswith(prefix)]
        table = {path[len(prefix) :]: values.pop(path) for path in paths}
        if not table:
            continue
        entry = table.pop(GALLERY_KEY, None)
        if kind is Kind.DATASET or not isinstance(entry, str) or key in values:
            raise ValueError(
                f"the row “{row.name}”: {key} must be a name"
                + ("" if kind is Kind.DATASET else f", or a table with “{GALLERY_KEY}”")
            )
        row_settings = [path[len(prefix) :] for path in row_values if path in paths]
        name_parts = [
            _name_part(setting, table[setting]) for setting in row_settings if setting in table
        ]
        name = re.sub(r"([^\w.]|_)+", "-", "-".join([entry, *filter(None, name_parts)])).strip("-.")
        settings = tuple((setting, str(value)) for setting, value in table.items())
        values[key] = GalleryPart(kind, entry, name[:_NAME_LENGTH], settings)
    return values


def _name_part(setting: str, value: Any) -> str:
    """Return a setting in a name: ``relu``, ``depth-8``, ``batch-norm``, "" for false."""
    if isinstance(value, bool):
        return setting if value else ""
    return value if isinstance(value, str) else f"{setting}-{value}"


def _servers(values: Mapping[str, Any]) -> int:
    name = values.get("strategy.name", "allreduce")
    if not isinstance(name, str) or name not in STRATEGIES:
        return 0
    count = values.get("strategy.servers", 1)
    return StrategyConfig(
        name, settings={"servers": count if isinstance(count, int) else 1}
    ).servers


def _placement(
    row: StudyRow, process_count: int, placements: Sequence[Placement]
) -> list[dict[str, Any]]:
    """Return the places of the first processes, one node after the other."""
    if not placements:
        return [{"node": THIS_COMPUTER, "processes": process_count}]
    row_placement = []
    remaining_count = process_count
    for placement in placements:
        count = min(remaining_count, placement.process_count)
        remaining_count -= count
        if count:
            amount = (
                {"gpus": list(placement.gpus[:count])} if placement.gpus else {"processes": count}
            )
            row_placement.append({"node": placement.node, **amount})
    if remaining_count:
        kind = "GPUs" if placements[0].gpus else "processes"
        raise ValueError(
            f"the row “{row.name}” needs {process_count} {kind}, and the nodes have "
            f"{process_count - remaining_count}"
        )
    return row_placement


def _cluster_size(
    row: StudyRow, process_count: int, values: Mapping[str, Any], scheduler: str
) -> dict[str, Any]:
    """Return the nodes of a row's job in a cluster; the study says how many processes each has."""
    key = f"{scheduler}.gpus" if values.get(f"{scheduler}.gpus") else f"{scheduler}.processes"
    largest_count = values.get(key, 1)
    per_node = min(largest_count, process_count) if isinstance(largest_count, int) else 1
    per_node = max(1, per_node)
    if process_count % per_node:
        raise ValueError(
            f"the row “{row.name}” needs {process_count} processes, which are not the same number "
            f"on each node with {per_node} ({key})"
        )
    return {key: per_node, f"{scheduler}.nodes": process_count // per_node}


def _errors(study: Study) -> Iterator[str]:
    names = [row.name for row in study.rows]
    for key in ("title", "question", "source"):
        if not getattr(study, key).strip():
            yield f"{key} is empty"
    if not names:
        yield "rows is empty"
    comparisons = [("against", study.against)]
    comparisons += [
        (f"rows[{number}].against", row.against) for number, row in enumerate(study.rows)
    ]
    for key, name in comparisons:
        if name not in {"", *names, *(row.series for row in study.rows)}:
            yield f"{key} names “{name}”, which is neither a row nor a series"
    for number, row in enumerate(study.rows):
        path = f"rows[{number}]"
        if not row.name.strip() or "|" in row.name or "\n" in row.name:
            yield f"{path}.name must be a text without “|” and line ends"
        if row.name in names[:number]:
            yield f"{path}.name is “{row.name}” as in another row"
        if row.workers < 1:
            yield f"{path}.workers must be 1 or more, not {row.workers}"
        if row.device not in ("", "cpu", "gpu"):
            yield f"{path}.device must be “cpu” or “gpu”, not “{row.device}”"
        for key, value in (("published", row.published), ("x", row.x)):
            if value is not None and not math.isfinite(value):
                yield f"{path}.{key} must be a finite number"
    jobs = [("job", study.job)]
    jobs += [(f"rows[{number}].job", row.job) for number, row in enumerate(study.rows)]
    for name in FormName:
        form = study.form(name)
        jobs.append((f"{name.value}.job", form.job))
        if not math.isfinite(form.minutes) or form.minutes <= 0:
            yield f"{name.value}.minutes must be above 0"
        if not form.seeds or len(set(form.seeds)) < len(form.seeds) or min(form.seeds) < 0:
            yield f"{name.value}.seeds must be different whole numbers, 0 or more"
        if len(form.seeds) > MAX_SEEDS:
            yield f"{name.value}.seeds has more than {MAX_SEEDS} values"
        for row_name in form.rows:
            if row_name not in names:
                yield f"{name.value}.rows names “{row_name}”, which is not a row"
    for path, job in jobs:
        for key in _STUDY_KEYS:
            if key in job:
                yield f"{path}.{key} is set by the study"
