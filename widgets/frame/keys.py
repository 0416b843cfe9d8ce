"""Every key of the window, in one table: what the sheet shows and the palette tells.

A test holds it against the shortcuts that the window really has, both ways.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Key:
    """``key`` as Qt writes it; ``where`` is the place in which it works, "" for everywhere."""

    key: str
    does: str
    where: str = ""


KEYS = (
    Key("Ctrl+K", "Go to anything"),
    Key("Ctrl+1", "Jobs"),
    Key("Ctrl+2", "Compare"),
    Key("Ctrl+3", "Datasets"),
    Key("Ctrl+4", "Models"),
    Key("Ctrl+5", "Loaders"),
    Key("Ctrl+6", "Nodes"),
    Key("Alt+Left", "Back"),
    Key("Alt+Right", "Forward"),
    Key("Ctrl+F", "Search here"),
    Key("Ctrl+,", "Settings"),
    Key("Ctrl++", "Larger"),
    Key("Ctrl+-", "Smaller"),
    Key("Ctrl+0", "As large as the system says"),
    Key("F11", "Full screen"),
    Key("F1", "Help"),
    Key("?", "All keys"),
    Key("Ctrl+N", "New job", "Jobs"),
    Key("J", "Next job", "Jobs"),
    Key("K", "Previous job", "Jobs"),
    Key("Ctrl+.", "Stop the open job", "Jobs"),
    Key("Ctrl+D", "Clone the open job", "Jobs"),
    Key("Ctrl+E", "Export its newest checkpoint", "Jobs"),
    Key("Ctrl+L", "Its log", "Jobs"),
    Key("[", "Previous tab", "Jobs"),
    Key("]", "Next tab", "Jobs"),
    Key("L", "Logarithmic axis, or not", "Jobs"),
    Key("F", "Fit the curves", "Jobs"),
    Key("L", "Logarithmic axis, or not", "Compare"),
    Key("F", "Fit the curves", "Compare"),
    Key("Ctrl+Return", "Start", "New job"),
)
