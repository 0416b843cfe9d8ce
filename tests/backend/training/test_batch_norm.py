"""Batch normalization over the batches of all ranks is that of one batch of all samples."""

from __future__ import annotations

import copy
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from backend.base.errors import BackendError
from backend.training.batch_norm import synchronize_norms
from tests.backend.training.training_rig import MODEL, new_training
from tests.waiting import LIMIT_S


class Ranks:
    """Two ranks as threads, which average what they have."""

    world_size = 2

    def __init__(self) -> None:
        self._barrier = threading.Barrier(2, timeout=LIMIT_S)
        self._sent: dict[int, torch.Tensor] = {}

    def average_now(self, values: torch.Tensor, name: str) -> None:
        self._sent[threading.get_ident()] = values.clone()
        self._barrier.wait()
        mean = torch.stack(list(self._sent.values())).mean(0)
        self._barrier.wait()
        values.copy_(mean)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("momentum", [0.1, None])
def test_outputs_gradients_and_running_means_are_those_of_one_batch(
    dtype: torch.dtype, momentum: float | None
) -> None:
    torch.manual_seed(1)
    whole = nn.Sequential(nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3, momentum=momentum), nn.Tanh())
    pictures = torch.randn(8, 2, 6, 6) * torch.linspace(0.1, 3, 8).view(8, 1, 1, 1) + 100
    parts: list[nn.Module] = [copy.deepcopy(whole) for _ in range(2)]
    ranks: Any = Ranks()
    for part in parts:
        synchronize_norms(part, ranks)

    def train(model: nn.Module, batch: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", dtype, enabled=dtype != torch.float32):
            output: torch.Tensor = model(batch)
        torch.autograd.backward(output.float().square().mean())
        return output.detach()

    expected = train(whole, pictures)
    with ThreadPoolExecutor(2) as pool:
        outputs = list(pool.map(train, parts, pictures.chunk(2)))
    rtol, atol = (1e-3, 1e-4) if dtype == torch.float32 else (0.0, 0.1)
    assert torch.allclose(torch.cat(outputs).float(), expected.float(), rtol, atol)
    gradients = [[parameter.grad for parameter in part.parameters()] for part in parts]
    for parameter, *rank_gradients in zip(whole.parameters(), *gradients, strict=True):
        mean = sum(gradient for gradient in rank_gradients if gradient is not None) / 2
        assert torch.allclose(mean, parameter.grad, rtol, atol)
    for name, buffer in whole.named_buffers():
        for part in parts:
            assert torch.allclose(dict(part.named_buffers())[name], buffer, rtol=1e-2), name
    whole.eval()
    parts[0].eval()
    assert torch.allclose(parts[0](pictures), whole(pictures), atol=1e-2)


def test_a_model_without_batch_normalization_is_refused() -> None:
    ranks: Any = SimpleNamespace(world_size=2)
    with pytest.raises(BackendError, match="no batch normalization"):
        synchronize_norms(nn.Linear(2, 2), ranks)


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["ddp", "allreduce"])
def test_two_processes_train_as_one_with_a_batch_of_both(tmp_path: Path, strategy: str) -> None:
    model = MODEL.replace("0.2", "0.0")
    synchronized = {"name": strategy, "lr_scaling": "none", "sync_batch_norm": True}
    jobs: dict[str, dict[str, Any]] = {
        "one": {"strategy": {"name": "alone"}, "processes": 1, "batch_size": 16},
        "two": {"strategy": synchronized},
        "two of their own": {"strategy": {**synchronized, "sync_batch_norm": False}},
    }
    losses = {}
    for name, settings in jobs.items():
        job = new_training(tmp_path, model=model, name=name, **settings)
        job.train_well()
        losses[name] = job.curve("loss")
    assert losses["two"] == pytest.approx(losses["one"], rel=1e-3)
    assert losses["two of their own"] != pytest.approx(losses["one"], rel=1e-3)
