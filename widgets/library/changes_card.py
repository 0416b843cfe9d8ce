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

_NAMES_SHOWN = 3


class ChangesCard(Card):
    """A title, the changed files in one sentence, and the changed lines below."""

    def __init__(self, parent: QWidget | None = None) -> None:
        self._title = Label("", "strong")
        self._files = Label("", "small", "text2", wrap=True)
        self._lines = TextBox(mono=True, read_only=True, name="Changed lines")
        super().__init__(self._title, self._files, (self._lines, 1), SLACK, gap=S2, parent=parent)
        self._signs = _Signs(self._lines.document())

    def show_waiting(self, older: str, newer: str) -> None:
        """Show the pair of versions until `show_changes`."""
        self._show(older, newer, "Comparing…", "")

    def show_fault(self, older: str, newer: str, sentence: str) -> None:
        self._show(older, newer, sentence, "")

    def show_changes(self, found: VersionChanges) -> None:
        counts = [
            _files(found.changed, "changed"),
            _files(found.added, "new"),
            _files(found.removed, "gone"),
        ]
        words = " · ".join(filter(None, counts)) or "All files are the same."
        self._show(found.older, found.newer, words, found.text)

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.StyleChange:
            self._signs.rehighlight()

    def _show(self, older: str, newer: str, words: str, text: str) -> None:
        self._title.setText(f"Changes from {_version(older)} to {_version(newer)}")
        self._files.setText(words)
        self._lines.setPlainText(text)
        self._lines.setVisible(bool(text))


class _Signs(QSyntaxHighlighter):
    """Highlight added and removed lines by the signs at their beginning."""

    def highlightBlock(self, text: str) -> None:
        tone = _tone(text)
        if tone is not None:
            dress = QTextCharFormat()
            dress.setForeground(theme.current().q(tone))
            self.setFormat(0, len(text), dress)


def _tone(line: str) -> ColorRole | None:
    if line.startswith(("---", "+++", "@@", "…")):
        return "text3"
    if line.startswith("+"):
        return "good"
    return "bad" if line.startswith("-") else None


def _files(paths: tuple[str, ...], how: str) -> str:
    if not paths:
        return ""
    names = ", ".join(paths[:_NAMES_SHOWN])
    more = ", …" if len(paths) > _NAMES_SHOWN else ""
    return f"{formats.plural(len(paths), 'file')} {how}: {names}{more}"


def _version(reference: str) -> str:
    return f"@ {reference.rpartition('@')[2]}"
