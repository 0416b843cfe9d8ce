"""Logarithmic axes, what they cannot show, and what a plot never hides: outliers and no numbers."""

from __future__ import annotations

import math

import numpy as np
import pytest
from PySide6.QtCore import QPoint, QPointF, QRect, QRectF
from PySide6.QtGui import QImage
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from tests.widgets.plots.test_curve_panel import curve, loss, pixels, settle, viewport, wheel
from tests.windows import add_widget, find_only, show_widget
from widgets.common import theme
from widgets.common.formats import THIN
from widgets.plots import ticks
from widgets.plots.annotation_layer import CurveEnds
from widgets.plots.annotations import AxisSpan, Boundary, VerticalMarker, text_width
from widgets.plots.axis_choice import ScaleButton
from widgets.plots.cursor_readout import HoverLink
from widgets.plots.curve_data import CurveData, GapReason, XAxis
from widgets.plots.curve_panel import CurvePanel
from widgets.plots.plot_view import PlotView

pytestmark = pytest.mark.usefixtures("theme_manager")
MILLION = 1_000_000


@pytest.fixture
def panel(qtbot: QtBot) -> CurvePanel:
    panel = show_widget(qtbot, CurvePanel("Loss"), 700, 300)
    settle()
    return panel


def long(values: np.ndarray) -> CurveData:
    data = CurveData()
    data.extend(np.arange(1.0, len(values) + 1), values)
    return data


# Logarithmic x


@pytest.mark.parametrize("step", [1, 7, 900, 40_000, 999_999])
@pytest.mark.parametrize("smoothing", [0.0, 0.6])
def test_on_a_logarithmic_axis_a_spike_one_point_wide_is_where_it_happened(
    step: int, smoothing: float
) -> None:
    values = np.full(MILLION, 1.0)
    values[step - 1] = 50.0
    data = long(values)
    data.set_smoothing(smoothing)
    x, y = data.columns(XAxis.STEP, 0.0, 6.0, 900, log=True)
    assert y.max() == 50.0
    assert x[np.argmax(y)] == pytest.approx(math.log10(step), abs=6.0 / 900 + 1e-9)


def test_on_a_logarithmic_axis_each_column_has_its_least_and_largest() -> None:
    rng = np.random.default_rng(3)
    values = rng.normal(size=300_000)
    data = long(values)
    x, y = data.columns(XAxis.STEP, 0.0, math.log10(300_000), 500, log=True)
    assert (np.diff(x) >= 0).all()
    assert len(x) <= 2 * 502
    scale = 500 / math.log10(300_000)
    of_points = np.floor(np.log10(np.arange(1.0, 300_001)) * scale)
    columns = np.floor(x * scale)
    for column in np.unique(of_points[of_points > 5])[::20]:
        column_values, drawn_values = values[of_points == column], y[columns == column]
        # A block of points may lie over the edge of two columns.
        assert drawn_values.size
        assert drawn_values.max() >= column_values[20:-20].max(initial=-9)
        assert drawn_values.min() <= column_values[20:-20].min(initial=9)


def test_the_first_steps_of_a_million_have_as_much_room_as_the_last(panel: CurvePanel) -> None:
    panel.set_curve("train", "train", long(np.linspace(3, 1, MILLION)))
    panel.set_log_x(True)
    low, high = panel.x_range()
    assert low == 0
    assert 6 < high < 9, "the name has its room"
    texts = [text for _, text in find_only(PlotView, panel).bottom_axis._tickLevels[0]]
    assert texts[0] == "1"
    assert "1k" in texts or "100" in texts
    assert pixels(panel, theme.LIGHT.curves[0]) > 300


def test_pointer_zoom_and_marks_are_where_their_steps_are(panel: CurvePanel) -> None:
    panel.set_curve("train", "train", long(np.linspace(3, 1, 100_000)))
    panel.set_marks(
        vertical_markers=[VerticalMarker(1000, "diverges")],
        boundaries=[Boundary(0, 1), Boundary(100, 2)],
        spans=[AxisSpan(0, 10)],
    )
    panel.set_log_x(True)
    settle()
    assert [post.x for post in panel.marks.vertical_markers] == [pytest.approx(3)]
    assert [mark.x for mark in panel.marks.boundaries] == [pytest.approx(2)]
    frame = find_only(PlotView, panel).frame()
    QTest.mouseMove(viewport(panel), QPoint(round(frame.px(3.0)), 150))
    assert panel.pointer_x == pytest.approx(3.0, abs=0.02)
    rows, title = panel._readout(frame, 3.0)
    assert title.startswith(f"step 1{THIN}000")
    assert rows[0].point is not None
    assert rows[0].point.x() == pytest.approx(frame.px(3.0), abs=0.5)
    wheel(viewport(panel), QPointF(frame.px(3.0), 150), 3)
    low, high = panel.x_range()
    assert low < 3.0 < high
    assert high - low < 4
    panel.set_log_x(False)
    assert panel.x_range()[1] > 99_999
    assert [post.x for post in panel.marks.vertical_markers] == [1000]


