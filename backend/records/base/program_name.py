"""The command that starts the program, as shown in usage messages."""

from __future__ import annotations

import os
import shlex
import sys

NAME_VARIABLE = "RINGMASTER_CALLED"
"""A launcher sets it to its own name, because it starts ``main.py`` by another path."""


def _command_name() -> str:
    # Removed from the environment: child processes have another name.
    if name := os.environ.pop(NAME_VARIABLE, ""):
        return name
    # A supervisor or an agent writes messages for users, who start the program as documented.
    return "main.py" if os.path.basename(sys.argv[0]) == "main.py" else "./installers/run"


COMMAND = _command_name()


def host_key_removal_command(host: str, port: int) -> str:
    """Return the command that removes the accepted keys of an sshd."""
    return (
        f"{COMMAND} node forget {shlex.quote(host)}{'' if port in (0, 22) else f' --port {port}'}"
    )
