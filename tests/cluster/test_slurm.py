"""Slurm's own programs on this machine: three nodes with GPUs, limits and preemption."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.slot import processes_in
from tests.cluster.slurm import GPUS_OF_A_NODE, NODES, SHORT_LIMIT_S, SlurmCluster


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmCluster]:
    with SlurmCluster(tmp_path_factory.mktemp("slurm")) as cluster:
        yield cluster


def test_a_job_runs_on_three_machines_that_share_a_folder_and_have_gpus(
    slurm: SlurmCluster,
) -> None:
    script = f"echo $CUDA_VISIBLE_DEVICES >{slurm.data}/$(hostname)"
    slurm.call("srun", f"--nodes={len(NODES)}", f"--gres=gpu:{GPUS_OF_A_NODE}", "sh", "-c", script)
    assert {path.name: path.read_text() for path in slurm.data.glob("sn?")} == dict.fromkeys(
        NODES, "0,1\n"
    )


def test_partitions_have_a_short_limit_and_preemption(slurm: SlurmCluster) -> None:
    limits = slurm.call("sinfo", "-h", "-o", "%R %l %p").splitlines()
    minutes = SHORT_LIMIT_S // 60
    assert [line.split()[:2] for line in limits] == [
        ["main", "infinite"],
        ["short", f"{minutes}:00"],
        ["spare", "1:00:00"],
    ]
    assert "PreemptMode=REQUEUE" in slurm.call("scontrol", "show", "partition", "spare")


def test_nothing_runs_after_the_cluster(tmp_path: Path) -> None:
    with SlurmCluster(tmp_path) as cluster:
        namespaces = cluster.slot.namespaces()
        assert all(processes_in(namespace) for namespace in namespaces)
        assert len(namespaces) == 1 + len(NODES)
    assert cluster.slot.namespaces() == cluster.slot.links() == []
    assert not cluster.folder.exists()
