"""What is made from the commands: the page of the documentation, and the completion of a shell."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from backend.cli.main import run
from backend.cli.reference import reference

PAGE = Path(__file__).parents[3] / "docs" / "commands.md"


def test_the_page_has_the_commands_as_they_are() -> None:
    how = "python -m backend.cli.reference > docs/commands.md"
    assert PAGE.read_text("utf-8") == reference(), f"renew it: {how}"


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
