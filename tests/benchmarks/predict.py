"""Try it: 10,000 samples, against the evaluation loop that a user would write.

The stopwatch is in the model: from its first forward to the end of its last. Predictions are of a
job's validation set, with table, measures, and samples to show; the bare loop has loss and
accuracy.

The window's tools begin in a process that has PyTorch imported: the time to the first report, after
the first one.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from backend.base.progress import Progress
from backend.records.jobs.checkpoint import Checkpoint
from backend.records.jobs.job_file import parse_job
from backend.records.jobs.launch import Launch
from backend.records.jobs.prediction import Prediction
from backend.services.tools import tool_process
from backend.services.tools.tool_process import run_tool
from tests.benchmarks.figures import Figure

PAIRS, STARTS = 7, 3
_SAMPLES, _BATCH = 10_000, 64
_MODEL = """
import os, time
import torch
from torch import nn
from torch.nn import functional

class UserModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, 16, 3), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3), nn.ReLU(), nn.MaxPool2d(2),
            nn.Flatten(), nn.Linear(800, 10),
        )
        self.began = 0.0
        self.seen = 0
    def forward(self, data):
        self.began = self.began or time.perf_counter()
        return self.layers(data)
    def loss(self, output, target):
        self.seen += len(target)
        # Try it tries some samples first, to learn the form of a batch.
        if self.seen >= 10_000:
            with open(os.environ["STOPWATCH"], "w") as file:
                file.write(str(time.perf_counter() - self.began))
        return functional.cross_entropy(output, target)
    def metrics(self, output, target):
        return {"accuracy": (output.argmax(1) == target).float().mean()}
"""
_LOADER = """
import torch

class UserDataset(torch.utils.data.Dataset):
    def __init__(self, folder):
        made = torch.Generator().manual_seed(1)
        self.pictures = torch.rand(10_000, 1, 28, 28, generator=made)
        self.digits = torch.randint(0, 10, (10_000,), generator=made)
    def __len__(self):
        return len(self.digits)
    def __getitem__(self, index):
        return self.pictures[index], self.digits[index]

class UserValDataset(UserDataset):
    pass
"""
_BARE = """
import importlib.util, os, sys
import torch

# As many threads as ours.
torch.set_num_threads(max(1, os.cpu_count() - round(os.getloadavg()[0])))

