"""The plot: what is in view, what a pointer reads, what can be taken along."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PySide6.QtCore import QEvent, QPoint, QPointF, QRect, QRectF, Qt
from PySide6.QtGui import QImage, QWheelEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QWidget
from pytestqt.qtbot import QtBot

from tests.windows import add_widget, find_only, show_widget
from widgets.common import formats, theme
from widgets.common.theme_manager import ThemeChoice, ThemeManager
from widgets.plots.annotation_layer import CurveEnds
from widgets.plots.annotations import AxisSpan, Boundary, ThresholdLine, VerticalMarker, curve_pen
from widgets.plots.cursor_readout import HoverLink
from widgets.plots.curve_data import CurveData, XAxis
from widgets.plots.curve_panel import CurvePanel
from widgets.plots.end_labels import CurveEnd, name_rects, name_span
from widgets.plots.growable_array import Floats
from widgets.plots.plot_view import PlotView
from widgets.plots.sparkline import Sparkline

ROOT = Path(__file__).resolve().parents[3]
BLUE, ORANGE = theme.LIGHT.curves[:2]


pytestmark = pytest.mark.usefixtures("theme_manager")


@pytest.fixture
def link() -> HoverLink:
    return HoverLink()


@pytest.fixture
def panel(qtbot: QtBot, link: HoverLink) -> CurvePanel:
    panel = show_widget(qtbot, CurvePanel("Loss", link=link), 700, 300)
    settle()
    return panel


def settle() -> None:
    for _ in range(3):
        QApplication.processEvents()


def curve(values: Floats | list[float], first_step: int = 0) -> CurveData:
    data = CurveData()
    steps = np.arange(first_step, first_step + len(values), dtype=float)
    data.extend(steps, values, steps / 100, 1.7e9 + steps)
    return data


def loss(count: int = 2000) -> Floats:
    rng = np.random.default_rng(1)
    return 0.4 + 2 * np.exp(-np.arange(count) / (count * 0.13)) + rng.normal(0, 0.05, count)


def pixels(panel: CurvePanel, colour: str) -> int:
    """Return the number of pixels of the plot with exactly this colour."""
    settle()
    image = panel.grab().toImage().convertToFormat(QImage.Format.Format_RGB32)
    rows = np.frombuffer(image.constBits(), np.uint32).reshape(image.height(), -1)
    return int((rows & 0xFFFFFF == int(colour[1:], 16)).sum())


def viewport(panel: CurvePanel) -> QWidget:
    """Return the widget that receives the mouse."""
    view: QWidget = find_only(PlotView, panel).viewport()
    return view


def wheel(widget: QWidget, position: QPointF, turns: int) -> None:
    event = QWheelEvent(
        *(position, widget.mapToGlobal(position), QPoint(0, 0), QPoint(0, 120 * turns)),
        *(Qt.MouseButton.NoButton, Qt.KeyboardModifier.NoModifier),
        *(Qt.ScrollPhase.NoScrollPhase, False),
    )
    QApplication.sendEvent(widget, event)
    settle()


# What is in view


def test_all_present_and_later_points_are_in_view(panel: CurvePanel) -> None:
    data = curve(loss(1000))
    panel.set_curve("train", "train", data)
    low, high = panel.x_range()
    assert low == 0
    assert 999 < high < 1400  # room for "train 0.412" beyond the last point
    data.extend(np.arange(1000.0, 3000.0), np.full(2000, 7.0))
    panel.refresh()
    assert panel.x_range()[1] > 2999
    assert panel.y_range()[1] > 7


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 1e30, -1e30, 1e308])
def test_m13_a_diverging_curve_does_not_blank_the_plot(panel: CurvePanel, bad: float) -> None:
    values = loss()
    values[700:710] = bad
    panel.set_curve("train", "train", curve(values))
    panel.set_smoothing(0.6)
    low, high = panel.y_range()
    assert -1 < low < 0.5
    assert 2 < high < 4
    assert pixels(panel, BLUE) > 300


def test_m13_a_plot_of_nothing_but_nan_says_nothing_wrong(panel: CurvePanel) -> None:
    panel.set_curve("train", "train", curve([math.nan] * 50))
    panel.set_smoothing(0.6)
    panel.set_log_y(True)
    assert pixels(panel, BLUE) == 0


def test_m13_the_first_points_are_in_view(panel: CurvePanel) -> None:
    values = loss(100_000)
    values[:3] = 300.0
    panel.set_curve("train", "train", curve(values))
    assert panel.y_range()[1] >= 300


def test_m13_smoothing_keeps_the_raw_trace_behind(panel: CurvePanel) -> None:
    panel.set_curve("train", "train", curve(loss()))
    panel.set_smoothing(0.95)
    raw = theme.LIGHT.curve(0, 0.28)
    # The colour that the raw trace has on the ground of the plot.
    with_raw = panel.grab().toImage()
    panel.set_curve("train", "train", curve(loss()), with_raw=False)
    settle()
    without = panel.grab().toImage()
    assert with_raw != without
    assert raw.alphaF() == pytest.approx(0.28, abs=0.01)


def test_m13_a_logarithmic_axis_spans_powers_of_ten(panel: CurvePanel) -> None:
    panel.set_curve("lr", "rate", curve(np.logspace(-5, -1, 500)))
    panel.set_log_y(True)
    low, high = panel.y_range()
    assert low == pytest.approx(-5, abs=0.6)
    assert high == pytest.approx(-1, abs=0.6)
    assert pixels(panel, BLUE) > 200


def test_on_a_logarithmic_axis_a_value_is_where_its_tick_is(panel: CurvePanel) -> None:
    panel.set_curve("a", "a", curve([10.0] * 500), 0, with_label=False)
    flat = pixels(panel, BLUE)
    panel.set_log_y(True)
    low, high = panel.y_range()
    assert low < 1 < high
    assert pixels(panel, BLUE) == pytest.approx(flat, rel=0.1)


def test_a_smooth_curve_of_many_points_is_as_thick_as_one_of_few(panel: CurvePanel) -> None:
    """A learning rate of a million steps is a line; what trembles is a band of hairlines."""
    inks = []
    for count in (200, 20_000):
        points = curve(np.linspace(1, 0, count))
        panel.set_curve("rate", "rate", points, smooth=False, fill=True)
        settle()
        column_image = panel.grab(QRect(300, 20, 1, 240)).toImage()
        background = column_image.pixelColor(0, 0).lightness()
        shades = [column_image.pixelColor(0, y).lightness() for y in range(column_image.height())]
        inks.append(sum(abs(shade - background) > 40 for shade in shades))
    assert inks[1] >= inks[0] >= 2


def test_the_highest_figure_of_the_axis_is_written(panel: CurvePanel) -> None:
    """Its line is in view, by two pixels; its figure reaches above the plot."""
    panel.resize(300, 130)
    panel.set_curve("mAP", "mAP", curve(np.linspace(0.03, 0.374, 30)))
    settle()
    assert 0.4 < panel.y_range()[1] < 0.42
    corner = panel.grab(QRect(8, 3, 18, 12)).toImage()
    colours = {corner.pixel(x, y) for x in range(corner.width()) for y in range(corner.height())}
    assert len(colours) > 4


def test_a_gap_is_drawn_as_a_gap(panel: CurvePanel) -> None:
    values = np.full(1000, 1.0)
    panel.set_curve("train", "train", curve(values), with_label=False)
    pixel_count = pixels(panel, BLUE)
    values[250:750] = math.nan
    panel.set_curve("train", "train", curve(values), with_label=False)
    assert pixels(panel, BLUE) == pytest.approx(pixel_count / 2, rel=0.1)


def test_a_resumed_run_replaces_its_repeated_steps(panel: CurvePanel) -> None:
    data = curve(np.full(1000, 1.0))
    panel.set_curve("train", "train", data)
    data.extend(np.arange(400.0, 500.0), np.full(100, 2.0))
    panel.refresh()
    assert panel.x_range()[1] < 700
    sample = data.last_point()
    assert sample is not None
    assert (sample.step, sample.raw) == (499, 2.0)


@pytest.mark.parametrize("axis", XAxis)
def test_every_axis_shows_the_same_curve(panel: CurvePanel, axis: XAxis) -> None:
    panel.set_curve("train", "train", curve(loss()))
    previous_count = pixels(panel, BLUE)
    panel.set_axis(axis)
    assert panel.axis is axis
    assert pixels(panel, BLUE) == pytest.approx(previous_count, rel=0.2)


def test_a_curve_that_goes_takes_its_line_along(panel: CurvePanel) -> None:
    panel.set_curve("a", "a", curve(loss()), 0)
    panel.set_curve("b", "b", curve(loss() + 1), 1)
    assert pixels(panel, ORANGE) > 100
    panel.remove_curve("b")
    assert pixels(panel, ORANGE) == 0
    assert tuple(panel.curves) == ("a",)
    panel.clear()
    assert pixels(panel, BLUE) == 0


def test_a_lifted_curve_dims_the_others(panel: CurvePanel) -> None:
    panel.set_curve("a", "a", curve(loss()), 0)
    panel.set_curve("b", "b", curve(loss() + 1), 1)
    panel.highlight("b")
    assert pixels(panel, BLUE) == 0
    assert pixels(panel, ORANGE) > 100
    panel.highlight("")
    assert pixels(panel, BLUE) > 100


def test_a_curve_added_after_the_request_is_lifted(panel: CurvePanel) -> None:
    panel.set_curve("a", "a", curve(loss()), 0)
    panel.highlight("b")
    assert pixels(panel, BLUE) > 100
    panel.set_curve("b", "b", curve(loss() + 1), 1)
    assert pixels(panel, BLUE) == 0
    assert pixels(panel, ORANGE) > 100


def test_other_curves_return_to_full_colour_without_the_lifted_one(panel: CurvePanel) -> None:
    panel.set_curve("a", "a", curve(loss()), 0)
    panel.set_curve("b", "b", curve(loss() + 1), 1)
    panel.highlight("b")
    panel.remove_curve("b")
    assert pixels(panel, BLUE) > 100


def test_marks_stand_where_they_belong(panel: CurvePanel) -> None:
    panel.set_curve("train", "train", curve(np.full(1000, 1.0)))
    assert pixels(panel, theme.LIGHT.bad) == 0
    panel.set_marks(
        vertical_markers=[VerticalMarker(900, "failed here"), VerticalMarker(5000, "out of view")],
        boundaries=[Boundary(500, 2)],
        spans=[AxisSpan(100, 300, text="slowed by heat")],
        thresholds=[ThresholdLine(1.001, "limit", "warn")],
    )
    assert pixels(panel, theme.LIGHT.bad) > 100
    assert pixels(panel, theme.LIGHT.line_strong) > 100
    panel.set_marks(vertical_markers=[])
    assert pixels(panel, theme.LIGHT.bad) == 0


def test_the_name_of_a_curve_stands_clear_of_a_post_beside_its_end(panel: CurvePanel) -> None:
    """A validation ends some steps before the run failed; its name began on the post."""
    panel.set_curve("validation", "validation", curve(np.full(980, 1.0)), 1, smooth=False)
    panel.set_marks(vertical_markers=[VerticalMarker(999, "failed here")])
    settle()
    frame, [drawn_curve] = find_only(PlotView, panel).frame(), panel.curves.values()
    assert drawn_curve.last_point is not None
    end_point = frame.point(drawn_curve.last_point.step, 1.0)
    label_x = frame.px(panel.marks.label_x(drawn_curve.last_point.step, 100))
    assert label_x == frame.px(999)
    text = "validation 1.00"
    left_x, right_x = name_span(
        frame, CurveEnd(end_point, text, theme.LIGHT.q("bad"), min_x=label_x)
    )
    assert left_x > frame.px(999)
    assert right_x <= frame.rect.right() + 1, "there is room for it, so it need not go left"
    assert panel.marks.label_x(drawn_curve.last_point.step, 10) == drawn_curve.last_point.step, (
        "the next one is distant"
    )


def name_rect(panel: CurvePanel) -> QRectF:
    """Where the name of the only curve is written."""
    frame = find_only(PlotView, panel).frame()
    curve_ends = CurveEnds(panel._mapping, True, "", panel._end_text, panel.marks)
    [curve_end] = curve_ends.curve_ends(frame, panel.curves.items())
    [rect] = name_rects(frame, [curve_end])
    return rect


def test_a_fixed_stretch_leaves_room_for_the_names(panel: CurvePanel) -> None:
    panel.set_curve("gpu", "GPU 3, rank 11", curve(np.full(1000, 1.0)), 0)
    panel.set_fixed_x(0, 1001)
    settle()
    assert panel.x_range()[0] == 0
    assert name_rect(panel).left() > find_only(PlotView, panel).frame().px(1000)


@pytest.mark.parametrize("zoomed", [False, True])
@pytest.mark.parametrize("limit", [0.95, 0.98, 1.0, 1.02])
def test_a_name_stands_clear_of_the_line_of_a_threshold(
    panel: CurvePanel, limit: float, zoomed: bool
) -> None:
    panel.set_curve("gpu", "GPU 3, rank 11", curve(np.linspace(0.0, 1.0, 1000)), 0, smooth=False)
    panel.set_marks(thresholds=[ThresholdLine(limit, "hot")])
    if zoomed:
        panel.set_x_range(0, 1000)
    settle()
    threshold_y = find_only(PlotView, panel).frame().py(limit)
    rect = name_rect(panel)
    assert not rect.top() + 1 < threshold_y < rect.bottom() - 1


def test_a_name_that_has_to_stand_left_of_its_point_does_not_hide_its_own_curve(
    panel: CurvePanel,
) -> None:
    panel.set_curve("gpu", "GPU 3, rank 11", curve(np.full(1000, 1.0)), 0)
    panel.set_x_range(0, 1000)
    settle()
    image = panel.grab().toImage()
    frame = find_only(PlotView, panel).frame()
    height = round(frame.py(1.0)) + find_only(PlotView, panel).y()
    blue = sum(
        image.pixelColor(round(frame.px(x)) + find_only(PlotView, panel).x(), height).name()
        == BLUE.lower()
        for x in range(700, 960, 10)
    )
    assert blue > 20


def test_a_dark_window_has_dark_curves(panel: CurvePanel, theme_manager: ThemeManager) -> None:
    panel.set_curve("train", "train", curve(loss()))
    assert pixels(panel, theme.DARK.curves[0]) == 0
    theme_manager.choose(ThemeChoice.DARK)
    assert pixels(panel, theme.DARK.curves[0]) > 100


# Zoom, pan, fit


def test_the_wheel_zooms_x_around_the_pointer_and_double_click_fits(
    qtbot: QtBot, panel: CurvePanel
) -> None:
    panel.set_curve("train", "train", curve(loss()))
    full_range = panel.x_range()
    view = viewport(panel)
    with qtbot.waitSignal(panel.x_range_changed) as zoomed:
        wheel(view, QPointF(350, 150), 3)
    low, high = panel.x_range()
    assert (low, high) == tuple(zoomed.args)
    assert full_range[0] < low < high < full_range[1]
    assert not panel.is_fitted
    with qtbot.waitSignal(panel.fit_requested):
        QTest.mouseDClick(view, Qt.MouseButton.LeftButton, pos=QPoint(350, 150))
    assert panel.x_range() == full_range


def test_zooming_out_ends_at_the_whole_curve(panel: CurvePanel) -> None:
    panel.set_curve("train", "train", curve(loss()))
    full_range = panel.x_range()
    view = viewport(panel)
    wheel(view, QPointF(350, 150), 3)
    wheel(view, QPointF(350, 150), -30)
    assert panel.x_range() == full_range
    assert panel.is_fitted


def test_new_points_do_not_move_a_zoomed_plot(panel: CurvePanel) -> None:
    data = curve(loss())
    panel.set_curve("train", "train", data)
    panel.set_x_range(100, 200)
    data.append(5000, 0.1)
    panel.refresh()
    assert panel.x_range() == (100, 200)
    panel.fit()
    assert panel.x_range()[1] > 5000


# The pointer


def test_the_pointer_is_on_all_plots_of_the_page(
    qtbot: QtBot, panel: CurvePanel, link: HoverLink
) -> None:
    other_panel = show_widget(qtbot, CurvePanel("mAP", link=link), 300, 200)
    for p in (panel, other_panel):
        p.set_curve("a", "a", curve(loss()))
    settle()
    calm = other_panel.grab().toImage()
    view = viewport(panel)
    with qtbot.waitSignal(link.pointer_moved) as signal:
        QTest.mouseMove(view, QPoint(300, 150))
    assert 0 < signal.args[0] < 2000
    settle()
    assert other_panel.grab().toImage() != calm
    with qtbot.waitSignal(link.pointer_left):
        QApplication.sendEvent(view, QEvent(QEvent.Type.Leave))
    settle()
    assert other_panel.grab().toImage() == calm
    assert link.x is None


def test_the_read_out_shows_every_curve_at_the_pointer(panel: CurvePanel, link: HoverLink) -> None:
    panel.set_curve("train", "train", curve([3.0, 2.0, 1.0]), 0)
    panel.set_curve("val", "validation", curve([2.5], first_step=1), 1, smooth=False)
    panel.set_smoothing(0.5)
    rows, title = panel.readout(1.2)
    assert [row[:2] for row in rows] == [
        ("train, smoothed", "2.33"),
        ("train, raw", "2.00"),
    ]
    rows, title = panel.readout(1.0)
    assert rows[-1] == ("validation", "2.50")
    assert title.startswith("step 1 · epoch 0.01 · ")


def test_from_the_fifth_on_curves_are_dashed_for_grey_prints() -> None:
    solid = [curve_pen(i, 2).style() is Qt.PenStyle.SolidLine for i in range(9)]
    assert solid == [True] * 4 + [False] * 4 + [True]  # the ninth is grey


# To take along


def test_nine_curves_have_a_legend_that_fits(panel: CurvePanel) -> None:
    for i in range(9):
        panel.set_curve(str(i), f"retinanet-r50 · run {i}", curve(loss(500 + i)), i)
    panel.resize(320, 260)
    settle()
    assert not panel.grab().isNull()
    assert len(panel.curves) == 9


def test_a_sparkline_is_drawn_with_its_gaps(qtbot: QtBot) -> None:
    spark = add_widget(qtbot, Sparkline("Use of GPU 3", low=0, high=100), 120, 28)
    for values in ([], [5.0], [1.0, math.nan, 90.0, 95.0, math.inf], [math.nan] * 5):
        spark.set_values(values)
        assert not spark.grab().isNull()


# Speed


_DELETION_SCRIPT = """
from PySide6.QtCore import QCoreApplication, QEvent
from PySide6.QtWidgets import QApplication
from widgets.plots.curve_panel import CurvePanel
app = QApplication([])
panel = CurvePanel("loss")
panel.show()
panel.activateWindow()
panel.setFocus()
app.processEvents()
assert panel.hasFocus()
panel.deleteLater()
QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
"""


def test_a_plot_with_the_focus_can_be_removed() -> None:
    """In a process of its own: it would end this one."""
    environment = {**os.environ, "QT_QPA_PLATFORM": "offscreen"}
    done = subprocess.run(
        [sys.executable, "-c", _DELETION_SCRIPT], cwd=ROOT, env=environment, check=False
    )
    assert done.returncode == 0


def test_a_sentence_names_the_value_that_the_plot_leaves_out(panel: CurvePanel) -> None:
    values = [2.0 - n / 100 for n in range(100)]
    values[40] = 11_600.0
    panel.set_curve("loss", "train", curve(values))
    assert panel.y_range()[1] < 10
    assert panel.hidden_values_message() == (
        f"Values up to {formats.metric(11_600)} are at the arrows; log y shows them."
    )
    panel.set_log_y(True)
    assert panel.hidden_values_message() == ""
