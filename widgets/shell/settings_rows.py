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
        texts = col(Label(title, "body"), self.description, gap=S1)
        self._separator = Separator()
        self._separator.hide()
        line = row((texts, 1), control, gap=S4)
        line.setAlignment(control, Qt.AlignmentFlag.AlignVCenter)
        self.setLayout(col(self._separator, line, gap=S3))

    def show_separator(self) -> None:
        self._separator.show()


def section(title: str, *lines: QWidget | QHBoxLayout | QVBoxLayout) -> QWidget:
    """A card under its heading, with separators between its rows."""
    parts: list[QWidget | QHBoxLayout | QVBoxLayout] = []
    for line in lines:
        if parts and isinstance(line, SettingsRow):
            line.show_separator()
        parts.append(line)
    holder = QWidget()
    holder.setLayout(col(Label(title, "heading"), Card(*parts, gap=S3), gap=S2))
    return holder


def path_line(caption: str, path: str, open_path: Callable[[str], object]) -> QHBoxLayout:
    """A path, and a button that opens its folder."""
    # “SSH” keeps its capital letters.
    name = caption if caption[:2].isupper() else f"{caption[:1].lower()}{caption[1:]}"
    button = IconButton("folder-open", f"Open {name}")
    button.setEnabled(bool(path))
    button.clicked.connect(lambda: open_path(path))
    return row(
        Label(caption, "body"),
        S3,
        (Label(path or "none", "mono", "text2", elide="middle", align="right"), 1),
        button,
        gap=S2,
    )