def test_points_at_zero_are_reported_and_the_time_of_day_stays_linear(panel: CurvePanel) -> None:
    data = CurveData()
    data.extend([1.0, 2.0, 3.0], [1.0, 2.0, 3.0], [0.0, 0.5, 1.0], [1.7e9, 1.7e9 + 5, 1.7e9 + 90])
    panel.set_curve("train", "train", data)
    panel.set_log_x(True)
    assert panel.hidden_values_message() == ""
    panel.set_axis(XAxis.TIME)
    assert panel.hidden_values_message() == "1 point at 0 is not shown."
    assert 10 ** panel.x_range()[0] == pytest.approx(5)
    panel.set_axis(XAxis.CLOCK)
    assert not panel.log_x
    assert panel.hidden_values_message() == ""
    assert panel.x_range()[0] == pytest.approx(1.7e9)


def test_values_at_or_below_zero_are_reported_gaps(panel: CurvePanel) -> None:
    values = np.full(1000, 1.0)
    values[250:750] = -1.0
    panel.set_curve("train", "train", curve(values), with_label=False)
    assert panel.hidden_values_message() == ""
    panel.set_log_y(True)
    quiet = QImage(panel.grab().toImage())
    assert panel.hidden_values_message() == "Values at or below 0 are gaps."
    panel.move_pointer(100.0)
    assert panel.accessibleDescription().endswith("Values at or below 0 are gaps.")
    panel.set_curve("train", "train", curve(np.abs(values)), with_label=False)
    panel.move_pointer(None)
    settle()
    assert panel.grab().toImage() != quiet
    assert panel.hidden_values_message() == ""


def test_times_on_a_logarithmic_axis_are_steps_of_a_clock() -> None:
    texts = [text for _, text in ticks.elapsed_log(-0.5, 5.0, 8)]
    assert texts == ["1 s", "10 s", "1 min", "10 min", "1 h", "10 h"]
    assert [text for _, text in ticks.elapsed_log(2.0, 3.2, 8)] == [
        *("2 min", "5 min", "10 min", "20 min")
    ]
    for low, high in ((0.0, 0.1), (-4.0, 7.0), (4.0, 4.2), (-9.0, -5.0), (1.0, 1.5)):
        axis_ticks = ticks.elapsed_log(low, high, 6)
        assert 2 <= len(axis_ticks) <= 7
        assert all(low <= tick <= high for tick, _ in axis_ticks)


def test_the_button_says_which_axes_are_logarithmic(qtbot: QtBot) -> None:
    button = add_widget(qtbot, ScaleButton())
    width = button.sizeHint().width()
    assert button.text() == "Linear"
    with qtbot.waitSignal(button.log_y_changed) as toggled:
        button.toggle_log_y()
    assert toggled.args == [True]
    button.toggle_log_x()
    assert button.text() == "Log x, y"
    button.set_has_log_x(False)
    button.toggle_log_x()
    assert button.text() == "Log y"
    button.set_has_log_x(True)
    assert button.text() == "Log x, y"
    assert button.sizeHint().width() == width


# No numbers


NAN, INF = math.nan, math.inf


@pytest.mark.parametrize(
    ("values", "gaps", "nan_steps"),
    [
        ([1, 2, NAN, NAN, 3, 4, INF, NAN, 5], GapReason.NON_FINITE, [2, 6]),
        ([1, 2, NAN, NAN, 3, 4, INF, NAN, 5], GapReason.NOT_MEASURED, [2, 6]),
        ([NAN, 1, NAN], GapReason.NON_FINITE, [0, 2]),
        ([NAN, NAN, 1, NAN, NAN, 2, NAN], GapReason.NOT_MEASURED, []),
        ([NAN, NAN, 1, INF, NAN, 2, -INF], GapReason.NOT_MEASURED, [3, 6]),
        ([NAN, NAN], GapReason.NOT_MEASURED, [0]),
        ([1, 2, 3], GapReason.NON_FINITE, []),
        ([1, 2, NAN, INF], GapReason.NO_READING, []),
    ],
)
@pytest.mark.parametrize("chunk_size", [1, 2, 9])
def test_the_data_marks_the_steps_at_which_values_become_nan(
    values: list[float], gaps: GapReason, nan_steps: list[int], chunk_size: int
) -> None:
    """A metric of every tenth step has nine gaps for a value, and no gap is an error."""
    data = CurveData(gap_reason=gaps)
    for start in range(0, len(values), chunk_size):
        part = values[start : start + chunk_size]
        data.extend(np.arange(start, start + len(part), dtype=float), part)
    assert data.nan_starts(XAxis.STEP).tolist() == nan_steps


