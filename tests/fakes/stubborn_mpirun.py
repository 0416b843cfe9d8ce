"""An mpirun that starts every rank here and then stays, despite every signal."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

signal.signal(signal.SIGTERM, signal.SIG_IGN)
arguments = sys.argv[1:]
size = arguments[arguments.index("-np") + 1]
guard = arguments[arguments.index(sys.executable) :]
for rank in range(int(size)):
    rank_variables = {"OMPI_COMM_WORLD_RANK": str(rank), "OMPI_COMM_WORLD_SIZE": size}
    subprocess.Popen(guard, env={**os.environ, **rank_variables})
while True:
    signal.pause()
