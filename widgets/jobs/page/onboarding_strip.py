"""The steps after the example: own data, model and node, until the user's first job."""

from __future__ import annotations

from PySide6.QtWidgets import QWidget

from widgets.common.buttons import Button
from widgets.common.cards import StyledFrame
from widgets.common.labels import Label
from widgets.common.layout import STRETCH, col, row
from widgets.common.theme import PAGE_MARGIN, S2, S3

_STEPS = (
    ("data", "Data", "database", "Import a dataset"),
    ("model", "Model", "cube", "Import a model, and a loader that reads the data for it"),
    ("node", "Node", "hard-drives", "Add a computer that trains"),
)


class OnboardingStrip(QWidget):
    """A button per step, with a check mark if the step is done; hidden until `show_steps`.

    Attributes:
        steps: The button of each step, by its key.
    """

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.steps: dict[str, Button] = {}
        for key, text, icon, tip in _STEPS:
            self.steps[key] = Button(text, kind="quiet", icon=icon, tip=tip)
        title = Label("Next, your own:", "strong")
        line = row(title, *self.steps.values(), STRETCH, margins=(S3, 2, 2, 2))
        self.setLayout(col(StyledFrame("sunken", line), margins=(PAGE_MARGIN, S2, PAGE_MARGIN, 0)))
        self.hide()

    def show_steps(self, completed_steps: frozenset[str], *, is_visible: bool) -> None:
        """Set which of ``data``, ``model``, ``node`` are done, and show or hide the strip."""
        for key, _, icon, _ in _STEPS:
            self.steps[key].set_icon("check-circle" if key in completed_steps else icon)
            self.steps[key].setAccessibleDescription("done" if key in completed_steps else "")
        self.setVisible(is_visible)
