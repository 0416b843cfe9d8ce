"""Check that an sshd answers: a connection and its greeting, without a login or a key.

It is done for every node repeatedly, so it must cost almost nothing on either side.
"""

from __future__ import annotations

import socket
import time

from backend.ssh import errors as ssh_errors
from backend.ssh.interface import Unreachable
from backend.ssh.ssh_config import Hop

KNOCK_LIMIT_S = 3.0
_GREETING = b"SSH-"


def check_banner(hop: Hop, limit_s: float = KNOCK_LIMIT_S) -> None:
    """Wait for the greeting of an sshd.

    Raises:
        Unreachable: Nothing answers, or it is not an SSH server.
    """
    end = time.monotonic() + limit_s
    try:
        with socket.create_connection((hop.host, hop.port), limit_s) as line:
            greeting = b""
            while len(greeting) < len(_GREETING):
                line.settimeout(max(0.01, end - time.monotonic()))
                chunk = line.recv(len(_GREETING) - len(greeting))
                if not chunk:
                    break
                greeting += chunk
    except OSError as error:
        raise Unreachable(*ssh_errors.unreachable(error, hop, limit_s)) from error
    if greeting != _GREETING:
        raise Unreachable(*ssh_errors.no_greeting(hop))
