"""Ties between a process and its parent: set and released with prctl(2)."""

from __future__ import annotations

import ctypes
import os
import signal
from pathlib import Path

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
        os.kill(os.getpid(), number)


def _prctl(option: int, value: int) -> None:
    if _libc.prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl({option}) was refused")


def let_go(log: Path) -> None:
    """Release all resources of the parent: an SSH session ends only when its pipes are closed."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    words_to = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    for target, source in ((0, nothing), (1, words_to), (2, words_to)):
        os.dup2(source, target)
    os.close(nothing)
    os.close(words_to)
