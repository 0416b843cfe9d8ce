"""Flaws of a picture that a program can find: cut text, parts that overlap or stick out.

It knows nothing of beauty. It finds flaws: words that end without an ellipsis, a
button laid over another, a page that scrolls sideways, a blank pane, a plot without Save.
"""

from __future__ import annotations

from collections.abc import Iterator

from PySide6.QtCore import QRect, QSize
from PySide6.QtGui import QFontMetrics, QImage
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractItemView,
    QAbstractScrollArea,
    QLabel,
    QLayout,
    QLineEdit,
    QMenu,
    QPlainTextEdit,
    QPushButton,
    QScrollArea,
    QTextBrowser,
    QTextEdit,
    QWidget,
)

from widgets.compare.parallel_plot import ParallelPlot
from widgets.jobs.form.form_side import RatePreview
from widgets.plots.curve_panel import CurvePanel

_PLOTS = (CurvePanel, ParallelPlot, RatePreview)
_ROUNDING = 1
"""A fractional scale rounds two edges of a word apart by one pixel."""
_LEAST_COLOURS = 8


def flaws(top: QWidget) -> Iterator[str]:
    """Everything that is wrong with what is seen of ``top`` now, a sentence each."""
    for widget in _visible_widgets(top):
        yield from _cut_widgets(widget)
        if isinstance(widget, QScrollArea | QTextBrowser):
            overflow_px = widget.horizontalScrollBar().maximum()
            if overflow_px > 0:
                yield f"{_name(widget)} would scroll sideways by {overflow_px} px"
        layout = widget.layout()
        if layout is not None:
            yield from _misplaced_children(widget, layout)
        if isinstance(widget, _PLOTS) and not _can_be_saved(widget, top):
            yield f"{_name(widget)} cannot be taken along as a picture"


def is_blank(image: QImage) -> bool:
    columns, rows = range(0, image.width(), 5), range(0, image.height(), 5)
    return len({image.pixel(x, y) for x in columns for y in rows}) <= _LEAST_COLOURS


def _visible_widgets(top: QWidget) -> Iterator[QWidget]:
    yield top
    for widget in top.findChildren(QWidget):
        if widget.isVisibleTo(top) and not widget.isWindow():
            yield widget


def _can_be_saved(plot: QWidget, top: QWidget) -> bool:
    """Return whether exactly one button, the nearest above a plot, saves this plot alone."""
    container = plot.parentWidget()
    while container is not None:
        plots = [widget for widget in container.findChildren(QWidget) if isinstance(widget, _PLOTS)]
        buttons = [
            widget
            for widget in container.findChildren(QPushButton)
            if widget.isVisibleTo(top) and widget.menu() is not None and _saves_plot(widget.menu())
        ]
        if buttons or container is top:
            saved_widgets = {_saved_widget(widget) for widget in plots if widget.isVisibleTo(top)}
            return len(buttons) == len(saved_widgets) == 1
        container = container.parentWidget()
    return False


def _saved_widget(plot: QWidget) -> QWidget:
    """Return the widget that is saved: the plot, or the plots that stand above each other."""
    container = plot.parentWidget()
    return container if container is not None and hasattr(container, "as_picture") else plot


def _saves_plot(menu: QMenu) -> bool:
    return any(action.text().startswith("This plot as") for action in menu.actions())


def _cut_widgets(widget: QWidget) -> Iterator[str]:
    if isinstance(widget, QLabel) and not widget.pixmap().isNull():
        full_size = widget.pixmap().deviceIndependentSize()
        if (
            full_size.height() > widget.height() + _ROUNDING
            or full_size.width() > widget.width() + _ROUNDING
        ):
            picture_size = f"{full_size.width()} × {full_size.height()}"
            yield f"A picture of {picture_size} is cut to {_box(widget.size())}"
    elif isinstance(widget, QLabel) and widget.text():
        yield from _cut_label(widget)
    elif isinstance(widget, QPushButton) and widget.text():
        needed_px = widget.minimumSizeHint().width()
        if widget.width() + _ROUNDING < needed_px:
            yield f"The button {_name(widget)} is {widget.width()} px wide, not {needed_px}"
    elif (min_height := widget.minimumHeight()) > widget.height() + _ROUNDING:
        yield f"{_name(widget)} is {widget.height()} px high and needs {min_height}"
    elif isinstance(widget, QAbstractButton) and widget.width() < widget.minimumSizeHint().width():
        yield f"{_name(widget)} is narrower than it can be"


def _cut_label(label: QLabel) -> Iterator[str]:
    # Of ours `text()` is the whole, and Qt's own is what is shown of it.
    text = QLabel.text(label)
    metrics = QFontMetrics(label.font())
    space = label.contentsRect().size()
    if label.wordWrap():
        needed_px = label.heightForWidth(label.width())
        if needed_px > label.height() + _ROUNDING:
            yield f"{_name(label)} needs {needed_px} px of height and has {label.height()}"
        word_widths = [metrics.horizontalAdvance(word) for word in text.split()]
        if word_widths and max(word_widths) > space.width() + _ROUNDING:
            yield f"A word of {_name(label)} is wider than its {space.width()} px"
        return
    needed_px = max(metrics.horizontalAdvance(line) for line in text.split("\n"))
    if needed_px > space.width() + _ROUNDING:
        yield f"{_name(label)} needs {needed_px} px and has {space.width()}"
    if metrics.height() > space.height() + 2:
        yield f"{_name(label)} is only {space.height()} px high"


def _misplaced_children(parent: QWidget, layout: QLayout) -> Iterator[str]:
    """Children of one layout overlap, or stick out of their parent."""
    children = [child for child in _of_layout(layout) if child.isVisibleTo(parent)]
    area = parent.rect().adjusted(-_ROUNDING, -_ROUNDING, _ROUNDING, _ROUNDING)
    is_content = isinstance(parent.parentWidget(), QAbstractScrollArea)
    for child in children:
        box = child.geometry()
        if not is_content and not area.contains(box) and not box.isEmpty():
            yield f"{_name(child)} sticks out of {_name(parent)}: {_box(box)} in {_box(area)}"
    for n, child_a in enumerate(children):
        for child_b in children[n + 1 :]:
            overlap = child_a.geometry().intersected(child_b.geometry())
            if overlap.width() > _ROUNDING and overlap.height() > _ROUNDING:
                yield f"{_name(child_a)} and {_name(child_b)} overlap by {_box(overlap)}"


def _of_layout(layout: QLayout) -> Iterator[QWidget]:
    for index in range(layout.count()):
        item = layout.itemAt(index)
        if (child := item.widget()) is not None:
            yield child
        elif (inner := item.layout()) is not None:
            yield from _of_layout(inner)


def _name(widget: QWidget) -> str:
    text = ""
    if isinstance(widget, QLabel | QAbstractButton | QLineEdit):
        text = widget.text()
    elif isinstance(widget, QPlainTextEdit | QTextEdit | QAbstractItemView):
        text = widget.accessibleName()
    text = text or widget.accessibleName() or widget.objectName()
    return f"{type(widget).__name__} “{text[:50]}”"


def _box(rect: QRect | QSize) -> str:
    if isinstance(rect, QSize):
        return f"{rect.width()} × {rect.height()}"
    return f"{rect.width()} × {rect.height()} at {rect.x()}, {rect.y()}"
