"""A tool ends with what user code started, though processes cannot be listed at one moment."""

from __future__ import annotations

import subprocess

import psutil
import pytest

from backend.training.tools import children


@pytest.mark.parametrize("unseen", [0, 1])
def test_a_child_that_one_listing_misses_is_killed(
    unseen: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    child = subprocess.Popen(["sleep", "600"])
    others = [one.pid for one in psutil.Process().children() if one.pid != child.pid]
    listed, real = [0], psutil.Process.children

    def list_children(process: psutil.Process) -> list[psutil.Process]:
        listed[0] += 1
        return [] if listed[0] <= unseen else real(process)

    monkeypatch.setattr(psutil.Process, "children", list_children)
    children.kill_all(others)
    assert not psutil.pid_exists(child.pid)
    child.wait()
