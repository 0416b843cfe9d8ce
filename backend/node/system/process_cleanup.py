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

from backend.node.system import process_identity
from backend.records.base.layout import RUN_VARIABLE
from backend.records.jobs.status import ProcessIdentity

_POLL_S = 0.02
_KILL_S = 5.0
"""A killed process ends within milliseconds, or hangs in a share and stays."""


def tagged(tag: str) -> tuple[ProcessIdentity, ...]:
    """Return every living process here, except this one, that was started with the tag of a run."""
    tag_entry = f"{RUN_VARIABLE}={tag}".encode()
    processes = (
        process_identity.process(pid)
        for pid in process_identity.pids()
        if pid != os.getpid() and tag_entry in process_identity.environment(pid)
    )
    return tuple(process for process in processes if process is not None)


def descendants(pid: int) -> tuple[ProcessIdentity, ...]:
    """Return every living process below ``pid``, the nearest first."""
    children: dict[int, list[int]] = {}
    for child in process_identity.pids():
        fields = process_identity.stat(child)
        if fields is not None:
            children.setdefault(int(fields[1]), []).append(child)
    processes: list[ProcessIdentity] = []
    pending_pids = list(children.get(pid, ()))
    while pending_pids:
        child = pending_pids.pop(0)
        pending_pids += children.get(child, ())
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
    wait_statuses: dict[int, int] = {}
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return wait_statuses
        if pid == 0:
            return wait_statuses
        wait_statuses[pid] = status
