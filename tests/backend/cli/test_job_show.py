"""``job show`` says why a running job is slow, and no more once it is over."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from backend.base.errors import BackendError
from backend.cli import runs
from backend.records.jobs.config import JobConfig
from backend.records.jobs.placement import THIS_COMPUTER
from backend.records.jobs.slow_cause import Cause, SlowCause, StepTimes
from backend.records.jobs.state import JobState
from backend.records.jobs.status import METRICS_LEFT_OUT, NOT_SAVED, Alarm, Continuation, RunStatus
from backend.records.jobs.view import JobView
from backend.services.jobs.run_reaper import RunReaper
from tests.backend.training.training_rig import job, parsed
from tests.fakes.command_line import run_command
from tests.fakes.mounted_root import mounted
from tests.job_views import replace_fields

NODES = [{"node": "node1", "processes": 2}, {"node": "node2", "processes": 1}]
SLOW = JobView(
    id="j1",
    name="test",
    config=parsed(job(placement=NODES)),
    created="",
    status=RunStatus(
        JobState.TRAINING,
        step_times=StepTimes((4.0, 4.0, 210.0), (90.0, 90.0, 90.0), (206.0, 206.0, 0.0), 9.0),
        slow_cause=SlowCause(Cause.DATA, 2, 210.0, 309.0, 4.0),
    ),
)


def show_text(view: JobView, capsys: pytest.CaptureFixture[str], as_json: bool = False) -> str:
    queries = SimpleNamespace(find=str, show=lambda _job_id: view)
    services = SimpleNamespace(
        queries=queries,
        reaper=SimpleNamespace(reap=lambda _id: None, agent_nodes=lambda _id: ()),
        data_root=mounted(Path("root")),
    )
    assert run_command(services, "job", "show", view.id, *(["--json"] if as_json else [])) == 0
    return capsys.readouterr().out


def test_the_culprit_and_its_evidence_are_shown_while_the_job_runs(
    capsys: pytest.CaptureFixture[str],
) -> None:
    message = "node2 slows this job: rank 2 waits 210 ms a step for its loader, the others 4.0 ms."
    assert message in show_text(SLOW, capsys)
    for other_view in (
        replace_fields(SLOW, state=JobState.FINISHED),
        replace_fields(SLOW, slow_cause=None),
    ):
        assert "slows" not in show_text(other_view, capsys)
    assert "The network slows this job" in show_text(
        replace_fields(SLOW, slow_cause=SlowCause(Cause.COMMUNICATION, None, 22.0, 31.0)), capsys
    )


@pytest.mark.parametrize("state", [JobState.TRAINING, JobState.FINISHED])
def test_each_warning_of_the_run_is_shown(
    state: JobState, capsys: pytest.CaptureFixture[str]
) -> None:
    alarms = (
        Alarm(NOT_SAVED, 6, "It is not saved."),
        Alarm(METRICS_LEFT_OUT, 9, "“a” is left out."),
    )
    text = show_text(replace_fields(SLOW, state=state, alarms=alarms), capsys)
    assert all(alarm.message in text for alarm in alarms)


def test_a_job_that_the_program_continued_says_why_and_on_how_many_nodes(
    capsys: pytest.CaptureFixture[str],
) -> None:
    reason = "node3 no longer answers. Continues on node1 and node2, without node3."
    continuation = Continuation(reason, "2026-11-28T03:12:00Z", chosen_nodes=("a", "b", "c"))
    continuation = replace(continuation, placement=SLOW.config.placement)
    view = replace_fields(SLOW, continuation=continuation)
    text = show_text(view, capsys)
    assert reason in text
    assert "2 of 3 nodes since" in text
    assert json.loads(show_text(view, capsys, as_json=True))["continued"]["reason"] == reason
    assert "continued" not in json.loads(show_text(SLOW, capsys, as_json=True))


def test_json_has_the_cause_and_the_parts_of_a_step(capsys: pytest.CaptureFixture[str]) -> None:
    document = json.loads(show_text(SLOW, capsys, as_json=True))
    assert document["slow_cause"] == {
        "cause": "data",
        "rank": 2,
        "ms": 210.0,
        "step_ms": 309.0,
        "usual_ms": 4.0,
        "cpu_wait_ms": 0.0,
    }
    assert document["step_times"]["waiting_ms"] == [206.0, 206.0, 0.0]


REMOTE = parsed(job(placement=NODES))
LOCAL_JOB = parsed(job(placement=[{"node": THIS_COMPUTER, "processes": 1}]))
OFF = BackendError("node1 did not answer.", "Is it on?")


@pytest.mark.parametrize(
    ("state", "config", "results", "woken_nodes", "expected_note"),
    [
        (JobState.STOPPING, REMOTE, {"node1": True}, ["node1", "node2"], "was started"),
        (
            JobState.STARTING,
            REMOTE,
            {"node1": OFF},
            ["node1", "node2"],
            "No news arrives from node1. node1 did",
        ),
        (JobState.TRAINING, REMOTE, {"node1": False}, ["node1", "node2"], ""),
        (JobState.QUEUED, REMOTE, {}, ["node1", "node2"], ""),
        (JobState.QUEUED, REMOTE, {"node2": True}, ["node1", "node2"], "of node2 did not run"),
        (JobState.FINISHED, REMOTE, {}, [], ""),
        (JobState.ERROR, REMOTE, {}, [], ""),
        (JobState.TRAINING, LOCAL_JOB, {}, [], ""),
    ],
)
def test_a_command_about_a_job_starts_the_silent_agents_of_its_nodes_or_says_why_not(
    capsys: pytest.CaptureFixture[str],
    state: JobState,
    config: JobConfig,
    results: dict[str, object],
    woken_nodes: list[str],
    expected_note: str,
) -> None:
    view = replace_fields(SLOW, state=state, config=config)
    queued = SimpleNamespace(exists=lambda: state is JobState.QUEUED)
    folder = SimpleNamespace(newest_run=lambda: int(state is not JobState.QUEUED), queued=queued)
    queries: Any = SimpleNamespace(
        find=str,
        folder=lambda _id: folder,
        read=lambda _id: (folder, SimpleNamespace(config=config), view),
    )
    reaper = RunReaper(queries)
    reaper.reap = lambda _id: None  # type: ignore[method-assign]
    woken: list[str] = []

    def wake_silent(names: Sequence[str], knock: object) -> dict[str, object]:
        woken.extend(names)
        return results

    services: Any = SimpleNamespace(
        queries=queries,
        reaper=reaper,
        provisioning=SimpleNamespace(wake_silent_nodes=wake_silent),
        cluster=SimpleNamespace(check_banner=None),
    )
    runs.reap(services, "j1")
    assert woken == woken_nodes
    printed = capsys.readouterr().err
    assert expected_note in printed
    assert bool(printed) == bool(expected_note)
