"""What is told of the end of a run: its cause, and the last lines of the rank that failed."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from backend.node.closing import launch_of
from backend.node.explain.log_text import read_parts
from backend.records.files import read_json
from backend.records.launch import Launch
from backend.records.layout import JobFolder
from backend.records.notice import Message
from backend.records.state import JobState
from backend.records.status import RunExit
from backend.records.values import printable

LINES = 20
_LINE_CHARACTERS = 400
_RUN_BEGINS = "── run "
_HIDDEN = "(left out)"
_SHORTEST_SECRET = 4
_TOLD = (JobState.ERROR, JobState.LOST, JobState.FINISHED)


def message_of(folder: JobFolder, run: int, tells_finished: bool) -> Message | None:
    """The message about run ``run``, or None when its end is nothing to tell (or not there yet).

    Values of the job's own environment are left out: a token in it may stand in a traceback.
    """
    try:
        ended = RunExit.from_dict(read_json(folder.attempt(run).exit))
    except (OSError, ValueError, KeyError, TypeError):
        return None
    if ended.state not in _TOLD or (ended.state is JobState.FINISHED and not tells_finished):
        return None
    launch = launch_of(folder, run)
    if launch is not None and launch.steps_limit:
        return None
    error = ended.error
    rank = error.rank if error is not None else None
    log = folder.mpirun_log if rank is None else folder.rank_log(rank)
    parts = read_parts(log)[-1:] if ended.state is not JobState.FINISHED else ()
    return Message(
        job_id=folder.job_id,
        run=run,
        state=ended.state.value,
        word=ended.state.word,
        name=_name(folder, launch),
        cause=_without(error.sentence if error is not None else ended.message, launch),
        remedy=_without(error.remedy, launch) if error is not None else "",
        rank=rank,
        nodes=tuple(dict.fromkeys(plan.node for plan in launch.ranks)) if launch else (),
        lines=tuple(_without(line, launch) for part in parts for line in last_lines(part.lines)),
    )


def last_lines(lines: Iterable[str]) -> tuple[str, ...]:
    """The last lines that a run wrote, as plain text."""
    found: list[str] = []
    for line in lines:
        if line.startswith(_RUN_BEGINS):
            found.clear()
        elif line.strip() or found:
            found.append(printable(line.replace("\t", "    "), _LINE_CHARACTERS))
    while found and not found[-1].strip():
        found.pop()
    return tuple(found[-LINES:])


def _without(text: str, launch: Launch | None) -> str:
    values = launch.config.environment.values() if launch is not None else ()
    for value in sorted(values, key=len, reverse=True):
        if len(value) >= _SHORTEST_SECRET:
            text = text.replace(value, _HIDDEN)
    return text


def _name(folder: JobFolder, launch: Launch | None) -> str:
    with suppress(OSError, ValueError):
        name = read_json(folder.notes).get("name")
        if isinstance(name, str) and name:
            return name
    return launch.config.name if launch is not None else folder.job_id
