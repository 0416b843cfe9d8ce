"""The dialog for the priority of a waiting job, and the time before which it does not start."""

from __future__ import annotations

from datetime import datetime

from PySide6.QtCore import Slot
from PySide6.QtWidgets import QWidget

from backend.records.base.timestamps import instant
from backend.records.base.validation import sanitize
from backend.records.queue.entry import FORMS, HIGHEST, LOWEST, QueueEntry, parse_start_time
from widgets.common import formats
from widgets.common.dialog import Dialog
from widgets.common.fields import Field, LineEdit, SpinBox
from widgets.common.labels import Label
from widgets.common.layout import row
from widgets.common.theme import S3
from widgets.jobs.actions.job_actions import CHANGE_QUEUED, JobActions

_WIDTH = 460
_PRIORITY_W = 96
_NAME_CHARS = 40


class QueueDialog(Dialog):
    """Edits the priority and the start time of a waiting job."""

    def __init__(
        self, entry: QueueEntry, actions: JobActions, parent: QWidget | None = None
    ) -> None:
        super().__init__("Priority and time", _WIDTH, parent)
        self._entry = entry
        self._actions = actions
        self._priority = SpinBox(entry.priority, minimum=LOWEST, maximum=HIGHEST, name="Priority")
        self._priority.setFixedWidth(_PRIORITY_W)
        start_time = instant(entry.not_before)
        time_text = f"{start_time.astimezone():%Y-%m-%d %H:%M}" if start_time is not None else ""
        self._time = LineEdit(time_text, placeholder="as soon as possible", name="Not before")
        self._time.textChanged.connect(self._check_time)
        self._time_field = Field("Not before", self._time)
        self._save_button = self.default_button("Save", self._save_changes)
        self.fill(
            Label(
                f"“{sanitize(entry.name, _NAME_CHARS)}” starts automatically when its turn "
                "comes and its nodes are free. Higher priorities start first.",
                "body",
                "text2",
                wrap=True,
            ),
            row(Field("Priority", self._priority), (self._time_field, 1), gap=S3, top=True),
            foot=(self.close_button(), self._save_button),
        )
        self._check_time()

    @Slot()
    def _check_time(self) -> None:
        """Show the time in the text, or examples of its format."""
        error_text = ""
        now = datetime.now().astimezone()
        note = f"For example {FORMS}. Empty: as soon as possible."
        if self._time.text().strip():
            try:
                start_time = parse_start_time(self._time.text(), now)
            except ValueError as error:
                error_text = str(error)
            else:
                note = f"Not before {formats.full_time(start_time)}"
        self._time_field.set_error(error_text)
        self._time_field.set_note(note)
        self._save_button.setEnabled(not error_text)

    @Slot()
    def _save_changes(self) -> None:
        time_text = self._time.text().strip()
        start_time = parse_start_time(time_text, datetime.now().astimezone()) if time_text else None
        self._actions.ask(CHANGE_QUEUED, self._entry.job_id, self._priority.value(), start_time)
        self.accept()
