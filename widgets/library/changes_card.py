"""The changes between two versions of an item: the files, and their lines."""

from __future__ import annotations

from PySide6.QtCore import QEvent
from PySide6.QtGui import QSyntaxHighlighter, QTextCharFormat
from PySide6.QtWidgets import QWidget

from backend.records.library.item import VersionChanges
from widgets.common import formats, theme
from widgets.common.cards import Card
from widgets.common.fields import TextBox
from widgets.common.labels import Label
from widgets.common.layout import SLACK
from widgets.common.theme import S2, ColorRole

_MAX_NAMES = 3


class ChangesCard(Card):
    """A title, the changed files in one sentence, and the changed lines below."""

    def __init__(self, parent: QWidget | None = None) -> None:
        self._title = Label("", "strong")
        self._files = Label("", "small", "text2", wrap=True)
        self._lines = TextBox(mono=True, read_only=True, name="Changed lines")
        super().__init__(self._title, self._files, (self._lines, 1), SLACK, gap=S2, parent=parent)
        self._highlighter = _LineHighlighter(self._lines.document())

    def show_waiting(self, older: str, newer: str) -> None:
        """Show the pair of versions until `show_changes`."""
        self._show_texts(older, newer, "Comparing…", "")

    def show_error(self, older: str, newer: str, message: str) -> None:
        self._show_texts(older, newer, message, "")

    def show_changes(self, changes: VersionChanges) -> None:
        counts = [
            _files_text(changes.changed, "changed"),
            _files_text(changes.added, "new"),
            _files_text(changes.removed, "gone"),
        ]
        summary = " · ".join(filter(None, counts)) or "All files are the same."
        self._show_texts(changes.older, changes.newer, summary, changes.text)

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.StyleChange:
            self._highlighter.rehighlight()

    def _show_texts(self, older: str, newer: str, summary: str, lines: str) -> None:
        self._title.setText(f"Changes from {_version_label(older)} to {_version_label(newer)}")
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
