"""A sweep: a job file and the fields that take several values, expanded to named jobs.

Pure: the same sweep gives the same jobs, in the same order, on every machine and Python (random
draws use only `random.Random.random`, the one method whose sequence Python promises to keep:
"""

from __future__ import annotations

import copy
import itertools
import math
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from backend.records.base.schema import KEY, kind_of
from backend.records.base.validation import ConfigError, closest_match
from backend.records.jobs.arguments import argument_name, argument_rows, is_name
from backend.records.jobs.config import parse_job, with_value
from backend.records.jobs.settings import (
    NOTES,
    OPTIONS,
    SETTINGS,
    is_of,
    value_at,
)
from backend.records.jobs.view import JobView
from backend.records.sweeps.values import Axis, ValueRange, parse_axis, value_text

MOST_JOBS = 200
TAG = "sweep:"
BEFORE_ROW = "·"
"""In the name of a job, between the name of a study and that of its row."""
"""Prefix of the tag of a sweep's jobs: any Ringmaster reads it, any list finds it."""
DRAWS, SEED = "sweep.random", "sweep.seed"
"""The fields of the sweep itself, as its file names them."""
_NAME_BYTES = 255
_SHUFFLED_UP_TO = 4 * MOST_JOBS
_TRIES_A_JOB = 100
_OWNERS = {"checkpoint.best_mode": "checkpoint.best_metric", "early_stop.mode": "early_stop.metric"}
"""Settings that belong to the value of another one."""
_SPAN_KEYS = ("from", "to", "steps", "scale")


@dataclass(frozen=True)
class Point:
    """One job of a sweep: the end of its name, and the value of each field that it sets."""

    name: str
    values: tuple[tuple[str, Any], ...]


@dataclass(frozen=True)
class Sweep:
    """The definition of a sweep. ``base`` is a job file; ``draws`` None is the whole grid.

    ``points``, if there are any, list the jobs instead of the axes.
    """

    base: Mapping[str, Any]
    axes: tuple[Axis, ...] = ()
    draws: int | None = None
    seed: int = 1
    points: tuple[Point, ...] = ()


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
    places = zip(*(name.split() for name in names))
    shared = itertools.takewhile(lambda words: len(set(words)) == 1, places)
    typed = itertools.takewhile(lambda word: "=" not in word, (words[0] for words in shared))
    return " ".join(typed).rstrip(f" {BEFORE_ROW}") or sweep_name(tag)


def expand(sweep: Sweep, tag: str = "") -> Expansion:
    """Return every job of a sweep with its own name, each checked as a job file.

    Never raises. Faults name the field; each is reported once, however many jobs have it.

    Args:
        tag: Added to the tags of each job.
    """
    points = sweep.points
    if not points:
        faults = list(_axis_faults(sweep))
        if faults:
            return Expansion(errors=tuple(faults))
        drawn, fault = _combinations(sweep)
        if fault is not None:
            return Expansion(errors=(fault,))
        points = _points(sweep.axes, drawn)
    elif len(points) > MOST_JOBS:
        sentence = f"There are {len(points)} jobs; the limit is {MOST_JOBS}."
        return Expansion(errors=(ConfigError("", sentence),))
    jobs = _named(sweep, points, tag)
    found_faults: dict[ConfigError, None] = {}
    for job in jobs:
        for one in parse_job(job.raw).errors:
            found_faults[_with_value(one, job)] = None
    return Expansion(jobs, tuple(found_faults))


def swept_path(text: str, base: Mapping[str, Any]) -> str:
    """Return the field meant by ``optimizer.lr``, or by its last word alone if that is unique.

    Raises:
        ValueError: No field or several match; the message is a sentence.
    """
    known = _known_paths(base)
    if text in known or text.startswith("environment.") or is_name(argument_name(text)):
        return text
    ends = [path for path in known if path.rpartition(".")[2] == text]
    if len(ends) == 1:
        return ends[0]
    if ends:
        raise ValueError(f"{text}: could be {' or '.join(ends)}; write one of them.")
    near = closest_match(text, known)
    hint = f" Did you mean “{near}”?" if near else ""
    raise ValueError(f"{text}: is not a setting of a job.{hint}")


