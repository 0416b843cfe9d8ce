"""Detect TCP connections of a process that the other side no longer acknowledges.

mpirun and its daemons notice a lost one by keepalive within a minute. But the kernel sends no
keepalive while sent data is not acknowledged: it resends that data at growing intervals for 15
minutes (tcp(7), ``tcp_retries2``). This happens when a node is lost while daemons exchange data, as
they do when ranks begin.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from backend.base.log import suppress

LIMIT_S = 50.0
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
        """Return whether a connection has resent the same data for `LIMIT_S`.

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
        return any(now_s >= started_s + LIMIT_S for started_s in self._started_s.values())

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
