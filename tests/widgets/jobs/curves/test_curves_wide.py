"""In a wide window the curves stand in two columns, and the visible part stays in sight."""

from __future__ import annotations

import numpy as np
import pytest
from PySide6.QtCore import QPoint
from PySide6.QtWidgets import QApplication, QWidget
from pytestqt.qtbot import QtBot

from backend.records.jobs.history import HistoryUpdate
from tests.widgets.jobs.curves.test_curves_tab import small_plots
from tests.windows import find_only
from widgets.common.cards import VerticalScrollArea
from widgets.common.theme_manager import ThemeManager
from widgets.jobs.actions.job_actions import JobActions
from widgets.jobs.curves.curves_layout import WIDE_FROM_W, LargePlot
from widgets.jobs.curves.curves_tab import CurvesTab

ONE_COLUMN_W, TWO = WIDE_FROM_W - 10, WIDE_FROM_W


@pytest.fixture
def tab(qtbot: QtBot, theme_manager: ThemeManager) -> CurvesTab:
    tab = CurvesTab(JobActions())
    qtbot.addWidget(tab)
    tab.resize(ONE_COLUMN_W, 460)
    tab.show()
    steps = np.arange(1, 50)
    names = ("loss", "accuracy", "learning_rate", "gradient_norm", "recall", "samples_per_second")
    tab.append(HistoryUpdate(steps, steps, steps, dict.fromkeys(names, 1 / steps), (), 0))
    return tab


def widen(tab: CurvesTab, width: int) -> None:
    tab.resize(width, tab.height())
    QApplication.processEvents()


def position(tab: CurvesTab, part: QWidget) -> QPoint:
    """Of a part in what is seen of the tab."""
    return part.mapTo(find_only(VerticalScrollArea, tab).viewport(), QPoint(0, 0))


def test_small_plots_have_a_column_of_their_own_only_where_there_is_room(tab: CurvesTab) -> None:
    small_plot = small_plots(tab)["Accuracy"]
    assert (
        position(tab, small_plot).y()
        > position(tab, find_only(LargePlot, tab)).y() + find_only(LargePlot, tab).height()
    )
    widen(tab, TWO)
    assert (
        position(tab, small_plot).x()
        > position(tab, find_only(LargePlot, tab)).x() + find_only(LargePlot, tab).width()
    )
    assert position(tab, small_plot).y() < position(tab, find_only(LargePlot, tab)).y()
    assert position(tab, small_plots(tab)["Learning rate"]).x() > position(tab, small_plot).x()
    widen(tab, ONE_COLUMN_W)
    assert (
        position(tab, small_plot).y()
        > position(tab, find_only(LargePlot, tab)).y() + find_only(LargePlot, tab).height()
    )


def test_the_visible_plot_keeps_its_place_when_the_width_crosses_the_limit(tab: CurvesTab) -> None:
    bar = find_only(VerticalScrollArea, tab).verticalScrollBar()
    assert bar.maximum() > 80
    bar.setValue(60)
    loss = position(tab, find_only(LargePlot, tab)).y()
    widen(tab, TWO)
    assert position(tab, find_only(LargePlot, tab)).y() == loss
    widen(tab, ONE_COLUMN_W)
    assert position(tab, find_only(LargePlot, tab)).y() == loss


def test_a_plot_at_the_bottom_is_still_seen_in_two_columns(tab: CurvesTab) -> None:
    bar = find_only(VerticalScrollArea, tab).verticalScrollBar()
    bar.setValue(bar.maximum())
    last_plot = list(small_plots(tab).values())[-1]
    assert (
        0
        <= position(tab, last_plot).y() + last_plot.height()
        <= find_only(VerticalScrollArea, tab).viewport().height()
    )
    widen(tab, TWO)
    plot_position = position(tab, last_plot)
    assert plot_position.y() + last_plot.height() > 0
    assert plot_position.y() < find_only(VerticalScrollArea, tab).viewport().height()


def test_another_job_with_fewer_metrics_is_laid_out_again(tab: CurvesTab) -> None:
    widen(tab, TWO)
    tab.clear("other")
    steps = np.arange(1, 9)
    tab.append(HistoryUpdate(steps, steps, steps, {"loss": 1 / steps, "recall": steps}, (), 0))
    QApplication.processEvents()
    assert list(small_plots(tab)) == ["Recall"]
