"""The inspection program that is sent to a node, run here as it is run on the node."""

from __future__ import annotations

import ast
import json
import os
import pwd
import shutil
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from backend.base.cores import usable_cores
from backend.node.checks import node_facts
from backend.provisioning.node_facts import source as node_facts_source
from backend.records.nodes.entry import NodeInfo
from tests.waiting import LIMIT_S

SOURCE = Path(node_facts.__file__)
LIMITS = ("_COMMAND_LIMIT_S", "_DISK_LIMIT_S")


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in LIMITS:
        monkeypatch.setattr(node_facts, name, LIMIT_S)
    monkeypatch.setattr(node_facts, "usable_cores", usable_cores, raising=False)


def collect(*arguments: str, is_complete: bool = False, **environment: str) -> dict[str, Any]:
    """Collect facts as a node does; only a complete run asks each Python of this computer."""
    source = node_facts_source().decode()
    for name in LIMITS:
        source = source.replace(f"{name} = 10", f"{name} = {LIMIT_S}")
    if not is_complete:
        source = source.replace('"pythons": _pythons()', '"pythons": []')
    done = subprocess.run(
        [sys.executable, "-I", "-", *arguments],
        input=source.encode(),
        capture_output=True,
        env={"PATH": os.environ["PATH"], "HOME": os.environ["HOME"], **environment},
        check=True,
    )
    assert done.stderr == b""
    facts_json = json.loads(done.stdout)
    assert isinstance(facts_json, dict)
    return facts_json


def test_the_program_parses_in_old_pythons_and_imports_nothing_of_ours() -> None:
    tree = ast.parse(node_facts_source(), feature_version=(3, 6))
    imported = {
        name.partition(".")[0]
        for node in ast.walk(tree)
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    assert imported <= sys.stdlib_module_names - {"__future__", "dataclasses"}


def test_the_facts_describe_this_machine(tmp_path: Path) -> None:
    facts_json = collect(is_complete=True, HOME=str(tmp_path))
    assert facts_json.pop("home_fault") == ""
    assert facts_json.pop("reached_at") == ""
    node_info = NodeInfo.from_dict(facts_json)
    assert node_info.hostname == os.uname().nodename
    assert (node_info.kernel, node_info.machine) == (os.uname().release, os.uname().machine)
    assert node_info.home == str(tmp_path / ".ringmaster")
    assert node_info.login_shell == pwd.getpwuid(os.getuid()).pw_shell
    assert node_info.cores == usable_cores()
    assert node_info.memory_bytes > 100_000_000
    assert 0 < (node_info.home_free_bytes or 0) < shutil.disk_usage(tmp_path).total
    assert (node_info.data_root, node_info.data_root_writable) == ("", False)
    assert ("lo", "127.0.0.1/8") in [(entry.name, entry.address) for entry in node_info.interfaces]
    python_version = "{}.{}.{}".format(*sys.version_info[:3])
    assert python_version in [entry.version for entry in node_info.pythons]
    assert set(facts_json) <= {field.name for field in fields(NodeInfo)}
    assert list(tmp_path.iterdir()) == []


def test_the_facts_name_the_address_by_which_the_node_was_reached() -> None:
    assert collect(SSH_CONNECTION="10.0.0.1 5555 10.0.0.2 22")["reached_at"] == "10.0.0.2"


def test_the_data_root_is_recognised_by_a_fresh_file(tmp_path: Path) -> None:
    (tmp_path / "proof").write_text("4711")
    facts_json = collect(str(tmp_path), "proof", "4711")
    assert (facts_json["data_root"], facts_json["data_root_writable"]) == (str(tmp_path), True)
    assert [entry.name for entry in tmp_path.iterdir()] == ["proof"]
    # Another folder of the same name, an empty mount point, no folder.
    assert "data_root" not in collect(str(tmp_path), "proof", "4712")
    assert "data_root" not in collect(str(tmp_path), "other", "4711")
    assert "data_root" not in collect(str(tmp_path / "nothing"), "proof", "4711")


def test_a_data_root_that_cannot_be_written_is_found_and_marked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "proof").write_text("4711")

    def refuse(path: str, size: int) -> None:
        raise PermissionError(13, "Permission denied")

    # Root may write everywhere, so that only this shows it.
    monkeypatch.setattr(node_facts, "_write_and_remove", refuse)
    monkeypatch.setattr(node_facts, "_pythons", list)
    facts_json = node_facts.collect(str(tmp_path), "proof", "4711")
    assert (facts_json["data_root"], facts_json["data_root_writable"]) == (str(tmp_path), False)
    assert facts_json["home_fault"] == "Permission denied"


def test_a_home_that_cannot_be_written_says_why() -> None:
    assert collect(HOME="/proc")["home_fault"] == "No such file or directory"


def test_a_disk_that_hangs_delays_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_facts, "_DISK_LIMIT_S", 0.3)
    reading, writing = os.pipe()
    assert node_facts._in_child(lambda: os.read(reading, 1)) is None
    os.write(writing, b"x")
    os.close(reading)
    os.close(writing)
    monkeypatch.setattr(node_facts, "_DISK_LIMIT_S", LIMIT_S)
    assert node_facts._in_child(lambda: {"free": 1}) == {"free": 1}


def test_gpus_are_read_from_the_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    smi = tmp_path / "nvidia-smi"
    smi.write_text(
        "#!/bin/sh\necho '550.54.15, NVIDIA H100 80GB HBM3'\necho '550.54.15, Tesla T4'\n"
    )
    smi.chmod(0o755)
    monkeypatch.setattr(node_facts, "_folders", lambda: [str(tmp_path)])
    assert node_facts._gpus() == {
        "driver": "550.54.15",
        "gpus": ["NVIDIA H100 80GB HBM3", "Tesla T4"],
    }
    smi.write_text("#!/bin/sh\necho 'NVIDIA-SMI has failed'\nexit 9\n")
    assert "gpus" not in node_facts._gpus()


def test_rows_of_gpus_count_whatever_the_exit_code_and_a_missing_value_is_no_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    smi = tmp_path / "nvidia-smi"
    smi.write_text(
        "#!/bin/sh\ncat <<END\n535.129.03, Tesla V100-SXM2-16GB\n535.129.03, [Unknown Error]\n"
        "[N/A], [N/A]\nWARNING: infoROM is corrupted at gpu 0000:3B:00.0, see the manual\nEND\n"
        "exit 14\n"
    )
    smi.chmod(0o755)
    monkeypatch.setattr(node_facts, "_folders", lambda: [str(tmp_path)])
    monkeypatch.setattr(node_facts, "_lines", lambda path: [])
    assert node_facts._gpus() == {"driver": "535.129.03", "gpus": ["Tesla V100-SXM2-16GB"]}
    smi.write_text("#!/bin/sh\necho '[N/A], [N/A]'\n")
    assert node_facts._gpus() == {}
    smi.write_text("#!/bin/sh\necho '[Insufficient Permissions], Tesla T4'\n")
    assert node_facts._gpus() == {"gpus": ["Tesla T4"]}


@pytest.mark.parametrize(
    "line",
    [
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 22:23:56 UTC 2024",
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.54.15  Release Build  (dvs)",
    ],
)
def test_the_driver_is_known_without_its_tools(monkeypatch: pytest.MonkeyPatch, line: str) -> None:
    files = {"/proc/driver/nvidia/version": [line, "GCC version:  gcc version 12.2.0"]}
    monkeypatch.setattr(node_facts, "_lines", lambda path: files.get(path, []))
    monkeypatch.setattr(node_facts, "_folders", list)
    assert node_facts._gpus() == {"driver": "550.54.15"}
