"""Ringmaster: a subcommand goes to the command line, none opens the window."""

from __future__ import annotations

import sys
from pathlib import Path

from backend.cli.main import run
from backend.records.base.remote_root import RemoteRoot


def open_window(
    data_root: Path | RemoteRoot, catalogue: Path | None, demo_workers: int | None
) -> int:
    """Open the window, with the example's job started in it where ``demo_workers`` is given."""
    # Late: the command line must not wait for Qt.
    from app.main.gui_main import main

    return main(data_root, catalogue, demo_workers)


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:], open_window))