def test_a_resumed_run_removes_the_marks_of_repeated_steps() -> None:
    data = CurveData(gap_reason=GapReason.NON_FINITE)
    data.extend([1, 2, 3, 4], [1.0, NAN, 1.0, NAN])
    data.extend([3, 4], [1.0, 1.0])
    assert data.nan_starts(XAxis.STEP).tolist() == [2]


def test_no_number_is_marked_on_the_axis_and_said(panel: CurvePanel) -> None:
    values = loss(500)
    data = CurveData(gap_reason=GapReason.NON_FINITE)
    data.extend(np.arange(500.0), values)
    panel.set_curve("train", "train", data)
    assert pixels(panel, theme.LIGHT.bad) == 0
    values[200:210] = NAN
    data.extend(np.arange(500.0), values)
    panel.refresh()
    assert pixels(panel, theme.LIGHT.bad) > 4
    assert panel.readout(200)[1].endswith(" · train: NaN or infinite")
    assert "NaN or infinite" not in panel.readout(260)[1]
    panel.move_pointer(200.0)
    assert "train: NaN or infinite" in panel.accessibleDescription()


# Outliers


def test_an_outlier_has_an_arrow_at_the_edge_and_the_pointer_says_its_value(
    panel: CurvePanel,
) -> None:
    values = loss(200_000)
    values[120_000] = 5000.0
    panel.set_curve("train", "train", curve(values))
    panel.set_smoothing(0.6)
    settle()
    assert panel.y_range()[1] < 50
    frame = find_only(PlotView, panel).frame()
    top = panel.grab().toImage()
    x = round(frame.px(120_000)) + find_only(PlotView, panel).x()
    y = round(frame.rect.top()) + find_only(PlotView, panel).y()
    arrow = [top.pixelColor(x + dx, y + 3).name() for dx in (-1, 0, 1)]
    assert theme.LIGHT.curves[0].lower() in arrow
    # A pixel is 300 steps; the pointer need not be on the one.
    assert ("train, out of view", f"5{THIN}000") in panel.readout(120_400)[0]
    assert all("out of view" not in name for name, _ in panel.readout(60_000)[0])
    panel.move_pointer(120_400.0)
    assert f"train, out of view 5{THIN}000" in panel.accessibleDescription()


# The text of a post


def test_the_text_of_a_post_stands_where_no_curve_is(panel: CurvePanel) -> None:
    values = np.concatenate((np.full(100, 10.0), np.full(400, 0.0), np.full(500, 5.0)))
    panel.set_curve("train", "train", curve(values), smooth=False)
    settle()
    frame = find_only(PlotView, panel).frame()
    # The curve runs where the text would stand.
    y = frame.rect.top() + 0.14 * (frame.rect.height() - 16) + 8
    values[500:] = frame.y1 - (y - frame.rect.top()) / frame.rect.height() * (frame.y1 - frame.y0)
    panel.set_curve("train", "train", curve(values), smooth=False)
    settle()
    assert find_only(PlotView, panel).frame() == frame
    curve_ends = CurveEnds(panel._mapping, True, "", panel._end_text, panel.marks)
    count_points = curve_ends.points_counter(frame, tuple(panel.curves.items()))
    on_curve = QRectF(frame.px(600), y - 8, 60, 16)
    assert count_points(on_curve) > 40
    assert count_points(on_curve.translated(0, 60)) == 0
    panel.set_marks(vertical_markers=[VerticalMarker(600, "diverges")])
    settle()
    image = panel.grab().toImage()
    left_x = round(frame.px(600)) + 6 + find_only(PlotView, panel).x()
    blue = theme.LIGHT.curves[0].lower()
    row = round(y) + find_only(PlotView, panel).y()
    label_w = text_width("diverges", "small_strong")
    is_curve_visible = [
        blue in {image.pixelColor(left_x + dx, row + dy).name() for dy in (-1, 0, 1)}
        for dx in range(4, label_w - 4)
    ]
    assert all(is_curve_visible), "the curve is whole, no text is over it"


def test_small_plots_say_their_values_at_the_pointer(qtbot: QtBot) -> None:
    link = HoverLink()
    small = show_widget(qtbot, CurvePanel("mAP", link=link, end_names=False), 240, 130)
    small.set_curve("a", "train", curve(loss(500)))
    settle()
    calm = small.grab().toImage()
    link.point(100.0)
    settle()
    hover_image = small.grab().toImage()
    readout_rect = QRect(
        round(find_only(PlotView, small).frame().px(100)) + find_only(PlotView, small).x() + 20,
        10,
        60,
        20,
    )
    assert hover_image.copy(readout_rect) != calm.copy(readout_rect), (
        "a box, not only a line and a dot"
    )
    assert dict(small.readout(100)[0]).keys() == {"train"}
    link.leave()
    settle()
    assert small.grab().toImage() == calm
