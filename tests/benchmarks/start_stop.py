"""P3 and P4: from Start to the first step beside a bare script, and from Stop to the checkpoint.

Both sides of P3 train the same model, whose second loss says when the first step was done. P4
counts until a reader sees INTERRUPTED; the time to write the checkpoint is in it. The stops are of
one job that is resumed, so each is a whole run of its own.
"""

from __future__ import annotations

import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from backend.datastore.jobs.checkpoint_files import verify
from backend.records.jobs.state import JobState
from backend.records.jobs.view import JobView
from backend.records.library.item import Kind
from backend.services.context.container import Services, open_services
from tests.backend.training.training_rig import ROOT, clean_environment, mpirun
from tests.benchmarks.figures import Figure
from tests.fakes.mounted_root import MOUNTED
from tests.integration.tiny import MODEL, raw_job, write_sources

PAIRS = 7
STOPS = 100
"""A whole start each, some eight minutes in all."""
_STOPWATCH = """
    def loss(self, output, target):
        import os, time
        self.losses = getattr(self, "losses", 0) + 1
        if self.losses == 2 and os.environ["OMPI_COMM_WORLD_RANK"] == "0":
            with open(os.environ["STOPWATCH"], "w") as file:
                file.write(repr(time.time()))
"""


def measure() -> list[Figure]:
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        model, loader, dataset = write_sources(root / "sources")
        (model / "bks_model.py").write_text(stopwatch_model())
        services = open_services(root / "data", root / "desktop" / "catalogue.sqlite")
        services.library.import_item(Kind.MODEL, model, "tiny")
        services.library.import_item(Kind.LOADER, loader, "tiny")
        services.library.import_item(Kind.DATASET, dataset, "tiny")
        figures = [_start(services, root), _stop(services, root)]
        services.close()
    return figures


def stopwatch_model() -> str:
    """The tiny model, which notes when its first step was done."""
    return MODEL.replace("\n    def loss(self, output, target):\n", _STOPWATCH)


def _start(services: Services, root: Path) -> Figure:
    own_times, bare_times = [], []
    for number in range(PAIRS):
        # Which goes first alternates, so that a machine that slows down favours neither.
        for side in ("bare", "ours") if number % 2 else ("ours", "bare"):
            if side == "bare":
                bare_times.append(_start_bare_s(root))
            else:
                own_times.append(_start_job_s(services, root))
    added_times = tuple(o - b for o, b in zip(own_times, bare_times, strict=True))
    context = (
        f"bare {min(bare_times):.2f} s, ours {min(own_times):.2f} s at best; "
        "2 ranks, torch imported"
    )
    return Figure("P3", "Start to first step, ours − bare", added_times, 0.5, "s", context=context)


def _start_job_s(services: Services, root: Path) -> float:
    stopwatch = root / "stopwatch-ours"
    view = services.jobs.create(raw_job(epochs=1, environment={"STOPWATCH": str(stopwatch)}))
    started_s = time.time()
    services.jobs.lifecycle.start(view.id)
    view = services.jobs.queries.wait(view.id)
    if view.state is not JobState.FINISHED:
        raise RuntimeError(view.error)
    return float(stopwatch.read_text()) - started_s


def _start_bare_s(root: Path) -> float:
    stopwatch = root / "stopwatch-bare"
    sources = root / "sources"
    command = [*mpirun(2), sys.executable, str(Path(__file__).with_name("bare_script.py"))]
    command += [str(sources / "model"), str(sources / "loader"), "1", "8"]
    started_s = time.time()
    subprocess.run(command, cwd=ROOT, env=clean_environment(STOPWATCH=str(stopwatch)), check=True)
    return float(stopwatch.read_text()) - started_s


def _stop(services: Services, root: Path) -> Figure:
    random_delay = random.Random(4)
    stopwatch = {"STOPWATCH": str(root / "stopwatch")}
    view = services.jobs.create(raw_job(epochs=1_000_000, environment=stopwatch))
    services.jobs.lifecycle.start(view.id)
    latencies = []
    for number in range(STOPS):
        reached_step = view.step
        services.jobs.queries.wait(view.id, is_finished=_beyond(reached_step))
        time.sleep(random_delay.uniform(0, 0.5))
        started_s = time.perf_counter()
        services.jobs.lifecycle.stop(view.id)
        view = services.jobs.queries.wait(view.id)
        latencies.append(time.perf_counter() - started_s)
        if view.state is not JobState.INTERRUPTED:
            raise RuntimeError(view.error)
        verify(MOUNTED, services.jobs.queries.checkpoints(view.id)[-1])
        if number < STOPS - 1:
            services.jobs.lifecycle.resume(view.id)
    sorted_latencies = sorted(latencies)
    # The 99th of 100, the contract's own measure.
    p99_s = sorted_latencies[max(0, STOPS * 99 // 100 - 1)]
    median_s = sorted_latencies[STOPS // 2]
    context = f"{STOPS} stops, median {median_s:.2f} s, worst {sorted_latencies[-1]:.2f} s"
    return Figure("P4", "Stop to INTERRUPTED, p99", (p99_s,), 1.0, "s", context=context)


def _beyond(step: int) -> Callable[[JobView], bool]:
    def is_beyond(view: JobView) -> bool:
        return view.step > step or not view.state.is_live

    return is_beyond
