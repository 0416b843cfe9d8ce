"""P9: half an hour of the window with 64 nodes of 8 GPUs and 20 live jobs, one node black-holed.

``python -m tests.benchmarks.soak [--minutes 30] [--life 600]``. What is on the data root
is written by the real agent, reporter and records in a process of its own
(`tests.fakes.busy_cluster`), and a user works in the window all the time (`soak_window`). The other
side is a process that only ticks: what it is late by is the machine's doing.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from tests.benchmarks.figures import Figure
from tests.fakes.nvml.driver import FakeDriver, build

MINUTES = 30.0
WARM_ACTS = 6000
"""Acts before the measurement, in fourteen minutes: caches fill by acts, not by time. After the
first 2,500 acts the window grew by 8 MB in the next 4,900, 7 of them in the first 2,700."""
NODES, JOBS = 64, 20
ENDED_JOBS = 300
"""Jobs that ended before: more than a window remembers whole (`services.job_list`)."""
LIFE_S = 600.0
_SAMPLE_S = 5.0
ROOT = Path(__file__).parents[2]

_IDLE = """
import sys, time
counts, last = [], time.perf_counter()
end = last + float(sys.argv[1])
while last < end:
    time.sleep(0.005)
    now = time.perf_counter()
    counts.append(now - last - 0.005)
    last = now
