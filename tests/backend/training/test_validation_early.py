"""A validation that cannot work costs no epoch."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.backend.training.training_rig import (
    LOADER,
    MODEL,
    ROOT,
    clean_environment,
    new_training,
)
from tests.waiting import LIMIT_S

IMPATIENT = """
import sys
from backend.training import loop, rank
loop.LOSS_LIMIT_S = 0.0
rank.main(sys.argv[1:])
"""


def failing_model(condition: str) -> str:
    return MODEL.replace(
        "        return self.layers(x)",
        f"        if not self.training and {condition}:\n"
        "            raise ValueError('not in a validation')\n"
        "        return self.layers(x)",
    )


@pytest.mark.parametrize("condition", ["len(x) == 8", "len(x) == 5"], ids=["first", "smallest"])
def test_a_validation_that_fails_is_reported_before_the_first_step(
    tmp_path: Path, condition: str
) -> None:
    training = new_training(
        tmp_path, model=failing_model(condition), processes=1, strategy={"name": "alone"}
    )
    assert training.train() != 0
    assert "not in a validation" in training.error()["sentence"]
    assert training.step() == 0


def test_a_checkpoint_precedes_a_validation_that_fails_in_its_midst(tmp_path: Path) -> None:
    loader = LOADER.replace(
        "        return self.x[index]",
        "        assert not (index == 20 and self.COUNT == 37)\n        return self.x[index]",
    )
    training = new_training(tmp_path, loader=loader, processes=1, strategy={"name": "alone"})
    training.prepare()
    done = subprocess.run(
        [sys.executable, "-c", IMPATIENT, "--job", str(training.folder.path), "--run", "1"],
        cwd=ROOT, env=clean_environment(), capture_output=True, timeout=LIMIT_S, check=False,
    )  # fmt: skip
    assert done.returncode != 0
    assert "item 20" in training.error()["sentence"]
    checkpoint = torch.load(training.latest(), weights_only=True)
    assert (checkpoint["course"]["epoch"], checkpoint["course"]["step"]) == (1, 12)
