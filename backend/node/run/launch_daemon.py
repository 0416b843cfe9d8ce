"""Start mpirun's daemon on a node, and end connections that keep it waiting.

The filter of the cluster's key starts it in place of the daemon (`ssh_command_filter`). The daemon
goes into the background by itself, so the watch does, too.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from backend.base import prctl
from backend.base.log import suppress
from backend.node.system.blocked_receive import BlockedReceiveWatch

_POLL_S = 0.1


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
    prctl.become_subreaper()
    # The daemon's programs have a Python path of their own.
    os.environ.pop("PYTHONPATH", None)
    code = subprocess.run(command, check=False).returncode
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(null, stream)
    os.write(writing, str(code).encode())
    os.close(writing)
    _watch_descendants()
    return 0


def _watch_descendants() -> None:
    """Watch the daemon, which is a child of this process by now, until it has ended."""
    watches: dict[str, BlockedReceiveWatch] = {}
    while True:
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        daemons = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
        if not daemons:
            return
        watches = {pid: watches.get(pid) or BlockedReceiveWatch(int(pid)) for pid in daemons}
        for watch in watches.values():
            watch.end_blocked(time.monotonic())
        time.sleep(_POLL_S)


if __name__ == "__main__":
    sys.exit(main())
