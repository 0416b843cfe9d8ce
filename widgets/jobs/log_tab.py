"""The log of a rank or of mpirun: follows its end, remembers little, finds things.

A log of 200 MB opens at once because only its end is asked for; what came before comes when a
person wants it. Text is added in batches, and only so many lines are kept.
"""

from __future__ import annotations

import re

from PySide6.QtCore import Qt, QTimer, Signal, Slot
from PySide6.QtGui import QGuiApplication, QTextCursor, QTextDocument
from PySide6.QtWidgets import QWidget

from backend.records.job_view import JobView, LogChunk
from widgets.common import formats
from widgets.common.buttons import Button, IconButton
from widgets.common.cards import Card
from widgets.common.fields import ComboBox, SearchField, TextBox
from widgets.common.layout import STRETCH, col, row
from widgets.common.text import Label
from widgets.common.theme import S2, S3

LINES_KEPT = 20_000
LOOK_INTERVAL_MS = 1000
EARLIER_BYTES = 400_000

_ANSI = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[@-_]")
_ERROR = re.compile(r"^(Traceback \(most recent|\w*Error\b|.*\berror:|.*CUDA error)", re.MULTILINE)


def plain(text: str) -> str:
    """Log text as it can be shown: no colour codes, a progress bar's last state, no control."""
    text = _ANSI.sub("", text).replace("\r\n", "\n")
    lines = [line.rpartition("\r")[2] if "\r" in line else line for line in text.split("\n")]
    return "".join(c for c in "\n".join(lines) if c in "\n\t" or c.isprintable())


