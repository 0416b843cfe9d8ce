"""Which computer this is, in words that stay the same over reboots and new networks."""

from __future__ import annotations

import socket
from functools import lru_cache
from pathlib import Path

from backend.base.log import suppress

_MACHINE_ID = Path("/etc/machine-id")


@lru_cache(maxsize=1)
def machine() -> str:
    """systemd's id of this computer; its name where there is none, as in most containers."""
    with suppress(OSError, UnicodeDecodeError):
        found = _MACHINE_ID.read_text(encoding="ascii").strip()
        if found.isalnum():
            return found
    return socket.gethostname()
