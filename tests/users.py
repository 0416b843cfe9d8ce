"""Acts of several users of one data root, each in a process of its own.

A test run that is not root has one user; there each user is that one, and modes still count.
"""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class User:
    name: str
    uid: int
    groups: tuple[int, ...]
    """The first one is that of its new files."""


IS_ROOT = os.geteuid() == 0
GROUP = 4200 if IS_ROOT else os.getegid()


def _user(name: str, uid: int, *groups: int) -> User:
    return User(name, uid, groups) if IS_ROOT else User(name, os.geteuid(), (GROUP,))


OWNER = _user("owner", 4101, 4101, GROUP)
MEMBER = _user("member", 4102, 4102, GROUP)
"""Another user of the owner's group."""
OUTSIDER = _user("outsider", 4103, 4103)
ROOT = _user("root", 0, 0)


def give_root(path: Path, user: User, mode: int) -> None:
    """Make ``path`` a data root of ``user`` and its group."""
    if IS_ROOT:
        os.chown(path, user.uid, GROUP)
    path.chmod(mode)


def act_as(user: User, umask: int, folder: Path, action: Callable[[], object]) -> None:
    """Call ``act`` in a process of ``user`` whose working folder is ``folder``.

    Raises:
        AssertionError: It raised an exception.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            # First: the folders above it may be closed to the user.
            os.chdir(folder)
            if IS_ROOT:
                os.setgroups(user.groups)
                os.setgid(user.groups[0])
                os.setuid(user.uid)
            os.umask(umask)
            action()
        except BaseException:  # noqa: BLE001 - a forked child must never return
            os.write(writing, traceback.format_exc().encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        error = pipe.read().decode()
    os.waitpid(child, 0)
    assert not error, error
