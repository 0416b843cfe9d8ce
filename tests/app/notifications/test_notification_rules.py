"""Events that the user may not have seen are reported, each exactly once (M20)."""

import json
from dataclasses import replace
from datetime import datetime
from functools import partial
from types import SimpleNamespace

import pytest

from app.notifications.notification_center import NotificationCenter
from app.notifications.notification_rules import Notice, NotificationRules
from app.notifications.notification_store import MAX_NOTICES, NotificationStore
from backend.records.jobs.state import JobState
from backend.records.jobs.status import (
    DIVERGED,
    NOT_A_NUMBER,
    STANDSTILL,
    Alarm,
    Continuation,
    RankError,
)
from backend.records.jobs.summary import JobListing, summary_of
from backend.records.nodes.reading import NodeState, Presence
from tests.app.jobs.test_status_poller import LIVE
from tests.job_views import replace_fields
from widgets.shell.main_window import MainWindow

NEVER = 3_600_000
ON_GPU07 = RankError("Rank 1 on gpu07 was killed.", 1, "gpu07")


@pytest.fixture
def received_notices():
    return []


@pytest.fixture
def notices(qapp, received_notices):
    notices = NotificationRules(lambda: True, merge_ms=NEVER)
    notices.notified.connect(received_notices.append)
    return notices


def titles(notices):
    return [notice.title for notice in notices]


@pytest.mark.parametrize("state", [JobState.ERROR, JobState.LOST, JobState.FINISHED])
def test_m20_each_end_state_raises_exactly_one_notification(notices, received_notices, state):
    error = RankError("Rank 1 on this computer was killed by signal 9 (SIGKILL).", 1)
    for _ in range(3):
        notices.see_view(LIVE)
    for _ in range(3):
        notices.see_view(replace_fields(LIVE, state=state, error=error))
    notices.send_held_events()
    assert titles(received_notices) == [f"{state.label}: digits"]


def sweep_job(number, state, tags=("sweep:lr-1234",)):
    """Job n of a sweep."""
    config = replace(LIVE.config, tags=tags)
    job = replace(LIVE, id=f"job-{number}", name=f"lr lr=0.{number}", config=config)
    return replace_fields(job, state=state)


def live_through(notices, *listings):
    for listing in listings:
        notices.see_queue(listing)
        for view in listing:
            notices.see_view(view)
    notices.send_held_events()


TRAINING, QUEUED, FINISHED = JobState.TRAINING, JobState.QUEUED, JobState.FINISHED


def test_the_successes_of_a_sweep_are_one_notice_at_its_end(notices, received_notices):
    states = [
        (TRAINING, QUEUED, QUEUED),
        (FINISHED, TRAINING, QUEUED),
        (FINISHED, FINISHED, TRAINING),
    ]
    listings = [[sweep_job(n, state) for n, state in enumerate(row)] for row in states]
    live_through(notices, *listings)
    assert received_notices == []
    live_through(notices, [sweep_job(2, FINISHED)])
    assert received_notices == []
    live_through(notices, [], [])
    assert titles(received_notices) == ["lr: 3 jobs finished"]
    assert received_notices[0].text == "lr lr=0.0, lr lr=0.1, lr lr=0.2"


def test_a_failure_in_a_sweep_is_reported_at_once(notices, received_notices):
    live_through(
        notices,
        [sweep_job(0, TRAINING), sweep_job(1, QUEUED)],
        [sweep_job(0, JobState.ERROR), sweep_job(1, TRAINING)],
    )
    assert titles(received_notices) == ["Failed: lr lr=0.0"]


def test_the_jobs_of_no_sweep_are_reported_while_a_sweep_runs(notices, received_notices):
    single_job = sweep_job(7, TRAINING, tags=())
    live_through(notices, [sweep_job(0, TRAINING), single_job])
    live_through(notices, [sweep_job(0, TRAINING), sweep_job(7, FINISHED, tags=())])
    assert titles(received_notices) == ["Finished: lr lr=0.7"]


def test_a_sweep_that_was_taken_out_of_the_queue_is_reported(notices, received_notices):
    live_through(
        notices,
        [sweep_job(0, TRAINING), sweep_job(1, QUEUED)],
        [sweep_job(0, FINISHED), sweep_job(1, QUEUED)],
        [sweep_job(1, JobState.CREATED)],
        [],
    )
    assert titles(received_notices) == ["lr: 1 job finished"]


