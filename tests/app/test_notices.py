"""Each end is told exactly once (M20)."""

from dataclasses import replace

import pytest

from app.notices import Notices
from backend.records.state import JobState
from backend.records.status import RankError
from tests.app.test_status_poller import LIVE

NEVER = 3_600_000


@pytest.fixture
def told():
    return []


@pytest.fixture
def notices(qapp, told):
    notices = Notices(lambda: True, merge_ms=NEVER)
    notices.told.connect(told.append)
    return notices


@pytest.mark.parametrize("state", [JobState.ERROR, JobState.LOST, JobState.FINISHED])
def test_m20_each_end_state_raises_exactly_one_notice(notices, told, state):
    error = RankError("Rank 1 on this computer was killed by signal 9 (SIGKILL).", 1)
    for _ in range(3):
        notices.see(LIVE)
    for _ in range(3):
        notices.see(replace(LIVE, state=state, error=error))
    assert [notice.title for notice in told] == [f"{state.word}: digits"]


def test_m20_a_stalled_run_is_told_once_while_it_is_stalled(notices, told):
    for _ in range(3):
        notices.see(replace(LIVE, doubt="no news since 14:02"))
    assert [notice.text for notice in told] == ["no news since 14:02"]


def test_m20_a_stop_that_a_person_asked_for_is_no_news(notices, told):
    notices.see(LIVE)
    notices.see(replace(LIVE, state=JobState.INTERRUPTED))
    assert told == []


def test_m20_a_run_that_had_ended_before_the_window_opened_is_no_news(notices, told):
    notices.see(replace(LIVE, state=JobState.ERROR))
    assert told == []


def test_m20_success_can_be_switched_off_and_errors_cannot(qapp, told):
    quiet = Notices(lambda: False, merge_ms=NEVER)
    quiet.told.connect(told.append)
    for state in (JobState.FINISHED, JobState.ERROR):
        quiet.see(LIVE)
        quiet.see(replace(LIVE, state=state))
        quiet._live.discard(("a", 1))
    assert [notice.title for notice in told] == ["Failed: digits"]


def test_m20_ends_close_together_are_merged_into_one(notices, told):
    views = [replace(LIVE, id=name, name=name) for name in "abcd"]
    for view in views:
        notices.see(view)
    for view in views:
        notices.see(replace(view, state=JobState.ERROR))
    assert [notice.title for notice in told] == ["Failed: a"]
    notices.send_waiting()
    assert [notice.title for notice in told] == ["Failed: a", "3 jobs ended"]


def test_m20_a_resumed_run_that_fails_again_is_told_again(notices, told):
    for run in (1, 2):
        notices.see(replace(LIVE, run=run))
        notices.see(replace(LIVE, run=run, state=JobState.ERROR))
        notices.send_waiting()
    assert len(told) == 2
