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

_NAME_W, _COLUMN_MIN_W = 150, 60
_BAR_H, _DASH = 4, 12
_MAX_ONE_LINE_JOBS = 3
_DIGITS, _MAX_DIGITS = 3, 6
_BEST = "best"


def row_texts(row: ComparedRow) -> tuple[str, ...]:
    """Return the texts of a row, with enough digits that only the best values read as best."""
    default_texts = tuple(_value_text(row, value, _DIGITS) for value in row.values)
    for digits in range(_DIGITS, _MAX_DIGITS + 1):
        texts = tuple(_value_text(row, value, digits) for value in row.values)
        marked_texts = list(zip(texts, row.best, strict=True))
        if not {text for text, is_best in marked_texts if is_best} & {
            text for text, is_best in marked_texts if not is_best
        }:
            return texts
    return default_texts


def _value_text(row: ComparedRow, value: float | str | None, digits: int) -> str:
    if value is None:
        return formats.NONE
    if isinstance(value, str):
        return value_label(row.key, value)
    return formats.duration(value) if row.kind is RowKind.SECONDS else formats.metric(value, digits)


class _HoverWidget(QWidget):
    """A part of a column that tracks whether the pointer is on it."""

    entered = Signal(int)

    def __init__(self, column: int, parent: QWidget) -> None:
        super().__init__(parent)
        self._column = column

    def enterEvent(self, event: QEnterEvent) -> None:
        super().enterEvent(event)
        self.entered.emit(self._column)


class _ColumnHead(_HoverWidget):
    """The head of a column: the job's colour, state and name, and the button that removes it.

    Signals:
        job_opened, removal_requested: The job's id.
        focus_lost: The focus moved away.
    """

    job_opened = Signal(str)
    removal_requested = Signal(str)
    focus_lost = Signal()

    def __init__(self, column: int, has_two_lines: bool, parent: QWidget) -> None:
        super().__init__(column, parent)
        self.job_id = ""
        self._colour = 0
        self._glyph = StateGlyph(size=18)
        self._name = Label("", "strong", elide="middle")
        self._name.setMinimumWidth(0)
        self._remove_button = IconButton("x", "Remove from the comparison")
        self._remove_button.setFixedSize(28, 28)
        self._remove_button.clicked.connect(lambda: self.removal_requested.emit(self.job_id))
        if has_two_lines:
            head_layout = col(row(self._glyph, STRETCH, self._remove_button), self._name, gap=0)
        else:
            head_layout = col(row(self._glyph, (self._name, 1), self._remove_button, gap=S2))
        self.setLayout(col(head_layout, gap=0, margins=(S2, _BAR_H + S2, S1, S2)))
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)

    def show_job(self, view: JobView, name: str, colour: int, read_error: str) -> None:
        self.job_id, self._colour = view.id, colour
        self._glyph.set_state(view.state, view.progress or 0.0)
        self._name.setText(name)
        self._name.set_color_role("text3" if read_error else "text")
        self._name.set_tip(
            f"{view.name}\n{read_error}" if read_error else f"{view.name}\n{view.state_label}"
        )
        self.setAccessibleName(f"{view.name}, {view.state_label}. {read_error}".strip())
        self._remove_button.set_tip(f"Remove “{view.name}” from the comparison")
        self.update()

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        super().mouseReleaseEvent(event)
        self.job_opened.emit(self.job_id)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_Space):
            self.job_opened.emit(self.job_id)
        elif event.key() == Qt.Key.Key_Delete:
            self.removal_requested.emit(self.job_id)
        else:
            super().keyPressEvent(event)

    def focusInEvent(self, event: QFocusEvent) -> None:
        """Highlight the job's curves, as under the pointer."""
        super().focusInEvent(event)
        self.entered.emit(self._column)
        self.update()

    def focusOutEvent(self, event: QFocusEvent) -> None:
        super().focusOutEvent(event)
        self.focus_lost.emit()
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
            dash = QRectF(x, bar.top(), min(_DASH, bar.right() - x), _BAR_H)
            fill_round(painter, dash, colour, 1)
            x += 1.5 * _DASH


