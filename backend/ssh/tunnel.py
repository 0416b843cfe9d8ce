"""A port of this computer that leads to a port of a node, over a connection that is renewed."""

from __future__ import annotations

import select
import socket
import socketserver
import threading
from collections.abc import Callable
from typing import Any

from backend.base.errors import BackendError
from backend.base.log import suppress, swallowed
from backend.ssh.interface import Shell, Unreachable

_CHUNK_BYTES = 2**16
_LOCAL = "127.0.0.1"


class _Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True


class Tunnel:
    """Both ends are on 127.0.0.1. `close` may be called from any thread.

    Attributes:
        port: The port here: the same number as on the node, or another one if it is taken.
    """

    def __init__(self, connect: Callable[[], Shell], remote_port: int) -> None:
        """Connect, and try the port once.

        Raises:
            BackendError: The node cannot be reached, allows no tunnel, or nothing listens there.
        """
        self._connect, self._remote_port = connect, remote_port
        self._lock = threading.Lock()
        self._shell = connect()
        try:
            self._shell.open_port(remote_port).close()
            self._server = self._listen()
        except BaseException:
            self._shell.close()
            raise
        self.port = int(self._server.server_address[1])
        threading.Thread(target=self._server.serve_forever, name="tunnel", daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._shell.close()

    def _listen(self) -> _Server:
        tunnel = self

        class Handler(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                tunnel._serve(self.request)

        try:
            # A page that is still open in a browser then finds the session again.
            return _Server((_LOCAL, self._remote_port), Handler)
        except OSError as error:
            swallowed(error)
            return _Server((_LOCAL, 0), Handler)

    def _serve(self, local_socket: socket.socket) -> None:
        try:
            remote = self._open_port()
        except BackendError as error:
            # The browser shows that its connection was closed, and tries again.
            swallowed(error)
            return
        with remote, suppress(OSError):
            while _pass_on(local_socket, remote):
                pass

    def _open_port(self) -> Any:
        with self._lock:
            try:
                return self._shell.open_port(self._remote_port)
            except Unreachable as error:
                swallowed(error)
                self._shell.close()
                self._shell = self._connect()
                return self._shell.open_port(self._remote_port)


def _pass_on(local_socket: socket.socket, remote: Any) -> bool:
    """Pass what arrives to the other side; return False after an end."""
    readable, _, _ = select.select((local_socket, remote), (), ())
    for source, target in ((local_socket, remote), (remote, local_socket)):
        if source in readable:
            content = source.recv(_CHUNK_BYTES)
            if not content:
                return False
            target.sendall(content)
    return True
