"""The options of allreduce: compression and the way gradients are reduced."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from backend.base.errors import BackendError
from backend.records.jobs.config import StrategyConfig
from backend.training.strategies.allreduce import AllReduce
from tests.backend.training.training_rig import new_training


def weights(folder: Path, job: str, **strategy: str) -> dict[str, torch.Tensor]:
    training = new_training(folder, name=job, epochs=1, strategy={"name": "allreduce"} | strategy)
    training.train_well()
    losses = list(training.curve("loss").values())
    assert losses[-1] < losses[0]
    state: dict[str, Any] = torch.load(training.latest(), weights_only=True)
    return {name: tensor for name, tensor in state["model"].items() if "layers" in name}


@pytest.mark.parametrize(
    ("strategy", "compression", "tolerance"),
    [
        ("allreduce", "fp16", 5e-3),
        ("ddp", "bfloat16", 3e-2),
        pytest.param("ddp", "fp16", 5e-3, marks=pytest.mark.slow),
    ],
)
def test_sixteen_bits_train_nearly_as_thirty_two(
    tmp_path: Path, strategy: str, compression: str, tolerance: float
) -> None:
    full_weights = weights(tmp_path, "whole", name=strategy)
    half_weights = weights(tmp_path, "half", name=strategy, compression=compression)
    assert any(not torch.equal(half_weights[name], tensor) for name, tensor in full_weights.items())
    for name, tensor in full_weights.items():
        torch.testing.assert_close(
            half_weights[name], tensor, rtol=tolerance, atol=tolerance, check_dtype=False
        )


def test_adasum_trains_otherwise_than_the_mean(tmp_path: Path) -> None:
    mean, adasum = weights(tmp_path, "mean"), weights(tmp_path, "adasum", reduction="adasum")
    assert any(not torch.allclose(adasum[name], tensor, atol=1e-3) for name, tensor in mean.items())


def test_a_reduction_that_the_build_lacks_is_refused_by_name() -> None:
    import horovod.torch

    if horovod.torch.nccl_built():
        pytest.fail("this test is for a build without NCCL")
    config = StrategyConfig("allreduce", settings={"reduction": "hierarchical"})
    with pytest.raises(BackendError, match="built without NCCL"):
        AllReduce(config).load()
