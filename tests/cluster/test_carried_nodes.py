"""Nodes that do not see the data root, with no share mounted: everything goes over SSH."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath

import pytest
import torch

from backend.datastore.jobs.checkpoint_files import verify
from backend.provisioning import cluster_key
from backend.records.jobs.launch import remote_run_of
from backend.records.jobs.placement import Placement
from backend.records.jobs.state import JobState
from backend.records.jobs.view import JobView
from backend.records.nodes.entry import NodeAddress, NodeEntry
from backend.records.nodes.provisioning_options import SetUpOptions
from backend.records.nodes.reading import Presence
from backend.services.context.container import open_services
from tests.cluster.ready import ReadyCluster
from tests.cluster.runs import (
    job_starter,
    kill_process_of_run,
    makes_steps,
    stock_library,
    wait_for_no_processes,
    wait_for_step_after,
)
from tests.cluster.test_scripts_over_sftp import is_stopped_and_resumes_from_a_folder, job_of
from tests.fakes.mounted_root import MOUNTED
from tests.waiting import wait_for

pytestmark = pytest.mark.slow

NODES = ("node1", "node2")


@pytest.fixture(scope="module")
def desktop(
    ready_cluster: ReadyCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ReadyCluster]:
    """Another data root, on the desktop's own disk, with two of the nodes; nothing is installed
    on them again, and they continue to use the key that they have."""
    folder = tmp_path_factory.mktemp("own-root")
    services = open_services(folder / "root", folder / "catalogue.sqlite")
    cluster, home = ready_cluster.cluster, ready_cluster.home
    for name in NODES:
        services.cluster.add(
            name,
            NodeAddress(
                cluster.address_of(name), user=cluster.user, identity=str(cluster.identity)
            ),
            accept=lambda key: any(
                known_host.endswith(f" {key.text}") for known_host in cluster.known_hosts
            ),
            is_staged=True,
        )
    own_key = str(home / "ssh" / cluster_key.PRIVATE_NAME)
    results = services.provisioning.set_up(
        NODES, lambda _: None, options=SetUpOptions(own_key=own_key)
    )
    assert all(isinstance(result, NodeEntry) for result in results.values()), results
    ready = ReadyCluster(cluster, services)
    stock_library(ready, folder)
    yield ready
    for name in NODES:
        ready.stop_agent(name)
    services.close()


@pytest.fixture
def sftp_cluster(desktop: ReadyCluster) -> ReadyCluster:
    """Without any share on the nodes, until the end of the test."""
    for name in NODES:
        desktop[name].unmount_share()
        desktop.services.provisioning.wake(name)
    wait_for(
        lambda: (
            {node_state.presence for node_state in desktop.services.nodes.remote()}
            == {Presence.ONLINE}
        ),
        "the agents of both nodes",
    )
    return desktop


@pytest.fixture
def run(sftp_cluster: ReadyCluster) -> Iterator[Callable[..., JobView]]:
    with job_starter(sftp_cluster) as start:
        yield start


def remote_files(sftp_cluster: ReadyCluster, name: str, *folder_names: str) -> str:
    """Inode and time of each file there: one that was sent again is another."""
    root = sftp_cluster.entry(name).data_root
    folders = [str(PurePosixPath(root, folder_name)) for folder_name in folder_names]
    return sftp_cluster[name].run_as_root("find", *folders, "-type", "f", "-printf", "%p %i %T@\\n")


def test_a_job_trains_stops_and_resumes_on_a_node_without_the_data_root(
    sftp_cluster: ReadyCluster, run: Callable[..., JobView], tmp_path: Path
) -> None:
    services, jobs = sftp_cluster.services, sftp_cluster.services.jobs
    assert all(
        node_state.reading and node_state.reading.cpu.cores
        for node_state in services.nodes.remote()
    )

    view = run("node1", processes=2)
    assert makes_steps(view)
    assert (view.world_size, view.error) == (2, None)
    jobs.lifecycle.stop(view.id)
    view = jobs.queries.wait(view.id)
    assert view.state is JobState.INTERRUPTED
    folder = services.data_root.job(view.id)
    home = remote_run_of(folder.attempt(1))
    assert (home and home.is_home) is True
    for record in jobs.queries.checkpoints(view.id):
        verify(MOUNTED, record)
    assert jobs.queries.log(view.id, 1).size == folder.rank_log(1).stat().st_size > 0

    library = remote_files(sftp_cluster, "node1", "models", "loaders", "datasets")
    newest_checkpoint = next(
        checkpoint for checkpoint in jobs.queries.checkpoints(view.id) if checkpoint.is_latest
    )
    checkpoint_path = f"jobs/{view.id}/checkpoints/{newest_checkpoint.name}.pt"
    previous_files = remote_files(sftp_cluster, "node1", checkpoint_path)
    jobs.lifecycle.resume(view.id)
    assert remote_files(sftp_cluster, "node1", checkpoint_path) == previous_files
    view = wait_for_step_after(sftp_cluster, view.id, view.step)
    assert makes_steps(view)
    jobs.lifecycle.stop(view.id)
    view = jobs.queries.wait(view.id)
    assert remote_files(sftp_cluster, "node1", "models", "loaders", "datasets") == library

    # The node is gone for good: what it made is in the data root.
    sftp_cluster["node1"].cut()
    jobs.lifecycle.resume(view.id, placement=(Placement("node2", 2),))
    view = wait_for_step_after(sftp_cluster, view.id, view.step)
    jobs.lifecycle.stop(view.id)
    view = jobs.queries.wait(view.id)
    assert (view.state, view.run) == (JobState.INTERRUPTED, 3)
    assert list(jobs.queries.history(view.id).steps) == list(range(1, view.step + 1))
    exported = jobs.export(view.id, "latest", "pt", tmp_path / "model.pt")
    assert {"layer.weight", "layer.bias"} <= torch.load(exported, weights_only=True).keys()


def test_a_job_trains_on_two_nodes_that_see_nothing_of_each_other(
    sftp_cluster: ReadyCluster, run: Callable[..., JobView]
) -> None:
    jobs = sftp_cluster.services.jobs
    view = run("node1", "node2", processes=1)
    assert makes_steps(view)
    assert (view.world_size, view.error) == (2, None)
    view = wait_for_step_after(sftp_cluster, view.id, view.step + 5)
    assert jobs.queries.log(view.id, 1).size > 0
    jobs.lifecycle.stop(view.id)
    view = jobs.queries.wait(view.id)
    assert (view.state, view.error) == (JobState.INTERRUPTED, None)
    folder = sftp_cluster.services.data_root.job(view.id)
    for rank in (0, 1):
        assert folder.attempt(1).rank_exit(rank).exists()
        assert folder.rank_log(rank).stat().st_size > 0

    jobs.lifecycle.resume(view.id, placement=(Placement("node2", 1), Placement("node1", 1)))
    view = wait_for_step_after(sftp_cluster, view.id, view.step)
    assert makes_steps(view)
    error = kill_process_of_run(sftp_cluster, view, "node1", "backend.training.rank")
    assert (error.rank, error.node) == (1, "node1")
    wait_for_no_processes(sftp_cluster)


@pytest.mark.parametrize("out", ["{output}", "."], ids=["output", "work"])
def test_files_of_a_script_are_copied_back_and_staged_to_another_node(
    sftp_cluster: ReadyCluster, tmp_path: Path, out: str
) -> None:
    job_id = job_of(sftp_cluster.services, tmp_path, out).id
    is_stopped_and_resumes_from_a_folder(sftp_cluster.services, job_id, tmp_path / "taken.zip")
    for record in sftp_cluster.services.jobs.queries.checkpoints(job_id):
        verify(MOUNTED, record)
    wait_for_no_processes(sftp_cluster)
