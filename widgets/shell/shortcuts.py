"""Every key of the window in one table, for the shortcuts dialog and the palette.

A test compares it with the actual shortcuts of the window, both ways, and another presses each.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby

from PySide6.QtWidgets import QGridLayout, QWidget

from widgets.common.cards import VerticalScrollArea
from widgets.common.dialog import Dialog
from widgets.common.labels import Label, native_key
from widgets.common.layout import STRETCH, col
from widgets.common.theme import S2, S3, S4
from widgets.jobs.actions.job_actions import KEYED_ACTIONS, KEYED_BULK_ACTIONS
from widgets.shell.pages import PAGES


@dataclass(frozen=True)
class Shortcut:
    """A key in Qt's notation; ``page_title`` is the page on which it works, "" for all pages.

    ``with_focus``: the key belongs to one list or plot, and works while that has the focus.
    """

    key: str
    label: str
    page_title: str = ""
    with_focus: bool = False


_ALL_JOBS, _PLOT, _GPUS = "All jobs, as a table", "A plot", "GPUs of a new job"
_BRUSHES = "Parallel coordinates"

SHORTCUTS = (
    Shortcut("Ctrl+K", "Command palette"),
    *(Shortcut(f"Ctrl+{page.number}", page.title) for page in PAGES),
    Shortcut("Ctrl+N", "New job"),
    Shortcut("Alt+Left", "Back"),
    Shortcut("Alt+Right", "Forward"),
    Shortcut("Ctrl+F", "Search this page"),
    Shortcut("F5", "Refresh"),
    Shortcut("Shift+F10", "Menu of the row or field"),
    Shortcut("Ctrl+,", "Settings"),
    Shortcut("Ctrl++", "Zoom in"),
    Shortcut("Ctrl+-", "Zoom out"),
    Shortcut("Ctrl+0", "Reset zoom"),
    Shortcut("F11", "Full screen"),
    Shortcut("F1", "Help"),
    Shortcut("?", "Keyboard shortcuts"),
    Shortcut("J", "Next job", "Jobs"),
    Shortcut("K", "Previous job", "Jobs"),
    Shortcut("Return", "Go to the open job", "Jobs", with_focus=True),
    Shortcut("Esc", "Back to the list", "Jobs", with_focus=True),
    Shortcut("Alt+Up", "Earlier in the queue", "Jobs", with_focus=True),
    Shortcut("Alt+Down", "Later in the queue", "Jobs", with_focus=True),
    Shortcut("Del", "Move to the trash", "Jobs", with_focus=True),
    *(Shortcut(action.shortcut, action.shortcut_label, "Jobs") for action in KEYED_ACTIONS),
    Shortcut("Ctrl+L", "Show its log", "Jobs"),
    Shortcut("Space", "Select the job, to compare or tag", "Jobs", with_focus=True),
    Shortcut("Shift+Up", "Select it and the one above", "Jobs", with_focus=True),
    Shortcut("Shift+Down", "Select it and the one below", "Jobs", with_focus=True),
    Shortcut("[", "Previous tab", "Jobs"),
    Shortcut("]", "Next tab", "Jobs"),
    Shortcut("L", "Toggle logarithmic y", "Jobs"),
    Shortcut("Shift+L", "Toggle logarithmic x", "Jobs"),
    Shortcut("S", "Focus the smoothing slider", "Jobs"),
    Shortcut("F", "Fit the curves", "Jobs"),
    Shortcut("Space", "Select a row, to compare or tag", _ALL_JOBS, with_focus=True),
    Shortcut("Return", "Open the job", _ALL_JOBS, with_focus=True),
    Shortcut("F2", "Edit the cell, or the name", _ALL_JOBS, with_focus=True),
    Shortcut("O", "Sort by this column", _ALL_JOBS, with_focus=True),
    Shortcut("C", "Choose the columns", _ALL_JOBS, with_focus=True),
    Shortcut("Del", "Move to the trash", _ALL_JOBS, with_focus=True),
    *(Shortcut(action.shortcut, action.shortcut_label, _ALL_JOBS) for action in KEYED_BULK_ACTIONS),
    Shortcut("Ctrl+L", "The log of the job in the row", _ALL_JOBS),
    Shortcut("L", "Toggle logarithmic y", "Compare"),
    Shortcut("Shift+L", "Toggle logarithmic x", "Compare"),
    Shortcut("S", "Focus the smoothing slider", "Compare"),
    Shortcut("F", "Fit the curves", "Compare"),
    Shortcut("Left", "Move the read-out left", _PLOT, with_focus=True),
    Shortcut("Right", "Move the read-out right", _PLOT, with_focus=True),
    Shortcut("Home", "Read out the first point in view", _PLOT, with_focus=True),
    Shortcut("End", "Read out the last point in view", _PLOT, with_focus=True),
    Shortcut("+", "Zoom in", _PLOT, with_focus=True),
    Shortcut("-", "Zoom out", _PLOT, with_focus=True),
    Shortcut("Shift+Left", "Pan to earlier steps", _PLOT, with_focus=True),
    Shortcut("Shift+Right", "Pan to later steps", _PLOT, with_focus=True),
    Shortcut("Up", "A better job", _BRUSHES, with_focus=True),
    Shortcut("Down", "The next worse job", _BRUSHES, with_focus=True),
    Shortcut("Left", "The axis on the left", _BRUSHES, with_focus=True),
    Shortcut("Right", "The axis on the right", _BRUSHES, with_focus=True),
    Shortcut("Shift+Down", "Lower the upper end of the brush", _BRUSHES, with_focus=True),
    Shortcut("Shift+Up", "Raise the upper end", _BRUSHES, with_focus=True),
    Shortcut("Ctrl+Up", "Raise the lower end", _BRUSHES, with_focus=True),
    Shortcut("Ctrl+Down", "Lower the lower end", _BRUSHES, with_focus=True),
    Shortcut("Del", "Remove this brush", _BRUSHES, with_focus=True),
    Shortcut("Esc", "Remove all brushes", _BRUSHES, with_focus=True),
    Shortcut("Ctrl+Return", "Start", "New job"),
    Shortcut("Space", "Select or deselect the GPU", _GPUS, with_focus=True),
    Shortcut("A", "Select all free GPUs of the node", _GPUS, with_focus=True),
    Shortcut("Left", "The GPU on the left", _GPUS, with_focus=True),
    Shortcut("Right", "The GPU on the right", _GPUS, with_focus=True),
    Shortcut("Up", "The node above", _GPUS, with_focus=True),
    Shortcut("Down", "The node below", _GPUS, with_focus=True),
)


_WIDTH, _HEIGHT = 460, 640


class ShortcutsDialog(Dialog):
    """All keyboard shortcuts, by page.

    Each row has a key and the action of the key.
    """

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__("Keyboard shortcuts", _WIDTH, parent, height=_HEIGHT)
        self._grid = QGridLayout()
        self._grid.setHorizontalSpacing(S4)
        self._grid.setVerticalSpacing(S2)
        self._grid.setColumnStretch(1, 1)
        body = QWidget()
        body.setLayout(col(self._grid, STRETCH, margins=(0, 0, S4, 0)))
        self.fill((VerticalScrollArea(body), 1), foot=(self.default_button("Close", self.accept),))
        for page_title, shortcuts in groupby(SHORTCUTS, key=lambda shortcut: shortcut.page_title):
            self._add_section(page_title or "Everywhere", shortcuts)

    def _add_section(self, page_title: str, shortcuts: Iterable[Shortcut]) -> None:
        grid = self._grid
        heading = Label(page_title, "strong")
        heading.setContentsMargins(0, S3 if grid.rowCount() > 1 else 0, 0, 0)
        grid.addWidget(heading, grid.rowCount(), 0, 1, 2)
        for shortcut in shortcuts:
            row = grid.rowCount()
            grid.addWidget(Label(native_key(shortcut.key), "mono", "text2"), row, 0)
            grid.addWidget(Label(shortcut.label), row, 1)