class _ValueCell(_HoverWidget):
    """A value; the best is green and marked "best".

    The cell paints its texts itself: eight jobs have hundreds of cells, and as many labels and
    layouts took 0.1 s.
    """

    def __init__(self, column: int, parent: QWidget) -> None:
        super().__init__(column, parent)
        self._text = ""
        self.is_best = False
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        self.setFixedHeight(TABLE_ROW_COMPACT_H)

    def show_value(self, text: str, is_best: bool) -> None:
        if (text, is_best) != (self._text, self.is_best):
            self._text, self.is_best = text, is_best
            self.setAccessibleName(f"{text}, best" if is_best else text)
            self.update()

    def event(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.ToolTip:
            is_cut = text_width(self._text, self._role()) > self._value_rect().width()
            self.setToolTip(plain_tip(self._text) if is_cut else "")
        return super().event(event)

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        text_rect = self._value_rect()
        color_role = "good" if self.is_best else "text3" if self._text == formats.NONE else "text"
        width = paint_text(painter, text_rect, self._text, self._role(), color_role)
        if self.is_best:
            text_rect.setLeft(text_rect.left() + width + S2)
            text_rect.setRight(self.width())
            paint_text(painter, text_rect, _BEST, "tiny", "good")

    def _role(self) -> Role:
        return "strong" if self.is_best else "body"

    def _value_rect(self) -> QRectF:
        """Return the space for the value; "best" follows it."""
        best_w = text_width(_BEST, "tiny") + S2 if self.is_best else 0
        return QRectF(S2, 0, max(self.width() - S2 - best_w, 0), self.height())


class _TableBody(QWidget):
    """Rows in a grid, with a separator below each row of `separated_cells`."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.separated_cells: list[QWidget] = []
        self.grid = QGridLayout(self)
        self.grid.setContentsMargins(0, 0, 0, 0)
        self.grid.setSpacing(0)

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        for cell in self.separated_cells:
            top = cell.geometry().bottom()
            painter.fillRect(QRectF(0, top, self.width(), 1), theme.current().q("line"))


class CompareTable(QWidget):
    """The table, which creates rows only when the set of rows changes.

    Signals:
        job_hovered: The id of the job whose column is under the pointer, "" for none.
        job_opened, removal_requested: A job's id.
    """

    job_hovered = Signal(str)
    job_opened = Signal(str)
    removal_requested = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._comparison = ComparisonTable()
        self._colours: Mapping[str, int] = {}
        self._read_errors: Mapping[str, str] = {}
        self._names: tuple[str, ...] = ()
        self._layout_key: tuple[object, ...] = ()
        self._heads: list[_ColumnHead] = []
        self._cells: dict[str, list[_ValueCell]] = {}
        self._body = _TableBody(self)
        self._equal_label = Label("", "small", "text3")
        self._all_switch = Switch("Show all")
        self._all_switch.toggled.connect(
            lambda: self.show_comparison(
                self._comparison, self._colours, self._read_errors, self._names
            )
        )
        self._column = col(self._body, gap=0)
        self.setLayout(self._column)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Minimum)

    def show_comparison(
        self,
        comparison: ComparisonTable,
        colours: Mapping[str, int],
        read_errors: Mapping[str, str],
        names: Sequence[str],
    ) -> None:
        """Show the jobs, each in its colour.

        Args:
            names: The short name of each job, for narrow columns.
            read_errors: The reason why a job could not be updated, by the job's id.
        """
        self._comparison, self._colours, self._read_errors = comparison, colours, read_errors
        self._names = tuple(names)
        layout_key = (
            len(comparison.jobs),
            tuple((row.key, row.label) for row in self._visible_rows()),
            self._all_switch.isChecked(),
        )
        column, job_id = self._focused_head()
        head = self._heads[column] if job_id else None
        if layout_key != self._layout_key:
            self._layout_key = layout_key
            self._lay_out()
        self._fill_cells()
        if job_id and self._heads:
            # When a job is removed, the job that follows gets the focus.
            ids = [head.job_id for head in self._heads]
            index = ids.index(job_id) if job_id in ids else min(column, len(ids) - 1)
            if self._heads[index] is not head:
                self._heads[index].setFocus()

    def texts(self) -> dict[str, list[str]]:
        """Return the texts of each row, for tests."""
        return {
            key: [cell.accessibleName() for cell in cells] for key, cells in self._cells.items()
        }

    def leaveEvent(self, event: QEvent) -> None:
        super().leaveEvent(event)
        self.job_hovered.emit("")

    def _visible_rows(self) -> tuple[ComparedRow, ...]:
        comparison = self._comparison
        equal = comparison.equal if self._all_switch.isChecked() else ()
        return (*comparison.results, *comparison.differing, *equal)

    def _focused_head(self) -> tuple[int, str]:
        """Return the column and the job of the head that has the focus; "" for none."""
        # Not the application's focus: it has none while another program's window is in front.
        focus = self.window().focusWidget()
        for column, head in enumerate(self._heads):
            if focus is not None and (focus is head or head.isAncestorOf(focus)):
                return column, head.job_id
        return 0, ""

    def _lay_out(self) -> None:
        keeps_focus = self.window().focusWidget() is self._all_switch
        # Hidden while it is filled, or else the page is laid out again for each row.
        body = _TableBody(self)
        body.hide()
        grid = body.grid
        self._heads, self._cells = [], {}
        comparison = self._comparison
        grid.setColumnMinimumWidth(0, _NAME_W)
        grid.setColumnStretch(0, 2)
        for column, _ in enumerate(comparison.jobs, 1):
            grid.setColumnMinimumWidth(column, _COLUMN_MIN_W)
            # Equal shares for any content.
            grid.setColumnStretch(column, 3)
            head = _ColumnHead(column - 1, len(comparison.jobs) > _MAX_ONE_LINE_JOBS, body)
            head.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
            head.entered.connect(self._report_hover)
            head.focus_lost.connect(lambda: self.job_hovered.emit(""))
            head.job_opened.connect(self.job_opened)
            head.removal_requested.connect(self.removal_requested)
            grid.addWidget(head, 0, column)
            self._heads.append(head)
        row_number = self._add_section(body, 1, "Results", comparison.results)
        settings = (
            *comparison.differing,
            *(comparison.equal if self._all_switch.isChecked() else ()),
        )
        title = "Settings" if self._all_switch.isChecked() else "Settings that differ"
        if not comparison.differing and not self._all_switch.isChecked():
            title = "All settings are the same" if len(comparison.jobs) > 1 else "Settings"
        controls = QWidget(body)
        controls.setLayout(
            row(STRETCH, self._equal_label, self._all_switch, gap=S2, margins=(0, S4, 0, S1))
        )
        grid.addWidget(controls, row_number, 1, 1, max(len(comparison.jobs), 1))
        self._add_section(body, row_number, title, settings)
        self._column.replaceWidget(self._body, body)
        self._body.hide()
        self._body.deleteLater()
        self._body = body
        body.show()
        if keeps_focus:
            self._all_switch.setFocus()

    def _add_section(
        self, body: _TableBody, row_number: int, title: str, rows: Sequence[ComparedRow]
    ) -> int:
        """Add a section; return the number of the row after it."""
        caption = Label(title, "small_strong", "text3")
        caption.setContentsMargins(0, S4 if row_number > 1 else S2, 0, S1)
        body.grid.addWidget(caption, row_number, 0)
        for compared_row in rows:
            row_number += 1
            name_label = Label(compared_row.label, "body", "text2", elide="right")
            name_label.setMinimumHeight(TABLE_ROW_COMPACT_H)
            body.grid.addWidget(name_label, row_number, 0)
            body.separated_cells.append(name_label)
            self._cells[compared_row.key] = []
            for column in range(len(self._comparison.jobs)):
                cell = _ValueCell(column, body)
                cell.entered.connect(self._report_hover)
                body.grid.addWidget(cell, row_number, column + 1)
                self._cells[compared_row.key].append(cell)
        if body.separated_cells and rows:
            body.separated_cells.pop()
        return row_number + 1

    def _fill_cells(self) -> None:
        comparison = self._comparison
        has_short_names = len(comparison.jobs) > _MAX_ONE_LINE_JOBS
        for head, view, name in zip(self._heads, comparison.jobs, self._names, strict=True):
            shown_name = name if has_short_names else view.name
            read_error = self._read_errors.get(view.id, "")
            head.show_job(view, shown_name, self._colours.get(view.id, 0), read_error)
        for compared_row in self._visible_rows():
            values = zip(
                self._cells[compared_row.key],
                row_texts(compared_row),
                compared_row.best,
                strict=True,
            )
            for cell, text, is_best in values:
                cell.show_value(text, is_best)
        count = len(comparison.equal)
        hidden_suffix = "" if self._all_switch.isChecked() else " hidden"
        # "equal" needs at least two jobs.
        noun = "equal row" if len(comparison.jobs) > 1 else "row"
        self._equal_label.setText(f"{formats.plural(count, noun)}{hidden_suffix}")
        self._equal_label.setVisible(count > 0)
        self._all_switch.setVisible(count > 0)

    @Slot(int)
    def _report_hover(self, column: int) -> None:
        if column < len(self._comparison.jobs):
            self.job_hovered.emit(self._comparison.jobs[column].id)
