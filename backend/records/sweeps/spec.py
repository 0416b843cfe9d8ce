"""A sweep: a job file and the fields that take several values, expanded to named jobs.

Pure: the same sweep gives the same jobs, in the same order, on every machine and Python. Random
draws use only `random.Random.random`, the one method whose sequence Python promises to keep. The
jobs of a search have no values of their own yet: a sampler proposes them (`records.sweeps.search`).
"""

from __future__ import annotations

import copy
import itertools
import math
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from backend.records.base.schema import KEY, STRICT, build, kind_of
from backend.records.base.validation import ConfigError, closest_match
from backend.records.jobs.arguments import (
    TABLE,
    argument_name,
    argument_rows,
    is_name,
    value_problem,
)
from backend.records.jobs.job_file import parse_job, with_value
from backend.records.jobs.settings import (
    NOTES,
    OPTIONS,
    SETTINGS,
    is_of,
    value_at,
)
from backend.records.jobs.view import JobView
from backend.records.sweeps import search as searches
from backend.records.sweeps.search import Search
from backend.records.sweeps.values import Axis, ValueRange, parse_axis, value_text, with_kind

MAX_JOBS = 200
TAG = "sweep:"
"""Prefix of the tag of a sweep's jobs, which every desktop knows."""
ROW_SEPARATOR = "·"
"""Separator between the name of a study and the name of a row, in a job's name."""
DRAWS, SEED = "sweep.random", "sweep.seed"
"""The fields of the sweep itself, as its file names them."""
_NAME_BYTES = 255
_SHUFFLED_UP_TO = 4 * MAX_JOBS
_TRIES_A_JOB = 100
_CORNERS = 60
"""Combinations of the ends of all ranges that are checked before a search begins."""
_TRIAL = "trial"
_OWNERS = {"checkpoint.best_mode": "checkpoint.best_metric", "early_stop.mode": "early_stop.metric"}
"""Settings that belong to the value of another one."""
_SPAN_KEYS = ("from", "to", "steps", "scale")


@dataclass(frozen=True)
class Point:
    """A job of a sweep: the end of its name, and the value of each field that it sets."""

    name: str
    values: tuple[tuple[str, Any], ...]


@dataclass(frozen=True)
class Sweep:
    """The definition of a sweep. ``base`` is a job file; ``draws`` None is the whole grid.

    ``points``, if there are any, list the jobs instead of the axes; with a ``search``, a sampler
    chooses within the axes.
    """

    base: Mapping[str, Any]
    axes: tuple[Axis, ...] = ()
    draws: int | None = None
    seed: int = 1
    points: tuple[Point, ...] = ()
    search: Search | None = None


@dataclass(frozen=True)
class SweptJob:
    """A job of a sweep: its file, and its value of each axis, in their order."""

    name: str
    raw: dict[str, Any]
    values: tuple[tuple[str, Any], ...]


@dataclass(frozen=True)
class Expansion:
    """The jobs of a sweep, or why there are none."""

    jobs: tuple[SweptJob, ...] = ()
    errors: tuple[ConfigError, ...] = field(default=(), metadata={KEY: "faults"})


@dataclass(frozen=True)
class QueuedSweep:
    """A sweep whose jobs are all in the queue."""

    tag: str
    jobs: tuple[JobView, ...] = ()


@dataclass(frozen=True)
class CancelledSweep:
    """A cancelled sweep: the jobs that are in the trash, and those that stay because they ran."""

    tag: str
    removed_jobs: tuple[JobView, ...] = field(default=(), metadata={KEY: "taken"})
    remaining_jobs: tuple[JobView, ...] = field(default=(), metadata={KEY: "left"})


def sweep_of(tags: Iterable[str]) -> str:
    """Return the tag of the sweep that made a job, "" for none."""
    return next((tag for tag in tags if tag.startswith(TAG) and tag != TAG), "")


def sweep_name(tag: str) -> str:
    """Return the unique name of a sweep, for commands and files: its tag without the prefix."""
    return tag[len(TAG) :] if tag.startswith(TAG) else tag


def sweep_title(tag: str, names: Sequence[str]) -> str:
    """Return the name that the user typed: that of its jobs, without their values."""
    if all(name.split()[-2:-1] == [_TRIAL] and name.split()[-1].isdecimal() for name in names):
        names = [" ".join(name.split()[:-2]) for name in names]
    columns = zip(*(name.split() for name in names))
    shared_columns = itertools.takewhile(lambda tokens: len(set(tokens)) == 1, columns)
    name_tokens = itertools.takewhile(
        lambda token: "=" not in token, (tokens[0] for tokens in shared_columns)
    )
    return " ".join(name_tokens).rstrip(f" {ROW_SEPARATOR}") or sweep_name(tag)