class LogTab(QWidget):
    """The tab Log.

    Signals:
        log_requested: Rank (None: mpirun) and the byte from which on; -1 for the end.
    """

    log_requested = Signal(object, int)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._first = 0
        self._next = -1
        self._asked = False
        self._unseen = 0
        self._picker = ComboBox(name="Whose log")
        self._picker.currentIndexChanged.connect(self._pick)
        self._search = SearchField("Search in the log")
        self._search.searched.connect(self._find_first)
        self._count = Label("", "small", "text3")
        up = IconButton("caret-up", "Previous match")
        up.clicked.connect(self._find_previous)
        down = IconButton("caret-down", "Next match")
        down.clicked.connect(self._find_next)
        error = Button("First error", icon="warning")
        error.clicked.connect(self._go_to_error)
        copy = Button("Copy", kind="quiet", icon="copy")
        copy.clicked.connect(self._copy)
        self._earlier = Button("Show earlier", kind="quiet", icon="caret-up")
        self._earlier.clicked.connect(self._wish_earlier)
        self._text = TextBox(mono=True, read_only=True, name="Log")
        self._text.setMaximumBlockCount(LINES_KEPT)
        self._text.verticalScrollBar().valueChanged.connect(self._scrolled)
        self._new_lines = Button("", icon="caret-down")
        self._new_lines.clicked.connect(self._follow)
        self._new_lines.hide()
        head = row(self._picker, (self._search, 1), self._count, up, down, error, copy, gap=S2)
        foot = row(self._earlier, STRETCH, self._new_lines)
        self.setLayout(
            col((Card(head, (self._text, 1), foot, gap=S2), 1), margins=(0, 0, 0, S3), gap=0)
        )
        self._timer = QTimer(self)
        self._timer.setInterval(LOOK_INTERVAL_MS)
        self._timer.timeout.connect(self._wish_more)

    @property
    def rank(self) -> int | None:
        """Whose log is shown; None is mpirun's."""
        key = self._picker.key()
        return int(key) if key.isdecimal() else None

    def open_job(self, view: JobView) -> None:
        """Another job: the failing rank's log first, else rank 0's."""
        failed = view.error.rank if view.error is not None else None
        options = [(str(rank), f"rank {rank}") for rank in range(view.world_size)]
        options.append(("mpirun", "mpirun"))
        self._picker.set_options(options, str(failed or 0))
        self._start_anew()

    def show_rank(self, rank: int | None) -> None:
        self._picker.choose("mpirun" if rank is None else str(rank))

    def show_chunk(self, rank: int | None, chunk: LogChunk, from_offset: int) -> None:
        """What was asked for; text of another rank than the one shown is dropped."""
        if rank != self.rank:
            return
        self._asked = False
        text = plain(chunk.text)
        if self._next < 0:
            self._first, self._next = from_offset, chunk.offset
            self._text.setPlainText(text)
            self._to_end()
        elif from_offset == self._next:
            self._next = chunk.offset
            self._append(text)
        elif chunk.offset == self._first:
            self._first = from_offset
            self._prepend(text)
        self._earlier.setVisible(self._first > 0)
        if chunk.size < self._next:
            # The log is another one now: the job was started over.
            self._start_anew()

    def showEvent(self, event: object) -> None:
        self._timer.start()
        if self._next < 0:
            self._wish_more()

    def hideEvent(self, event: object) -> None:
        self._timer.stop()

    def focus_search(self) -> None:
        self._search.setFocus()

    def _start_anew(self) -> None:
        self._first, self._next, self._asked, self._unseen = 0, -1, False, 0
        self._text.setPlainText("")
        self._new_lines.hide()
        self._earlier.hide()
        if self.isVisible():
            self._wish_more()

    @Slot()
    def _pick(self) -> None:
        self._start_anew()

    @Slot()
    def _wish_more(self) -> None:
        if not self._asked:
            self._asked = True
            self.log_requested.emit(self.rank, self._next)

    @Slot()
    def _wish_earlier(self) -> None:
        if not self._asked and self._first > 0:
            self._asked = True
            self.log_requested.emit(self.rank, max(0, self._first - EARLIER_BYTES))

    def _append(self, text: str) -> None:
        if not text:
            return
        follows = self._is_at_end()
        kept = self._text.verticalScrollBar().value()
        cursor = QTextCursor(self._text.document())
        cursor.movePosition(QTextCursor.MoveOperation.End)
        cursor.insertText(text)
        if follows:
            self._to_end()
        else:
            self._text.verticalScrollBar().setValue(kept)
            self._unseen += text.count("\n")
            self._new_lines.setText(formats.plural(self._unseen, "new line"))
            self._new_lines.setVisible(self._unseen > 0)

    def _prepend(self, text: str) -> None:
        # Keeping only so many lines would drop those just added: they are wished for.
        self._text.setMaximumBlockCount(0)
        cursor = QTextCursor(self._text.document())
        cursor.movePosition(QTextCursor.MoveOperation.Start)
        cursor.insertText(text)
        self._text.setTextCursor(cursor)

    def _is_at_end(self) -> bool:
        bar = self._text.verticalScrollBar()
        return bar.value() >= bar.maximum() - 1

    def _to_end(self) -> None:
        bar = self._text.verticalScrollBar()
        bar.setValue(bar.maximum())
        self._unseen = 0
        self._new_lines.hide()

    @Slot()
    def _follow(self) -> None:
        self._to_end()

    @Slot()
    def _scrolled(self) -> None:
        if self._is_at_end():
            self._unseen = 0
            self._new_lines.hide()

    @Slot(str)
    def _find_first(self, text: str) -> None:
        found = self._text.toPlainText().casefold().count(text.casefold()) if text else 0
        self._count.setText(formats.plural(found, "match", "matches") if text else "")
        if text:
            self._text.moveCursor(QTextCursor.MoveOperation.Start)
            self._text.find(text)

    @Slot()
    def _find_next(self) -> None:
        if self._search.text() and not self._text.find(self._search.text()):
            self._text.moveCursor(QTextCursor.MoveOperation.Start)
            self._text.find(self._search.text())

    @Slot()
    def _find_previous(self) -> None:
        backward = QTextDocument.FindFlag.FindBackward
        if self._search.text() and not self._text.find(self._search.text(), backward):
            self._text.moveCursor(QTextCursor.MoveOperation.End)
            self._text.find(self._search.text(), backward)

    @Slot()
    def _go_to_error(self) -> None:
        match = _ERROR.search(self._text.toPlainText())
        if match is None:
            self._count.setText("no error here")
            return
        cursor = self._text.textCursor()
        cursor.setPosition(match.start())
        cursor.movePosition(QTextCursor.MoveOperation.EndOfBlock, QTextCursor.MoveMode.KeepAnchor)
        self._text.setTextCursor(cursor)
        self._text.setFocus(Qt.FocusReason.OtherFocusReason)

    @Slot()
    def _copy(self) -> None:
        chosen = self._text.textCursor().selection().toPlainText()
        QGuiApplication.clipboard().setText(chosen or self._text.toPlainText())
