"""Parameters that several commands have."""

from __future__ import annotations

from argparse import ArgumentTypeError
from collections.abc import Sequence
from typing import Annotated

from backend.base.errors import BackendError
from backend.cli.command import Word
from backend.records.jobs.placement import Placement, parse_placement
from backend.services.context.container import Services


def _found(services: Services, text: str) -> str:
    return services.queries.find(text)


def _all_found(services: Services, texts: Sequence[str]) -> tuple[str, ...]:
    return tuple(services.queries.find(text) for text in texts)


def placement(_services: Services, texts: Sequence[str]) -> tuple[Placement, ...]:
    """Parse ``--on node1=2 --on node2=2``, or ``--on gpu1=GPU-…,GPU-…``."""
    raw = []
    for text in texts:
        node, _, what = text.rpartition("=")
        amount = {"processes": int(what)} if what.isdecimal() else {"gpus": what.split(",")}
        raw.append({"node": node, **amount})
    found, faults = parse_placement(raw)
    if faults:
        raise BackendError(faults[0].message, "Use --on NODE=PROCESSES or --on NODE=GPU,GPU.")
    return found


def count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise ArgumentTypeError(f"“{text}” should be a whole number, 1 or more")
    return int(text)


def port(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) < 65536:
        raise ArgumentTypeError(f"“{text}” should be a port, 1 to 65535")
    return int(text)


_ID_HELP = "a job's id, the beginning of it, or its name"
JobId = Annotated[str, Word("ID", _ID_HELP, resolve=_found, is_job=True)]
JobIds = Annotated[tuple[str, ...], Word("ID", _ID_HELP, resolve=_all_found, is_job=True)]
Checkpoint = Annotated[str, Word("C", "a name, latest or best")]
RunNumber = Annotated[int, Word("N", "a run that start put away in runs/", parse=count)]
Wait = Annotated[bool, "return when the run has ended"]
On = Annotated[
    tuple[Placement, ...],
    Word(
        "NODE=N",
        "run on this node, with N processes or these GPUs; may be repeated",
        parse=str,
        resolve=placement,
    ),
]