def expand(sweep: Sweep, tag: str = "") -> Expansion:
    """Return every job of a sweep with its own name, each checked as a job file.

    Never raises. Each error names its field and is reported once, however many jobs have it.

    Args:
        tag: Added to the tags of each job.
    """
    points = sweep.points
    if sweep.search is not None:
        return _expand_search(sweep, sweep.search, tag)
    if not points:
        errors = list(_axis_errors(sweep))
        if errors:
            return Expansion(errors=tuple(errors))
        point_values, error = _job_values(sweep)
        if error is not None:
            return Expansion(errors=(error,))
        points = _points(sweep.axes, point_values)
    elif len(points) > MAX_JOBS:
        message = f"There are {len(points)} jobs; the limit is {MAX_JOBS}."
        return Expansion(errors=(ConfigError("", message),))
    jobs = _swept_jobs(sweep, points, tag)
    return Expansion(jobs, job_errors(jobs, (parse_job(job.raw).errors for job in jobs)))


def corner_jobs(sweep: Sweep) -> Expansion:
    """Return jobs at the ends of the ranges of a search, which are checked in place of its trials.

    Values in between can still break a rule between two settings; such a trial fails.
    """
    ends = tuple(Axis(axis.path, axis.ends()) for axis in sweep.axes)
    return expand(Sweep(sweep.base, ends, min(combination_count(ends), _CORNERS), sweep.seed))


def _expand_search(sweep: Sweep, search: Search, tag: str) -> Expansion:
    errors = (*search.errors(sweep.base, sweep.axes), *_axis_errors(sweep))
    corners = Expansion(errors=errors) if errors else corner_jobs(sweep)
    if corners.errors:
        return corners
    base = sweep.base if parse_job(sweep.base).config is not None else corners.jobs[0].raw
    is_grid = search.sampler == searches.GRID
    trials = min(search.trials, combination_count(sweep.axes)) if is_grid else search.trials
    points = tuple(Point(f"{_TRIAL} {number}", ()) for number in range(1, trials + 1))
    named_base = {**base, "name": sweep.base.get("name", "")}
    return Expansion(_swept_jobs(Sweep(named_base), points, tag))


def swept_path(text: str, base: Mapping[str, Any]) -> str:
    """Return the field meant by ``optimizer.lr``, or by its last word alone if that is unique.

    Raises:
        ValueError: No field or several match; the message is a sentence.
    """
    known_paths = _known_paths(base)
    if text in known_paths or text.startswith("environment.") or is_name(argument_name(text)):
        return text
    matches = [path for path in known_paths if path.rpartition(".")[2] == text]
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise ValueError(f"{text}: could be {' or '.join(matches)}; write one of them.")
    suggestion = closest_match(text, known_paths)
    hint = f" Did you mean “{suggestion}”?" if suggestion else ""
    raise ValueError(f"{text}: is not a setting of a job.{hint}")


def read_sweep(raw: Mapping[str, Any]) -> tuple[Sweep | None, tuple[ConfigError, ...]]:
    """Parse a sweep file: a job file with a table ``[sweep]``.

    ``[sweep.axes]`` contains a list, a text as on the command line or ``{from, to, steps, scale}``
    for each field; ``random`` and ``seed`` are in ``[sweep]``, a search in ``[sweep.search]``.
    """
    base = {key: value for key, value in raw.items() if key != "sweep"}
    table = raw.get("sweep")
    if not isinstance(table, Mapping):
        return None, (
            ConfigError("sweep", "sweep: is missing; it lists the fields and their values."),
        )
    errors: list[ConfigError] = []
    axes: list[Axis] = []
    axes_table = table.get("axes", {})
    if not isinstance(axes_table, Mapping):
        axes_table = {}
    for text, value in leaf_values(axes_table):
        axis = _read_axis(text, value, base)
        if isinstance(axis, ConfigError):
            errors.append(axis)
        else:
            axes.append(axis)
    if not axes_table:
        errors.append(ConfigError("sweep.axes", "sweep.axes: names no field."))
    errors.extend(
        ConfigError(f"sweep.{key}", f"sweep.{key}: is not a setting of a sweep.")
        for key in table
        if key not in ("axes", "random", "seed", "search")
    )
    search = None
    if "search" in table:
        try:
            search = build(Search, table["search"], STRICT)
        except ValueError as error:
            errors.append(ConfigError(searches.TABLE, f"{searches.TABLE}: {error}."))
    draws, seed = table.get("random"), table.get("seed", 1)
    for key, number in (("random", draws), ("seed", seed)):
        if number is not None and (isinstance(number, bool) or not isinstance(number, int)):
            message = f"sweep.{key}: must be a whole number, not {kind_of(number)}."
            errors.append(ConfigError(f"sweep.{key}", message))
    sweep = Sweep(base, tuple(axes), draws, seed, search=search)
    return (None if errors else sweep), tuple(errors)


