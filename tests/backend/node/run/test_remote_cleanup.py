"""What the cleanup after a run finds out about another node."""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from backend.node.agent.ssh_command_filter import allowed_command
from backend.node.run import remote_cleanup
from backend.node.run.remote_cleanup import CleanupResult
from backend.records.base.layout import JobFolder
from tests.backend.node.queue.test_retry import make_launch

TAG = "20261121-abc/1"


def run_cleanup(folder: JobFolder, *arguments: str, prefix: str = "") -> CleanupResult:
    code = f"from backend.node.run import remote_cleanup as it; {prefix}; it.main({arguments!r})"
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    return remote_cleanup._cleanup_result(process, time.monotonic() + 60, folder, 1, (1,))


@pytest.mark.parametrize(
    ("state", "sees_folder"),
    [
        ("there", True),
        ("job gone", False),
        ("unmounted", False),
        ("a file", False),
        ("hangs", False),
        ("not asked", True),
    ],
)
def test_the_cleanup_says_whether_the_node_sees_the_folder_of_the_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state: str, sees_folder: bool
) -> None:
    folder = JobFolder(tmp_path / "root" / "jobs" / "j1")
    if state == "a file":
        folder.path.parent.mkdir(parents=True)
        folder.path.touch()
    elif state not in ("unmounted", "job gone"):
        folder.path.mkdir(parents=True)
    else:
        (tmp_path / ("root" if state == "job gone" else "other")).mkdir()
    prefix = ""
    if state == "hangs":
        stub = tmp_path / "bin" / "test"
        stub.parent.mkdir()
        stub.write_text("#!/bin/sh\nexec tail -f /dev/null\n")
        stub.chmod(0o755)
        monkeypatch.setenv("PATH", str(stub.parent), prepend=":")
        prefix = "it._SEE_S = 0.5"
    arguments = () if state == "not asked" else ("--see", str(folder.path))
    assert run_cleanup(folder, TAG, *arguments, prefix=prefix or "pass") == CleanupResult(
        "", True, sees_folder
    )


@pytest.mark.parametrize(
    ("nodes", "hosts"),
    [
        (["gpu02"], {"10.0.0.2"}),
        (["gpu03", "gpu02"], {"10.0.0.2", "10.0.0.3"}),
        (["gpu09"], set()),
        ([], set()),
    ],
)
def test_agents_are_started_by_a_command_that_the_key_may_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nodes: list[str], hosts: set[str]
) -> None:
    commands: list[list[str]] = []
    monkeypatch.setattr(subprocess, "Popen", lambda command, **_: commands.append(command))
    launch = make_launch(tmp_path / "a-job", shrink=True)
    home = Path("/home/lab/.ringmaster")
    python = str(home / "environments/e/bin/python")
    code_root = str(home / "bundles/b")
    launch = replace(launch, python=python, code_root=code_root, ssh_config="/data/ssh_config")

    remote_cleanup.wake_agents(launch, nodes)

    host_at = commands[0].index("env") - 1 if commands else 0
    assert {command[host_at] for command in commands} == hosts
    for command in commands:
        allowed_line = " ".join(command[host_at + 1 :])
        own_folders = (home / "environments", home / "bundles")
        assert allowed_command(allowed_line, own_folders, home / "carried")[1][-1] == "a-job/1"
    remote_cleanup.wake_agents(replace(launch, ssh_config=""), ["gpu02"])
    assert len(commands) == len(hosts)
