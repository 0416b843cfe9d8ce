"""Every signal that the program sends to a process. No other module sends one.

Pids repeat: six ranks on three nodes had pids from 262 to 310, and after a reboot they count from 1
again. So a signal goes through a pidfd that was opened *before* the process was identified: from
then on the kernel guarantees that it is the same one. A child needs no pidfd, because its pid is
not given away before it is collected.

Standard library only and Python 3.9: the nodes import this.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable
from typing import Any, Protocol

from backend.base.log import suppress

_GONE_S = 5.0
"""A killed process ends within milliseconds, or hangs in a share and stays."""


class Child(Protocol):
    """A process that nothing but its handle collects, like `subprocess.Popen`."""

    def kill(self) -> None: ...
    def wait(self, timeout: float) -> int: ...


def send(pid: int, is_meant: Callable[[], bool], number: signal.Signals) -> bool:
    """Signal the process with this pid if it is the one meant; return False if it is not.

    ``is_meant`` identifies it by more than its pid.
    """
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return False
    except (AttributeError, OSError):
        # Before Linux 5.3, not Linux, or forbidden by a sandbox: identify, then signal at once.
        return is_meant() and _is_sent(os.kill, pid, number)
    try:
        return is_meant() and _is_sent(signal.pidfd_send_signal, descriptor, number)
    finally:
        os.close(descriptor)


def _is_sent(send_function: Callable[[int, int], None], process: int, number: int) -> bool:
    try:
        send_function(process, number)
    except ProcessLookupError:
        return False
    return True


def kill(child: Child) -> None:
    """Kill a child of this process, and collect it."""
    child.kill()
    with suppress(subprocess.TimeoutExpired):
        child.wait(_GONE_S)


def end(child: subprocess.Popen[Any], patience_s: float) -> None:
    """Ask a child of this process to end, and kill it if it does not."""
    child.terminate()
    try:
        child.wait(patience_s)
    except subprocess.TimeoutExpired:
        kill(child)
