"""Ringmaster: a subcommand runs on the command line; without one the window opens."""

from __future__ import annotations

import sys
from pathlib import Path

from backend.cli.main import run
from backend.records.base.remote_root import RemoteRoot


def open_window(
    data_root: Path | RemoteRoot, catalogue: Path | None, demo_workers: int | None
) -> int:
    """Open the window; with ``demo_workers``, start a job of the example in it."""
    # Imported late: the command line must not wait for Qt.
    from app.main.gui_main import main

    return main(data_root, catalogue, demo_workers)


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:], open_window))
