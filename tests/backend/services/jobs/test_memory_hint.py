"""New job says when a batch needs more memory than the job's GPUs or node have."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.records.jobs.config import JobConfig, parse_job
from backend.records.library.preview import ModelCheck
from backend.records.nodes.reading import NodeState
from backend.services.jobs.validation import memory_hint
from tests.widgets.nodes import samples

GIB = 1 << 30
LOCAL = {"node": "this-computer", "processes": 1}
GPUS = {"node": "gpu01", "gpus": ["GPU-0", "GPU-1"]}


def config(placement: dict[str, Any], batch_size: int = 32) -> JobConfig:
    parts = {"name": "j", "model": "m", "dataset": "d", "loader": "l", "epochs": 1}
    optimizer = {"name": "sgd", "lr": 0.1}
    raw = {**parts, "optimizer": optimizer, "batch_size": batch_size, "placement": [placement]}
    return parse_job(raw).draft


def state(name: str, memory_bytes: int, gpu_bytes: int = 0) -> NodeState:
    sample_state = samples.state(name, count=2 if gpu_bytes else 0)
    assert sample_state.reading is not None
    gpus = tuple(replace(gpu, memory_total_bytes=gpu_bytes) for gpu in sample_state.reading.gpus)
    reading = replace(sample_state.reading, memory_total_bytes=memory_bytes, gpus=gpus)
    return replace(sample_state, reading=reading)


NODES = {
    "this-computer": state("this-computer", 24 * GIB),
    "gpu01": state("gpu01", 512 * GIB, 16 * GIB),
}


def check(activation_bytes: int | None, parameter_bytes: int = 0) -> ModelCheck:
    return ModelCheck(1, 1, parameter_bytes, activation_bytes=activation_bytes)


@pytest.mark.parametrize(
    ("placement", "trial", "message", "remedy"),
    [
        (LOCAL, check(GIB), "A batch of 32 needs about 32.0 GiB of memory; a process has 24.0 GiB.",
         "Choose 24 or less, or 16 in 2 passes of a step."),
        ({**LOCAL, "processes": 2}, check(GIB // 2),
         "A batch of 32 needs about 16.0 GiB of memory; a process has 12.0 GiB.",
         "Choose 24 or less, or 16 in 2 passes of a step."),
        (GPUS, check(GIB, GIB), "A batch of 32 needs about 34.0 GiB of memory; a process has "
         "16.0 GiB.", "Choose 14 or less."),
        (GPUS, check(GIB, 8 * GIB), "A batch of 32 needs about 48.0 GiB of memory; a process has "
         "16.0 GiB.",
         "Use a smaller model, or the strategy FSDP, whose processes share the weights."),
        (LOCAL, check(GIB, 12 * GIB), "A batch of 32 needs about 56.0 GiB of memory; a "
         "process has 24.0 GiB.", "Use a smaller model."),
        (LOCAL, check(GIB // 2), "", ""),
        (LOCAL, check(None, 9 * GIB), "", ""),
        ({"node": "gone", "processes": 1}, check(99 * GIB), "", ""),
    ],
)  # fmt: skip
def test_the_hint_says_how_much_is_needed_and_what_fits(
    placement: dict[str, Any], trial: ModelCheck, message: str, remedy: str
) -> None:
    hints = memory_hint(config(placement), trial, NODES)
    assert [(hint.message, hint.remedy) for hint in hints] == ([(message, remedy)] * bool(message))
    assert all(not hint.ok for hint in hints)


@given(st.integers(1, 4096), st.integers(1, 4 * GIB), st.integers(0, 8 * GIB))
def test_what_is_said_to_fit_has_no_hint(
    batch_size: int, activation_bytes: int, parameter_bytes: int
) -> None:
    trial = check(activation_bytes, parameter_bytes)
    for hint in memory_hint(config(LOCAL, batch_size), trial, NODES):
        numbers = hint.remedy.replace("\u202f", "").split()
        if numbers[0] == "Choose":
            smaller = int(numbers[1])
            if "passes" in numbers:
                size, passes = int(numbers[5]), int(numbers[7])
                assert size <= smaller
                assert size * passes == batch_size
            assert smaller < batch_size
            assert memory_hint(config(LOCAL, smaller), trial, NODES) == ()
