"""What a program prints is on its curves: each value under its name, at its step."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.training.log_reader import LogReader
from backend.training.script_metrics import Point, ScriptMetrics

LOGS = tomllib.loads((Path(__file__).parents[2] / "data/logs/programs.toml").read_text("utf-8"))[
    "log"
]
Curves = dict[str, dict[int, float]]


def curves_of(folder: Path, pieces: list[str]) -> Curves:
    """Return the curves of a log that grows by ``pieces``, as a reader of the points draws them."""
    log = folder / "rank-0.log"
    log.touch()
    (folder / "output").mkdir()
    metrics = ScriptMetrics(log, 0, [folder / "output"], folder)
    points: list[Point] = []
    for index, piece in enumerate([*pieces, ""]):
        with log.open("a", encoding="utf-8", newline="") as file:
            file.write(piece)
        points += metrics.poll(is_over=index == len(pieces))
    curves: Curves = {}
    for point in points:
        # A point of an earlier step replaces those from there on.
        start = 0 if point.is_restart else point.step
        curves = {
            name: {step: value for step, value in curve.items() if step < start}
            for name, curve in curves.items()
        }
        for name, value in point.metrics.items():
            curves.setdefault(name, {})[point.step] = value
    return {name: curve for name, curve in curves.items() if curve}


@pytest.mark.parametrize("log", LOGS, ids=[log["program"] for log in LOGS])
def test_the_values_that_a_program_prints_are_its_curves(
    tmp_path: Path, log: dict[str, Any]
) -> None:
    expected_curves = {name: dict(map(tuple, points)) for name, points in log["curves"].items()}
    curves = curves_of(tmp_path, [log["text"]])
    assert {name: curves.get(name) for name in expected_curves} == expected_curves


@pytest.mark.parametrize("log", LOGS, ids=[log["program"] for log in LOGS])
def test_the_curves_do_not_depend_on_when_a_log_is_read(
    tmp_path: Path, log: dict[str, Any]
) -> None:
    lines = log["text"].splitlines(keepends=True)
    for name in ("whole", "lines"):
        (tmp_path / name).mkdir()
    assert curves_of(tmp_path / "lines", lines) == curves_of(tmp_path / "whole", [log["text"]])


@given(st.lists(st.text(max_size=200), max_size=5))
def test_no_text_stops_the_reader(lines: list[str]) -> None:
    reader = LogReader()
    for line in lines:
        assert all(isinstance(row, dict) for row in reader.rows(line))
    assert all(isinstance(row, dict) for row in reader.end())
