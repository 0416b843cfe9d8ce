"""The settings of a job, named as in the form; values that are not defaults are bold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from PySide6.QtCore import Slot
from PySide6.QtGui import QGuiApplication, QShowEvent
from PySide6.QtWidgets import QGridLayout, QStackedWidget, QWidget

from backend.records.jobs.flat_settings import PINNED, default_settings, effective_settings
from backend.records.jobs.placement import THIS_COMPUTER
from backend.records.jobs.settings import is_named, label, section, sort_key, value_label
from backend.records.jobs.view import JobCommand, JobView
from widgets.common import formats
from widgets.common.buttons import Button, Switch
from widgets.common.cards import Card, StyledFrame, VerticalScrollArea
from widgets.common.fields import TextBox
from widgets.common.labels import Label
from widgets.common.layout import STRETCH, col, row
from widgets.common.theme import PAGE_MARGIN, S2, S3, S4, S6
from widgets.common.throttle import is_on_hidden_page
from widgets.jobs.form.form_layout import SECTION_W

_TEXT_MARGIN, _MIN_H, _EDGES = 44, 120, 6


class _Row(NamedTuple):
    section: str
    label: str
    value: str
    is_changed: bool


class SettingsTab(QWidget):
    """The tab Settings."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._view: JobView | None = None
        self._shown_settings: dict[str, str] = {}
        self._lines: list[tuple[Label, Label, Label]] = []
        self._grid = QGridLayout()
        self._grid.setHorizontalSpacing(S6)
        self._grid.setVerticalSpacing(S2)
        self._grid.setColumnMinimumWidth(0, SECTION_W)
        self._grid.setColumnStretch(2, 1)
        self._rows = QWidget()
        self._rows.setLayout(col(self._grid, STRETCH, margins=(0, 0, 0, S4)))
        self._toml = TextBox(mono=True, read_only=True, name="Job file")
        self._toml_switch = Switch("Show as TOML")
        self._toml_switch.toggled.connect(self._show_format)
        copy_file_button = Button("Copy job file", kind="quiet", icon="copy")
        copy_file_button.clicked.connect(
            lambda: QGuiApplication.clipboard().setText(self._toml.toPlainText())
        )
        self._pages = QStackedWidget()
        self._pages.addWidget(VerticalScrollArea(self._rows))
        toml = QWidget()
        toml.setLayout(col(self._toml, margins=(0, 0, 0, S4)))
        self._pages.addWidget(toml)
        self._command = Label("", "mono", "text2", wrap=True, selectable=True)
        self._command_note = Label("", "small", "text3", wrap=True)
        copy_button = Button("Copy command", kind="quiet", icon="copy")
        copy_button.clicked.connect(
            lambda: QGuiApplication.clipboard().setText(self._command.text())
        )
        self._head = row(Label("Job file", "heading"), STRETCH, self._toml_switch, copy_file_button)
        # Rows that scroll are cut at the edge of the card, not before it.
        self._file_card = Card(self._head, (self._pages, 1), gap=S3, margins=(S4, S4, S4, 1))
        command = StyledFrame("sunken", col(self._command, margins=(S3, S2, S3, S2)))
        content = QWidget()
        content.setLayout(
            col(
                (self._file_card, 100),
                Card(
                    row(Label("Command", "heading"), STRETCH, copy_button),
                    command,
                    self._command_note,
                    gap=S2,
                ),
                STRETCH,
                gap=S3,
                margins=(0, 0, 0, S4),
            )
        )
        # In a small window, below a banner, the command has no room.
        self.setLayout(col(VerticalScrollArea(content, gutter=PAGE_MARGIN)))

    def show_job(self, view: JobView) -> None:
        """Show the settings as rows when the tab is visible: a long job file takes 0.1 s."""
        self._view = view
        if not is_on_hidden_page(self):
            self._show_rows()

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._show_rows()

    def _show_rows(self) -> None:
        if self._view is None:
            return
        settings = effective_settings(self._view)
        if settings == self._shown_settings:
            return
        self._shown_settings = settings
        defaults = default_settings(self._view.config)
        rows = [
            _Row(
                section(key),
                label(key),
                _value_label(key, settings[key]),
                settings[key] != defaults.get(key),
            )
            for key in sorted(settings, key=sort_key)
            # A setting without a field in the form is shown if it is set.
            if is_named(key) or settings[key] != defaults.get(key)
        ]
        self._fill_rows(rows)

    def _fill_rows(self, rows: Sequence[_Row]) -> None:
        while len(self._lines) < len(rows):
            self._add_line()
        previous_section = ""
        for (head, caption, value), settings_row in zip(self._lines, rows, strict=False):
            head.setText(settings_row.section if settings_row.section != previous_section else "")
            previous_section = settings_row.section
            caption.setText(settings_row.label)
            value.setText(settings_row.value)
            value.set_role("strong" if settings_row.is_changed else "body")
        for number, line in enumerate(self._lines):
            for part in line:
                part.setVisible(number < len(rows))
        self._fit_height()

    def _add_line(self) -> None:
        """Add a row; rows are reused, since most jobs have the same settings."""
        line = Label("", "heading"), Label("", "body", "text2"), Label("", elide="right")
        for column, part in enumerate(line):
            self._grid.addWidget(part, len(self._lines), column)
        self._lines.append(line)

    def show_file(self, toml: str, command: JobCommand) -> None:
        self._toml.setPlainText(toml)
        self._fit_height()
        self._command.setText(command.line or "No command: the settings are not valid.")
        self._command_note.setText(_command_note(command))

    @Slot(bool)
    def _show_format(self, as_toml: bool) -> None:
        self._pages.setCurrentIndex(1 if as_toml else 0)
        self._fit_height()

    def _fit_height(self) -> None:
        """Limit the card to the height of its rows: the command is right below."""
        if self._pages.currentIndex() == 0:
            content_height = self._rows.sizeHint().height()
        else:
            lines = self._toml.document().blockCount()
            content_height = lines * self._toml.fontMetrics().lineSpacing() + _TEXT_MARGIN + S4
        head_height = S4 + self._head.sizeHint().height() + S3
        self._file_card.setMaximumHeight(head_height + max(content_height, _MIN_H) + _EDGES)


def _command_note(command: JobCommand) -> str:
    if not command.line:
        return ""
    if not command.node:
        return "To run this yourself, start the job first; then a command appears here."
    node_suffix = "" if command.node == THIS_COMPUTER else f" of {command.node}"
    return (
        f"Paste this into a shell{node_suffix} to train once more in {command.folder}. "
        "This job is not changed."
    )


def _value_label(key: str, value: str) -> str:
    """Return a value as in the form, with the version separate from the name."""
    if key in PINNED:
        return formats.reference(value)
    # As in the form: 600 for 600.0.
    integer_text = value.removesuffix(".0")
    return integer_text if integer_text.isdecimal() else value_label(key, value)
