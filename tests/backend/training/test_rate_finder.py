"""The search for the learning rate proposes one with which the model learns fast."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.records.base.atomic_files import read_json
from backend.records.jobs.launch import Launch
from backend.records.jobs.rate_search import RateSearch, RateStep
from backend.training.rate_finder import FIRST_RATE, LAST_RATE, STEP_COUNT, find_rate, propose_rate
from tests.backend.training.test_not_finite import train_here
from tests.backend.training.training_rig import MODEL, Training, new_training

SINGLE: dict[str, Any] = {"processes": 1, "strategy": {"name": "alone"}}


def search(training: Training) -> RateSearch:
    training.prepare()
    return find_rate(Launch.from_dict(read_json(training.folder.launch)))


@pytest.mark.parametrize("optimizer", ["sgd", "adam", "rmsprop"])
def test_the_proposed_rate_learns_faster_than_its_hundredth(tmp_path: Path, optimizer: str) -> None:
    job = new_training(tmp_path, optimizer={"name": optimizer, "lr": 1.0}, **SINGLE)
    result = search(job)
    assert result.proposal is not None
    losses = []
    for factor in (1, 0.01):
        rate = {"name": optimizer, "lr": result.proposal * factor}
        training = new_training(tmp_path, name=f"rate-{factor}", optimizer=rate, **SINGLE)
        train_here(training)
        losses.append(training.curve("validation/loss")[36])
    assert losses[0] < losses[1]
    assert RateSearch.from_dict(result.to_dict()) == result


def test_the_search_ends_where_the_loss_diverges_and_reports_no_infinity(tmp_path: Path) -> None:
    model = MODEL.replace("nn.functional.cross_entropy(output, target)", "output.pow(8).mean()")
    result = search(new_training(tmp_path, model=model, **SINGLE))
    assert 1 < len(result.steps) < STEP_COUNT
    assert result.steps[0].rate == FIRST_RATE
    assert result.steps[-1].rate < LAST_RATE


def test_a_batch_larger_than_the_data_is_the_data(tmp_path: Path) -> None:
    result = search(new_training(tmp_path, batch_size=5000, **SINGLE))
    assert len(result.steps) > 10


@given(st.lists(st.floats(0.1, 100), max_size=60))
def test_a_proposal_is_below_the_rate_of_the_lowest_loss(losses: list[float]) -> None:
    steps = [RateStep(10**-6 * 1.2**n, loss, loss) for n, loss in enumerate(losses)]
    proposal = propose_rate(steps)
    if proposal is not None:
        lowest = losses.index(min(losses))
        assert proposal == pytest.approx(steps[lowest].rate / 10, rel=0.5)


def test_a_loss_that_never_falls_has_no_proposal() -> None:
    assert propose_rate([RateStep(0.1 * n, float(n), float(n)) for n in range(1, 20)]) is None
