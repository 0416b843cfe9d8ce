"""Asynchronous training: servers, workers, what they lose and what they keep."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.backend.training.test_resume import assert_bit_equal
from tests.backend.training.training_rig import Training, new_training

SGD = {"name": "sgd", "lr": 0.05, "momentum": 0.9}


def downpour(folder: Path, name: str = "job", *, workers: int = 2, **settings: Any) -> Training:
    strategy = {"name": "downpour", **settings.pop("strategy", {})}
    processes = workers + strategy.get("servers", 1)
    given = {"optimizer": SGD, **settings}
    return new_training(folder, name=name, strategy=strategy, processes=processes, **given)


def test_one_worker_trains_bit_by_bit_as_one_process(tmp_path: Path) -> None:
    settings: dict[str, Any] = {
        "epochs": 2,
        "gradient_norm": 0.5,
        "schedule": {"name": "cosine", "warmup_epochs": 0.5},
    }
    alone = new_training(
        tmp_path, name="alone", processes=1, strategy={"name": "alone"}, **settings
    )
    alone.train_well()
    served = downpour(tmp_path, "served", workers=1, **settings)
    served.train_well()
    assert_bit_equal(alone, served)


@pytest.mark.parametrize("servers", [1, 2])
def test_every_sample_is_taken_once_an_epoch(tmp_path: Path, servers: int) -> None:
    training = downpour(tmp_path, epochs=2, strategy={"servers": servers})
    training.train_well()
    losses = training.curve("loss")
    assert sorted(losses) == list(range(1, 25))
    assert len(training.curve("validation/loss")) == 2
    assert max(training.curve("staleness max").values()) >= 1
