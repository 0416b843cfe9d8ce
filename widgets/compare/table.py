"""The table of Compare: a column per job; results first, then the settings that differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from PySide6.QtCore import QEvent, QRectF, Qt, Signal, Slot
from PySide6.QtGui import (
    QEnterEvent,
    QFocusEvent,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
)
from PySide6.QtWidgets import QGridLayout, QSizePolicy, QWidget

from backend.records.jobs.comparison import ComparedRow, ComparisonTable, RowKind
from backend.records.jobs.settings import value_label
from backend.records.jobs.view import JobView
from widgets.common import formats, theme
from widgets.common.buttons import IconButton, Switch
from widgets.common.labels import Label, plain_tip
from widgets.common.layout import STRETCH, col, row
from widgets.common.painting import fill_round, paint_focus, paint_text, text_width
from widgets.common.state_badge import StateGlyph
from widgets.common.theme import S1, S2, S4, TABLE_ROW_COMPACT_H, Role
from widgets.plots.annotations import curve_colour, is_dashed

_FIRST_W, _COLUMN_LEAST_W = 150, 60
_BAR_H, _DASH = 4, 12
_ONE_LINE_UP_TO = 3
_DIGITS, _MOST_DIGITS = 3, 6
_BEST = "best"


def row_texts(row: ComparedRow) -> tuple[str, ...]:
    """Return the texts of a row, with enough digits that only the best looks like the best."""
    usual = tuple(_in_words(row, value, _DIGITS) for value in row.values)
    for digits in range(_DIGITS, _MOST_DIGITS + 1):
        words = tuple(_in_words(row, value, digits) for value in row.values)
        said = list(zip(words, row.best, strict=True))
        if not {one for one, best in said if best} & {one for one, best in said if not best}:
            return words
    return usual


def _in_words(row: ComparedRow, value: float | str | None, digits: int) -> str:
    if value is None:
        return formats.NONE
    if isinstance(value, str):
        return value_label(row.key, value)
    return formats.duration(value) if row.kind is RowKind.SECONDS else formats.metric(value, digits)


class _Hovered(QWidget):
    """A part of a column that tracks whether the pointer is on it."""

    entered = Signal(int)

    def __init__(self, column: int, parent: QWidget) -> None:
        super().__init__(parent)
        self._column = column

    def enterEvent(self, event: QEnterEvent) -> None:
        super().enterEvent(event)
        self.entered.emit(self._column)


class _Head(_Hovered):
    """The head of a column: the job's colour, state and name, and the button that removes it.

    Signals:
        opened, removed: The job's id.
        left: The focus moved away.
    """

    opened = Signal(str)
    removed = Signal(str)
    left = Signal()

    def __init__(self, column: int, two_lines: bool, parent: QWidget) -> None:
        super().__init__(column, parent)
        self._id = ""
        self._colour = 0
        self._glyph = StateGlyph(size=18)
        self._name = Label("", "strong", elide="middle")
        self._name.setMinimumWidth(0)
        self._remove = IconButton("x", "Remove from the comparison")
        self._remove.setFixedSize(28, 28)
        self._remove.clicked.connect(lambda: self.removed.emit(self._id))
        if two_lines:
            words = col(row(self._glyph, STRETCH, self._remove), self._name, gap=0)
        else:
            words = col(row(self._glyph, (self._name, 1), self._remove, gap=S2))
        self.setLayout(col(words, gap=0, margins=(S2, _BAR_H + S2, S1, S2)))
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)

    @property
    def job_id(self) -> str:
        return self._id

    def show_job(self, view: JobView, name: str, colour: int, gone: str) -> None:
        self._id, self._colour = view.id, colour
        self._glyph.set_state(view.state, view.progress or 0.0)
        self._name.setText(name)
        self._name.set_color_role("text3" if gone else "text")
        self._name.set_tip(f"{view.name}\n{gone}" if gone else f"{view.name}\n{view.state.label}")
        self.setAccessibleName(f"{view.name}, {view.state.label}. {gone}".strip())
        self._remove.set_tip(f"Remove “{view.name}” from the comparison")
        self.update()

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        super().mouseReleaseEvent(event)
        self.opened.emit(self._id)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_Space):
            self.opened.emit(self._id)
        elif event.key() == Qt.Key.Key_Delete:
            self.removed.emit(self._id)
        else:
            super().keyPressEvent(event)

    def focusInEvent(self, event: QFocusEvent) -> None:
        """Highlight the job's curves, as under the pointer."""
        super().focusInEvent(event)
        self.entered.emit(self._column)
        self.update()

    def focusOutEvent(self, event: QFocusEvent) -> None:
        super().focusOutEvent(event)
        self.left.emit()
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        if self.hasFocus():
            paint_focus(painter, QRectF(self.rect()).adjusted(0, _BAR_H + S1, 0, -S1))
        bar = QRectF(S2, 0, self.width() - 2 * S2, _BAR_H)
        colour = curve_colour(self._colour)
        if not is_dashed(self._colour):
            fill_round(painter, bar, colour, _BAR_H / 2)
            return
        x = bar.left()
        while x < bar.right():
            piece = QRectF(x, bar.top(), min(_DASH, bar.right() - x), _BAR_H)
            fill_round(painter, piece, colour, 1)
            x += 1.5 * _DASH


