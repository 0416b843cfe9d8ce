"""Results as JSON and as text: no number that JSON lacks, no control character that acts."""

from __future__ import annotations

import json
import math

import pytest

from backend.cli.printing import duration_text, print_json, print_table, size_text
from backend.records.base.schema import json_value
from backend.records.base.terminal_text import terminal_safe
from backend.records.jobs.checkpoint import Checkpoint
from backend.records.jobs.state import JobState
from backend.records.nodes.reading import Finding


def test_json_has_null_where_a_number_is_none(capsys: pytest.CaptureFixture[str]) -> None:
    print_json(
        {"a": [1.5, math.nan, math.inf], "b": JobState.FINISHED, "c": (Finding("x", True, "y"),)}
    )
    assert json.loads(capsys.readouterr().out) == {
        "a": [1.5, None, None],
        "b": "FINISHED",
        "c": [{"check": "x", "ok": True, "sentence": "y", "remedy": ""}],
    }


def test_a_checkpoint_has_the_keys_that_scripts_rely_on() -> None:
    record = Checkpoint("n", 1, 2, 3, 0, 4, "s", "c", "t", {"loss": math.nan}, is_best=True)
    raw = json_value(record, documents=True)
    assert raw.keys() >= {
        "name",
        "epoch",
        "step",
        "bytes",
        "sha256",
        "path",
        "is_latest",
        "is_best",
    }
    assert raw["metrics"] == {"loss": None}


def test_f59_text_of_others_cannot_move_the_cursor() -> None:
    assert terminal_safe("a\x1b[2J\x1b]0;title\x07b\u202ec\u009b") == "a?[2J?]0;title?b?c?"
    assert terminal_safe("日本 😀\n\tü") == "日本 😀\n\tü"


def test_a_table_keeps_its_columns_with_wide_letters(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("A", "B"), [("日本", "x"), ("abcd", "y")], "none")
    assert capsys.readouterr().out == "A     B\n日本  x\nabcd  y\n"


def test_an_empty_table_says_so_beside_the_result(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("A",), [], "There is nothing.")
    out, err = capsys.readouterr()
    assert (out, err) == ("", "There is nothing.\n")


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 B"), (999, "999 B"), (1500, "1.5 kB"), (2_000_000_000, "2.0 GB")]
)
def test_sizes_are_in_words(count: int, text: str) -> None:
    assert size_text(count) == text


def test_times_are_in_words() -> None:
    assert [duration_text(s) for s in (None, 5, 61.4, 3700)] == ["", "5.0 s", "1 min 1 s", "1 h 02"]
