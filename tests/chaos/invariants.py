"""The promises that hold after each act, in one table, and the search for one that is broken.

Each is a function of the world that returns "" while the promise holds, or what is wrong.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import sqlite3
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from backend.base.errors import BackendError
from backend.datastore.jobs.checkpoint_files import list_checkpoints, newest_name
from backend.datastore.jobs.history_reader import read_history
from backend.node.system import process_cleanup
from backend.records.base.layout import run_tag
from backend.records.jobs.checkpoint import Checkpoint, read_checkpoints
from backend.records.jobs.config import CheckpointPolicy
from backend.records.jobs.state import JobState
from backend.records.jobs.status import START_LIMIT_S
from tests.chaos.world import World, polls

_VERIFICATION_INTERVAL = 20
"""Acts between two verifications, which read everything."""


class BrokenPromiseError(Exception):
    """A promise that is not kept within its limit."""

    def __init__(self, promise: str, message: str) -> None:
        super().__init__(f"{promise}: {message}")
        self.promise = promise


@dataclass(frozen=True)
class Invariant:
    """``is_left_alone``: no window may help while it is waited for.

    The limit is one of a quiet machine.
    """

    name: str
    find_breach: Callable[[World], str]
    limit_s: float
    is_left_alone: bool = False


def require_invariants(world: World) -> None:
    """Wait until every promise holds.

    Raises:
        BrokenPromiseError: A promise does not hold within its limit.
    """
    if world.repairs:
        world.mark_harmed()
    world.act_count += 1
    for invariant in INVARIANTS:
        for _ in polls(invariant.limit_s):
            breach = _find_breach(invariant, world)
            if not breach:
                break
            if not invariant.is_left_alone:
                world.tick()
        else:
            raise BrokenPromiseError(invariant.name, breach)


def _find_breach(invariant: Invariant, world: World) -> str:
    try:
        return invariant.find_breach(world)
    except BackendError as error:
        return f"it cannot be known: {error.message}"


def ranks_end_without_supervisor(world: World) -> str:
    """90 s, the time in which no dead job holds a GPU, and without the help of any window."""
    for job in world.jobs():
        run = world.folder_of(job).newest_run()
        if run and world.supervisor(job, run) is None and (processes := world.processes(job)):
            return f"run {run} of {job} has no supervisor and {len(processes)} processes"
    return ""


def states_are_true(world: World) -> str:
    """60 s; for a run that was claimed and never got a supervisor, the product's own limit more."""
    for number in range(len(world.desktops) if world.may_compare() else 1):
        for view in world.views(number):
            is_supervised = world.supervisor(view.id, view.run) is not None
            if view.state.is_live != is_supervised and not world.may_doubt(view):
                article = "a" if is_supervised else "no"
                return f"{view.id} is {view.state.value} and has {article} supervisor"
    return ""


def ends_have_causes(world: World) -> str:
    """At once: no run to which nothing was done fails, stops or leaves its end to others to record.

    Each failure has a sentence.
    """
    for view in world.views():
        key = (view.id, view.run)
        if view.state.has_failed:
            message = view.error.message if view.error is not None else view.status.message
            if not message:
                return f"{view.id} does not say why it failed"
            if key not in world.harmed_runs:
                return f"run {view.run} of {view.id} failed of itself: {message}"
        if view.state is JobState.INTERRUPTED and key not in world.stopped_runs | world.harmed_runs:
            return f"run {view.run} of {view.id} stopped of itself: {view.status.message}"
        exit_file = world.folder_of(view.id).attempt(view.run).exit
        if (
            key not in world.harmed_runs
            and exit_file.exists()
            and not json.loads(exit_file.read_bytes())["took_s"]
        ):
            return f"the supervisor did not write the end of run {view.run} of {view.id}"
    return ""


def checkpoints_stay(world: World) -> str:
    """At once: what was once the newest is whole where it was, moved away or replaced by newer."""
    for job in world.jobs():
        folder = world.folder_of(job)
        start_over_count = sum(1 for _ in folder.started_over_runs.glob("*"))
        newest = _newest_checkpoint(world, job)
        if newest is not None:
            path = Path(newest.path)
            sha256 = _sha256(path)
            world.newest_checkpoints[job, start_over_count] = (newest.name, newest.step, sha256)
            if sha256 != newest.sha256:
                return f"{newest.name} of {job} is not what was saved"
    for (job, _), (name, step, sha256) in world.newest_checkpoints.items():
        folder = world.folder_of(job)
        if not folder.path.exists():
            continue  # in the trash
        checkpoint_folders = [folder.checkpoints, *folder.started_over_runs.glob("*/checkpoints")]
        checkpoints = [c for path in checkpoint_folders for c in read_checkpoints(path)]
        if not any(
            (c.name == name and _sha256(Path(c.path)) == sha256) or c.step > step
            for c in checkpoints
        ):
            return f"{name} of {job} is gone; what is left: {[c.name for c in checkpoints]}"
    return ""


