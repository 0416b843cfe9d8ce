"""Lock for one agent per folder, with the identity of its holder.

The lock is on this computer's own disk, because a lock on a share hangs when the share does, and in
``/tmp``, because it is the one folder that sessions, services and cron all see.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import stat
from pathlib import Path

from backend.base.errors import BackendError
from backend.base.log import swallowed
from backend.node.system import process_identity
from backend.records.jobs.status import ProcessIdentity


class AgentLock:
    """Held from a successful `take` to the end of the process, also by its forked children."""

    def __init__(self, folder: Path) -> None:
        digest = hashlib.sha256(os.fsencode(folder)).hexdigest()[:16]
        self.path = Path("/tmp") / f"ringmaster-agent-{os.geteuid()}-{digest}.lock"
        self._descriptor = -1

    def take(self) -> bool:
        """Take the lock; return whether this process holds it now.

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
        """Release the lock before the end of the process."""
        os.close(self._descriptor)

    def sign(self, pid: int) -> None:
        """Record which process is the holder, for `holder`: this one, or its child."""
        holder = process_identity.process(pid)
        if holder is not None:
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, json.dumps(holder.to_dict()).encode(), 0)

    def touch(self) -> None:
        """Keep the file from being deleted; systemd does that after 10 days."""
        os.utime(self._descriptor)

    def holder(self) -> ProcessIdentity | None:
        """Return the agent that holds the lock, or None if no living one does."""
        try:
            found = ProcessIdentity.from_dict(json.loads(self.path.read_bytes()))
        except (OSError, ValueError) as error:
            swallowed(error)
            return None
        return found if process_identity.is_alive(found) else None

    def _open(self) -> int:
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            descriptor = os.open(self.path, flags, 0o600)
        except OSError as error:
            raise BackendError(
                f"The agent's lock {self.path} cannot be opened: {error.strerror}.",
                f"Find its owner (ls -l {self.path}), then remove it: rm {self.path}",
            ) from error
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid():
            os.close(descriptor)
            raise BackendError(
                f"The agent's lock {self.path} belongs to another user.",
                f"Have its owner remove it: rm {self.path}",
            )
        return descriptor
