"""What a machine can see of a picture: text that is cut, parts that overlap or stick out.

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
from widgets.jobs.form.lr_preview import RatePreview
from widgets.plots.curve_panel import CurvePanel

_PLOTS = (CurvePanel, ParallelPlot, RatePreview)
_ROUNDING = 1
"""A fractional scale rounds two edges of a word apart by one pixel."""
_LEAST_COLOURS = 8


def flaws(top: QWidget) -> Iterator[str]:
    """Everything that is wrong with what is seen of ``top`` now, a sentence each."""
    for widget in _seen(top):
        yield from _cut(widget)
        if isinstance(widget, QScrollArea | QTextBrowser):
            wide = widget.horizontalScrollBar().maximum()
            if wide > 0:
                yield f"{_name(widget)} would scroll sideways by {wide} px"
        layout = widget.layout()
        if layout is not None:
            yield from _misplaced(widget, layout)
        if isinstance(widget, _PLOTS) and not _can_be_taken(widget, top):
            yield f"{_name(widget)} cannot be taken along as a picture"


def is_blank(image: QImage) -> bool:
    across, down = range(0, image.width(), 5), range(0, image.height(), 5)
    return len({image.pixel(x, y) for x in across for y in down}) <= _LEAST_COLOURS


def _seen(top: QWidget) -> Iterator[QWidget]:
    yield top
    for widget in top.findChildren(QWidget):
        if widget.isVisibleTo(top) and not widget.isWindow():
            yield widget


def _can_be_taken(plot: QWidget, top: QWidget) -> bool:
    """Whether a button beside a plot takes it along: the nearest one above it, and its alone."""
    room = plot.parentWidget()
    while room is not None:
        plots = [one for one in room.findChildren(QWidget) if isinstance(one, _PLOTS)]
        buttons = [
            one
            for one in room.findChildren(QPushButton)
            if one.isVisibleTo(top) and one.menu() is not None and _takes(one.menu())
        ]
        if buttons or room is top:
            taken = {_taken_with(one) for one in plots if one.isVisibleTo(top)}
            return len(buttons) == len(taken) == 1
        room = room.parentWidget()
    return False


def _taken_with(plot: QWidget) -> QWidget:
    """What is on the picture: the plot, or the plots that stand one above the other."""
    room = plot.parentWidget()
    return room if room is not None and hasattr(room, "as_picture") else plot


def _takes(menu: QMenu) -> bool:
    return any(action.text().startswith("This plot as") for action in menu.actions())


def _cut(widget: QWidget) -> Iterator[str]:
    if isinstance(widget, QLabel) and not widget.pixmap().isNull():
        whole = widget.pixmap().deviceIndependentSize()
        if (
            whole.height() > widget.height() + _ROUNDING
            or whole.width() > widget.width() + _ROUNDING
        ):
            yield f"A picture of {whole.width()} × {whole.height()} is cut to {_box(widget.size())}"
    elif isinstance(widget, QLabel) and widget.text():
        yield from _cut_label(widget)
    elif isinstance(widget, QPushButton) and widget.text():
        needed = widget.minimumSizeHint()
        if widget.width() + _ROUNDING < needed.width():
            yield f"The button {_name(widget)} is {widget.width()} px wide, not {needed.width()}"
    elif (least := widget.minimumHeight()) > widget.height() + _ROUNDING:
        yield f"{_name(widget)} is {widget.height()} px high and needs {least}"
    elif isinstance(widget, QAbstractButton) and widget.width() < widget.minimumSizeHint().width():
        yield f"{_name(widget)} is narrower than it can be"


def _cut_label(label: QLabel) -> Iterator[str]:
    # Of ours `text()` is the whole, and Qt's own is what is shown of it.
    shown = QLabel.text(label)
    metrics = QFontMetrics(label.font())
    room = label.contentsRect().size()
    if label.wordWrap():
        needed = label.heightForWidth(label.width())
        if needed > label.height() + _ROUNDING:
            yield f"{_name(label)} needs {needed} px of height and has {label.height()}"
        words = [metrics.horizontalAdvance(word) for word in shown.split()]
        if words and max(words) > room.width() + _ROUNDING:
            yield f"A word of {_name(label)} is wider than its {room.width()} px"
        return
    needed = max(metrics.horizontalAdvance(line) for line in shown.split("\n"))
    if needed > room.width() + _ROUNDING:
        yield f"{_name(label)} needs {needed} px and has {room.width()}"
    if metrics.height() > room.height() + 2:
        yield f"{_name(label)} is only {room.height()} px high"


def _misplaced(parent: QWidget, layout: QLayout) -> Iterator[str]:
    """Children of one layout overlap, or stick out of their parent."""
    children = [child for child in _of_layout(layout) if child.isVisibleTo(parent)]
    room = parent.rect().adjusted(-_ROUNDING, -_ROUNDING, _ROUNDING, _ROUNDING)
    is_content = isinstance(parent.parentWidget(), QAbstractScrollArea)
    for child in children:
        where = child.geometry()
        if not is_content and not room.contains(where) and not where.isEmpty():
            yield f"{_name(child)} sticks out of {_name(parent)}: {_box(where)} in {_box(room)}"
    for n, one in enumerate(children):
        for other in children[n + 1 :]:
            shared = one.geometry().intersected(other.geometry())
            if shared.width() > _ROUNDING and shared.height() > _ROUNDING:
                yield f"{_name(one)} and {_name(other)} overlap by {_box(shared)}"


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
