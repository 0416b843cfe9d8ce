"""Rows and sections of the settings."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QHBoxLayout, QVBoxLayout, QWidget

from widgets.common.buttons import IconButton
from widgets.common.cards import Card, Separator
from widgets.common.labels import Label
from widgets.common.layout import col, row
from widgets.common.theme import S1, S2, S3, S4


class SettingsRow(QWidget):
    """Text on the left, a control on the right."""

    def __init__(self, title: str, description: str, control: QWidget) -> None:
        super().__init__()
        self.description = Label(description, "small", "text2", wrap=True)
        self.description.setVisible(bool(description))
        words = col(Label(title, "body"), self.description, gap=S1)
        self._rule = Separator()
        self._rule.hide()
        line = row((words, 1), control, gap=S4)
        line.setAlignment(control, Qt.AlignmentFlag.AlignVCenter)
        self.setLayout(col(self._rule, line, gap=S3))

    def set_ruled(self) -> None:
        self._rule.show()


def section(title: str, *lines: QWidget | QHBoxLayout | QVBoxLayout) -> QWidget:
    """A card under its heading, with separators between its rows."""
    parts: list[QWidget | QHBoxLayout | QVBoxLayout] = []
    for line in lines:
        if parts and isinstance(line, SettingsRow):
            line.set_ruled()
        parts.append(line)
    holder = QWidget()
    holder.setLayout(col(Label(title, "heading"), Card(*parts, gap=S3), gap=S2))
    return holder


def path_line(caption: str, path: str, open_it: Callable[[str], object]) -> QHBoxLayout:
    """A path, and a button that opens its folder."""
    # SSH keeps its capital letters.
    words = caption if caption[:2].isupper() else f"{caption[:1].lower()}{caption[1:]}"
    button = IconButton("folder-open", f"Open {words}")
    button.setEnabled(bool(path))
    button.clicked.connect(lambda: open_it(path))
    return row(
        Label(caption, "body"),
        S3,
        (Label(path or "none", "mono", "text2", elide="middle", align="right"), 1),
        button,
        gap=S2,
    )
