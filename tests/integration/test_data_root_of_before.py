"""A data root and a catalogue of the version before modules were renamed open as they are.

`tests/data/data-roots/2026-11.tar.gz` was made by that version: an item of each kind, a job that
ran twice, a draft, a template, and what its command line printed of all of them.
"""

from __future__ import annotations

import json
import shutil
import tarfile
from pathlib import Path
from typing import Any

import pytest

from backend.cli.main import run

MADE = Path(__file__).parents[1] / "data" / "data-roots" / "2026-11.tar.gz"
WHERE = "/tmp/lab/ring"
"""Where it lay then."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    with tarfile.open(MADE) as archive:
        archive.extractall(folder)
    return folder


def asked(made: Path) -> list[dict[str, Any]]:
    text = (made / "expected.json").read_text()
    found: list[dict[str, Any]] = json.loads(text.replace(WHERE, str(made / "ring")))
    return found


def no_window(*_: object) -> int:
    raise AssertionError("no window was asked for")


@pytest.mark.parametrize("has_catalogue", [True, False], ids=["its catalogue", "a new catalogue"])
def test_an_older_data_root_reads_as_before(
    made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], has_catalogue: bool
) -> None:
    catalogue = tmp_path / "catalogue.sqlite"
    if has_catalogue:
        shutil.copy(made / "catalogue.sqlite", catalogue)
    common = ["--data-root", str(made / "ring"), "--catalogue", str(catalogue), "--json"]
    for one in asked(made):
        code = run([*common, *one["command"]], no_window)
        out, err = capsys.readouterr()
        assert (code, err) == (0, ""), one["command"]
        assert json.loads(out) == one["json"], one["command"]
