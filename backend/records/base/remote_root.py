"""A data root on a machine that this desktop reaches over SSH: its address, and its local mirror.

Standard library only and Python 3.9: the records are.
"""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass, field
from urllib.parse import quote, unquote

from backend.records.base.schema import KEY

SCHEME = "ssh://"
_PATTERN = re.compile(
    r"ssh://(?:(?P<user>[^@/:]+)@)?"
    r"(?:\[(?P<six>[0-9A-Fa-f:.%]+)\]|(?P<host>[^@/:\[\]\s]+))"
    r"(?::(?P<port>[0-9]{1,5}))?"
    r"(?P<path>/.*)"
)
_LARGEST_PORT = 65535


@dataclass(frozen=True)
class RemoteRoot:
    """``ssh://[user@]HOST[:port]/absolute/path``; empty parts come from ``~/.ssh/config``."""

    host: str
    path: str
    user: str = ""
    port: int = 0

    @classmethod
    def parse(cls, text: str) -> RemoteRoot:
        """Parse an address.

        Raises:
            ValueError: It is not such an address; the message is a sentence.
        """
        match = _PATTERN.fullmatch(text)
        if match is None:
            raise ValueError(
                f"“{text}” should be ssh://[USER@]HOST[:PORT]/ABSOLUTE/PATH, without a password"
            )
        port = int(match["port"] or 0)
        if match["port"] and not 0 < port <= _LARGEST_PORT:
            raise ValueError(f"“{match['port']}” should be a port, 1 to {_LARGEST_PORT}")
        path = posixpath.normpath("/" + unquote(match["path"]).lstrip("/"))
        return cls(match["six"] or match["host"], path, unquote(match["user"] or ""), port)

    @property
    def label(self) -> str:
        """Return the address in scp's form: ``HOST:/path``."""
        return f"{self.host}:{self.path}"

    def __str__(self) -> str:
        return SCHEME + self._authority + quote(self.path)

    def url(self, path: str) -> str:
        """Return an address of a remote ``path`` that file managers open."""
        return f"sftp://{self._authority}{quote(path)}"

    @property
    def _authority(self) -> str:
        user = f"{quote(self.user)}@" if self.user else ""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return user + host + (f":{self.port}" if self.port else "")


@dataclass(frozen=True)
class MirrorUsage:
    """The size of one mirror.

    ``folder`` is its local folder, ``address`` the data root as ``--data-root`` takes it.
    ``refetchable_bytes``, a part of ``bytes``, are checkpoints and files of versions, which are
    fetched again when needed.
    """

    folder: str = field(metadata={KEY: "place"})
    address: str
    bytes: int
    refetchable_bytes: int = field(metadata={KEY: "fetched_bytes"})
