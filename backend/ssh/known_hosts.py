"""The accepted sshd keys: one file of the program's own, in OpenSSH's format.

The user's ``~/.ssh/known_hosts`` is neither read nor changed: a key that was accepted for a
terminal was not accepted here, and a mistake here must not affect the terminal. Names are not
hashed. A line that is not ``names kind key`` (a comment, a marker, a hashed name) matches nothing
and stays as it is.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import threading
from dataclasses import dataclass
from pathlib import Path

from backend.base.errors import BackendError
from backend.records.base.atomic_files import replace_bytes
from backend.records.nodes.entry import HostKey

SSH_PORT = 22
_FILE_MODE, _FOLDER_MODE = 0o600, 0o700
_change_lock = threading.Lock()


def host_name(host: str, port: int) -> str:
    """Format a host as OpenSSH does: ``name``, or ``[name]:port`` if the port is not 22."""
    lower_host = host.lower()
    return lower_host if port == SSH_PORT else f"[{lower_host}]:{port}"


def fingerprint(blob: bytes) -> str:
    """Format a public key's fingerprint as ``ssh-keygen -l`` does."""
    digest = base64.b64encode(hashlib.sha256(blob).digest()).decode("ascii")
    return "SHA256:" + digest.rstrip("=")


def fingerprint_of(text: str) -> str:
    """Return the fingerprint of a known-hosts line without its name, "" of ""."""
    fields = text.split()
    return fingerprint(base64.b64decode(fields[1])) if len(fields) > 1 else ""


def host_key(host: str, port: int, kind: str, blob: bytes) -> HostKey:
    """Make the record of the public key ``blob`` that the sshd at ``host`` presented."""
    text = f"{kind} {base64.b64encode(blob).decode('ascii')}"
    return HostKey(host, port, kind, text, fingerprint(blob))


@dataclass(frozen=True)
class _Line:
    names: tuple[str, ...]
    kind: str
    blob: bytes
    key_text: str


class KnownHosts:
    """The file at ``path``, read at each call: another desktop process may change it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def keys(self, host: str, port: int = SSH_PORT) -> tuple[HostKey, ...]:
        """Return the accepted keys of one sshd, in the order in which they were accepted.

        Raises:
            BackendError: The file exists and cannot be read.
        """
        name = host_name(host, port)
        keys = (_parse_line(line) for line in self._lines())
        return tuple(
            host_key(host, port, entry.kind, entry.blob)
            for entry in keys
            if entry and name in entry.names
        )

    def all(self) -> tuple[HostKey, ...]:
        """Return all accepted keys, in the order in which they were accepted.

        Raises:
            BackendError: The file exists and cannot be read.
        """
        return tuple(
            host_key(*_address(name), entry.kind, entry.blob)
            for entry in map(_parse_line, self._lines())
            if entry is not None
            for name in entry.names
        )

    def add(self, key: HostKey) -> None:
        """Store a key. Call this only after the user accepted it.

        Raises:
            BackendError: The file cannot be written; nothing was changed.
        """
        with _change_lock:
            if any(known_key.text == key.text for known_key in self.keys(key.host, key.port)):
                return
            self._replace([*self._lines(), f"{host_name(key.host, key.port)} {key.text}"])

    def remove(self, host: str, port: int = SSH_PORT) -> int:
        """Remove one sshd by name; return the number of its keys. Other names on its lines stay.

        Raises:
            BackendError: The file cannot be read or written; nothing was changed.
        """
        name = host_name(host, port)
        with _change_lock:
            kept_lines, removed_count = [], 0
            for line in self._lines():
                entry = _parse_line(line)
                if entry is None or name not in entry.names:
                    kept_lines.append(line)
                    continue
                removed_count += 1
                other_names = [other_name for other_name in entry.names if other_name != name]
                if other_names:
                    kept_lines.append(f"{','.join(other_names)} {entry.key_text}")
            if removed_count:
                self._replace(kept_lines)
            return removed_count

    def _lines(self) -> list[str]:
        try:
            content = self.path.read_bytes()
        except FileNotFoundError:
            return []
        except OSError as error:
            raise self._file_error("read", error) from error
        # Not splitlines(): it also splits at characters that a comment may contain.
        return [line for line in content.decode("utf-8", "surrogateescape").split("\n") if line]

    def _replace(self, lines: list[str]) -> None:
        content = "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogateescape")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=_FOLDER_MODE)
            self.path.parent.chmod(_FOLDER_MODE)
            replace_bytes(self.path, content, _FILE_MODE)
        except OSError as error:
            raise self._file_error("written", error) from error

    def _file_error(self, action: str, error: OSError) -> BackendError:
        return BackendError(
            f"The file of accepted host keys {self.path} cannot be {action}: {error.strerror}.",
            "Make the user who runs Ringmaster its owner, or free some space on its disk.",
        )


def _parse_line(line: str) -> _Line | None:
    names, _, key_text = line.strip().partition(" ")
    if not names or names[0] in "#@|":
        return None
    fields = key_text.split()
    if len(fields) < 2:
        return None
    try:
        blob = base64.b64decode(fields[1], validate=True)
    except (binascii.Error, ValueError):  # OpenSSH skips such a line, too
        return None
    return _Line(tuple(names.lower().split(",")), fields[0], blob, key_text.strip())


def _address(name: str) -> tuple[str, int]:
    """Return host and port of what `host_name` wrote."""
    host, bracket, port = name.removeprefix("[").partition("]:")
    return (host, int(port)) if bracket and port.isdecimal() else (name, SSH_PORT)