def test_the_bell_counts_the_notices_of_the_open_data_root(tmp_path, notices, received_notices):
    store = NotificationStore(tmp_path / "notices.json")
    live_through(
        notices, [sweep_job(0, TRAINING, tags=())], [sweep_job(0, JobState.ERROR, tags=())]
    )
    for root in ("/lab/a", "/lab/b", "/lab/b", ""):
        store.add(replace(received_notices[0], root=root))
    store.save()
    reloaded = NotificationStore(tmp_path / "notices.json")
    assert [reloaded.unread_count_of(root) for root in ("/lab/a", "/lab/b", "/lab/new")] == [
        2,
        3,
        1,
    ]
    assert reloaded.mark_read("/lab/b")
    assert reloaded.unread_count_of("/lab/b") == 0
    reloaded.save()
    assert NotificationStore(tmp_path / "notices.json").unread_count_of("/lab/a") == 1, (
        "those of another data root were not seen"
    )
    assert reloaded.mark_read("/lab/a")
    assert not reloaded.mark_read("/lab/a")
    assert reloaded.unseen_count == 0


def test_m20_a_stalled_run_is_reported_once(notices, received_notices):
    for _ in range(3):
        notices.see_view(replace(LIVE, contact_warning="no news since 14:02"))
    notices.send_held_events()
    assert [notice.text for notice in received_notices] == ["No news since 14:02"]


def test_m20_a_stop_by_the_user_is_not_reported(notices, received_notices):
    notices.see_view(LIVE)
    notices.see_view(replace_fields(LIVE, state=JobState.INTERRUPTED))
    assert received_notices == []


def test_a_job_that_the_program_continued_is_reported_once(notices, received_notices):
    notices.see_view(LIVE)
    continuation = Continuation(
        "gpu02 no longer answers. Continues on gpu01.", "2026-11-28T02:12:00Z"
    )
    for _ in range(3):
        notices.see_view(replace_fields(LIVE, run=LIVE.run + 1, continuation=continuation))
    second_continuation = replace(continuation, started_at="2026-11-28T03:12:00Z")
    notices.see_view(replace_fields(LIVE, run=LIVE.run + 2, continuation=second_continuation))
    notices.send_held_events()
    assert titles(received_notices) == ["Continued: digits"] * 2
    assert received_notices[0].text == continuation.reason


def test_a_job_continued_before_the_window_opened_is_not_reported(notices, received_notices):
    notices.see_view(
        replace_fields(
            LIVE, run=2, continuation=Continuation("gpu02 no longer answers.", "2026-11-28")
        )
    )
    assert received_notices == []


def test_m20_a_run_that_ended_before_the_window_opened_is_not_reported(notices, received_notices):
    notices.see_view(replace_fields(LIVE, state=JobState.ERROR))
    assert received_notices == []


def test_m20_success_can_be_switched_off_and_errors_cannot(qapp, received_notices):
    quiet = NotificationRules(lambda: False, merge_ms=NEVER)
    quiet.notified.connect(received_notices.append)
    for run, state in enumerate((JobState.FINISHED, JobState.ERROR)):
        quiet.see_view(replace_fields(LIVE, run=run))
        quiet.see_view(replace_fields(LIVE, run=run, state=state))
    assert titles(received_notices) == ["Failed: digits"]


FAILED, LOST_STATE, FINISHED = JobState.ERROR, JobState.LOST, JobState.FINISHED


