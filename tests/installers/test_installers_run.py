"""`installers/run`, started as a user starts it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from backend.cli.command import groups

COMMANDS = sorted({*groups()} - {"demo"})
Start = Callable[..., "subprocess.CompletedProcess[str]"]


def put_python(folder: Path, prepare: str, *, version_is_right: int = 0) -> Path:
    """A Python that answers the questions of the shell, and does `prepare` instead of it."""
    python = folder / "python3"
    python.write_text(f'#!/bin/sh\n[ "$1" = -c ] && exit {version_is_right}\n{prepare}\n')
    python.chmod(0o755)
    return python


def test_a_second_start_runs_one_python_and_asks_it_nothing(
    start: Start, ready: Path, project: Path, tmp_path: Path
) -> None:
    assert start("doctor").returncode == 0
    # A set-up, or a question to a Python, would be another program that is executed.
    trace = tmp_path / "executed"
    python = Path(os.path.realpath(ready))
    ready.unlink()
    ready.write_text(f'#!/bin/sh\necho "$@" >>{trace}\nexec {python} "$@"\n')
    ready.chmod(0o755)
    assert start("doctor", RINGMASTER_PYTHON="/bin/false").returncode == 0
    assert trace.read_text() == f"{project / 'main.py'} doctor\n"


def test_main_gets_every_argument_as_it_was_typed(start: Start, ready: Path) -> None:
    answer = start("job", "create", "my job's file.toml", "", "$HOME *")
    assert answer.stdout.split("\n") == [
        str(ready.parent.parent), "job", "create", "my job's file.toml", "", "$HOME *", "",
    ]  # fmt: skip


def test_horovod_is_left_out_by_an_argument_anywhere_and_a_node_keeps_its_own(
    start: Start, ready: Path, project: Path, cache: Path, tmp_path: Path
) -> None:
    python = str(put_python(tmp_path, 'echo "without: ${RINGMASTER_WITHOUT_HOROVOD:-}"; exit 1'))
    answer = start("--without-horovod", "doctor", RINGMASTER_PYTHON=python)
    assert answer.stdout == "without: 1\n"
    start("doctor")
    (mark,) = (cache / "ready").iterdir()
    mark.rename(f"{mark}-without-horovod")
    assert start("--without-horovod", "doctor").stdout.split()[1:] == ["doctor"]
    assert start("doctor", "a b", "--without-horovod").stdout.split("\n")[1:3] == ["doctor", "a b"]
    node_answer = start("node", "provision", "--without-horovod", RINGMASTER_PYTHON=python)
    assert node_answer.stdout == "without: \n"


def test_main_gets_the_path_that_the_user_called(start: Start, ready: Path, project: Path) -> None:
    (project / "main.py").write_text("import os; print(os.environ['RINGMASTER_CALLED'])")
    assert start("doctor").stdout == f"{project / 'installers/run'}\n"
    completed = subprocess.run(
        ["./installers/run", "--help"], cwd=project, capture_output=True, text=True
    )
    assert completed.stdout == "./installers/run\n", completed.stderr


def test_the_program_starts_from_any_folder_and_through_a_link(
    start: Start, ready: Path, project: Path, tmp_path: Path
) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "json.py").write_text("raise SystemExit('the standard library is shadowed')\n")
    link = tmp_path / "bin/ringmaster"
    link.symlink_to(project / "installers/run")
    for _ in ("first", "and fast"):
        completed = subprocess.run([link, "doctor"], cwd=tmp_path, capture_output=True, text=True)
        assert completed.returncode == 0, completed.stderr


def test_no_variable_leads_to_the_modules_of_another_python(
    start: Start, ready: Path, project: Path, tmp_path: Path
) -> None:
    for module in ("logging", "json", "argparse", "pathlib", "sitecustomize", "ensurepip"):
        (tmp_path / f"{module}.py").write_text("raise SystemExit('shadowed')\n")
    folder = str(tmp_path)
    variables = {"PYTHONPATH": folder, "PYTHONHOME": folder, "PYTHONSTARTUP": folder}
    variables |= {"PYTHONSAFEPATH": "1", "PYTHONUSERBASE": folder, "PYTHONINSPECT": "1"}
    show = "import json, logging, os\nprint(*(n for n in os.environ if n.startswith('PYTHON')))\n"
    (project / "main.py").write_text(show)
    completed = start("doctor", **variables)
    assert (completed.returncode, completed.stderr) == (0, "")
    names = set(completed.stdout.split())
    assert not names & set(variables)
    assert "PYTHONUTF8" in names, "names of files do not depend on the locale"


def test_tools_of_the_environment_come_first_in_path(
    start: Start, ready: Path, project: Path
) -> None:
    (project / "main.py").write_text("import os; print(os.environ['PATH'])")
    assert start("doctor").stdout.split(os.pathsep)[0] == str(ready.parent)


@pytest.mark.parametrize(
    ("arguments", "purpose"),
    [
        ([], "window"),
        (["--base-dir", "/tmp/profile"], "window"),
        (["demo"], "window"),
        (["demo", "--headless"], "headless"),
        (["--json", "job", "list"], "headless"),
        (["--help"], "headless"),
        (["--data-root", "job"], "window"),
        (["--data-root=/tmp/data", "rescan"], "headless"),
        (["--verbose", "rescan"], "headless"),
        (["--catalogue", "demo", "demo", "--workers", "3"], "window"),
        *(([command], "headless") for command in COMMANDS),
    ],
)
def test_only_the_window_asks_for_a_desktops_libraries(
    start: Start, project: Path, tmp_path: Path, arguments: list[str], purpose: str
) -> None:
    python = put_python(tmp_path, 'for word; do :; done; echo "$word"; exit 1')
    answer = start(*arguments, RINGMASTER_PYTHON=str(python), DISPLAY=":0")
    assert (answer.stdout, answer.returncode) == (f"{purpose}\n", 1)


def test_the_demo_needs_no_library_of_a_desktop_where_there_is_none(
    start: Start, project: Path, tmp_path: Path
) -> None:
    python = put_python(tmp_path, 'for word; do :; done; echo "$word"; exit 1')
    variables = {"DISPLAY": "", "WAYLAND_DISPLAY": ""}
    assert start("demo", RINGMASTER_PYTHON=str(python), **variables).stdout == "headless\n"


def test_an_old_python_is_refused_in_one_sentence(
    start: Start, project: Path, tmp_path: Path
) -> None:
    python = put_python(tmp_path, "", version_is_right=1)
    answer = start("doctor", RINGMASTER_PYTHON=str(python))
    assert answer.returncode == 1
    assert answer.stderr.startswith("ringmaster: Python 3.11 or newer with its venv module is")
    assert "apt-get install python3" in answer.stderr
    assert answer.stderr.count("\n") == 1


@pytest.mark.slow
def test_an_unreachable_index_is_reported_in_one_sentence(start: Start, project: Path) -> None:
    variables = {"PIP_NO_INDEX": "0", "PIP_FIND_LINKS": "", "PIP_CONFIG_FILE": os.devnull}
    variables |= {"PIP_INDEX_URL": "http://127.0.0.1:9/simple", "PIP_RETRIES": "1"}
    answer = start("doctor", **variables)
    assert answer.returncode == 1
    last_line = answer.stderr.splitlines()[-1]
    assert last_line.startswith(
        "ringmaster: Fetching uv stopped because the package index cannot be reached"
    )
    assert "Traceback" not in answer.stderr


def test_a_change_of_versions_is_noticed_at_the_next_start(
    start: Start, project: Path, ready: Path, tmp_path: Path
) -> None:
    assert start("doctor").returncode == 0
    with (project / "installers/constraints.txt").open("a") as constraints:
        constraints.write("another==1.0\n")
    mark = tmp_path / "asked"
    python = put_python(tmp_path, f"touch {mark}; exit 1")
    assert start("doctor", RINGMASTER_PYTHON=str(python)).returncode == 1
    assert mark.exists()


def test_a_deleted_environment_is_not_started(start: Start, project: Path, ready: Path) -> None:
    assert start("doctor").returncode == 0
    (ready.parent.parent / "ringmaster.json").unlink()
    answer = start("doctor", RINGMASTER_PYTHON="/bin/false")
    assert answer.returncode == 1
