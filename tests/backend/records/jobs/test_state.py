"""The one table of states: what may follow what."""

from __future__ import annotations

import pytest

from backend.records.jobs.state import TRANSITIONS, JobState

LIVE = {
    JobState.STARTING,
    JobState.SETUP,
    JobState.TRAINING,
    JobState.EVALUATING,
    JobState.SAVING,
    JobState.STOPPING,
}
OVER = {JobState.INTERRUPTED, JobState.FINISHED, JobState.ERROR, JobState.LOST}


@pytest.mark.parametrize("state", JobState)
def test_every_state_has_words_a_colour_and_a_way_on(state: JobState) -> None:
    assert state.word
    assert state.explanation
    assert state.family in {"idle", "live", "warn", "rest", "good", "bad"}
    assert TRANSITIONS[state], "a dead end"
    assert not state.may_become(state) or state in LIVE


def test_a_state_is_live_or_over_or_waits() -> None:
    for state in JobState:
        assert (state.is_live, state.is_over) == (state in LIVE, state in OVER)


@pytest.mark.parametrize("state", JobState)
def test_what_has_failed_is_what_people_see_in_red(state: JobState) -> None:
    assert state.has_failed == (state.family == "bad")


@pytest.mark.parametrize("state", JobState)
def test_whatever_is_live_can_fail_be_stopped_and_get_lost(state: JobState) -> None:
    if state.is_live:
        for end in (JobState.ERROR, JobState.INTERRUPTED, JobState.LOST):
            assert state.may_become(end)


@pytest.mark.parametrize("state", JobState)
def test_a_run_begins_only_with_starting(state: JobState) -> None:
    for following in TRANSITIONS[state]:
        if following.is_live and not state.is_live and state is not JobState.LOST:
            assert following is JobState.STARTING


def test_nothing_finishes_before_it_is_set_up() -> None:
    assert not JobState.STARTING.may_become(JobState.FINISHED)
    assert not JobState.CREATED.may_become(JobState.TRAINING)


def test_the_last_word_stands_until_a_person_acts() -> None:
    for state in (JobState.FINISHED, JobState.ERROR, JobState.INTERRUPTED):
        assert TRANSITIONS[state] == {JobState.QUEUED, JobState.STARTING}


def test_a_stop_that_comes_with_the_last_step_finds_the_job_finished() -> None:
    assert JobState.STOPPING.may_become(JobState.FINISHED)
    assert not JobState.STOPPING.may_become(JobState.TRAINING)
