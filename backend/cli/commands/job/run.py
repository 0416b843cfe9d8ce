"""``job start|stop|resume|wait``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from backend.base.errors import BackendError
from backend.cli.command import ArgSpec, command
from backend.cli.parameters import JobId, NodePlacements, Wait
from backend.cli.printing import Answer
from backend.cli.runs import follow, state_answer
from backend.cli.session import Session
from backend.records.jobs.settings import CHANGEABLE
from backend.records.jobs.view import JobView
from backend.records.sweeps.values import field_kind, read_value
from backend.services.context.container import Services


@command("job start")
def start(
    session: Session,
    id: JobId,
    *,
    wait: Wait = False,
    start_over: Annotated[
        bool, "start a job that ran before from its first step; its runs are kept in runs/"
    ] = False,
    on: NodePlacements = (),
) -> Answer:
    """Start a job from its first step."""
    lifecycle = session.services.jobs.lifecycle
    return _run_answer(session, lifecycle.start(id, start_over, on, session.progress), wait)


@command("job stop", reads_jobs=True)
def stop(
    session: Session,
    id: JobId,
    *,
    wait: Wait = False,
    kill: Annotated[bool, "end a run that did not stop when asked, without a checkpoint"] = False,
) -> Answer:
    """Stop a job after a checkpoint."""
    lifecycle = session.services.jobs.lifecycle
    view = lifecycle.kill(id) if kill else lifecycle.stop(id)
    return _run_answer(session, view, wait and view.state.is_live)


_SETTINGS = [path for path in CHANGEABLE if field_kind(path) != "table"]


def _changes(_services: Services, assignments: Sequence[str]) -> tuple[tuple[str, Any], ...]:
    changes = []
    for assignment in assignments:
        path, is_set, text = assignment.partition("=")
        if not is_set:
            raise BackendError(f"--set {assignment}: has no “=”.", f"Use --set {assignment}=VALUE.")
        changes.append((path, read_value(field_kind(path), text)))
    return tuple(changes)


@command("job resume")
def resume(
    session: Session,
    id: JobId,
    *,
    wait: Wait = False,
    on: NodePlacements = (),
    checkpoint: Annotated[str, ArgSpec("C", "an older checkpoint")] = "",
    set: Annotated[
        tuple[tuple[str, Any], ...],
        ArgSpec(
            "PATH=VALUE",
            f"change {' or '.join(_SETTINGS)} for this and later runs; may be repeated",
            parse=str,
            resolve=_changes,
        ),
    ] = (),
) -> Answer:
    """Resume from the newest checkpoint."""
    view = session.services.jobs.lifecycle.resume(
        id,
        checkpoint,
        on,
        session.progress,
        changes=dict(set),
    )
    return _run_answer(session, view, wait)


@command("job wait", reads_jobs=True)
def wait(session: Session, id: JobId) -> Answer:
    """Return when the run has ended."""
    return follow(session, id)


def _run_answer(session: Session, view: JobView, waits: bool) -> Answer:
    return follow(session, view.id) if waits else state_answer(view)
