"""P5: how long a checkpoint holds up the training, against torch.save and fsync of the same state.

The first save of a run pays for fresh memory and is measured apart; the goal is for the others.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from backend.records.base.layout import JobFolder
from backend.records.jobs.config import CheckpointPolicy
from backend.training.checkpoint import FORMAT, Checkpointer
from tests.benchmarks.figures import Figure

PAIRS = 7
_MEGABYTES = 128


def measure() -> list[Figure]:
    # As a rank has it that shares the cores with another.
    torch.set_num_threads(max(1, len(os.sched_getaffinity(0)) // 2))
    weights = {f"layer-{n}": torch.randn(1024, 1024) for n in range(_MEGABYTES // 4)}
    state = {"format": FORMAT, "model": weights}
    ratios = []
    with tempfile.TemporaryDirectory() as folder:
        job = JobFolder(Path(folder) / "job")
        writer = Checkpointer(job, 1, CheckpointPolicy(), "")
        first_s = _stall(writer, state, 0)
        stalls, plain_times = [], []
        for number in range(1, PAIRS + 1):
            plain_times.append(_save_plainly(Path(folder) / "plain.pt", state))
            stalls.append(_stall(writer, state, number))
            ratios.append(stalls[-1] / plain_times[-1])
    context = (
        f"{_MEGABYTES} MB: plain {statistics.median(plain_times) * 1e3:.0f} ms, stall "
        f"{statistics.median(stalls) * 1e3:.0f} ms, the first {first_s * 1e3:.0f} ms"
    )
    return [Figure("P5", "stall / torch.save + fsync", tuple(ratios), 0.25, context=context)]


def _save_plainly(path: Path, state: Any) -> float:
    started_s = time.perf_counter()
    with path.open("wb") as file:
        torch.save(state, file)
        file.flush()
        os.fsync(file.fileno())
    return time.perf_counter() - started_s


def _stall(writer: Checkpointer, state: Any, number: int) -> float:
    """Until the training may go on; the writing is waited for outside of the figure."""
    started_s = time.perf_counter()
    writer.save(state, epoch=number, step=number, epoch_step=0, metrics={}, reason="policy")
    stall_s = time.perf_counter() - started_s
    writer.wait()
    return stall_s