def ends_are_saved(world: World) -> str:
    """10 s: a run that stopped or finished by itself has its last step as newest checkpoint."""
    for view in world.views():
        if view.state not in (JobState.INTERRUPTED, JobState.FINISHED) or not view.step:
            continue
        if (view.id, view.run) in world.harmed_runs:
            continue
        newest = _newest_checkpoint(world, view.id)
        # At which step a script saves is its own choice.
        if newest is None or (newest.step != view.step and not view.config.script):
            name = newest and newest.name
            return f"{view.id} ended at step {view.step}, and its newest checkpoint is “{name}”"
        if view.state is JobState.FINISHED and view.step != view.status.total_steps:
            return f"{view.id} finished at step {view.step} of {view.status.total_steps}"
    return ""


def nothing_is_left(world: World) -> str:
    """30 s after the end of a run, no process has its tag."""
    for job in world.jobs():
        newest_run = world.folder_of(job).newest_run()
        for run in range(1, newest_run + 1):
            is_over = run < newest_run or world.folder_of(job).attempt(run).exit.exists()
            processes = process_cleanup.tagged(run_tag(job, run)) if is_over else ()
            if processes and world.supervisor(job, run) is None:
                return f"run {run} of {job} is over and has {[p.pid for p in processes]}"
    return ""


def files_are_readable(world: World) -> str:
    """At once, also right after a kill: each is replaced whole, or appended to."""
    for path in sorted(world.root.path.rglob("*")):
        try:
            if path.name.startswith(".") or not path.is_file():
                continue
            if path.name == "history.toml":
                if list(steps := read_history(path)[0].steps) != sorted(set(steps)):
                    return f"{path} has steps twice"
            elif path.suffix == ".json":
                json.loads(path.read_bytes())
            elif path.suffix == ".toml":
                tomllib.loads(path.read_text())
            elif path.suffix == ".jsonl":
                # An agent that was killed may leave a blank line.
                [json.loads(line) for line in path.read_text().splitlines() if line]
        except FileNotFoundError:
            continue
        except ValueError as error:
            return f"{path} ({path.stat().st_size} bytes): {error}"
    for number in range(len(world.desktops)):
        if not world.catalogue(number).exists():
            continue  # It is made when it is first used.
        with contextlib.closing(sqlite3.connect(world.catalogue(number))) as catalogue:
            (integrity,) = catalogue.execute("PRAGMA integrity_check").fetchone()
        if integrity != "ok":
            return f"catalogue {number}: {integrity}"
    return ""


def jobs_start_or_have_reasons(world: World) -> str:
    """30 s: each job at rest can be continued or started over; else it has a sentence for it."""
    for view in world.views():
        if view.state.is_live or view.state is JobState.QUEUED:
            continue
        refusals = list(_refusals(world, view.id, bool(view.run)))
        if not all(refusal.endswith(".") for refusal in refusals):
            return f"{view.id} is refused by no sentence: {refusals}"
        if len(refusals) == 2 and not world.repairs and world.folder_of(view.id).path.exists():
            return f"{view.id} cannot be started: {refusals}"
    return ""


def _refusals(world: World, job: str, has_run: bool) -> Iterator[str]:
    for start_over in (has_run, False):
        try:
            world.desktops[0].jobs.lifecycle.prepare(job, start_over=start_over)
        except BackendError as error:
            yield error.message


def desktops_agree(world: World) -> str:
    """30 s, for what both can know: a step that is made meanwhile is no difference."""
    if not world.may_compare():
        return ""
    job_summaries = [
        {
            view.id: (view.run, view.name, view.tags)
            + ((True,) if view.state.is_live else (view.state, view.step))
            for view in desktop.jobs.queries.list()
        }
        for desktop in world.desktops
    ]
    if job_summaries[0] != job_summaries[1]:
        return f"{set(job_summaries[0].items()) ^ set(job_summaries[1].items())}"
    missing_jobs = set(world.jobs()) ^ job_summaries[0].keys()
    return f"not in the lists, or only there: {sorted(missing_jobs)}" if missing_jobs else ""


def waiting_has_reasons(world: World) -> str:
    """30 s: each place in the queue says what it waits for."""
    for queued_job in world.desktops[world.may_compare()].queue.read().jobs:
        if not queued_job.message:
            return f"{queued_job.entry.job_id} waits and does not say for what"
    return ""


def verification_is_clean(world: World) -> str:
    """30 s, now and then: `ringmaster verify` finds nothing that no act explains."""
    is_due = not world.repairs and world.act_count % _VERIFICATION_INTERVAL == 0
    return world.unexplained_finding() if is_due else ""


INVARIANTS = (
    Invariant("ranks end without a supervisor", ranks_end_without_supervisor, 90, True),
    Invariant("states are true", states_are_true, 60 + START_LIMIT_S),
    Invariant("ends have causes", ends_have_causes, 0),
    Invariant("checkpoints stay", checkpoints_stay, 0),
    Invariant("ends are saved", ends_are_saved, 10),
    Invariant("nothing is left", nothing_is_left, 30),
    Invariant("files are readable", files_are_readable, 0),
    Invariant("jobs start or say why", jobs_start_or_have_reasons, 30),
    Invariant("desktops agree", desktops_agree, 30),
    Invariant("waiting has reasons", waiting_has_reasons, 30),
    Invariant("everything is found sound", verification_is_clean, 30),
)


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _newest_checkpoint(world: World, job: str) -> Checkpoint | None:
    folder = world.folder_of(job)
    name = newest_name(folder)
    checkpoints = list_checkpoints(folder, CheckpointPolicy())
    return next((checkpoint for checkpoint in checkpoints if checkpoint.name == name), None)
