"""The tables of the documentation, and the completion of a shell, are made from the program."""

from __future__ import annotations

import subprocess

import pytest

from backend.cli.main import run
from tests.pages_of_docs import DOCS, TABLES, page


@pytest.mark.parametrize("name", TABLES)
def test_the_tables_of_the_docs_are_those_of_the_program(name):
    assert (DOCS / name).read_text(encoding="utf-8") == page(name), "python -m tests.pages_of_docs"


@pytest.mark.parametrize(
    ("typed", "offered"),
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
    typed: list[str], offered: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["completion"], lambda *_: 1) == 0
    script = capsys.readouterr().out + (
        'COMP_WORDS=(ringmaster "$@"); COMP_CWORD=$#; _ringmaster; echo "${COMPREPLY[*]}"'
    )
    done = subprocess.run(["bash", "-c", script, "bash", *typed], capture_output=True, text=True)
    assert (done.stdout.split(), done.stderr) == (offered, "")
