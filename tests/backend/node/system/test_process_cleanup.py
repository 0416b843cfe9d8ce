"""The processes of a run are found by its tag, also those that are only just started."""

from __future__ import annotations

import os
import secrets
import subprocess
from collections.abc import Iterator

import pytest

from backend.node.system import process_cleanup, process_identity
from backend.records.base.layout import RUN_VARIABLE


@pytest.fixture
def started() -> Iterator[list[subprocess.Popen[bytes]]]:
    processes: list[subprocess.Popen[bytes]] = []
    yield processes
    for process in processes:
        process.kill()
        process.wait()


def test_a_newly_started_process_is_found(
    started: list[subprocess.Popen[bytes]],
) -> None:
    tag = f"test-{secrets.token_hex(6)}/1"
    # The kernel takes longer over many variables: 27 of 2,614 such processes had no tag at first.
    variables = {**os.environ, **{f"V{n}": "x" * 50 for n in range(400)}, RUN_VARIABLE: tag}
    for _ in range(60):
        started.append(subprocess.Popen(["sleep", "600"], env=variables))
        assert process_identity.run_tag_of(started[-1].pid) == tag
    tagged_pids = {process.pid for process in process_cleanup.tagged(tag)}
    assert tagged_pids == {process.pid for process in started}


def test_a_process_without_variables_and_a_zombie_carry_no_tag(
    started: list[subprocess.Popen[bytes]],
) -> None:
    bare = subprocess.Popen(["/bin/sleep", "600"], env={})
    ended_process = subprocess.Popen(["/bin/true"])
    started.extend([bare, ended_process])
    os.waitid(os.P_PID, ended_process.pid, os.WEXITED | os.WNOWAIT)
    for process in started:
        assert not any(process_identity.environment(process.pid))
