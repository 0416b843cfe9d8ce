"""The interface of a connection to a node; `ssh.client` implements it.

Commands are argument lists: quoting for the remote shell happens once, inside. Every wait has a
limit, and nothing reads from the desktop's terminal.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from backend.base.errors import BackendError
from backend.node.system.wording import last_message
from backend.records.nodes.entry import HostKey
from backend.ssh.sftp import RemoteFile, SftpFiles


@dataclass(frozen=True)
class CommandResult:
    """The result of a command on a node. Invalid bytes in its output are replaced."""

    code: int
    out: str
    err: str

    @property
    def ok(self) -> bool:
        return self.code == 0

    @property
    def complaint(self) -> str:
        """The last line of its output, for a sentence."""
        return last_message(self.err or self.out) or f"it ended with code {self.code}"


class Machine(Protocol):
    """A node, or this computer: what needs no connection."""

    def run(
        self,
        argv: Sequence[str],
        *,
        limit_s: float = 60.0,
        on_line: Callable[[str], None] | None = None,
    ) -> CommandResult:
        """Run a command and wait for its end.

        Raises:
            Unreachable: The connection broke, or it did not end within ``limit_s``.
        """

    def write(self, path: str, content: bytes, mode: int = 0o644) -> None:
        """Replace a small file in one step: temporary name, then rename."""

    def read(self, path: str, offset: int = 0, limit_bytes: int = 4_000_000) -> bytes:
        """Read at most ``limit_bytes`` from ``offset``; FileNotFoundError if there is no file."""

    def listing(self, path: str) -> tuple[RemoteFile, ...]:
        """List a folder; FileNotFoundError if there is no such folder."""

    def send(
        self, source: Path, path: str, on_bytes: Callable[[int, int], None] | None = None
    ) -> None:
        """Send a file under a temporary name, then rename it; ``on_bytes(done, total)``."""


class Shell(Machine, Protocol):
    """One open connection to one node. Every call may raise `Unreachable`."""

    def run(
        self,
        argv: Sequence[str],
        *,
        input: bytes = b"",
        limit_s: float = 60.0,
        on_line: Callable[[str], None] | None = None,
    ) -> CommandResult:
        """Run a command, with ``input`` for it to read, and wait for its end."""

    def fetch(
        self, path: str, target: Path, on_bytes: Callable[[int, int], None] | None = None
    ) -> None:
        """Fetch a file, completely or not at all."""

    def files(self) -> AbstractContextManager[SftpFiles]:
        """Open file access for several operations."""

    def open_port(self, port: int) -> Any:
        """Connect to a port of 127.0.0.1 on the node; return what is used like a socket."""

    def close(self) -> None: ...


class Unreachable(BackendError):
    """The node did not answer, or stopped answering."""


class LoginRefused(BackendError):
    """The node answered and refused the login."""


class PassphraseNeeded(LoginRefused):
    """The key ``identity`` is locked."""

    def __init__(self, message: str, remedy: str, identity: str) -> None:
        super().__init__(message, remedy)
        self.identity = identity


class HostKeyUnknown(BackendError):
    """A key that was never accepted here; only the user can accept it."""

    def __init__(self, message: str, remedy: str, key: HostKey) -> None:
        super().__init__(message, remedy)
        self.key = key


class HostKeyChanged(BackendError):
    """Another key than the accepted one: the connection is refused until that one is removed."""

    def __init__(self, message: str, remedy: str, key: HostKey, accepted_fingerprint: str) -> None:
        super().__init__(message, remedy)
        self.key = key
        self.accepted_fingerprint = accepted_fingerprint
        """Fingerprint of the key that was accepted."""
