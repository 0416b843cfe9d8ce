"""An agent that only says who it is, as the real one does, and waits for its end.

``python fake_agent.py FOLDER BUNDLE``, with the bundle in PYTHONPATH.
"""

from __future__ import annotations

import fcntl
import os
import signal
import sys
from pathlib import Path

from backend.node.system import process_identity
from backend.records.base.atomic_files import replace_json

_LONGEST_S = 300

if __name__ == "__main__":
    lock = os.open(Path(sys.argv[1]) / "lock", os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        sys.exit("An agent already writes here.")
    if os.fork():
        sys.exit()
    os.setsid()
    null_device = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(null_device, number)
    signal.alarm(_LONGEST_S)
    info = {**process_identity.own_process().to_dict(), "bundle": sys.argv[2]}
    replace_json(Path(sys.argv[1]) / "info.json", info)
    signal.pause()
