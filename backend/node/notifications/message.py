"""Notification of the end of a run: its cause, and the last lines of the rank that failed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path

from backend.base.log import suppress
from backend.node.diagnosis.log_text import tidy
from backend.node.queue.entries import entry_of
from backend.records.base.atomic_files import read_json, stored_record
from backend.records.base.layout import JobFolder
from backend.records.base.validation import sanitize
from backend.records.jobs.launch import Launch, launch_of
from backend.records.jobs.state import JobState
from backend.records.jobs.status import RunExit
from backend.records.notifications.notification import Channels, RunEndMessage

LINES = 20
TAIL_BYTES = 64 * 1024
_LINE_CHARACTERS = 400
_RUN_BEGINS = "── run "
_HIDDEN = "(left out)"
_SHORTEST_SECRET = 4


def tail_of(path: Path) -> bytes:
    """Read the end of a log, empty if there is none."""
    with suppress(OSError), path.open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - TAIL_BYTES))
        return file.read()
    return b""


def message_of(
    folder: JobFolder,
    run: int,
    channels: Channels,
    read_tail: Callable[[Path], bytes] = tail_of,
) -> RunEndMessage | None:
    """Return the message about run ``run``, or None if its end needs none (or is not recorded yet).

    Values of the job's own environment are left out: a traceback may contain a token from it.
    """
    run_exit = stored_record(RunExit, folder.attempt(run).exit)
    if run_exit is None or not channels.notifies_of(run_exit.state):
        return None
    launch = launch_of(folder.launch, run)
    if launch is not None and launch.is_trial:
        return None
    error = run_exit.error
    rank = error.rank if error is not None else None
    log = folder.mpirun_log if rank is None else folder.rank_log(rank)
    tail = read_tail(log) if run_exit.state is not JobState.FINISHED else b""
    lines = map(tidy, tail.decode("utf-8", "replace").split("\n"))
    return RunEndMessage(
        job_id=folder.job_id,
        run=run,
        state=run_exit.state.value,
        state_label=JobState.PAUSED.label if run_exit.pause else run_exit.state.label,
        name=_name(folder, launch),
        cause=_without_secrets(_cause(folder, run_exit), launch),
        remedy=_without_secrets(error.remedy, launch) if error is not None else "",
        rank=rank,
        nodes=tuple(dict.fromkeys(plan.node for plan in launch.ranks)) if launch else (),
        lines=tuple(_without_secrets(line, launch) for line in last_lines(lines)),
    )


def _cause(folder: JobFolder, run_exit: RunExit) -> str:
    """Return why the run ended, and how the job continues where it does so without a user."""
    entry = entry_of(folder)
    if entry is not None and entry.reason and entry.run == run_exit.run + 1:
        return entry.reason
    return run_exit.error.message if run_exit.error is not None else run_exit.message


def last_lines(lines: Iterable[str]) -> tuple[str, ...]:
    """Return the last lines that a run wrote, as plain text."""
    tail: list[str] = []
    for line in lines:
        if line.startswith(_RUN_BEGINS):
            tail.clear()
        elif line.strip() or tail:
            tail.append(sanitize(line.replace("\t", "    "), _LINE_CHARACTERS))
    while tail and not tail[-1].strip():
        tail.pop()
    return tuple(tail[-LINES:])


def _without_secrets(text: str, launch: Launch | None) -> str:
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
