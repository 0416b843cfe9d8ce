"""A disk that is full: of the data root, seen from the nodes, and of the desktop's catalogue."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from backend.datastore.jobs.checkpoint_files import verify
from backend.records.jobs.checkpoint import Checkpoint
from backend.records.jobs.state import JobState
from backend.records.jobs.view import JobView
from backend.records.library.item import Kind
from backend.services.context.container import Services, open_services
from tests.cluster.disks import fill, filled_disk, small_disk
from tests.cluster.ready import ReadyCluster
from tests.cluster.runs import (
    everyone_is_online,
    wait_for_message,
    wait_for_no_processes,
    wait_for_step_after,
)
from tests.conftest import LogWatch
from tests.fakes.mounted_root import MOUNTED
from tests.integration.tiny import MODEL, raw_job
from tests.waiting import wait_for

pytestmark = pytest.mark.slow

pytest_plugins = ["tests.cluster.runs_fixtures"]

MEBIBYTE = 2**20
HEAVY = MODEL.replace(
    "self.layer = nn.Linear(4, 2)",
    "self.layer = nn.Linear(4, 2)\n        self.register_buffer('ballast', torch.zeros(2**19))",
)


@pytest.fixture
def heavy(stocked: ReadyCluster, tmp_path: Path) -> str:
    """A model whose checkpoint takes 2 MiB."""
    folder = tmp_path / "heavy"
    folder.mkdir()
    (folder / "bks_model.py").write_text(HEAVY)
    stocked.services.library.import_item(Kind.MODEL, folder, "heavy")
    return "heavy"


def newest_checkpoint(stocked: ReadyCluster, job_id: str) -> Checkpoint:
    """The newest checkpoint, which is sound, beside which nothing lies that is half."""
    folder = stocked.services.data_root.job(job_id).checkpoints
    # A live run may be trying again just now.
    wait_for(lambda: not list(folder.glob(".*")), "whole checkpoints alone")
    (checkpoint,) = (
        checkpoint
        for checkpoint in stocked.services.jobs.queries.checkpoints(job_id)
        if checkpoint.is_latest
    )
    verify(MOUNTED, checkpoint)
    return checkpoint


def test_f26_f27_the_run_reports_a_full_data_root_and_loses_no_step(
    stocked: ReadyCluster, run: Callable[..., JobView], heavy: str, log_watch: LogWatch
) -> None:
    log_watch.expect("“Stopped” could not be recorded")
    jobs, share = stocked.services.jobs, stocked.cluster.share
    view = run("node1", "node2", model=heavy, checkpoint={"every_steps": 10})
    wait_for(lambda: len(jobs.queries.checkpoints(view.id)) > 1, "two checkpoints")
    with filled_disk(share, MEBIBYTE):
        view_with_message = wait_for_message(
            stocked, view.id, "could not be written: No space left on device"
        )
        assert view_with_message.status.message.startswith("The checkpoint epoch-")
        saved_checkpoint = newest_checkpoint(stocked, view.id)

        # Now not one block is left, not even for a status of 1 kB; it is written all the same.
        fill(share)
        view_with_message = wait_for_message(
            stocked, view.id, "The history cannot be written and is kept in memory"
        )
        view = wait_for_step_after(stocked, view.id, view_with_message.step + 5)
        assert (view.state.is_live, view.contact_warning) == (True, "")
        assert newest_checkpoint(stocked, view.id) == saved_checkpoint
        wait_for(lambda: everyone_is_online(stocked), "every node to be online")
    wait_for_message(stocked, view.id, "")
    wait_for(
        lambda: newest_checkpoint(stocked, view.id).step > saved_checkpoint.step, "a checkpoint"
    )

    with filled_disk(share):
        # A stop request needs no space; the run waits for some, as its last checkpoint does.
        jobs.lifecycle.stop(view.id)
        view_with_message = wait_for_message(
            stocked, view.id, "could not be written: No space left on device"
        )
        assert view_with_message.state is JobState.STOPPING
    view = jobs.queries.wait(view.id)
    assert view.state is JobState.INTERRUPTED
    assert newest_checkpoint(stocked, view.id).step == view.step
    assert list(jobs.queries.history(view.id).steps) == list(range(1, view.step + 1))
    assert not list(stocked.services.data_root.job(view.id).path.rglob(".*.spare"))


def test_f26_a_run_that_ends_on_a_full_disk_says_why_and_resumes_with_room(
    stocked: ReadyCluster, run: Callable[..., JobView], heavy: str, log_watch: LogWatch
) -> None:
    log_watch.expect("“Stopped” could not be recorded")
    jobs, share = stocked.services.jobs, stocked.cluster.share
    # Half of the limit is how long a last checkpoint waits for room.
    view = run("node1", "node2", model=heavy, checkpoint={"every_steps": 10}, stall_limit_s=10.0)
    wait_for(lambda: len(jobs.queries.checkpoints(view.id)) > 1, "two checkpoints")
    with filled_disk(share):
        saved_checkpoint = newest_checkpoint(stocked, view.id)
        jobs.lifecycle.stop(view.id)
        view = jobs.queries.wait(view.id)
        assert view.state is JobState.ERROR
        assert view.status.message.startswith("Rank 0 on node1: The checkpoint epoch-")
        assert "could not be written: No space left on device" in view.status.message
        assert view.status.message.endswith("Free space, then resume from the newest checkpoint.")
        assert newest_checkpoint(stocked, view.id) == saved_checkpoint
        wait_for_no_processes(stocked)
    jobs.lifecycle.resume(view.id)
    view = wait_for_step_after(stocked, view.id, view.step)
    assert (view.run, view.state.is_live, view.status.message) == (2, True, "")


@pytest.fixture
def small(stocked: ReadyCluster, tmp_path: Path) -> Iterator[tuple[Path, Services]]:
    """Another desktop, whose own disk has 4 MiB."""
    with small_disk(tmp_path / "desktop") as disk:
        services = open_services(stocked.cluster.share, disk / "catalogue.sqlite")
        yield disk, services
        services.close()


def test_f28_a_desktop_with_a_full_disk_loses_nothing_and_stops_runs(
    stocked: ReadyCluster, run: Callable[..., JobView], small: tuple[Path, Services]
) -> None:
    disk, services = small
    view = run("node1")
    known_ids = {listed_job.id for listed_job in services.jobs.queries.list()}
    with filled_disk(disk):
        job = services.jobs.create(raw_job(placement=[{"node": "node1", "processes": 1}]))
        assert "No space left" in job.contact_warning or "is full" in job.contact_warning
        services.jobs.lifecycle.stop(view.id)
        view = services.jobs.queries.wait(view.id)
        assert view.state is JobState.INTERRUPTED
        assert job.id not in services.catalogue.job_ids()
    assert services.jobs.queries.show(view.id).contact_warning == ""
    assert {v.id for v in services.jobs.queries.list()} == known_ids | {job.id, view.id}
    (catalogued_job,) = (v for v in services.catalogue.jobs() if v.id == view.id)
    assert catalogued_job.status.state is JobState.INTERRUPTED
