"""End TCP connections whose other end keeps a launcher waiting.

Open MPI 4.1 and 5.0 read the first message of each connection in the thread that does all else, and
without a limit. A stranger that connects and sends 32 bytes stops mpirun, its daemon on a node or
a rank that starts, for as long as it stays connected (seen with 5.0.11). None of them waits in a
receive for seconds otherwise: they wait in ``epoll_wait`` or ``poll``.
"""

from __future__ import annotations

import ctypes
import os
import platform
import socket
from collections.abc import Iterator
from pathlib import Path

from backend.base.log import suppress

LIMIT_S = 1.0
_RECEIVES = {
    # read, readv, recvfrom, recvmsg in the kernel's tables.
    "x86_64": ("0", "19", "45", "47"),
    "aarch64": ("63", "65", "207", "212"),
}
_PIDFD_GETFD = 438
"""The same number on all architectures; since Linux 5.6."""
_libc = ctypes.CDLL(None, use_errno=True)


class BlockedReceiveWatch:
    """Watches the threads of a process of this user, best a descendant of this process."""

    def __init__(self, pid: int, proc: Path = Path("/proc")) -> None:
        self._pid = pid
        self._tasks = proc / str(pid) / "task"
        self._started_s: dict[tuple[str, int], float] = {}
        self.blocking_addresses: list[str] = []
        """The addresses whose connections were ended, each once."""

    def end_blocked(self, now_s: float) -> None:
        """End each connection in whose receive a thread waits since `LIMIT_S`.

        ``now_s`` is a time as of `time.monotonic`.
        """
        receives: set[tuple[str, int]] = set()
        # A process that has just ended has no threads.
        with suppress(OSError):
            receives = set(self._receives())
        self._started_s = {receive: self._started_s.get(receive, now_s) for receive in receives}
        for receive, started_s in self._started_s.items():
            with suppress(OSError):
                self._end(receive[1], is_late=now_s >= started_s + LIMIT_S)

    def _receives(self) -> Iterator[tuple[str, int]]:
        """Return the threads that receive, with the file descriptor from which they do."""
        numbers = _RECEIVES.get(platform.machine(), ())
        for thread in os.listdir(self._tasks):
            with suppress(OSError):
                call_number, *arguments = (self._tasks / thread / "syscall").read_text().split()
                if call_number in numbers:
                    yield thread, int(arguments[0], 16)

    def _end(self, descriptor: int, *, is_late: bool) -> None:
        """End a connection that is late, or that of an address which was late before."""
        process = os.pidfd_open(self._pid)
        try:
            socket_copy = _libc.syscall(_PIDFD_GETFD, process, descriptor, 0)
            if socket_copy < 0:
                raise OSError(ctypes.get_errno(), "pidfd_getfd was refused")
        finally:
            os.close(process)
        if (
            not os.path.realpath(f"/proc/self/fd/{socket_copy}")
            .rpartition("/")[2]
            .startswith("socket:")
        ):
            os.close(socket_copy)
            return
        with socket.socket(fileno=socket_copy) as connection:
            if connection.family not in (socket.AF_INET, socket.AF_INET6):
                return
            address = connection.getpeername()[0].removeprefix("::ffff:")
            if is_late and address not in self.blocking_addresses:
                self.blocking_addresses.append(address)
            if address in self.blocking_addresses:
                connection.shutdown(socket.SHUT_RDWR)
