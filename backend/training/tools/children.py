"""Processes that user code leaves in a tool: adopted by it, and ended with it."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Collection

import psutil

from backend.base import process_signals
from backend.base.log import suppress

_LIMIT_S = 3.0
"""A killed process ends within milliseconds, or hangs in a share and stays."""


def adopt_descendants() -> None:
    """Make descendants whose parent ends children of this process, where the system can."""
    with suppress(OSError, AttributeError):
        process_signals.become_subreaper()


def kill_all(spared_pids: Collection[int] = ()) -> None:
    """Kill the children of this process, and those of theirs that it adopts by that.

    ``spared_pids``: children to leave alone.
    """
    deadline = time.monotonic() + _LIMIT_S
    was_empty = False
    while time.monotonic() < deadline:
        children = [child for child in psutil.Process().children() if child.pid not in spared_pids]
        # The processes are read one after another: one whose parent ends meanwhile is seen as a
        # child of neither, and only the next time as one of this process.
        if not children and was_empty:
            return
        was_empty = not children
        for child in children:
            process_signals.send(child.pid, child.is_running, signal.SIGKILL)
            with suppress(ChildProcessError):
                os.waitpid(child.pid, os.WNOHANG)
        time.sleep(0.001)
