"""The waiting jobs, and why each waits."""

from __future__ import annotations

from backend.cli.command import command
from backend.cli.printing import Answer, Note, Table, duration_text
from backend.records.base.program_name import COMMAND
from backend.records.queue.entry import Queue
from backend.services.context.container import Services


@command("queue list", reads_jobs=True)
def list_queue(services: Services) -> Answer:
    """The waiting jobs, the next one first."""
    # After a reboot the queue service of this computer runs only after this call.
    services.queue.ensure_keeper()
    return _queue_answer(services.queue.read())


@command("queue pause")
def pause(services: Services) -> Answer:
    """Start no more jobs from the queue; running jobs continue."""
    return _queue_answer(services.queue.pause())


@command("queue resume")
def resume(services: Services) -> Answer:
    """Start jobs from the queue again."""
    return _queue_answer(services.queue.resume())


def _queue_answer(queue: Queue) -> Answer:
    rows = (
        (
            str(job.number),
            str(job.entry.priority),
            job.entry.job_id,
            job.entry.name,
            duration_text(job.starts_in_s),
            job.full_message,
        )
        for job in queue.jobs
    )
    head = ("PLACE", "PRIORITY", "ID", "NAME", "STARTS IN", "WAITING BECAUSE")
    return Answer(
        {"paused": queue.pause_message, "jobs": queue.jobs},
        [Note(f"{queue.pause_message} {COMMAND} queue resume")] if queue.pause_message else [],
        Table(head, rows, f"No job is queued. Queue one: {COMMAND} job queue ID"),
    )
