"""``job sweep``: one job for each combination of several values, all queued."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from backend.base.errors import BackendError
from backend.base.progress import Progress
from backend.cli.printing import FAILED, OK, print_json, print_line, print_note, print_table
from backend.records.base.program_name import COMMAND
from backend.records.jobs.settings import label
from backend.records.sweeps.spec import (
    Expansion,
    Sweep,
    SweepMade,
    SweepTaken,
    sweep_name,
    swept_path,
)
from backend.records.sweeps.values import Axis, axis_text, parse_axis, value_text
from backend.services.jobs.job_file import read_job_file

if TYPE_CHECKING:
    from backend.services.context.container import Services

_FORMS = "0.01,0.1, or 1e-4..0.1:4:log for 4 values with equal factors"


@dataclass(frozen=True)
class Planned:
    """The result of a dry run."""

    sweep: Sweep
    found: Expansion


Done = Planned | SweepMade | SweepTaken


def add_arguments(leaf: argparse.ArgumentParser) -> None:
    leaf.add_argument(
        "base",
        nargs="?",
        default="",
        metavar="FILE.toml|ID",
        help="a sweep file, a job file, or a job whose settings are repeated",
    )
    leaf.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="FIELD=VALUES",
        help=f"{_FORMS}; may be repeated",
    )
    leaf.add_argument(
        "--random", type=int, default=None, metavar="N", help="draw N jobs instead of all of them"
    )
    leaf.add_argument(
        "--seed", type=int, default=None, metavar="S", help="seed of the draw, default 1"
    )
    leaf.add_argument("--dry-run", action="store_true", help="only list the jobs")
    leaf.add_argument(
        "--take-back",
        default="",
        metavar="SWEEP",
        help="instead, move the jobs of a sweep that never ran to the trash",
    )


def sweep(services: Services, arguments: argparse.Namespace, progress: Progress) -> Done:
    """Queue a sweep, remove one, or list its jobs.

    Raises:
        BackendError: Nothing was made, or (`HalfMade`) not everything.
    """
    if arguments.take_back:
        return services.sweeps.take_back(arguments.take_back, progress)
    if not arguments.base:
        raise BackendError(
            "A sweep needs a job file or a job.",
            f"For example: {COMMAND} job sweep JOB --set lr=0.01,0.1",
        )
    asked = _asked(services, arguments)
    if arguments.dry_run:
        return Planned(asked, services.sweeps.expand(asked))
    return services.sweeps.queue(asked, progress)


def print_queued(done: Done, as_json: bool) -> int:
    if isinstance(done, Planned):
        return _tell_plan(done, as_json)
    if as_json:
        print_json(done if isinstance(done, SweepTaken) else _made(done))
        return OK
    if isinstance(done, SweepTaken):
        print_line(f"Moved {_jobs(len(done.taken))} of {sweep_name(done.tag)} to the trash.")
        if done.left:
            print_note(f"{_jobs(len(done.left))} ran already and stay.")
        return OK
    print_table(("ID", "NAME"), ((view.id, view.name) for view in done.jobs), "")
    print_note(f"{_jobs(len(done.jobs))} of the sweep {sweep_name(done.tag)} are queued.")
    print_note(f"To remove them: {COMMAND} job sweep --take-back {sweep_name(done.tag)}")
    return OK


def _asked(services: Services, arguments: argparse.Namespace) -> Sweep:
    path = Path(arguments.base)
    if path.suffix.lower() == ".toml" or path.is_file():
        raw = read_job_file(path)
        told = services.sweeps.read(path) if "sweep" in raw or not arguments.set else None
        base = dict(raw) if told is None else dict(told.base)
    else:
        told, base = None, services.sweeps.base_of(services.jobs.queries.find(arguments.base))
    axes = {} if told is None else {axis.path: axis for axis in told.axes}
    for axis in _axes(arguments.set, base):
        axes[axis.path] = axis
    draws = arguments.random if told is None or arguments.random is not None else told.draws
    seed = arguments.seed if arguments.seed is not None else 1 if told is None else told.seed
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


def _tell_plan(plan: Planned, as_json: bool) -> int:
    jobs, faults = plan.found.jobs, plan.found.faults
    if as_json:
        print_json(
            {
                "sweep": None,
                "jobs": [{"name": job.name, "values": dict(job.values)} for job in jobs],
                "faults": [{"field": fault.field, "sentence": fault.sentence} for fault in faults],
            }
        )
    else:
        for axis in plan.sweep.axes:
            print_note(f"{label(axis.path)} ({axis.path}): {axis_text(axis)}")
        paths = [axis.path for axis in plan.sweep.axes]
        rows = ((job.name, *(value_text(v) for _, v in job.values)) for job in jobs)
        print_table(("NAME", *paths), rows, "The sweep has no jobs.")
        for fault in faults:
            print_note(fault.sentence)
        print_note(f"{_jobs(len(jobs))}; nothing was created.")
    return FAILED if faults else OK


def _made(made: SweepMade) -> dict[str, Any]:
    return {
        "sweep": made.tag,
        "jobs": [
            {"id": view.id, "name": view.name, "state": view.state.value} for view in made.jobs
        ],
    }


def _jobs(count: int) -> str:
    return "1 job" if count == 1 else f"{count} jobs"
