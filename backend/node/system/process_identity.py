"""Identity of this computer and of its processes, with their owners, commands and ages."""

from __future__ import annotations

import os
import pwd
import signal
import socket
import time
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from backend.base import process_signals
from backend.base.log import suppress
from backend.records.base.layout import RUN_VARIABLE
from backend.records.jobs.status import ProcessIdentity

_PROC = Path("/proc")
_EXEC_S = 10.0
"""The longest wait for a program that is being loaded: 25 ms beside six busy processes on two
cores, once more than 1 s beside ten. One that is loaded from a share that hangs never starts."""


@lru_cache(maxsize=1)
def boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def stat(pid: int) -> list[bytes] | None:
    """Return the fields of a process's ``stat`` from its state on, or None if there is none.

    Field n of proc(5) has index n - 3.
    """
    try:
        content = (_PROC / str(pid) / "stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The name is in brackets and may itself contain blanks and brackets.
    return content[content.rindex(b")") + 2 :].split()


def process(pid: int) -> ProcessIdentity | None:
    """Return the living process with this pid here, or None. A zombie is not alive."""
    fields = stat(pid)
    if fields is None or fields[0] in (b"Z", b"X"):
        return None
    return ProcessIdentity(socket.gethostname(), boot_id(), pid, int(fields[19]))


def own_process() -> ProcessIdentity:
    identity = process(os.getpid())
    assert identity is not None
    return identity


def is_here(identity: ProcessIdentity) -> bool:
    """Return whether this computer can determine if the process is alive.

    A laptop's name changes with its network while its boot id stays; a reboot changes the boot id
    while the name stays. Either one identifies the machine.
    """
    return identity.host == socket.gethostname() or identity.boot_id == boot_id()


def is_alive(identity: ProcessIdentity) -> bool:
    """Return whether exactly this process runs here now."""
    if identity.boot_id != boot_id():
        return False
    current = process(identity.pid)
    return current is not None and current.start_ticks == identity.start_ticks


def send_signal(identity: ProcessIdentity, number: signal.Signals) -> bool:
    """Signal exactly this process; return False if it has ended (or another one has its pid)."""
    return process_signals.send(identity.pid, lambda: is_alive(identity), number)


_MACHINE_ID = Path("/etc/machine-id")


@lru_cache(maxsize=1)
def machine() -> str:
    """Return systemd's id of this computer, or its name without one, as in most containers."""
    with suppress(OSError, UnicodeDecodeError):
        identifier = _MACHINE_ID.read_text(encoding="ascii").strip()
        if identifier.isalnum():
            return identifier
    return socket.gethostname()


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

    A zombie and a kernel thread have no memory, and no environment. The kernel sets the beginning
    of the code last; before, the environment has for a moment no length, as that of a program
    without variables (``create_elf_tables`` in Linux' ``fs/binfmt_elf.c``).
    """
    fields = stat(pid)
    if fields is None:
        return False
    memory, code_start, start, end = (int(fields[index]) for index in (20, 23, 47, 48))
    return memory > 0 and (code_start == 0 or end > start)


def pids() -> list[int]:
    """Return the pid of every process here; none on systems without ``/proc``."""
    with suppress(FileNotFoundError):
        return [int(name) for name in os.listdir("/proc") if name.isdecimal()]
    return []


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