def read_sweep(raw: Mapping[str, Any]) -> tuple[Sweep | None, tuple[ConfigError, ...]]:
    """Parse a sweep file: a job file with a table ``[sweep]``.

    ``[sweep.axes]`` contains a list, a text as on the command line or ``{from, to, steps, scale}``
    for each field; ``random`` and ``seed`` are in ``[sweep]``.
    """
    base = {key: value for key, value in raw.items() if key != "sweep"}
    table = raw.get("sweep")
    if not isinstance(table, Mapping):
        return None, (
            ConfigError("sweep", "sweep: is missing; it lists the fields and their values."),
        )
    faults: list[ConfigError] = []
    axes: list[Axis] = []
    given = table.get("axes", {})
    if not isinstance(given, Mapping):
        given = {}
    for text, value in leaves(given):
        axis = _read_axis(text, value, base)
        if isinstance(axis, ConfigError):
            faults.append(axis)
        else:
            axes.append(axis)
    if not given:
        faults.append(ConfigError("sweep.axes", "sweep.axes: names no field."))
    faults.extend(
        ConfigError(f"sweep.{key}", f"sweep.{key}: is not a setting of a sweep.")
        for key in table
        if key not in ("axes", "random", "seed")
    )
    draws, seed = table.get("random"), table.get("seed", 1)
    for key, number in (("random", draws), ("seed", seed)):
        if number is not None and (isinstance(number, bool) or not isinstance(number, int)):
            sentence = f"sweep.{key}: must be a whole number, not {kind_of(number)}."
            faults.append(ConfigError(f"sweep.{key}", sentence))
    return (None if faults else Sweep(base, tuple(axes), draws, seed)), tuple(faults)


def sweep_file(sweep: Sweep) -> dict[str, Any]:
    """Return the sweep as `read_sweep` reads it; without axes, the job file only."""
    raw = dict(sweep.base)
    if not sweep.axes:
        return raw
    table: dict[str, Any] = {"axes": {axis.path: _axis_entry(axis) for axis in sweep.axes}}
    if sweep.draws is not None:
        table = {"random": sweep.draws, "seed": sweep.seed, **table}
    return {**raw, "sweep": table}


def _axis_entry(axis: Axis) -> Any:
    """Write a range as users type it: TOML would move a table behind all values."""
    if axis.span is not None:
        low, high, steps = axis.span.low, axis.span.high, axis.span.steps
        return f"{low!r}..{high!r}" + (f":{steps}" if steps else "") + f":{axis.span.scale}"
    return [list(value) if isinstance(value, tuple) else value for value in axis.values]


def _read_axis(text: str, value: Any, base: Mapping[str, Any]) -> Axis | ConfigError:
    try:
        return _axis(swept_path(text, base), value)
    except ValueError as error:
        return ConfigError(text, str(error))


def _axis(path: str, value: Any) -> Axis:
    if isinstance(value, str):
        return parse_axis(path, value)
    if isinstance(value, Mapping):
        for key in value:
            if key not in _SPAN_KEYS:
                raise ValueError(f"{path}: a range has from, to, steps and scale, not “{key}”.")
        ends = [value.get("from"), value.get("to"), value.get("steps", 0)]
        if not all(isinstance(n, (int, float)) and not isinstance(n, bool) for n in ends):
            raise ValueError(f"{path}: a range needs numbers as from, to and steps.")
        low, high, steps = (float(n) for n in ends)
        span = ValueRange(low, high, int(steps), str(value.get("scale", "linear")))
        return Axis(path, span=span)
    return Axis(path, tuple(value) if isinstance(value, list) else (value,))


