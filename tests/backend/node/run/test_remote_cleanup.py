"""What the cleanup after a run finds out about another node."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from backend.node.run import remote_cleanup
from backend.node.run.remote_cleanup import CleanupResult
from backend.records.base.layout import JobFolder

TAG = "20261121-abc/1"


def asked(folder: JobFolder, *arguments: str, before: str = "") -> CleanupResult:
    code = f"from backend.node.run import remote_cleanup as it; {before}; it.main({arguments!r})"
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    return remote_cleanup._answer(process, time.monotonic() + 60, folder, 1, (1,))


@pytest.mark.parametrize(
    ("state", "sees"),
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
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state: str, sees: bool
) -> None:
    folder = JobFolder(tmp_path / "root" / "jobs" / "j1")
    if state == "a file":
        folder.path.parent.mkdir(parents=True)
        folder.path.touch()
    elif state not in ("unmounted", "job gone"):
        folder.path.mkdir(parents=True)
    else:
        (tmp_path / ("root" if state == "job gone" else "other")).mkdir()
    before = ""
    if state == "hangs":
        stub = tmp_path / "bin" / "test"
        stub.parent.mkdir()
        stub.write_text("#!/bin/sh\nexec tail -f /dev/null\n")
        stub.chmod(0o755)
        monkeypatch.setenv("PATH", str(stub.parent), prepend=":")
        before = "it._SEE_S = 0.5"
    more = () if state == "not asked" else ("--see", str(folder.path))
    assert asked(folder, TAG, *more, before=before or "pass") == CleanupResult("", True, sees)
