"""Who comes first, and the sentence of everybody else."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.records.jobs.placement import Placement
from backend.records.nodes.reading import Cpu, Gpu, GpuProcess, NodeReading
from backend.records.queue.entry import (
    Cause,
    QueueEntry,
    RunningJob,
    node_key,
    position_between,
    sorted_entries,
)
from backend.records.queue.forecast import run_duration_s, seconds_to_start
from backend.records.queue.scheduling import (
    ClusterState,
    NodeView,
    QuietTimes,
    give_way_message,
    node_view_of,
    quiet_after,
    wait_reason,
    wait_reasons,
)

NOW = datetime(2026, 11, 22, 14, 2, tzinfo=UTC).astimezone()
DESK = node_key("this-computer", "m1")
GPU03 = NodeView(cores=8, gpus={f"GPU-{n}": f"GPU {n}" for n in range(4)}, disk_free_bytes=10**12)
NODES = {DESK: NodeView(cores=2), "gpu03": GPU03, "gpu04": replace(GPU03)}


def entry(name, *gpus, node="gpu03", processes=0, **fields):
    placement = (Placement(node, processes, tuple(f"GPU-{n}" for n in gpus)),)
    return QueueEntry(name, name, 1, placement, "m1", **fields)


def on_desk(name, processes=1, **fields):
    return entry(name, node="this-computer", processes=processes, **fields)


def run(queue_entry, left_s=None):
    return RunningJob(queue_entry.job_id, queue_entry.name, queue_entry.uses, left_s)


def cluster(*running, nodes=NODES, **fields):
    return ClusterState(
        NOW, nodes, tuple(run(running_entry) for running_entry in running), **fields
    )


def with_node(**changes):
    return {**NODES, "gpu03": replace(GPU03, **changes)}


MY_ENTRY = entry("mine", 0, 1)
QUIET = {"": 300.0, **{f"GPU-{n}": 300.0 for n in range(4)}}
CAUSES = [
    (
        Cause.BUSY,
        MY_ENTRY,
        (),
        cluster(entry("resnet", 1)),
        "“resnet” is on GPU 1 of gpu03.",
    ),
    (
        Cause.BUSY,
        on_desk("mine"),
        (),
        cluster(on_desk("resnet", 2)),
        "This computer is busy with “resnet”: 0 of 2 cores are free, and this job asks for 1.",
    ),
    (
        Cause.BUSY,
        entry("mine", processes=8),
        (),
        cluster(entry("resnet", processes=1)),
        "gpu03 is busy with “resnet”: 7 of 8 cores are free, and this job asks for 8.",
    ),
    (
        Cause.FOREIGN,
        MY_ENTRY,
        (),
        cluster(nodes=with_node(foreign_holders={"GPU-1": "alice: python (pid 7)"})),
        "GPU 1 of gpu03 is in use by alice: python (pid 7).",
    ),
    (
        Cause.NODE_DOWN,
        MY_ENTRY,
        (),
        cluster(nodes=with_node(down_reason="gpu03 is offline: no news since 14:02.", gpus={})),
        "gpu03 is offline: no news since 14:02.",
    ),
    (
        Cause.DISK,
        replace(MY_ENTRY, needed_bytes=3 * 10**9),
        (),
        cluster(nodes=with_node(disk_free_bytes=1_200_000_000)),
        "The data root has 1.2 GB left, and 3.0 GB are needed. Free some space.",
    ),
    (
        Cause.NOT_BEFORE,
        replace(MY_ENTRY, not_before=(NOW + timedelta(hours=2)).isoformat()),
        (),
        cluster(),
        f"Not before {NOW + timedelta(hours=2):%H:%M}.",
    ),
    (
        Cause.NOT_BEFORE,
        replace(MY_ENTRY, not_before=(NOW + timedelta(hours=2)).isoformat(), length_s=7200),
        (),
        cluster(),
        f"Not before {NOW + timedelta(hours=2):%H:%M}, "
        f"reserved to {NOW + timedelta(hours=4):%H:%M}.",
    ),
    (
        Cause.TURN,
        MY_ENTRY,
        (entry("resnet", 1, 2, 3),),
        cluster(),
        "Waiting for “resnet”, which is before it in the queue on gpu03.",
    ),
    (
        Cause.NEVER,
        entry("mine", 0, 7),
        (),
        cluster(),
        "GPU-7 is no longer on gpu03. Remove it from the queue, then choose where it runs.",
    ),
    (
        Cause.NEVER,
        entry("mine", 0, node="gpu99"),
        (),
        cluster(),
        "gpu99 is no longer a node of this data root. Remove it from the "
        "queue, then choose where it runs.",
    ),
    (
        Cause.NEVER,
        on_desk("mine", 9),
        (),
        cluster(),
        "This computer has 2 cores, enough for 8 processes; the job asks for "
        "9. Remove it from the queue, then choose where it runs.",
    ),
    (
        Cause.NEVER,
        replace(MY_ENTRY, refusal="The model has changed since the job was queued."),
        (),
        cluster(),
        "The model has changed since the job was queued.",
    ),
    (
        Cause.PAUSED,
        MY_ENTRY,
        (),
        cluster(is_paused=True, pause_suffix=" by ben"),
        "The queue is paused by ben.",
    ),
    (
        Cause.KEYBOARD,
        replace(MY_ENTRY, quiet_s=300),
        (),
        cluster(nodes=with_node(at_keyboard="alice", quiet_s=QUIET)),
        "alice is at the keyboard of gpu03.",
    ),
    (
        Cause.QUIET,
        replace(MY_ENTRY, quiet_s=300),
        (),
        cluster(nodes=with_node(quiet_s={**QUIET, "GPU-1": 299.0})),
        "It continues after 5 minutes without other users.",
    ),
    (
        Cause.AT_ONCE,
        replace(MY_ENTRY, sweep="sweep:a", at_once=1),
        (),
        replace(cluster(), running_jobs=(RunningJob("other", "other", (), sweep="sweep:a"),)),
        "1 trial of its search runs; at most 1 may run at once.",
    ),
]


@pytest.mark.parametrize(("cause", "waits", "ahead", "cluster_state", "message"), CAUSES)
def test_s2_each_cause_has_its_sentence(cause, waits, ahead, cluster_state, message):
    reason = wait_reason(waits, ahead, cluster_state)
    assert reason is not None
    assert (reason.cause, reason.message) == (cause, message)


def test_s2_the_table_above_knows_all_causes():
    assert {row[0] for row in CAUSES} == set(Cause) - {Cause.RESERVED}, "which a test below has"


def test_a_job_for_which_there_is_room_waits_for_nothing():
    assert wait_reason(MY_ENTRY, (entry("other", 2),), cluster(entry("resnet", 3))) is None


def test_reasons_that_the_user_must_fix_come_first():
    cluster_state = cluster(
        entry("resnet", 0),
        nodes=with_node(
            foreign_holders={"GPU-0": "alice"}, disk_free_bytes=0, down_reason="gpu03 is off."
        ),
    )
    late_entry = replace(MY_ENTRY, not_before=(NOW + timedelta(days=1)).isoformat())
    seen_causes = []
    for waits, state in (
        (replace(late_entry, refusal="gone"), replace(cluster_state, is_paused=True)),
        (replace(late_entry, refusal="gone"), cluster_state),
        (late_entry, cluster_state),
        (MY_ENTRY, cluster_state),
        (
            MY_ENTRY,
            replace(
                cluster_state,
                nodes=with_node(foreign_holders={"GPU-0": "alice"}, disk_free_bytes=0),
            ),
        ),
        (MY_ENTRY, replace(cluster_state, nodes=with_node(foreign_holders={"GPU-0": "alice"}))),
        (MY_ENTRY, cluster(entry("resnet", 0))),
    ):
        reason = wait_reason(waits, (), state)
        assert reason is not None
        seen_causes.append(reason.cause)
    assert seen_causes == [
        Cause.PAUSED,
        Cause.NEVER,
        Cause.NOT_BEFORE,
        Cause.NODE_DOWN,
        Cause.DISK,
        Cause.FOREIGN,
        Cause.BUSY,
    ]


def test_priority_comes_first_and_then_the_place():
    jobs = [entry("a", position=1), entry("b", position=2), entry("c", position=9, priority=1)]
    assert [queued.job_id for queued in sorted_entries(jobs)] == ["c", "a", "b"]


def causes(jobs, cluster_state):
    reasons = wait_reasons(jobs, cluster_state)
    return {name: reason and reason.cause for name, reason in reasons.items()}


def test_a_small_job_does_not_overtake_a_large_one_on_the_same_gpus_but_passes_on_others():
    large = entry("large", 0, 1, 2, position=1)
    jobs = [large, entry("same", 2, position=2), entry("other", 3, position=3)]
    assert causes(jobs, cluster(entry("resnet", 0))) == {
        "large": Cause.BUSY,
        "same": Cause.TURN,
        "other": None,
    }


def test_no_job_waits_behind_a_job_that_waits_without_end():
    later = (NOW + timedelta(hours=1)).isoformat()
    jobs = [
        entry("late", 0, position=1, not_before=later),
        entry("gone", 0, node="gpu99", position=2),
        entry("next", 0, position=3),
    ]
    assert causes(jobs, cluster()) == {
        "late": Cause.NOT_BEFORE,
        "gone": Cause.NEVER,
        "next": None,
    }


def reserved(name, *gpus, after_h=2.0, hours=2.0, **fields):
    begin = NOW + timedelta(hours=after_h)
    return entry(
        name, *gpus, not_before=begin.isoformat(), length_s=hours * 3600, user="anna", **fields
    )


@pytest.mark.parametrize(
    ("queued", "is_blocked"),
    [
        (entry("unknown", 1), True),
        (entry("short", 1, lasts_s=7200.0), False),
        (entry("long", 1, lasts_s=7201.0), True),
        (entry("limited", 1, lasts_s=7201.0, length_s=7200.0), False),
        (entry("polite", 1, gives_way=True), False),
        (entry("elsewhere", 2), False),
        (entry("other node", 1, node="gpu04"), False),
    ],
)
def test_only_what_is_over_before_or_gives_way_starts_on_reserved_gpus(queued, is_blocked):
    reason = wait_reasons([queued, reserved("thesis", 0, 1, position=9)], cluster())[queued.job_id]
    begin, end = (NOW + timedelta(hours=h) for h in (2, 4))
    message = f"GPU 1 of gpu03 is reserved for “thesis” by anna from {begin:%H:%M} to {end:%H:%M}."
    assert (reason and (reason.cause, reason.message)) == (
        (Cause.RESERVED, message) if is_blocked else None
    )


def test_from_its_begin_on_a_reservation_comes_first_and_lapses_at_its_end():
    jobs = [
        entry("first", 0, position=1, priority=9),
        entry("polite", 0, position=2, gives_way=True),
        reserved("thesis", 0, after_h=-1, position=3),
    ]
    expected = {"first": Cause.RESERVED, "polite": Cause.RESERVED, "thesis": None}
    assert causes(jobs, cluster()) == expected
    assert causes(jobs, cluster(entry("live", 0)))["thesis"] is Cause.BUSY
    over = reserved("thesis", 0, after_h=-2, position=3)
    expected = {"first": None, "polite": Cause.BUSY, "thesis": Cause.TURN}
    assert causes([*jobs[:2], over], cluster()) == expected


@pytest.mark.parametrize("changes", [{"refusal": "gone"}, {"length_s": 0.0}, {"not_before": ""}])
def test_a_job_that_cannot_start_or_has_no_length_or_time_reserves_nothing(changes):
    thesis = replace(reserved("thesis", 0, position=9), **changes)
    assert causes([entry("next", 0), thesis], cluster())["next"] is None
    gone = entry("gone", 0, 7, not_before=thesis.not_before, length_s=3600, position=9)
    assert causes([entry("next", 0), gone], cluster())["next"] is None


def test_of_two_reservations_at_one_time_the_earlier_one_starts():
    jobs = [reserved("late", 0, after_h=0.5), reserved("early", 0, after_h=-0.5, position=2)]
    assert causes(jobs, cluster()) == {"early": None, "late": Cause.NOT_BEFORE}


def test_as_many_jobs_start_together_as_there_are_processors():
    jobs = [on_desk(name, position=n) for n, name in enumerate("abc")]
    assert causes(jobs, cluster()) == {"a": None, "b": None, "c": Cause.BUSY}
    # A job may request more processes than cores, but only for itself.
    assert causes([on_desk("a", 4)], cluster()) == {"a": None}
    assert causes([on_desk("a", 4)], cluster(on_desk("b"))) == {"a": Cause.BUSY}


def test_this_computer_of_another_user_is_another_computer():
    other_desk = replace(on_desk("theirs", 2), machine="m2")
    assert causes([on_desk("mine", 2)], cluster(other_desk)) == {"mine": None}


placements = st.tuples(
    st.sampled_from(("gpu03", "gpu04")), st.sets(st.integers(0, 3), min_size=1, max_size=4)
)


@given(st.lists(st.tuples(placements, st.integers(-2, 2)), max_size=8), st.integers(0, 2))
def test_no_gpu_is_given_twice_and_the_first_job_is_never_passed(requests, running):
    jobs = [
        entry(f"j{n}", *gpus, node=node, priority=priority, position=n)
        for n, ((node, gpus), priority) in enumerate(requests)
    ]
    live, reason = jobs[:running], jobs[running:]
    outcomes = wait_reasons(reason, cluster(*live))
    started_jobs = [*live, *(queued for queued in reason if outcomes[queued.job_id] is None)]
    for queued in reason:
        if outcomes[queued.job_id] is not None:
            continue
        other_jobs = [
            other_job
            for other_job in started_jobs
            if other_job is not queued and other_job not in live
        ]
        for other_job in [*other_jobs, *live]:
            assert not any(a.competes_with(b) for a in queued.uses for b in other_job.uses)
        for earlier in reason:
            if earlier.sort_key < queued.sort_key and outcomes[earlier.job_id] is not None:
                assert not any(a.competes_with(b) for a in queued.uses for b in earlier.uses)


@given(st.floats(-1e6, 1e6), st.floats(0, 1e6))
def test_a_place_between_two_is_between_them_or_there_is_none(previous, gap):
    position = position_between(previous, previous + gap)
    assert position is None or previous < position < previous + gap
    assert position_between(previous, None) > previous > position_between(None, previous)


def test_an_entry_reads_back_unchanged_and_an_invalid_one_is_refused():
    stored_entry = replace(MY_ENTRY, priority=3, not_before="2026-11-22T06:00:00Z", lasts_s=3.5)
    assert QueueEntry.from_dict(stored_entry.to_dict()) == stored_entry
    for changes in (
        {"schema": 99},
        {"placement": []},
        {"placement": [{"node": 3}]},
        {"not_before": "soon"},
        {"not_before": "2026-11-22T06:00:00"},
        {"priority": "high"},
        {"place": None},
        {"place": float("nan")},
        {"length_s": -1.0},
        {"length_s": float("nan")},
        {"length_s": 1e300},
    ):
        with pytest.raises(ValueError, match=r"queued|time|nvalid"):
            QueueEntry.from_dict({**stored_entry.to_dict(), **changes})


def reading(*processes, memory=80 * 2**30):
    gpu = Gpu(0, "GPU-0", "H100", memory_total_bytes=memory, processes=processes)
    cpu = Cpu("cpu", 8, None, 0.0)
    return NodeReading("gpu03", "gpu03", 1, cpu, 1, 1, 0, 0, "/", 10, 5, gpus=(gpu,))


def test_the_processes_of_a_gpu_show_who_uses_it():
    alice = GpuProcess(7, "alice", 2**30, "/usr/bin/python3 train.py")
    own_process = GpuProcess(8, "me", 2**30, "python", run_tag="job-1/1")
    assert node_view_of(reading(alice), ()).foreign_holders == {"GPU-0": "alice: python3 (pid 7)"}
    assert node_view_of(reading(own_process), {"job-1/1"}).foreign_holders == {}
    previous = node_view_of(reading(own_process), {"job-1/2"}).foreign_holders["GPU-0"]
    assert previous == "a process that an earlier run left behind (pid 8)"
    # The screen of a user's own computer lies on its GPU.
    assert node_view_of(reading(alice), (), is_a_desk=True).foreign_holders == {}
    # On a node it does, too, and there it is known by what it does.
    screen = replace(alice, command="/usr/lib/xorg/Xorg", only_draws=True)
    assert node_view_of(reading(screen), ()).foreign_holders == {}
    large = replace(alice, memory_bytes=40 * 2**30)
    assert node_view_of(reading(large), (), is_a_desk=True).foreign_holders != {}


ALICE = GpuProcess(7, "alice", 40 * 2**30, "python3")


@pytest.mark.parametrize(
    ("changes", "shared", "expected"),
    [
        ({}, (), "Paused: alice uses GPU 0 on gpu03."),
        ({"memory_bytes": None}, (), "Paused: alice uses GPU 0 on gpu03."),
        ({"only_draws": True}, (), ""),
        ({"run_tag": "job-1/1"}, (), ""),
        # In a container each process of a GPU is unknown, also a rank of the run.
        ({"user": "", "command": ""}, (), ""),
        ({"pid": 0}, (), ""),
        ({}, (7,), ""),
        ({}, (8,), "Paused: alice uses GPU 0 on gpu03."),
    ],
)
def test_a_run_gives_way_to_processes_of_known_users_that_compute(changes, shared, expected):
    assert give_way_message(reading(replace(ALICE, **changes)), {"GPU-0"}, shared) == expected


def test_a_run_does_not_give_way_for_other_gpus_lost_ones_and_displays_of_a_desk():
    cluster_state = reading(ALICE)
    assert give_way_message(cluster_state, {"GPU-1"}) == ""
    assert (
        give_way_message(
            replace(cluster_state, gpus=(replace(cluster_state.gpus[0], is_lost=True),)), {"GPU-0"}
        )
        == ""
    )
    desk = replace(reading(replace(ALICE, memory_bytes=2**30)), name="this-computer")
    assert give_way_message(desk, {"GPU-0"}) == ""
    pause_text = "Paused: alice is at the keyboard of this computer."
    assert give_way_message(replace(desk, at_keyboard="alice"), {"GPU-0"}) == pause_text


def waits_for_quiet(quiet, now, *other_jobs, run=1, **changes):
    paused = replace(MY_ENTRY, quiet_s=300, run=run)
    nodes = quiet.update(with_node(**changes), now, (paused, *other_jobs))
    reason = wait_reason(paused, (), cluster(nodes=nodes))
    return reason and reason.cause


def test_a_job_that_gave_way_continues_after_the_quiet_time_and_not_before():
    quiet = QuietTimes()
    # When the watch begins, nothing is known about the time before.
    assert waits_for_quiet(quiet, 1000) is Cause.QUIET
    assert (
        waits_for_quiet(quiet, 1100, foreign_holders={"GPU-1": "alice: a (pid 7)"}) is Cause.FOREIGN
    )
    assert waits_for_quiet(quiet, 1399) is Cause.QUIET
    assert waits_for_quiet(quiet, 1400) is None
    assert waits_for_quiet(quiet, 1500, at_keyboard="alice") is Cause.KEYBOARD
    assert waits_for_quiet(quiet, 1799) is Cause.QUIET
    assert waits_for_quiet(quiet, 1800) is None
    # Other GPUs of the node do not matter, nor do processes on it for a job that does not give way.
    assert waits_for_quiet(quiet, 1801, foreign_holders={"GPU-3": "alice: a (pid 7)"}) is None
    assert wait_reason(MY_ENTRY, (), cluster(nodes=with_node(at_keyboard="alice"))) is None
    # A node that was not checked for long, or was away, may have been in use.
    assert waits_for_quiet(quiet, 1900, down_reason="gpu03 is offline.") is Cause.NODE_DOWN
    assert waits_for_quiet(quiet, 2199) is Cause.QUIET
    assert waits_for_quiet(quiet, 2200) is None
    assert waits_for_quiet(quiet, 2501) is Cause.QUIET


@pytest.mark.parametrize("lasted_s", [1, 22, 60, 150, 299, 300, 301, 4000])
def test_a_short_use_between_two_checks_is_followed_by_the_whole_quiet_time(lasted_s):
    quiet = QuietTimes()
    waits_for_quiet(quiet, 1000)
    assert waits_for_quiet(quiet, 1300) is None
    # Run 2 gave way, and the other user is gone at the next check of the queue.
    next_check_s = 1300 + lasted_s
    assert waits_for_quiet(quiet, next_check_s, run=3) is Cause.QUIET
    assert waits_for_quiet(quiet, next_check_s + 299, run=3) is Cause.QUIET
    # A job on other GPUs that pauses now says nothing about these, but about the keyboard.
    assert waits_for_quiet(quiet, next_check_s + 300, entry("o", 3, node="gpu04"), run=3) is None
    other_job = entry("other", 3, quiet_s=300)
    assert waits_for_quiet(quiet, next_check_s + 300, other_job, run=3) is Cause.QUIET
    assert waits_for_quiet(quiet, next_check_s + 600, other_job, run=3) is None


def test_a_user_at_the_keyboard_holds_up_only_jobs_that_give_way():
    cluster_state = cluster(nodes=with_node(at_keyboard="alice", quiet_s=QUIET))
    jobs = [entry("paused", 0, position=1, quiet_s=300), entry("next", 0, position=2)]
    assert causes(jobs, cluster_state) == {"paused": Cause.KEYBOARD, "next": None}
    cluster_state = cluster(nodes=with_node())
    assert causes(jobs, cluster_state) == {"paused": Cause.QUIET, "next": Cause.TURN}


@given(st.integers(1, 200), st.floats(1, 3600))
def test_more_pauses_within_an_hour_are_followed_by_longer_waits(pauses, quiet_s):
    assert quiet_after(1, quiet_s) == quiet_after(6, quiet_s) == quiet_s
    assert quiet_after(7, quiet_s) == 2 * quiet_s
    assert quiet_after(pauses + 6, quiet_s) > quiet_after(pauses, quiet_s) >= quiet_s


def forecast(jobs, *running):
    cluster_state = ClusterState(NOW, NODES, running)
    return seconds_to_start(jobs, wait_reasons(jobs, cluster_state), cluster_state)


def test_s6_a_start_is_foretold_from_the_time_left_of_all_before_it():
    live = run(entry("live", 0, 1), left_s=600.0)
    jobs = [
        entry("second", 0, position=1, lasts_s=50.0),
        entry("third", 0, position=2),
        entry("fourth", 0, position=3),
        entry("free", 3, position=4),
    ]
    assert forecast(jobs, live) == {
        "second": 600.0,
        "third": 650.0,
        "fourth": None,
        "free": 0.0,
    }


def test_s6_processors_come_free_one_run_after_the_other():
    running = [run(on_desk("a"), 10.0), run(on_desk("b"), 20.0)]
    jobs = [on_desk("c", position=1, lasts_s=5.0), on_desk("d", 2, position=2)]
    assert forecast(jobs, *running) == {"c": 10.0, "d": 20.0}


def test_s6_an_unknown_start_time_is_not_guessed():
    assert forecast([entry("a", 0)], run(entry("live", 0))) == {"a": None}
    hour = (NOW + timedelta(hours=1)).isoformat()
    assert forecast([entry("a", 0, not_before=hour)]) == {"a": 3600.0}
    down = with_node(down_reason="gpu03 is off.")
    cluster_state = ClusterState(NOW, down, ())
    assert seconds_to_start([MY_ENTRY], wait_reasons([MY_ENTRY], cluster_state), cluster_state) == {
        "mine": None
    }
    assert run_duration_s(100, 0.1) == pytest.approx(10.0)
    assert run_duration_s(100, None) is None


def test_a_forecast_goes_around_the_reservations():
    jobs = [
        entry("fits", 0, position=1, lasts_s=600.0),
        entry("after", 0, position=2, lasts_s=7000.0),
        reserved("thesis", 0, position=3),
        reserved("next", 0, after_h=4, hours=1, position=4),
    ]
    live = run(entry("live", 0), left_s=300.0)
    hour_s = 3600.0
    assert forecast(jobs, live) == {
        "fits": 300.0,
        "after": 5 * hour_s,
        "thesis": 2 * hour_s,
        "next": 4 * hour_s,
    }
