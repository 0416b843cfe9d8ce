"""One agent per folder: the lock that says so, and who holds it.

The lock lies on this computer's own disk, because a lock on a share hangs when the share does, and
in ``/tmp``, because it is the one folder that sessions, services and cron see alike.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import stat
from pathlib import Path

from backend.base.errors import BackendError
from backend.node.system import process_identity
from backend.records.jobs.status import ProcessIdentity


class AgentLock:
    """Held from a successful `take` to the end of the process, and by what it forks."""

    def __init__(self, folder: Path) -> None:
        digest = hashlib.sha256(os.fsencode(folder)).hexdigest()[:16]
        self.path = Path("/tmp") / f"ringmaster-agent-{os.geteuid()}-{digest}.lock"
        self._descriptor = -1

    def take(self) -> bool:
        """Whether this process holds the lock now.

        Raises:
            BackendError: The lock file cannot be used.
        """
        self._descriptor = self._open()
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._descriptor)
            return False
        return True

    def leave(self) -> None:
        """Hold it no longer, before the end of the process."""
        os.close(self._descriptor)

    def sign(self) -> None:
        """Say that this process is the holder, for `holder`."""
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, json.dumps(process_identity.own().to_dict()).encode(), 0)

    def touch(self) -> None:
        """Keep the file from being tidied away; systemd does that after 10 days."""
        os.utime(self._descriptor)

    def holder(self) -> ProcessIdentity | None:
        """The agent that holds the lock, or None when no living one does."""
        try:
            found = ProcessIdentity.from_dict(json.loads(self.path.read_bytes()))
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return found if process_identity.is_alive(found) else None

    def _open(self) -> int:
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            descriptor = os.open(self.path, flags, 0o600)
        except OSError as error:
            raise BackendError(
                f"The agent's lock {self.path} cannot be opened: {error.strerror}.",
                f"Look whose it is, and remove it: rm {self.path}",
            ) from error
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid():
            os.close(descriptor)
            raise BackendError(
                f"The agent's lock {self.path} belongs to somebody else.",
                f"Ask its owner to remove it: rm {self.path}",
            )
        return descriptor