def sweep_file(sweep: Sweep) -> dict[str, Any]:
    """Return the sweep as `read_sweep` reads it; without axes, the job file only."""
    raw = dict(sweep.base)
    if not sweep.axes:
        return raw
    table: dict[str, Any] = {"axes": {axis.path: _axis_entry(axis) for axis in sweep.axes}}
    if sweep.search is not None:
        table = {"seed": sweep.seed, **table, "search": sweep.search.to_dict()}
    elif sweep.draws is not None:
        table = {"random": sweep.draws, "seed": sweep.seed, **table}
    return {**raw, "sweep": table}


def _axis_entry(axis: Axis) -> Any:
    """Write a range as users type it: TOML would move a table behind all values."""
    if axis.span is not None:
        low, high = axis.span.end_texts
        steps = f":{axis.span.steps}" if axis.span.steps else ""
        return f"{low}..{high}{steps}:{axis.span.scale}"
    return [list(value) if isinstance(value, tuple) else value for value in axis.values]


def _read_axis(text: str, value: Any, base: Mapping[str, Any]) -> Axis | ConfigError:
    try:
        path = swept_path(text, base)
        return _axis(path, value, value_at(base, path))
    except ValueError as error:
        return ConfigError(text, str(error))


def _axis(path: str, value: Any, base_value: Any) -> Axis:
    if isinstance(value, str):
        return parse_axis(path, value, base_value)
    if isinstance(value, Mapping):
        for key in value:
            if key not in _SPAN_KEYS:
                raise ValueError(f"{path}: a range has from, to, steps and scale, not “{key}”.")
        limits = [value.get("from"), value.get("to"), value.get("steps", 0)]
        if not all(isinstance(n, (int, float)) and not isinstance(n, bool) for n in limits):
            raise ValueError(f"{path}: a range needs numbers as from, to and steps.")
        low, high, steps = (float(n) for n in limits)
        span = ValueRange(low, high, int(steps), str(value.get("scale", "linear")))
        is_written_whole = argument_name(path) and all(isinstance(n, int) for n in limits[:2])
        return Axis(path, span=with_kind(span, base_value) if is_written_whole else span)
    return Axis(path, tuple(value) if isinstance(value, list) else (value,))


