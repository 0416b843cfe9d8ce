"""Watch TCP connections that keep a launcher waiting.

mpirun and its daemons notice a lost connection by keepalive within a minute. But the kernel sends
no keepalive while sent data is not acknowledged: it resends that data at growing intervals for 15
minutes (tcp(7), ``tcp_retries2``). This happens when a node is lost while daemons exchange data, as
they do when ranks begin (`TcpStallWatch`).

Open MPI 4.1 and 5.0 read the first message of each connection in the thread that does all else, and
without a limit. A stranger that connects and sends 32 bytes stops mpirun, its daemon on a node or
a rank that starts, for as long as it stays connected (seen with 5.0.11). None of them waits in a
receive for seconds otherwise: they wait in ``epoll_wait`` or ``poll`` (`BlockedReceiveWatch`).
"""

from __future__ import annotations

import ctypes
import os
import platform
import socket
from collections.abc import Iterator
from pathlib import Path

from backend.base.log import suppress

STALL_LIMIT_S = 50.0
"""Everything is over within 90 s then; after a cut of 15 s the next try may come 15 s late."""
_CHECK_S = 5.0
_RETRANSMITTING = "01"
_SOCKET = "socket:["


class TcpStallWatch:
    """Watches the TCP connections of the process ``pid`` of this user."""

    def __init__(self, pid: int, proc: Path = Path("/proc")) -> None:
        self._folder = proc / str(pid)
        self._next_check_s = 0.0
        self._started_s: dict[str, float] = {}

    def any(self, now_s: float) -> bool:
        """Return whether a connection has resent the same data for `STALL_LIMIT_S`.

        ``now_s`` is a time as of `time.monotonic`; the kernel is queried every few seconds.
        """
        if now_s >= self._next_check_s:
            self._next_check_s = now_s + _CHECK_S
            stalled_sockets: set[str] = set()
            # A process that has just ended has no connections.
            with suppress(OSError):
                stalled_sockets = set(self._stalled_sockets())
            self._started_s = {
                inode: self._started_s.get(inode, now_s) for inode in stalled_sockets
            }
        return any(now_s >= started_s + STALL_LIMIT_S for started_s in self._started_s.values())

    def _stalled_sockets(self) -> Iterator[str]:
        own_inodes = set(self._sockets())
        for name in ("tcp", "tcp6"):
            with suppress(FileNotFoundError), (self._folder / "net" / name).open() as file:
                for line in file:
                    # proc_net_tcp.txt: tr:tm->when, retrnsmt, uid, timeout, inode
                    _, _, _, _, _, timer, tries, _, _, inode, *_ = line.split()
                    if inode in own_inodes and timer[:2] == _RETRANSMITTING and int(tries, 16) > 0:
                        yield inode

    def _sockets(self) -> Iterator[str]:
        with os.scandir(self._folder / "fd") as entries:
            for entry in entries:
                with suppress(OSError):
                    target = os.readlink(entry.path)
                    if target.startswith(_SOCKET):
                        yield target[len(_SOCKET) : -1]


RECEIVE_LIMIT_S = 1.0
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
        """End each connection in whose receive a thread waits since `RECEIVE_LIMIT_S`.

        ``now_s`` is a time as of `time.monotonic`.
        """
        receives: set[tuple[str, int]] = set()
        # A process that has just ended has no threads.
        with suppress(OSError):
            receives = set(self._receives())
        self._started_s = {receive: self._started_s.get(receive, now_s) for receive in receives}
        for receive, started_s in self._started_s.items():
            with suppress(OSError):
                self._end(receive[1], is_late=now_s >= started_s + RECEIVE_LIMIT_S)

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
