"""Is the agent of a bundle alive; its end; and what still runs from a folder."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from backend.node.agent import control as agent_control
from backend.node.system import process_identity
from backend.records.base.atomic_files import read_json, replace_json
from backend.records.base.layout import RUN_VARIABLE
from backend.records.jobs.status import ProcessIdentity
from tests.waiting import LIMIT_S

ROOT = Path(__file__).parents[4]
FAKE_AGENT = ROOT / "tests/fakes/fake_agent.py"


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[str]:
    yield str(tmp_path)
    assert agent_control.main(["stop", "--folder", str(tmp_path)]) == 0


def start(folder: str, bundle: str) -> ProcessIdentity:
    command = [sys.executable, str(FAKE_AGENT), folder, bundle]
    subprocess.run(command, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=True)
    assert check(folder, bundle, "--limit", str(LIMIT_S)) == 0
    return ProcessIdentity.from_dict(read_json(Path(folder) / "info.json"))


def check(folder: str, bundle: str, *arguments: str) -> int:
    return agent_control.main(["check", "--folder", folder, "--bundle", bundle, *arguments])


def test_an_agent_is_known_by_its_bundle_until_it_is_ended(folder: str) -> None:
    assert check(folder, "/b/1") == 1
    agent = start(folder, "/b/1")
    assert (check(folder, "/b/1"), check(folder, "/b/2")) == (0, 1)
    assert agent_control.main(["stop", "--folder", folder]) == 0
    assert not process_identity.is_alive(agent)
    assert check(folder, "/b/1") == 1


def test_a_process_with_the_pid_of_a_dead_agent_is_left_alone(folder: str) -> None:
    own_identity = process_identity.own_process().to_dict()
    for changes in ({"start_ticks": 1}, {"boot_id": "of an earlier boot"}):
        replace_json(Path(folder) / "info.json", {**own_identity, **changes, "bundle": "/b/1"})
        assert check(folder, "/b/1") == 1
        assert agent_control.main(["stop", "--folder", folder]) == 0


@pytest.mark.parametrize("content", ["", "[]", '{"pid": 1}', '{"pid": "x", "host": 1}'])
def test_a_malformed_record_means_no_agent(folder: str, content: str) -> None:
    (Path(folder) / "info.json").write_text(content)
    assert check(folder, "/b/1") == 1
    assert agent_control.main(["stop", "--folder", folder]) == 0


def test_waiting_for_an_agent_ends(folder: str) -> None:
    assert check(folder, "/b/1", "--limit", "0.2") == 1


def test_runs_that_use_a_folder_are_listed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home = str(tmp_path / "home")
    variables = {RUN_VARIABLE: "job-7/1", "PYTHONPATH": f"{home}/bundles/1"}
    with subprocess.Popen(["sleep", "300"], env={**os.environ, **variables}) as process:
        try:
            assert agent_control.main(["runs", "--home", home]) == 1
            assert capsys.readouterr().out == "job-7/1\n"
            assert agent_control.main(["runs", "--home", str(tmp_path / "hom")]) == 0
        finally:
            process.kill()
    assert agent_control.main(["runs", "--home", home]) == 0
