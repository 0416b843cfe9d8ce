"""Every message names the command by which its reader starts the program."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[4]
_SHOW = "from backend.records.base.program_name import COMMAND; print(COMMAND)"


@pytest.mark.parametrize(
    ("variables", "argv", "command"),
    [
        ({"RINGMASTER_CALLED": "ringmaster"}, "main.py", "ringmaster"),
        ({"RINGMASTER_CALLED": "./installers/run"}, "main.py", "./installers/run"),
        ({}, "main.py", "main.py"),
        ({}, "/opt/ring/main.py", "main.py"),
        # As in a supervisor or an agent.
        ({}, "/opt/ring/backend/node/run/supervisor.py", "./installers/run"),
        ({}, "-c", "./installers/run"),
    ],
)
def test_the_command_is_that_of_the_launcher_or_of_the_documents(
    variables: dict[str, str], argv: str, command: str
) -> None:
    environment = {name: v for name, v in os.environ.items() if name != "RINGMASTER_CALLED"}
    completed = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.argv = [{argv!r}]; {_SHOW}"],
        env={**environment, **variables, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert completed.stdout.strip() == command


def test_no_other_module_names_the_command() -> None:
    """A report goes to others, who have it from the documents."""
    exceptions = {"backend/records/base/program_name.py", "backend/services/reports/content.py"}
    named = re.compile(r"""["' ](?:main\.py|\./installers/run|ringmaster) (?!sha256)[a-z]""")
    findings = [
        f"{path.relative_to(ROOT)}:{number}"
        for folder in ("app", "backend", "widgets")
        for path in sorted((ROOT / folder).rglob("*.py"))
        if str(path.relative_to(ROOT)) not in exceptions
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if named.search(line)
    ]
    assert findings == []


def test_the_first_page_counts_the_strategies() -> None:
    from backend.records.jobs.torch_options import STRATEGIES

    words = {7: "seven", 8: "eight", 9: "nine", 10: "ten"}
    word = words[len(STRATEGIES)]
    assert f"one of {word} [strategies]" in (ROOT / "README.md").read_text()
    assert f"- {word.capitalize()} strategies" in (ROOT / "CHANGELOG.md").read_text()
