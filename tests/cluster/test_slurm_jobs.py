"""Jobs train in a real Slurm cluster: start, stop, resume, wait, cancel, continue."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from backend.base.errors import BackendError
from backend.datastore.jobs.checkpoint_files import verify
from backend.records.jobs.launch import launch_of
from backend.records.jobs.state import JobState
from backend.services.context.container import Services
from tests.cluster.slurm import NODES, SHORT_LIMIT_S, SlurmCluster
from tests.cluster.slurm_jobs import SlurmJobs, login_desktop
from tests.fakes.mounted_root import MOUNTED
from tests.waiting import wait_for


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmCluster]:
    with SlurmCluster(tmp_path_factory.mktemp("slurm")) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def services(slurm: SlurmCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Services]:
    with login_desktop(slurm, tmp_path_factory.mktemp("desktop")) as services:
        yield services


@pytest.fixture
def jobs(services: Services, slurm: SlurmCluster) -> Iterator[SlurmJobs]:
    yield SlurmJobs(services, slurm)
    slurm.cancel_all()


def test_a_job_trains_on_three_nodes_stops_resumes_on_two_and_is_cancelled_by_another_user(
    slurm: SlurmCluster, services: Services, jobs: SlurmJobs
) -> None:
    job_id = jobs.start(nodes=3)
    view = jobs.wait_for_step(job_id, run=1)
    launch = launch_of(services.data_root.job(job_id).launch, 1)
    assert launch is not None
    assert [plan.node for plan in launch.ranks] == list(NODES)
    assert view.status.world_size == 3

    services.jobs.lifecycle.stop(job_id)
    view = jobs.wait_until(job_id, lambda view: view.state.is_over, "the stop")
    assert view.state is JobState.INTERRUPTED
    newest_checkpoint = services.queries.checkpoints(job_id)[-1]
    verify(MOUNTED, newest_checkpoint)

    services.jobs.lifecycle.resume(job_id, changes={"slurm.nodes": 2})
    view = jobs.wait_for_step(job_id, run=2, step=newest_checkpoint.step)
    assert view.status.world_size == 2
    slurm.call("scancel", "--name", f"ringmaster-{job_id}")
    view = jobs.wait_until(job_id, lambda view: view.state.is_over, "the end")
    assert view.state is JobState.ERROR
    assert view.status.message == "The job was cancelled in Slurm."
    assert view.error is not None
    assert view.error.remedy.startswith("Resume from the newest checkpoint")


def test_a_job_waits_with_slurms_reason_and_leaves_the_queue(
    slurm: SlurmCluster, services: Services, jobs: SlurmJobs
) -> None:
    slurm.call("sbatch", "--nodes=3", "--exclusive", "--output=/dev/null", "--wrap=sleep 600")
    wait_for(lambda: "idle" not in slurm.states().values(), "three busy nodes")
    job_id = jobs.start()
    view = jobs.wait_until(job_id, lambda view: view.state is JobState.QUEUED, "the queue")
    assert "It waits for nodes or GPUs to become free." in view.status.message
    assert services.queue.dequeue(job_id).state is JobState.CREATED
    assert job_id not in slurm.call("squeue", "-h", "-o", "%j")
    assert services.jobs.lifecycle.start(job_id).run == 1


@pytest.mark.parametrize(
    ("slurm_table", "message"),
    [
        ({"partition": "gone"}, "no partition “gone”"),
        ({"nodes": 4}, "3 usable nodes, and the job asks for 4"),
        ({"partition": "short"}, "above that of the partition short"),
        ({"gpus": 9}, "0 usable nodes with 9 GPUs"),
        ({"options": ["--no-such-option=1"]}, "unrecognized option"),
    ],
)
def test_what_slurm_would_refuse_is_refused_before_the_start_and_nothing_is_left(
    services: Services, jobs: SlurmJobs, slurm_table: dict[str, Any], message: str
) -> None:
    number_before = len(services.queries.ids())
    with pytest.raises(BackendError, match=message):
        jobs.start(**slurm_table)
    assert len(services.queries.ids()) == number_before


@pytest.mark.slow
def test_a_run_whose_supervisor_does_not_answer_is_killed(
    slurm: SlurmCluster, services: Services, jobs: SlurmJobs
) -> None:
    job_id = jobs.start()
    jobs.wait_for_step(job_id, run=1)
    number = slurm.call("squeue", "-h", "-o", "%A", "--name", f"ringmaster-{job_id}").strip()
    slurm.call("scontrol", "suspend", number)
    services.jobs.lifecycle.stop(job_id)
    jobs.wait_until(job_id, lambda view: view.state is JobState.STOPPING, "the request")
    services.jobs.lifecycle.kill(job_id)
    view = jobs.wait_until(job_id, lambda view: view.state.is_over, "the end")
    assert view.status.message
    assert number not in slurm.call("squeue", "-h", "-o", "%A").split()


@pytest.mark.slow
def test_a_job_continues_by_itself_after_its_time_limit(
    slurm: SlurmCluster, services: Services, jobs: SlurmJobs
) -> None:
    job_id = jobs.start(nodes=2, partition="short", time_limit_min=SHORT_LIMIT_S // 60)
    jobs.wait_for_step(job_id, run=1)
    view = jobs.wait_until(job_id, lambda view: view.state is JobState.PAUSED, "the limit", 600)
    assert view.status.message.startswith("Slurm ends the job soon")
    newest_checkpoint = services.queries.checkpoints(job_id)[-1]
    # Slurm itself waits two minutes before it starts a job again.
    wait_for(lambda: services.queries.show(job_id).run == 2, "the second run", 600)
    jobs.wait_for_step(job_id, 2, newest_checkpoint.step)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_job_of_five_minutes_goes_through_a_partition_of_two_with_its_curve_in_one_piece(
    services: Services, jobs: SlurmJobs
) -> None:
    raw = jobs.raw(nodes=2, partition="short", time_limit_min=SHORT_LIMIT_S // 60)
    pauses = {**raw["environment"], "PAUSE_S": "0.55"}
    raw |= {"epochs": 2, "batch_size": 2, "loader_workers": 0, "environment": pauses}
    job_id = services.jobs.create_and_start(raw).id
    view = jobs.wait_until(job_id, lambda view: view.state is JobState.FINISHED, "the end", 1500)
    steps = list(services.queries.history(job_id).steps)
    assert steps == list(range(1, view.status.total_steps + 1))
    # Its samples alone take longer than two time limits.
    assert view.run > 2


@pytest.mark.slow
def test_a_preempted_job_continues_when_the_nodes_are_free_again(
    slurm: SlurmCluster, services: Services, jobs: SlurmJobs
) -> None:
    job_id = jobs.start(
        nodes=2, partition="spare", time_limit_min=30, checkpoint={"every_steps": 1}
    )
    jobs.wait_for_step(job_id, run=1, step=3)
    foreign_id = slurm.call(
        *("sbatch", "--parsable", "--nodes=3", "--exclusive", "--output=/dev/null"),
        "--wrap=sleep 600",
    ).strip()
    view = jobs.wait_until(job_id, lambda view: not view.state.is_live, "the preemption", 600)
    assert view.state is JobState.PAUSED, jobs.describe(view)
    assert "another job needed its nodes" in view.status.message
    newest_checkpoint = services.queries.checkpoints(job_id)[-1]
    slurm.call("scancel", foreign_id)
    wait_for(lambda: services.queries.show(job_id).run == 2, "the second run", 600)
    jobs.wait_for_step(job_id, 2, newest_checkpoint.step)


@pytest.mark.slow
def test_a_job_continues_on_other_nodes_after_one_was_lost(
    slurm: SlurmCluster, services: Services, jobs: SlurmJobs
) -> None:
    job_id = jobs.start(nodes=2, checkpoint={"every_steps": 1})
    jobs.wait_for_step(job_id, run=1, step=3)
    launch = launch_of(services.data_root.job(job_id).launch, 1)
    assert launch is not None
    lost_node = launch.ranks[-1].node
    slurm.cut(lost_node)
    try:
        view = jobs.wait_until(job_id, lambda view: not view.state.is_live, "the loss", 600)
        assert view.state is JobState.PAUSED, jobs.describe(view)
        newest_checkpoint = services.queries.checkpoints(job_id)[-1]
        wait_for(lambda: services.queries.show(job_id).run == 2, "the second run", 600)
        view = jobs.wait_for_step(job_id, 2, newest_checkpoint.step)
        launch = launch_of(services.data_root.job(job_id).launch, 2)
        assert launch is not None
        assert lost_node not in [plan.node for plan in launch.ranks]
        assert view.status.world_size == 2
    finally:
        slurm.repair(lost_node)
