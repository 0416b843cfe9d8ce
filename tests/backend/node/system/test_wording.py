"""What of a program's output stands in a sentence."""

from __future__ import annotations

import pytest

from backend.node.system.wording import last_message
from backend.ssh.interface import CommandResult

RULE = "-" * 74


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ("", ""),
        ("one\ntwo\n\n", "two"),
        ("fish: Unsupported use\n^~~~~^\n", "fish: Unsupported use"),
        (
            f"noise\n{RULE}\nAn attempt to bind\nfailed on fb.\n\n  Node: fb\n{RULE}\n",
            "An attempt to bind failed on fb.",
        ),
        (f"{RULE}\nfirst\n{RULE}\n{RULE}\nsecond\n{RULE}\n", "second"),
        (f"{RULE}\nframed\n{RULE}\nbash: no such file\n", "bash: no such file"),
        (f"cut off\n{RULE}\n", "cut off"),
        (f"{RULE}\n{RULE}\n", ""),
    ],
)
def test_the_last_line_of_a_program_is_never_a_row_of_dashes(output: str, message: str) -> None:
    assert last_message(output) == message
    assert CommandResult(1, "", output).complaint == (message or "it ended with code 1")
