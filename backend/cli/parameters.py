"""Parameters that several commands have."""

from __future__ import annotations

from argparse import ArgumentTypeError
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated

from backend.base.errors import BackendError
from backend.cli.command import ArgSpec
from backend.records.jobs.placement import Placement, parse_placement
from backend.records.queue.entry import MAX_LENGTH_S, parse_start_time
from backend.services.context.container import Services


def _find_job(services: Services, text: str) -> str:
    return services.queries.find(text)


def _find_jobs(services: Services, texts: Sequence[str]) -> tuple[str, ...]:
    return tuple(services.queries.find(text) for text in texts)


def parse_placements(_services: Services, texts: Sequence[str]) -> tuple[Placement, ...]:
    """Parse ``--on node1=2 --on node2=2``, or ``--on gpu1=GPU-…,GPU-…``."""
    raw = []
    for text in texts:
        node, _, amount_text = text.rpartition("=")
        amount = (
            {"processes": int(amount_text)}
            if amount_text.isdecimal()
            else {"gpus": amount_text.split(",")}
        )
        raw.append({"node": node, **amount})
    placements, errors = parse_placement(raw)
    if errors:
        raise BackendError(errors[0].message, "Use --on NODE=PROCESSES or --on NODE=GPU,GPU.")
    return placements


def parse_count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise ArgumentTypeError(f"“{text}” should be a whole number, 1 or more")
    return int(text)


def parse_port(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) < 65536:
        raise ArgumentTypeError(f"“{text}” should be a port, 1 to 65535")
    return int(text)


def parse_hours(text: str) -> float:
    try:
        hours = float(text)
    except ValueError:  # Refused below.
        hours = 0.0
    if not 0 < hours * 3600 <= MAX_LENGTH_S:
        limit = f"more than 0 and at most {MAX_LENGTH_S / 3600:.0f}"
        raise ArgumentTypeError(f"“{text}” should be a number of hours, {limit}")
    return hours


def start_time(text: str) -> datetime | None:
    """Return the time that a user typed; None for no text."""
    try:
        return parse_start_time(text, datetime.now().astimezone()) if text else None
    except ValueError as error:
        raise BackendError(str(error)) from error


_ID_HELP = "a job's id, the beginning of it, or its name"
JobId = Annotated[str, ArgSpec("ID", _ID_HELP, resolve=_find_job, is_job=True)]
JobIds = Annotated[tuple[str, ...], ArgSpec("ID", _ID_HELP, resolve=_find_jobs, is_job=True)]
Checkpoint = Annotated[str, ArgSpec("C", "a name, latest or best")]
RunNumber = Annotated[int, ArgSpec("N", "a run that start put away in runs/", parse=parse_count)]
Reason = Annotated[str, ArgSpec("TEXT", "for the owner of the job, if that is another user")]
Wait = Annotated[bool, "return when the run has ended"]
NodePlacements = Annotated[
    tuple[Placement, ...],
    ArgSpec(
        "NODE=N",
        "run on this node, with N processes or these GPUs; may be repeated",
        parse=str,
        resolve=parse_placements,
    ),
]
