"""Wheels leave the desktop once, however many nodes are set up."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from backend.provisioning.wheelhouse import Wheelhouse
from backend.records.nodes.entry import NodeEntry
from backend.ssh.interface import CommandResult
from tests.backend.provisioning.provisioner_rig import MOST_CODE_BYTES, TORCH, put_house
from tests.backend.services.nodes.provisioning_rig import NAMES, Cluster, cluster_of

_TORCH_BYTES = 3_000_000


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Wheelhouse:
    # Bytes that no wheel makes smaller, and that Python compiles at once.
    text = f"{TORCH}BULK = '{random.Random(1).randbytes(_TORCH_BYTES).hex()}'\n"
    return put_house(tmp_path_factory.mktemp("relay") / "wheels", torch=text)


@pytest.fixture
def cluster(
    tmp_path: Path, house: Wheelhouse, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Cluster]:
    with cluster_of(tmp_path, house, monkeypatch, sees_data_root=True) as new_cluster:
        yield new_cluster


def sent(cluster: Cluster) -> int:
    return sum(node.shell.sent_bytes for node in cluster.nodes.values())


def wheel_bytes(house: Wheelhouse) -> int:
    return sum(wheel.bytes for wheel in (*house.wheels, house.uv))


def assert_all_ready(cluster: Cluster, *names: str) -> None:
    done = cluster.set_up(*names)
    assert [type(result) for result in done.values()] == [NodeEntry] * len(names), done
    assert not list(cluster.root.path.glob("shared/.relay-*")), "it was left on the data root"


def test_three_nodes_get_wheels_that_were_sent_once(cluster: Cluster, house: Wheelhouse) -> None:
    assert_all_ready(cluster, *NAMES)
    assert wheel_bytes(house) <= sent(cluster) < wheel_bytes(house) + 3 * MOST_CODE_BYTES
    for node in cluster.nodes.values():
        assert {path.name for path in (node.home / "wheels").iterdir()} == {
            wheel.name for wheel in (*house.wheels, house.uv)
        }


@pytest.mark.slow
def test_each_of_two_nodes_is_sent_its_own_wheels(cluster: Cluster, house: Wheelhouse) -> None:
    assert_all_ready(cluster, "gpu1", "gpu2")
    assert sent(cluster) >= 2 * wheel_bytes(house)
    assert not (cluster.root.path / "shared").exists()


@pytest.mark.slow
def test_a_node_without_the_data_root_is_sent_the_wheels(
    cluster: Cluster, house: Wheelhouse
) -> None:
    node = cluster.nodes["gpu2"]
    node.node_info = replace(node.node_info, data_root="", data_root_writable=False)
    assert_all_ready(cluster, *NAMES)
    assert node.shell.sent_bytes >= wheel_bytes(house)


def test_a_node_that_cannot_read_the_data_root_is_sent_the_wheels(
    cluster: Cluster, house: Wheelhouse
) -> None:
    def cannot(argv: tuple[str, ...]) -> CommandResult | None:
        return CommandResult(1, "", "cp: Permission denied") if argv[0] == "cp" else None

    cluster.nodes["gpu3"].shell.on_run = cannot
    assert_all_ready(cluster, *NAMES)
    assert cluster.nodes["gpu3"].shell.sent_bytes >= wheel_bytes(house)


@pytest.mark.slow
def test_nodes_are_set_up_although_the_data_root_cannot_take_the_wheels(
    cluster: Cluster, house: Wheelhouse
) -> None:
    (cluster.root.path / "shared").write_text("a file of another user")
    assert_all_ready(cluster, *NAMES)
    assert sent(cluster) >= 3 * wheel_bytes(house)


@pytest.mark.slow
def test_a_wheel_damaged_on_the_data_root_is_sent(cluster: Cluster, house: Wheelhouse) -> None:
    def damage(argv: tuple[str, ...]) -> CommandResult | None:
        if argv[0] == "cp" and "torch" in argv[2]:
            Path(argv[-1]).write_bytes(b"half")
            return CommandResult(0, "", "")
        return None

    cluster.nodes["gpu1"].shell.on_run = damage
    assert_all_ready(cluster, *NAMES)
    torch = next(wheel for wheel in house.wheels if wheel.package == "torch")
    assert cluster.nodes["gpu1"].shell.sent_bytes >= torch.bytes
    assert sent(cluster) >= wheel_bytes(house) + torch.bytes
