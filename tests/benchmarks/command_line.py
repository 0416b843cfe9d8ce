"""The processor time of two commands, beside a Python that only imports SQLAlchemy."""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.benchmarks.figures import Figure

PAIRS = 7
MAIN = Path(__file__).resolve().parents[2] / "main.py"
LIMITS = {"--version": 0.3, "job list": 1.6}


def measure() -> list[Figure]:
    with tempfile.TemporaryDirectory() as name:
        places = ("--data-root", f"{name}/root", "--catalogue", f"{name}/catalogue.sqlite")
        ratios: dict[str, list[float]] = {command: [] for command in LIMITS}
        # The first round makes the catalogue, and compiles the modules.
        for _ in range(PAIRS + 1):
            theirs = _seconds("-c", "import sqlalchemy")
            for command, found in ratios.items():
                found.append(_seconds(str(MAIN), *places, *command.split()) / theirs)
        return [
            Figure(
                "", f"processor time of {command}, by an import of SQLAlchemy", (*found[1:],), limit
            )
            for (command, found), limit in zip(ratios.items(), LIMITS.values(), strict=True)
        ]


def _seconds(*arguments: str) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *arguments], check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
