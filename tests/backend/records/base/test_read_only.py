"""Library versions cannot be changed by user code, whatever it tries; in processes of their own."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from backend.records.base import access_modes
from backend.records.base.local_files import remove_tree

CODE_ROOT = Path(__file__).parents[4]
HEAD = """
import os, pathlib, shutil, subprocess, sys
from backend.records.base.access_modes import protect
folder = pathlib.Path(sys.argv[1])
protect([str(folder), "", str(folder / "missing")])
"""


@pytest.fixture
def version(tmp_path: Path) -> Path:
    folder = tmp_path / "files"
    (folder / "images" / "deep").mkdir(parents=True)
    (folder / "images" / "a.png").write_text("a")
    return folder


def content(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): path.read_text() if path.is_file() else ""
        for path in folder.rglob("*")
    }


@pytest.mark.parametrize(
    "act",
    [
        "(folder / 'processed.pt').write_text('x')",
        "(folder / 'images' / 'deep' / 'a.cache').write_text('x')",
        "(folder / 'processed').mkdir()",
        "(folder / 'images' / 'a.png').write_text('b')",
        "open(folder / 'images' / 'a.png', 'ab').write(b'b')",
        "(folder / 'images' / 'a.png').unlink()",
        "os.rename(folder / 'images', folder / 'pictures')",
        "os.chmod(folder / 'images' / 'a.png', 0o777)",
        "os.symlink('/', folder / 'images' / 'root')",
        "shutil.copy('/etc/hostname', folder / 'images' / 'deep')",
        "sys.exit(subprocess.run(['touch', folder / 'x']).returncode)",
        "os.fork() or open(folder / 'x', 'w'); sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))",
    ],
)
def test_user_code_reads_a_version_and_changes_nothing(version: Path, act: str) -> None:
    original_content = content(version)
    command = f"{HEAD}\nassert (folder / 'images' / 'a.png').read_text() == 'a'\n{act}"
    done = subprocess.run(
        [sys.executable, "-c", command, str(version)], cwd=CODE_ROOT, capture_output=True, text=True
    )
    assert done.returncode != 0
    assert "Assertion" not in done.stderr
    assert content(version) == original_content
    (version / "elsewhere").write_text("This process may still write.")


def test_files_outside_the_version_can_be_written(version: Path) -> None:
    command = HEAD + "(folder.parent / 'output').write_text('x')"
    subprocess.run([sys.executable, "-c", command, str(version)], cwd=CODE_ROOT, check=True)
    assert (version.parent / "output").read_text() == "x"


def test_other_users_lose_the_mode_to_write_once_and_a_version_can_be_removed(
    version: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    for _ in range(2):
        access_modes.protect([str(version)])
        folders = [version, *(path for path in version.rglob("*") if path.is_dir())]
        assert [stat.S_IMODE(path.stat().st_mode) for path in folders] == [0o555] * 3
    access_modes.allow_writes(str(version))
    assert version.stat().st_mode & stat.S_IWUSR
    access_modes.protect([str(version)])
    remove_tree(version)
    assert not version.exists()
