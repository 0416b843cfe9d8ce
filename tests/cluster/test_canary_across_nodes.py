"""One batch through the ranks of three nodes."""

from __future__ import annotations

from pathlib import Path

import pytest

from backend.records.library.item import Kind
from tests.cluster.faults import SEEDED_FAULTS
from tests.cluster.ready import ReadyCluster
from tests.cluster.remote_desktop import remote_desktop
from tests.integration.tiny import raw_job, write_sources

pytestmark = pytest.mark.slow

NODES = ("node1", "node2", "node3")


@pytest.fixture(scope="module")
def job_id(ready_cluster: ReadyCluster, tmp_path_factory: pytest.TempPathFactory) -> str:
    model, loader, dataset = write_sources(tmp_path_factory.mktemp("sources"))
    library, jobs = ready_cluster.services.library, ready_cluster.services.jobs
    library.import_item(Kind.MODEL, model, "tiny")
    library.import_item(Kind.LOADER, loader, "tiny")
    library.import_item(Kind.DATASET, dataset, "tiny")
    placement = [{"node": name, "processes": 1} for name in NODES]
    return jobs.create(raw_job(placement=placement)).id


def leftover_names(share: Path) -> list[str]:
    return [path.name for path in (share / "jobs").glob(".canary*")]


def test_three_nodes_train_a_batch_together(ready_cluster: ReadyCluster, job_id: str) -> None:
    trial = ready_cluster.services.trial_runs.run(job_id)
    assert trial.succeeded, trial.message
    assert trial.message.startswith("3 ranks")
    assert leftover_names(ready_cluster.cluster.share) == []


def test_a_desktop_that_does_not_mount_the_data_root_has_them_train_as_well(
    ready_cluster: ReadyCluster, job_id: str, tmp_path: Path
) -> None:
    with remote_desktop(ready_cluster.cluster, tmp_path) as services:
        trial = services.trial_runs.run(job_id)
        assert trial.succeeded, trial.message
        assert leftover_names(services.data_root.path) == []
    assert trial.message.startswith("3 ranks")
    assert leftover_names(ready_cluster.cluster.share) == []


def test_the_rank_that_cannot_names_itself(ready_cluster: ReadyCluster, job_id: str) -> None:
    with SEEDED_FAULTS["torch_missing"].seed(ready_cluster, "node2"):
        trial = ready_cluster.services.trial_runs.run(job_id)
    assert not trial.succeeded
    assert trial.message.startswith("Rank 1 on node2: The Python module torch is missing")
    assert leftover_names(ready_cluster.cluster.share) == []
