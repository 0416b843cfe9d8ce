"""Every screen and state of the window: it can be drawn, and nothing in it is cut or blank."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest
from PySide6.QtWidgets import QHBoxLayout, QLabel, QScrollArea, QWidget
from pytestqt.qtbot import QtBot

from tests.pictures.camera import open_screen
from tests.pictures.flaws import flaws, is_blank
from tests.pictures.gallery import SCREENS
from widgets.common.labels import Label
from widgets.common.layout import col
from widgets.common.theme_manager import ThemeManager
from widgets.plots.curve_panel import CurvePanel
from widgets.plots.image_export import PictureButton

ROOT = Path(__file__).resolve().parents[2]


def mark_slow(screens: Iterable[str]) -> list[object]:
    """All of them; every twelfth, some of each page, is in the fast tier, too."""
    return [
        name if number % 12 == 0 else pytest.param(name, marks=pytest.mark.slow)
        for number, name in enumerate(screens)
    ]


@pytest.mark.parametrize("name", mark_slow(SCREENS))
def test_nothing_is_cut_overlaps_or_is_blank(name: str, theme_manager: ThemeManager) -> None:
    """A window without a dialog is resized from size to size, as a user does it."""
    screen = SCREENS[name]
    found_flaws: list[str] = []
    sizes = list(screen.sizes)
    while sizes:
        with open_screen(screen, sizes[0]) as stage:
            assert not is_blank(stage.picture()), f"{name} is blank"
            while sizes:
                size = sizes.pop(0)
                stage.window.resize(*size)
                stage.settle()
                found_flaws += [f"{size}: {flaw}" for flaw in stage.flaws()]
                if stage.overlay is not None:
                    break
    assert found_flaws == []


@pytest.mark.slow
def test_at_150_percent_nothing_is_cut_either(tmp_path: Path) -> None:
    """In a process of its own: the scale is read once."""
    screen_names = ("failed", "preflight")
    options = [argument for name in screen_names for argument in ("--only", name)]
    command = [sys.executable, "-m", "tests.pictures", str(tmp_path), "--scale", "150"]
    completed = subprocess.run(
        [*command, "--theme", "dark", *options],
        cwd=ROOT, env={**os.environ, "QT_QPA_PLATFORM": "offscreen"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (completed.returncode, completed.stdout) == (0, "")
    assert (tmp_path / "150" / "failed-1000x640-dark.png").stat().st_size > 20_000
    assert list((tmp_path / "sheets").glob("150-1440x900-dark-*.png"))


@pytest.fixture
def page(qtbot: QtBot, theme_manager: ThemeManager) -> QWidget:
    page = QWidget()
    qtbot.addWidget(page)
    page.resize(200, 100)
    return page


def test_a_label_that_is_cut_is_found_and_one_that_ends_in_an_ellipsis_is_not(
    page: QWidget,
) -> None:
    cut_label, elided_label = (
        Label("a name that is too long for it"),
        Label("a name too long", elide="right"),
    )
    for label in (cut_label, elided_label):
        label.setFixedWidth(60)
    page.setLayout(col(cut_label, elided_label))
    page.show()
    assert [flaw.split("”")[0] for flaw in flaws(page)] == ["Label “a name that is too long for it"]


def test_a_sentence_without_room_for_its_second_line_is_found(page: QWidget) -> None:
    label = QLabel("a sentence that needs more than the one line it has got here", page)
    label.setWordWrap(True)
    label.setGeometry(0, 0, 150, 18)
    page.show()
    assert "of height" in next(flaws(page))


def test_parts_on_top_of_each_other_and_outside_are_found(page: QWidget) -> None:
    first_widget, second_widget = QWidget(), QWidget()
    layout = QHBoxLayout(page)
    for widget in (first_widget, second_widget):
        layout.addWidget(widget)
    page.show()
    second_widget.setGeometry(first_widget.geometry().translated(20, 0))
    assert "overlap" in next(flaws(page))
    second_widget.setGeometry(page.rect().translated(150, 0))
    assert "sticks out" in next(flaws(page))


def test_a_plot_without_a_button_that_takes_it_along_is_found(page: QWidget) -> None:
    page.resize(600, 600)
    plot, plot_without_button = CurvePanel("Loss"), CurvePanel("mAP")
    with_button = QWidget()
    with_button.setLayout(col(PictureButton("Loss", lambda: plot), plot))
    without_button = QWidget()
    without_button.setLayout(col(plot_without_button))
    page.setLayout(col(with_button, without_button))
    page.show()
    assert list(flaws(page)) == ["CurvePanel “mAP” cannot be taken along as a picture"]


def test_a_page_that_would_scroll_sideways_is_found(page: QWidget) -> None:
    area, wide_widget = QScrollArea(page), QWidget()
    wide_widget.setMinimumWidth(500)
    area.setWidget(wide_widget)
    area.resize(150, 80)
    page.show()
    assert any("sideways" in flaw for flaw in flaws(page))
