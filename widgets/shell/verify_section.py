"""The check of the whole data root in the settings: its progress, its findings, their repair."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from PySide6.QtCore import Signal, Slot
from PySide6.QtWidgets import QVBoxLayout, QWidget

from backend.records.base.program_name import COMMAND
from backend.records.base.validation import sanitize
from backend.records.verify.finding import Verification, VerifyFinding
from widgets.common import formats
from widgets.common.buttons import Button, Switch
from widgets.common.cards import VerticalScrollArea
from widgets.common.dialog import Question, TaskStatus
from widgets.common.labels import IconLabel, Label
from widgets.common.layout import STRETCH, clear, col, row
from widgets.common.theme import ICON_NAV, S1, S3
from widgets.shell.settings_rows import SettingsRow

_MAX_ROWS = 100
_WIDTH, _LIST_LINES = 560, 12


class VerifySection(QWidget):
    """Rows of the settings.

    Signals:
        check_requested: Whether contents are compared with their hashes, too.
        cancelled: Cancel the check.
        repair_requested: The findings to repair, as a tuple.

    Attributes:
        rows: A row for each finding.
        repair_all: Repairs all findings.
    """

    check_requested = Signal(bool)
    cancelled = Signal()
    repair_requested = Signal(object)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.check = Button("Check", icon="magnifying-glass")
        self.check.clicked.connect(self._request)
        self.contents = Switch(name="Compare contents")
        self.repair_all = Button("Repair all…")
        self.repair_all.clicked.connect(lambda: self.repair_requested.emit(self._findings))
        self.status = TaskStatus("Check everything")
        self.status.reserve_height(False)
        self.status.cancelled.connect(self.cancelled)
        self.rows = col()
        self._findings: tuple[VerifyFinding, ...] = ()
        contents = SettingsRow(
            "Compare contents",
            "Reads every file of the versions and checkpoints. Large datasets take minutes.",
            self.contents,
        )
        contents.show_separator()
        self.setLayout(
            col(
                SettingsRow(
                    "Check everything",
                    "Finds damaged records and checkpoints, unfinished imports, runs without an "
                    "end, and leftovers. Changes nothing.",
                    self.check,
                ),
                contents,
                row((self.status, 1), self.repair_all, gap=S3, top=True),
                self.rows,
                gap=S3,
            )
        )
        self.status.hide()
        self.repair_all.hide()

    def show_progress(self, share: float | None, text: str) -> None:
        self.check.setEnabled(False)
        self.repair_all.hide()
        clear(self.rows)
        self.status.show()
        self.status.show_progress(share, text)

    def show_error(self, message: str) -> None:
        """Show why the check ended; "" if the user cancelled it."""
        self.check.setEnabled(True)
        self.status.show_result("bad", message)
        self.status.setVisible(bool(message))

    def show_result(self, verification: Verification) -> None:
        """Show the findings, each with its repair."""
        self.check.setEnabled(True)
        self._findings = tuple(finding for finding in verification.findings if finding.repair)
        self.status.show()
        self.status.show_result("text2" if verification.findings else "good", verification.message)
        self.repair_all.setVisible(len(self._findings) > 1)
        clear(self.rows)
        for finding in verification.findings[:_MAX_ROWS]:
            self.rows.addLayout(
                self._make_row(finding.message, finding.repair or finding.remedy, finding)
            )
        hidden_count = len(verification.findings) - _MAX_ROWS
        if hidden_count > 0:
            note = f"{formats.plural(hidden_count, 'finding')} more: {COMMAND} verify lists all."
            self.rows.addWidget(Label(note, "small", "text2"))
        for message in verification.not_checked:
            self.rows.addLayout(self._make_row("Not checked", message, None))

    def _make_row(self, title: str, text: str, finding: VerifyFinding | None) -> QVBoxLayout:
        icon, color_role = (
            ("warning-fill", "warn") if finding is not None else ("info-fill", "text3")
        )
        texts = col(Label(title, "body", wrap=True, selectable=True), gap=S1)
        if text:
            texts.addWidget(Label(text, "small", "text2", wrap=True, selectable=True))
        button = None
        if finding is not None and finding.repair:
            button = Button("Repair…")
            button.setAccessibleName(f"Repair: {title}")
            button.clicked.connect(partial(self.repair_requested.emit, (finding,)))
        line = row(IconLabel(icon, color_role, ICON_NAV), (texts, 1), button, gap=S3, top=True)
        return col(line, gap=0)

    @Slot()
    def _request(self) -> None:
        self.check_requested.emit(self.contents.isChecked())


def repair_question(
    findings: Sequence[VerifyFinding], repair: Callable[[], object], parent: QWidget | None = None
) -> Question:
    """Ask whether to repair findings; list the files that move to the trash."""
    moved_paths = tuple(dict.fromkeys(path for finding in findings for path in finding.moves))
    repairs = tuple(dict.fromkeys(finding.repair for finding in findings))
    paths = [Label(sanitize(path, 400), "mono", "text2", elide="middle") for path in moved_paths]
    holder = QWidget()
    holder.setLayout(col(*paths, STRETCH, gap=S1))
    path_list = VerticalScrollArea(holder)
    height = holder.fontMetrics().lineSpacing() * _LIST_LINES
    path_list.setFixedHeight(min(height, holder.sizeHint().height()))
    path_list.setVisible(bool(moved_paths))
    moves_note = "Nothing is moved or deleted."
    if moved_paths:
        count = formats.plural(len(moved_paths), "file or folder", "files or folders")
        moves_note = f"{count} of the data root move to its trash. Nothing is deleted."
    head = Label(f"Repair {formats.plural(len(findings), 'finding')}?", "title")
    question = Question(
        "Repair", "Repair", repair, parent, head=head, close_label="Cancel", width=_WIDTH
    )
    return question.ask(
        "",
        *(Label(text, "body", wrap=True) for text in repairs),
        Label(moves_note, "body", "text2", wrap=True),
        path_list,
    )
