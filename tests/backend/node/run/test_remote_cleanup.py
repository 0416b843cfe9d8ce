"""The cleanup of a run on another node, and the output of its ranks that reaches the head."""

from __future__ import annotations

import os
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


RUN = 2
EARLIER = b"an earlier run\n"


@pytest.fixture
def head(tmp_path: Path) -> JobFolder:
    return _job(tmp_path / "head")


@pytest.fixture
def rank1_folder(tmp_path: Path) -> JobFolder:
    """Return the folder of the job on the node of rank 1."""
    return _job(tmp_path / "other")


def _job(root: Path) -> JobFolder:
    folder = JobFolder(root / "jobs" / "20261121-abcdef")
    folder.attempt(RUN).path.mkdir(parents=True)
    folder.logs.mkdir()
    for rank in (0, 1):
        folder.rank_log(rank).write_bytes(EARLIER)
        os.utime(folder.rank_log(rank), (1, 1))
    folder.launch.write_text("{}")
    return folder


def test_records_and_logs_arrive_as_they_were_written(
    head: JobFolder, rank1_folder: JobFolder
) -> None:
    odd_bytes = b"\xff\x00 caf\xc3\xa9\r\n"
    with rank1_folder.rank_log(1).open("ab") as log:
        log.write(odd_bytes)
    rank1_folder.attempt(RUN).rank_exit(1).write_text('{"rank": 1}')
    rank1_folder.attempt(RUN).rank_error(1).write_text('{"sentence": "no"}')
    printed = remote_cleanup.pack_output(rank1_folder, RUN) + "ended 1 left processes"
    printed_text = remote_cleanup.unpack_output(printed.encode(), head, RUN, [1])
    assert printed_text == "ended 1 left processes"
    assert head.rank_log(1).read_bytes() == EARLIER + odd_bytes
    assert head.attempt(RUN).rank_exit(1).read_text() == '{"rank": 1}'
    assert head.attempt(RUN).rank_error(1).read_text() == '{"sentence": "no"}'
    remote_cleanup.unpack_output(printed.encode(), head, RUN, [1])
    assert head.rank_log(1).read_bytes() == EARLIER + odd_bytes, "said twice, it is kept once"


def test_reports_of_a_node_about_foreign_ranks_are_dropped(
    head: JobFolder, rank1_folder: JobFolder
) -> None:
    for rank in (0, 1):
        rank1_folder.attempt(RUN).rank_exit(rank).write_text("{}")
        with rank1_folder.rank_log(rank).open("ab") as log:
            log.write(b"false\n")
    remote_cleanup.unpack_output(
        remote_cleanup.pack_output(rank1_folder, RUN).encode(), head, RUN, [1]
    )
    assert not head.attempt(RUN).rank_exit(0).exists()
    assert head.rank_log(0).read_bytes() == EARLIER


def test_only_the_end_of_an_endless_log_is_copied(
    head: JobFolder, rank1_folder: JobFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_cleanup, "_LOG_BYTES", 10)
    with rank1_folder.rank_log(1).open("ab") as log:
        log.write(b"x" * 90 + b"the end\n")
    remote_cleanup.unpack_output(
        remote_cleanup.pack_output(rank1_folder, RUN).encode(), head, RUN, [1]
    )
    text = head.rank_log(1).read_text()
    assert text.startswith(EARLIER.decode())
    assert "88 bytes of this run stayed on the node" in text
    assert text.endswith("xxthe end\n")


@pytest.mark.parametrize("line", ["ringmaster-words {", "ringmaster-words []", "a warning"])
def test_an_unreadable_line_changes_no_log(head: JobFolder, line: str) -> None:
    remote_cleanup.unpack_output(line.encode(), head, RUN, [1])
    assert head.rank_log(1).read_bytes() == EARLIER
