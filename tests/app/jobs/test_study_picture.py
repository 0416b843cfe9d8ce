"""The plot of a study as a file, as the command line makes it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from app.jobs.study_picture import draw
from tests.pictures.screens.studies import epoch_time, split

ROOT = Path(__file__).parents[3]
_DRAW = """
import main
from tests.pictures.screens.studies import split
open("study.png", "wb").write(main.draw_study(split(), "png"))
"""


@pytest.mark.parametrize("table", [epoch_time, split])
@pytest.mark.parametrize(
    ("suffix", "magic"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")]
)
def test_a_study_is_drawn_in_each_format(qtbot, table, suffix, magic):
    assert draw(table(), suffix).startswith(magic)


def test_the_command_line_draws_without_a_display(tmp_path):
    environment = {k: v for k, v in os.environ.items() if k not in ("QT_QPA_PLATFORM", "DISPLAY")}
    environment["PYTHONPATH"] = str(ROOT)
    subprocess.run([sys.executable, "-c", _DRAW], cwd=tmp_path, env=environment, check=True)
    assert (tmp_path / "study.png").read_bytes().startswith(b"\x89PNG")
