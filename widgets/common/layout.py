"""Rows and columns of widgets, so that code reads like the screen.

``row(Label("Jobs", "title"), STRETCH, Button("New job"))`` is a `QHBoxLayout` of widgets and
layouts in order. A number is that many pixels of space, `STRETCH` takes the remaining space,
``(widget, 1)`` gives a widget a share of it, and `None` is omitted. `SLACK` takes the space beyond
the maximum size of those with a share.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, TypeAlias, TypeVar

from PySide6.QtCore import QSize, Qt
from PySide6.QtWidgets import QBoxLayout, QHBoxLayout, QLayout, QVBoxLayout, QWidget

from widgets.common.theme import S2


class _Stretch(Enum):
    STRETCH = "stretch"
    SLACK = "rest"


STRETCH: Final = _Stretch.STRETCH
SLACK: Final = _Stretch.SLACK

Item: TypeAlias = QWidget | QLayout | int | _Stretch | tuple[QWidget | QLayout, int] | None
Margins: TypeAlias = tuple[int, int, int, int]
NO_MARGINS: Margins = (0, 0, 0, 0)

_MIN_W, _MIN_H, _PARENT_MARGIN = 640, 480, 48

_Box = TypeVar("_Box", bound=QBoxLayout)


def row(
    *items: Item, gap: int = S2, margins: Margins = NO_MARGINS, top: bool = False
) -> QHBoxLayout:
    """Place items side by side. With `top`, all are aligned at the upper edge."""
    box = _fill_box(QHBoxLayout(), items, gap, margins)
    if top:
        for index in range(box.count()):
            item = box.itemAt(index)
            if item is not None:
                item.setAlignment(Qt.AlignmentFlag.AlignTop)
    return box


def col(*items: Item, gap: int = S2, margins: Margins = NO_MARGINS) -> QVBoxLayout:
    """Place items one below the other."""
    return _fill_box(QVBoxLayout(), items, gap, margins)


def keep_size_when_hidden(widget: QWidget) -> None:
    """Keep the space of a widget while it is hidden, so that nothing moves."""
    policy = widget.sizePolicy()
    policy.setRetainSizeWhenHidden(True)
    widget.setSizePolicy(policy)


def clear(layout: QLayout) -> None:
    """Remove everything from a layout and delete its widgets."""
    while (item := layout.takeAt(0)) is not None:
        widget, inner_layout = item.widget(), item.layout()
        if widget is not None:
            widget.hide()
            widget.deleteLater()
        elif inner_layout is not None:
            clear(inner_layout)


def fit_into_parent(window: QWidget, parent: QWidget | None, width: int, height: int) -> None:
    """Resize a dialog, to less than its size if the parent is not larger."""
    available_size = parent.size() if parent is not None else QSize(width, height)
    window.resize(
        min(width, max(_MIN_W, available_size.width() - _PARENT_MARGIN)),
        min(height, max(_MIN_H, available_size.height() - _PARENT_MARGIN)),
    )


def fit_height(window: QWidget) -> None:
    """Set the height that the content needs at its width, wrapped text included."""
    layout = window.layout()
    if layout is None:
        return
    # Its size hint and minimum size assume a narrower width for wrapped text.
    if layout.sizeConstraint() is not QLayout.SizeConstraint.SetNoConstraint:
        layout.setSizeConstraint(QLayout.SizeConstraint.SetNoConstraint)
        # The minimum size that the layout set when the window was shown.
        window.setMinimumHeight(0)
    layout.activate()
    wraps = layout.hasHeightForWidth()
    height = layout.totalHeightForWidth(window.width()) if wraps else layout.sizeHint().height()
    window.resize(window.width(), height)


def _fill_box(box: _Box, items: tuple[Item, ...], gap: int, margins: Margins) -> _Box:
    box.setContentsMargins(*margins)
    box.setSpacing(gap)
    for item in items:
        if isinstance(item, tuple):
            part, share = item
            if isinstance(part, QWidget):
                box.addWidget(part, share)
            else:
                box.addLayout(part, share)
        elif isinstance(item, int):
            box.addSpacing(item)
        elif isinstance(item, QWidget):
            box.addWidget(item)
        elif isinstance(item, QLayout):
            box.addLayout(item)
        elif isinstance(item, _Stretch):
            box.addStretch(1 if item is STRETCH else 0)
    return box
