"""Find and end every process of a run on this computer.

mpirun ends its ranks, but a child that called ``setsid`` outlives them. Two properties identify
such a child: it carries the run's tag in its environment, and it becomes a child of the guard above
it (a child subreaper) when its own parent ends.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterable

from backend.base.log import suppress
from backend.node.system import process_identity
from backend.records.base.layout import RUN_VARIABLE
from backend.records.jobs.status import ProcessIdentity

_POLL_S = 0.02
_KILL_S = 5.0
"""A killed process ends within milliseconds, or hangs in a share and stays."""
_EXEC_S = 1.0
"""The longest wait for a program that is being loaded: 25 ms beside six busy processes on two
cores. One that is loaded from a share that hangs never starts."""


def tagged(tag: str) -> tuple[ProcessIdentity, ...]:
    """Return every living process here, except this one, that was started with the tag of a run."""
    tag_entry = f"{RUN_VARIABLE}={tag}".encode()
    processes = (
        process_identity.process(pid)
        for pid in pids()
        if pid != os.getpid() and tag_entry in environment(pid)
    )
    return tuple(process for process in processes if process is not None)


def run_tag_of(pid: int) -> str:
    """Return the tag that a process carries, or ""."""
    name = f"{RUN_VARIABLE}=".encode()
    tags = (entry[len(name) :] for entry in environment(pid) if entry.startswith(name))
    return next(tags, b"").decode("utf-8", "replace")


def environment(pid: int) -> list[bytes]:
    """Return the variables that a process here was started with.

    Nothing is returned for a process that has ended or belongs to another user. A process that is
    in ``execve`` has no environment for a moment: one of five reads right after
    `subprocess.Popen` found none. It is waited for, so that no process of a run is overlooked.
    """
    deadline = time.monotonic() + _EXEC_S
    while True:
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                content = file.read()
        except OSError:
            # It has ended, or is another user's.
            return []
        if content or not _is_loading(pid) or time.monotonic() > deadline:
            return content.split(b"\0")
        time.sleep(0.001)


def _is_loading(pid: int) -> bool:
    """Return whether a process that had no environment just now has got one, or is about to.

    A zombie and a kernel thread have no memory, and no environment.
    """
    fields = process_identity.stat(pid)
    if fields is None:
        return False
    memory, start, end = int(fields[20]), int(fields[47]), int(fields[48])
    return memory > 0 and (end == 0 or end > start)


def descendants(pid: int) -> tuple[ProcessIdentity, ...]:
    """Return every living process below ``pid``, the nearest first."""
    children: dict[int, list[int]] = {}
    for child in pids():
        fields = process_identity.stat(child)
        if fields is not None:
            children.setdefault(int(fields[1]), []).append(child)
    processes: list[ProcessIdentity] = []
    pending = list(children.get(pid, ()))
    while pending:
        child = pending.pop(0)
        pending += children.get(child, ())
        process = process_identity.process(child)
        if process is not None:
            processes.append(process)
    return tuple(processes)


def end(
    find: Callable[[], Iterable[ProcessIdentity]],
    grace_s: float = 2.0,
    on_round: Callable[[], object] = lambda: None,
) -> tuple[int, ...]:
    """Send TERM to what ``find`` finds, KILL after the grace, and repeat until nothing is found.

    ``on_round`` is called between two rounds (a subreaper collects its dead there). Returns the
    pids that are left: none, or processes that cannot die.
    """
    started_s = time.monotonic()
    terminated_processes: set[ProcessIdentity] = set()
    while True:
        on_round()
        remaining_processes = tuple(find())
        now_s = time.monotonic()
        if not remaining_processes or now_s > started_s + grace_s + _KILL_S:
            return tuple(process.pid for process in remaining_processes)
        for process in remaining_processes:
            if now_s >= started_s + grace_s:
                process_identity.send_signal(process, signal.SIGKILL)
            elif process not in terminated_processes:
                terminated_processes.add(process)
                process_identity.send_signal(process, signal.SIGTERM)
        time.sleep(_POLL_S)


def end_tagged(
    tag: str, grace_s: float = 2.0, on_round: Callable[[], object] = lambda: None
) -> tuple[int, ...]:
    """End every process of a run here; returns the pids that are left."""
    return end(lambda: tagged(tag), grace_s, on_round)


def reap() -> dict[int, int]:
    """Collect every dead child: pid -> wait status."""
    dead: dict[int, int] = {}
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return dead
        if pid == 0:
            return dead
        dead[pid] = status


def pids() -> list[int]:
    """Return the pid of every process here; none on systems without ``/proc``."""
    with suppress(FileNotFoundError):
        return [int(name) for name in os.listdir("/proc") if name.isdecimal()]
    return []