def leaf_values(table: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield each value of nested tables by its path; a range is a value."""
    for key, value in table.items():
        name = f"{path}.{key}" if path else str(key)
        if isinstance(value, Mapping) and "from" not in value and "to" not in value:
            yield from leaf_values(value, name)
        else:
            yield name, value


def _axis_errors(sweep: Sweep) -> Iterator[ConfigError]:
    paths = [axis.path for axis in sweep.axes]
    if not paths:
        yield ConfigError("", "No field has several values; name at least one.")
    takes_points = sweep.draws is None
    if sweep.search is not None:
        takes_points = sweep.search.sampler == searches.GRID
        if sweep.draws is not None:
            yield ConfigError(DRAWS, f"{DRAWS}: a search draws its values itself; remove it.")
    for number, axis in enumerate(sweep.axes):
        message = axis.error_message()
        if axis.path in NOTES:
            message = "distinguishes the jobs of a sweep, and cannot have several values."
        elif axis.path in paths[:number]:
            message = "is named twice."
        elif any(other_path.startswith(f"{axis.path}.") for other_path in paths):
            message = "is a table, and a part of it has several values too."
        elif not message and takes_points and not axis.points():
            message = "is a range without steps; give their number, or draw at random."
        elif not message and (name := argument_name(axis.path)):
            message = value_problem(sweep.base.get(TABLE), name, axis.points() or (1,))
        if message:
            yield ConfigError(axis.path, f"{axis.path}: {message}")
    if sweep.draws is not None and not 1 <= sweep.draws <= MAX_JOBS:
        yield ConfigError(DRAWS, f"{DRAWS}: must be 1 to {MAX_JOBS}, not {sweep.draws}.")


def combination_count(axes: Sequence[Axis]) -> int:
    """Return the number of jobs of the whole grid.

    A setting that only some names of a table have multiplies only the jobs of those.
    """
    names = _swept_names(axes)
    job_count = 0
    for combination in itertools.product(*names.values()):
        chosen_names = dict(zip(names, combination))
        other_axes = (axis for axis in axes if axis.path not in names)
        job_count += math.prod(
            len(axis.points()) for axis in other_axes if _applies(axis.path, chosen_names, names)
        )
    return job_count


def _swept_names(axes: Iterable[Axis]) -> dict[str, tuple[Any, ...]]:
    """Return the swept names of tables: ``{"optimizer.name": ("sgd", "adam")}``."""
    name_paths = {f"{part}.name" for part in OPTIONS}
    return {axis.path: axis.points() for axis in axes if axis.path in name_paths}


def _applies(
    path: str, chosen_values: Mapping[str, Any], names: Mapping[str, Sequence[Any]]
) -> bool:
    """Return whether a job with the chosen values has a setting; all have a wrong one."""
    part, _, key = path.partition(".")
    name = f"{part}.name"
    if name not in names or name not in chosen_values:
        return True
    options = OPTIONS[part]
    return key in options.get(str(chosen_values[name]), ()) or not any(
        key in options.get(str(other_name), ()) for other_name in names[name]
    )


def applicable_axes(axes: Sequence[Axis], chosen_values: Mapping[str, Any]) -> Iterator[Axis]:
    """Yield the axes of a job, the names of tables first; ``chosen_values`` grows meanwhile."""
    names = _swept_names(axes)
    yield from (axis for axis in axes if axis.path in names)
    for axis in axes:
        if axis.path not in names and _applies(axis.path, chosen_values, names):
            yield axis


def _applicable_values(
    values: Sequence[tuple[str, Any]], names: Mapping[str, Sequence[Any]]
) -> tuple[tuple[str, Any], ...]:
    """Return the values that a job has, without the settings of another optimizer."""
    chosen_values = dict(values)
    return tuple(pair for pair in values if _applies(pair[0], chosen_values, names))


def _grid(axes: Sequence[Axis]) -> list[tuple[tuple[str, Any], ...]]:
    names = _swept_names(axes)
    columns = [[(axis.path, value) for value in axis.points()] for axis in axes]
    jobs = (_applicable_values(combination, names) for combination in itertools.product(*columns))
    return list({repr(job): job for job in jobs}.values())


def _job_values(sweep: Sweep) -> tuple[list[tuple[tuple[str, Any], ...]], ConfigError | None]:
    axes = sweep.axes
    names = _swept_names(axes)
    size = combination_count(axes)
    if sweep.draws is None and size > MAX_JOBS:
        longest_axis = max(axes, key=lambda axis: len(axis.points()))
        return [], ConfigError(
            longest_axis.path,
            f"{longest_axis.path}: With its {len(longest_axis.points())} values the sweep has "
            f"{size} jobs; the limit is {MAX_JOBS}. Remove values, or draw some at random.",
        )
    if sweep.draws is None:
        return _grid(axes), None
    draw = random.Random(sweep.seed).random
    if all(axis.span is None for axis in axes) and size <= _SHUFFLED_UP_TO:
        jobs = _grid(axes)
        for index in range(len(jobs) - 1, 0, -1):
            other_index = int(draw() * (index + 1))
            jobs[index], jobs[other_index] = jobs[other_index], jobs[index]
        jobs = jobs[: sweep.draws]
    else:
        jobs = []
        known_jobs: set[str] = set()
        for _ in range(_TRIES_A_JOB * sweep.draws):
            if len(jobs) == sweep.draws:
                break
            job = _applicable_values([(axis.path, axis.value_at(draw())) for axis in axes], names)
            if repr(job) not in known_jobs:
                known_jobs.add(repr(job))
                jobs.append(job)
    if len(jobs) < sweep.draws:
        path = axes[-1].path
        return [], ConfigError(
            path,
            f"{path}: {sweep.draws} jobs were requested, but these values give only {len(jobs)} "
            "different ones.",
        )
    return jobs, None


def _points(
    axes: Sequence[Axis], point_values: Iterable[tuple[tuple[str, Any], ...]]
) -> tuple[Point, ...]:
    labels = _short_labels([axis.path for axis in axes])
    return tuple(
        Point(" ".join(f"{labels[path]}={value_text(value)}" for path, value in values), values)
        for values in point_values
    )


def _swept_jobs(sweep: Sweep, points: Iterable[Point], tag: str) -> tuple[SweptJob, ...]:
    base_name = sweep.base.get("name", "")
    jobs: dict[str, SweptJob] = {}
    points = tuple(points)
    names = {
        f"{part}.name": [dict(point.values).get(f"{part}.name") for point in points]
        + [value_at(sweep.base, f"{part}.name")]
        for part in OPTIONS
    }
    for point in points:
        raw = copy.deepcopy(_applicable_base(sweep.base, dict(point.values), names))
        for path, value in point.values:
            raw = with_value(raw, path, copy.deepcopy(value))
        name = _job_name(str(base_name), point.name)
        number = 2
        while name in jobs:
            name, number = _job_name(str(base_name), f"{point.name} ({number})"), number + 1
        if isinstance(base_name, str):
            raw["name"] = name
        if tag:
            base_tags = raw.get("tags", ())
            other_tags = [
                base_tag
                for base_tag in base_tags
                if isinstance(base_tag, str) and not base_tag.startswith(TAG)
            ]
            raw["tags"] = [*other_tags, tag]
        jobs[name] = SweptJob(name, raw, point.values)
    return tuple(jobs.values())


def _applicable_base(
    base: Mapping[str, Any], chosen_values: Mapping[str, Any], names: Mapping[str, Sequence[Any]]
) -> dict[str, Any]:
    """Copy the base without settings that belong to another value than the one chosen."""

    def is_kept(path: str) -> bool:
        owner = _OWNERS.get(path, "")
        base_value = value_at(base, owner)
        return _applies(path, chosen_values, names) and (
            base_value is None or chosen_values.get(owner, base_value) == base_value
        )

    return {
        part: {
            key: setting_value for key, setting_value in value.items() if is_kept(f"{part}.{key}")
        }
        if isinstance(value, Mapping)
        else value
        for part, value in base.items()
    }


def _short_labels(paths: Sequence[str]) -> dict[str, str]:
    """Return a short word for each field: ``lr``, ``batch``; the path if two would be equal."""

    def short_label(path: str) -> str:
        part, _, key = path.rpartition(".")
        return part if key == "name" and part else {"batch_size": "batch"}.get(key, key)

    labels = {path: short_label(path) for path in paths}
    all_labels = list(labels.values())
    return {path: path if all_labels.count(label) > 1 else label for path, label in labels.items()}


def _job_name(name: str, values: str) -> str:
    """Shorten the base name, because the values distinguish the jobs."""
    free_bytes = max(_NAME_BYTES - len(values.encode()) - 1, 0)
    return f"{name.encode()[:free_bytes].decode(errors='ignore').rstrip()} {values}".strip()


def job_errors(
    jobs: Sequence[SweptJob], errors_by_job: Iterable[Sequence[ConfigError]]
) -> tuple[ConfigError, ...]:
    """Return each error once, with the value that causes it, or the job if only some have it."""
    names: dict[ConfigError, list[str]] = {}
    for job, errors in zip(jobs, errors_by_job, strict=True):
        for error in errors:
            names.setdefault(_add_value(error, job), []).append(job.name)
    return tuple(
        error
        if len(job_names) == len(jobs) or "“" in error.message
        else replace(error, message=f"{error.message} This is in {_jobs_text(job_names)}.")
        for error, job_names in names.items()
    )


def _jobs_text(names: Sequence[str]) -> str:
    further_count = len(names) - 1
    further = f" and {further_count} more" if further_count else ""
    return f"the {'jobs' if further_count else 'job'} “{names[0]}”{further}"


def _add_value(error: ConfigError, job: SweptJob) -> ConfigError:
    """Add the value to an error of a swept field, unless the message has it."""
    value = dict(job.values).get(error.path)
    prefix = f"{error.path}: "
    quoted_value = f"“{value_text(value)}”"
    if (
        value is None
        or not error.message.startswith(f"{prefix}must")
        or quoted_value in error.message
    ):
        return error
    return ConfigError(error.path, f"{prefix}{quoted_value} {error.message[len(prefix) :]}")


def _known_paths(base: Mapping[str, Any]) -> tuple[str, ...]:
    setting_paths = [path for path in SETTINGS if is_of(path, script="script" in base)]
    base_paths = [f"{k}.{s}" for k, v in base.items() if isinstance(v, Mapping) for s in v]
    return tuple(
        dict.fromkeys((*setting_paths, *base_paths, *argument_rows(base.get("arguments"))))
    )
