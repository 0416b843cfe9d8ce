"""Runs a module of a run with a clock of its own: ``hurried.py MARK RANK MODULE ARGUMENT ...``.

Once the file MARK exists, ten minutes pass in each idle round of the guard of RANK, or of the
supervisor, which counts as 0.
"""

from __future__ import annotations

import os
import runpy
import signal
import sys
import time
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.fakes.runs import Run

_ROUND_S = 600.0


def hurry_guard(run: Run, rank: int) -> Path:
    """Give the guard of ``rank`` such a clock, before the start; returns MARK."""
    mark = run.folder.path / "hurry"
    run.run_guards_with(f'shift\nexec {sys.executable} {__file__} {mark} {rank} "$@"')
    return mark


def main(mark: str, rank: str, module: str) -> None:
    passed_s = 0.0
    take, monotonic = signal.sigtimedwait, time.monotonic

    def idle(signals: Collection[int], limit_s: float) -> Any:
        nonlocal passed_s
        signal_info = take(signals, limit_s)
        passed_s += _ROUND_S if signal_info is None and os.path.exists(mark) else 0.0
        return signal_info

    if os.environ.get("OMPI_COMM_WORLD_RANK", "0") == rank:
        signal.sigtimedwait = idle  # type: ignore[assignment]
        time.monotonic = lambda: monotonic() + passed_s
    del sys.argv[1:4]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main(*sys.argv[1:4])
