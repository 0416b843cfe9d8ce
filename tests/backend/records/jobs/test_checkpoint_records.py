"""The checkpoint from which a job resumes by default."""

from __future__ import annotations

import pytest

from backend.records.jobs.checkpoint import Checkpoint, checkpoint_to_resume


@pytest.mark.parametrize(
    ("steps", "latest", "sound_step", "expected_step"),
    [
        ((10, 20, 30), 30, None, 30),
        ((10, 20, 30), 10, None, 10),
        ((10, 20, 30), 30, 29, 20),
        ((10, 20, 30), 30, 20, 20),
        ((10, 20, 30), 30, 30, 30),
        ((10, 20, 30), 30, 5, 30),
        ((10, 20, 30), 10, 25, 20),
        ((10, 20), 0, None, 20),
        ((), 0, 7, None),
    ],
)
def test_a_resume_after_a_rising_loss_takes_the_newest_checkpoint_before_it(
    steps: tuple[int, ...], latest: int, sound_step: int | None, expected_step: int | None
) -> None:
    checkpoints = [
        Checkpoint("c", 1, 1, step, step, 1, "", "", "", is_latest=step == latest) for step in steps
    ]
    checkpoint = checkpoint_to_resume(checkpoints, sound_step)
    assert (checkpoint.step if checkpoint is not None else None) == expected_step
