"""``job sweep|trials``: several jobs with other values each, all queued."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from backend.base.errors import BackendError
from backend.base.progress import Progress
from backend.cli.command import ArgSpec, command
from backend.cli.printing import Answer, Note, Part, Table, number_text
from backend.records.base.program_name import COMMAND
from backend.records.base.schema import json_value
from backend.records.base.validation import sanitize
from backend.records.jobs.metric_names import name_of_label
from backend.records.jobs.settings import label, value_at
from backend.records.sweeps.search import PRUNERS, SAMPLERS, Search
from backend.records.sweeps.spec import Expansion, Sweep, sweep_name, swept_path
from backend.records.sweeps.values import Axis, axis_text, parse_axis, value_text
from backend.services.context.container import Services
from backend.services.jobs.job_file import read_job_file

_FORMS = "0.01,0.1, or 1e-4..0.1:4:log for 4 values with equal factors"


@command("job sweep")
def sweep(
    services: Services,
    progress: Progress,
    base: Annotated[
        str,
        ArgSpec("FILE.toml|ID", "a sweep file, a job file, or a job whose settings are repeated"),
    ] = "",
    *,
    set: Annotated[tuple[str, ...], ArgSpec("FIELD=VALUES", f"{_FORMS}; may be repeated")] = (),
    random: Annotated[int | None, ArgSpec("N", "draw N jobs instead of all of them")] = None,
    seed: Annotated[int | None, ArgSpec("S", "seed of draw or search, default 1")] = None,
    search: Annotated[
        str | None,
        ArgSpec("SAMPLER", f"propose the values one after the other: {', '.join(SAMPLERS)}"),
    ] = None,
    goal: Annotated[
        str | None, ArgSpec("METRIC", "of a search: by default that of “Best by”")
    ] = None,
    better: Annotated[str | None, ArgSpec("WHICH", "which values of it: lower or higher")] = None,
    trials: Annotated[int | None, ArgSpec("N", "jobs of the search, default 30")] = None,
    at_once: Annotated[int | None, ArgSpec("K", "of which so many run at once, default 1")] = None,
    give_up: Annotated[
        str | None, ArgSpec("RULE", f"when to stop a trial: {', '.join(PRUNERS)}; default median")
    ] = None,
    dry_run: Annotated[bool, "only list the jobs"] = False,
    cancel: Annotated[
        str, ArgSpec("SWEEP", "instead, move the jobs of a sweep that never ran to the trash")
    ] = "",
) -> Answer:
    """Queue one job for each combination of several values, or a search for the best ones."""
    if cancel:
        cancelled_sweep = services.sweeps.cancel(cancel, progress)
        removed_text = _jobs(len(cancelled_sweep.removed_jobs))
        removal_text = f"Moved {removed_text} of {sweep_name(cancelled_sweep.tag)} to the trash."
        notes = (
            [Note(f"{_jobs(len(cancelled_sweep.remaining_jobs))} ran already and stay.")]
            if cancelled_sweep.remaining_jobs
            else []
        )
        return Answer(cancelled_sweep, removal_text, notes)
    if not base:
        raise BackendError(
            "A sweep needs a job file or a job.",
            f"For example: {COMMAND} job sweep JOB --set lr=0.01,0.1",
        )
    options = {"sampler": search, "better": better, "trials": trials, "at_once": at_once}
    requested_sweep = _requested_sweep(services, base, set, random, seed)
    requested_sweep = _with_search(requested_sweep, {**options, "pruner": give_up, "metric": goal})
    if seed is not None and requested_sweep.draws is None and requested_sweep.search is None:
        raise BackendError(
            "--seed has no effect: the sweep has all combinations, and draws none.",
            "Add --random or --search; or sweep the setting: --set seed=1..3:3.",
        )
    if dry_run:
        return _plan_answer(requested_sweep, services.sweeps.expand(requested_sweep))
    queued_sweep = services.sweeps.queue(requested_sweep, progress)
    name = sweep_name(queued_sweep.tag)
    return Answer(
        {
            "sweep": queued_sweep.tag,
            "jobs": [
                {"id": job.id, "name": job.name, "state": job.state} for job in queued_sweep.jobs
            ],
        },
        Table(("ID", "NAME"), ((view.id, view.name) for view in queued_sweep.jobs)),
        Note(f"{_jobs(len(queued_sweep.jobs))} of the sweep {name} are queued."),
        Note(f"To cancel them: {COMMAND} job sweep --cancel {name}"),
        [Note(f"To follow the search: {COMMAND} job trials {name}")] * bool(requested_sweep.search),
    )


@command("job trials")
def trials(
    services: Services,
    sweep: Annotated[str, ArgSpec("SWEEP", "the name of a search, as in `job sweep`")],
) -> Answer:
    """The trials of a search, the best one, and the importance of each setting."""
    result = services.sweeps.result(sweep)
    if result is None:
        raise BackendError(
            f"There is no search “{sanitize(sweep_name(sweep))}”.",
            f"Start one: {COMMAND} job sweep FILE --search tpe",
        )
    paths = [axis.path for axis in result.axes]
    rows = (
        (
            str(trial.number),
            trial.job,
            trial.state or "running",
            "" if trial.value is None else number_text(trial.value),
            *(value_text(trial.values.get(path, "")) for path in paths),
            trial.reason,
        )
        for trial in result.trials
    )
    head = ("TRIAL", "JOB", "STATE", result.search.metric, *paths, "")
    best_trial = result.best
    return Answer(
        {**json_value(result), "best": best_trial},
        Table(head, rows, "No trial has begun yet."),
        [Note(f"Best: {number_text(best_trial.value or 0.0)} in trial {best_trial.number}.")]
        if best_trial
        else [],
        Note(result.error or result.importance_message),
    )


def _with_search(sweep: Sweep, options: Mapping[str, Any]) -> Sweep:
    """Add the search that the options describe, if any of them is given."""
    options = {key: option for key, option in options.items() if option is not None}
    if not options and sweep.search is None:
        return sweep
    best_metric = value_at(sweep.base, "checkpoint.best_metric")
    search = sweep.search or Search(str(best_metric or Search.metric))
    if not sweep.base.get("script"):
        options["metric"] = name_of_label(options.get("metric", search.metric))
    return replace(sweep, search=replace(search, **options))


def _requested_sweep(
    services: Services,
    base_text: str,
    axis_texts: Sequence[str],
    random: int | None,
    seed: int | None,
) -> Sweep:
    path = Path(base_text)
    if path.suffix.lower() == ".toml" or path.is_file():
        raw = read_job_file(path)
        stored_sweep = services.sweeps.read(path) if "sweep" in raw or not axis_texts else None
        base = dict(raw) if stored_sweep is None else dict(stored_sweep.base)
    else:
        stored_sweep, base = None, services.sweeps.base_job_file(services.queries.find(base_text))
    axes = {} if stored_sweep is None else {axis.path: axis for axis in stored_sweep.axes}
    for axis in _axes(axis_texts, base):
        axes[axis.path] = axis
    draw_count = random if stored_sweep is None or random is not None else stored_sweep.draws
    if seed is None:
        seed = 1 if stored_sweep is None else stored_sweep.seed
    search = stored_sweep.search if stored_sweep is not None else None
    return Sweep(base, tuple(axes.values()), draw_count, seed, search=search)


def _axes(assignments: Sequence[str], base: dict[str, Any]) -> list[Axis]:
    axes: dict[str, Axis] = {}
    for assignment in assignments:
        field, is_set, text = assignment.partition("=")
        if not is_set:
            raise BackendError(
                f"--set {assignment}: has no “=”.", f"Use --set {assignment}={_FORMS}."
            )
        try:
            path = swept_path(field.strip(), base)
            axis = parse_axis(path, text, value_at(base, path))
        except ValueError as error:
            raise BackendError(str(error), "Nothing was created.") from error
        if axis.path in axes:
            raise BackendError(f"{axis.path}: is named twice.", "Give all its values in one --set.")
        axes[axis.path] = axis
    return list(axes.values())


def _plan_answer(sweep: Sweep, expansion: Expansion) -> Answer:
    return Answer(
        {
            "sweep": None,
            "jobs": [{"name": job.name, "values": dict(job.values)} for job in expansion.jobs],
            "faults": [
                {"field": error.path, "sentence": error.message} for error in expansion.errors
            ],
        },
        _plan_parts(sweep, expansion),
        has_failed=bool(expansion.errors),
    )


def _plan_parts(sweep: Sweep, expansion: Expansion) -> Iterator[Part]:
    if sweep.search is not None and expansion.errors:
        yield from (Note(error.message) for error in expansion.errors)
        return
    for axis in sweep.axes:
        yield Note(f"{label(axis.path)} ({axis.path}): {axis_text(axis)}")
    if sweep.search is not None:
        search = sweep.search
        direction = "lower" if search.mode == "min" else "higher"
        yield Note(
            f"Goal: {search.metric}, {direction} is better. Sampler: {SAMPLERS[search.sampler]}. "
            f"Give up: {PRUNERS[search.pruner].lower()}. At once: {search.at_once}."
        )
    paths = [] if sweep.search is not None else [axis.path for axis in sweep.axes]
    values = ((job.name, dict(job.values)) for job in expansion.jobs)
    # A job has no value of a setting that only others have, such as the momentum of sgd.
    rows = ((n, *(value_text(v[p]) if p in v else "" for p in paths)) for n, v in values)
    yield Table(("NAME", *paths), rows, "The sweep has no jobs.")
    for error in expansion.errors:
        yield Note(error.message)
    yield Note(f"{_jobs(len(expansion.jobs))}; nothing was created.")


def _jobs(count: int) -> str:
    return "1 job" if count == 1 else f"{count} jobs"
