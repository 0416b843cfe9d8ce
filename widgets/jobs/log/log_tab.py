"""The tab Log: the log of a rank, of mpirun, or of all ranks, of any length.

The tab only knows line numbers: it requests the visible lines, and the search runs in the
background. So a log of 200 MB opens as fast as its lines can be counted, and a log that grows by
10,000 lines a second costs the window no more than a finished log.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from PySide6.QtCore import QEvent, QObject, QPoint, QSize, Qt, QTimer, Signal, Slot
from PySide6.QtGui import QGuiApplication, QKeyEvent, QResizeEvent
from PySide6.QtWidgets import QMenu, QStackedWidget, QWidget

from backend.records.jobs.log_numbers import (
    invalid_pattern,
    is_name,
    number_spans,
    numbers_of,
    pattern_for,
)
from backend.records.jobs.view import (
    ALL_LOGS,
    MPIRUN_LOG,
    JobView,
    LogLines,
    LogMatches,
    LogSize,
)
from widgets.common import formats, icons
from widgets.common.buttons import Button, IconButton
from widgets.common.cards import Card, EmptyState
from widgets.common.dialog import DialogHolder, Question
from widgets.common.fields import ComboBox, Field, LineEdit, SearchField
from widgets.common.labels import Label, plain_tip
from widgets.common.layout import col, keep_size_when_hidden, row
from widgets.common.theme import ICON_SMALL, PAGE_MARGIN, S2, S3
from widgets.jobs.log.log_ansi import strip_codes
from widgets.jobs.log.log_view import LogView

POLL_INTERVAL_MS = 500
_MAX_NUMBERS = 12
"""The most numbers of a line in its menu, each with the preceding text."""
_SEPARATORS = " \t[](){}/|,;:*"
MAX_COPIED_LINES = 50_000
"""The most lines that are copied at once."""
_LONG_LABELS_FROM_W = 640


@dataclass(frozen=True)
class LogRange:
    """Lines of the log of a rank, of "mpirun" or of "all"; line numbers start at 0."""

    job_id: str
    source: str
    start: int
    count: int


@dataclass(frozen=True)
class LogSearch:
    """A text to find from line ``start`` on; "" only cancels the previous search."""

    job_id: str
    source: str
    text: str = ""
    start: int = 0


class LogTab(QWidget):
    """The tab Log.

    Signals:
        length_requested: Job id and source; read the length of the log.
        lines_requested: The `LogRange` to show.
        find_requested: A `LogSearch`.
        error_requested: Job id and source; find the first error.
        copy_requested: The `LogRange` to copy; answer with `show_copied`.
        number_marked: Job id, and the pattern of a number to draw.
    """

    length_requested = Signal(str, str)
    lines_requested = Signal(LogRange)
    find_requested = Signal(LogSearch)
    error_requested = Signal(str, str)
    copy_requested = Signal(LogRange)
    number_marked = Signal(str, str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._job_id = ""
        self._is_live = False
        self._is_requested = False
        self._size: LogSize | None = None
        self._read_error = ""
        self._seen_lines = 0
        self._error_lines: dict[str, int] = {}
        self._wanted_line = -1
        self._runs_script = False
        self._make_search()
        self.view = LogView()
        self.number_dialog: DialogHolder[Question] = DialogHolder()
        self._error_button = Button("First error", icon="warning")
        self._error_icon_button = IconButton("warning", "First error")
        for button in (self._error_button, self._error_icon_button):
            button.clicked.connect(self._request_error)
        copy_button = IconButton("copy", "Copy the selected lines, or all")
        copy_button.clicked.connect(lambda: self._request_copy(*self.view.selection()))
        self.view.lines_requested.connect(
            lambda start, count: self.lines_requested.emit(
                LogRange(self._job_id, self.source, start, count)
            )
        )
        self.view.copy_requested.connect(self._request_copy)
        self.view.menu_requested.connect(self._open_menu)
        self.view.following_changed.connect(self._update_display)
        self._empty_state = EmptyState("article", "")
        self._stack = QStackedWidget()
        self._stack.addWidget(self.view)
        self._stack.addWidget(self._empty_state)
        self._state_label = Label("", "small", "text3", elide="right")
        self._follow_button = Button("", icon="caret-down", tip="Follow the end of the log")
        self._follow_button.clicked.connect(self._follow_end)
        head = row(
            *(self._picker, (self._search, 1), self._count_label),
            *(self._previous_button, self._next_button),
            *(self._error_button, self._error_icon_button, copy_button),
            gap=S2,
        )
        foot = row((self._state_label, 1), self._follow_button)
        keep_size_when_hidden(self._follow_button)
        card = Card(head, (self._stack, 1), foot, gap=S2)
        self.setLayout(col((card, 1), margins=(0, 0, PAGE_MARGIN, S3), gap=0))
        self._timer = QTimer(self, interval=POLL_INTERVAL_MS)
        self._timer.timeout.connect(self._poll)
        self._update_display()

    def _make_search(self) -> None:
        self._picker = ComboBox(name="Log to show")
        self._picker.setIconSize(QSize(ICON_SMALL, ICON_SMALL))
        self._picker.setMinimumWidth(124)
        self._picker.currentIndexChanged.connect(self._reset)
        self._search = SearchField("Search in the log")
        self._search.searched.connect(self._search_text)
        self._search.installEventFilter(self)
        self._count_label = Label("", "small", "text2")
        self._match_lines: tuple[int, ...] = ()
        self._matched_text = ""
        self._searched_lines = 0
        self._is_cut = False
        self._is_searching = False
        self._current_match = -1
        self._previous_button = IconButton("caret-up", "Previous match")
        self._previous_button.clicked.connect(lambda: self._step_match(-1))
        self._next_button = IconButton("caret-down", "Next match")
        self._next_button.clicked.connect(lambda: self._step_match(1))

    @property
    def source(self) -> str:
        """Return the log that is shown: the number of a rank, "mpirun" or "all"."""
        return self._picker.key()

    def open_job(self, view: JobView) -> None:
        """Open another job or run with the log of the rank that failed, or of rank 0.

        Another run of the same job keeps the chosen log.
        """
        error = view.error
        failed_rank = error.rank if error is not None else None
        kept_source = self.source if view.id == self._job_id and failed_rank is None else ""
        self._job_id = view.id
        self._is_live = view.state.is_live
        self._runs_script = bool(view.config.script)
        self._error_lines = {}
        for line in error.evidence if error is not None else ():
            self._error_lines.setdefault(
                line.file.partition(".")[0].removeprefix("rank-"), line.line
            )
        options = [(ALL_LOGS, "All ranks"), (MPIRUN_LOG, "mpirun")]
        options += [(str(rank), f"Rank {rank}") for rank in range(view.world_size)]
        self._picker.blockSignals(True)
        source = kept_source if kept_source in dict(options) else str(failed_rank or 0)
        self._picker.set_options(options, source)
        if failed_rank is not None and failed_rank < view.world_size:
            self._picker.setItemIcon(failed_rank + 2, icons.icon("x-circle-fill", "bad"))
            tip = plain_tip("The first rank that failed")
            self._picker.setItemData(failed_rank + 2, tip, Qt.ItemDataRole.ToolTipRole)
        self._picker.blockSignals(False)
        self._reset()

    def show_view(self, view: JobView) -> None:
        """Update the job; when it has ended, its log is read once more."""
        if view.id == self._job_id and view.state.is_live != self._is_live:
            self._is_live = view.state.is_live
            self._request_length()

    def show_source(self, source: str, line: int = 0) -> None:
        """Show another log; with ``line`` (from 1), at this line."""
        self._wanted_line = line - 1
        if source != self.source:
            self._picker.choose(source)
            self._wanted_line = line - 1
        self._go_to_wanted_line()

    def focus_search(self) -> None:
        self._search.setFocus()

    # -- input

    def show_size(self, job_id: str, source: str, size: LogSize) -> None:
        if not self._is_shown(job_id, source):
            return
        self._is_requested = False
        self._read_error = ""
        if self._size is not None and size.generation != self._size.generation:
            self._seen_lines = 0
        self._size = size
        self.view.set_numbers_visible(not size.begins_at)
        self.view.set_size(size.lines, size.generation)
        if self.view.is_following or not self._seen_lines:
            self._seen_lines = size.lines
        self._go_to_wanted_line()
        has_unsearched_lines = self._searched_lines < size.lines and not self._is_cut
        if self._search.text() and has_unsearched_lines and not self._is_searching:
            self._request_matches()
        self._update_display()

    def show_lines(self, job_id: str, source: str, lines: LogLines) -> None:
        if self._is_shown(job_id, source):
            self.view.show_lines(lines)

    def show_matches(self, job_id: str, source: str, matches: LogMatches) -> None:
        size = self._size
        self._is_searching = False
        if not self._is_shown(job_id, source) or matches.text != self._search.text():
            return
        if size is None or matches.generation != size.generation:
            return
        is_first = not self._match_lines
        known_count = (
            bisect_left(matches.lines, self._match_lines[-1] + 1) if self._match_lines else 0
        )
        self._match_lines += matches.lines[known_count:]
        self._searched_lines = matches.searched_count
        self._is_cut = matches.is_cut
        self._matched_text = matches.text
        self.view.set_matches(matches.text, self._match_lines)
        if is_first and self._match_lines:
            self._current_match = max(0, bisect_left(self._match_lines, self.view.first_line))
            self._current_match = min(self._current_match, len(self._match_lines) - 1)
            self.view.go_to(self._match_lines[self._current_match])
        self._update_display()

    def show_error_line(self, job_id: str, source: str, line: int | None) -> None:
        if not self._is_shown(job_id, source):
            return
        if line is None:
            self._count_label.setText("No errors found")
        else:
            self.view.go_to(line)
            self._count_label.setText(f"Line {formats.count(line + 1)}")

    def show_searching(self, job_id: str, source: str, share: float | None) -> None:
        """Show the progress of a search, 0 to 1."""
        if self._is_shown(job_id, source) and share is not None and share < 1:
            self._count_label.setText(f"Searching, {formats.percent(share)}")

    def show_copied(self, lines: LogLines) -> None:
        texts = [strip_codes(line) for line in lines.lines]
        if lines.sources:
            texts = [f"{source}  {text}" for source, text in zip(lines.sources, texts, strict=True)]
        QGuiApplication.clipboard().setText("\n".join(texts))

    def show_error(self, job_id: str, source: str, message: str) -> None:
        """Show why the log could not be read; the tab tries again."""
        if self._is_shown(job_id, source):
            self._is_requested = self._is_searching = False
            self._read_error = message
            self._update_display()

    # -- requests

    def eventFilter(self, target: QObject, event: QEvent) -> bool:
        """Go to the next match on Enter, with Shift to the previous; Esc leaves the search."""
        enter_keys = (Qt.Key.Key_Return, Qt.Key.Key_Enter)
        is_press = event.type() == QEvent.Type.KeyPress
        if not is_press or not isinstance(event, QKeyEvent):
            return bool(super().eventFilter(target, event))
        if event.key() == Qt.Key.Key_Escape and not self._search.text():
            self.view.setFocus()
            return True
        if event.key() in enter_keys:
            is_backward = bool(event.modifiers() & Qt.KeyboardModifier.ShiftModifier)
            if self._match_lines and self._matched_text == self._search.text():
                self._step_match(-1 if is_backward else 1)
                return True
        return bool(super().eventFilter(target, event))

    def showEvent(self, event: object) -> None:
        self._timer.start()
        self._request_length()

    def hideEvent(self, event: object) -> None:
        self._timer.stop()

    def _is_shown(self, job_id: str, source: str) -> bool:
        return job_id == self._job_id and source == self.source

    @Slot()
    def _reset(self) -> None:
        self._is_requested = False
        self._size = None
        self._read_error = ""
        self._seen_lines = 0
        self._wanted_line = -1
        self._forget_matches()
        self.view.clear()
        self._update_display()
        self._request_length()

    @Slot()
    def _poll(self) -> None:
        # The log of an ended job does not grow: it is read until that worked once.
        if self._size is None or self._is_live or self._read_error:
            self._request_length()

    def _request_length(self) -> None:
        if self._job_id and self.isVisible() and not self._is_requested:
            self._is_requested = True
            self.length_requested.emit(self._job_id, self.source)

    @Slot(str)
    def _search_text(self, text: str) -> None:
        self._forget_matches()
        if text and self._size is not None:
            self._count_label.setText("Searching…")
            self._request_matches()
        else:
            self.find_requested.emit(LogSearch(self._job_id, self.source))
            self._update_display()

    def _request_matches(self) -> None:
        self._is_searching = True
        search = LogSearch(self._job_id, self.source, self._search.text(), self._searched_lines)
        self.find_requested.emit(search)

    def _forget_matches(self) -> None:
        self._match_lines, self._searched_lines, self._current_match = (), 0, -1
        self._is_cut = self._is_searching = False
        self.view.set_matches("", ())

    def _step_match(self, offset: int) -> None:
        if self._match_lines:
            self._current_match = (self._current_match + offset) % len(self._match_lines)
            self.view.go_to(self._match_lines[self._current_match])
            self._update_display()

    @Slot()
    def _request_error(self) -> None:
        error_line = self._error_lines.get(self.source, 0)
        if error_line and self._size is not None and not self._size.begins_at:
            self.show_error_line(self._job_id, self.source, error_line - 1)
        else:
            self._count_label.setText("Searching…")
            self.error_requested.emit(self._job_id, self.source)

    @Slot(int, int)
    def _request_copy(self, start: int, count: int) -> None:
        total = self.view.line_count
        if not count:
            start, count = max(0, total - MAX_COPIED_LINES), total
        if count:
            lines = LogRange(self._job_id, self.source, start, min(count, MAX_COPIED_LINES))
            self.copy_requested.emit(lines)

    @Slot(int, QPoint)
    def _open_menu(self, line: int, position: QPoint) -> None:
        """Offer the numbers of a line: rank 0 draws the numbers of its own log."""
        text = self.view.line_text(line) or ""
        spans = number_spans(text)[:_MAX_NUMBERS]
        if not (self._runs_script and self.source == "0" and spans):
            return
        menu = QMenu(self)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        for label_start, (start, end) in zip([0, *(end for _, end in spans)], spans, strict=False):
            label = text[label_start:end].lstrip(_SEPARATORS).replace("&", "&&")
            menu.addAction(f"Draw {label}…", partial(self._open_number_dialog, text, (start, end)))
        menu.popup(position)

    def _open_number_dialog(self, text: str, number_span: tuple[int, int]) -> None:
        note = (
            "It is drawn from the next lines on; if nothing is drawn yet, from the first line."
            if self._is_live
            else "It is drawn when the job runs again. The log that is here stays as it is."
        )
        draw = partial(self.number_marked.emit, self._job_id)
        self.number_dialog.open(number_question(text, number_span, note, draw, self))

    @Slot()
    def _follow_end(self) -> None:
        self.view.to_end()
        self._seen_lines = self.view.line_count
        self._update_display()

    def _go_to_wanted_line(self) -> None:
        if self._wanted_line >= 0 and self._size is not None:
            if not self._size.begins_at:
                self.view.go_to(min(self._wanted_line, max(0, self.view.line_count - 1)))
            self._wanted_line = -1

    # -- display

    @Slot()
    def _update_display(self) -> None:
        size = self._size
        if self.view.is_following and size is not None:
            self._seen_lines = size.lines
        self._stack.setCurrentWidget(self.view if self.view.line_count else self._empty_state)
        if self._read_error:
            self._empty_state.show_message("warning", "Could not read the log", self._read_error)
        elif size is None:
            self._empty_state.show_message("article", "Reading the log…")
        else:
            self._empty_state.show_message(
                "article",
                "No output yet" if self._is_live else "No output",
                "Output appears here as the program prints it." if self._is_live else "",
            )
        self._state_label.setText(self._state_message())
        new_lines = size.lines - self._seen_lines if size is not None else 0
        self._follow_button.setText(
            formats.plural(new_lines, "new line") if new_lines else "Follow"
        )
        self._follow_button.setVisible(not self.view.is_following and self.view.line_count > 0)
        match_count = len(self._match_lines)
        for button in (self._previous_button, self._next_button):
            button.setVisible(bool(self._search.text()))
            button.setEnabled(match_count > 0)
        self._fit_head()
        if self._search.text() and (self._searched_lines or match_count):
            cut_suffix = " and more" if self._is_cut else ""
            if match_count:
                position_text = formats.count_of(self._current_match + 1, match_count)
                count_text = position_text if self._current_match >= 0 else f"{match_count} lines"
                self._count_label.setText(f"{count_text}{cut_suffix}")
            else:
                self._count_label.setText("No matches")
        elif not self._search.text():
            self._count_label.setText("")

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit_head()

    def _fit_head(self) -> None:
        """Show a short error button where the search needs the space."""
        is_short = bool(self._search.text()) and self.width() < _LONG_LABELS_FROM_W
        self._error_button.setVisible(not is_short)
        self._error_icon_button.setVisible(is_short)

    def _state_message(self) -> str:
        if self._read_error and self.view.line_count:
            return self._read_error
        if self._size is None or not self._size.lines:
            return ""
        size = formats.disk(self._size.size_bytes)
        message = f"{formats.plural(self._size.lines, 'line')}, {size}"
        if self._size.begins_at:
            message += ". Only the end is shown. “Open folder” has the whole log"
        elif self.source == ALL_LOGS:
            message += (
                ". Lines are in the order in which they arrived; older lines are rank by rank"
            )
        return message


_HINT = "epoch, epochs, step and total_steps set the progress; any other name is a curve."


def number_question(
    line: str,
    number_span: tuple[int, int],
    note: str,
    draw: Callable[[str], object],
    parent: QWidget | None = None,
) -> Question:
    """Ask for the name of a number in a line; ``draw`` gets the pattern of the number."""
    name_edit = LineEdit(name="Name of the number")
    name_field = Field("Name", name_edit)
    pattern_edit = LineEdit(name="Pattern")
    pattern_field = Field("Pattern", pattern_edit)

    def fill_pattern() -> None:
        name = name_edit.text().strip()
        name_field.set_error("" if is_name(name) else "A letter, then letters, digits and _ . / -")
        if is_name(name):
            pattern_edit.setText(pattern_for(line, *number_span, name))

    def check() -> bool:
        pattern = pattern_edit.text()
        numbers = {} if invalid_pattern([pattern]) else numbers_of([pattern], line)
        pattern_field.set_error("" if numbers else "Finds no number in this line")
        numbers_text = ", ".join(f"{name} {formats.metric(n)}" for name, n in numbers.items())
        pattern_field.set_note(f"In this line: {numbers_text}" if numbers else "")
        return bool(numbers) and is_name(name_edit.text().strip())

    name_edit.textChanged.connect(fill_pattern)
    preceding_text = line[: number_span[0]].lower()
    tokens = "".join(c if c.isalnum() or c in "_/.-" else " " for c in preceding_text).split()
    names = [token for token in tokens if is_name(token)]
    name_edit.setText(names[-1] if names else "number")
    name_edit.selectAll()
    title = "Draw a number of the log"
    question = Question(title, "Draw", lambda: draw(pattern_edit.text()), parent)
    hint, note_label = (Label(text, "small", "text2", wrap=True) for text in (_HINT, note))
    return question.ask("", hint, name_field, pattern_field, note_label, check=check)
