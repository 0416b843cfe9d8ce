"""What readers believe about a run: from records alone, and about real runs that were killed."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from backend.base.errors import BackendError
from backend.datastore.access.root_access import DataRootAccess, OpenJob
from backend.datastore.jobs import files as job_files
from backend.datastore.jobs import run_status
from backend.datastore.jobs.run_status import (
    RunObservation,
    RunStateReader,
    Supervision,
    derive_state,
    with_progress,
)
from backend.node.run.run_outcome import final_status
from backend.node.system import process_identity
from backend.records.base.atomic_files import read_json, replace_json
from backend.records.base.layout import JobFolder
from backend.records.jobs.checkpoint import Checkpoint
from backend.records.jobs.history import Block, HistoryUpdate, RunStart, encode
from backend.records.jobs.placement import THIS_COMPUTER, Placement
from backend.records.jobs.state import JobState
from backend.records.jobs.status import Condition, RunExit, RunStatus
from backend.records.jobs.stop_request import stop_requested
from backend.records.queue.entry import QueueEntry
from backend.records.slurm.placement import SlurmPlacement
from backend.records.slurm.submission import Submission
from tests.backend.node.queue.test_retry import make_launch
from tests.fakes.mounted_root import MOUNTED
from tests.fakes.runs import Run
from tests.waiting import Clock, wait_for

TRAINING = RunStatus(JobState.TRAINING, run=1, step=40, heartbeat=7, metrics={"loss": 0.5})


class Later(DataRootAccess):
    """A data root on which the status was written some time after all other files."""

    def __init__(self, later_s: float) -> None:
        self._later_s = later_s

    def changed_s(self, path: Path) -> float:
        return self._later_s if path.name == "status.json" else 0.0


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def folder(tmp_path: Path) -> OpenJob:
    folder = OpenJob(tmp_path / "jobs" / f"test-{tmp_path.name}-{os.getpid()}", MOUNTED)
    folder.attempt(1).path.mkdir(parents=True)
    replace_json(folder.status, TRAINING.to_dict())
    replace_json(folder.attempt(1).supervisor, process_identity.own_process().to_dict())
    return folder


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    run = Run(tmp_path, steps=1_000_000, mpi=True)
    yield run
    run.clean()


def test_a_job_without_a_run_is_a_draft_unless_it_is_queued() -> None:
    assert derive_state(RunObservation()).state is JobState.CREATED
    assert derive_state(RunObservation(is_queued=True)).state is JobState.QUEUED


def test_a_job_that_gave_way_is_paused_while_it_waits_and_stopped_if_it_leaves_the_queue() -> None:
    pause = "Paused: alice uses GPU 2 on gpu03."
    alive = RunObservation(run=1, status=TRAINING, supervision=Supervision.ALIVE)
    stops = derive_state(replace(alive, stop_requested=True, pause=pause))
    assert (stops.state, stops.status.message) == (JobState.STOPPING, pause)
    message = f"{pause} Saved at epoch 1, step 5."
    ended_observation = replace(alive, exit=RunExit(1, JobState.INTERRUPTED, message, pause=pause))
    waits = derive_state(replace(ended_observation, is_queued=True, pause=pause))
    assert (waits.state, waits.status.message) == (JobState.PAUSED, pause)
    by_a_user = derive_state(replace(ended_observation, is_queued=True))
    assert (by_a_user.state, by_a_user.status.message) == (JobState.QUEUED, "")
    assert derive_state(ended_observation).state is JobState.INTERRUPTED


@pytest.mark.parametrize("supervision", [Supervision.ALIVE, Supervision.ON_OTHER_HOST])
@pytest.mark.parametrize(
    ("nodes", "uncertainty"),
    [
        (("gpu02",), "gpu02 gives no sign of life"),
        (("gpu01", "gpu02"), "gpu01, gpu02 give no sign of life"),
        ((), ""),
    ],
)
def test_a_live_run_names_its_silent_nodes_and_gives_no_forecast(
    supervision: Supervision, nodes: tuple[str, ...], uncertainty: str
) -> None:
    status = replace(TRAINING, eta_s=352.0, samples_per_second=9.0)
    observation = RunObservation(run=1, status=status, supervision=supervision, silent_nodes=nodes)
    run_state = derive_state(observation)
    assert (run_state.state, run_state.uncertainty) == (JobState.TRAINING, uncertainty)
    assert (run_state.status.eta_s is None) is bool(nodes)
    ended_state = derive_state(replace(observation, exit=RunExit(1, JobState.FINISHED, "")))
    assert (ended_state.state, ended_state.uncertainty) == (JobState.FINISHED, "")


def test_a_run_that_makes_steps_names_no_node(folder: OpenJob, clock: Clock) -> None:
    launch = make_launch(folder.path)
    replace_json(folder.launch, launch.to_dict())
    requests: list[list[str]] = []

    def silent(nodes: Sequence[str]) -> tuple[str, ...]:
        requests.append(list(nodes))
        return tuple(nodes[1:2])

    reader = RunStateReader(folder, clock, silent)
    # Whether it moved before the first look is not known.
    assert reader.read().uncertainty == "gpu02 gives no sign of life"
    assert requests == [["gpu01", "gpu02", "gpu03"]]
    for step in range(41, 46):
        clock.now += 20
        replace_json(folder.status, replace(TRAINING, step=step, heartbeat=step).to_dict())
        assert reader.read().uncertainty == ""
    clock.now += 31
    replace_json(folder.status, replace(TRAINING, step=45, heartbeat=99).to_dict())
    assert reader.read().uncertainty == "gpu02 gives no sign of life"


def block(run: int, epoch: int, last: int) -> bytes:
    values = {"loss": [0.5, 0.25]}
    return encode(Block("TRAINING", run, epoch, 1, last - 1, "2026-11-21T07:30:00Z", values))


def saved(run: int, epoch: int, step: int) -> Checkpoint:
    return Checkpoint("c", run, epoch, step, 0, 1, "", "", "")


@pytest.mark.parametrize(
    ("status", "history", "checkpoints", "stored_progress"),
    [
        ((1, 0), block(1, 3, 80), (), (3, 80)),
        ((1, 0), block(1, 3, 80) + block(1, 4, 90)[:-9], (), (3, 80)),
        ((1, 0), block(1, 3, 80), (saved(1, 4, 100),), (4, 100)),
        ((1, 0), b"", (saved(1, 4, 100),), (4, 100)),
        ((1, 0), None, (), (1, 0)),
        ((1, 0), b"[[entry]]\nstate", (), (1, 0)),
        ((4, 90), block(1, 3, 80), (saved(1, 3, 75),), (4, 90)),
        ((1, 0), block(3, 3, 80), (saved(3, 4, 100),), (1, 0)),
        ((1, 0), block(3, 9, 900) + block(2, 5, 50), (), (5, 50)),
    ],
)
def test_a_status_that_could_not_be_written_yields_to_the_last_step_on_record(
    folder: OpenJob,
    status: tuple[int, int],
    history: bytes | None,
    checkpoints: tuple[Checkpoint, ...],
    stored_progress: tuple[int, int],
) -> None:
    folder.history.parent.mkdir(exist_ok=True)
    if history is not None:
        folder.history.write_bytes(history)
    epoch, step = status
    shown_status = with_progress(
        RunStatus(
            JobState.ERROR, run=2 if stored_progress == (5, 50) else 1, epoch=epoch, step=step
        ),
        folder,
        checkpoints,
    )
    assert (shown_status.epoch, shown_status.step) == stored_progress


def test_a_queued_run_claimed_during_the_read_is_no_draft(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = OpenJob(tmp_path / "jobs" / "waits", MOUNTED)
    folder.attempts.mkdir(parents=True)
    placement = (Placement(THIS_COMPUTER, 1),)
    entry = QueueEntry("waits", "waits", 1, placement, machine="", host="")
    replace_json(folder.queued, entry.to_dict())
    newest_run = JobFolder.newest_run

    def claimed_after(self: JobFolder) -> int:
        run = newest_run(self)
        self.attempt(1).path.mkdir(exist_ok=True)
        return run

    monkeypatch.setattr(JobFolder, "newest_run", claimed_after)
    job_status = RunStateReader(folder).read().status
    assert (job_status.state, job_status.run) == (JobState.STARTING, 1)


def test_the_exit_record_is_believed_before_status_and_process() -> None:
    run_exit = RunExit(1, JobState.FINISHED, "")
    for supervision in Supervision:
        evidence = RunObservation(
            run=1, exit=run_exit, status=TRAINING, supervision=supervision, silent_s=9e9
        )
        run_state = derive_state(evidence)
        assert (run_state.state, run_state.status.step, run_state.uncertainty) == (
            JobState.FINISHED,
            40,
            "",
        )


@pytest.mark.parametrize(
    ("run_exit", "condition", "expected"),
    [
        (None, Condition(JobState.QUEUED, "It waits."), (JobState.QUEUED, "It waits.")),
        (None, Condition(JobState.STARTING, "It boots."), (JobState.STARTING, "It boots.")),
        (None, Condition(None), (JobState.TRAINING, "")),
        (None, Condition(JobState.ERROR, "Cancelled."), (JobState.ERROR, "Cancelled.")),
        (RunExit(1, JobState.INTERRUPTED, "", pause="Its limit is near."),
         Condition(JobState.PAUSED, "It waits."), (JobState.PAUSED, "It waits.")),
        (RunExit(1, JobState.ERROR, "mpirun ended."), Condition(JobState.ERROR, "A node failed."),
         (JobState.ERROR, "A node failed.")),
        (RunExit(1, JobState.FINISHED, ""), None, (JobState.FINISHED, "")),
    ],
)  # fmt: skip
def test_the_state_in_slurm_completes_what_the_run_wrote(
    run_exit: RunExit | None, condition: Condition | None, expected: tuple[JobState, str]
) -> None:
    observation = RunObservation(run=1, exit=run_exit, status=TRAINING, condition=condition)
    run_state = derive_state(observation)
    assert (run_state.state, run_state.status.message) == expected


@pytest.mark.parametrize("last_answer", [None, Condition(None)])
def test_a_job_that_slurm_queued_again_is_paused_while_slurm_says_nothing_new(
    folder: OpenJob, last_answer: Condition | None
) -> None:
    run_exit = RunExit(1, JobState.INTERRUPTED, "", pause="Its limit is near.")
    replace_json(folder.attempt(1).exit, run_exit.to_dict())
    replace_json(
        folder.attempt(1).submission("slurm"), Submission(SlurmPlacement("hpc"), "", "17").to_dict()
    )
    reader = RunStateReader(folder, submitted_condition=lambda _folder, _run: last_answer)
    status = reader.read().status
    assert (status.state, status.message) == (JobState.PAUSED, "Its limit is near.")


def test_a_reader_between_the_last_two_writes_sees_the_final_state(
    folder: OpenJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_exit = RunExit(1, JobState.FINISHED, "", ended_at="2026-11-23T18:42:44.100Z")
    last_of_rank_0 = replace(TRAINING, step=64, eta_s=0.1, updated_at="2026-11-23T18:42:43.856090Z")

    def read_as_the_run_ends(path: Path) -> Mapping[str, Any]:
        if path == folder.attempt(1).exit and not path.exists():
            replace_json(folder.status, last_of_rank_0.to_dict())
            replace_json(path, run_exit.to_dict())
        return read_json(path)

    monkeypatch.setattr(run_status, "read_json", read_as_the_run_ends)
    early_status = RunStateReader(folder).read().status
    replace_json(folder.status, final_status(run_exit, last_of_rank_0).to_dict())
    later = RunStateReader(folder).read().status
    assert (early_status.step, early_status.updated_at) == (64, run_exit.ended_at)
    assert replace(early_status, heartbeat=0) == replace(later, heartbeat=0)


def test_a_run_supervised_on_another_computer_is_never_called_ended() -> None:
    evidence = RunObservation(
        run=1,
        status=replace(TRAINING, eta_s=60.0, samples_per_second=100.0),
        supervision=Supervision.ON_OTHER_HOST,
        silent_s=3600,
        last_news="14:02",
    )
    run_state = derive_state(evidence)
    assert (run_state.state, run_state.uncertainty) == (JobState.TRAINING, "no news since 14:02")
    assert (run_state.status.eta_s, run_state.status.samples_per_second) == (None, None), (
        "not foreseen"
    )


def test_a_request_to_stop_shows_at_once_and_not_after_the_end() -> None:
    evidence = RunObservation(
        run=1, status=TRAINING, supervision=Supervision.ALIVE, stop_requested=True
    )
    assert derive_state(evidence).state is JobState.STOPPING
    ended_status = replace(TRAINING, state=JobState.FINISHED)
    assert derive_state(replace(evidence, status=ended_status)).state is JobState.FINISHED


def test_f22_the_status_names_who_stops_a_run_until_the_run_has_its_own_message() -> None:
    evidence = RunObservation(
        run=1,
        status=TRAINING,
        supervision=Supervision.ALIVE,
        stop_requested=True,
        stopped_by="ben",
    )
    assert derive_state(evidence).status.message == "Stop requested by ben."
    saving = replace(TRAINING, state=JobState.STOPPING, message="Saving a checkpoint")
    assert derive_state(replace(evidence, status=saving)).status.message == "Saving a checkpoint"


@pytest.mark.parametrize("mode", [0o600, 0o000, 0o644])
@pytest.mark.parametrize("state", [JobState.TRAINING, JobState.EVALUATING, JobState.STOPPING])
def test_a_stop_request_that_the_ranks_do_not_see_is_said_within_10_s(
    folder: OpenJob, mode: int, state: JobState
) -> None:
    replace_json(folder.stop_request, {"run": 1, "user": "ben"})
    folder.stop_request.chmod(mode)
    for later_s, is_unseen in ((0.0, False), (7.0, False), (10.0, state is not JobState.STOPPING)):
        disk = Later(later_s)
        replace_json(folder.status, replace(TRAINING, state=state).to_dict())
        run_state = RunStateReader(OpenJob(folder.path, disk)).read()
        assert run_state.state is JobState.STOPPING
        assert ("do not see the stop request" in run_state.status.message) is is_unseen


def test_a_stop_request_that_cannot_be_read_here_is_one_and_is_replaced(
    folder: OpenJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another desktop made it; root may read it, so the refusal is that of the disk's call."""
    replace_json(folder.stop_request, {"run": 1, "user": "ben"})
    real_open = Path.open

    def refuse(path: Path, *args: Any, **options: Any) -> Any:
        if path == folder.stop_request and read_json(path).get("user") == "ben":
            raise PermissionError(13, "Permission denied", str(path))
        return real_open(path, *args, **options)

    monkeypatch.setattr(Path, "open", refuse)
    assert RunStateReader(folder).read().state is JobState.STOPPING
    assert job_files.request_stop(folder, 1)
    assert stop_requested(folder.stop_request, 1)


