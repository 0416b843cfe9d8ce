"""A model brings the settings with which it was seen to train; what the user typed stays."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.jobs.job_proposal import DEFAULT_TRAINING, ProposedTraining, training_of
from backend.records.library.item import TRAINING_DETAIL, Kind, LibraryItem

ADAM = {"epochs": 15, "batch_size": 16, "optimizer": {"name": "adam", "lr": 0.001},
        "gradient_norm": 1.0}  # fmt: skip


def model(name, **details):
    return LibraryItem(Kind.MODEL, name, 1, "0" * 64, 1, 1, "2026-01-01T00:00:00Z", details=details)


MODELS = (model("resnet", **{TRAINING_DETAIL: ADAM}), model("mine"))


def test_a_network_of_the_gallery_brings_its_settings_and_other_code_the_usual_ones():
    assert training_of("resnet", MODELS) == training_of("resnet@1", MODELS) == ADAM
    assert training_of("mine", MODELS) == training_of("gone", MODELS) == DEFAULT_TRAINING


@pytest.mark.parametrize(
    "typed_settings", [{"epochs": 3}, {"optimizer": {"name": "sgd", "lr": 0.2}}]
)
def test_another_model_changes_only_what_the_user_left(typed_settings):
    training = ProposedTraining()
    training.reset({**DEFAULT_TRAINING, "model": "mine"})
    raw = {**DEFAULT_TRAINING, **typed_settings, "model": "resnet"}
    assert training.is_of_other_model(raw)
    changes = training.follow_model(raw, ADAM)
    assert changes == {key: value for key, value in ADAM.items() if key not in typed_settings}
    assert not training.is_of_other_model(raw)
    restored = training.follow_model({**raw, **changes, "model": "mine"}, DEFAULT_TRAINING)
    assert restored == {
        key: value for key, value in DEFAULT_TRAINING.items() if key not in typed_settings
    }


def test_a_loaded_job_keeps_its_settings():
    training = ProposedTraining()
    training.reset({})
    assert not training.is_of_other_model({**ADAM, "model": "mine"})
    assert training.propose_epochs(ADAM, 3) == {}


@given(st.lists(st.integers(1, 400), min_size=1, max_size=5))
def test_few_steps_an_epoch_mean_more_epochs(steps):
    training = ProposedTraining()
    training.reset(ADAM)
    raw = dict(ADAM)
    for steps_per_epoch in steps:
        raw |= training.propose_epochs(raw, steps_per_epoch)
        expected = max(15, math.ceil(15 * 20 / steps_per_epoch))
        assert raw["epochs"] == expected, "it depends on this dataset only"
    assert training.propose_epochs({**raw, "epochs": raw["epochs"] + 1}, 2) == {}, "the user's own"
