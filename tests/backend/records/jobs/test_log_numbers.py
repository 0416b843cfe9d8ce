"""A number that the user marks in a line is found in all lines like it."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.records.jobs.log_numbers import (
    invalid_pattern,
    is_name,
    number_spans,
    numbers_of,
    pattern_for,
)

LINES = (
    "loss: 0.5",
    "Train Epoch: 1 [640/60000 (1%)]\tLoss: 2.130201",
    "Epoch [3/10], Step [100/938], Loss: 0.1234",
    "epoch=3 acc 0.93 lr 1e-3",
    "0.5 loss",
    "100/938 [00:10<00:00, 9.3it/s, loss=-0.5]",
    "Test set: Average loss: 0.0571, Accuracy: 9815/10000 (98%)",
    "Epoch: [0][ 10/5005]\tTime  0.5 ( 0.7)\tLoss 6.9 (7.0)",
    "{'loss': 0.5, 'epoch': 0.1}",
    " * Acc@1 12.3 Acc@5 40.1",
    "Verlust: 3 (größer)",
)


@pytest.mark.parametrize("line", LINES)
def test_the_pattern_of_each_number_finds_it_in_its_line(line: str) -> None:
    spans = number_spans(line)
    assert spans
    for start, end in spans:
        pattern = pattern_for(line, start, end, "x")
        assert not invalid_pattern([pattern])
        assert numbers_of([pattern], line) == {"x": float(line[start:end])}


@pytest.mark.parametrize("line", [candidate for candidate in LINES if "oss" in candidate])
def test_the_pattern_of_a_loss_finds_the_next_one(line: str) -> None:
    start, end = (
        next(span for span in number_spans(line) if re.search(r"oss\W+$", line[: span[0]] or line))
        if not line.startswith("0.5")
        else (0, 3)
    )
    pattern = pattern_for(line, start, end, "loss")
    changed_line = line[:start] + "17.25e-3" + line[end:]
    assert numbers_of([pattern], changed_line) == {"loss": 0.01725}


@pytest.mark.parametrize(
    ("pattern", "is_right"),
    [
        ("loss: {loss}", True),
        ("Epoch {epoch}/{epochs} … acc={accuracy}", True),
        ("Step … {step}/", True),
        ("{loss}", False),
        ("{a} {b}", False),
        ("loss", False),
        ("…", False),
        ("", False),
        ("loss {0}", False),
    ],
)
def test_a_pattern_has_a_name_and_text_next_to_it(pattern: str, is_right: bool) -> None:
    assert bool(invalid_pattern([pattern])) != is_right


@given(st.text(min_size=1, max_size=60), st.text(max_size=300))
def test_no_text_of_a_user_is_an_expression(text: str, line: str) -> None:
    pattern = f"a{text}{{x}}"
    if not invalid_pattern([pattern]):
        numbers_of([pattern], line)
    for start, end in number_spans(line):
        pattern_for(line, start, end, "x")


def test_no_pattern_takes_endless_time() -> None:
    for pattern in ("a…a…a…a…a…{x}b", "a{x}…a{y}…a{z}b", "1{x}1{y}1"):
        for line in ("a" * 2000, "1" * 2000, "a1" * 1000):
            numbers_of([pattern], line)


@pytest.mark.parametrize(
    ("name", "is_right"),
    [
        ("loss", True),
        ("train/loss", True),
        ("_a.b-1", True),
        ("1a", False),
        ("a b", False),
        ("", False),
    ],
)
def test_a_name_is_that_of_a_curve(name: str, is_right: bool) -> None:
    assert is_name(name) == is_right