def test_a_status_of_the_run_before_says_nothing_about_this_one() -> None:
    finished = replace(TRAINING, state=JobState.FINISHED)
    assert derive_state(RunObservation(run=2, status=finished)).state is JobState.STARTING


@pytest.mark.parametrize("claimed_s", [119, 121])
def test_m07_nothing_stays_starting_for_more_than_120_s_without_a_supervisor(
    claimed_s: float,
) -> None:
    run_state = derive_state(RunObservation(run=1, claimed_s=claimed_s))
    assert run_state.state is (JobState.STARTING if claimed_s < 120 else JobState.ERROR)


def test_doubt_comes_from_a_heartbeat_that_stands_still_by_the_readers_own_clock(
    folder: OpenJob, clock: Clock
) -> None:
    reader = RunStateReader(folder, clock)
    assert reader.read().uncertainty == ""
    clock.now += 29
    assert reader.read().uncertainty == ""
    clock.now += 2
    run_state = reader.read()
    assert run_state.uncertainty.startswith("no news since ")
    assert run_state.state is JobState.TRAINING
    replace_json(folder.status, replace(TRAINING, heartbeat=8).to_dict())
    assert reader.read().uncertainty == ""


BROKEN = {
    "empty": b"",
    "half": json.dumps(TRAINING.to_dict()).encode()[:70],
    "not JSON": b"\x00\xff\xfe<html>",
    "a list": b"[1, 2]",
    "a newer format": json.dumps({**TRAINING.to_dict(), "schema": 99}).encode(),
    "huge": b"[" * 5_000_000,
    "deep": b'{"a":' + b"[" * 100_000,
    "infinite": json.dumps({**TRAINING.to_dict(), "step": float("inf")}).encode(),
    "of wrong types": json.dumps({**TRAINING.to_dict(), "metrics": 3}).encode(),
    "an unknown state": json.dumps({**TRAINING.to_dict(), "state": "DANCING"}).encode(),
}


