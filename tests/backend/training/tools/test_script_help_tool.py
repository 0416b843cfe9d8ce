"""The help of a script that runs: what it prints, and programs that have none."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from backend.base.errors import BackendError
from backend.records.jobs.script_help import ScriptHelp
from backend.training.tools import protocol as tool_protocol
from backend.training.tools.script_help import read_script_help

PARSER = """
import argparse, sys, pathlib
parser = argparse.ArgumentParser()
commands = parser.add_subparsers()
fit = commands.add_parser("fit")
fit.add_argument("--lr", type=float, default=0.1, help="rate (default: %(default)s)")
pathlib.Path("written").touch()
parser.parse_args()
"""


def help_of(folder: Path, code: str, entry: str = "train.py", **changes: Any) -> ScriptHelp:
    script, work_folder = folder / "version", folder / "work"
    for path in (script, work_folder):
        path.mkdir()
    (script / entry).write_text(code)
    (script / entry).chmod(0o444)
    request = {"script": str(script), "entry": entry, "python": "", "words": [], "limit_s": 20.0}
    with (
        contextlib.chdir(work_folder),
        contextlib.closing(tool_protocol.Report(work_folder / "p")) as report,
    ):
        script_help = ScriptHelp.from_dict(read_script_help({**request, **changes}, report))
    assert sorted(path.name for path in script.iterdir()) == [entry]
    return script_help


def test_the_help_of_a_command_is_read_and_the_version_stays_as_it_is(tmp_path: Path) -> None:
    script_help = help_of(tmp_path, PARSER, words=["fit"])
    assert [
        (argument.head, argument.kind, argument.default) for argument in script_help.arguments
    ] == [("--lr", "number", "0.1")]


def test_a_shell_script_passes_the_request_for_help_on(tmp_path: Path) -> None:
    text = 'echo "usage:"\necho "  --lr RATE  rate of $1"\nexit 1\n'
    (argument,) = help_of(tmp_path, text, entry="train.sh").arguments
    assert argument.help_text == "rate of --help"


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("while True: pass", "train.py --help did not end within 0.5 s; the script may have begun"),
        ("import os, time; os.close(1); os.close(2); time.sleep(60)", "did not end within 0.5 s"),
        ("import nothing_of_this_name", "ended with 1: ModuleNotFoundError: No module named"),
        ("raise SystemExit(3)", "ended with 3: it printed nothing"),
        ("import os; os.abort()", "ended with -6: "),
        ("while True: print('loss 0.1' * 1000)", "printed more than 1 MB"),
        ("import sys; sys.stdout.buffer.write(bytes(range(256)))", "printed no text"),
        ("print('step 1, loss 0.3')", "lists no options that can be read"),
        ("print(input())", "ended with 1: EOFError"),
        ("def f(:", "ended with 1: SyntaxError"),
    ],
)
def test_a_program_without_help_is_one_sentence(tmp_path: Path, code: str, message: str) -> None:
    limit_s = 0.5 if "0.5" in message else 20.0
    with pytest.raises(BackendError) as caught:
        help_of(tmp_path, code, limit_s=limit_s)
    assert message in caught.value.message
    assert "\n" not in caught.value.message
    assert caught.value.remedy == "Type its arguments."


def test_a_python_that_does_not_start_is_named(tmp_path: Path) -> None:
    with pytest.raises(BackendError, match="/no/python cannot be started: No such file"):
        help_of(tmp_path, "", python="/no/python")


def test_a_process_that_keeps_the_output_open_is_not_waited_for(tmp_path: Path) -> None:
    fork_code = "if not os.fork(): pathlib.Path('pid').write_text(str(os.getpid())); time.sleep(60)"
    code = PARSER.replace("import argparse", "import os, time, pathlib, argparse")
    code = code.replace(
        "parser.parse", f"{fork_code}\nwhile not pathlib.Path('pid').exists(): pass\nparser.parse"
    )
    script_help = help_of(tmp_path, code, words=["fit"])
    assert script_help.arguments[0].head == "--lr"
    os.kill(int((tmp_path / "work/script/pid").read_text()), signal.SIGKILL)
