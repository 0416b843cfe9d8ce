"""``job start|stop|resume|wait``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from backend.base.errors import BackendError
from backend.cli.command import Word, command
from backend.cli.parameters import JobId, On, Wait
from backend.cli.printing import Answer
from backend.cli.runs import follow, state
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
    on: On = (),
) -> Answer:
    """Start a job from its first step."""
    lifecycle = session.services.jobs.lifecycle
    return _started(session, lifecycle.start(id, start_over, on, session.progress), wait)


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
    return _started(session, view, wait and view.state.is_live)


_SETTINGS = [path for path in CHANGEABLE if field_kind(path) != "table"]


def _changes(_services: Services, words: Sequence[str]) -> tuple[tuple[str, Any], ...]:
    found = []
    for word in words:
        path, is_set, text = word.partition("=")
        if not is_set:
            raise BackendError(f"--set {word}: has no “=”.", f"Use --set {word}=VALUE.")
        found.append((path, read_value(field_kind(path), text)))
    return tuple(found)


@command("job resume")
def resume(
    session: Session,
    id: JobId,
    *,
    wait: Wait = False,
    on: On = (),
    checkpoint: Annotated[str, Word("C", "an older checkpoint")] = "",
    set: Annotated[
        tuple[tuple[str, Any], ...],
        Word(
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
    return _started(session, view, wait)


@command("job wait", reads_jobs=True)
def wait(session: Session, id: JobId) -> Answer:
    """Return when the run has ended."""
    return follow(session, id)


def _started(session: Session, view: JobView, waits: bool) -> Answer:
    return follow(session, view.id) if waits else state(view)