@pytest.mark.parametrize("content", BROKEN.values(), ids=BROKEN.keys())
def test_f35_a_broken_status_keeps_the_last_good_values_and_is_reported(
    folder: OpenJob, content: bytes
) -> None:
    reader = RunStateReader(folder)
    assert reader.read().problems == ()
    folder.status.write_bytes(content)
    run_state = reader.read()
    assert (run_state.state, run_state.status.step) == (JobState.TRAINING, 40)
    assert (
        "status.json cannot be read, so the values are the last good ones" in run_state.problems[0]
    )
    replace_json(folder.status, replace(TRAINING, step=41).to_dict())
    assert (reader.read().status.step, reader.read().problems) == (41, ())


@pytest.mark.parametrize("content", BROKEN.values(), ids=BROKEN.keys())
def test_f35_a_broken_status_is_reported_at_the_first_read_too(
    folder: OpenJob, content: bytes
) -> None:
    folder.status.write_bytes(content)
    run_state = RunStateReader(folder).read()
    assert run_state.state is JobState.STARTING
    assert "status.json cannot be read" in run_state.problems[0]


def test_a_broken_supervisor_record_ends_no_run(folder: OpenJob) -> None:
    folder.attempt(1).supervisor.write_text("{}")
    run_state = RunStateReader(folder).read()
    assert run_state.state is JobState.TRAINING
    assert "supervisor.json of run 1 cannot be read" in run_state.problems[0]


