"""Log text as a terminal leaves it."""

from __future__ import annotations

import pytest

from backend.records.base.terminal_text import last_state, strip_codes


@pytest.mark.parametrize(
    ("line", "visible_text"),
    [
        ("10 %\r50 %\r100 %", "100 %"),
        ("100 %\r", "100 %"),
        ("written by Windows twice\r\r", "written by Windows twice"),
        ("bar\r\x1b[31mError: x\x1b[0m", "Error: x"),
        ("日本\u3000語\xa0\tx\x00\x1b]0;title\x07", "日本\u3000語\xa0\tx"),
        ("", ""),
    ],
)
def test_a_line_shows_its_last_state(line: str, visible_text: str) -> None:
    assert strip_codes(f"before\n{line}\nnext") == f"before\n{visible_text}\nnext"


def test_bytes_are_judged_as_text_is() -> None:
    assert last_state(b"1\r22\r") == last_state("1\r22\r").encode() == b"22"
