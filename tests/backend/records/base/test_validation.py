"""Names that stand for folders, variables, and text that is safe to print."""

from __future__ import annotations

import os
import unicodedata
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from backend.records.base.validation import job_name_error, name_error, sanitize, variable_error


@pytest.mark.parametrize(
    "name",
    [
        "digits",
        "two words",
        "it's",
        "Größe",
        "数字",
        "a;b",
        "$(touch x)",
        "50 %",
        "a+b=c",
        "é" * 50,
    ],
)
def test_f54_a_name_that_works_everywhere_is_taken(name: str) -> None:
    assert name_error(name) == ""


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("", "Enter a name"),
        ("..", "begins with"),
        (".hidden", "begins with"),
        ("-x", "begins with"),
        (" a", "begins with"),
        ("a ", "begins with"),
        ("a.", "ends with"),
        ("a/b", "contains /"),
        ("a\\b", "contains \\"),
        ("digits@2", "contains @"),
        ('a"b', 'contains "'),
        ("a\nb", "cannot be shown"),
        ("a\0b", "cannot be shown"),
        ("\ud800", "cannot be shown"),
        ("a\u202eb", "cannot be shown"),
        ("x" * 101, "longer than 100 bytes"),
        ("🦔" * 26, "longer than 100 bytes"),
        ("CON", "reserved by Windows"),
        ("nul.txt", "reserved by Windows"),
        ("Lpt1", "reserved by Windows"),
    ],
)
def test_f54_a_name_that_does_not_is_refused_in_words(name: str, message: str) -> None:
    error = name_error(name)
    assert message in error
    assert error.endswith(".")
    assert sanitize(error, 1000) == error


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(st.characters(codec="utf-8"), max_size=120))
def test_f54_every_name_is_refused_in_words_or_can_be_a_folder(tmp_path: Path, name: str) -> None:
    if not name_error(name):
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        assert name in os.listdir(tmp_path)


@pytest.mark.parametrize("name", ["a", "a/b", "..", "-x", 'it\'s "x" $(y) ; 🦔', "x" * 255])
def test_f54_a_jobs_name_may_be_nearly_anything(name: str) -> None:
    assert job_name_error(name) == ""


@pytest.mark.parametrize("name", ["", "  ", "a\nb", "a\x1b[31m", "\ud800", "x" * 256])
def test_f54_a_jobs_name_holds_no_control_characters(name: str) -> None:
    assert job_name_error(name).endswith(".")


@pytest.mark.parametrize("name", ["MY_SETTING", "_x", "A1"])
def test_f54_a_variable_with_a_plain_name_is_taken(name: str) -> None:
    assert variable_error(name) == ""


@pytest.mark.parametrize(
    "name",
    ["", "1A", "A B", "A=B", "Ä", "A;B", "OMPI_X", "RINGMASTER_RUN", "CUDA_VISIBLE_DEVICES", "A\n"],
)
def test_f54_a_variable_that_could_change_the_launch_is_not(name: str) -> None:
    assert variable_error(name).endswith(".")


@given(st.text() | st.binary().map(os.fsdecode), st.integers(1, 50))
def test_printable_text_has_no_control_characters_and_keeps_its_limit(
    text: str, limit: int
) -> None:
    safe_text = sanitize(text, limit)
    assert len(safe_text) <= limit
    assert not any(unicodedata.category(c).startswith("C") for c in safe_text)
