"""P2, P3, P4 and P11 across nodes, on the test cluster: needs root.

The nodes are namespaces of one machine, so their ranks share its cores and its memory's speed is
their network's: what is compared is ours with the bare script under the very same mpirun. From one
rank to two the model computes on no core, as on a device: then two ranks on two cores share none.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from backend.node.run import launch_command
from backend.records.jobs.job_file import parse_job
from backend.records.jobs.state import JobState
from backend.records.jobs.view import JobView
from backend.records.library.item import Kind
from installers.console import Progress
from tests.benchmarks.figures import Figure
from tests.benchmarks.start_stop import stopwatch_model
from tests.benchmarks.step_overhead import LOADER, MODEL
from tests.cluster.cluster import Cluster
from tests.cluster.ready import ReadyCluster, open_ready_cluster
from tests.integration.tiny import raw_job, write_sources

PAIRS = 9
STOPS = 10
_BARE = Path(__file__).with_name("bare_script.py")
_WARM = 40
# Each node takes all cores of this machine for its own.
_THREADS = {"OMP_NUM_THREADS": str(max(1, len(os.sched_getaffinity(0)) // 2))}
NODES = ("node1", "node2")


@dataclass(frozen=True)
class Steps:
    """An epoch of steps of equal cost. ``batch`` is the batch size of each rank."""

    name: str
    steps: int
    batch: int
    width: int = 256
    depth: int = 6
    activation: str = "nn.ReLU()"
    """The activation after each layer."""
    elsewhere_s: float = 0.0
    """Seconds that a step computes on no core, a third of them forward."""


# The longer a step, the less of it is waiting for the other node.
EFFICIENCIES = (Steps("short", 1000, 32), Steps("long", 200, 512))
DEVICE_LAYER = """
class Elsewhere(nn.Module):
    def forward(self, x):
        return Wait.apply(x)

