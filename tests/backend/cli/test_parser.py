"""Every command, with the common options before it or after it; and what each one imports."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from backend.cli import commands
from backend.cli.command import Command, all_commands
from backend.cli.main import make_parser, run

MAIN = Path(__file__).parents[3] / "main.py"
COMMON = ["--data-root", "/data", "--catalogue", "/c.sqlite", "--json"]


def required_args(command: Command) -> list[str]:
    """Return the least that has to be typed after the words of a command."""
    args: list[str] = []
    for parameter in command.parameters():
        if parameter.is_required or parameter.name == next(iter(command.one_of), ""):
            value = (parameter.spec.choices or ("2",))[0]
            args += [parameter.flag, value] if parameter.is_option else [value]
    return args


@pytest.mark.parametrize(
    "command", all_commands(), ids=lambda registered: " ".join(registered.path)
)
@pytest.mark.parametrize("position", ["before", "between", "after"])
def test_common_options_stand_anywhere(command: Command, position: str) -> None:
    args = [*command.path, *required_args(command)]
    index = {"before": 0, "between": 1, "after": len(args)}[position]
    argv = [*args[:index], *COMMON, *args[index:]]
    parsed = make_parser(argv).parse_args(argv)
    assert (parsed.data_root, parsed.catalogue) == (Path("/data"), Path("/c.sqlite"))
    assert parsed.json is True
    assert parsed.chosen == command


@pytest.mark.parametrize(
    "argv",
    [
        ["job"],
        ["job", "fly"],
        ["fly"],
        ["job", "create"],
        ["job", "create", "FILE", "--template", "T"],
        ["job", "reorder", "x"],
        ["node", "add"],
        ["node", "add", "h", "--no-share", "--node-data-root", "/d"],
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
        make_parser(argv).parse_args(argv)
    assert end.value.code == 2
    assert "usage:" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        ([], "2 [] None calm True"),
        (["--times", "3"], "3 [] None calm True"),
        (["a.txt", "--how", "wild", "--no-loud"], "2 [] a.txt wild False"),
        (["--to", "x", "--to", "y"], "2 ['x', 'y'] None calm True"),
        (["b.txt", "--to", "x"], "2 ['x'] b.txt calm True"),
    ],
)
def test_a_command_is_one_function_in_one_module(
    argv: list[str],
    expected: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "greet.py").write_text('''"""Greetings of all kinds."""
from __future__ import annotations
from pathlib import Path
from typing import Annotated
from backend.cli.command import ArgSpec, command
from backend.cli.printing import Answer

@command("greet wave")
def wave(
    file: Annotated[Path | None, ArgSpec("FILE")] = None,
    *,
    times: Annotated[int, ArgSpec("N", "how often")] = 2,
    to: Annotated[tuple[str, ...], ArgSpec("NAME")] = (),
    how: Annotated[str, ArgSpec(choices=("calm", "wild"))] = "calm",
    loud: bool = True,
) -> Answer:
    """Wave to others."""
    return Answer({"times": times}, f"{times} {list(to)} {file} {how} {loud}")
''')
    monkeypatch.setattr(commands, "__path__", [*commands.__path__, str(tmp_path)])
    assert run(["greet", "wave", *argv], lambda *_: 0) == 0
    assert capsys.readouterr().out.strip() == expected
    assert run(["greet", "wave", *argv, "--json"], lambda *_: 0) == 0
    assert json.loads(capsys.readouterr().out) == {"times": int(expected[0])}
    with pytest.raises(SystemExit):
        run(["greet", "--help"], lambda *_: 0)
    assert "wave to others" in capsys.readouterr().out
    del sys.modules[f"{commands.__name__}.greet"]


HEAVY = ("fabric", "keyring", "numpy", "paramiko", "sqlalchemy", "tqdm")
RULES = "backend.node.diagnosis.explainer"
SERVICES = ("backend.provisioning", "backend.services.preflight", "backend.services.jobs.service")


@pytest.mark.parametrize(
    ("args", "without"),
    [
        ("--version", ("backend.base", "backend.services", "dataclasses", "logging", "sqlalchemy")),
        ("--help", (*HEAVY, *SERVICES)),
        ("job --help", (*HEAVY, *SERVICES)),
        (
            "job list",
            (
                *HEAVY,
                *SERVICES,
                "backend.node.diagnosis.explainer",
                "backend.cli.commands.job.sweep",
            ),
        ),
        ("job list --json", (*HEAVY, *SERVICES)),
        ("job show x", (*HEAVY, *SERVICES)),
        ("job create x.toml", (*HEAVY, *SERVICES)),
        ("template list", (*HEAVY, *SERVICES)),
        ("mirror clear", (*HEAVY, *SERVICES)),
        ("dataset list", (*HEAVY, "backend.provisioning", "backend.services.nodes")),
    ],
)
def test_a_command_imports_only_what_it_needs(
    args: str, without: tuple[str, ...], tmp_path: Path
) -> None:
    options = ("--data-root", str(tmp_path / "root"), "--catalogue", str(tmp_path / "sqlite"))
    # Only the first command makes a catalogue, which takes more.
    assert run(["job", "list", *options], lambda *_: 0) == 0
    code = (
        "import sys; from backend.cli.main import run\n"
        "try: run(sys.argv[1:], None)\n"
        "except SystemExit: pass\n"
        "sys.stdout.write('\\n'.join(['', 'imported', *sys.modules]))"
    )
    argv = [sys.executable, "-c", code, *args.split(), *options]
    done = subprocess.run(argv, cwd=MAIN.parent, capture_output=True, text=True)
    imported = done.stdout.partition("\nimported\n")[2].split()
    assert "backend.cli.command" in imported, done.stderr
    tops = tuple(f"{name}." for name in without)
    assert [name for name in imported if f"{name}.".startswith(tops)] == []


@pytest.mark.parametrize("name", ["ringmaster", "/a path/100% mine"])
def test_usage_and_remedies_name_the_called_program(name: str, tmp_path: Path) -> None:
    def call(*args: str) -> str:
        options = ("--data-root", str(tmp_path / "root"), "--catalogue", str(tmp_path / "sqlite"))
        done = subprocess.run(
            [sys.executable, MAIN, *args, *options],
            env={**os.environ, "RINGMASTER_CALLED": name},
            capture_output=True,
            text=True,
        )
        return done.stdout + done.stderr

    assert call("--help").startswith(f"usage: {name} [")
    assert f"\n{name} job: error: " in call("job", "begin")
    assert f"To list jobs: {name} job list" in call("job", "show", "gone")


@pytest.mark.parametrize(
    ("closed", "args", "code"),
    [
        (">&-", ("job", "list"), 0),
        ("2>&-", ("job", "show", "gone"), 1),
        ("<&- >&- 2>&-", ("job", "list"), 0),
    ],
)
def test_closed_streams_change_no_result(
    closed: str, args: tuple[str, ...], code: int, tmp_path: Path
) -> None:
    options = ("--data-root", str(tmp_path / "root"), "--catalogue", str(tmp_path / "sqlite"))
    argv = [sys.executable, MAIN, *args, *options]
    done = subprocess.run(
        ["sh", "-c", f'exec "$@" {closed}', "sh", *map(str, argv)], capture_output=True, text=True
    )
    assert (done.returncode, "Traceback" in done.stderr) == (code, False)


def test_child_processes_do_not_inherit_the_command_name() -> None:
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
