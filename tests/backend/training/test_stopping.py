"""A stop request: all ranks leave after the same step, with a checkpoint."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
import torch

from backend.training.stop_watcher import stop_requested
from tests.backend.training.training_rig import LOADER, MODEL, Training, new_training, pausing_model


def counting_model(tmp_path: Path, sleep_s: float = 0.005) -> str:
    """Return a slow model that writes each step of each rank to a file."""
    return MODEL.replace(
        "return nn.functional",
        "import os, time\n"
        f"        time.sleep({sleep_s})\n"
        "        if self.training:\n"
        f"            with open({str(tmp_path)!r} + '/steps-' "
        "+ os.environ.get('OMPI_COMM_WORLD_RANK', '0'), 'a') as file:\n"
        "                file.write('.')\n"
        "        return nn.functional",
    )


def steps_of(tmp_path: Path, rank: int) -> int:
    path = tmp_path / f"steps-{rank}"
    return len(path.read_text()) if path.exists() else 0


def newest_step(training: Training) -> int:
    return int(torch.load(training.latest(), weights_only=True)["course"]["step"])


@pytest.mark.parametrize(("ranks", "stops"), [(2, 1), pytest.param(4, 3, marks=pytest.mark.slow)])
def test_m08_all_ranks_leave_after_the_same_step(tmp_path: Path, ranks: int, stops: int) -> None:
    training = new_training(
        tmp_path, model=counting_model(tmp_path), epochs=10_000, processes=ranks, batch_size=4
    )
    generator = random.Random(ranks)
    checkpoint = ""
    for _ in range(stops):
        previous_step = newest_step(training) if checkpoint else 0
        goal = previous_step + generator.randrange(1, 40)
        training.train_well(
            resume_from=checkpoint, stop_condition=lambda goal=goal: steps_of(tmp_path, 0) >= goal
        )
        checkpoint = training.latest()
        done = {steps_of(tmp_path, rank) for rank in range(ranks)}
        assert done == {newest_step(training)}
        assert training.status()["state"] == "STOPPING"


def test_f22_a_stop_while_the_job_is_set_up_saves_where_it_is(tmp_path: Path) -> None:
    training = new_training(tmp_path, processes=1, strategy={"name": "alone"})
    training.prepare()
    training.folder.stop_request.touch()
    assert training.start().wait() == 0
    assert Path(training.latest()).name == "epoch-0000-step-000000.pt"
    training.train_well(resume_from=training.latest())
    assert training.step() == 36


def test_a_stop_in_the_validation_does_not_wait_for_its_end(tmp_path: Path) -> None:
    model = pausing_model(MODEL, "self.judged and not self.training")
    training = new_training(
        tmp_path, model=model, loader=LOADER.replace("37, 2", "4000, 2"), epochs=1
    )
    training.train_well(
        stop_condition=lambda: training.status_is("EVALUATING"), **training.pause_environment
    )
    progress = torch.load(training.latest(), weights_only=True)["course"]
    assert (progress["epoch"], progress["step"]) == (1, 6)
    assert training.curve("validation/loss") == {}


@pytest.mark.parametrize(
    ("content", "is_meant"),
    [
        ('{"run": 3}', True),
        ('{"run": 2}', False),
        ("", True),
        ("not json", True),
        ("[1]", True),
        ('{"run": "x"}', True),
    ],
)
def test_a_lock_of_another_run_is_ignored_and_one_made_by_hand_counts(
    tmp_path: Path, content: str, is_meant: bool
) -> None:
    lock = tmp_path / "job.lock"
    assert not stop_requested(lock, 3)
    lock.write_text(content)
    assert stop_requested(lock, 3) is is_meant


def test_a_lock_of_an_earlier_run_does_not_stop_this_one(tmp_path: Path) -> None:
    training = new_training(tmp_path, processes=1, epochs=1, strategy={"name": "alone"})
    training.prepare()
    training.folder.stop_request.write_text(json.dumps({"run": 7}))
    process = training.start()
    assert process.wait() == 0
    assert training.step() == 12