class Wait(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        time.sleep({forward_s})
        return x.view_as(x)
    @staticmethod
    def backward(ctx, gradient):
        time.sleep({backward_s})
        return gradient
"""
"""A layer that takes its time and no core for it, forward and backward, as one on a GPU does: the
gradients of a model are ready one after the other while the processor is free to send them."""
DEVICES = (
    Steps("device-60", 60, 2, 640, 12, "Elsewhere()", 0.060),
    Steps("device-120", 60, 2, 640, 12, "Elsewhere()", 0.120),
)
"""4.9 million parameters (20 MB, an EfficientNet-B0), each reduced in every step."""
SCALINGS = 5


def measure() -> list[Figure]:
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        cluster = stack.enter_context(Cluster(folder / "cluster", progress=Progress(sys.stderr)))
        ready = stack.enter_context(open_ready_cluster(cluster, folder))
        stock(ready, folder)
        return [
            _repeated_set_up(ready),
            _start(ready),
            _stop(ready),
            *(_efficiency(ready, steps) for steps in EFFICIENCIES),
            *(figure for device in DEVICES for figure in _measure_scaling(ready, device)),
        ]


def stock(ready: ReadyCluster, folder: Path) -> None:
    """Put models and loaders into the library, and the bare script beside the data root."""
    model, loader, dataset = write_sources(folder / "tiny")
    (model / "bks_model.py").write_text(stopwatch_model())
    sources = {"tiny": (model, loader)}
    for steps in (*EFFICIENCIES, *DEVICES):
        sources[steps.name] = _write_steps(folder / steps.name, steps)
    library = ready.services.library
    library.import_item(Kind.DATASET, dataset, "tiny")
    for name, (a_model, a_loader) in sources.items():
        library.import_item(Kind.MODEL, a_model, name)
        library.import_item(Kind.LOADER, a_loader, name)
    shutil.copy(_BARE, ready.cluster.share / "bare.py")


def _write_steps(folder: Path, steps: Steps) -> tuple[Path, Path]:
    model, loader = folder / "model", folder / "loader"
    for source in (model, loader):
        source.mkdir(parents=True)
    text = MODEL.format(
        width=steps.width,
        depth=steps.depth,
        activation=steps.activation,
        steps=steps.steps,
        warm=_WARM,
    )
    a_layer_s = steps.elsewhere_s / steps.depth
    text += DEVICE_LAYER.format(forward_s=a_layer_s / 3, backward_s=a_layer_s * 2 / 3)
    (model / "bks_model.py").write_text(text)
    count = len(NODES) * steps.steps * steps.batch
    (loader / "bks_dataset.py").write_text(LOADER.format(count=count))
    return model, loader


def _repeated_set_up(ready: ReadyCluster) -> Figure:
    times = []
    for _ in range(PAIRS):
        started_s = time.perf_counter()
        ready.services.provisioning.set_up(tuple(ready.cluster.nodes), lambda update: None)
        times.append(time.perf_counter() - started_s)
    return Figure("P11", "setting up 3 ready nodes again", tuple(times), 3.0, "s")


def _start(ready: ReadyCluster) -> Figure:
    own_times, bare_times = [], []
    for number in range(PAIRS):
        for side in ("bare", "ours") if number % 2 else ("ours", "bare"):
            stopwatch = _clear_stopwatch(ready)
            started_s = time.time()
            if side == "bare":
                _run_bare(ready, "tiny", epochs=1, batch=8)
            else:
                _finish(ready, model="tiny", loader="tiny", epochs=1)
            (bare_times if side == "bare" else own_times).append(
                float(stopwatch.read_text()) - started_s
            )
    added_times = tuple(o - b for o, b in zip(own_times, bare_times, strict=True))
    context = f"2 nodes; bare {min(bare_times):.2f} s, ours {min(own_times):.2f} s at best"
    return Figure(
        "P3", "Start to first step on nodes, ours − bare", added_times, 0.5, "s", context=context
    )


def _stop(ready: ReadyCluster) -> Figure:
    jobs = ready.services.jobs
    _clear_stopwatch(ready)
    view = jobs.create(_raw(ready, epochs=1_000_000))
    jobs.lifecycle.start(view.id)
    latencies = []
    for number in range(STOPS):
        jobs.queries.wait(view.id, is_finished=_beyond(view.step))
        started_s = time.perf_counter()
        jobs.lifecycle.stop(view.id)
        view = jobs.queries.wait(view.id)
        latencies.append(time.perf_counter() - started_s)
        if view.state is not JobState.INTERRUPTED:
            raise RuntimeError(view.status.message)
        if number < STOPS - 1:
            jobs.lifecycle.resume(view.id)
    worst_s = max(latencies)
    context = f"2 nodes, {STOPS} stops, median {sorted(latencies)[STOPS // 2]:.2f} s"
    return Figure(
        "P4", "Stop to INTERRUPTED on nodes, the worst", (worst_s,), 1.0, "s", context=context
    )


def _efficiency(ready: ReadyCluster, steps: Steps) -> Figure:
    """A step across two nodes; the goal is on ours / bare of 1 → 2 ranks, whose 1 is the same."""
    own_times, bare_times = [], []
    for number in range(PAIRS):
        for side in ("bare", "ours") if number % 2 else ("ours", "bare"):
            stopwatch = _clear_stopwatch(ready)
            if side == "bare":
                _run_bare(ready, steps.name, epochs=1, batch=steps.batch)
            else:
                _finish(
                    ready, model=steps.name, loader=steps.name, epochs=1, batch_size=steps.batch
                )
            (bare_times if side == "bare" else own_times).append(float(stopwatch.read_text()))
    ratios = tuple(b / o for b, o in zip(bare_times, own_times, strict=True))
    minima = (
        f"bare {min(bare_times) * 1e3:.2f} ms, ours {min(own_times) * 1e3:.2f} ms a step at best"
    )
    bare_ms, own_ms = (statistics.median(times) * 1e3 for times in (bare_times, own_times))
    medians = f"{bare_ms:.2f} and {own_ms:.2f} usually"
    name = f"efficiency on 2 nodes, {steps.name} steps, ours / bare"
    return Figure("P2", name, ratios, 0.99, "", True, f"{minima}; {medians}")


def _measure_scaling(ready: ReadyCluster, device: Steps) -> list[Figure]:
    """From one rank to two that share no core: all that two cost is the network and the waiting."""
    times_by_kind: dict[tuple[str, int], list[float]] = {}
    kinds = [(side, ranks) for side in ("bare", "ours") for ranks in (1, 2)]
    for number in range(SCALINGS):
        for side, ranks in kinds if number % 2 else reversed(kinds):
            stopwatch = _clear_stopwatch(ready)
            placement = [{"node": node, "processes": 1} for node in NODES[:ranks]]
            # Alone it has twice the samples, and the same steps: they take the same time.
            batch = device.batch * len(NODES) // ranks
            changes = {"batch_size": batch, "placement": placement}
            if side == "bare":
                _run_bare(ready, device.name, epochs=1, batch=batch, placement=placement)
            else:
                _finish(ready, model=device.name, loader=device.name, epochs=1, **changes)
            times_by_kind.setdefault((side, ranks), []).append(float(stopwatch.read_text()))
    medians = {kind: statistics.median(times) * 1e3 for kind, times in times_by_kind.items()}
    minima = {kind: min(times) * 1e3 for kind, times in times_by_kind.items()}
    context = "20 MB of gradients, computed on no core; " + "; ".join(
        f"{side} {medians[side, 1]:.1f} ms a step alone, {medians[side, 2]:.1f} on 2 nodes "
        f"({minima[side, 1]:.1f} and {minima[side, 2]:.1f} at best)"
        for side in ("ours", "bare")
    )
    ratios = {
        f"1 → 2 nodes, {device.elsewhere_s * 1e3:.0f} ms of computing": (
            ("ours", 1),
            ("ours", 2),
            0.95,
        ),
        "… ours / bare on 2 nodes": (("bare", 2), ("ours", 2), 0.99),
    }
    return [
        Figure(
            "P2",
            changes,
            tuple(
                a / b
                for a, b in zip(times_by_kind[reference], times_by_kind[compared], strict=True)
            ),
            limit,
            "",
            True,
            context,
        )
        for changes, (reference, compared, limit) in ratios.items()
    ]


def _clear_stopwatch(ready: ReadyCluster) -> Path:
    stopwatch = ready.cluster.share / "stopwatch"
    stopwatch.unlink(missing_ok=True)
    return stopwatch


def _raw(ready: ReadyCluster, **changes: object) -> dict[str, object]:
    stopwatch = f"{ready.cluster.data_root}/stopwatch"
    placement = [{"node": node, "processes": 1} for node in NODES]
    settings = {"placement": placement, **changes}
    return raw_job(environment={"STOPWATCH": stopwatch, **_THREADS}, **settings)


def _finish(ready: ReadyCluster, **changes: object) -> None:
    jobs = ready.services.jobs
    view = jobs.create(_raw(ready, **changes))
    jobs.lifecycle.start(view.id)
    view = jobs.queries.wait(view.id)
    if view.state is not JobState.FINISHED:
        raise RuntimeError(view.status.message)


def _run_bare(ready: ReadyCluster, name: str, epochs: int, batch: int, **changes: object) -> None:
    """The bare script under the same command, up to where ours begins."""
    config = parse_job(_raw(ready, model=name, loader=name, **changes)).config
    assert config is not None
    command = launch_command.command(ready.services.jobs._starter.plan(config, "JOB", 1).launch)
    root = PurePosixPath(ready.cluster.data_root)
    mpirun = command[: command.index("-H") + 2]
    python = command[len(mpirun)]
    folders = [str(root / kind / name / "v1" / part) for kind, part in _SOURCES]
    unset = ("RINGMASTER_RUN=", "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS=0", "PYTHONPATH=")
    variables = {"STOPWATCH": str(root / "stopwatch"), **_THREADS}
    assignments = [f"{name}={value}" for name, value in variables.items()]
    exports = [word for name in variables for word in ("-x", name)]
    argv = ("env", *unset, *assignments, *mpirun[:-4], *exports)
    script = (python, str(root / "bare.py"), *folders, str(epochs), str(batch))
    ready.cluster["node1"].run((*argv, *mpirun[-4:], *script), limit_s=300).check_returncode()


_SOURCES = (("models", "src"), ("loaders", "src"))


def _beyond(step: int) -> Callable[[JobView], bool]:
    return lambda view: view.step > step or not view.state.is_live
