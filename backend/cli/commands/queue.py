"""The waiting jobs, and why each waits."""

from __future__ import annotations

from backend.cli.command import command
from backend.cli.printing import Answer, Note, Table, in_time
from backend.records.base.program_name import COMMAND
from backend.records.queue.entry import Queue
from backend.services.context.container import Services


@command("queue list", reads_jobs=True)
def list_queue(services: Services) -> Answer:
    """The waiting jobs, the next one first."""
    # After a reboot the queue service of this computer runs only after this call.
    services.queue.ensure_keeper()
    return _shown(services.queue.read())


@command("queue pause")
def pause(services: Services) -> Answer:
    """Start no more jobs from the queue; running jobs continue."""
    return _shown(services.queue.pause())


@command("queue resume")
def resume(services: Services) -> Answer:
    """Start jobs from the queue again."""
    return _shown(services.queue.resume())


def _shown(found: Queue) -> Answer:
    rows = (
        (
            str(place.number),
            str(place.entry.priority),
            place.entry.job_id,
            place.entry.name,
            in_time(place.starts_in_s),
            place.full_message,
        )
        for place in found.jobs
    )
    head = ("PLACE", "PRIORITY", "ID", "NAME", "STARTS IN", "WAITING BECAUSE")
    return Answer(
        {"paused": found.pause_message, "jobs": found.jobs},
        [Note(f"{found.pause_message} {COMMAND} queue resume")] if found.pause_message else [],
        Table(head, rows, f"No job is queued. Queue one: {COMMAND} job queue ID"),
    )