def load(folder, name):
    spec = importlib.util.spec_from_file_location(name, f"{folder}/{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module

model = load(sys.argv[1], "bks_model").UserModel()
model.load_state_dict(torch.load(sys.argv[3], weights_only=True)["model"])
model.eval()
dataset = load(sys.argv[2], "bks_dataset").UserValDataset(".")
loss = right = 0.0
with torch.no_grad():
    for data, target in torch.utils.data.DataLoader(dataset, 64):
        output = model(data)
        loss += float(model.loss(output, target)) * len(target)
        right += float(model.metrics(output, target)["accuracy"]) * len(target)
print(loss / len(dataset), right / len(dataset))
"""


def measure() -> list[Figure]:
    own_times: list[tuple[float, float]] = []
    bare_times: list[tuple[float, float]] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        checkpoint = _prepare(folder)
        for number in range(PAIRS):
            for side in ("bare", "ours") if number % 2 else ("ours", "bare"):
                if side == "bare":
                    bare_times.append(_time_bare_loop(folder, checkpoint))
                else:
                    own_times.append(_time_tool(folder, checkpoint))
        start_figure = _measure_starts(folder, checkpoint)
    figures = [start_figure]
    for index, timed_part in enumerate(("samples", "the whole process")):
        ratios = tuple(b[index] / o[index] for b, o in zip(bare_times, own_times, strict=True))
        medians = (
            statistics.median(times[index] for times in side) for side in (bare_times, own_times)
        )
        context = "bare {:.2f} s, ours {:.2f} s for 10,000 samples".format(*medians)
        figures.append(
            Figure(
                "S19",
                f"speed, {timed_part}, ours / bare",
                ratios,
                0.9,
                at_least=True,
                context=context,
            )
        )
    return figures


def _measure_starts(folder: Path, checkpoint: Path) -> Figure:
    """Return how long the tools of the window take until they begin."""
    parts = {part: str(folder / part) for part in ("model", "loader", "dataset")}
    inspection = {**parts, "checkpoint": str(checkpoint), "sample": 0, "batch_size": _BATCH}
    requests = {
        "Try it": ("predict", _request(folder, checkpoint)),
        "Look inside": ("inspect_checkpoint", inspection),
        "layers": ("layers", {**parts, "batch_size": 1}),
        "preview": ("preview", {**parts, "split": "training", "samples": 4}),
    }
    tool_process.start_warm_process()
    try:
        for tool, request in requests.values():
            _seconds_to_start(tool, request)
        start_times = {
            name: [_seconds_to_start(tool, request) for _ in range(STARTS)]
            for name, (tool, request) in requests.items()
        }
    finally:
        tool_process.stop_warm_process()
    values = tuple(value for times in start_times.values() for value in times)
    context = ", ".join(
        f"{name} {statistics.median(times):.2f}" for name, times in start_times.items()
    )
    return Figure("S19", "seconds until a tool begins", values, 0.3, context=context)


def _seconds_to_start(tool: str, request: dict[str, Any]) -> float:
    started_s, reports = time.perf_counter(), _FirstReport()
    run_tool(tool, request, dict, tool, 600.0, reports)
    return reports.time_s - started_s


class _FirstReport(Progress):
    time_s = 0.0

    def report(self, done: float, total: float, step: str) -> None:
        if not self.time_s and step not in ("Starting Python", "Loading PyTorch…"):
            self.time_s = time.perf_counter()


def _prepare(folder: Path) -> Path:
    # Before the first tool: the process that forks them keeps its environment.
    os.environ["STOPWATCH"] = str(folder / "stopwatch")
    for part, file, text in (
        ("model", "bks_model.py", _MODEL),
        ("loader", "bks_dataset.py", _LOADER),
        ("dataset", "README", "The loader makes its own numbers.\n"),
    ):
        (folder / part).mkdir()
        (folder / part / file).write_text(text)
    # Late: this process measures, and needs torch only for the checkpoint.
    import torch

    from backend.training.checkpoint import FORMAT, write_checkpoint
    from backend.training.user_code import load_model

    torch.manual_seed(1)
    state = {
        "format": FORMAT,
        "model": load_model(folder / "model").state_dict(),
        "ranks": [{"buffers": {}}],
    }
    record = Checkpoint("epoch-0001", 1, 1, 8, 0, 0, "", "c" * 64, "2026-11-27T12:00:00Z")
    return Path(write_checkpoint(folder, state, record).path)


def _request(folder: Path, checkpoint: Path) -> dict[str, Any]:
    raw = {
        "name": "p",
        **dict.fromkeys(("model", "dataset", "loader"), "p"),
        "epochs": 1,
        "batch_size": _BATCH,
        "optimizer": {"name": "sgd", "lr": 0.1},
        "placement": [{"node": "this-computer", "processes": 1}],
    }
    config = parse_job(raw).config
    assert config is not None
    parts = (str(folder / part) for part in ("model", "loader", "dataset"))
    return {
        "launch": Launch("job", 1, config, (), *parts).to_dict(),
        "checkpoint": str(checkpoint),
        "table": str(folder / "table.csv"),
    }


def _time_tool(folder: Path, checkpoint: Path) -> tuple[float, float]:
    request = _request(folder, checkpoint)
    started_s = time.perf_counter()
    prediction = run_tool("predict", request, Prediction.from_dict, "The prediction", 600.0)
    process_s = time.perf_counter() - started_s
    assert prediction.sample_count == _SAMPLES
    return float((folder / "stopwatch").read_text()), process_s


def _time_bare_loop(folder: Path, checkpoint: Path) -> tuple[float, float]:
    stopwatch = folder / "stopwatch-bare"
    started_s = time.perf_counter()
    subprocess.run(
        [sys.executable, "-c", _BARE, *map(str, (folder / "model", folder / "loader", checkpoint))],
        env={**os.environ, "STOPWATCH": str(stopwatch)},
        stdout=subprocess.DEVNULL,
        check=True,
    )
    return float(stopwatch.read_text()), time.perf_counter() - started_s
