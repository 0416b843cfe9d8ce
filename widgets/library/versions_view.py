"""The versions of an item, newest first, and the changes of the selected version."""

from __future__ import annotations

from datetime import UTC, datetime

from PySide6.QtCore import QEvent, Signal, Slot
from PySide6.QtGui import QResizeEvent, QShowEvent, QSyntaxHighlighter, QTextCharFormat
from PySide6.QtWidgets import QHeaderView, QTableView, QWidget

from backend.records.base.timestamps import instant
from backend.records.library.item import LibraryItem, VersionChanges
from widgets.common import formats, theme
from widgets.common.cards import Card
from widgets.common.fields import TextBox
from widgets.common.labels import Label
from widgets.common.layout import SLACK, col
from widgets.common.record_table_model import RowTableModel, TableColumn
from widgets.common.theme import CARD_PADDING, S2, S3, ColorRole
from widgets.common.view_style import TableHeightLimit, style_view

_SOURCE_COLUMN, _HASH_COLUMN = 5, 6
_NARROW_BELOW_W = 680
_MEASURED_ROWS = 30


class VersionsView(QWidget):
    """The tab Versions.

    Signals:
        changes_requested: References of a version and of the version before it; answer with
            `show_changes`.
    """

    changes_requested = Signal(str, str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._jobs: dict[str, int] = {}
        self._compared_references: tuple[str, ...] = ()
        self._model = RowTableModel(
            (
                TableColumn[LibraryItem](
                    "Version",
                    lambda item: formats.version(item.name, item.version),
                    lambda item: f"SHA-256 {item.sha256}",
                ),
                TableColumn[LibraryItem](
                    "Imported",
                    lambda item: formats.time_with_day(instant(item.created), datetime.now(UTC)),
                    lambda item: formats.full_time(instant(item.created)),
                ),
                TableColumn[LibraryItem](
                    "Size", lambda item: formats.disk(item.bytes), is_figure=True
                ),
                TableColumn[LibraryItem](
                    "Files", lambda item: formats.count(item.files), is_figure=True
                ),
                TableColumn[LibraryItem]("Used by", self._jobs_text),
                TableColumn[LibraryItem]("From", lambda item: item.source or "–"),
                TableColumn[LibraryItem](
                    "SHA-256", lambda item: item.sha256[:12], lambda item: item.sha256
                ),
            )
        )
        self._table = table = QTableView()
        table.setModel(self._model)
        style_view(table, "Versions")
        table.horizontalHeader().setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
        table.horizontalHeader().setSectionResizeMode(
            _SOURCE_COLUMN, QHeaderView.ResizeMode.Stretch
        )
        table.horizontalHeader().setStretchLastSection(False)
        card = Card((table, 1))
        TableHeightLimit(table, card, 2 * CARD_PADDING)
        # Only the first rows are measured: a hundred versions took 0.2 s.
        table.horizontalHeader().setResizeContentsPrecision(_MEASURED_ROWS)
        self._changes = ChangesCard()
        self._changes.hide()
        self.setLayout(col((card, 1), (self._changes, 1), SLACK, gap=S3))
        table.selectionModel().currentRowChanged.connect(self._compare)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Hide the hash in a narrow window: the tool tip has it."""
        super().resizeEvent(event)
        self._table.setColumnHidden(_HASH_COLUMN, self.width() < _NARROW_BELOW_W)

    def show_versions(
        self, items: tuple[LibraryItem, ...], jobs_by_reference: dict[str, int]
    ) -> None:
        self._jobs = dict(jobs_by_reference)
        self._model.set_records(items)
        self._compare()

    def show_changes(self, changes: VersionChanges) -> None:
        if self._compared_references == (changes.newer_version, changes.older_version):
            self._changes.show_changes(changes)

    def show_changes_error(self, newer_version: str, older_version: str, message: str) -> None:
        if self._compared_references == (newer_version, older_version):
            self._changes.show_error(older_version, newer_version, message)

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._compare()

    @Slot()
    def _compare(self) -> None:
        """Request the changes of the selected version, once, and only while the tab is visible."""
        if not self.isVisible():
            return
        if not self._table.currentIndex().isValid():
            self._table.setCurrentIndex(self._model.index(0, 0))
        row = self._table.currentIndex().row()
        references = tuple(item.reference for item in self._model.rows[row : row + 2])
        self._changes.setVisible(len(references) == 2)
        if len(references) != 2 or references == self._compared_references:
            return
        self._compared_references = references
        newer_version, older_version = references
        self._changes.show_waiting(older_version, newer_version)
        self.changes_requested.emit(newer_version, older_version)

    def _jobs_text(self, item: LibraryItem) -> str:
        job_count = self._jobs.get(item.reference, 0)
        return formats.plural(job_count, "job") if job_count else "–"


_MAX_NAMES = 3


class ChangesCard(Card):
    """A title, the changed files in one sentence, and the changed lines below."""

    def __init__(self, parent: QWidget | None = None) -> None:
        self._title = Label("", "strong")
        self._files = Label("", "small", "text2", wrap=True)
        self._lines = TextBox(mono=True, read_only=True, name="Changed lines")
        super().__init__(self._title, self._files, (self._lines, 1), SLACK, gap=S2, parent=parent)
        self._highlighter = _LineHighlighter(self._lines.document())

    def show_waiting(self, older_version: str, newer_version: str) -> None:
        """Show the pair of versions until `show_changes`."""
        self._show_texts(older_version, newer_version, "Comparing…", "")

    def show_error(self, older_version: str, newer_version: str, message: str) -> None:
        self._show_texts(older_version, newer_version, message, "")

    def show_changes(self, changes: VersionChanges) -> None:
        counts = [
            _files_text(changes.changed_paths, "changed"),
            _files_text(changes.added_paths, "new"),
            _files_text(changes.removed_paths, "gone"),
        ]
        summary = " · ".join(filter(None, counts)) or "All files are the same."
        self._show_texts(changes.older_version, changes.newer_version, summary, changes.text)

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.StyleChange:
            self._highlighter.rehighlight()

    def _show_texts(self, older_version: str, newer_version: str, summary: str, lines: str) -> None:
        self._title.setText(
            f"Changes from {_version_label(older_version)} to {_version_label(newer_version)}"
        )
        self._files.setText(summary)
        self._lines.setPlainText(lines)
        self._lines.setVisible(bool(lines))


class _LineHighlighter(QSyntaxHighlighter):
    """Highlight added and removed lines by the signs at their beginning."""

    def highlightBlock(self, text: str) -> None:
        color_role = _line_color_role(text)
        if color_role is not None:
            text_format = QTextCharFormat()
            text_format.setForeground(theme.current().q(color_role))
            self.setFormat(0, len(text), text_format)


def _line_color_role(line: str) -> ColorRole | None:
    if line.startswith(("---", "+++", "@@", "…")):
        return "text3"
    if line.startswith("+"):
        return "good"
    return "bad" if line.startswith("-") else None


def _files_text(paths: tuple[str, ...], change: str) -> str:
    if not paths:
        return ""
    names = ", ".join(paths[:_MAX_NAMES])
    suffix = ", …" if len(paths) > _MAX_NAMES else ""
    return f"{formats.plural(len(paths), 'file')} {change}: {names}{suffix}"


def _version_label(reference: str) -> str:
    return f"@ {reference.rpartition('@')[2]}"
