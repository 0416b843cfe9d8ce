"""Each network trains with the settings of its card, on pictures or rows made here."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from backend.records.jobs.config import JobConfig
from backend.records.jobs.job_file import parse_job
from backend.records.jobs.lr_schedule import learning_rate
from backend.records.library.gallery import GalleryEntry
from backend.records.library.item import Kind
from backend.training.optimizer import make_optimizer
from tests.gallery.figures import SERVICE, build

MODELS = SERVICE.list(Kind.MODEL)
CLASSES, STEPS = 4, 40
LEAST_SIDE = 32
QUICK = ("lenet-5", "mlp", "mlp-numbers")
"""The others take ten seconds and more."""
SMALL_DETECTOR = {"backbone": "resnet-18", "width": 32, "first": 16, "anchor": 16}


def config_of(entry: GalleryEntry) -> JobConfig:
    parts = {"name": "made", "model": "m", "dataset": "d", "loader": "l"}
    placement = [{"node": "this-computer", "processes": 1}]
    parsed = parse_job({**parts, **entry.card.training, "placement": placement})
    assert parsed.errors == ()
    assert parsed.config is not None
    return parsed.config


def settings_of(entry: GalleryEntry) -> dict[str, object]:
    """Return the settings of four classes and small pictures, which are quick to train."""
    settings = entry.card.settings
    if "features" in settings:
        return {"features": 13, **({"classes": CLASSES} if "classes" in settings else {})}
    side = max(LEAST_SIDE, int(settings["side"].minimum or 0))
    detector_settings = SMALL_DETECTOR if entry.card.task == "detection" else {}
    return {"classes": CLASSES, "channels": 3, "side": side, **detector_settings}


def batch_of(settings: dict[str, object], count: int) -> tuple[torch.Tensor, Any]:
    """Return gratings of four directions, bright boxes, or rows around four points, with prices."""
    labels = torch.arange(count) % CLASSES
    if "features" in settings:
        points = torch.randn(CLASSES, 13, generator=torch.Generator().manual_seed(7))
        rows = points[labels] + 0.5 * torch.randn(count, 13)
        # Prices in a currency with many zeros.
        prices = 250_000 + 40_000 * (rows @ points[0])[:, None]
        return rows, labels if "classes" in settings else prices
    side = int(str(settings["side"]))
    if "backbone" in settings:
        pictures, targets = torch.rand(count, 3, side, side) * 0.2, []
        for picture, label in zip(pictures, labels, strict=True):
            left = int(torch.randint(0, side - 32, ()))
            picture[int(label) % 3, 16:32, left : left + 32] = 1.0
            box = torch.tensor([[left, 16.0, left + 32, 32]])
            targets.append({"boxes": box, "labels": label[None]})
        return pictures, targets
    angle = (labels * math.pi / CLASSES)[:, None, None]
    positions = torch.linspace(0, 30, side)
    phase = 6.28 * torch.rand(count, 1, 1)
    wave = torch.sin(positions * torch.cos(angle) + positions[:, None] * torch.sin(angle) + phase)
    noise = 0.1 * torch.randn(count, 3, side, side)
    return (0.5 + 0.25 * wave[:, None] + noise).clamp(0, 1), labels


def test_each_card_of_a_network_brings_all_settings_of_its_training() -> None:
    keys = {"epochs", "batch_size", "gradient_norm", "optimizer"}
    assert [entry.name for entry in MODELS if entry.card.training.keys() != keys] == []


@pytest.mark.parametrize(
    "entry",
    [
        pytest.param(entry, id=entry.name, marks=() if entry.name in QUICK else pytest.mark.slow)
        for entry in MODELS
    ],
)
def test_a_network_trains_with_the_settings_of_its_card(entry: GalleryEntry) -> None:
    torch.manual_seed(1)
    config, settings = config_of(entry), settings_of(entry)
    model: Any = build(entry.name, **settings).train()
    optimizer = make_optimizer(config, model, list(model.parameters()))
    losses = []
    for step in range(STEPS):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(config, STEPS // 2, step)
        data, target = batch_of(settings, config.batch_size)
        loss = model.loss(model(data), target)
        optimizer.zero_grad()
        loss.backward()
        assert config.gradient_norm is not None
        torch.nn.utils.clip_grad_norm_(model.parameters(), config.gradient_norm)
        optimizer.step()
        losses.append(loss.item())
    first, last = sum(losses[:5]) / 5, sum(losses[-5:]) / 5
    assert max(losses) < 3 * losses[0], "it does not diverge, not even for some steps"
    assert last < 0.8 * first
