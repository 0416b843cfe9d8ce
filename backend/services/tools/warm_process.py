"""A process of the window that has PyTorch imported, and the tools that it forks.

The import of PyTorch takes seconds, at each preview and each inspection of a checkpoint. The
process starts with the first tool and ends after ten idle minutes, with the window, or before the
use of another environment. If the process cannot be used, a tool is started on its own.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from backend.base import process_signals
from backend.base.log import suppress

_SERVER = "backend.training.tools.fork_server"


class ForkedTool:
    """A tool that the warm process forked, with the interface of `subprocess.Popen`.

    Attributes:
        returncode, stdin, stdout: As in `subprocess.Popen`.
    """

    def __init__(self, connection: socket.socket, stdin: int, stdout: int) -> None:
        self._socket = connection
        self.pid: int | None = None
        """None before the fork."""
        self.returncode: int | None = None
        self.stdin = os.fdopen(stdin, "wb", buffering=0)
        self.stdout = os.fdopen(stdout, "rb", buffering=0)

    def poll(self) -> int | None:
        with suppress(subprocess.TimeoutExpired):
            self.wait(0.0)
        return self.returncode

    def wait(self, timeout: float) -> int:
        """Return the exit code.

        Raises:
            subprocess.TimeoutExpired: The tool has not ended.
        """
        deadline = time.monotonic() + timeout
        while self.returncode is None:
            poll = select.poll()
            poll.register(self._socket, select.POLLIN)
            if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
                raise subprocess.TimeoutExpired("tool", timeout)
            self._receive()
        return self.returncode

    def _receive(self) -> None:
        message = b""
        with suppress(OSError):
            message = self._socket.recv(100)
        for number in message.split():
            if self.pid is None:
                self.pid = int(number)
            else:
                self.returncode = int(number)
        if not message:  # The warm process has ended, and with it the tool.
            self.returncode = -signal.SIGKILL
        if self.returncode is not None:
            self._socket.close()

    def kill(self) -> None:
        """Let the warm process kill the tool; before the fork, give up the request."""
        if self.returncode is not None:
            return
        if self.pid is not None:
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_WR)
        else:
            self.returncode = -signal.SIGKILL
            self._socket.close()


class WarmProcess:
    """The process and its environment. Every call may run on any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self._key: tuple[object, ...] = ()

    def start(
        self,
        python: str,
        module: str,
        arguments: Sequence[str],
        folder: Path,
        environment: Mapping[str, str],
        own_variables: Sequence[str],
    ) -> ForkedTool | None:
        """Fork a tool; None if that is impossible.

        ``own_variables``: the names of variables that differ for each call.
        """
        common_variables = {
            name: value for name, value in environment.items() if name not in own_variables
        }
        key = (python, _install_times(python), tuple(sorted(common_variables.items())))
        request = {
            "module": module,
            "arguments": list(arguments),
            "folder": str(folder),
            "environment": dict(environment),
        }
        with self._lock, suppress(OSError, AttributeError):
            if self._process is None or self._process.poll() is not None or key != self._key:
                self._stop()
                self._launch(python, common_variables)
                self._key = key
            assert self._socket is not None
            return _send_request(self._socket, json.dumps(request).encode())
        return None

    def _launch(self, python: str, environment: Mapping[str, str]) -> None:
        self._socket, child_socket = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with child_socket:
            self._process = subprocess.Popen(
                [python, "-m", _SERVER],
                cwd="/",
                env=dict(environment),
                stdin=child_socket.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )

    def _stop(self) -> None:
        """End the process; its children end with their pipes."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        if self._process is not None:
            process_signals.kill(self._process)
            self._process = None

    def close(self) -> None:
        with self._lock:
            self._stop()


def _send_request(server: socket.socket, request: bytes) -> ForkedTool:
    own_socket, tool_socket = socket.socketpair()
    stdin, tool_stdout = os.pipe(), os.pipe()
    try:
        socket.send_fds(server, [request], [tool_socket.fileno(), stdin[0], tool_stdout[1]])
    except OSError:
        own_socket.close()
        os.close(stdin[1])
        os.close(tool_stdout[0])
        raise
    finally:
        tool_socket.close()
        os.close(stdin[0])
        os.close(tool_stdout[1])
    return ForkedTool(own_socket, stdin[1], tool_stdout[0])


def _install_times(python: str) -> tuple[int, ...]:
    """Return the times of the last installation of packages for a Python."""
    folders = Path(python).parents[1].glob("lib/python*/site-packages")
    return tuple(f.stat().st_mtime_ns for f in folders)
