"""Every word of the command line, with the common options before it or after it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from backend.cli.arguments import make_parser
from backend.cli.main import _COMMANDS

MAIN = Path(__file__).parents[3] / "main.py"

WORDS = {
    ("demo", ""): [],
    ("doctor", ""): [],
    ("rescan", ""): [],
    ("mirror", "clear"): [],
    **{
        (kind, action): words
        for kind in ("dataset", "model", "loader")
        for action, words in (
            ("import", ["PATH", "--name", "N"]),
            ("list", []),
            ("show", ["N"]),
            ("changes", ["N", "--since", "N@1"]),
            ("remove-added", ["N"]),
            ("remove", ["N"]),
        )
    },
    ("project", "import"): ["PATH", "--name", "N"],
    ("dataset", "preview"): ["N", "--loader", "L"],
    ("dataset", "scan"): ["N", "--loader", "L"],
    ("model", "check"): ["N"],
    ("model", "layers"): ["N", "--dataset", "D", "--loader", "L"],
    ("model", "weights"): ["N", "FILE"],
    ("node", "add"): ["HOST"],
    ("node", "list"): [],
    ("node", "forget"): ["HOST"],
    ("node", "forget-passphrase"): ["N"],
    ("node", "remove"): ["N"],
    ("node", "check"): [],
    ("node", "orphans"): [],
    ("node", "provision"): [],
    ("node", "unprovision"): ["N", "M"],
    ("job", "create"): ["FILE"],
    **{
        ("job", action): ["ID"]
        for action in (
            *("start", "stop", "resume", "wait", "show", "history", "log", "preflight"),
            *("checkpoints", "clone", "annotate", "remove", "queue", "unqueue"),
            *("bundle", "unbundle", "replay", "replayed", "runs", "restore", "acts"),
            *("tensorboard",),
        )
    },
    ("job", "keep"): ["ID", "--checkpoint", "C"],
    ("job", "layers"): ["ID", "--checkpoint", "C"],
    ("job", "compare"): ["ID", "ID"],
    ("job", "sweep"): ["ID", "--set", "lr=0.1,0.2"],
    ("job", "reorder"): ["ID", "--first"],
    ("job", "tag"): ["ID", "--add", "T"],
    ("queue", "list"): [],
    ("queue", "pause"): [],
    ("queue", "resume"): [],
    ("study", "list"): [],
    ("study", "start"): ["N", "--full"],
    ("study", "show"): ["ID"],
    ("study", "stop"): ["ID"],
    ("study", "resume"): ["ID"],
    ("study", "export"): ["ID", "--output", "FILE.md"],
    ("template", "list"): [],
    ("template", "show"): ["N"],
    ("template", "save"): ["N", "FILE"],
    ("template", "rename"): ["N", "M"],
    ("template", "remove"): ["N"],
    ("notice", "show"): [],
    ("notice", "webhook"): ["https://chat.example/x"],
    ("notice", "mail"): ["you@lab.example"],
    ("notice", "set"): ["--finished", "off"],
    ("notice", "test"): ["mail"],
    ("job", "simulate"): ["FILE", "--staleness", "2"],
    ("job", "list"): [],
    ("job", "predict"): ["ID", "--checkpoint", "C", "--file", "F", "G", "--output", "O"],
    ("job", "export"): ["ID", "--checkpoint", "C", "--format", "pt", "--output", "P"],
}
COMMON = ["--data-root", "/data", "--catalogue", "/c.sqlite", "--json"]


def test_each_command_that_can_be_said_does_something() -> None:
    assert set(WORDS) == set(_COMMANDS)


@pytest.mark.parametrize("command", WORDS)
@pytest.mark.parametrize("place", ["before", "between", "after"])
def test_common_options_stand_anywhere(command: tuple[str, str], place: str) -> None:
    words = [*filter(None, command), *WORDS[command]]
    if place == "before":
        argv = [*COMMON, *words]
    elif place == "between":
        argv = [words[0], *COMMON, *words[1:]]
    else:
        argv = [*words, *COMMON]
    parsed = make_parser().parse_args(argv)
    assert (parsed.data_root, parsed.catalogue) == (Path("/data"), Path("/c.sqlite"))
    assert parsed.json is True
    assert (parsed.command, getattr(parsed, "action", "")) == command


@pytest.mark.parametrize(
    "argv",
    [
        ["job"],
        ["job", "fly"],
        ["job", "create"],
        ["node", "add"],
        ["node", "unprovision"],
        ["demo", "--workers", "0"],
        ["demo", "--workers", "two"],
        ["job", "log", "x", "--rank", "-1"],
        ["job", "export", "x", "--checkpoint", "c", "--format", "docx", "--output", "p"],
        ["job", "list", "--js"],
    ],
)
def test_wrong_usage_is_exit_code_2(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        make_parser().parse_args(argv)
    assert end.value.code == 2
    assert "usage:" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["ringmaster", "/a path/100% mine"])
def test_usage_and_remedies_say_what_was_called(name: str, tmp_path: Path) -> None:
    def call(*words: str) -> str:
        places = ("--data-root", str(tmp_path / "root"), "--catalogue", str(tmp_path / "sqlite"))
        done = subprocess.run(
            [sys.executable, MAIN, *words, *places],
            env={**os.environ, "RINGMASTER_CALLED": name},
            capture_output=True,
            text=True,
        )
        return done.stdout + done.stderr

    assert call("--help").startswith(f"usage: {name} [")
    assert f"\n{name} job: error: " in call("job", "begin")
    assert f"To list jobs: {name} job list" in call("job", "show", "gone")


@pytest.mark.parametrize(
    ("closed", "words", "code"),
    [
        (">&-", ("job", "list"), 0),
        ("2>&-", ("job", "show", "gone"), 1),
        ("<&- >&- 2>&-", ("job", "list"), 0),
    ],
)
def test_closed_streams_change_no_result(
    closed: str, words: tuple[str, ...], code: int, tmp_path: Path
) -> None:
    places = ("--data-root", str(tmp_path / "root"), "--catalogue", str(tmp_path / "sqlite"))
    argv = [sys.executable, MAIN, *words, *places]
    done = subprocess.run(
        ["sh", "-c", f'exec "$@" {closed}', "sh", *map(str, argv)], capture_output=True, text=True
    )
    assert (done.returncode, "Traceback" in done.stderr) == (code, False)


def test_what_it_starts_was_called_by_nobody() -> None:
    code = (
        "import os; from backend.records.base.program_name import COMMAND\n"
        "print(COMMAND, *os.environ)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=MAIN.parent,
        env={"RINGMASTER_CALLED": "ringmaster", "KEPT": "1"},
        capture_output=True,
        text=True,
    )
    assert done.stdout.split()[:2] == ["ringmaster", "KEPT"], done.stderr
    assert "RINGMASTER_CALLED" not in done.stdout
