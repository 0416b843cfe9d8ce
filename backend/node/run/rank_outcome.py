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
from backend.records.jobs.schedulers import ClusterScheduler
from backend.records.jobs.status import RankError, RankExit

LOG_LINES = 20
_FRAME = re.compile(r'^  File "(?P<file>.+)", line (?P<line>\d+) in (?P<function>.+)$')
_OWN_CODE = "/backend/"
_LIBRARIES = ("/site-packages/", "/dist-packages/", "/lib/python3", "/lib64/python3", "<")


class EndCause(Enum):
    ITSELF = "itself"
    LAUNCHER = "launcher"
    """The guard was ended by mpirun, which ends all ranks or is gone itself."""
    STALL = "stall"


@dataclass(frozen=True)
class RankObservation:
    """Observations of a rank by its guard. ``log_tail`` is the end of its log, of this run only."""

    phase: Phase
    ended_by: EndCause
    wait_status: int | None = None
    """As of `os.waitpid`; None if the rank never started or could not be ended."""
    error: RankError | None = None
    error_is_secondary: bool = False
    dump: str = ""
    log_tail: str = ""
    stall_s: float = 0.0
    stop_was_requested: bool = False
    out_of_memory: bool = False
    scheduler: ClusterScheduler | None = None
    """It has given the job a part of the node's memory."""


def rank_exit(
    plan: RankPlan, run: int, host: str, observation: RankObservation, user_folders: Sequence[str]
) -> RankExit:
    """Return the exit record of a rank."""
    code, number = _split(observation.wait_status)
    record = RankExit(
        rank=plan.rank,
        run=run,
        host=host,
        node=plan.node,
        outcome="",
        code=code,
        signal=wording.signal_name(number) if number else "",
    )
    if observation.phase in (Phase.FINISHED, Phase.INTERRUPTED):
        # Its last action is done and on disk; what happens to it afterwards does not matter.
        outcome = "finished" if observation.phase is Phase.FINISHED else "interrupted"
        return replace(record, outcome=outcome)
    if observation.error is not None:
        # A rank may report another one (the loss of rank 3 was NaN); it names it then.
        rank = plan.rank if observation.error.rank is None else observation.error.rank
        error = replace(observation.error, rank=rank, node=observation.error.node or plan.node)
        return replace(
            record, outcome="error", error=error, is_secondary=observation.error_is_secondary
        )
    position = innermost_user_line(observation.dump, user_folders)
    location = f", at {position}" if position else ""
    trace = observation.dump or observation.log_tail
    label = wording.rank_label(plan)

    def failed(outcome: str, message: str, traceback: str, is_secondary: bool = False) -> RankExit:
        error = RankError(message, plan.rank, plan.node, traceback)
        return replace(record, outcome=outcome, error=error, is_secondary=is_secondary)

    if observation.ended_by is EndCause.STALL:
        was_waiting = observation.phase is Phase.WAITING_FOR_OTHERS
        stop_suffix = " after the stop request" if observation.stop_was_requested else ""
        return failed(
            "stalled",
            f"{label} made no progress for {wording.seconds(observation.stall_s)}{stop_suffix} "
            f"{observation.phase.text}{location}.",
            trace,
            is_secondary=was_waiting,
        )
    if observation.ended_by is EndCause.LAUNCHER:
        return failed(
            "signal",
            f"{label} was ended together with the others {observation.phase.text}.",
            trace,
            is_secondary=True,
        )
    if number:
        return failed("signal", _kill_message(label, number, observation, location), trace)
    if code is None:
        return failed("error", f"{label} did not start.", observation.log_tail)
    # Only MPI itself exits while it waits for others: one of them was lost.
    was_waiting = observation.phase is Phase.WAITING_FOR_OTHERS
    return failed(
        "exit",
        _exit_message(label, code, observation),
        observation.log_tail,
        is_secondary=was_waiting,
    )


def _split(status: int | None) -> tuple[int | None, int]:
    if status is None:
        return None, 0
    if os.WIFSIGNALED(status):
        return None, os.WTERMSIG(status)
    return os.WEXITSTATUS(status), 0


def _kill_message(label: str, number: int, observation: RankObservation, location: str) -> str:
    name = wording.signal_name(number)
    scheduler = observation.scheduler
    if number == signal.SIGKILL and observation.out_of_memory and scheduler is not None:
        return (
            f"{label} was killed {observation.phase.text} because memory ran out: what "
            f"{scheduler.name} gave to the job, or that of the node. Ask for more with the extra "
            f"option {scheduler.memory_option}, or choose a smaller batch size or fewer loader "
            "workers."
        )
    if number == signal.SIGKILL and observation.out_of_memory:
        return (
            f"{label} was killed by signal 9 (SIGKILL) {observation.phase.text} because the "
            "computer ran out of memory; choose a smaller batch size or fewer processes."
        )
    reason = wording.crash_reason(number)
    if reason:
        return (
            f"{label} crashed with signal {number} ({name}: {reason}) "
            f"{observation.phase.text}{location}."
        )
    return f"{label} was killed by signal {number} ({name}) {observation.phase.text}{location}."


def _exit_message(label: str, code: int, observation: RankObservation) -> str:
    lines = [line for line in observation.log_tail.splitlines() if line.strip()]
    if code != 0 and lines and any("Traceback (most recent call last)" in line for line in lines):
        return f"{label} ended {observation.phase.text}: {lines[-1].strip()}"
    if code == 0:
        return (
            f"{label} exited with code 0 {observation.phase.text}, before the training was over; "
            "look for sys.exit or os._exit in the model and the loader."
        )
    return f"{label} exited with code {code} {observation.phase.text}."


@dataclass(frozen=True)
class StackFrame:
    """A line of a stack dump of `faulthandler`."""

    file: str
    line: int
    function: str

    def describe(self, folder: str = "") -> str:
        """Return ``bks_model.py, line 12, in forward``, with the path relative to ``folder``."""
        path = PurePosixPath(self.file)
        is_inside = folder and path.is_relative_to(folder)
        path_label = path.relative_to(folder) if is_inside else path.name
        return f"{path_label}, line {self.line}, in {self.function}"


def threads(dump: str) -> list[list[StackFrame]]:
    """Return the stacks of a dump, innermost frame first, and first the thread with the signal."""
    stacks: list[list[StackFrame]] = []
    is_current = False
    for line in dump.splitlines():
        if line.startswith(("Thread 0x", "Current thread 0x", "Stack (most recent call first)")):
            is_current = not line.startswith("Thread")
            stacks.append([])
            if is_current:
                stacks.insert(0, stacks.pop())
        frame = _FRAME.match(line)
        if frame and stacks:
            stack = stacks[0] if is_current else stacks[-1]
            stack.append(StackFrame(frame["file"], int(frame["line"]), frame["function"]))
    return stacks


def innermost_user_line(dump: str, user_folders: Sequence[str]) -> str:
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
            if _OWN_CODE not in frame.file and not any(part in frame.file for part in _LIBRARIES):
                return frame.describe()
    return ""
