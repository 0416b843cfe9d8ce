"""Every key of the window, in one table: what the sheet shows and the palette tells.

A test holds it against the shortcuts that the window really has, both ways, and one presses each.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Key:
    """``key`` as Qt writes it; ``where`` is the place in which it works, "" for everywhere.

    ``with_focus``: it is the key of one list or plot, and works while that has the focus.
    """

    key: str
    does: str
    where: str = ""
    with_focus: bool = False


_ALL_JOBS, _PLOT, _GPUS = "All jobs, as a table", "A plot", "GPUs of a new job"
_BRUSHES = "Parallel coordinates"

KEYS = (
    Key("Ctrl+K", "Go to anything"),
    Key("Ctrl+1", "Jobs"),
    Key("Ctrl+2", "Compare"),
    Key("Ctrl+3", "Datasets"),
    Key("Ctrl+4", "Models"),
    Key("Ctrl+5", "Loaders"),
    Key("Ctrl+6", "Nodes"),
    Key("Ctrl+N", "New job"),
    Key("Alt+Left", "Back"),
    Key("Alt+Right", "Forward"),
    Key("Ctrl+F", "Search here"),
    Key("F5", "Look again"),
    Key("Shift+F10", "Menu of the row or field"),
    Key("Ctrl+,", "Settings"),
    Key("Ctrl++", "Larger"),
    Key("Ctrl+-", "Smaller"),
    Key("Ctrl+0", "As large as the system says"),
    Key("F11", "Full screen"),
    Key("F1", "Help"),
    Key("?", "All keys"),
    Key("J", "Next job", "Jobs"),
    Key("K", "Previous job", "Jobs"),
    Key("Return", "Into the open job", "Jobs", with_focus=True),
    Key("Esc", "Back to the list", "Jobs", with_focus=True),
    Key("Alt+Up", "Earlier in the queue", "Jobs", with_focus=True),
    Key("Alt+Down", "Later in the queue", "Jobs", with_focus=True),
    Key("Del", "Move to the trash", "Jobs", with_focus=True),
    Key("Ctrl+.", "Stop the open job", "Jobs"),
    Key("Ctrl+D", "Clone the open job", "Jobs"),
    Key("Ctrl+E", "Export its newest checkpoint", "Jobs"),
    Key("Ctrl+L", "Its log", "Jobs"),
    Key("Space", "Tick the job, to compare or tag", "Jobs", with_focus=True),
    Key("Shift+Up", "Tick it and the one above", "Jobs", with_focus=True),
    Key("Shift+Down", "Tick it and the one below", "Jobs", with_focus=True),
    Key("[", "Previous tab", "Jobs"),
    Key("]", "Next tab", "Jobs"),
    Key("L", "Logarithmic y, or not", "Jobs"),
    Key("Shift+L", "Logarithmic x, or not", "Jobs"),
    Key("S", "Smoothing, by arrows", "Jobs"),
    Key("F", "Fit the curves", "Jobs"),
    Key("Space", "Choose a row, to compare or tag", _ALL_JOBS, with_focus=True),
    Key("Return", "Open the job", _ALL_JOBS, with_focus=True),
    Key("F2", "Change the cell, or the name", _ALL_JOBS, with_focus=True),
    Key("O", "Order by this column", _ALL_JOBS, with_focus=True),
    Key("C", "Choose the columns", _ALL_JOBS, with_focus=True),
    Key("Del", "Move to the trash", _ALL_JOBS, with_focus=True),
    Key("Ctrl+.", "Stop the chosen jobs, or that of the row", _ALL_JOBS),
    Key("Ctrl+D", "Clone them", _ALL_JOBS),
    Key("Ctrl+E", "Export their newest checkpoints", _ALL_JOBS),
    Key("Ctrl+L", "The log of the job in the row", _ALL_JOBS),
    Key("L", "Logarithmic y, or not", "Compare"),
    Key("Shift+L", "Logarithmic x, or not", "Compare"),
    Key("S", "Smoothing, by arrows", "Compare"),
    Key("F", "Fit the curves", "Compare"),
    Key("Left", "Read the curves further left", _PLOT, with_focus=True),
    Key("Right", "Read the curves further right", _PLOT, with_focus=True),
    Key("Home", "Read the first point in view", _PLOT, with_focus=True),
    Key("End", "Read the last point in view", _PLOT, with_focus=True),
    Key("+", "Zoom in", _PLOT, with_focus=True),
    Key("-", "Zoom out", _PLOT, with_focus=True),
    Key("Shift+Left", "Earlier steps", _PLOT, with_focus=True),
    Key("Shift+Right", "Later steps", _PLOT, with_focus=True),
    Key("Up", "A better job", _BRUSHES, with_focus=True),
    Key("Down", "The next worse job", _BRUSHES, with_focus=True),
    Key("Left", "The axis on the left", _BRUSHES, with_focus=True),
    Key("Right", "The axis on the right", _BRUSHES, with_focus=True),
    Key("Shift+Down", "Lower the upper end of the brush", _BRUSHES, with_focus=True),
    Key("Shift+Up", "Raise the upper end", _BRUSHES, with_focus=True),
    Key("Ctrl+Up", "Raise the lower end", _BRUSHES, with_focus=True),
    Key("Ctrl+Down", "Lower the lower end", _BRUSHES, with_focus=True),
    Key("Del", "Take this brush away", _BRUSHES, with_focus=True),
    Key("Esc", "Take all brushes away", _BRUSHES, with_focus=True),
    Key("Ctrl+Return", "Start", "New job"),
    Key("Space", "Take the GPU, or leave it", _GPUS, with_focus=True),
    Key("A", "Take all free ones of the node", _GPUS, with_focus=True),
    Key("Left", "The GPU on the left", _GPUS, with_focus=True),
    Key("Right", "The GPU on the right", _GPUS, with_focus=True),
    Key("Up", "The node above", _GPUS, with_focus=True),
    Key("Down", "The node below", _GPUS, with_focus=True),
)
