"""What nobody may have seen is told, each thing exactly once (M20)."""

from dataclasses import replace

import pytest

from app.notice_book import KEPT, NoticeBook
from app.notices import Notice, Notices
from backend.records.alarm import DIVERGED, STANDSTILL, Alarm
from backend.records.node import NodeState, Presence
from backend.records.state import JobState
from backend.records.status import RankError
from tests.app.test_status_poller import LIVE

NEVER = 3_600_000
ON_GPU07 = RankError("Rank 1 on gpu07 was killed.", 1, "gpu07")


@pytest.fixture
def told():
    return []


@pytest.fixture
def notices(qapp, told):
    notices = Notices(lambda: True, merge_ms=NEVER)
    notices.told.connect(told.append)
    return notices


def titles(told):
    return [notice.title for notice in told]


@pytest.mark.parametrize("state", [JobState.ERROR, JobState.LOST, JobState.FINISHED])
def test_m20_each_end_state_raises_exactly_one_notice(notices, told, state):
    error = RankError("Rank 1 on this computer was killed by signal 9 (SIGKILL).", 1)
    for _ in range(3):
        notices.see(LIVE)
    for _ in range(3):
        notices.see(replace(LIVE, state=state, error=error))
    notices.send_waiting()
    assert titles(told) == [f"{state.word}: digits"]


def test_m20_a_stalled_run_is_told_once_while_it_is_stalled(notices, told):
    for _ in range(3):
        notices.see(replace(LIVE, doubt="no news since 14:02"))
    notices.send_waiting()
    assert [notice.text for notice in told] == ["No news since 14:02"]


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
    for run, state in enumerate((JobState.FINISHED, JobState.ERROR)):
        quiet.see(replace(LIVE, run=run))
        quiet.see(replace(LIVE, run=run, state=state))
    assert titles(told) == ["Failed: digits"]


@pytest.mark.parametrize(
    ("states", "nodes", "title"),
    [
        ((JobState.ERROR,) * 3, ("gpu07",) * 3, "3 jobs failed on gpu07"),
        ((JobState.ERROR,) * 2, ("gpu07", "gpu08"), "2 jobs failed"),
        ((JobState.LOST,) * 2, ("", ""), "2 jobs are lost"),
        ((JobState.FINISHED,) * 3, ("",) * 3, "3 jobs finished"),
        ((JobState.FINISHED, JobState.ERROR), ("", "gpu07"), "2 notices"),
    ],
)
def test_m20_what_comes_close_together_is_merged_into_one(notices, told, states, nodes, title):
    first = replace(LIVE, id="first", name="first")
    views = [replace(LIVE, id=f"{n}", name=f"job {n}") for n in range(len(states))]
    for view in (first, *views):
        notices.see(view)
    notices.see(replace(first, state=JobState.ERROR))
    for view, state, node in zip(views, states, nodes, strict=True):
        error = replace(ON_GPU07, node=node) if node else None
        notices.see(replace(view, state=state, error=error))
    assert titles(told) == ["Failed: first"]
    notices.send_waiting()
    assert titles(told) == ["Failed: first", title]
    assert told[1].node == ("gpu07" if title.endswith("gpu07") else "")
    assert told[1].job_id == ""
    assert "job 0" in told[1].text
    notices.send_waiting()
    assert len(told) == 2


def test_m20_a_resumed_run_that_fails_again_is_told_again(notices, told):
    for run in (1, 2):
        notices.see(replace(LIVE, run=run))
        notices.see(replace(LIVE, run=run, state=JobState.ERROR))
        notices.send_waiting()
    assert len(told) == 2


def test_s12_an_alarm_is_told_once_and_the_end_that_it_brings_by_itself(notices, told):
    alarm = Alarm(DIVERGED, 412, "The loss is at 9.31, 4.2 times its best (2.2 at step 390).")
    for _ in range(3):
        notices.see(replace(LIVE, alarms=(alarm,)))
    assert titles(told) == ["Diverges: digits"]
    assert told[0].text == alarm.sentence
    still = Alarm(STANDSTILL, 500, "No step since step 500.")
    notices.see(replace(LIVE, alarms=(alarm, still)))
    notices.send_waiting()
    assert titles(told)[1:] == ["Stands still: digits"]
    notices.see(replace(LIVE, state=JobState.ERROR, alarms=(alarm, replace(still, step=510))))
    notices.send_waiting()
    assert titles(told)[2:] == ["Failed: digits"]


def test_a_node_that_goes_offline_with_a_job_on_it_is_told_once_for_each_time(notices, told):
    here = LIVE.nodes[0]
    away = (NodeState(here, Presence.OFFLINE), NodeState("idle", Presence.OFFLINE))
    notices.see_nodes(away)
    assert told == [], "nobody's job is on it"
    notices.see(LIVE)
    for _ in range(3):
        notices.see_nodes(away)
        notices.send_waiting()
    assert titles(told) == [f"Offline: {here}"]
    assert (told[0].node, told[0].text) == (here, "digits runs there.")
    notices.see_nodes((NodeState(here, Presence.ONLINE),))
    notices.see_nodes(away)
    notices.send_waiting()
    assert len(told) == 2


def test_notices_are_remembered_with_how_many_nobody_has_looked_at(tmp_path, notices, told):
    place = tmp_path / "own" / "notices.json"
    book = NoticeBook(place)
    notices.see(LIVE)
    notices.see(replace(LIVE, state=JobState.ERROR, error=ON_GPU07))
    for _ in range(KEPT + 5):
        book.add(told[0])
    book.save()
    assert place.stat().st_mode & 0o777 == 0o600
    again = NoticeBook(place)
    assert (again.unread, len(again.past)) == (KEPT, KEPT)
    assert again.past[0] == told[0]
    assert again.read_all()
    assert not again.read_all()
    again.save()
    assert NoticeBook(place).unread == 0


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", '{"notices": 7}', '{"notices": [7]}', '{"notices": [{"title": 1}]}'],
)
def test_a_damaged_list_of_notices_costs_only_the_list(tmp_path, content):
    place = tmp_path / "notices.json"
    place.write_text(content)
    book = NoticeBook(place)
    assert (book.past, book.unread) == ((), 0)


def test_a_notice_comes_back_as_it_was(notices, told):
    notices.see(replace(LIVE, name="ünï <b>"))
    notices.see(replace(LIVE, name="ünï <b>", state=JobState.ERROR, error=ON_GPU07))
    assert Notice.from_dict(told[0].to_dict()) == told[0]
