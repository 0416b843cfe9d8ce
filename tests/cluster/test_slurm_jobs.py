"""A job folder trains in a real Slurm cluster: submit, stop, resume, cancel, continue."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace

import pytest

from backend.base.errors import BackendError
from backend.datastore.jobs.checkpoint_files import verify
from backend.launch.slurm import SlurmCluster, SlurmLauncher, allocation_launch
from backend.node.run import run_start
from backend.records.base.atomic_files import read_json
from backend.records.base.local_files import Files
from backend.records.jobs.checkpoint import checkpoint_to_resume, read_checkpoints
from backend.records.jobs.launch import RANK_MODULE, launch_of
from backend.records.jobs.state import JobState
from backend.records.jobs.status import RunExit, last_status
from backend.records.slurm.placement import SlurmPlacement
from backend.records.slurm.submission import Submission
from tests.cluster import slurm as machines
from tests.cluster.slurm import NODES
from tests.fakes.mounted_root import MOUNTED
from tests.fakes.runs import Run
from tests.integration.tiny import CALM, LOADER, MODEL
from tests.waiting import LIMIT_S, wait_for

ENDLESS = 100_000
THREE_NODES = SlurmPlacement(nodes=3, time_limit_min=60)


@dataclass
class SlurmJob:
    """A job folder in the cluster and its launcher."""

    cluster: machines.SlurmCluster
    run: Run
    launcher: SlurmLauncher | None = None

    def submit(self, placement: SlurmPlacement, run: int = 1) -> None:
        """Claim and submit a run; one after the first resumes from the newest checkpoint."""
        files, folder, launch = Files(), self.run.folder, self.run.launch
        launch = replace(launch, run=run, python=sys.executable)
        if run > 1:
            checkpoint = checkpoint_to_resume(read_checkpoints(folder.checkpoints), None)
            assert checkpoint is not None
            launch = replace(launch, resume_from=checkpoint.path)
            assert run_start.claim(folder, run, files)
        launch = allocation_launch(launch, placement)
        run_start.write(folder, launch, files)
        self.launcher = SlurmLauncher(SlurmCluster(self.cluster), placement, files)
        self.launcher.submit(folder, launch)

    def number(self, run: int = 1) -> str:
        return Submission.from_dict(read_json(self.run.folder.attempt(run).slurm)).number

    def wait_for_step(self, run: int, step: int = 1) -> None:
        """Wait until a run has made more steps than ``step``, or is over."""
        attempt = self.run.folder.attempt(run)

        def has_stepped() -> bool:
            assert self.launcher is not None
            with suppress(BackendError):  # between the claim of a run and its record
                self.launcher.state(self.run.folder)  # It records an end without a beginning.
            status = last_status(self.run.folder)
            return attempt.exit.exists() or bool(
                status and status.run == run and status.is_planned and status.step > step
            )

        message = f"step {step} of run {run}"
        wait_for(has_stepped, message, 2 * LIMIT_S, hint=lambda: self.describe(run))
        assert not attempt.exit.exists(), self.describe(run)

    def wait_for_end(self, run: int) -> RunExit:
        path = self.run.folder.attempt(run).exit
        wait_for(path.exists, f"the end of run {run}", hint=lambda: self.describe(run))
        return RunExit.from_dict(read_json(path))

    def describe(self, run: int) -> str:
        """All that is known of a run, for the message of a failure."""
        attempt, folder = self.run.folder.attempt(run), self.run.folder
        paths = [*attempt.path.iterdir(), folder.status, folder.mpirun_log]
        paths += [folder.rank_log(rank) for rank in range(3)]
        texts = [f"── {p} ──\n{p.read_text(errors='replace')}" for p in paths if p.exists()]
        return "\n".join((self.cluster.call("squeue", "-t", "all"), *texts))


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[machines.SlurmCluster]:
    with machines.SlurmCluster(tmp_path_factory.mktemp("slurm")) as running_cluster:
        yield running_cluster


@pytest.fixture
def job(slurm: machines.SlurmCluster) -> Iterator[SlurmJob]:
    """A job that trains until it is stopped; nothing of it runs after the test."""
    run = Run(
        slurm.data,
        strategy="ddp",
        module=RANK_MODULE,
        model=MODEL,
        loader=LOADER,
        epochs=ENDLESS,
        batch_size=8,
        environment=CALM,
    )
    yield SlurmJob(slurm, run)
    slurm.cancel_all()
    run.clean()


def test_a_job_trains_on_three_nodes_stops_resumes_on_two_and_is_cancelled_by_another_user(
    slurm: machines.SlurmCluster, job: SlurmJob
) -> None:
    job.submit(THREE_NODES)
    job.wait_for_step(1)
    launch = launch_of(job.run.folder.launch, 1)
    assert launch is not None
    assert [plan.node for plan in launch.ranks] == list(NODES)
    status = last_status(job.run.folder)
    assert status is not None
    assert status.world_size == 3
    assert job.launcher is not None
    assert job.launcher.state(job.run.folder).state is None

    job.run.stop()
    record = job.wait_for_end(1)
    assert record.state is JobState.INTERRUPTED, job.describe(1)
    checkpoint = read_checkpoints(job.run.folder.checkpoints)[-1]
    verify(MOUNTED, checkpoint)
    wait_for(lambda: slurm.call("squeue", "-h") == "", "an empty queue")

    job.submit(replace(THREE_NODES, nodes=2), run=2)
    job.wait_for_step(2, checkpoint.step)
    assert job.number(2) != job.number(1)
    slurm.call("scancel", job.number(2))
    record = job.wait_for_end(2)
    assert record.state is JobState.ERROR
    assert record.message == "The job was cancelled in Slurm.", job.describe(2)
    assert record.error is not None
    assert record.error.remedy.startswith("Resume the job")


@pytest.mark.slow
def test_a_run_that_slurm_announces_the_end_of_is_queued_again_and_continues(
    slurm: machines.SlurmCluster, job: SlurmJob
) -> None:
    job.submit(replace(THREE_NODES, nodes=2))
    job.wait_for_step(1)
    assert job.launcher is not None
    job.launcher.signal(job.run.folder)
    record = job.wait_for_end(1)
    assert record.state is JobState.INTERRUPTED, job.describe(1)
    assert record.pause.startswith("Slurm ends the job soon")
    checkpoint = read_checkpoints(job.run.folder.checkpoints)[-1]
    # Slurm itself waits two minutes before it starts a job again.
    job.wait_for_step(2, checkpoint.step)
    assert job.number(2) == job.number(1)
