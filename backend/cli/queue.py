"""``job queue|unqueue|reorder`` and ``queue list|pause|resume``."""

from __future__ import annotations

import argparse
from datetime import datetime
from typing import TYPE_CHECKING

from backend.base.errors import BackendError
from backend.cli.printing import OK, in_time, print_json, print_line, print_note, print_table
from backend.records.base.program_name import COMMAND
from backend.records.queue.entry import Queue, QueuePlace
from backend.records.queue.start_time import parse_when

if TYPE_CHECKING:
    from backend.services.context.container import Services


def queue(services: Services, arguments: argparse.Namespace, as_json: bool) -> int:
    when = _when(arguments.not_before)
    place = services.queue.enqueue(
        services.jobs.queries.find(arguments.id),
        arguments.priority,
        when,
        at_once=arguments.not_before == "now",
        start_over=arguments.start_over,
    )
    return _print_place(place, as_json)


def unqueue(services: Services, arguments: argparse.Namespace, as_json: bool) -> int:
    view = services.queue.dequeue(services.jobs.queries.find(arguments.id))
    if as_json:
        print_json(view)
    else:
        print_line(f"{view.id}  {view.state.word}")
    return OK


def reorder(services: Services, arguments: argparse.Namespace, as_json: bool) -> int:
    job_id = services.jobs.queries.find(arguments.id)
    if arguments.first:
        return _print_place(services.queue.to_top(job_id), as_json)
    beside = services.jobs.queries.find(arguments.before or arguments.after)
    place = (
        services.queue.reorder(job_id, before=beside)
        if arguments.before
        else services.queue.reorder(job_id, after=beside)
    )
    return _print_place(place, as_json)


def list_queue(services: Services, _: argparse.Namespace, as_json: bool) -> int:
    # After a reboot the queue service of this computer runs only after this call.
    services.queue.keep()
    return _print_queue(services.queue.read(), as_json)


def pause(services: Services, _: argparse.Namespace, as_json: bool) -> int:
    return _print_queue(services.queue.pause(), as_json)


def resume(services: Services, _: argparse.Namespace, as_json: bool) -> int:
    return _print_queue(services.queue.resume(), as_json)


def _when(text: str) -> datetime | None:
    if text in ("", "now"):
        return None
    try:
        return parse_when(text, datetime.now().astimezone())
    except ValueError as error:
        raise BackendError(str(error)) from error


def _print_place(place: QueuePlace, as_json: bool) -> int:
    if as_json:
        print_json(place)
    else:
        number = f"place {place.number}, " if place.number else ""
        priority = f"priority {place.entry.priority}"
        print_line(f"{place.entry.job_id}  {number}{priority}: {place.sentence}")
    return OK


def _print_queue(found: Queue, as_json: bool) -> int:
    if as_json:
        print_json({"paused": found.paused, "jobs": list(found.places)})
        return OK
    if found.paused:
        print_note(f"{found.paused} {COMMAND} queue resume")
    print_table(
        ("PLACE", "PRIORITY", "ID", "NAME", "STARTS IN", "WAITING BECAUSE"),
        (
            (
                str(place.number),
                str(place.entry.priority),
                place.entry.job_id,
                place.entry.name,
                in_time(place.starts_in_s),
                place.sentence,
            )
            for place in found.places
        ),
        f"No job is queued. Queue one: {COMMAND} job queue ID",
    )
    return OK
