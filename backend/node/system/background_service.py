"""Processes that run on by themselves: an agent or the queue keeper, one of each for a folder.

The lock is on this computer's own disk, because a lock on a share hangs when the share does, and in
``/tmp``, because it is the one folder that sessions, services and cron all see.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import json
import os
import signal
import stat
import time
from collections.abc import Sequence
from pathlib import Path

from backend.base.errors import BackendError
from backend.base.log import swallowed
from backend.node.system import process_identity
from backend.records.jobs.status import ProcessIdentity

_END_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_TOUCH_EVERY_S = 3600.0


def parse(
    parser: argparse.ArgumentParser, arguments: Sequence[str] | None, interval_s: float
) -> argparse.Namespace:
    """Read a command line of the parser's options and of those that every service has."""
    parser.add_argument("--data-root", type=Path, required=True)
    parser.add_argument(
        "--interval", type=float, default=interval_s, help="seconds between two rounds"
    )
    parser.add_argument(
        "--detach", action="store_true", help="return at once and continue in the background"
    )
    options = parser.parse_args(arguments)
    if not 0.1 <= options.interval <= 60:
        parser.error("--interval must be between 0.1 and 60 seconds")
    return options


def detach(log: Path) -> int:
    """Continue in a child that depends on nothing of its starter; return its pid there, 0 in it."""
    if child := os.fork():
        return child
    os.setsid()
    os.chdir("/")
    # An SSH session ends only when its pipes are closed.
    null_input = os.open(os.devnull, os.O_RDONLY)
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    for target, source in ((0, null_input), (1, output), (2, output)):
        os.dup2(source, target)
    os.close(null_input)
    os.close(output)
    return 0


class ServiceLock:
    """Held from a successful `take` to the end of the process, also by its forked children."""

    def __init__(self, folder: Path) -> None:
        digest = hashlib.sha256(os.fsencode(folder)).hexdigest()[:16]
        self.path = Path("/tmp") / f"ringmaster-agent-{os.geteuid()}-{digest}.lock"
        self._descriptor = -1
        self._next_touch_s = 0.0

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

    def release(self) -> None:
        """Release the lock before the end of the process."""
        os.close(self._descriptor)

    def become_service(self, is_detached: bool, log: Path) -> bool:
        """Continue as the service, from here on or detached; return False in its starter."""
        own_pid = os.getpid()
        service_pid = detach(log) if is_detached else own_pid
        if service_pid:
            # Before the starter ends: its caller may look for the service at once, to end it.
            self.record_holder(service_pid)
        signal.pthread_sigmask(signal.SIG_BLOCK, _END_SIGNALS)
        return service_pid in (0, own_pid)

    def wait(self, seconds: float) -> bool:
        """Wait for the next round; return whether a signal ends the service instead."""
        now_s = time.monotonic()
        if now_s >= self._next_touch_s:
            # systemd deletes a file that was not used for 10 days.
            self._next_touch_s = now_s + _TOUCH_EVERY_S
            os.utime(self._descriptor)
        return signal.sigtimedwait(_END_SIGNALS, seconds) is not None

    def record_holder(self, pid: int) -> None:
        """Record which process is the holder, for `holder`: this one, or its child."""
        holder = process_identity.process(pid)
        if holder is not None:
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, json.dumps(holder.to_dict()).encode(), 0)

    def holder(self) -> ProcessIdentity | None:
        """Return the process that holds the lock, or None if no living one does."""
        try:
            holder = ProcessIdentity.from_dict(json.loads(self.path.read_bytes()))
        except (OSError, ValueError) as error:
            swallowed(error)
            return None
        return holder if process_identity.is_alive(holder) else None

    def _open(self) -> int:
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            descriptor = os.open(self.path, flags, 0o600)
        except OSError as error:
            raise BackendError(
                f"The agent's lock {self.path} cannot be opened: {error.strerror}.",
                f"Find its owner (ls -l {self.path}), then remove it: rm {self.path}",
            ) from error
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
            os.close(descriptor)
            raise BackendError(
                f"The agent's lock {self.path} belongs to another user.",
                f"Have its owner remove it: rm {self.path}",
            )
        return descriptor
