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
LIMITS = {"--version": 0.3, "job list": 0.8}


def measure() -> list[Figure]:
    with tempfile.TemporaryDirectory() as name:
        options = ("--data-root", f"{name}/root", "--catalogue", f"{name}/catalogue.sqlite")
        ratios: dict[str, list[float]] = {command: [] for command in LIMITS}
        # The first round makes the catalogue, and compiles the modules.
        for _ in range(PAIRS + 1):
            import_s = _seconds("-c", "import sqlalchemy")
            for command, values in ratios.items():
                values.append(_seconds(str(MAIN), *options, *command.split()) / import_s)
        return [
            Figure(
                "",
                f"processor time of {command}, by an import of SQLAlchemy",
                (*values[1:],),
                limit,
            )
            for (command, values), limit in zip(ratios.items(), LIMITS.values(), strict=True)
        ]


def _seconds(*arguments: str) -> float:
    old_usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *arguments], check=True, capture_output=True)
    new_usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return new_usage.ru_utime + new_usage.ru_stime - old_usage.ru_utime - old_usage.ru_stime
