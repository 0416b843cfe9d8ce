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

ARCHIVE = Path(__file__).parents[1] / "data" / "data-roots" / "2026-11.tar.gz"
FORMER_FOLDER = "/tmp/lab/ring"
"""Folder of the data root when the archive was made."""


@pytest.fixture(scope="module")
def archive_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("archive")
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(folder)
    return folder


def expected_answers(archive_folder: Path) -> list[dict[str, Any]]:
    text = (archive_folder / "expected.json").read_text()
    answers: list[dict[str, Any]] = json.loads(
        text.replace(FORMER_FOLDER, str(archive_folder / "ring"))
    )
    return answers


def common_part(answer: Any, previous_answer: Any) -> Any:
    """Return an answer without the fields that it did not have before."""
    if isinstance(answer, dict) and isinstance(previous_answer, dict):
        keys = answer.keys() & previous_answer.keys()
        return {key: common_part(answer[key], previous_answer[key]) for key in keys}
    if isinstance(answer, list) and len(answer) == len(previous_answer):
        return list(map(common_part, answer, previous_answer))
    return answer


def no_window(*_: object) -> int:
    raise AssertionError("no window was asked for")


@pytest.mark.parametrize("has_catalogue", [True, False], ids=["its catalogue", "a new catalogue"])
def test_an_older_data_root_reads_as_before(
    archive_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], has_catalogue: bool
) -> None:
    catalogue = tmp_path / "catalogue.sqlite"
    if has_catalogue:
        shutil.copy(archive_folder / "catalogue.sqlite", catalogue)
    common = ["--data-root", str(archive_folder / "ring"), "--catalogue", str(catalogue), "--json"]
    for answer in expected_answers(archive_folder):
        code = run([*common, *answer["command"]], no_window)
        out, err = capsys.readouterr()
        assert (code, err) == (0, ""), answer["command"]
        assert common_part(json.loads(out), answer["json"]) == answer["json"], answer["command"]
