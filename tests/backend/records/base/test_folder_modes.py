"""Folders that the desktop makes and the nodes' user fills."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from backend.records.base.folder_modes import make_folder


@pytest.mark.parametrize("mode", [0o700, 0o755, 0o2775, 0o777])
def test_a_new_folder_has_the_mode_of_the_data_root(tmp_path: Path, mode: int) -> None:
    root = tmp_path / "root"
    root.mkdir()
    root.chmod(mode)
    make_folder(root / "jobs")
    make_folder(root / "jobs" / "one")
    assert stat.S_IMODE((root / "jobs" / "one").stat().st_mode) == mode


def test_a_folder_made_by_root_belongs_to_the_owner_of_the_data_root(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        # Without root a folder is its maker's, and then so is what is made in it.
        make_folder(tmp_path / "jobs")
        assert (tmp_path / "jobs").stat().st_uid == os.geteuid()
        return
    root = tmp_path / "root"
    root.mkdir()
    os.chown(root, 1234, 1235)
    make_folder(root / "jobs")
    made = (root / "jobs").stat()
    assert (made.st_uid, made.st_gid) == (1234, 1235)


def test_a_folder_that_is_there_is_left_as_it_is(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir(mode=0o700)
    make_folder(kept, exist_ok=True)
    assert stat.S_IMODE(kept.stat().st_mode) == 0o700
    with pytest.raises(FileExistsError):
        make_folder(kept)
