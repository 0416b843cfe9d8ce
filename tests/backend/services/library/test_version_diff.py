"""What changed from one version to the next, by the hashes of their import and their lines."""

import json
from pathlib import Path

import pytest

from backend.base.errors import BackendError
from backend.cli.main import run as cli
from backend.records.library.item import Kind, VersionChanges
from backend.services.library import version_diff
from backend.services.library.version_diff import compare_versions
from tests.backend.services.access_cases import DataSite

pytest_plugins = [
    "tests.backend.ssh.sshd_fixtures",
    "tests.backend.services.access_fixtures",
]
pytestmark = pytest.mark.usefixtures("uncounted")


def version(folder: Path, **texts: str) -> Path:
    folder.mkdir()
    for name, text in texts.items():
        (folder / f"{name}.py").write_text(text)
    return folder


def test_a_version_says_which_files_and_lines_are_others(site: DataSite, tmp_path: Path) -> None:
    library = site.desktop().library
    first = version(tmp_path / "1", bks_model="a = 1\nb = 2\n", same="s\n", old="o\n")
    second = version(tmp_path / "2", bks_model="a = 1\nb = 3\n", same="s\n", fresh="f\n")
    for source in (first, second):
        library.import_item(Kind.MODEL, source, "net")
    difference = library.changes(Kind.MODEL, "net")
    assert difference == library.changes(Kind.MODEL, "net@2", "net@1")
    assert (difference.older_version, difference.newer_version) == ("net@1", "net@2")
    assert (difference.changed_paths, difference.added_paths, difference.removed_paths) == (
        ("bks_model.py",),
        ("fresh.py",),
        ("old.py",),
    )
    lines = difference.text.splitlines()
    assert lines[:2] == ["--- net@1/bks_model.py", "+++ net@2/bks_model.py"]
    assert [line for line in lines if line[:1] in "+-" and line[:3] not in ("---", "+++")] == [
        "-b = 2",
        "+b = 3",
        "+f",
        "-o",
    ]
    with pytest.raises(BackendError, match="no version before net@1"):
        library.changes(Kind.MODEL, "net@1")


def test_a_changed_binary_file_is_named_and_not_shown() -> None:
    def text(reference: str, path: str) -> str:
        raise BackendError(f"{path} is not text.")

    difference = compare_versions(("d@1", {"a.npy": "1"}), ("d@2", {"a.npy": "2"}), text)
    assert difference == VersionChanges("d@1", "d@2", changed_paths=("a.npy",))


def test_only_the_first_of_very_many_lines_and_files_are_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(version_diff, "_MAX_LINES", 20)
    monkeypatch.setattr(version_diff, "_MAX_FILES", 3)
    none: dict[str, str] = {}
    nine = {f"{number}.py": "hash" for number in range(9)}
    difference = compare_versions(
        ("m@1", none), ("m@2", nine), lambda reference, path: "line\n" * 10
    )
    assert len(difference.added_paths) == 9
    assert difference.text.splitlines()[20:] == ["… (cut off)", "… (the first 3 files)"]
    long = compare_versions(("m@1", none), ("m@2", nine), lambda reference, path: "line\n" * 21)
    assert long.text.splitlines()[0] == "… 0.py is longer than 20 lines"


def test_the_command_line_shows_the_changes_of_versions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "root").mkdir()
    options = ["--data-root", str(tmp_path / "root"), "--catalogue", str(tmp_path / "c.sqlite")]

    def run_command(*arguments: str) -> str:
        code = cli([*arguments, *options], lambda *_: pytest.fail("these words open no window"))
        assert code == 0
        return capsys.readouterr().out

    for number in (1, 2):
        source = version(tmp_path / str(number), bks_model=f"a = {number}\n")
        run_command("model", "import", str(source), "--name", "net")
    assert "-a = 1\n+a = 2" in run_command("model", "changes", "net")
    backwards = json.loads(run_command("model", "changes", "net@1", "--since", "net@2", "--json"))
    assert backwards["changed"] == ["bks_model.py"]
    assert "-a = 2\n+a = 1" in backwards["text"]
