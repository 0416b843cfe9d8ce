"""Identity of this computer and of its processes: host, boot, pid and start time together."""

from __future__ import annotations

import os
import signal
import socket
from functools import lru_cache
from pathlib import Path

from backend.base import process_signals
from backend.base.log import suppress
from backend.records.jobs.status import ProcessIdentity

_PROC = Path("/proc")


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
