"""Nodes alike that have one environment together, on the data root."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from backend.base.errors import BackendError
from backend.provisioning.node_environment import STAMP
from backend.provisioning.wheelhouse import Wheelhouse
from backend.records.nodes.provisioning_options import SetUpOptions
from backend.ssh.interface import CommandResult
from tests.backend.provisioning.provisioner_rig import MOST_CODE_BYTES, put_house
from tests.backend.services.nodes.provisioning_rig import NAMES, Cluster, cluster_of

SHARED = SetUpOptions(shared=True)


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Wheelhouse:
    return put_house(tmp_path_factory.mktemp("shared") / "wheels")


@pytest.fixture
def cluster(
    tmp_path: Path, house: Wheelhouse, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Cluster]:
    with cluster_of(tmp_path, house, monkeypatch, sees_data_root=True) as rig:
        yield rig


def environments(cluster: Cluster) -> list[str]:
    return sorted(path.name for path in (cluster.root.path / "shared/environments").iterdir())


def nodes_that_ran(cluster: Cluster, word: str) -> list[str]:
    return [
        name
        for name, node in cluster.nodes.items()
        if any(word in argv for argv in node.shell.commands)
    ]


def test_one_node_makes_the_environment_and_each_node_tries_it(
    cluster: Cluster, house: Wheelhouse
) -> None:
    done = cluster.set_up(*NAMES, options=SHARED)
    installations = [cluster.entry(name).installation for name in NAMES]
    assert list(done.values()) == [cluster.entry(name) for name in NAMES]
    assert len({(i.python, i.mpirun) for i in installations if i}) == 1
    assert installations[0] is not None
    assert installations[0].python.startswith(f"{cluster.root.path}/shared/environments/")
    assert environments(cluster) == [installations[0].environment]
    assert len(nodes_that_ran(cluster, "venv")) == 1
    assert nodes_that_ran(cluster, "127.0.0.1:2") == list(NAMES)
    assert all(cluster.entry(name).shares_environment for name in NAMES)
    sent = sum(node.shell.sent_bytes for node in cluster.nodes.values())
    wheels = sum(wheel.bytes for wheel in (*house.wheels, house.uv))
    assert wheels <= sent < wheels + 3 * MOST_CODE_BYTES
    assert not any(node.environments() for node in cluster.nodes.values())


def test_repeating_tries_nothing_again(cluster: Cluster) -> None:
    cluster.set_up("gpu1", "gpu2", options=SHARED)
    for node in cluster.nodes.values():
        node.shell.commands.clear()
    cluster.set_up(*NAMES, options=SHARED)
    assert nodes_that_ran(cluster, "venv") == []
    assert nodes_that_ran(cluster, "127.0.0.1:2") == ["gpu3"]


@pytest.mark.slow
def test_another_node_makes_the_environment_after_a_failure(cluster: Cluster) -> None:
    failed = threading.Event()

    def fail_once(argv: tuple[str, ...]) -> CommandResult | None:
        if "venv" not in argv or failed.is_set():
            return None
        failed.set()
        return CommandResult(1, "", "no")

    for node in cluster.nodes.values():
        node.shell.on_run = fail_once
    done = cluster.set_up(*NAMES, options=SHARED)
    assert sorted(isinstance(r, BackendError) for r in done.values()) == [False, False, True]
    assert len(environments(cluster)) == 1


def test_a_node_that_cannot_write_to_the_data_root_is_refused(cluster: Cluster) -> None:
    node = cluster.nodes["gpu2"]
    node.node_info = replace(node.node_info, data_root_writable=False)
    done = cluster.set_up("gpu1", "gpu2", options=SHARED)
    refusal = done["gpu2"]
    assert isinstance(refusal, BackendError)
    assert refusal.message.startswith("gpu2 may not write to the data root")
    assert not isinstance(done["gpu1"], BackendError)


def test_a_shared_environment_is_not_rebuilt_for_a_node_on_which_it_does_not_start(
    cluster: Cluster,
) -> None:
    cluster.set_up("gpu1", options=SHARED)
    (name,) = environments(cluster)
    stamp = cluster.root.path / "shared/environments" / name / STAMP
    old_stamp = json.loads(stamp.read_text())
    python = str(stamp.parent / "bin/python")

    def starts_not(argv: tuple[str, ...]) -> CommandResult | None:
        return CommandResult(127, "", "not found") if argv[0] == python else None

    cluster.nodes["gpu2"].shell.on_run = starts_not
    refusal = cluster.set_up("gpu2", options=SHARED)["gpu2"]
    assert isinstance(refusal, BackendError)
    assert "does not start on gpu2" in refusal.message
    assert json.loads(stamp.read_text()) == old_stamp
    assert nodes_that_ran(cluster, "venv") == ["gpu1"]


@pytest.mark.slow
def test_removing_a_node_leaves_the_environment_of_the_others(cluster: Cluster) -> None:
    cluster.set_up("gpu1", "gpu2", options=SHARED)
    old_environments = environments(cluster)
    cluster.service().un_provision("gpu1")
    assert environments(cluster) == old_environments
    assert not cluster.nodes["gpu1"].home.exists()
    for node in cluster.nodes.values():  # either of them made it
        node.shell.commands.clear()
    cluster.set_up("gpu2", options=SHARED)
    assert nodes_that_ran(cluster, "venv") == []
