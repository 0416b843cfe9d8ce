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
    other_pids = [p.pid for p in psutil.Process().children() if p.pid != child.pid]
    listing_count, original = [0], psutil.Process.children

    def list_children(process: psutil.Process) -> list[psutil.Process]:
        listing_count[0] += 1
        return [] if listing_count[0] <= unseen else original(process)

    monkeypatch.setattr(psutil.Process, "children", list_children)
    children.kill_all(other_pids)
    assert not psutil.pid_exists(child.pid)
    child.wait()
