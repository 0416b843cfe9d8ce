"""``job sweep``: one job for each combination of several values, all queued."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

from backend.base.errors import BackendError
from backend.base.progress import Progress
from backend.cli.command import Word, command
from backend.cli.printing import Answer, Note, Part, Table
from backend.records.base.program_name import COMMAND
from backend.records.jobs.settings import label
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
        str, Word("FILE.toml|ID", "a sweep file, a job file, or a job whose settings are repeated")
    ] = "",
    *,
    set: Annotated[tuple[str, ...], Word("FIELD=VALUES", f"{_FORMS}; may be repeated")] = (),
    random: Annotated[int | None, Word("N", "draw N jobs instead of all of them")] = None,
    seed: Annotated[int | None, Word("S", "seed of the draw, default 1")] = None,
    dry_run: Annotated[bool, "only list the jobs"] = False,
    take_back: Annotated[
        str, Word("SWEEP", "instead, move the jobs of a sweep that never ran to the trash")
    ] = "",
) -> Answer:
    """Queue one job for each combination of several values."""
    if take_back:
        taken = services.sweeps.take_back(take_back, progress)
        moved = f"Moved {_jobs(len(taken.removed_jobs))} of {sweep_name(taken.tag)} to the trash."
        left = (
            [Note(f"{_jobs(len(taken.remaining_jobs))} ran already and stay.")]
            if taken.remaining_jobs
            else []
        )
        return Answer(taken, moved, left)
    if not base:
        raise BackendError(
            "A sweep needs a job file or a job.",
            f"For example: {COMMAND} job sweep JOB --set lr=0.01,0.1",
        )
    asked = _asked(services, base, set, random, seed)
    if dry_run:
        return _plan(asked, services.sweeps.expand(asked))
    made = services.sweeps.queue(asked, progress)
    name = sweep_name(made.tag)
    return Answer(
        {
            "sweep": made.tag,
            "jobs": [{"id": one.id, "name": one.name, "state": one.state} for one in made.jobs],
        },
        Table(("ID", "NAME"), ((view.id, view.name) for view in made.jobs)),
        Note(f"{_jobs(len(made.jobs))} of the sweep {name} are queued."),
        Note(f"To remove them: {COMMAND} job sweep --take-back {name}"),
    )


def _asked(
    services: Services, given: str, axes_given: Sequence[str], random: int | None, seed: int | None
) -> Sweep:
    path = Path(given)
    if path.suffix.lower() == ".toml" or path.is_file():
        raw = read_job_file(path)
        stored = services.sweeps.read(path) if "sweep" in raw or not axes_given else None
        base = dict(raw) if stored is None else dict(stored.base)
    else:
        stored, base = None, services.sweeps.base_job_file(services.queries.find(given))
    axes = {} if stored is None else {axis.path: axis for axis in stored.axes}
    for axis in _axes(axes_given, base):
        axes[axis.path] = axis
    draws = random if stored is None or random is not None else stored.draws
    if seed is None:
        seed = 1 if stored is None else stored.seed
    return Sweep(base, tuple(axes.values()), draws, seed)


def _axes(words: Sequence[str], base: dict[str, Any]) -> list[Axis]:
    axes: dict[str, Axis] = {}
    for word in words:
        field, is_set, text = word.partition("=")
        if not is_set:
            raise BackendError(f"--set {word}: has no “=”.", f"Use --set {word}={_FORMS}.")
        try:
            axis = parse_axis(swept_path(field.strip(), base), text)
        except ValueError as error:
            raise BackendError(str(error), "Nothing was created.") from error
        if axis.path in axes:
            raise BackendError(f"{axis.path}: is named twice.", "Give all its values in one --set.")
        axes[axis.path] = axis
    return list(axes.values())


def _plan(sweep: Sweep, found: Expansion) -> Answer:
    return Answer(
        {
            "sweep": None,
            "jobs": [{"name": job.name, "values": dict(job.values)} for job in found.jobs],
            "faults": [{"field": one.path, "sentence": one.message} for one in found.errors],
        },
        _plan_parts(sweep, found),
        failed=bool(found.errors),
    )


def _plan_parts(sweep: Sweep, found: Expansion) -> Iterator[Part]:
    for axis in sweep.axes:
        yield Note(f"{label(axis.path)} ({axis.path}): {axis_text(axis)}")
    paths = [axis.path for axis in sweep.axes]
    rows = ((job.name, *(value_text(v) for _, v in job.values)) for job in found.jobs)
    yield Table(("NAME", *paths), rows, "The sweep has no jobs.")
    for fault in found.errors:
        yield Note(fault.message)
    yield Note(f"{_jobs(len(found.jobs))}; nothing was created.")


def _jobs(count: int) -> str:
    return "1 job" if count == 1 else f"{count} jobs"
