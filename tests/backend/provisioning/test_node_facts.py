"""Inspections through a shell: of a real sshd, and of answers that no machine here gives."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from backend.base.errors import BackendError
from backend.provisioning import node_facts
from backend.provisioning.node_facts import inspect, ranks_address
from backend.records.nodes.entry import Interface, NodeInfo
from backend.ssh.interface import CommandResult, Shell
from tests.backend.ssh.sshd_rig import Sshd
from tests.waiting import LIMIT_S

pytest_plugins = ["tests.backend.ssh.sshd_fixtures"]
NODE_FACTS = {
    "hostname": "gpu1",
    "system": "Debian",
    "machine": "x86_64",
    "kernel": "6.1",
    "user": "lab",
    "home": "/home/lab/.ringmaster",
    "pythons": [{"path": "/usr/bin/python3", "version": "3.11.2", "venv": True}],
    "reached_at": "",
    "home_fault": "",
}


class Answers:
    """A shell of a node whose clock and answers are chosen."""

    def __init__(self, clock_s: float = 0.0, out: str | None = None, **values: object) -> None:
        self._clock_s = clock_s
        self._out = json.dumps({**NODE_FACTS, **values}) if out is None else out

    def run(self, argv: Sequence[str], **_: Any) -> CommandResult:
        if "-c" in argv:
            return CommandResult(0, f"{time.time() + self._clock_s!r}\n", "")
        return CommandResult(0, self._out, "")


def inspect_node(answers: Answers, tmp_path: Path) -> node_facts.NodeInspection:
    return inspect(answers, "gpu1", tmp_path)


def test_an_inspection_through_a_real_shell_finds_the_data_root(
    shell: Shell, sshd: Sshd, tmp_path: Path
) -> None:
    root = tmp_path / "data root"
    root.mkdir()
    inspection = inspect(shell, "gpu1", root)
    assert (inspection.node_info.data_root, inspection.node_info.data_root_writable) == (
        str(root),
        True,
    )
    assert inspection.node_info.home == str(sshd.home / ".ringmaster")
    assert abs(inspection.node_info.clock_offset_s or LIMIT_S) < LIMIT_S
    assert inspection.node_info.interfaces
    assert list(root.iterdir()) == []
    assert list(sshd.home.iterdir()) == []


def test_a_mounted_data_root_is_found_and_another_folder_is_not(
    shell: Shell, tmp_path: Path
) -> None:
    root, mounted, other_root = (tmp_path / name for name in ("root", "mounted", "other"))
    root.mkdir()
    other_root.mkdir()
    mounted.symlink_to(root)
    assert inspect(shell, "gpu1", root, str(mounted)).node_info.data_root == str(mounted)
    assert inspect(shell, "gpu1", root, str(other_root)).node_info.data_root == ""


@pytest.mark.parametrize("ahead_s", [-600.0, 0.0, 600.0])
def test_f44_a_wrong_clock_is_only_reported(tmp_path: Path, ahead_s: float) -> None:
    offset_s = inspect_node(Answers(ahead_s), tmp_path).node_info.clock_offset_s
    assert offset_s == pytest.approx(ahead_s, abs=0.5)


def test_f52_a_node_without_python_is_named(
    sshd: Sshd, enter: Callable[[Sshd], Shell], tmp_path: Path
) -> None:
    sshd.stop()
    sshd.environment.append("PATH=/no/programs")
    sshd.start()
    with pytest.raises(BackendError, match="gpu1 has no python3") as caught:
        inspect(enter(sshd), "gpu1", tmp_path)
    assert "apt-get install python3" in caught.value.remedy


@pytest.mark.parametrize(
    ("pythons", "named_python"),
    [(["3.6.8", "3.10.2", "3.11.1"], ""), (["3.6.8", "3.10.2"], "3.10.2"), ([], "missing")],
)
def test_f52_an_old_python_is_named(tmp_path: Path, pythons: list[str], named_python: str) -> None:
    pythons_found = [{"path": f"/{v}", "version": v, "venv": True} for v in pythons]
    answers = Answers(pythons=pythons_found)
    if not named_python:
        assert len(inspect_node(answers, tmp_path).node_info.pythons) == 3
        return
    with pytest.raises(BackendError, match=f"Python on gpu1 is {named_python}.*3.11 or newer"):
        inspect_node(answers, tmp_path)


def test_f52_a_full_home_is_named(
    make_sshd: Callable[..., Sshd], enter: Callable[[Sshd], Shell], tmp_path: Path
) -> None:
    (tmp_path / "small").mkdir()
    sshd = make_sshd(small_disk=tmp_path / "small")
    sshd.home.rmdir()
    sshd.home.symlink_to(tmp_path / "small")
    shell = enter(sshd)
    assert shell.run(["sh", "-c", 'cat /dev/zero > "$HOME/filler"']).code
    with pytest.raises(BackendError, match=r"home folder of .* on gpu1: No space left"):
        inspect(shell, "gpu1", tmp_path)


@pytest.mark.parametrize(
    "out", ["", "{}", "[]", "null", "no json", '{"reached_at": "", "home_fault": ""}', "[" * 50_000]
)
def test_f59_an_answer_that_makes_no_sense_is_a_sentence(tmp_path: Path, out: str) -> None:
    with pytest.raises(BackendError, match="gpu1 could not be inspected"):
        inspect_node(Answers(out=out), tmp_path)


@pytest.mark.parametrize(
    "values",
    [
        {"interfaces": [{"name": "eth0", "address": "nonsense"}]},
        {"interfaces": 7},
        {"hostname": ["gpu1"]},
        {"cores": "two"},
        {"memory_bytes": None},
        {"pythons": [{"path": "/python", "version": 3, "venv": True}]},
        {"gpus": None},
        {"unheard": "of"},
    ],
)
def test_f59_facts_that_make_no_sense_are_a_sentence(
    tmp_path: Path, values: dict[str, object]
) -> None:
    with pytest.raises(BackendError, match="gpu1 could not be inspected"):
        inspect_node(Answers(**values), tmp_path)


def facts_with(*interfaces: tuple[str, str]) -> NodeInfo:
    raw = {
        key: value for key, value in NODE_FACTS.items() if key not in ("reached_at", "home_fault")
    }
    raw["interfaces"] = [Interface(*interface).__dict__ for interface in interfaces]
    return NodeInfo.from_dict(raw)


@pytest.mark.parametrize(
    ("reached_at", "chosen_address"),
    [
        ("10.77.0.2", "10.77.0.2/24"),
        ("192.168.1.2", "192.168.1.2/16"),
        ("::ffff:192.168.1.2", "192.168.1.2/16"),
        ("127.0.0.1", "10.77.0.2/24"),
        ("8.8.8.8", "10.77.0.2/24"),
        ("fd00::2", "fd00::2/64"),
        ("", "10.77.0.2/24"),
        ("nonsense", "10.77.0.2/24"),
    ],
)
def test_ranks_use_the_network_by_which_the_node_was_reached(
    reached_at: str, chosen_address: str
) -> None:
    node_info = facts_with(
        ("lo", "127.0.0.1/8"),
        ("docker0", "172.17.0.1/16"),
        ("br-1234", "172.18.0.1/16"),
        ("eth0", "fd00::2/64"),
        ("eth0", "fe80::1/64"),
        ("eth0", "10.77.0.2/24"),
        ("eth1", "192.168.1.2/16"),
    )
    assert ranks_address(node_info, reached_at) == chosen_address


def test_a_node_with_no_way_out_has_no_such_address() -> None:
    node_info = facts_with(("lo", "127.0.0.1/8"), ("docker0", "172.17.0.1/16"))
    assert ranks_address(node_info, "127.0.0.1") == ""
