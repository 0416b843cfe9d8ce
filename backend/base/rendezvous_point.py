"""The point at which the ranks of a run meet: a port on its first node, and a secret of the run.

The supervisor makes both. mpirun hands them to the ranks in their environment, so the secret is in
no argument, log or file, and only the account of the ranks can read it.
"""

from __future__ import annotations

import os
import secrets
import socket

PORT_VARIABLE = "MASTER_PORT"
"""The name that PyTorch's own programs expect (``env://``)."""
SECRET_VARIABLE = "RINGMASTER_RUN_SECRET"
"""In the environment of the ranks until they have met; see `take_secret`."""


class RendezvousPoint:
    """A port that stays reserved for this account's processes until `release`."""

    def __init__(self, host: str) -> None:
        """Reserve a port for rank 0, which listens on ``host``."""
        self._reservation = _bound_socket(host, 0, every_interface=True)
        port = self._reservation.getsockname()[1]
        self.variables = {PORT_VARIABLE: str(port), SECRET_VARIABLE: secrets.token_hex(32)}

    def release(self) -> None:
        """Let any program listen on the port, also one that does not share it."""
        self._reservation.close()


def listen(host: str, port: int = 0) -> socket.socket:
    """Listen on one address of this computer only, also on a port that is reserved.

    Raises:
        OSError: The address is not of this computer, or another program listens on the port.
    """
    listener = _bound_socket(host, port, every_interface=False)
    listener.listen(128)
    return listener


def take_secret() -> bytes:
    """Return the run's secret, and hide it from the programs that this process starts.

    Raises:
        KeyError: The variable is not set.
        ValueError: It is not a secret.
    """
    return bytes.fromhex(os.environ.pop(SECRET_VARIABLE))


def _bound_socket(host: str, port: int, *, every_interface: bool) -> socket.socket:
    family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        # The kernel lets sockets share a port if all have this option and are of one account.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listener.bind(("", port) if every_interface else address)
    except OSError:
        listener.close()
        raise
    return listener
