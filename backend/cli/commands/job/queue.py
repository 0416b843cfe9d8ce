"""``job queue|unqueue|reorder``."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from backend.base.errors import BackendError
from backend.cli.command import Word, command
from backend.cli.parameters import JobId
from backend.cli.printing import Answer
from backend.cli.session import Session
from backend.records.queue.entry import QueuedJob
from backend.records.queue.start_time import FORMS, parse_start_time
from backend.services.context.container import Services


@command("job queue")
def queue(
    session: Session,
    id: JobId,
    *,
    priority: Annotated[int | None, Word("N", "-100 to 100, default 0")] = None,
    not_before: Annotated[str, Word("TIME", f"{FORMS}, or now")] = "",
    start_over: Annotated[bool, "begin at step 1, even if it ran before"] = False,
) -> Answer:
    """Queue a job to start automatically, or change its entry."""
    at_once = not_before == "now"
    when = None if at_once or not not_before else _when(not_before)
    return _placed(
        session.services.queue.enqueue(
            id,
            priority,
            when,
            start_now=at_once,
            start_over=start_over,
            progress=session.progress,
        )
    )


def _when(text: str) -> datetime:
    try:
        return parse_start_time(text, datetime.now().astimezone())
    except ValueError as error:
        raise BackendError(str(error)) from error


@command("job unqueue")
def unqueue(services: Services, id: JobId) -> Answer:
    """Remove a job from the queue."""
    view = services.queue.dequeue(id)
    return Answer(view, f"{view.id}  {view.state.label}")


@command("job reorder", one_of=("before", "after", "first"))
def reorder(
    services: Services,
    id: JobId,
    *,
    before: Annotated[str, Word("ID")] = "",
    after: Annotated[str, Word("ID")] = "",
    first: Annotated[bool, "before all others"] = False,
) -> Answer:
    """Move a waiting job; it gets the priority of its neighbour."""
    if first:
        return _placed(services.queue.to_top(id))
    neighbour = services.queries.find(before or after)
    if before:
        return _placed(services.queue.reorder(id, before_id=neighbour))
    return _placed(services.queue.reorder(id, after_id=neighbour))


def _placed(place: QueuedJob) -> Answer:
    number = f"place {place.number}, " if place.number else ""
    priority = f"priority {place.entry.priority}"
    return Answer(place, f"{place.entry.job_id}  {number}{priority}: {place.full_message}")
