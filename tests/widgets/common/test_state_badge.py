"""Twelve states, twelve outlines: they differ without colour and without a word."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from numpy.typing import NDArray
from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QImage, QPainter
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from backend.records.jobs.state import JobState
from tests.windows import add_widget, show_widget
from widgets.common import theme
from widgets.common.state_badge import (
    Logo,
    Mark,
    RankRing,
    StateBadge,
    StateGlyph,
    current_turn,
    is_animated,
    paint_gpu_cell,
    paint_rank_ring,
    paint_state,
    state_color_role,
)

Grey = NDArray[np.float64]


@pytest.fixture(autouse=True)
def calm(qapp: QApplication) -> Iterator[None]:
    theme.set_theme(theme.LIGHT)
    yield
    theme.set_theme(theme.LIGHT)
    theme.reduce_motion(False)


def painted(width: int, height: int, paint: Callable[[QPainter, QRectF], None]) -> QImage:
    image = QImage(width, height, QImage.Format.Format_ARGB32_Premultiplied)
    image.fill(Qt.GlobalColor.transparent)
    painter = QPainter(image)
    paint(painter, QRectF(0, 0, width, height))
    painter.end()
    return image


def grey(image: QImage) -> Grey:
    """Return the amount of ink of each pixel, of any hue."""
    alpha = image.convertToFormat(QImage.Format.Format_Alpha8)
    rows = np.frombuffer(alpha.constBits(), np.uint8).reshape(alpha.height(), -1)
    return rows[:, : alpha.width()] / 255.0


def glyph(state: JobState, size: int = 20, progress: float = 0.6) -> Grey:
    return grey(painted(size, size, lambda p, r: paint_state(p, r, state, progress)))


@pytest.mark.parametrize("size", [18, 20, 24])
def test_every_pair_of_states_differs_in_outline(size: int) -> None:
    glyphs = {state: glyph(state, size) for state in JobState}
    for a, b in itertools.combinations(JobState, 2):
        assert np.abs(glyphs[a] - glyphs[b]).sum() > 6, f"{a} looks like {b}"


def test_a_tick_is_cut_out_so_that_it_shows_on_every_ground() -> None:
    size = 40
    for state in (JobState.FINISHED, JobState.ERROR):
        ink = glyph(state, size)
        center = ink[12:28, 12:28]
        assert center.min() == 0
        assert center.max() == 1


def test_progress_is_seen_and_never_quite_nothing() -> None:
    ink = [glyph(JobState.TRAINING, 40, share).sum() for share in (0.0, 0.25, 0.5, 1.0)]
    assert ink == sorted(ink)
    assert ink[0] > glyph(JobState.STARTING, 40).sum() * 0.5


@pytest.mark.parametrize("state", JobState)
def test_the_badge_says_the_word_of_the_state_in_its_tone(qtbot: QtBot, state: JobState) -> None:
    badge = add_widget(qtbot, StateBadge(state, 0.5, "on gpu06"))
    assert badge.accessibleName() == f"{state.label} on gpu06"
    assert theme.current().hex(state_color_role(state)) == theme.current().hex(state.color_role)


def test_only_starting_and_setting_up_turn_and_only_while_seen(qtbot: QtBot) -> None:
    turning = add_widget(qtbot, StateGlyph(JobState.SETUP))
    assert not turning.is_turning()
    turning.show()
    assert turning.is_turning()
    turning.set_state(JobState.TRAINING, 0.1)
    assert not turning.is_turning()
    turning.set_state(JobState.STARTING)
    assert turning.is_turning()
    turning.hide()
    assert not turning.is_turning()


def test_no_badge_turns_with_reduced_motion(qtbot: QtBot) -> None:
    theme.reduce_motion(True)
    still = show_widget(qtbot, StateGlyph(JobState.SETUP))
    assert not still.is_turning()
    assert not is_animated(JobState.SETUP)
    assert current_turn() == 0.0
    theme.reduce_motion(False)
    assert is_animated(JobState.SETUP)
    assert 0 <= current_turn() < 1


def ring(ranks: list[Mark]) -> Grey:
    return grey(painted(96, 96, lambda p, r: paint_rank_ring(p, r, JobState.TRAINING, 0.5, ranks)))


def test_an_unhealthy_rank_is_thicker_not_only_amber() -> None:
    well: list[Mark] = [""] * 16
    unhealthy: list[Mark] = [*[""] * 11, "warn", *[""] * 4]
    assert ring(unhealthy).sum() > ring(well).sum() + 10


def test_a_ring_of_64_ranks_has_64_segments() -> None:
    ink = ring([""] * 64)
    angles = np.linspace(0, 2 * np.pi, 4096, endpoint=False)
    # Between the middle of the outer ring and its edge.
    x = np.round(47.5 + 45.5 * np.sin(angles)).astype(int)
    y = np.round(47.5 - 45.5 * np.cos(angles)).astype(int)
    lit = ink[y, x] > 0.5
    assert 56 <= int((np.diff(lit.astype(int)) == 1).sum()) <= 72


def test_the_ring_says_the_progress_and_how_many_ranks_need_attention(qtbot: QtBot) -> None:
    widget = add_widget(qtbot, RankRing(96))
    widget.set_progress(JobState.TRAINING, 0.649, ["", "warn", "", "bad"])
    assert widget.accessibleName() == "Training, 64 percent, 2 of 4 ranks need attention"
    widget.set_progress(JobState.FINISHED, 1.0)
    assert widget.accessibleName() == "Finished, 100 percent"
    assert not widget.grab().isNull()


def cell(use: str, unhealthy: bool = False) -> NDArray[np.float64]:
    """A cell on white paper, as a grey print has it."""
    image = QImage(44, 22, QImage.Format.Format_RGB32)
    image.fill(theme.LIGHT.q("surface"))
    painter = QPainter(image)
    paint_gpu_cell(painter, QRectF(0, 0, 44, 22), use, is_unhealthy=unhealthy)  # type: ignore[arg-type]
    painter.end()
    print_ = image.convertToFormat(QImage.Format.Format_Grayscale8)
    rows = np.frombuffer(print_.constBits(), np.uint8).reshape(22, -1)
    return rows[:, :44] / 255.0


def test_gpu_cells_differ_in_a_grey_print() -> None:
    kinds = [("ours", False), ("other", False), ("free", False), ("chosen", False), ("gone", False)]
    cells = {kind: cell(*kind) for kind in [*kinds, ("ours", True)]}
    for a, b in itertools.combinations(cells, 2):
        assert np.abs(cells[a] - cells[b]).mean() > 0.02, f"{a} looks like {b}"


def test_an_unhealthy_gpu_has_a_hole() -> None:
    unhealthy = cell("ours", unhealthy=True)
    assert unhealthy[11, 22] > 0.9
    assert unhealthy[11, 6] < 0.7


def test_the_mark_is_painted(qtbot: QtBot) -> None:
    logo = add_widget(qtbot, Logo())
    assert not logo.grab().isNull()


def test_the_sentence_keeps_its_place_while_a_run_changes_its_word(qtbot: QtBot) -> None:
    badge = StateBadge()
    badge.resize(500, 24)
    show_widget(qtbot, badge)
    positions = set()
    for state in filter(lambda s: s.is_live, JobState):
        badge.set_state(state, 0.5, "2 processes on this computer")
        QApplication.processEvents()
        positions.add(badge._details.x())
    assert len(positions) == 1
