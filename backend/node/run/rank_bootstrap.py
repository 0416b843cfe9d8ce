"""The first lines that run in a rank: set up the stack dumps, then become the rank.

Executed by path, not by ``-m``, so that the working folder (which user code fills) is never on
``sys.path``. The dumps of `faulthandler` go to memory shared with the guard and not to the log,
because a loader's workers inherit the same log and write into it at the same time.
"""

import sys

if __name__ == "__main__" and not getattr(sys.flags, "safe_path", False):
    del sys.path[0]  # this folder, whose modules are not meant for a rank

import faulthandler
import os
import runpy
import signal

DUMP_VARIABLE = "RINGMASTER_DUMP_FD"


def main() -> None:
    descriptor = int(os.environ[DUMP_VARIABLE])
    faulthandler.enable(file=descriptor, all_threads=True)
    faulthandler.register(signal.SIGUSR1, file=descriptor, all_threads=True)
    module = sys.argv[1]
    del sys.argv[1]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
