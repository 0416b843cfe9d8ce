"""What other programs use of the processors is distinguished from what a run uses itself."""

from __future__ import annotations

import subprocess
import sys

import pytest

from backend.node.metrics import other_programs
from backend.node.metrics.other_programs import OtherPrograms


@pytest.mark.parametrize(
    ("elapsed_s", "busy", "own_s", "share"),
    [
        (100.0, 50.0, 50.0, 0.0),
        (100.0, 90.0, 10.0, 0.8),
        (100.0, 40.0, 41.0, 0.0),
        (100.0, 101.0, 0.0, 1.0),
        (8.0, 2.0, 0.0, 0.25),
        (0.0, 0.0, 0.0, None),
    ],
)
def test_the_share_of_other_programs_excludes_the_run(
    monkeypatch: pytest.MonkeyPatch,
    elapsed_s: float,
    busy: float,
    own_s: float,
    share: float | None,
) -> None:
    readings = iter([(1000.0, 300.0, 7.0), (1000.0 + elapsed_s, 300.0 + busy, 7.0 + own_s)])
    monkeypatch.setattr(other_programs, "_read", lambda: next(readings))
    assert OtherPrograms().share() == share


def test_an_ended_child_s_time_is_the_run_s_own() -> None:
    previous_times = other_programs._read()
    busy = "import os\nwhile sum(os.times()[:2]) < 0.5: pass"
    subprocess.run([sys.executable, "-S", "-c", busy], check=True)
    assert other_programs._read()[2] - previous_times[2] >= 0.5