@pytest.mark.parametrize(
    ("job_ends", "expected"),
    [
        ([(FAILED, "gpu07")] * 3, ["3 jobs failed on gpu07"]),
        ([(FAILED, "gpu07"), (FAILED, "gpu08")], ["Failed: job 0", "Failed: job 1"]),
        ([(LOST_STATE, "")] * 2, ["2 jobs are lost"]),
        ([(FINISHED, "")] * 3, ["3 jobs finished"]),
        ([(FINISHED, ""), (FAILED, "gpu07")], ["Finished: job 0", "Failed: job 1"]),
        ([(FAILED, "gpu07"), (LOST_STATE, "gpu07")], ["Failed: job 0", "Lost: job 1"]),
        (
            [(FINISHED, ""), (FAILED, "gpu07"), (FINISHED, ""), (FAILED, "gpu07"), (FAILED, "")],
            ["2 jobs finished", "2 jobs failed on gpu07", "Failed: job 4"],
        ),
    ],
)
def test_m20_only_equal_events_at_one_place_are_merged(
    notices, received_notices, job_ends, expected
):
    first = replace(LIVE, id="first", name="first")
    views = [replace(LIVE, id=f"{n}", name=f"job {n}") for n in range(len(job_ends))]
    for view in (first, *views):
        notices.see_view(view)
    notices.see_view(replace_fields(first, state=FAILED))
    for view, (state, node) in zip(views, job_ends, strict=True):
        error = replace(ON_GPU07, node=node) if node else None
        notices.see_view(replace_fields(view, state=state, error=error))
    assert titles(received_notices) == ["Failed: first"]
    notices.send_held_events()
    assert titles(received_notices) == ["Failed: first", *expected]
    for notice in received_notices[1:]:
        is_merged = "jobs" in notice.title
        assert notice.node == ("gpu07" if is_merged and "gpu07" in notice.title else "")
        assert bool(notice.job_id) is not is_merged
        assert notice.family == ("good" if "inished" in notice.title else "bad")
    notices.send_held_events()
    assert len(received_notices) == len(expected) + 1


@pytest.mark.parametrize("stops", [True, False])
def test_m20_a_loss_that_is_not_a_number_is_one_notification(notices, received_notices, stops):
    alarm = Alarm(NOT_A_NUMBER, 9, "The loss is NaN at step 9.")
    config = replace(LIVE.config, stop_on_nan=stops)
    live = replace_fields(LIVE, alarms=(alarm,), config=config)
    notices.see_view(live)
    notices.send_held_events()
    if stops:
        notices.see_view(replace_fields(live, state=FAILED))
        notices.send_held_events()
    assert titles(received_notices) == ["Failed: digits" if stops else "Not a number: digits"]


def test_m20_a_resumed_run_that_fails_again_is_reported_again(notices, received_notices):
    for run in (1, 2):
        notices.see_view(replace_fields(LIVE, run=run))
        notices.see_view(replace_fields(LIVE, run=run, state=JobState.ERROR))
        notices.send_held_events()
    assert len(received_notices) == 2


def test_s12_an_alarm_and_the_end_that_it_causes_are_reported_once_each(notices, received_notices):
    alarm = Alarm(DIVERGED, 412, "The loss is 9.31, 4.2 times its best (2.2 at step 390).")
    for _ in range(3):
        notices.see_view(replace_fields(LIVE, alarms=(alarm,)))
    assert titles(received_notices) == ["Diverges: digits"]
    assert received_notices[0].text == alarm.message
    still = Alarm(STANDSTILL, 500, "No step since step 500.")
    notices.see_view(replace_fields(LIVE, alarms=(alarm, still)))
    notices.send_held_events()
    assert titles(received_notices)[1:] == ["Stalled: digits"]
    notices.see_view(
        replace_fields(LIVE, state=JobState.ERROR, alarms=(alarm, replace(still, step=510)))
    )
    notices.send_held_events()
    assert titles(received_notices)[2:] == ["Failed: digits"]


def test_the_rules_drop_an_ended_run(qapp):
    rules = NotificationRules(lambda: False, merge_ms=NEVER)
    alarm = Alarm(DIVERGED, 40, "The loss is 9.31, 4.2 times its best (2.2 at step 30).")

    def stored_count():
        return sum(map(len, (rules._live_views, rules._doubtful_runs, rules._reported_alarms)))

    for number in range(100):
        run = replace_fields(
            LIVE, alarms=(alarm,), id=f"20261121-{number:06}", contact_warning="no news"
        )
        rules.see_view(run)
        assert stored_count() == 3
        rules.see_view(replace_fields(run, state=JobState.FINISHED))
        assert stored_count() == 0


def test_a_node_that_goes_offline_with_a_job_is_reported_once_each_time(notices, received_notices):
    node = LIVE.nodes[0]
    offline_states = (NodeState(node, Presence.OFFLINE), NodeState("idle", Presence.OFFLINE))
    notices.see_nodes(offline_states)
    assert received_notices == [], "no job is on it"
    notices.see_view(LIVE)
    for _ in range(3):
        notices.see_nodes(offline_states)
        notices.send_held_events()
    assert titles(received_notices) == [f"Offline: {node}"]
    assert (received_notices[0].node, received_notices[0].text) == (node, "digits runs on it.")
    notices.see_nodes((NodeState(node, Presence.ONLINE),))
    notices.see_nodes(offline_states)
    notices.send_held_events()
    assert len(received_notices) == 2


