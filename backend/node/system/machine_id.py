"""Identity of this computer, which stays the same after reboots and network changes."""

from __future__ import annotations

import socket
from functools import lru_cache
from pathlib import Path

from backend.base.log import suppress

_MACHINE_ID = Path("/etc/machine-id")


@lru_cache(maxsize=1)
def machine() -> str:
    """Return systemd's id of this computer, or its name without one, as in most containers."""
    with suppress(OSError, UnicodeDecodeError):
        identifier = _MACHINE_ID.read_text(encoding="ascii").strip()
        if identifier.isalnum():
            return identifier
    return socket.gethostname()
