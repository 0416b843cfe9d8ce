"""Owner, command and age of a process."""

from __future__ import annotations

import os
import pwd
import time
from dataclasses import dataclass

from backend.base.log import suppress
from backend.node.system.process_cleanup import run_tag_of
from backend.records.jobs.status import ProcessIdentity

_COMMAND_LENGTH = 200
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Owner:
    """Properties that stay the same while a process lives. "" means that they may not be read."""

    user: str = ""
    command: str = ""
    run_tag: str = ""


def owner_of(pid: int) -> Owner:
    """Return the owner of a living process; a pid of another container has none here."""
    user, command = "", ""
    with suppress(OSError):
        uid = os.stat(f"/proc/{pid}").st_uid
        try:
            user = pwd.getpwuid(uid).pw_name
        except KeyError:  # a user without an entry in the password file
            user = str(uid)
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            raw = file.read(4 * _COMMAND_LENGTH)
        command = raw.replace(b"\0", b" ").decode("utf-8", "replace").strip()[:_COMMAND_LENGTH]
    return Owner(user, command, run_tag_of(pid))


def age_s(process: ProcessIdentity) -> float:
    """Return the seconds since the start of a process of this boot."""
    return max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - process.start_ticks / _TICKS_PER_S)