def leaves(table: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield each value of nested tables by its path; a range is a value."""
    for key, value in table.items():
        name = f"{path}.{key}" if path else str(key)
        if isinstance(value, Mapping) and "from" not in value and "to" not in value:
            yield from leaves(value, name)
        else:
            yield name, value


def _axis_faults(sweep: Sweep) -> Iterator[ConfigError]:
    paths = [axis.path for axis in sweep.axes]
    if not paths:
        yield ConfigError("", "No field has several values; name at least one.")
    for number, axis in enumerate(sweep.axes):
        sentence = axis.error_message()
        if axis.path in NOTES:
            sentence = "distinguishes the jobs of a sweep, and cannot have several values."
        elif axis.path in paths[:number]:
            sentence = "is named twice."
        elif any(other.startswith(f"{axis.path}.") for other in paths):
            sentence = "is a table, and a part of it has several values too."
        elif not sentence and sweep.draws is None and not axis.points():
            sentence = "is a range without steps; give their number, or draw at random."
        if sentence:
            yield ConfigError(axis.path, f"{axis.path}: {sentence}")
    if sweep.draws is not None and not 1 <= sweep.draws <= MOST_JOBS:
        yield ConfigError(DRAWS, f"{DRAWS}: must be 1 to {MOST_JOBS}, not {sweep.draws}.")


def combinations(axes: Sequence[Axis]) -> int:
    """Return the number of jobs of the whole grid.

    A setting that only some names of a table have multiplies only the jobs of those.
    """
    names = _names(axes)
    total = 0
    for one in itertools.product(*names.values()):
        chosen = dict(zip(names, one))
        others = (axis for axis in axes if axis.path not in names)
        total += math.prod(
            len(axis.points()) for axis in others if _applies(axis.path, chosen, names)
        )
    return total


def _names(axes: Iterable[Axis]) -> dict[str, tuple[Any, ...]]:
    """Return the swept names of tables: ``{"optimizer.name": ("sgd", "adam")}``."""
    wanted = {f"{part}.name" for part in OPTIONS}
    return {axis.path: axis.points() for axis in axes if axis.path in wanted}


def _applies(path: str, chosen: Mapping[str, Any], names: Mapping[str, Sequence[Any]]) -> bool:
    """Return whether a job with the ``chosen`` values has a setting; all have a wrong one."""
    part, _, key = path.partition(".")
    name = f"{part}.name"
    if name not in names or name not in chosen:
        return True
    known = OPTIONS[part]
    return key in known.get(str(chosen[name]), ()) or not any(
        key in known.get(str(other), ()) for other in names[name]
    )


def _fitting(
    values: Sequence[tuple[str, Any]], names: Mapping[str, Sequence[Any]]
) -> tuple[tuple[str, Any], ...]:
    """Return the values that a job has, without the settings of another optimizer."""
    chosen = dict(values)
    return tuple(pair for pair in values if _applies(pair[0], chosen, names))


def _grid(axes: Sequence[Axis]) -> list[tuple[tuple[str, Any], ...]]:
    names = _names(axes)
    columns = [[(axis.path, value) for value in axis.points()] for axis in axes]
    jobs = (_fitting(one, names) for one in itertools.product(*columns))
    return list({repr(job): job for job in jobs}.values())


def _combinations(sweep: Sweep) -> tuple[list[tuple[tuple[str, Any], ...]], ConfigError | None]:
    axes = sweep.axes
    names = _names(axes)
    size = combinations(axes)
    if sweep.draws is None and size > MOST_JOBS:
        longest = max(axes, key=lambda axis: len(axis.points()))
        return [], ConfigError(
            longest.path,
            f"{longest.path}: With its {len(longest.points())} values the sweep has {size} "
            f"jobs; the limit is {MOST_JOBS}. Remove values, or draw some at random.",
        )
    if sweep.draws is None:
        return _grid(axes), None
    draw = random.Random(sweep.seed).random
    if all(axis.span is None for axis in axes) and size <= _SHUFFLED_UP_TO:
        found = _grid(axes)
        for number in range(len(found) - 1, 0, -1):
            other = int(draw() * (number + 1))
            found[number], found[other] = found[other], found[number]
        found = found[: sweep.draws]
    else:
        found = []
        seen: set[str] = set()
        for _ in range(_TRIES_A_JOB * sweep.draws):
            if len(found) == sweep.draws:
                break
            one = _fitting([(axis.path, axis.value_at(draw())) for axis in axes], names)
            if repr(one) not in seen:
                seen.add(repr(one))
                found.append(one)
    if len(found) < sweep.draws:
        path = axes[-1].path
        return [], ConfigError(
            path,
            f"{path}: {sweep.draws} jobs were requested, but these values give only {len(found)} "
            "different ones.",
        )
    return found, None


def _points(
    axes: Sequence[Axis], drawn: Iterable[tuple[tuple[str, Any], ...]]
) -> tuple[Point, ...]:
    words = _words([axis.path for axis in axes])
    return tuple(
        Point(" ".join(f"{words[path]}={value_text(value)}" for path, value in values), values)
        for values in drawn
    )


def _named(sweep: Sweep, points: Iterable[Point], tag: str) -> tuple[SweptJob, ...]:
    base_name = sweep.base.get("name", "")
    jobs: dict[str, SweptJob] = {}
    points = tuple(points)
    names = {
        f"{part}.name": [dict(point.values).get(f"{part}.name") for point in points]
        + [value_at(sweep.base, f"{part}.name")]
        for part in OPTIONS
    }
    for point in points:
        raw = copy.deepcopy(_fitting_base(sweep.base, dict(point.values), names))
        for path, value in point.values:
            raw = with_value(raw, path, copy.deepcopy(value))
        name = _cut(str(base_name), point.name)
        number = 2
        while name in jobs:
            name, number = _cut(str(base_name), f"{point.name} ({number})"), number + 1
        if isinstance(base_name, str):
            raw["name"] = name
        if tag:
            kept = raw.get("tags", ())
            others = [one for one in kept if isinstance(one, str) and not one.startswith(TAG)]
            raw["tags"] = [*others, tag]
        jobs[name] = SweptJob(name, raw, point.values)
    return tuple(jobs.values())


def _fitting_base(
    base: Mapping[str, Any], chosen: Mapping[str, Any], names: Mapping[str, Sequence[Any]]
) -> dict[str, Any]:
    """Copy the base without settings that belong to another value than the one chosen."""

    def stays(path: str) -> bool:
        owner = _OWNERS.get(path, "")
        was = value_at(base, owner)
        return _applies(path, chosen, names) and (was is None or chosen.get(owner, was) == was)

    return {
        part: {key: one for key, one in value.items() if stays(f"{part}.{key}")}
        if isinstance(value, Mapping)
        else value
        for part, value in base.items()
    }


def _words(paths: Sequence[str]) -> dict[str, str]:
    """Return a short word for each field: ``lr``, ``batch``; the path if two would be equal."""

    def short(path: str) -> str:
        part, _, key = path.rpartition(".")
        return part if key == "name" and part else {"batch_size": "batch"}.get(key, key)

    made = {path: short(path) for path in paths}
    words = list(made.values())
    return {path: path if words.count(word) > 1 else word for path, word in made.items()}


def _cut(name: str, values: str) -> str:
    """Shorten the base name, because the values distinguish the jobs."""
    room = max(_NAME_BYTES - len(values.encode()) - 1, 0)
    return f"{name.encode()[:room].decode(errors='ignore').rstrip()} {values}".strip()


def _with_value(fault: ConfigError, job: SweptJob) -> ConfigError:
    """Add the value to a fault of a swept field, unless its sentence has it."""
    value = dict(job.values).get(fault.path)
    begin = f"{fault.path}: "
    shown = f"“{value_text(value)}”"
    if value is None or not fault.message.startswith(f"{begin}must") or shown in fault.message:
        return fault
    return ConfigError(fault.path, f"{begin}{shown} {fault.message[len(begin) :]}")


def _known_paths(base: Mapping[str, Any]) -> tuple[str, ...]:
    known = [path for path in SETTINGS if is_of(path, script="script" in base)]
    own = [f"{k}.{s}" for k, v in base.items() if isinstance(v, Mapping) for s in v]
    return tuple(dict.fromkeys((*known, *own, *argument_rows(base.get("arguments")))))
