"""End of a rank, derived from what its guard saw. Pure: no file, no process.

A rank that exits with code 0 before the end is as wrong as one that crashes: the others wait for it
forever (`sys.exit` in a user's model causes this). So the last heartbeat decides, not the code.
"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import PurePosixPath

from backend.node.system import wording
from backend.records.jobs.heartbeat import Phase
from backend.records.jobs.launch import RankPlan
from backend.records.jobs.status import RankError, RankExit

LOG_LINES = 20
_FRAME = re.compile(r'^  File "(?P<file>.+)", line (?P<line>\d+) in (?P<function>.+)$')
_OURS = "/backend/"
_LIBRARIES = ("/site-packages/", "/dist-packages/", "/lib/python3", "/lib64/python3", "<")


class EndedBy(Enum):
    ITSELF = "itself"
    LAUNCHER = "launcher"
    """The guard was ended by mpirun, which ends all ranks or is gone itself."""
    STALL = "stall"


@dataclass(frozen=True)
class Seen:
    """Observations of a rank by its guard. ``log_tail`` is the end of its log, of this run only."""

    phase: Phase
    ended_by: EndedBy
    wait_status: int | None = None
    """As of `os.waitpid`; None if the rank never started or could not be ended."""
    error: RankError | None = None
    error_is_secondary: bool = False
    dump: str = ""
    log_tail: str = ""
    stall_s: float = 0.0
    stop_was_requested: bool = False
    out_of_memory: bool = False


def rank_exit(
    plan: RankPlan, run: int, host: str, seen: Seen, user_folders: Sequence[str]
) -> RankExit:
    """Return the exit record of a rank."""
    code, number = _split(seen.wait_status)
    record = RankExit(
        rank=plan.rank,
        run=run,
        host=host,
        node=plan.node,
        outcome="",
        code=code,
        signal=wording.signal_name(number) if number else "",
    )
    if seen.phase in (Phase.FINISHED, Phase.INTERRUPTED):
        # Its last action is done and on disk; what happens to it afterwards does not matter.
        done = "finished" if seen.phase is Phase.FINISHED else "interrupted"
        return replace(record, outcome=done)
    if seen.error is not None:
        # A rank may report another one (the loss of rank 3 was NaN); it names it then.
        rank = plan.rank if seen.error.rank is None else seen.error.rank
        error = replace(seen.error, rank=rank, node=seen.error.node or plan.node)
        return replace(record, outcome="error", error=error, secondary=seen.error_is_secondary)
    where = place_in_words(seen.dump, user_folders)
    at = f", at {where}" if where else ""
    trace = seen.dump or seen.log_tail
    who = wording.who(plan)

    def failed(outcome: str, sentence: str, traceback: str, secondary: bool = False) -> RankExit:
        error = RankError(sentence, plan.rank, plan.node, traceback)
        return replace(record, outcome=outcome, error=error, secondary=secondary)

    if seen.ended_by is EndedBy.STALL:
        waited = seen.phase is Phase.WAITING_FOR_OTHERS
        since = " after the stop request" if seen.stop_was_requested else ""
        return failed(
            "stalled",
            f"{who} made no progress for {wording.seconds(seen.stall_s)}{since} "
            f"{seen.phase.text}{at}.",
            trace,
            secondary=waited,
        )
    if seen.ended_by is EndedBy.LAUNCHER:
        return failed(
            "signal",
            f"{who} was ended together with the others {seen.phase.text}.",
            trace,
            secondary=True,
        )
    if number:
        return failed("signal", _killed(who, number, seen, at), trace)
    if code is None:
        return failed("error", f"{who} did not start.", seen.log_tail)
    # Only MPI itself exits while it waits for others: one of them was lost.
    waited = seen.phase is Phase.WAITING_FOR_OTHERS
    return failed("exit", _left(who, code, seen), seen.log_tail, secondary=waited)


def _split(status: int | None) -> tuple[int | None, int]:
    if status is None:
        return None, 0
    if os.WIFSIGNALED(status):
        return None, os.WTERMSIG(status)
    return os.WEXITSTATUS(status), 0


def _killed(who: str, number: int, seen: Seen, at: str) -> str:
    name = wording.signal_name(number)
    if number == signal.SIGKILL and seen.out_of_memory:
        return (
            f"{who} was killed by signal 9 (SIGKILL) {seen.phase.text} because the computer ran "
            "out of memory; choose a smaller batch size or fewer processes."
        )
    reason = wording.crash_reason(number)
    if reason:
        return f"{who} crashed with signal {number} ({name}: {reason}) {seen.phase.text}{at}."
    return f"{who} was killed by signal {number} ({name}) {seen.phase.text}{at}."


def _left(who: str, code: int, seen: Seen) -> str:
    lines = [line for line in seen.log_tail.splitlines() if line.strip()]
    if code != 0 and lines and any("Traceback (most recent call last)" in line for line in lines):
        return f"{who} ended {seen.phase.text}: {lines[-1].strip()}"
    if code == 0:
        return (
            f"{who} exited with code 0 {seen.phase.text}, before the training was over; look for "
            "sys.exit or os._exit in the model and the loader."
        )
    return f"{who} exited with code {code} {seen.phase.text}."


@dataclass(frozen=True)
class StackFrame:
    """A line of a stack dump of `faulthandler`."""

    file: str
    line: int
    function: str

    def describe(self, folder: str = "") -> str:
        """Return ``bks_model.py, line 12, in forward``, with the path relative to ``folder``."""
        path = PurePosixPath(self.file)
        inside = folder and path.is_relative_to(folder)
        shown = path.relative_to(folder) if inside else path.name
        return f"{shown}, line {self.line}, in {self.function}"


def threads(dump: str) -> list[list[StackFrame]]:
    """Return the stacks of a dump, innermost frame first, and first the thread with the signal."""
    found: list[list[StackFrame]] = []
    current = False
    for line in dump.splitlines():
        if line.startswith(("Thread 0x", "Current thread 0x", "Stack (most recent call first)")):
            current = not line.startswith("Thread")
            found.append([])
            if current:
                found.insert(0, found.pop())
        frame = _FRAME.match(line)
        if frame and found:
            stack = found[0] if current else found[-1]
            stack.append(StackFrame(frame["file"], int(frame["line"]), frame["function"]))
    return found


def place_in_words(dump: str, user_folders: Sequence[str]) -> str:
    """Return the innermost line of user code, otherwise of code outside libraries, or ""."""
    stacks = threads(dump)
    for folder in user_folders:
        prefix = folder.rstrip("/") + "/"
        for stack in stacks:
            for frame in stack:
                if folder and frame.file.startswith(prefix):
                    return frame.describe(folder)
    for stack in stacks[:1]:
        for frame in stack:
            if _OURS not in frame.file and not any(part in frame.file for part in _LIBRARIES):
                return frame.describe()
    return ""