def test_notifications_are_stored_with_the_number_of_unread_ones(
    tmp_path, notices, received_notices
):
    path = tmp_path / "own" / "notices.json"
    recorder = NotificationStore(path)
    notices.see_view(LIVE)
    notices.see_view(replace_fields(LIVE, state=JobState.ERROR, error=ON_GPU07))
    for _ in range(MAX_NOTICES + 5):
        recorder.add(received_notices[0])
    recorder.save()
    assert path.stat().st_mode & 0o777 == 0o600
    reloaded = NotificationStore(path)
    assert (reloaded.unseen_count, len(reloaded.notices)) == (MAX_NOTICES, MAX_NOTICES)
    assert reloaded.notices[0] == received_notices[0]
    assert reloaded.mark_read("")
    assert not reloaded.mark_read("")
    reloaded.save()
    assert NotificationStore(path).unseen_count == 0


@pytest.mark.parametrize(
    "content",
    [
        *("", "{", "[]", '{"notices": 7}', '{"notices": [7]}', '{"notices": [{"title": 1}]}'),
        *(
            '{"ends": 7}',
            '{"ends": {"/lab": 7}}',
            '{"ends": {"/lab": {"until_s": 1, "live": [7]}}}',
        ),
    ],
)
def test_a_damaged_list_of_notifications_costs_only_the_list(tmp_path, content):
    path = tmp_path / "notices.json"
    path.write_text(content)
    recorder = NotificationStore(path)
    assert (recorder.notices, recorder.unseen_count) == ((), 0)
    assert recorder.job_ends("/lab") is None


def test_a_notification_reads_back_unchanged(notices, received_notices):
    notices.see_view(replace(LIVE, name="ünï <b>"))
    notices.see_view(replace_fields(LIVE, state=JobState.ERROR, error=ON_GPU07, name="ünï <b>"))
    assert Notice.from_dict(received_notices[0].to_dict()) == received_notices[0]


def make_listing(*views):
    return JobListing(views=views, total=len(views))


class Window:
    """A window that opens, polls and closes; it reads the notification file of the last one."""

    def __init__(self, tmp_path, monkeypatch, window, immediately, notifies_finished=True):
        monkeypatch.setattr(
            "app.notifications.notification_center.notices_file", lambda: tmp_path / "notices.json"
        )
        self.tray = SimpleNamespace(received_notices=[])
        self.tray.notify = self.tray.received_notices.append
        self.bell = NotificationCenter(
            window, immediately, self.tray, lambda: notifies_finished, window
        )
        self.bell.take_data_root("/lab/ring")

    def poll(self, *views):
        self.bell.see_listing(make_listing(*views))
        self.bell.see_jobs(views)
        return titles(self.tray.received_notices)

    @property
    def stored_titles(self):
        return titles(self.bell._store.notices)


@pytest.fixture
def open_window(tmp_path, monkeypatch, main_window, immediately):
    return partial(Window, tmp_path, monkeypatch, main_window, immediately)


@pytest.fixture
def main_window(qtbot):
    window = MainWindow()
    qtbot.addWidget(window)
    return window


def ended_job(number, state=JobState.ERROR, minute=0, **kwargs):
    end = f"2026-11-21T15:{minute:02}:00Z"
    return replace_fields(
        LIVE, state=state, updated_at=end, id=f"job-{number}", name=f"job {number}", **kwargs
    )


def test_m20_jobs_that_ended_while_the_window_was_closed_are_reported_once(open_window):
    old_job, live = ended_job(0), replace(LIVE, id="job-1", name="job 1")
    assert open_window().poll(old_job, live) == [], "of the first window there is no before"
    now = (
        old_job,
        ended_job(1, JobState.FINISHED, 7),
        ended_job(2, minute=5, error=ON_GPU07),
        ended_job(3, minute=9),
    )
    reloaded = open_window()
    assert reloaded.poll(*now) == ["3 jobs ended while the window was closed"]
    assert reloaded.stored_titles == ["Failed: job 3", "Finished: job 1", "Failed: job 2"]
    summary = reloaded.tray.received_notices[0]
    assert (summary.job_id, summary.family) == ("", "bad")
    assert summary.text == "Failed: job 2, Finished: job 1, Failed: job 3"
    notices = reloaded.bell._store.notices
    assert notices[2].text == ON_GPU07.message
    assert notices[2].job_id == "job-2"
    assert (
        notices[2].timestamp.isoformat()
        == datetime.fromisoformat("2026-11-21T15:05Z").astimezone().isoformat()
    )
    assert reloaded.poll(*now) == titles(reloaded.tray.received_notices)
    assert open_window().poll(*now) == []


