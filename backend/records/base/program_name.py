"""What a person calls to start the program, as usage and errors of usage say it."""

from __future__ import annotations

import os
import shlex

CALLED = "RINGMASTER_CALLED"
"""In it a launcher tells as what it was called, because it starts ``main.py`` by another path."""


def _called() -> str:
    # Taken out: what is started from here was called by nobody.
    return os.environ.pop(CALLED, "") or "main.py"


COMMAND = _called()


def to_remove(host: str, port: int) -> str:
    """The command by which the keys of an sshd are accepted no longer."""
    return (
        f"{COMMAND} node forget {shlex.quote(host)}{'' if port in (0, 22) else f' --port {port}'}"
    )
