"""The part of a bundle that is ours, without the Python, Qt and packages that come before it."""

from __future__ import annotations

import io
import json
import os
import tarfile
from pathlib import Path

import pytest

from app.shell.help import TOPICS
from backend.provisioning.code_archive import make_bundle
from installers import bundled_python, files
from installers.console import Progress
from installers.linux_bundle import BundleBuilder

ROOT = Path(__file__).parents[2]


@pytest.fixture
def own_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(bundled_python, "compile_sources", lambda *args: None)
    folder = tmp_path / "own"
    builder = BundleBuilder(ROOT, tmp_path / "cache", Progress(io.StringIO()))
    builder._lay_out(folder, "2.35", dict(os.environ))
    return folder


def test_the_bundle_has_all_data_files_and_no_tests(own_part: Path) -> None:
    app = own_part / "app"
    assert make_bundle(app / "backend").name == make_bundle().name
    assert all((app / "docs" / name).is_file() for name, _ in TOPICS)
    assert {path.name for path in app.iterdir()} >= {"main.py", "widgets", "resources"}
    assert not (app / "tests").exists()
    assert os.access(app / "installers/run", os.X_OK)
    assert "torch==2.13.0" in json.loads((app / "bundle.json").read_text())["requirements"]
    launcher = own_part / "ringmaster"
    assert os.access(launcher, os.X_OK)
    assert "python/bin/python3" in launcher.read_text()


def test_the_same_files_are_the_same_bytes_without_traces_of_their_packer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)
    archives = []
    for name in ("one", "other"):
        tree = tmp_path / name / "tree"
        (tree / "empty").mkdir(parents=True)
        (tree / "file").write_text("text")
        (tree / "program").write_text("#!/bin/sh\n")
        (tree / "program").chmod(0o700)
        (tree / "link").symlink_to("file")
        os.utime(tree / "file", (len(archives), len(archives)))
        target = tmp_path / f"{name}.tar.gz"
        assert files.write_archive(target, {"top": tree}) == 14
        archives.append(target.read_bytes())
    assert archives[0] == archives[1]
    with tarfile.open(tmp_path / "one.tar.gz") as tar:
        members = tar.getmembers()
    assert {(one.uid, one.gid, one.uname, one.gname, one.mtime) for one in members} == {
        (0, 0, "", "", 315_532_800)
    }
    assert {one.name: one.mode for one in members if one.isfile()} == {
        "top/file": 0o644,
        "top/program": 0o755,
    }
