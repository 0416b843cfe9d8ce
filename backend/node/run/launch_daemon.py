"""Start mpirun's daemon on a node, and end connections that keep it waiting.

The filter of the cluster's key starts it in place of the daemon (`ssh_command_filter`). The daemon
goes into the background by itself once it is connected, so the watch does, too.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from backend.base import process_signals
from backend.base.log import suppress
from backend.node.system.tcp_watch import BlockedReceiveWatch

_POLL_S = 0.25


def main(command: Sequence[str] | None = None) -> int:
    command = sys.argv[1:] if command is None else command
    reading, writing = os.pipe()
    if os.fork():
        # The SSH session of mpirun ends with this process, as it does with the daemon's own start.
        os.close(writing)
        with os.fdopen(reading, "rb") as pipe:
            answer = pipe.read()
        return int(answer or b"1")
    os.close(reading)
    os.setsid()
    process_signals.become_subreaper()
    # The daemon's programs have a Python path of their own.
    os.environ.pop("PYTHONPATH", None)
    watches: dict[int, BlockedReceiveWatch] = {}
    with subprocess.Popen(command) as first_process:
        while first_process.poll() is None:
            _watch_descendants(watches)
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(null, stream)
    os.write(writing, str(first_process.returncode).encode())
    os.close(writing)
    # The daemon is a child of this process by now.
    while _watch_descendants(watches):
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
    return 0


def _watch_descendants(watches: dict[int, BlockedReceiveWatch]) -> bool:
    """Watch the daemon's processes for a moment; return False if it has ended.

    The ranks below it are watched by their guards.
    """
    children = list(_children(os.getpid()))
    now = time.monotonic()
    for pid in (*children, *(grandchild for child in children for grandchild in _children(child))):
        watches.setdefault(pid, BlockedReceiveWatch(pid)).end_blocked(now)
    time.sleep(_POLL_S)
    return bool(children)


def _children(pid: int) -> Iterator[int]:
    # A process that has just ended has none.
    with suppress(OSError):
        yield from map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())


if __name__ == "__main__":
    sys.exit(main())