def test_m20_a_single_job_that_ended_meanwhile_is_reported_by_name(open_window):
    open_window().poll(replace(LIVE, id="job-1"))
    assert open_window().poll(ended_job(1)) == ["Failed: job 1"]


def test_m20_an_end_reported_before_the_window_closed_is_not_repeated(open_window):
    window = open_window()
    window.poll(replace(LIVE, id="job-1"))
    window.bell.see_jobs((ended_job(1),))
    assert titles(window.tray.received_notices) == ["Failed: job 1"]
    assert open_window().poll(ended_job(1)) == []


def test_m20_a_wrong_clock_hides_no_end_of_a_job_seen_alive(open_window):
    open_window().poll(ended_job(0, minute=59), replace(LIVE, id="job-1"))
    assert open_window().poll(ended_job(0, minute=59), ended_job(1, minute=1)) == ["Failed: job 1"]


def on_node(view, node):
    placement = tuple(replace(p, node=node) for p in view.config.placement)
    return replace(view, config=replace(view.config, placement=placement))


@pytest.mark.parametrize("behind_min", [1, 5, 29, 58])
def test_m20_an_end_on_a_node_whose_clock_is_behind_is_not_hidden_by_another_node(
    open_window, behind_min
):
    reported_job = on_node(ended_job(0, minute=59), "gpu07")
    open_window().poll(reported_job, on_node(ended_job(1, minute=59 - behind_min - 1), "gpu09"))
    late_job = on_node(ended_job(2, minute=59 - behind_min), "gpu09")
    assert open_window().poll(reported_job, late_job) == ["Failed: job 2"]


def test_m20_the_times_of_an_older_program_notify_of_no_old_end(open_window, tmp_path):
    open_window().poll(ended_job(0))
    path = tmp_path / "notices.json"
    raw = json.loads(path.read_text())
    raw["ends"]["/lab/ring"]["until_s"] = 1.0
    path.write_text(json.dumps(raw))
    assert open_window().poll(ended_job(0), ended_job(1)) == []


def test_m20_a_stop_while_closed_is_not_reported_and_success_only_if_chosen(open_window):
    open_window().poll(ended_job(0))
    now = (ended_job(1, JobState.INTERRUPTED, 3), ended_job(2, JobState.FINISHED, 4))
    assert open_window(notifies_finished=False).poll(*now) == []
    assert open_window().poll(*now) == [], "it is known, reported or not"


def test_m20_ends_are_known_for_each_data_root(open_window):
    open_window().poll(ended_job(0))
    other_window = open_window()
    other_window.bell.take_data_root("/home/mai/ring")
    assert other_window.poll(ended_job(1, minute=5)) == [], "that one was not open before"
    assert open_window().poll(ended_job(2, minute=6)) == ["Failed: job 2"]


def test_the_list_has_the_notices_of_the_open_data_root_alone(open_window, main_window, qtbot):
    open_window().poll(replace(LIVE, id="job-1", name="job 1"))
    window = open_window()
    assert window.poll(ended_job(1, minute=5)) == ["Failed: job 1"]
    other_window = open_window()
    other_window.bell.take_data_root("/home/mai/ring")
    other_window.bell.show()
    assert other_window.bell._listed_notices == ()
    own_window = open_window()
    assert own_window.bell._store.unread_count_of("/lab/ring") == 1, "it was not seen there"
    own_window.bell.show()
    with qtbot.waitSignal(own_window.bell.notice_opened) as opened:
        own_window.bell.list.notice_opened.emit(0)
    assert opened.args[0].job_id == "job-1"


def test_m20_the_end_of_a_job_that_only_has_a_line_is_reported_too(open_window):
    open_window().poll(ended_job(0))
    window = open_window()
    window.bell.see_listing(JobListing(summaries=(summary_of(ended_job(1, minute=5)),), total=1))
    assert titles(window.tray.received_notices) == ["Failed: job 1"]
