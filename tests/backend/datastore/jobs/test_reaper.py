"""Runs that ended without a record: reads report them and change nothing, reaping ends them."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from backend.base.errors import BackendError
from backend.datastore.access.root_access import DataRootAccess, OpenJob
from backend.datastore.jobs import run_status
from backend.datastore.jobs.reaper import reap
from backend.datastore.jobs.run_status import RunStateReader
from backend.node.run.finalize import close_run
from backend.node.system import process_identity
from backend.records.base.atomic_files import read_json, replace_json
from backend.records.base.layout import RUN_VARIABLE, run_tag
from backend.records.jobs.state import JobState
from backend.records.jobs.status import RunExit, RunStatus, UnrecordedEnd
from backend.records.slurm.placement import SlurmPlacement
from backend.records.slurm.submission import Submission
from tests.fakes.mounted_root import MOUNTED
from tests.fakes.runs import Run
from tests.waiting import LIMIT_S, wait_for

TRAINING = RunStatus(JobState.TRAINING, run=1, step=40, heartbeat=7, metrics={"loss": 0.5})


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


def contents(folder: OpenJob) -> dict[str, tuple[int, bytes]]:
    files = (path for path in folder.path.rglob("*") if path.is_file())
    return {str(path): (path.stat().st_mtime_ns, path.read_bytes()) for path in files}


class Aged(DataRootAccess):
    """A data root on which the run was claimed ``age_s`` before it really was."""

    age_s = 0.0

    def changed_s(self, path: Path) -> float:
        return super().changed_s(path) - (self.age_s if path.name == "1" else 0.0)


def test_m07_an_old_claim_by_the_clock_of_the_share_is_reaped(folder: OpenJob) -> None:
    folder.attempt(1).supervisor.unlink()
    replace_json(folder.status, RunStatus(JobState.STARTING, run=1).to_dict())
    assert reap(folder) is None
    disk = Aged()
    disk.age_s = 200
    assert reap(OpenJob(folder.path, disk)) is UnrecordedEnd.NEVER_STARTED
    assert RunStateReader(folder).read().status.message == "The run did not start within 120 s."
    assert read_json(folder.attempt(1).exit)["state"] == "ERROR"


@pytest.mark.parametrize(("number", "reason"), [("17", None), ("", UnrecordedEnd.NEVER_STARTED)])
def test_a_run_may_wait_in_the_queue_of_slurm_only_if_slurm_has_it(
    folder: OpenJob, number: str, reason: UnrecordedEnd | None
) -> None:
    folder.attempt(1).supervisor.unlink()
    replace_json(folder.status, RunStatus(JobState.STARTING, run=1).to_dict())
    replace_json(
        folder.attempt(1).submission("slurm"),
        Submission(SlurmPlacement("hpc"), "", number).to_dict(),
    )
    disk = Aged()
    disk.age_s = 200
    assert reap(OpenJob(folder.path, disk)) is reason


@pytest.mark.parametrize("ahead_s", [-7200.0, -130.0, 0.0, 130.0, 7200.0, 1e8])
def test_an_age_is_that_of_the_shares_clock_and_stays_as_it_was(
    folder: OpenJob, ahead_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.attempt(1).supervisor.unlink()
    replace_json(folder.status, RunStatus(JobState.STARTING, run=1).to_dict())
    local_time = time.time
    monkeypatch.setattr(time, "time", lambda: local_time() + ahead_s)
    disk = Aged()
    attempt = folder.attempt(1).path
    previous_s = disk.changed_s(attempt)
    for disk.age_s, reason in ((50, None), (200, UnrecordedEnd.NEVER_STARTED)):
        for _ in range(2):
            if reason is None:
                assert reap(OpenJob(folder.path, disk)) is None
                assert DataRootAccess().changed_s(attempt) == previous_s
        assert reap(OpenJob(folder.path, disk)) is reason


@pytest.mark.parametrize("victims", ["F4", "F5"])
def test_f04_f05_a_killed_supervisor_ends_as_an_error_and_leaves_nothing(
    run: Run, victims: str
) -> None:
    run.start().wait_until_training()
    assert reap(run.folder) is None
    mpirun = run.find(" --map-by ")
    process_identity.send_signal(run.supervisor, signal.SIGKILL)
    if victims == "F5":
        process_identity.send_signal(mpirun, signal.SIGKILL)
    wait_for(lambda: not process_identity.is_alive(run.supervisor))
    assert reap(run.folder) is UnrecordedEnd.SUPERVISOR_GONE
    run_state = RunStateReader(run.folder).read()
    assert run_state.state is JobState.ERROR
    assert run_state.status.message == "The supervisor of the run ended without a record."
    assert run.leftovers() == ()
    assert not run.session.exists()
    assert not run.shared_memory.exists()
    assert RunExit.from_dict(read_json(run.attempt.exit)).state is JobState.ERROR
    assert run.status.heartbeat > 1
    assert reap(run.folder) is None


def test_a_read_of_a_dead_run_signals_no_process_and_writes_no_file(folder: OpenJob) -> None:
    dead_process = replace(process_identity.own_process(), start_ticks=1)
    replace_json(folder.attempt(1).supervisor, dead_process.to_dict())
    old = folder.attempt(1).path.stat().st_mtime - 200
    os.utime(folder.attempt(1).path, (old, old))
    environment = {**os.environ, RUN_VARIABLE: run_tag(folder.job_id, 1)}
    rank = subprocess.Popen(["sleep", "600"], env=environment)
    try:
        previous_s = contents(folder)
        reader = RunStateReader(folder)
        reasons = {reader.read().unrecorded_end for _ in range(3)}
        assert reasons == {UnrecordedEnd.SUPERVISOR_GONE}
        assert contents(folder) == previous_s
        assert rank.poll() is None
        assert reap(folder) is UnrecordedEnd.SUPERVISOR_GONE
        assert rank.wait(LIMIT_S) == -signal.SIGTERM
        assert contents(folder) != previous_s
    finally:
        rank.kill()
        rank.wait()


def test_a_run_with_finished_ranks_is_finished_though_its_supervisor_was_killed(
    run: Run,
) -> None:
    for rank in (0, 1):
        record = {"rank": rank, "run": 1, "host": "h", "node": "this-computer"}
        replace_json(run.attempt.rank_exit(rank), {**record, "outcome": "finished"})
    dead_process = replace(process_identity.own_process(), start_ticks=1)
    replace_json(run.attempt.supervisor, dead_process.to_dict())
    assert reap(run.folder) is UnrecordedEnd.SUPERVISOR_GONE
    assert RunStateReader(run.folder).read().state is JobState.FINISHED


def test_an_end_that_cannot_be_written_is_an_error_and_is_tried_again(
    folder: OpenJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead_process = replace(process_identity.own_process(), start_ticks=1)
    replace_json(folder.attempt(1).supervisor, dead_process.to_dict())

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("backend.node.run.finalize.PreallocatedFile.replace_json", full)
        with pytest.raises(BackendError, match="No space left"):
            reap(folder)
    assert reap(folder) is UnrecordedEnd.SUPERVISOR_GONE


def test_a_missing_folder_reaps_nothing(tmp_path: Path) -> None:
    with pytest.raises(BackendError, match="cannot be read"):
        reap(OpenJob(tmp_path / "nothing", MOUNTED))


def test_a_run_that_another_desktop_moves_away_meanwhile_is_not_reaped(
    folder: OpenJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It reads its supervisor, which is gone, and then finds no end: both were moved."""
    dead_process = replace(process_identity.own_process(), start_ticks=1)
    replace_json(folder.attempt(1).supervisor, dead_process.to_dict())
    replace_json(folder.attempt(1).exit, RunExit(1, JobState.FINISHED, "").to_dict())

    def read(path: Path) -> Mapping[str, Any]:
        if path == folder.attempt(1).exit and path.exists():
            folder.attempt(2).path.mkdir()
            folder.attempt(1).path.rename(folder.path / "1")
        return read_json(path)

    monkeypatch.setattr(run_status, "read_json", read)
    assert reap(folder) is None
    assert not folder.attempt(1).path.exists()


def test_the_end_of_a_run_that_was_moved_away_is_not_written_again(folder: OpenJob) -> None:
    folder.attempt(1).path.rename(folder.path / "1")
    assert close_run(folder, 1, "It is gone.", TRAINING) == (TRAINING, "")
    assert RunStatus.from_dict(read_json(folder.status)) == TRAINING


def test_a_run_that_is_moved_away_while_its_end_is_written_is_no_error(
    folder: OpenJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    exists = Path.exists

    def exists_and_goes(path: Path) -> bool:
        answer = exists(path)
        if path == folder.attempt(1).exit:
            folder.attempt(1).path.rename(folder.path / "1")
        return answer

    monkeypatch.setattr(Path, "exists", exists_and_goes)
    assert close_run(folder, 1, "It is gone.", TRAINING)[1] == ""