counts.sort()
print(1000 * counts[int(0.999 * len(counts))], 1000 * counts[-1])
"""


@dataclass(frozen=True)
class Slope:
    """Of a line through samples: how steep, and the half width of its 95 % interval."""

    per_hour: float
    error: float

    @property
    def is_zero(self) -> bool:
        return abs(self.per_hour) <= self.error


def measure(minutes: float = MINUTES, *, life_s: float = LIFE_S) -> list[Figure]:
    results = soak(60 * minutes, life_s=life_s)
    samples = results["memory"]
    minima = least_of_each_minute(
        [sample[0] for sample in samples], [sample[1] for sample in samples]
    )
    slope = slope_of(*minima)
    sys.stderr.write(_report(results, slope, minutes))
    delays = results["all"]
    context = (
        f"{minutes:g} min, {results['nodes'] - 1} nodes, {results['acts']} acts of a user, "
        f"p50 {delays['p50']:.1f}, p99 {delays['p99']:.1f}, worst {delays['worst']:.0f} ms, "
        f"{delays['long']} of {delays['turns']} turns over 50 ms; "
        f"idle p99.9 {results['idle'][0]:.1f}, "
        f"worst {results['idle'][1]:.0f} ms"
    )
    files = [sample[2] for sample in samples]
    threads = [sample[3] for sample in samples]
    return [
        Figure("P9", "a press is late by, p99.9", (delays["p99.9"],), 100, "ms", context=context),
        Figure(
            "P9",
            "memory slope beyond its error",
            (max(0.0, abs(slope.per_hour) - slope.error),),
            0.0,
            "MB/h",
            context=f"{slope.per_hour:+.1f} ± {slope.error:.1f} MB/h, "
            f"{minima[1][0]:.0f} MB then {minima[1][-1]:.0f} MB",
        ),
        Figure(
            "P9",
            "open files, most at the end − at the beginning",
            (_peak(files, -1) - _peak(files, 0),),
            5,
            context=f"threads {min(threads):.0f} to {max(threads):.0f}",
        ),
    ]


def soak(
    seconds: float,
    nodes: int = NODES,
    jobs: int = JOBS,
    life_s: float = LIFE_S,
    ended_jobs: int = ENDED_JOBS,
    warm_acts: int = WARM_ACTS,
) -> dict[str, Any]:
    """Return the report of the window, and "idle": p99.9 and worst of the process that ticks."""
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        folder = Path(name)
        root = folder / "root"
        stack.enter_context(_busy_cluster(folder, root, nodes, jobs, life_s, ended_jobs))
        environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            **{
                f"XDG_{kind}_HOME": str(folder / kind.lower())
                for kind in ("CONFIG", "DATA", "CACHE", "STATE")
            },
        }
        environment.setdefault("QT_QPA_PLATFORM", "offscreen")
        window = subprocess.Popen(
            [sys.executable, "-m", "tests.benchmarks.soak_window",
             str(root), str(folder / "catalogue.sqlite"), str(seconds), str(warm_acts)],
            env=environment, cwd=ROOT, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        idle = subprocess.Popen(
            [sys.executable, "-I", "-c", _IDLE, str(seconds)], stdout=subprocess.PIPE, text=True
        )
        try:
            output = window.communicate(timeout=seconds + warm_acts + 120)[0]
            if window.returncode != 0:
                raise RuntimeError(f"the window ended with {window.returncode}")
            results: dict[str, Any] = json.loads(output.splitlines()[-1])
            results["idle"] = [float(word) for word in idle.communicate(timeout=60)[0].split()]
        finally:
            for process in (window, idle):
                process.kill()
                process.communicate()
        return results


@contextlib.contextmanager
def _busy_cluster(
    folder: Path, root: Path, nodes: int, jobs: int, life_s: float, ended_jobs: int
) -> Iterator[None]:
    driver = FakeDriver(build(folder / "nvml"), folder / "nvml-state")
    # These are other machines, and take nothing from the window.
    command = ["nice", "-n", "10", sys.executable, "-m", "tests.fakes.busy_cluster", str(root)]
    command += ["--nodes", str(nodes), "--jobs", str(jobs)]
    command += ["--life", str(life_s), "--ended", str(ended_jobs)]
    process = subprocess.Popen(
        command,
        env={**driver.environment, "PYTHONPATH": str(ROOT)},
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        if process.stdout.readline() != "there\n":
            raise RuntimeError("the cluster did not begin")
        yield
        if process.poll() is not None:
            raise RuntimeError(f"the cluster ended with {process.returncode}")
    finally:
        try:
            process.communicate(timeout=60)
        finally:
            process.kill()


def least_of_each_minute(
    seconds: Sequence[float], values: Sequence[float]
) -> tuple[list[float], list[float]]:
    """The least value of each whole minute, and the middle of that minute.

    What is freed within a minute is noise, and its error hides how slowly the rest changes: a third
    of the lines through all samples had a slope where there was no leak.
    """
    minutes: dict[int, float] = {}
    for at_s, value in zip(seconds, values, strict=True):
        minute = int(at_s // 60)
        if minute < int((seconds[-1] + _SAMPLE_S) // 60):
            minutes[minute] = min(value, minutes.get(minute, math.inf))
    return [60 * minute + 30.0 for minute in minutes], list(minutes.values())


def slope_of(seconds: Sequence[float], values: Sequence[float]) -> Slope:
    """Least squares. What follows each other is alike, which widens the interval.

    Memory goes in steps: where residuals are correlated by r from one sample to the next, n samples
    are worth n (1 − r) / (1 + r).
    """
    count = len(values)
    mean_x, mean_y = statistics.fmean(seconds), statistics.fmean(values)
    spread = sum((x - mean_x) ** 2 for x in seconds)
    steepness = (
        sum((x - mean_x) * (y - mean_y) for x, y in zip(seconds, values, strict=True)) / spread
    )
    residuals = [
        y - mean_y - steepness * (x - mean_x) for x, y in zip(seconds, values, strict=True)
    ]
    power = sum(residual * residual for residual in residuals)
    correlation = sum(a * b for a, b in pairwise(residuals)) / power if power else 0.0
    correlation = min(max(correlation, 0.0), 0.99)
    widening = (1 + correlation) / (1 - correlation)
    error = math.sqrt(power / (count - 2) / spread * widening)
    return Slope(3600 * steepness, 3600 * 1.96 * error)


def _peak(values: Sequence[float], end: int) -> float:
    """The most in the first or the last tenth."""
    tenth = max(1, len(values) // 10)
    return max(values[:tenth] if end == 0 else values[-tenth:])


def _report(results: dict[str, Any], slope: Slope, minutes: float) -> str:
    lines = [f"all {results['all']}", f"own {results['own']}"]
    lines.append(
        f"the GUI thread computed {results['computed_s']:.1f} s, "
        f"its workers {results['workers_s']:.1f} s, "
        f"and it stood ready without a processor {results['waited_s']:.1f} s"
    )
    samples = results["memory"][:: max(1, len(results["memory"]) // 12)]
    for previous_sample, sample in pairwise(samples):
        at_s, mb, files, threads, computed_s, late_presses = sample
        share = (computed_s - previous_sample[4]) / (at_s - previous_sample[0])
        lines.append(
            f"  until minute {at_s / 60:5.1f}: {mb:6.1f} MB, {files:.0f} files, "
            f"{threads:.0f} threads; {100 * share:.0f} % computed, "
            f"{late_presses - previous_sample[5]:.0f} late"
        )
    lines.append(f"memory {slope.per_hour:+.2f} ± {slope.error:.2f} MB/h over {minutes:g} min")
    return "\n".join(lines) + "\n"


def main() -> int:
    from tests.benchmarks.__main__ import table

    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.soak")
    parser.add_argument("--minutes", type=float, default=MINUTES)
    parser.add_argument("--life", type=float, default=LIFE_S, help="seconds that a job trains")
    args = parser.parse_args()
    if args.minutes < 3:
        parser.error("The slope of memory needs 3 minutes or more.")
    figures = measure(args.minutes, life_s=args.life)
    sys.stdout.write(table(figures) + "\n")
    return 0 if all(figure.is_met for figure in figures) else 1


if __name__ == "__main__":
    sys.exit(main())