class _Cell(_Hovered):
    """A value; the best is green and marked "best".

    It paints its two words itself: eight jobs have hundreds of cells, and as many labels and
    layouts took 0.1 s.
    """

    def __init__(self, column: int, parent: QWidget) -> None:
        super().__init__(column, parent)
        self._text = ""
        self.is_best = False
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        self.setFixedHeight(TABLE_ROW_COMPACT_H)

    def show_value(self, text: str, best: bool) -> None:
        if (text, best) != (self._text, self.is_best):
            self._text, self.is_best = text, best
            self.setAccessibleName(f"{text}, best" if best else text)
            self.update()

    def event(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.ToolTip:
            is_cut = text_width(self._text, self._role()) > self._room().width()
            self.setToolTip(plain_tip(self._text) if is_cut else "")
        return super().event(event)

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        room = self._room()
        tone = "good" if self.is_best else "text3" if self._text == formats.NONE else "text"
        width = paint_text(painter, room, self._text, self._role(), tone)
        if self.is_best:
            room.setLeft(room.left() + width + S2)
            room.setRight(self.width())
            paint_text(painter, room, _BEST, "tiny", "good")

    def _role(self) -> Role:
        return "strong" if self.is_best else "body"

    def _room(self) -> QRectF:
        """Return the space for the value; "best" follows it."""
        taken = text_width(_BEST, "tiny") + S2 if self.is_best else 0
        return QRectF(S2, 0, max(self.width() - S2 - taken, 0), self.height())


class _Body(QWidget):
    """Rows in a grid, with a separator below each row of `lines`."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.lines: list[QWidget] = []
        self.grid = QGridLayout(self)
        self.grid.setContentsMargins(0, 0, 0, 0)
        self.grid.setSpacing(0)

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        for cell in self.lines:
            top = cell.geometry().bottom()
            painter.fillRect(QRectF(0, top, self.width(), 1), theme.current().q("line"))


class CompareTable(QWidget):
    """Creates rows only when the set of rows changes; updates change their texts.

    Signals:
        pointed: The id of the job whose column is under the pointer, "" for none.
        opened, removed: A job's id.
    """

    pointed = Signal(str)
    opened = Signal(str)
    removed = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._comparison = ComparisonTable()
        self._colours: Mapping[str, int] = {}
        self._gone: Mapping[str, str] = {}
        self._names: tuple[str, ...] = ()
        self._layout: tuple[object, ...] = ()
        self._heads: list[_Head] = []
        self._cells: dict[str, list[_Cell]] = {}
        self._body = _Body(self)
        self._equal = Label("", "small", "text3")
        self._all = Switch("Show all")
        self._all.toggled.connect(self._show_all)
        self._column = col(self._body, gap=0)
        self.setLayout(self._column)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Minimum)

    def show_comparison(
        self,
        comparison: ComparisonTable,
        colours: Mapping[str, int],
        gone: Mapping[str, str],
        names: Sequence[str],
    ) -> None:
        """Show the jobs, each in its colour.

        Args:
            names: The short name of each job, for where there is no room for its whole name.
            gone: Why a job could not be updated, by its id.
        """
        self._comparison, self._colours, self._gone = comparison, colours, gone
        self._names = tuple(names)
        wanted = (
            len(comparison.jobs),
            tuple((row.key, row.label) for row in self._shown()),
            self._all.isChecked(),
        )
        column, job_id = self._focused_head()
        head = self._heads[column] if job_id else None
        if wanted != self._layout:
            self._layout = wanted
            self._lay_out()
        self._fill()
        if job_id and self._heads:
            # When a job is removed, the job that takes its place gets the focus.
            ids = [head.job_id for head in self._heads]
            at = ids.index(job_id) if job_id in ids else min(column, len(ids) - 1)
            if self._heads[at] is not head:
                self._heads[at].setFocus()

    def texts(self) -> dict[str, list[str]]:
        """Return the texts of each row, for tests."""
        return {
            key: [cell.accessibleName() for cell in cells] for key, cells in self._cells.items()
        }

    def leaveEvent(self, event: QEvent) -> None:
        super().leaveEvent(event)
        self.pointed.emit("")

    def _shown(self) -> tuple[ComparedRow, ...]:
        found = self._comparison
        equal = found.equal if self._all.isChecked() else ()
        return (*found.results, *found.differing, *equal)

    def _focused_head(self) -> tuple[int, str]:
        """Return the column and the job of the head that has the focus; "" for none."""
        # Not the application's focus: it has none while another program's window is in front.
        focus = self.window().focusWidget()
        for column, head in enumerate(self._heads):
            if focus is not None and (focus is head or head.isAncestorOf(focus)):
                return column, head.job_id
        return 0, ""

    @Slot()
    def _show_all(self) -> None:
        self.show_comparison(self._comparison, self._colours, self._gone, self._names)

    def _lay_out(self) -> None:
        keeps_focus = self.window().focusWidget() is self._all
        # Hidden while it is filled: otherwise the page is laid out again for each row.
        body = _Body(self)
        body.hide()
        grid = body.grid
        self._heads, self._cells = [], {}
        found = self._comparison
        grid.setColumnMinimumWidth(0, _FIRST_W)
        grid.setColumnStretch(0, 2)
        for column, _ in enumerate(found.jobs, 1):
            grid.setColumnMinimumWidth(column, _COLUMN_LEAST_W)
            # Equal shares, whatever their content.
            grid.setColumnStretch(column, 3)
            head = _Head(column - 1, len(found.jobs) > _ONE_LINE_UP_TO, body)
            head.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
            head.entered.connect(self._point)
            head.left.connect(lambda: self.pointed.emit(""))
            head.opened.connect(self.opened)
            head.removed.connect(self.removed)
            grid.addWidget(head, 0, column)
            self._heads.append(head)
        number = self._section(body, 1, "Results", found.results)
        settings = (*found.differing, *(found.equal if self._all.isChecked() else ()))
        title = "Settings" if self._all.isChecked() else "Settings that differ"
        if not found.differing and not self._all.isChecked():
            title = "All settings are the same" if len(found.jobs) > 1 else "Settings"
        beside = QWidget(body)
        beside.setLayout(row(STRETCH, self._equal, self._all, gap=S2, margins=(0, S4, 0, S1)))
        grid.addWidget(beside, number, 1, 1, max(len(found.jobs), 1))
        self._section(body, number, title, settings)
        self._column.replaceWidget(self._body, body)
        self._body.hide()
        self._body.deleteLater()
        self._body = body
        body.show()
        if keeps_focus:
            self._all.setFocus()

    def _section(self, body: _Body, number: int, title: str, rows: Sequence[ComparedRow]) -> int:
        """Add a section; return the number of the row after it."""
        caption = Label(title, "small_strong", "text3")
        caption.setContentsMargins(0, S4 if number > 1 else S2, 0, S1)
        body.grid.addWidget(caption, number, 0)
        for shown in rows:
            number += 1
            name = Label(shown.label, "body", "text2", elide="right")
            name.setMinimumHeight(TABLE_ROW_COMPACT_H)
            body.grid.addWidget(name, number, 0)
            body.lines.append(name)
            self._cells[shown.key] = []
            for column in range(len(self._comparison.jobs)):
                cell = _Cell(column, body)
                cell.entered.connect(self._point)
                body.grid.addWidget(cell, number, column + 1)
                self._cells[shown.key].append(cell)
        if body.lines and rows:
            body.lines.pop()
        return number + 1

    def _fill(self) -> None:
        found = self._comparison
        crowded = len(found.jobs) > _ONE_LINE_UP_TO
        for head, view, name in zip(self._heads, found.jobs, self._names, strict=True):
            shown_name = name if crowded else view.name
            gone = self._gone.get(view.id, "")
            head.show_job(view, shown_name, self._colours.get(view.id, 0), gone)
        for shown in self._shown():
            values = zip(self._cells[shown.key], row_texts(shown), shown.best, strict=True)
            for cell, words, best in values:
                cell.show_value(words, best)
        count = len(found.equal)
        hidden = "" if self._all.isChecked() else " hidden"
        # "equal" needs at least two jobs.
        kind = "equal row" if len(found.jobs) > 1 else "row"
        self._equal.setText(f"{formats.plural(count, kind)}{hidden}")
        self._equal.setVisible(count > 0)
        self._all.setVisible(count > 0)

    @Slot(int)
    def _point(self, column: int) -> None:
        if column < len(self._comparison.jobs):
            self.pointed.emit(self._comparison.jobs[column].id)
