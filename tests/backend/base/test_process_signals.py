"""Signals reach the process that is meant, or none."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from backend.base import process_signals
from tests.waiting import LIMIT_S

STUBBORN = (
    "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); input()"
)


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "600"]) as process:
        yield process
        process.kill()


def forbidden(_pid: int) -> int:
    raise PermissionError


@pytest.fixture(params=["pidfd", "forbidden", "none"])
def signal_method(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "forbidden":
        monkeypatch.setattr(os, "pidfd_open", forbidden)
    elif request.param == "none":
        monkeypatch.delattr(os, "pidfd_open")


@pytest.mark.usefixtures("signal_method")
@pytest.mark.parametrize("is_same_process", [True, False])
def test_only_the_identified_process_gets_the_signal(
    child: subprocess.Popen[bytes], is_same_process: bool
) -> None:
    assert (
        process_signals.send(child.pid, lambda: is_same_process, signal.SIGTERM) is is_same_process
    )
    if not is_same_process:
        child.kill()
    assert child.wait(LIMIT_S) == (-signal.SIGTERM if is_same_process else -signal.SIGKILL)


@pytest.mark.usefixtures("signal_method")
def test_an_ended_process_gets_no_signal(child: subprocess.Popen[bytes]) -> None:
    child.kill()
    child.wait(LIMIT_S)
    assert not process_signals.send(child.pid, lambda: True, signal.SIGKILL)


def test_a_child_is_asked_and_then_killed(child: subprocess.Popen[bytes]) -> None:
    process_signals.end(child, LIMIT_S)
    assert child.returncode == -signal.SIGTERM
    # What has ended is left alone.
    process_signals.end(child, LIMIT_S)
    process_signals.kill(child)
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", STUBBORN], stdin=pipe, stdout=pipe) as stubborn:
        assert stubborn.stdout is not None
        assert stubborn.stdout.readline()
        process_signals.end(stubborn, 0.01)
        assert stubborn.returncode == -signal.SIGKILL
