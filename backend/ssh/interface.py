"""What the rest of the program wants of a connection to a node. `ssh` has the real one.

Commands are argument lists: quoting for the far shell happens once, inside. Nothing here waits for
ever, and nothing reads from the desktop's terminal.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from backend.base.errors import BackendError
from backend.node.system.wording import last_said
from backend.records.nodes.entry import HostKey

if TYPE_CHECKING:
    from backend.ssh.sftp import SftpFiles


@dataclass(frozen=True)
class CommandResult:
    """How a command on a node ended. Output is decoded with replacement: it may hold anything."""

    code: int
    out: str
    err: str

    @property
    def ok(self) -> bool:
        return self.code == 0

    @property
    def complaint(self) -> str:
        """The last that it said, for a sentence."""
        return last_said(self.err or self.out) or f"it ended with code {self.code}"


@dataclass(frozen=True)
class RemoteFile:
    """What the far side tells of a file."""

    path: str
    bytes: int
    is_folder: bool
    is_plain: bool = True
    """Neither a folder nor a pipe or a device, which may never end."""
    mtime_s: int = 0
    """By the clock of the disk; SFTP counts whole seconds."""

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]


class Shell(Protocol):
    """One open connection to one node. Every call may raise `Unreachable`."""

    def run(
        self,
        argv: Sequence[str],
        *,
        input: bytes = b"",
        limit_s: float = 60.0,
        on_line: Callable[[str], None] | None = None,
    ) -> CommandResult:
        """Execute, wait, and bring back how it ended.

        Raises:
            Unreachable: The connection broke, or there was no end within ``limit_s``.
        """

    def write(self, path: str, content: bytes, mode: int = 0o644) -> None:
        """Replace a small file whole: temporary name, then rename."""

    def read(self, path: str, offset: int = 0, limit_bytes: int = 4_000_000) -> bytes:
        """At most ``limit_bytes`` from ``offset``; FileNotFoundError when there is no such file."""

    def listing(self, path: str) -> tuple[RemoteFile, ...]:
        """What a folder holds; FileNotFoundError when there is no such folder."""

    def send(
        self, source: Path, path: str, on_bytes: Callable[[int, int], None] | None = None
    ) -> None:
        """Copy a file there under a temporary name, then rename; ``on_bytes(done, total)``."""

    def fetch(
        self, path: str, target: Path, on_bytes: Callable[[int, int], None] | None = None
    ) -> None:
        """Copy a file from there, whole or not at all."""

    def files(self) -> AbstractContextManager[SftpFiles]:
        """Everything else that can be done with files there, many steps in one go."""

    def close(self) -> None: ...


class Unreachable(BackendError):
    """The node did not answer, or no longer does."""


class LoginRefused(BackendError):
    """The node answered and did not let us in."""


class PassphraseNeeded(LoginRefused):
    """The key ``identity`` is locked."""

    def __init__(self, sentence: str, remedy: str, identity: str) -> None:
        super().__init__(sentence, remedy)
        self.identity = identity


class HostKeyUnknown(BackendError):
    """A key that was never seen here; only a person can accept it."""

    def __init__(self, sentence: str, remedy: str, key: HostKey) -> None:
        super().__init__(sentence, remedy)
        self.key = key


class HostKeyChanged(BackendError):
    """Another key than the accepted one: the connection is refused until that one is removed."""

    def __init__(self, sentence: str, remedy: str, key: HostKey, accepted: str) -> None:
        super().__init__(sentence, remedy)
        self.key = key
        self.accepted = accepted
        """Fingerprint of the key that was accepted."""
