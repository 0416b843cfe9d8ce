"""P1: what Ringmaster adds to a training step, against the bare script under the same mpirun.

The stopwatch is in the user's model, so both sides are timed by the same code: from its 40th loss
to its last. Ours writes status, history and beats as always; validation and checkpoints are
measured elsewhere.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.backend.training.training_rig import (
    ROOT,
    Training,
    clean_environment,
    mpirun,
    new_training,
)
from tests.benchmarks.figures import Figure

PAIRS = 7
_WARM = 40

MODEL = """
import os, time
import torch
from torch import nn

class UserModel(nn.Module):
    def __init__(self):
        super().__init__()
        width, depth = {width}, {depth}
        layers = [nn.Linear(64, width), nn.ReLU()]
        for _ in range(depth):
            layers += [nn.Linear(width, width), {activation}]
        self.layers = nn.Sequential(*layers, nn.Linear(width, 10))
        self.times = []
    def forward(self, x):
        return self.layers(x)
    def loss(self, output, target):
        self.times.append(time.perf_counter())
        if len(self.times) == {steps} and os.environ.get("OMPI_COMM_WORLD_RANK", "0") == "0":
            spent = self.times[-1] - self.times[{warm}]
            with open(os.environ["STOPWATCH"], "w") as file:
                file.write(str(spent / ({steps} - 1 - {warm})))
        return nn.functional.cross_entropy(output, target)
"""

LOADER = """
import torch
from torch.utils.data import Dataset

class UserDataset(Dataset):
    def __init__(self, path):
        generator = torch.Generator().manual_seed(1)
        self.x = torch.randn({count}, 64, generator=generator)
        self.y = torch.randint(0, 10, ({count},), generator=generator)
    def __len__(self):
        return {count}
    def __getitem__(self, index):
        return self.x[index], self.y[index]
"""

# A bare script left to itself takes all cores for each rank and is half as fast as it could be.
_THREADS = {"OMP_NUM_THREADS": str(max(1, len(os.sched_getaffinity(0)) // 2))}
_BATCH = 32
_STEPS_PER_EPOCH = 100


def measure() -> list[Figure]:
    figures = []
    for name, width, depth, epochs in (("10 ms", 352, 8, 3), ("tiny", 16, 1, 10)):
        bare_times, own_times = pairs(width, depth, epochs)
        context = (
            f"{name}: bare {statistics.median(bare_times) * 1e3:.2f} ms, "
            f"ours {statistics.median(own_times) * 1e3:.2f} ms a step"
        )
        added_ms = tuple((o - b) * 1e3 for b, o in zip(bare_times, own_times, strict=True))
        if name == "10 ms":
            ratios = tuple(o / b for b, o in zip(bare_times, own_times, strict=True))
            figures.append(Figure("P1", "step, ours / bare", ratios, 1.01, context=context))
        figures.append(Figure("P1", f"added, {name}", added_ms, 0.1, "ms", context=context))
    return figures


def pairs(
    width: int, depth: int, epochs: int, strategy: str = "allreduce"
) -> tuple[list[float], list[float]]:
    """Return the seconds of a step of the bare script and of ours, in pairs."""
    steps = epochs * _STEPS_PER_EPOCH
    model = MODEL.format(width=width, depth=depth, activation="nn.ReLU()", steps=steps, warm=_WARM)
    loader = LOADER.format(count=_STEPS_PER_EPOCH * _BATCH * 2)
    bare_times: list[float] = []
    own_times: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        for number in range(PAIRS):
            training = new_training(
                Path(folder),
                model=model,
                loader=loader,
                name=f"job-{number}",
                epochs=epochs,
                batch_size=_BATCH,
                optimizer={"name": "sgd", "lr": 0.005, "momentum": 0.9},
                checkpoint={"every_epochs": 1000},
                strategy={"name": strategy},
            )
            # Which goes first alternates, so that a machine that slows down favours neither.
            for side in ("bare", "ours") if number % 2 else ("ours", "bare"):
                if side == "bare":
                    bare_times.append(_bare_step_s(training, epochs))
                else:
                    own_times.append(_job_step_s(training))
    return bare_times, own_times


def _job_step_s(training: Training) -> float:
    stopwatch = training.folder.path / "stopwatch"
    training.train_well(STOPWATCH=str(stopwatch), **_THREADS)
    return float(stopwatch.read_text())


def _bare_step_s(training: Training, epochs: int) -> float:
    stopwatch = training.folder.path / "stopwatch-bare"
    command = [*mpirun(2), sys.executable, str(Path(__file__).with_name("bare_script.py"))]
    command += [str(training.sources / "model"), str(training.sources / "loader")]
    command += [str(epochs), str(_BATCH)]
    if training.config.strategy.name == "ddp":
        command.append(str(training.folder.path / "rendezvous"))
    subprocess.run(
        command,
        cwd=ROOT,
        env=clean_environment(STOPWATCH=str(stopwatch), **_THREADS),
        check=True,
    )
    return float(stopwatch.read_text())
