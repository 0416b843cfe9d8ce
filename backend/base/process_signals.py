"""Every signal that the program sends to a process. No other module sends one.

Pids repeat: six ranks on three nodes had pids from 262 to 310, and after a reboot they count from 1
again. So a signal goes through a pidfd that was opened *before* the process was identified: from
then on the kernel guarantees that it is the same one. A child needs no pidfd, because its pid is
not given away before it is collected.

A process may also be tied to its parent, with prctl(2).

Standard library only and Python 3.9: the nodes import this.
"""

from __future__ import annotations

import ctypes
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


_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36

_libc = ctypes.CDLL(None, use_errno=True)


def become_subreaper() -> None:
    """Make descendants whose parent ends children of this process instead of init's."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent(number: signal.Signals, parent: int) -> None:
    """Request a signal for when the parent ends; it comes at once if the parent has ended already.

    The kernel means the *thread* that forked: call this only in children of a main thread.
    """
    _prctl(_PR_SET_PDEATHSIG, number)
    if os.getppid() != parent:
        signal.raise_signal(number)


def _prctl(option: int, value: int) -> None:
    if _libc.prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl({option}) was refused")
