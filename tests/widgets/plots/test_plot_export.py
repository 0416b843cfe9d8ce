"""A plot that is taken along is the plot that was seen: PNG, SVG and PDF, drawn again."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PySide6.QtCore import QByteArray, QPoint, QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QImage, QPainter, QPen, QPolygonF, QRegion
from PySide6.QtSvg import QSvgRenderer
from PySide6.QtWidgets import QApplication, QWidget
from pytestqt.qtbot import QtBot

from tests.widgets.pdf_lines import Stroke, strokes
from tests.windows import add_widget, show_widget
from widgets.common import theme
from widgets.common.theme_manager import ThemeChoice, ThemeManager
from widgets.plots import axis_marks
from widgets.plots.annotations import PlotGeometry
from widgets.plots.axis_marks import AxisMark, MarkKind
from widgets.plots.curve_data import CurveData
from widgets.plots.curve_item import clip_line
from widgets.plots.curve_panel import CurvePanel
from widgets.plots.growable_array import Floats
from widgets.plots.image_export import PictureButton

pytestmark = pytest.mark.usefixtures("theme_manager")
TITLE_H = 28
BLUE = theme.LIGHT.curves[0]


@pytest.fixture
def panel(qtbot: QtBot) -> CurvePanel:
    """Two curves, one of which diverges; a part of them is in view."""
    panel = show_widget(qtbot, CurvePanel("Training loss"), 600, 260)
    rng = np.random.default_rng(1)
    steps = np.arange(2000.0)
    for number in range(2):
        values = 0.4 + 0.2 * number + np.exp(-steps / 300) + rng.normal(0, 0.02, len(steps))
        if number == 0:
            values[1000:1004] = 900.0
        data = CurveData()
        data.extend(steps, values)
        panel.set_curve(str(number), f"run {number}", data, number)
    panel.set_smoothing(0.8)
    panel.set_x_range(600, 1400)
    for _ in range(3):
        QApplication.processEvents()
    return panel


def svg_image(panel: CurvePanel, ratio: float = 1.0) -> QImage:
    image = blank(panel, ratio)
    painter = QPainter(image)
    QSvgRenderer(QByteArray(panel.as_picture().svg())).render(painter)
    painter.end()
    return image


def pdf_image(panel: CurvePanel, pdf_strokes: list[Stroke]) -> QImage:
    """The lines of a page, painted at the size of the plot."""
    image = blank(panel)
    painter = QPainter(image)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    scale = panel.logicalDpiX() / 72
    for stroke in pdf_strokes:
        painter.setPen(QPen(QColor.fromRgbF(*stroke.rgb), stroke.width * scale))
        rows = stroke.points * scale
        painter.drawPolyline(QPolygonF([QPointF(x, image.height() - y) for x, y in rows]))
    painter.end()
    return image


def blank(panel: CurvePanel, ratio: float = 1.0) -> QImage:
    size = panel.size() * ratio
    height = size.height() + round(TITLE_H * ratio)
    image = QImage(size.width(), height, QImage.Format.Format_ARGB32_Premultiplied)
    image.fill(Qt.GlobalColor.white)
    return image


def colour_mask(image: QImage, colour: str) -> np.ndarray:
    """Return a mask of the pixels of about this colour."""
    image = image.convertToFormat(QImage.Format.Format_RGB32)
    rows = np.frombuffer(image.constBits(), np.uint8).reshape(image.height(), -1, 4)
    target = np.array([int(colour[i : i + 2], 16) for i in (5, 3, 1)])
    mask: np.ndarray = (np.abs(rows[:, :, :3].astype(int) - target) < 40).all(axis=2)
    return mask


def similarity(a: np.ndarray, b: np.ndarray) -> float:
    """Return the common share of two masks; a pixel more or less is no difference."""

    def grown(mask: np.ndarray) -> np.ndarray:
        wide = mask.copy()
        for axis in (0, 1):
            wide |= np.roll(wide, 1, axis) | np.roll(wide, -1, axis)
        return wide

    either = (a | b).sum()
    return float((a & grown(b) | b & grown(a)).sum() / either) if either else 0.0


def ink_of_line(image: QImage) -> float:
    """Return the height in pixels of a blue line in the middle of a picture."""
    column = [image.pixelColor(image.width() // 2, y) for y in range(image.height())]
    blue = [c for c in column if c.blue() > c.red() + 3]
    return sum((255 - c.red()) / (255 - QColor(BLUE).red()) for c in blue)


@pytest.mark.parametrize("colour", theme.LIGHT.curves[:2])
def test_s4_drawing_and_page_show_the_curves_of_the_picture(panel: CurvePanel, colour: str) -> None:
    picture = colour_mask(QImage.fromData(panel.as_picture().png(pixel_ratio=1.0)), colour)
    assert picture.sum() > 500
    assert similarity(picture, colour_mask(svg_image(panel), colour)) > 0.97
    assert (
        similarity(
            picture, colour_mask(pdf_image(panel, strokes(panel.as_picture().pdf())), colour)
        )
        > 0.9
    )


def test_the_picture_equals_the_window(panel: CurvePanel) -> None:
    window_image = QImage(panel.size(), QImage.Format.Format_RGB32)
    window_image.fill(Qt.GlobalColor.white)
    panel.clearFocus()  # Its ring is not taken along.
    panel.render(window_image, QPoint(), QRegion(), QWidget.RenderFlag.DrawChildren)
    window_mask = colour_mask(window_image, BLUE)
    picture_mask = colour_mask(QImage.fromData(panel.as_picture().png(pixel_ratio=1.0)), BLUE)[
        TITLE_H:
    ]
    assert similarity(window_mask, picture_mask) > 0.97


def test_a_diverging_curve_stays_in_the_plot(panel: CurvePanel) -> None:
    title = slice(0, TITLE_H + 4)
    for image in (QImage.fromData(panel.as_picture().png(1.0)), svg_image(panel)):
        for colour in theme.LIGHT.curves[:2]:
            assert not colour_mask(image, colour)[title].any()
    scale = panel.logicalDpiX() / 72
    top = (panel.height() + TITLE_H) - (TITLE_H + 4)
    curves = [stroke for stroke in strokes(panel.as_picture().pdf()) if stroke.width * scale > 2]
    assert curves
    assert max(float(stroke.points[:, 1].max()) for stroke in curves) * scale <= top


@pytest.mark.parametrize("ratio", [1.0, 3.0])
def test_a_line_is_as_thick_on_a_finer_picture(qtbot: QtBot, ratio: float) -> None:
    panel = show_widget(qtbot, CurvePanel("Loss"), 600, 260)
    data = CurveData()
    data.extend(np.arange(900.0), np.full(900, 1.0))
    panel.set_curve("a", "a", data)
    for image in (QImage.fromData(panel.as_picture().png(ratio)), svg_image(panel, ratio)):
        assert ink_of_line(image) == pytest.approx(2.2 * ratio, rel=0.1)


def test_a_dark_plot_is_taken_along_dark(panel: CurvePanel, theme_manager: ThemeManager) -> None:
    theme_manager.choose(ThemeChoice.DARK)
    image = QImage.fromData(panel.as_picture().png())
    assert image.pixelColor(3, 3).name().upper() == theme.DARK.surface
    assert colour_mask(image, theme.DARK.curves[0]).sum() > 500
    assert colour_mask(svg_image(panel), theme.DARK.curves[0]).sum() > 500


def test_every_plot_offers_three_formats_under_its_name(panel: CurvePanel, qtbot: QtBot) -> None:
    panel.title = "validation/loss"
    button = add_widget(qtbot, PictureButton("Loss", lambda: panel))
    saved_files: list[tuple[str, bytes]] = []
    button.saved.connect(lambda name, content: saved_files.append((name, content)))
    for action in button.menu().actions():
        action.trigger()
    assert [name for name, _ in saved_files] == [
        f"validation loss.{suffix}" for suffix in ("png", "svg", "pdf")
    ]
    assert [content[:4] for _, content in saved_files] == [b"\x89PNG", b"<?xm", b"%PDF"]


FRAME = PlotGeometry(QRectF(10, 20, 300, 100), 0.0, 30.0, 0.0, 10.0)


def line_parts(x: Floats, y: Floats) -> list[Floats]:
    """The parts of a clipped line: arrays of shape (points, 2)."""
    points = np.column_stack(clip_line(FRAME, x, y))
    parts = np.split(points, np.flatnonzero(np.isnan(points[:, 0])))
    return [part[~np.isnan(part[:, 0])] for part in parts if len(part)]


COORDINATES = st.floats(-60, 60) | st.just(math.nan)


@given(st.lists(st.tuples(COORDINATES, COORDINATES), min_size=2, max_size=60))
def test_no_point_of_a_cut_line_is_outside_and_none_inside_is_lost(
    points: list[tuple[float, float]],
) -> None:
    x, y = (np.array(column, float) for column in zip(*points, strict=True))
    parts = line_parts(x, y)
    rect = FRAME.rect.adjusted(-1e-6, -1e-6, 1e-6, 1e-6)
    for part in parts:
        assert len(part) >= 2
        assert all(rect.contains(QPointF(*point)) for point in part)
    drawn_points = np.concatenate(parts) if parts else np.empty((0, 2))
    for i in range(len(x)):
        neighbours = [j for j in (i - 1, i + 1) if 0 <= j < len(x) and _is_finite(x[j], y[j])]
        if _is_finite(x[i], y[i]) and 0 <= x[i] <= 30 and 0 <= y[i] <= 10 and neighbours:
            point = FRAME.point(float(x[i]), float(y[i]))
            distances = np.abs(drawn_points - np.array([point.x(), point.y()])).max(axis=1)
            assert distances.min() < 1e-6


def _is_finite(x: float, y: float) -> bool:
    return math.isfinite(x) and math.isfinite(y)


def test_a_line_that_leaves_and_returns_is_two_pieces() -> None:
    x: Floats = np.array([0.0, 5.0, 10.0, 15.0, 20.0])
    y: Floats = np.array([5.0, 5.0, 50.0, 5.0, 5.0])
    first, second = line_parts(x, y)
    assert first[-1, 1] == second[0, 1] == FRAME.rect.top()
    assert len(first) == len(second) == 3


# Marks on the axis


def pixels(panel: CurvePanel, colour: str) -> int:
    for _ in range(3):
        QApplication.processEvents()
    return int(colour_mask(panel.grab().toImage(), colour)[-40:].sum())


def test_marks_stand_on_the_axis_and_the_read_out_names_them(panel: CurvePanel) -> None:
    calm = pixels(panel, theme.LIGHT.rest)
    panel.set_marks(
        axis_marks=[
            AxisMark(1200, MarkKind.STOP, "stopped after step 1200"),
            AxisMark(900, MarkKind.CHECKPOINT, "checkpoint epoch-0009"),
            AxisMark(901, MarkKind.EVALUATION),
            AxisMark(5000, MarkKind.STOP),
        ]
    )
    assert pixels(panel, theme.LIGHT.rest) > calm + 10
    assert panel.readout(900)[1].endswith(" · evaluated · checkpoint epoch-0009")
    assert panel.readout(1200)[1].endswith(" · stopped after step 1200")
    assert "checkpoint" not in panel.readout(1000)[1]


def test_ten_thousand_marks_are_no_bar_and_only_visible_ones_cost_time(
    panel: CurvePanel, monkeypatch: pytest.MonkeyPatch
) -> None:
    painted: list[QPointF] = []
    monkeypatch.setattr(axis_marks, "_paint", lambda _painter, foot, _kind: painted.append(foot))
    panel.set_marks(axis_marks=[AxisMark(100 + i / 20, MarkKind.CHECKPOINT) for i in range(30_000)])
    assert not painted or painted[-1].x() <= panel.width()
    painted.clear()
    panel.as_picture().png(1.0)
    positions = [foot.x() for foot in painted]
    assert 10 < len(positions) < 100
    assert min(b - a for a, b in itertools.pairwise(positions)) > 6


@pytest.mark.parametrize("ratio", [1, 2, 3])
def test_a_line_is_as_thick_on_a_screen_of_more_pixels(qtbot: QtBot, ratio: int) -> None:
    panel = show_widget(qtbot, CurvePanel("Loss"), 600, 260)
    data = CurveData()
    data.extend(np.arange(90.0), np.full(90, 1.0))
    panel.set_curve("a", "a", data)
    screen = QImage(panel.size() * ratio, QImage.Format.Format_RGB32)
    screen.setDevicePixelRatio(ratio)
    screen.fill(Qt.GlobalColor.white)
    panel.render(screen, QPoint(), QRegion(), QWidget.RenderFlag.DrawChildren)
    assert ink_of_line(screen) == pytest.approx(2.2 * ratio, rel=0.1)
