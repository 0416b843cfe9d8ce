"""Every key of the window in one table, for the shortcuts dialog and the palette.

A test compares it with the actual shortcuts of the window, both ways, and another presses each.
"""

from __future__ import annotations

from dataclasses import dataclass

from widgets.jobs.actions.job_actions import KEYED_ACTIONS, KEYED_BULK_ACTIONS
from widgets.shell.pages import PLACES


@dataclass(frozen=True)
class Key:
    """``key`` in Qt's notation; ``where`` is the page on which it works, "" for everywhere.

    ``with_focus``: it belongs to one list or plot, and works while that has the focus.
    """

    key: str
    does: str
    where: str = ""
    with_focus: bool = False


_ALL_JOBS, _PLOT, _GPUS = "All jobs, as a table", "A plot", "GPUs of a new job"
_BRUSHES = "Parallel coordinates"

KEYS = (
    Key("Ctrl+K", "Command palette"),
    *(Key(f"Ctrl+{place.number}", place.title) for place in PLACES),
    Key("Ctrl+N", "New job"),
    Key("Alt+Left", "Back"),
    Key("Alt+Right", "Forward"),
    Key("Ctrl+F", "Search this page"),
    Key("F5", "Refresh"),
    Key("Shift+F10", "Menu of the row or field"),
    Key("Ctrl+,", "Settings"),
    Key("Ctrl++", "Zoom in"),
    Key("Ctrl+-", "Zoom out"),
    Key("Ctrl+0", "Reset zoom"),
    Key("F11", "Full screen"),
    Key("F1", "Help"),
    Key("?", "Keyboard shortcuts"),
    Key("J", "Next job", "Jobs"),
    Key("K", "Previous job", "Jobs"),
    Key("Return", "Go to the open job", "Jobs", with_focus=True),
    Key("Esc", "Back to the list", "Jobs", with_focus=True),
    Key("Alt+Up", "Earlier in the queue", "Jobs", with_focus=True),
    Key("Alt+Down", "Later in the queue", "Jobs", with_focus=True),
    Key("Del", "Move to the trash", "Jobs", with_focus=True),
    *(Key(action.shortcut, action.shortcut_label, "Jobs") for action in KEYED_ACTIONS),
    Key("Ctrl+L", "Show its log", "Jobs"),
    Key("Space", "Select the job, to compare or tag", "Jobs", with_focus=True),
    Key("Shift+Up", "Select it and the one above", "Jobs", with_focus=True),
    Key("Shift+Down", "Select it and the one below", "Jobs", with_focus=True),
    Key("[", "Previous tab", "Jobs"),
    Key("]", "Next tab", "Jobs"),
    Key("L", "Toggle logarithmic y", "Jobs"),
    Key("Shift+L", "Toggle logarithmic x", "Jobs"),
    Key("S", "Focus the smoothing slider", "Jobs"),
    Key("F", "Fit the curves", "Jobs"),
    Key("Space", "Select a row, to compare or tag", _ALL_JOBS, with_focus=True),
    Key("Return", "Open the job", _ALL_JOBS, with_focus=True),
    Key("F2", "Edit the cell, or the name", _ALL_JOBS, with_focus=True),
    Key("O", "Sort by this column", _ALL_JOBS, with_focus=True),
    Key("C", "Choose the columns", _ALL_JOBS, with_focus=True),
    Key("Del", "Move to the trash", _ALL_JOBS, with_focus=True),
    *(Key(action.shortcut, action.shortcut_label, _ALL_JOBS) for action in KEYED_BULK_ACTIONS),
    Key("Ctrl+L", "The log of the job in the row", _ALL_JOBS),
    Key("L", "Toggle logarithmic y", "Compare"),
    Key("Shift+L", "Toggle logarithmic x", "Compare"),
    Key("S", "Focus the smoothing slider", "Compare"),
    Key("F", "Fit the curves", "Compare"),
    Key("Left", "Move the read-out left", _PLOT, with_focus=True),
    Key("Right", "Move the read-out right", _PLOT, with_focus=True),
    Key("Home", "Read out the first point in view", _PLOT, with_focus=True),
    Key("End", "Read out the last point in view", _PLOT, with_focus=True),
    Key("+", "Zoom in", _PLOT, with_focus=True),
    Key("-", "Zoom out", _PLOT, with_focus=True),
    Key("Shift+Left", "Pan to earlier steps", _PLOT, with_focus=True),
    Key("Shift+Right", "Pan to later steps", _PLOT, with_focus=True),
    Key("Up", "A better job", _BRUSHES, with_focus=True),
    Key("Down", "The next worse job", _BRUSHES, with_focus=True),
    Key("Left", "The axis on the left", _BRUSHES, with_focus=True),
    Key("Right", "The axis on the right", _BRUSHES, with_focus=True),
    Key("Shift+Down", "Lower the upper end of the brush", _BRUSHES, with_focus=True),
    Key("Shift+Up", "Raise the upper end", _BRUSHES, with_focus=True),
    Key("Ctrl+Up", "Raise the lower end", _BRUSHES, with_focus=True),
    Key("Ctrl+Down", "Lower the lower end", _BRUSHES, with_focus=True),
    Key("Del", "Remove this brush", _BRUSHES, with_focus=True),
    Key("Esc", "Remove all brushes", _BRUSHES, with_focus=True),
    Key("Ctrl+Return", "Start", "New job"),
    Key("Space", "Select or deselect the GPU", _GPUS, with_focus=True),
    Key("A", "Select all free GPUs of the node", _GPUS, with_focus=True),
    Key("Left", "The GPU on the left", _GPUS, with_focus=True),
    Key("Right", "The GPU on the right", _GPUS, with_focus=True),
    Key("Up", "The node above", _GPUS, with_focus=True),
    Key("Down", "The node below", _GPUS, with_focus=True),
)
