"""A fault at night raises an alarm at its step, and good weights stay (S12)."""

from __future__ import annotations

import math
import random
from pathlib import Path

import pytest
import torch

from backend.records.base.layout import JobFolder
from backend.records.jobs.checkpoint import Checkpoint, retired_checkpoints
from backend.records.jobs.config import CheckpointPolicy
from backend.records.jobs.state import JobState
from backend.records.jobs.status import DIVERGED, LOSS_DIVERGED, NOT_A_NUMBER, STANDSTILL, RunStatus
from backend.training.alerts import WINDOW, DivergenceWatch, StandstillWatch
from tests.backend.training.test_reporter import WatchedReporter, step
from tests.backend.training.training_rig import LOADER, MODEL, new_training

LONG = LOADER.replace("COUNT, SEED = 96, 1", "COUNT, SEED = 1600, 1")


def spoiled_model(condition: str, factor: str) -> str:
    """Return the model with a loss that changes at a step of its training."""
    return MODEL.replace(
        "return nn.functional.cross_entropy(output, target)",
        "import os\n"
        "        self.steps = getattr(self, 'steps', 0) + self.training\n"
        "        loss = nn.functional.cross_entropy(output, target)\n"
        f"        return loss * float('{factor}') if self.training and {condition} else loss",
    )


def test_s12_nan_at_step_500_is_an_alarm_at_that_step_and_the_checkpoint_is_older(
    tmp_path: Path,
) -> None:
    faulty_model = spoiled_model("self.steps == 500", "nan")
    training = new_training(
        tmp_path,
        model=faulty_model,
        loader=LONG,
        processes=1,
        strategy={"name": "alone"},
        epochs=3,
        checkpoint={"every_steps": 100, "keep_latest": 2},
    )
    assert training.train() != 0
    status = RunStatus.from_dict(training.status())
    assert [(alarm.kind, alarm.step) for alarm in status.alarms] == [(NOT_A_NUMBER, 500)]
    assert training.history()[-1]["totalIter"] == 500, "not one step more"
    assert Path(training.latest()).stem.endswith("step-000400")
    weights = torch.load(training.latest(), weights_only=True)["model"]
    assert all(torch.isfinite(tensor).all() for tensor in weights.values())


def test_s12_a_divergence_ends_the_job_and_the_good_weights_stay(tmp_path: Path) -> None:
    training = new_training(
        tmp_path,
        model=spoiled_model("self.steps > 150", "40"),
        loader=LONG,
        processes=1,
        strategy={"name": "alone"},
        epochs=3,
        stop_on_divergence=True,
        checkpoint={"every_steps": 5, "keep_latest": 1, "keep_best": 0},
    )
    assert training.train() == 1
    status = RunStatus.from_dict(training.status())
    (alarm,) = status.alarms
    assert (alarm.kind, 150 < alarm.step <= 150 + WINDOW) == (DIVERGED, True)
    message, remedy = training.error()["sentence"], training.error()["remedy"]
    assert training.error()["cause"] == LOSS_DIVERGED
    assert message.startswith("The loss is ")
    assert "times its best" in message
    checkpoint_names = [path.stem for path in sorted(training.folder.checkpoints.glob("*.pt"))]
    # The newest may still have been under way when the sentence was made.
    sound_names = [name for name in checkpoint_names if int(name[-6:]) <= 150]
    assert any(f"step {int(name[-6:])}." in remedy for name in sound_names)
    sound_step = training.error()["sound_step"]
    assert 100 < sound_step <= 150
    assert (
        f"step {max(int(name[-6:]) for name in checkpoint_names if int(name[-6:]) <= sound_step)}."
        in remedy
    )


def alarm_steps(losses: list[float]) -> list[int]:
    watch = DivergenceWatch()
    alarms = (watch.add(number, loss) for number, loss in enumerate(losses, 1))
    return [alarm.step for alarm in alarms if alarm is not None]


def test_s12_noise_outliers_and_losses_below_zero_are_no_divergence() -> None:
    noise = random.Random(7)
    falling_losses = [2.3 * math.exp(-n / 300) * noise.uniform(0.5, 1.5) for n in range(3000)]
    assert alarm_steps(falling_losses) == []
    spiky_losses = [100.0 if n % 40 == 0 else loss for n, loss in enumerate(falling_losses)]
    assert alarm_steps(spiky_losses) == []
    small_losses = [2.3] * 100 + [noise.choice((1e-6, 1e-4)) for _ in range(1000)]
    assert alarm_steps(small_losses) == []
    assert alarm_steps([noise.gauss(0, 1) for _ in range(1000)]) == []
    assert alarm_steps([math.nan] * 200) == []


def test_s12_a_rise_raises_one_alarm_and_another_after_it_has_come_back() -> None:
    low_losses, high_losses = [1.0] * 100, [5.0] * 100
    first, second = alarm_steps(low_losses + high_losses + low_losses + high_losses)
    assert 100 < first <= 100 + WINDOW
    assert 300 < second <= 300 + WINDOW


def test_s12_a_checkpoint_from_before_the_rise_is_kept_and_the_one_that_may_be_next() -> None:
    checkpoints = [
        Checkpoint(f"step-{n}", 1, 1, n, n, 1, "", "", "", reason="policy") for n in range(5, 60, 5)
    ]
    policy = CheckpointPolicy(keep_latest=2, keep_best=0)
    retired_steps = {checkpoint.step for checkpoint in retired_checkpoints(checkpoints, policy, 37)}
    assert {c.step for c in checkpoints} - retired_steps == {35, 40, 50, 55}


def test_s12_no_step_for_ten_times_the_usual_is_a_standstill_until_one_comes() -> None:
    now = 0.0
    watch = StandstillWatch(min_patience_s=45, monotonic=lambda: now)
    assert watch.check(0) is None, "it is unknown yet how long a step takes"
    watch.add_steps([6.0, 6.2, 5.8])
    now += 59
    assert watch.check(3) is None
    now += 3
    alarm = watch.check(3)
    assert alarm is not None
    assert (
        alarm.message
        == "No step since step 3; a step takes 6 s, and this one has taken more than 60 s."
    )
    watch.add_progress()
    assert watch.check(3) is None


@pytest.mark.parametrize("state", [JobState.TRAINING, JobState.EVALUATING])
def test_s12_a_standstill_is_in_the_status_while_the_job_trains_and_only_then(
    tmp_path: Path, state: JobState
) -> None:
    folder = JobFolder(tmp_path / "job")
    folder.path.mkdir()
    reporter = WatchedReporter(folder)
    now = 0.0
    reporter._standstill = StandstillWatch(min_patience_s=45, monotonic=lambda: now)
    reporter.plan(step=0, epoch=1, total_steps=100, steps_per_epoch=50)
    reporter.set_state(state)

    def status() -> RunStatus:
        from backend.records.base.atomic_files import read_json

        return RunStatus.from_dict(read_json(folder.status))

    reporter.add_step(step(1))
    reporter.wait_for(lambda: folder.status.exists() and status().step == 1)
    now = 50.0
    beat = status().heartbeat
    reporter.wait_for(lambda: status().heartbeat > beat + 1)
    kinds = [alarm.kind for alarm in status().alarms]
    assert kinds == ([STANDSTILL] if state is JobState.TRAINING else [])
    reporter.add_step(step(2))
    reporter.wait_for(lambda: status().step == 2)
    assert status().alarms == ()
    reporter.close()
