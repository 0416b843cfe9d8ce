"""The first start: train the example, check this computer, and the steps to the user's own job."""

from __future__ import annotations

from math import cos, radians, sin

from PySide6.QtCore import QPointF, Qt
from PySide6.QtGui import QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QWidget

from backend.records.nodes.reading import Finding, NodeReading
from widgets.common import formats, theme
from widgets.common.buttons import Button
from widgets.common.cards import Card, StyledFrame, VerticalScrollArea
from widgets.common.labels import IconLabel, Label
from widgets.common.layout import STRETCH, clear, col, row
from widgets.common.theme import ICON_LARGE, PAGE_MARGIN, S2, S3, S4, S5, S6, S8

_RANKS = 16
_CARD_W, _CARD_MIN_W = 272, 216
_TEXT_MAX_W = 680
"""Limited by the size of the smallest window."""


class _Ring(QWidget):
    """A drawing of an allreduce ring in which one rank begins to send."""

    def __init__(self) -> None:
        super().__init__()
        self.setFixedSize(132, 132)

    def paintEvent(self, _event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        t = theme.current()
        center, radius = self.width() / 2, self.width() / 2 - 12
        painter.setPen(QPen(t.q("line"), 1))
        painter.drawEllipse(QPointF(center, center), radius, radius)
        for rank in range(_RANKS):
            angle = radians(rank * 360 / _RANKS - 90)
            position = QPointF(center + radius * cos(angle), center + radius * sin(angle))
            if rank < 4:
                painter.setPen(Qt.PenStyle.NoPen)
                painter.setBrush(t.q("live", 1.0 - 0.22 * rank))
                size = 9.0 - 1.2 * rank
                painter.drawEllipse(position, size, size)
            else:
                painter.setPen(QPen(t.q("line_strong"), 1.3))
                painter.setBrush(t.q("canvas"))
                painter.drawEllipse(position, 5, 5)


class _ImportCard(Card):
    """A card for an import, with its button."""

    def __init__(self, icon: str, title: str, description: str, button: str) -> None:
        self.button = Button(button)
        label = Label(description, "body", "text2", wrap=True)
        label.setMinimumHeight(52)
        super().__init__(
            IconLabel(icon, "text", ICON_LARGE),
            Label(title, "heading"),
            label,
            STRETCH,
            self.button,
            gap=S2,
        )
        self.setMinimumWidth(_CARD_MIN_W)
        self.setMaximumWidth(_CARD_W)


class WelcomePage(QWidget):
    """Shown instead of an empty list of jobs.

    Attributes:
        example, dataset, model, nodes: The buttons, which the window connects.
    """

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.example = Button("Train the example", kind="big", icon="play")
        self._busy_note = Label(
            "Handwritten digits, small network, 2 processes. Nothing leaves this computer.",
            "small",
            "text3",
            align="center",
        )
        self._error = Label("", "body", "bad", wrap=True, align="center")
        self._error.hide()
        self._computer_column = col(gap=S2)
        self._reading_text = ""
        self._findings: tuple[Finding, ...] | None = None
        data = _ImportCard(
            "database",
            "Bring your data",
            "A folder, an archive or a data file. Drop it anywhere in this window.",
            "Import dataset",
        )
        self.dataset = data.button
        model = _ImportCard(
            "cube",
            "Bring your model",
            "bks_model.py and a loader, or drop the folder of a training program that you have.",
            "Import model",
        )
        self.model = model.button
        nodes = _ImportCard(
            "hard-drives",
            "Check this computer",
            "Live processor, memory, disk and GPU use, and who uses them.",
            "Show node",
        )
        self.nodes = nodes.button
        content = QWidget()
        content.setLayout(
            col(
                STRETCH,
                row(STRETCH, _Ring(), STRETCH),
                S4,
                Label("Nothing is running yet", "far", align="center"),
                Label(
                    "Train the built-in example on this computer. It takes about a minute and "
                    "shows every part of the program.",
                    "lead",
                    "text2",
                    align="center",
                    wrap=True,
                ),
                S3,
                row(STRETCH, self.example, STRETCH),
                self._busy_note,
                self._error,
                S6,
                row(STRETCH, (data, 100), (model, 100), (nodes, 100), STRETCH, gap=S4),
                S4,
                self._computer_column,
                STRETCH,
                gap=S2,
                margins=(PAGE_MARGIN, S8, PAGE_MARGIN, S5),
            )
        )
        self.setLayout(col((VerticalScrollArea(content), 1), gap=0))

    def show_busy(self, message: str) -> None:
        """Show that the example is being installed; "" when that has ended."""
        self.example.setEnabled(not message)
        self.example.setText(message or "Train the example")
        self._error.hide()

    def show_error(self, message: str, remedy: str = "") -> None:
        self.show_busy("")
        self._error.setText(f"{message} {remedy}".strip())
        self._error.show()

    def show_reading(self, reading: NodeReading) -> None:
        """Show the hardware of this computer in one line."""
        memory = formats.memory(reading.memory_total_bytes)
        gpus = [f"{g.name} with {formats.memory(g.memory_total_bytes)}" for g in reading.gpus]
        text = ", ".join(
            (formats.plural(reading.cpu.cores, "core"), f"{memory} memory", *(gpus or ["no GPU"]))
        )
        if text != self._reading_text:
            self._reading_text = text
            self._show_this_computer()

    def show_findings(self, findings: tuple[Finding, ...]) -> None:
        """Show the findings of ``doctor``; a problem comes with its remedy."""
        self._findings = findings
        self._show_this_computer()

    def _show_this_computer(self) -> None:
        clear(self._computer_column)
        problems = [finding for finding in self._findings or () if not finding.ok]
        if self._reading_text and not problems:
            self._computer_column.addLayout(row(STRETCH, *self._ready_widgets(), STRETCH))
        for finding in problems:
            text = f"{finding.message} {finding.remedy}".strip()
            label = Label(text, "body", "text", wrap=True, selectable=True)
            # Without a minimum, a wrapped label shrinks to a column of single words.
            text_w = label.fontMetrics().horizontalAdvance(text) + 2
            label.setMinimumWidth(min(text_w, _TEXT_MAX_W))
            self._computer_column.addLayout(
                row(STRETCH, IconLabel("warning-fill", "warn"), label, STRETCH)
            )

    def _ready_widgets(self) -> tuple[QWidget, ...]:
        """Return the hardware of this computer; "ready" only once it was checked."""
        reading = Label(self._reading_text, "body", "text2")
        if self._findings is None:
            return (Label("This computer:", "strong"), reading)
        label = Label("This computer is ready:", "strong", "good")
        return (IconLabel("check-circle-fill", "good"), label, reading)


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
