"""The states of a job: each has its words, and is live, over or waits."""

from __future__ import annotations

import pytest

from backend.records.jobs.state import JobState

LIVE = {
    JobState.STARTING,
    JobState.SETUP,
    JobState.TRAINING,
    JobState.EVALUATING,
    JobState.SAVING,
    JobState.STOPPING,
}
ENDED_STATES = {JobState.INTERRUPTED, JobState.FINISHED, JobState.ERROR, JobState.LOST}


@pytest.mark.parametrize("state", JobState)
def test_every_state_has_words_and_a_colour(state: JobState) -> None:
    assert state.label
    assert state.explanation
    assert state.color_role in {"idle", "live", "warn", "rest", "good", "bad"}


def test_a_state_is_live_or_over_or_waits() -> None:
    for state in JobState:
        assert (state.is_live, state.is_over) == (state in LIVE, state in ENDED_STATES)


@pytest.mark.parametrize("state", JobState)
def test_exactly_the_failed_states_are_red(state: JobState) -> None:
    assert state.has_failed == (state.color_role == "bad")
