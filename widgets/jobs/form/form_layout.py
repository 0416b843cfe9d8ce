"""The cards of New job: lines and grids of fields, and sections that a button opens."""

from __future__ import annotations

from typing import Any

from PySide6.QtCore import QCoreApplication, QEvent, QSize, Qt, QTimer, Signal, Slot
from PySide6.QtWidgets import QGridLayout, QScrollArea, QVBoxLayout, QWidget

from widgets.common.buttons import Button
from widgets.common.cards import Card
from widgets.common.fields import ErrorLine, Field, align_with_field
from widgets.common.labels import Label
from widgets.common.layout import STRETCH, Item, col, row
from widgets.common.theme import S1, S2, S3, S4

SECTION_W = 64
COLUMNS = 4


def section(name: str, *items: Any, tool: QWidget | None = None) -> Card:
    """Return a card of the form with its name on the left, and a button below the name."""
    head = Label(name, "heading")
    head.setFixedWidth(SECTION_W)
    body = col(*items, gap=0)
    return Card(row(col(head, tool, STRETCH, gap=S1), (body, 1), gap=S3), margins=(S4, S2, S4, S1))


def line(
    *fields: tuple[QWidget, int],
    details: Details | None = None,
    error_line: ErrorLine | None = None,
) -> QVBoxLayout:
    """Return fields side by side, with a line for their errors below."""
    line = error_line or ErrorLine()
    line.attach_fields(*(field for field, _ in fields if isinstance(field, Field)))
    button = align_with_field(details.button) if details is not None else None
    return col(row(*fields, button, gap=S2, top=True), line, gap=0)


def grid(*fields: Field) -> QGridLayout:
    """Return a grid with rows of fields."""
    grid = QGridLayout()
    grid.setHorizontalSpacing(S2)
    for column in range(COLUMNS):
        grid.setColumnStretch(column, 1)
    lay_out(grid, *fields)
    return grid


def lay_out(grid: QGridLayout, *fields: Field, first_row: int = 0) -> None:
    """Place fields in rows, from ``first_row`` on."""
    for index, field in enumerate(fields, first_row * COLUMNS):
        grid.addWidget(field, *divmod(index, COLUMNS), Qt.AlignmentFlag.AlignTop)


class _DetailsButton(Button):
    """As wide with its second text, "Less", as with its first."""

    def __init__(self, text: str, **options: Any) -> None:
        super().__init__(text, **options)
        self._first_text = text

    def sizeHint(self) -> QSize:
        hint, metrics = super().sizeHint(), self.fontMetrics()
        spare_w = metrics.horizontalAdvance(self._first_text)
        spare_w -= metrics.horizontalAdvance(self.text())
        return hint + QSize(spare_w, 0)


class Details(QWidget):
    """A section of rarely changed fields, hidden until its button is pressed.

    Attributes:
        button: The button; the owner places it.

    Signals:
        toggled: The section was opened or folded.
    """

    toggled = Signal()

    def __init__(self, tip: str, text: str = "") -> None:
        """Make the section. ``text``: of the button, if it is not More and then Less."""
        super().__init__()
        self._texts = (text, text) if text else ("More", "Less")
        self.button = _DetailsButton(self._texts[0], kind="quiet", icon="caret-down", tip=tip)
        self.button.clicked.connect(self._toggle)
        self.hide()

    def fill(self, *lines: Item) -> None:
        self.setLayout(col(*lines, gap=S2, margins=(0, 0, 0, S2)))

    def open(self) -> None:
        if self.isHidden():
            self._toggle()

    @Slot()
    def _toggle(self) -> None:
        self.setVisible(self.isHidden())
        is_open = not self.isHidden()
        self.button.setText(self._texts[is_open])
        self.button.set_icon("caret-up" if is_open else "caret-down")
        self.toggled.emit()
        if is_open:
            # The page gets its new height with the next layout.
            QTimer.singleShot(0, self, self._scroll_into_view)

    @Slot()
    def _scroll_into_view(self) -> None:
        QCoreApplication.sendPostedEvents(None, QEvent.Type.LayoutRequest)
        page = self.parentWidget()
        while page is not None and not isinstance(page, QScrollArea):
            page = page.parentWidget()
        if page is not None:
            page.ensureWidgetVisible(self, 0, S4)
