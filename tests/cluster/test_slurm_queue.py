"""A busy Slurm: sweeps with a limit, thousands of foreign jobs, a controller that is away."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import pytest

from backend.launch.slurm import SlurmCluster as Queue
from backend.records.jobs.state import JobState
from backend.records.sweeps.spec import Sweep
from backend.records.sweeps.values import Axis
from backend.services.context.container import Services
from backend.ssh.interface import CommandResult
from tests.cluster.slurm import SlurmCluster
from tests.cluster.slurm_jobs import SlurmJobs
from tests.cluster.test_slurm_jobs import jobs, services, slurm
from tests.waiting import wait_for

__all__ = ["jobs", "services", "slurm"]
pytestmark = pytest.mark.slow
AT_ONCE, TRIALS = 3, 12
FOREIGN_JOBS, ARRAY_SIZE = 2000, 1000


def test_at_most_three_of_twelve_jobs_of_a_sweep_run_at_once(
    slurm: SlurmCluster, services: Services, jobs: SlurmJobs
) -> None:
    base = {**jobs.raw(at_once=AT_ONCE), "name": "rates", "epochs": 1}
    rates = tuple(0.01 * number for number in range(1, TRIALS + 1))
    queued_sweep = services.sweeps.queue(Sweep(base, (Axis("optimizer.lr", rates),)))
    running_counts: list[int] = []

    def are_over() -> bool:
        states = slurm.call("squeue", "-h", "-o", "%T").split()
        running_counts.append(states.count("RUNNING"))
        assert running_counts[-1] <= AT_ONCE, slurm.call("squeue")
        return not states

    wait_for(are_over, "the end of all jobs", 600, hint=lambda: slurm.call("squeue"))
    assert max(running_counts) == AT_ONCE
    for view in queued_sweep.jobs:
        jobs.wait_until(view.id, lambda view: view.state is JobState.FINISHED, "the end")


class CountingLoginNode:
    """The login node of the cluster, with the size and the time of each answer."""

    def __init__(self, cluster: SlurmCluster) -> None:
        self._cluster = cluster
        self.answers: list[tuple[str, int, float]] = []

    def run(
        self, argv: Sequence[str], *, input: bytes = b"", limit_s: float = 60.0
    ) -> CommandResult:
        started_s = time.monotonic()
        result = self._cluster.run(argv, input=input, limit_s=limit_s)
        self.answers.append((argv[0], len(result.out), time.monotonic() - started_s))
        return result


@pytest.fixture
def foreign_jobs(slurm: SlurmCluster) -> Iterator[None]:
    """Jobs of another user, which wait."""
    user = "--uid=nobody"
    options = (user, f"--array=1-{ARRAY_SIZE}", "--hold", "--output=/dev/null", "--chdir=/")
    numbers = [
        slurm.call("sbatch", "--parsable", *options, "--wrap=true").strip()
        for _ in range(FOREIGN_JOBS // ARRAY_SIZE)
    ]
    yield
    slurm.call("scancel", *numbers)


def test_thousands_of_foreign_jobs_cost_one_short_answer(
    slurm: SlurmCluster, services: Services, jobs: SlurmJobs, foreign_jobs: None
) -> None:
    waiting_jobs = slurm.call("squeue", "-h", "-r", "-o", "%i").split()
    assert len(waiting_jobs) == FOREIGN_JOBS
    job_id = jobs.start()
    jobs.wait_for_step(job_id, run=1)
    login_node = CountingLoginNode(slurm)
    names = [job.name for job in Queue(login_node).jobs().values()]
    assert f"ringmaster-{job_id}" in names
    # Ended jobs stay in the queue for some minutes.
    assert all(name.startswith("ringmaster-") for name in names)
    ((command_name, size_bytes, _),) = login_node.answers
    assert command_name == "squeue"
    assert size_bytes < 200 * len(names)


def test_a_restart_of_the_controller_never_ends_a_run(
    slurm: SlurmCluster, services: Services, jobs: SlurmJobs
) -> None:
    job_id = jobs.start(nodes=2)
    step = jobs.wait_for_step(job_id, run=1, step=3).step
    slurm.stop_controller()
    # Longer than a query and the pause after it.
    view = jobs.wait_for_step(job_id, run=1, step=step + 150)
    assert view.state is JobState.TRAINING
    slurm.start_controller()
    jobs.wait_for_step(job_id, run=1, step=view.step + 150)
    services.jobs.lifecycle.stop(job_id)
    view = jobs.wait_until(job_id, lambda view: view.state.is_over, "the stop")
    assert view.state is JobState.INTERRUPTED


def test_a_node_that_is_down_ends_a_job_that_may_not_continue_with_cause_and_remedy(
    slurm: SlurmCluster, services: Services, jobs: SlurmJobs
) -> None:
    job_id = jobs.start(nodes=2, continues=False)
    jobs.wait_for_step(job_id, run=1)
    slurm.call("scontrol", "update", "NodeName=sn1", "State=DOWN", "Reason=broken fan")
    try:
        view = jobs.wait_until(job_id, lambda view: view.state.is_over, "the end")
        assert view.state is JobState.ERROR, jobs.describe(view)
        assert view.error is not None
        assert view.error.message == "A node of the job failed, so Slurm ended it."
        assert view.error.remedy.startswith("Start the job over. Ask your administrator")
    finally:
        slurm.repair("sn1")
