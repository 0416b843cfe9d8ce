"""``job start|stop|resume|wait``."""

from __future__ import annotations

import math
from argparse import ArgumentTypeError
from typing import Annotated

from backend.cli.command import Word, command
from backend.cli.parameters import JobId, On, Wait, count
from backend.cli.printing import Answer
from backend.cli.runs import follow, state
from backend.cli.session import Session
from backend.records.jobs.view import JobView


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


def _rate(text: str) -> float:
    try:
        rate = float(text)
    except ValueError:
        rate = 0.0
    if not 0 < rate < math.inf:
        raise ArgumentTypeError(f"“{text}” should be a number above 0")
    return rate


@command("job resume")
def resume(
    session: Session,
    id: JobId,
    *,
    wait: Wait = False,
    on: On = (),
    checkpoint: Annotated[str, Word("C", "an older checkpoint")] = "",
    batch_size: Annotated[int, Word("N", "change the batch size", parse=count)] = 0,
    learning_rate: Annotated[float, Word("X", "change the learning rate", parse=_rate)] = 0.0,
) -> Answer:
    """Resume from the newest checkpoint."""
    view = session.services.jobs.lifecycle.resume(
        id,
        checkpoint,
        on,
        session.progress,
        batch_size=batch_size,
        learning_rate=learning_rate,
    )
    return _started(session, view, wait)


@command("job wait", reads_jobs=True)
def wait(session: Session, id: JobId) -> Answer:
    """Return when the run has ended."""
    return follow(session, id)


def _started(session: Session, view: JobView, waits: bool) -> Answer:
    return follow(session, view.id) if waits else state(view)
