"""``job queue|unqueue|reorder``."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from backend.base.errors import BackendError
from backend.cli.command import ArgSpec, command
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
    priority: Annotated[int | None, ArgSpec("N", "-100 to 100, default 0")] = None,
    not_before: Annotated[str, ArgSpec("TIME", f"{FORMS}, or now")] = "",
    start_over: Annotated[bool, "begin at step 1, even if it ran before"] = False,
) -> Answer:
    """Queue a job to start automatically, or change its entry."""
    starts_now = not_before == "now"
    start_time = None if starts_now or not not_before else _start_time(not_before)
    return _queue_answer(
        session.services.queue.enqueue(
            id,
            priority,
            start_time,
            start_now=starts_now,
            start_over=start_over,
            progress=session.progress,
        )
    )


def _start_time(text: str) -> datetime:
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
    before: Annotated[str, ArgSpec("ID")] = "",
    after: Annotated[str, ArgSpec("ID")] = "",
    first: Annotated[bool, "before all others"] = False,
) -> Answer:
    """Move a waiting job; it gets the priority of its neighbour."""
    if first:
        return _queue_answer(services.queue.to_top(id))
    neighbour = services.queries.find(before or after)
    if before:
        return _queue_answer(services.queue.reorder(id, before_id=neighbour))
    return _queue_answer(services.queue.reorder(id, after_id=neighbour))


def _queue_answer(queued_job: QueuedJob) -> Answer:
    number = f"place {queued_job.number}, " if queued_job.number else ""
    priority = f"priority {queued_job.entry.priority}"
    return Answer(
        queued_job, f"{queued_job.entry.job_id}  {number}{priority}: {queued_job.full_message}"
    )
