"""The tables of the documentation, and the completion of a shell, are made from the program."""

from __future__ import annotations

import pkgutil
import subprocess
import sys

import pytest

from backend.cli.commands import job
from backend.cli.main import run
from tests.pages_of_docs import DOCS, TABLES, page_text

_ORDER = """import importlib, sys
from backend.cli.command import load_group
for name in sys.argv[1:]: importlib.import_module(name)
print(*(" ".join(one.path) for one in load_group("job")[1]))"""


@pytest.mark.parametrize("name", TABLES)
def test_the_tables_of_the_docs_are_those_of_the_program(name):
    assert (DOCS / name).read_text(encoding="utf-8") == page_text(name), (
        "python -m tests.pages_of_docs"
    )


def test_commands_are_listed_in_one_order_whatever_the_order_of_imports() -> None:
    modules = [info.name for info in pkgutil.iter_modules(job.__path__, f"{job.__name__}.")]
    orders = [
        subprocess.run(
            [sys.executable, "-c", _ORDER, *order], capture_output=True, text=True, check=True
        ).stdout
        for order in (modules, modules[::-1])
    ]
    assert orders[0] == orders[1] != ""


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [
        (["jo"], ["job"]),
        (["job", "st"], ["start", "stop"]),
        (["--data-root", "job", "job", "tem"], []),
        (["--json", "temp"], ["template"]),
        (["job", "start", "list", "--w"], ["--wait"]),
        (["job", "stop", "x", "--wait", "--k"], ["--kill"]),
        (["demo", "--h"], ["--headless"]),
        (["node", "provision", "--no"], ["--no-limit-key"]),
        (["notice", "show", "--j"], ["--json"]),
        (["nothing", ""], ["--data-root", "--accept-key", "--catalogue", "--json", "--verbose"]),
    ],
)
def test_bash_completes_words_and_options(
    tokens: list[str], expected: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["completion"], lambda *_: 1) == 0
    script = capsys.readouterr().out + (
        'COMP_WORDS=(ringmaster "$@"); COMP_CWORD=$#; _ringmaster; echo "${COMPREPLY[*]}"'
    )
    done = subprocess.run(["bash", "-c", script, "bash", *tokens], capture_output=True, text=True)
    assert (done.stdout.split(), done.stderr) == (expected, "")
