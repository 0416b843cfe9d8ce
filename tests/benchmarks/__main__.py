"""``python -m tests.benchmarks [names] [--json FILE]``: measure, print one table, write JSON.

A benchmark is a module of this folder with a function ``measure() -> list[Figure]``. Each figure
is a ratio inside one run, ours against a named other, interleaved, because machines are shared
and noisy; absolute times are context. Exits 1 when a goal is missed.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import sys
from dataclasses import asdict
from pathlib import Path

from tests.benchmarks.figures import Figure

ON_REQUEST = ("goes_on", "largest_batch", "provisioning_nodes", "slow_causes", "soak")
"""Minutes or half an hour by itself: measured when it is named."""


def main() -> int:
    folder = Path(__file__).parent
    known_names = sorted(
        path.stem
        for path in folder.glob("*.py")
        if path.stem not in ("__main__", "__init__", "figures")
        and "def measure(" in path.read_text()
    )
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(known_names))
    parser.add_argument("--json", type=Path, default=Path("benchmarks.json"))
    parser.add_argument("--minutes", type=float, help="how long the soak goes on")
    args = parser.parse_args()
    for name in args.names:
        if name not in known_names:
            parser.error(f"{name} is no benchmark; there are {', '.join(known_names)}")
    machine = {"cores": os.cpu_count(), "python": platform.python_version()}
    figures: list[Figure] = []
    for name in args.names or [name for name in known_names if name not in ON_REQUEST]:
        sys.stderr.write(f"{name} …\n")
        minutes = {"minutes": args.minutes} if name == "soak" and args.minutes else {}
        figures += importlib.import_module(f"tests.benchmarks.{name}").measure(**minutes)
        # After each: what was measured stays, whatever becomes of the next.
        args.json.write_text(
            json.dumps({"machine": machine, "figures": [asdict(f) for f in figures]}, indent=1)
            + "\n"
        )
    sys.stdout.write(table(figures) + "\n")
    return 0 if all(figure.is_met for figure in figures) else 1


def table(figures: list[Figure]) -> str:
    rows = [("goal", "what", "median", "min", "wanted", "", "context")]
    rows += [
        (
            figure.goal,
            figure.what,
            f"{figure.median:.4g} {figure.unit}".strip(),
            f"{figure.minimum:.4g}",
            figure.goal_text,
            "" if figure.is_met else "falls short",
            figure.context,
        )
        for figure in figures
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )


if __name__ == "__main__":
    sys.exit(main())
