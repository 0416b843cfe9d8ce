"""Notes and tags of a job, and the record of its actions."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from PySide6.QtCore import QTimer, Slot
from PySide6.QtWidgets import QWidget

from backend.records.base.timestamps import instant
from backend.records.jobs.audit_entry import AuditEntry
from backend.records.jobs.view import JobView
from widgets.common import formats
from widgets.common.cards import Card, VerticalScrollArea
from widgets.common.fields import Field, LineEdit, TextBox
from widgets.common.labels import Label
from widgets.common.layout import col
from widgets.common.theme import PAGE_MARGIN, S2, S3, S4
from widgets.jobs.actions.job_actions import SET_NOTES, SET_TAGS, JobActions

_SAVE_AFTER_MS = 800


class NotesTab(QWidget):
    """The tab Notes; it saves when the user stops typing."""

    def __init__(self, actions: JobActions) -> None:
        super().__init__()
        self._actions = actions
        self._job_id = ""
        self._is_filling = False
        self._tags = LineEdit(placeholder="Tags, separated by commas", name="Tags")
        self._tags.editingFinished.connect(self._save_tags)
        self._text = TextBox(placeholder="Purpose and results of this job", name="Notes")
        self._text.textChanged.connect(self._start_timer)
        self._save_timer = QTimer(self, singleShot=True, interval=_SAVE_AFTER_MS)
        self._save_timer.timeout.connect(self._save_notes)
        self._shown_tags: tuple[str, ...] = ()
        card = Card(Field("Tags", self._tags), Label("Notes", "small", "text2"), (self._text, 1))
        self._history = TextBox(read_only=True, name="History")
        history_card = Card(Label("History", "heading"), (self._history, 1), gap=S2)
        content = QWidget()
        content.setLayout(col((card, 3), (history_card, 2), margins=(0, 0, 0, S4), gap=S3))
        # In a small window, below a banner, its fields have no room.
        self.setLayout(col(VerticalScrollArea(content, gutter=PAGE_MARGIN)))

    def open_job(self, view: JobView) -> None:
        self.save_pending()
        self._job_id = view.id
        self._history.clear()
        self._is_filling = True
        self._text.setPlainText(view.notes)
        self._shown_tags = view.tags
        self._tags.setText(", ".join(view.tags))
        self._is_filling = False

    def show_audit_entries(self, entries: Sequence[AuditEntry]) -> None:
        """Show the recorded actions with their users, newest first."""
        now = datetime.now().astimezone()
        lines = (
            f"{formats.time_with_day(instant(entry.time), now)}  {entry.message}"
            for entry in entries
        )
        text = "\n".join(lines)
        if text != self._history.toPlainText():
            self._history.setPlainText(text)

    def save_pending(self) -> None:
        """Save unsaved notes, before another job is opened."""
        if self._save_timer.isActive():
            self._save_timer.stop()
            self._save_notes()

    @Slot()
    def _start_timer(self) -> None:
        if not self._is_filling:
            self._save_timer.start()

    @Slot()
    def _save_notes(self) -> None:
        self._actions.ask(SET_NOTES, self._job_id, self._text.toPlainText())

    @Slot()
    def _save_tags(self) -> None:
        texts = (text.strip() for text in self._tags.text().split(","))
        tags = tuple(dict.fromkeys(text for text in texts if text))
        if tags != self._shown_tags:
            self._shown_tags = tags
            self._actions.ask(SET_TAGS, self._job_id, tags)
