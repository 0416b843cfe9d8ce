"""The card of an exported model says what it was trained on and how it was measured."""

from __future__ import annotations

from dataclasses import replace

import pytest

from backend.datastore.jobs.files import JobFile
from backend.records.jobs.checkpoint import Checkpoint
from backend.records.jobs.job_file import parse_job
from backend.records.jobs.state import JobState
from backend.records.jobs.view import JobRun
from backend.records.library.item import Pin
from backend.services.jobs.model_card import model_card
from tests.backend.training.training_rig import job

CHECKPOINT = Checkpoint(
    "epoch-0002-step-000040", 1, 2, 40, 0, 0, "d" * 64, "c" * 64, "2026-11-21T07:30:00Z",
    {"loss": 0.25, "validation/accuracy": 0.981234567, "validation/f1": None},
)  # fmt: skip


def job_file(**settings: object) -> JobFile:
    config = parse_job(job(**settings)).config
    assert config is not None
    pins = {"model": Pin("net", 3, "a" * 64), "dataset": Pin("digits", 1, "b" * 64)}
    return JobFile("id", config, pins, "", "anna", "first try", "", ())


def test_the_card_has_parts_hashes_settings_and_metrics() -> None:
    card = model_card(job_file(precision="bfloat16", ema=0.99), CHECKPOINT)
    for text in (
        "# first try: epoch-0002-step-000040",
        f"| Model | net@3, sha256 {'a' * 64} |",
        f"| Dataset | digits@1, sha256 {'b' * 64} |",
        "| Epochs | 2 of 3, step 40 |",
        "| Batch | 16 samples a step |",
        "| Optimizer | sgd, learning rate 0.1 at its peak |",
        "| Precision | bfloat16 |",
        "| Weights | their moving average with decay 0.99 |",
        "| validation/accuracy | 0.981235 |",
        "| validation/f1 | – |",
        "measured after epoch 2",
        f"SHA-256 {'d' * 64}",
    ):
        assert text in card, card


def test_a_hostile_name_ends_no_row_and_is_no_markup() -> None:
    file = replace(job_file(), name="a | b\n| <script> [x](y) `z`")
    title = model_card(file, CHECKPOINT).splitlines()[0]
    assert title.startswith(r"# a \| b \| \<script\> \[x\]\(y\) \`z\`: epoch")


@pytest.mark.parametrize(
    ("metrics", "message"),
    [
        ({"loss": 1.0}, "No validation was measured at this step; the values are of the last"),
        ({}, "No values were measured at step 40, which is within an epoch. `history.csv` has"),
    ],
)
def test_without_a_validation_the_card_says_so(metrics: dict[str, float], message: str) -> None:
    card = model_card(job_file(), replace(CHECKPOINT, metrics=metrics))
    assert message in card
    assert ("## Metrics" in card) is bool(metrics)


def test_the_card_has_what_runs_before_the_checkpoint_changed() -> None:
    file = job_file()
    runs = [JobRun(2, JobState.TRAINING, first_step=30, changes="Learning rate 0.01"),
            JobRun(1, JobState.INTERRUPTED, first_step=1)]  # fmt: skip
    card = model_card(file, replace(CHECKPOINT, config_sha256=file.config.sha256()), runs)
    assert "| Changed in run 2, from step 30 | Learning rate 0.01 |" in card
    assert "Changed in run 1" not in card
    note = "the run of this checkpoint may have had other settings"
    assert note not in card
    assert note in model_card(file, CHECKPOINT)