def test_f32_a_missing_data_root_makes_a_run_stale_and_not_failed(
    folder: OpenJob, tmp_path: Path
) -> None:
    reader = RunStateReader(folder)
    reader.read()
    (tmp_path / "jobs").rename(tmp_path / "away")
    run_state = reader.read()
    assert run_state.state is JobState.TRAINING
    assert run_state.uncertainty.startswith("no news since ")
    (tmp_path / "away").rename(tmp_path / "jobs")
    assert reader.read().uncertainty == ""


def test_a_folder_that_was_never_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BackendError, match="cannot be read"):
        RunStateReader(OpenJob(tmp_path / "nothing", MOUNTED)).read()


def test_f10_a_reused_pid_is_not_the_supervisor(folder: OpenJob) -> None:
    reused = replace(process_identity.own_process(), start_ticks=1)
    replace_json(folder.attempt(1).supervisor, reused.to_dict())
    assert RunStateReader(folder).read().state is JobState.ERROR


def test_f06_m12_a_new_reader_finds_a_run_alive_that_another_process_started(run: Run) -> None:
    run.start().wait_until_training()
    run_state = RunStateReader(run.folder).read()
    assert (run_state.state, run_state.uncertainty, run_state.problems) == (
        JobState.TRAINING,
        "",
        (),
    )
    run.stop()
    run.end()
    assert RunStateReader(run.folder).read().state is JobState.INTERRUPTED


def test_a_supervisor_that_comes_after_its_run_was_given_up_starts_nothing(run: Run) -> None:
    run_exit = RunExit(1, JobState.ERROR, "The run did not start within 120 s.")
    replace_json(run.attempt.exit, run_exit.to_dict())
    run.start()
    wait_for(lambda: not run.leftovers(), "the supervisor's end")
    assert not run.attempt.supervisor.exists()
    assert not run.folder.mpirun_log.exists()


def test_each_run_start_says_how_the_run_before_ended(folder: OpenJob) -> None:
    for run, state in ((1, JobState.INTERRUPTED), (2, JobState.ERROR)):
        folder.attempt(run).path.mkdir(parents=True, exist_ok=True)
        replace_json(folder.attempt(run).exit, RunExit(run, state, "").to_dict())
    starts = tuple(RunStart(run, 20 * run) for run in (1, 2, 3, 4))
    run_starts = run_status.with_ends(HistoryUpdate(run_starts=starts), folder).run_starts
    assert [run_start.previous_state for run_start in run_starts] == [
        None,
        JobState.INTERRUPTED,
        JobState.ERROR,
        None,
    ]
    assert [run_start.first_step for run_start in run_starts] == [20, 40, 60, 80]
