"""The file of the fixed samples stays small, and a damaged line costs only itself."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

from backend.records.jobs.prediction import Guess, PredictedSample
from backend.records.jobs.sample_history import (
    FixedSamples,
    SampleAnswer,
    SampleHistory,
    SampleValidation,
    is_recorded,
    is_right,
    line,
    read_samples,
)
from backend.records.library.preview import SamplePreview


def validation(step: int, name: str = "7") -> SampleValidation:
    return SampleValidation(step, step, (SampleAnswer((Guess(name, 0.9),)),))


SAMPLES = (PredictedSample(SamplePreview(3, (), "7"), ""),)


def test_a_million_epochs_have_few_lines_and_the_last_is_near() -> None:
    recorded = [epoch for epoch in range(1, 1_000_001) if is_recorded(epoch)]
    assert recorded[:200] == list(range(1, 201))
    assert len(recorded) < 1500
    assert all(b - a <= max(1, a / 100) for a, b in pairwise(recorded))


def test_half_a_line_costs_only_itself_and_a_repeated_step_replaces(tmp_path: Path) -> None:
    path = tmp_path / "samples.jsonl"
    lines = [
        line(validation(step, name)) for step, name in ((1, "7"), (2, "7"), (3, "7"), (2, "1"))
    ]
    other = b'\n{"step": 9, "epoch": 9, "answers": []}\n7\n[1, 2'
    path.write_bytes(
        line(FixedSamples(SAMPLES)) + lines[0] + lines[1][:20] + other + b"".join(lines[2:])
    )
    history = read_samples(path)
    assert history == SampleHistory(SAMPLES, (validation(1), validation(2, "1")))
    assert [is_right(history.at(n)[0]) for n in range(2)] == [True, False]
    assert read_samples(tmp_path / "missing") == SampleHistory()
