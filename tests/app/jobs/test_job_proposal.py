"""A new job begins with parts that fit each other and with the settings of its model.

What the user typed stays, and a part of which nothing is known stays open.
"""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.jobs.job_proposal import DEFAULT_TRAINING, ProposedTraining, fitting_parts, training_of
from backend.records.jobs.state import JobState
from backend.records.library.item import (
    PARTS,
    STUDY_DETAIL,
    TRAINING_DETAIL,
    Combination,
    Kind,
    LibraryItem,
)

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


DAY = "2026-01-{:02}T00:00:00Z"
NAMES = st.sampled_from(["wine", "boxes", "leaf", "resnet-18"])


def item(kind, name, day=1, **details):
    return LibraryItem(kind, name, 1, "0" * 64, 1, 1, DAY.format(day), details=details)


def library(*items):
    return {kind: tuple(i for i in items if i.kind is kind) for kind in PARTS}


def job(model, dataset, loader, day, state=JobState.FINISHED, step=9):
    config = SimpleNamespace(model=f"{model}@1", dataset=f"{dataset}@1", loader=f"{loader}@1")
    return SimpleNamespace(config=config, created=DAY.format(day), state=state, step=step)


GALLERY_MODELS = (
    item(Kind.MODEL, "resnet-18", 4, **{TRAINING_DETAIL: {"epochs": 5}}),
    item(Kind.MODEL, "mlp", 5, **{TRAINING_DETAIL: {"epochs": 5}}),
)
DATA = tuple(item(kind, name) for kind in PARTS[1:] for name in ("wine", "boxes"))
WINE = job("mlp", "wine", "wine", 9)


@pytest.mark.parametrize(
    ("chosen_names", "combinations", "jobs", "expected"),
    [
        ({"dataset": "wine", "loader": "wine"}, (), (), ("", "wine", "wine")),
        (
            {"dataset": "boxes"},
            (Combination("wine", "wine", "mlp"),),
            (WINE,),
            ("", "boxes", "boxes"),
        ),
        ({"dataset": "wine"}, (Combination("wine", "wine", "mlp"),), (), ("mlp", "wine", "wine")),
        ({"model": "mlp"}, (Combination("wine", "wine", "mlp"),), (), ("mlp", "wine", "wine")),
        ({"model": "mlp"}, (), (WINE,), ("mlp", "", "")),
        ({}, (), (WINE,), ("mlp", "wine", "wine")),
        ({}, (), (job("gone", "wine", "wine", 9),), ("", "wine", "wine")),
        ({}, (), (job("mlp", "boxes", "boxes", 9, JobState.ERROR, 0), WINE),
         ("mlp", "wine", "wine")),
        ({}, (), (job("mlp", "wine", "wine", 2),), ("mlp", "", "")),
        ({"dataset": "wine"}, (Combination("wine", "boxes"),), (), ("", "wine", "boxes")),
        ({"loader": "boxes"}, (Combination("wine", "boxes", "gone"),), (), ("", "boxes", "boxes")),
    ],
)  # fmt: skip
def test_only_parts_that_are_known_to_fit_are_proposed(chosen_names, combinations, jobs, expected):
    parts = fitting_parts(chosen_names, library(*GALLERY_MODELS, *DATA), combinations, jobs)
    assert tuple(parts.get(kind.value, "") for kind in PARTS) == expected


def test_the_parts_of_a_study_are_never_proposed():
    study_model = item(Kind.MODEL, "plain-deep-rrelu", 9, **{STUDY_DETAIL: "Activations"})
    items = library(study_model, *DATA)
    jobs = (job("plain-deep-rrelu", "wine", "digits-resized", 9),)
    combinations = (Combination("wine", "wine", "plain-deep-rrelu"),)
    assert fitting_parts({"dataset": "wine"}, items, combinations, jobs).get("model") is None
    assert "model" not in fitting_parts({}, items, combinations, jobs)


def test_code_of_the_user_is_proposed_with_the_only_dataset():
    parts = (item(Kind.MODEL, "net"), item(Kind.DATASET, "cells"), item(Kind.LOADER, "reader"))
    for part in parts:
        proposal = fitting_parts({part.kind.value: part.name}, library(*parts), ())
        assert proposal == {"model": "net", "dataset": "cells", "loader": "reader"}
    with_more = library(*parts, item(Kind.DATASET, "wine"))
    assert fitting_parts({"dataset": "wine"}, with_more, ()) == {"dataset": "wine"}


@given(
    st.fixed_dictionaries({kind: st.sets(NAMES, min_size=2) for kind in PARTS}),
    st.lists(st.builds(Combination, NAMES, NAMES, NAMES)),
    NAMES,
)
def test_each_part_worked_with_the_others_or_has_the_name_of_one(names, combinations, dataset):
    items = {kind: tuple(item(kind, name) for name in names[kind]) for kind in PARTS}
    parts = fitting_parts({"dataset": dataset}, items, combinations)
    assert parts["dataset"] == dataset
    known_sets = [{(k, n) for k, n in vars(t).items() if n} for t in combinations]
    pairs = set(parts.items())
    for key, name in pairs - {("dataset", dataset)}:
        is_namesake = name in [n for k, n in pairs if k != key]
        assert is_namesake or any((key, name) in s <= pairs for s in known_sets)
