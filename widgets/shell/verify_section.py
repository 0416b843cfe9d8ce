"""The check of the whole data root in the settings: its progress, its findings, their repair."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from PySide6.QtCore import Signal, Slot
from PySide6.QtWidgets import QVBoxLayout, QWidget

from backend.records.base.validation import sanitize
from backend.records.verify.finding import Verification, VerifyFinding
from widgets.common import formats
from widgets.common.buttons import Button, Switch
from widgets.common.cards import VerticalScrollArea
from widgets.common.dialog import Dialog
from widgets.common.labels import IconLabel, Label
from widgets.common.layout import STRETCH, clear, col, row
from widgets.common.task_status import TaskStatus
from widgets.common.theme import ICON_NAV, S1, S2, S3
from widgets.shell.settings_rows import SettingsRow

_SHOWN = 100
_WIDTH, _LIST_LINES = 560, 12


class VerifySection(QWidget):
    """Rows of the settings.

    Signals:
        check_requested: Whether contents are compared with their hashes, too.
        cancelled: Cancel the check.
        repair_requested: The findings to repair, as a tuple.

    Attributes:
        rows: One for each finding.
        all: Repairs all of them.
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
        self.repair_all.clicked.connect(self._request_all)
        self.status = TaskStatus("Check everything")
        self.status.reserve_height(False)
        self.status.cancelled.connect(self.cancelled)
        self.rows = QVBoxLayout()
        self.rows.setSpacing(S2)
        self._findings: tuple[VerifyFinding, ...] = ()
        contents = SettingsRow(
            "Compare contents",
            "Reads every file of the versions and checkpoints. Large datasets take minutes.",
            self.contents,
        )
        contents.set_ruled()
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
        self._findings = tuple(one for one in verification.findings if one.repair)
        self.status.show()
        self.status.show_result("text2" if verification.findings else "good", verification.message)
        self.repair_all.setVisible(len(self._findings) > 1)
        clear(self.rows)
        for one in verification.findings[:_SHOWN]:
            self.rows.addLayout(self._row(one.message, one.repair or one.remedy, one))
        rest = len(verification.findings) - _SHOWN
        if rest > 0:
            words = f"{formats.plural(rest, 'finding')} more: ringmaster verify lists all."
            self.rows.addWidget(Label(words, "small", "text2"))
        for sentence in verification.not_checked:
            self.rows.addLayout(self._row("Not checked", sentence, None))

    def _row(self, title: str, text: str, one: VerifyFinding | None) -> QVBoxLayout:
        icon, tone = ("warning-fill", "warn") if one is not None else ("info-fill", "text3")
        words = col(Label(title, "body", wrap=True, selectable=True), gap=S1)
        if text:
            words.addWidget(Label(text, "small", "text2", wrap=True, selectable=True))
        button = None
        if one is not None and one.repair:
            button = Button("Repair…")
            button.setAccessibleName(f"Repair: {title}")
            button.clicked.connect(partial(self.repair_requested.emit, (one,)))
        line = row(IconLabel(icon, tone, ICON_NAV), (words, 1), button, gap=S3, top=True)
        return col(line, gap=0)

    @Slot()
    def _request(self) -> None:
        self.check_requested.emit(self.contents.isChecked())

    @Slot()
    def _request_all(self) -> None:
        self.repair_requested.emit(self._findings)


class RepairDialog(Dialog):
    """Asks whether findings are repaired; lists what is moved to the trash.

    Signals:
        requested: Confirms it.
    """

    requested = Signal()

    def __init__(self, findings: Sequence[VerifyFinding], parent: QWidget | None = None) -> None:
        super().__init__("Repair", _WIDTH, parent)
        moves = tuple(dict.fromkeys(path for one in findings for path in one.moves))
        acts = tuple(dict.fromkeys(one.repair for one in findings))
        paths = [Label(sanitize(path, 400), "mono", "text2", elide="middle") for path in moves]
        holder = QWidget()
        holder.setLayout(col(*paths, STRETCH, gap=S1))
        listed = VerticalScrollArea(holder)
        height = holder.fontMetrics().lineSpacing() * _LIST_LINES
        listed.setFixedHeight(min(height, holder.sizeHint().height()))
        listed.setVisible(bool(moves))
        moved = "Nothing is moved or deleted."
        if moves:
            count = formats.plural(len(moves), "file or folder", "files or folders")
            moved = f"{count} of the data root move to its trash. Nothing is deleted."
        go = self.default_button("Repair", self._request)
        self.fill(
            *(Label(text, "body", wrap=True) for text in acts),
            Label(moved, "body", "text2", wrap=True),
            listed,
            head=Label(f"Repair {formats.plural(len(findings), 'finding')}?", "title"),
            foot=(self.close_button("Cancel"), go),
        )

    @Slot()
    def _request(self) -> None:
        self.requested.emit()
        self.accept()
