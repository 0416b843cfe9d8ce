"""The steps of a set-up: a line each; the live step with output, a failed step with the reason."""

from __future__ import annotations

import time
from functools import partial

from PySide6.QtCore import QTimer, Signal, Slot
from PySide6.QtGui import QGuiApplication, QHideEvent, QShowEvent
from PySide6.QtWidgets import QWidget

from backend.records.jobs.state import JobState
from backend.records.nodes.entry import SetUp, SetUpStep, StepState
from widgets.common import formats
from widgets.common.buttons import Button
from widgets.common.cards import Separator, StyledFrame
from widgets.common.labels import IconLabel, Label
from widgets.common.layout import STRETCH, clear, col, row
from widgets.common.state_badge import StateGlyph
from widgets.common.theme import ICON_NAV, S2, S3, ColorRole
from widgets.jobs.log.log_ansi import strip_codes

STEPS = {
    "Reach": "SSH, the host key, the account",
    "Inspect": "system, GPUs, driver, disk, data root",
    "Python": "a separate environment, independent of the system's",
    "Open MPI": "same version as on all other nodes",
    "PyTorch": "the packages of a training, imported once",
    "Agent": "copy, start, first heartbeat",
    "Test": "two ranks, one sum",
}
"""The plan of each step, in order."""

_LIVE_LINES, _FAILED_LINES = 2, 8
_TICK_MS = 1000
_ICONS: dict[StepState, tuple[str, ColorRole]] = {
    StepState.DONE: ("check-circle-fill", "good"),
    StepState.FAILED: ("x-circle-fill", "bad"),
    StepState.CANCELLED: ("minus-circle-fill", "idle"),
}
_STOPPED_STATES = (StepState.FAILED, StepState.CANCELLED)
_STATE_LABELS = {
    StepState.WAITING: "waits",
    StepState.RUNNING: "is running",
    StepState.DONE: "is done",
    StepState.FAILED: "failed",
    StepState.CANCELLED: "was cancelled",
}


def last_lines(output: str, count: int) -> list[str]:
    """Return the last non-empty lines, without colours and overwritten progress bars."""
    lines = [line.rstrip() for line in strip_codes(output).splitlines() if line.strip()]
    return lines[-count:]


def step_time(seconds: float) -> str:
    """Return ``0.4 s``, ``14 s``, ``1:48``."""
    if seconds < 60:
        return f"{seconds:.1f}{formats.GAP}s" if seconds < 9.95 else f"{seconds:.0f}{formats.GAP}s"
    minutes, remaining_s = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{remaining_s:02d}" if hours else f"{minutes}:{remaining_s:02d}"


class StepView(QWidget):
    """The line of a step.

    Signals:
        retry_requested: Retry from here.
    """

    retry_requested = Signal()

    def __init__(self, title: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._step = SetUpStep(title)
        self._update_s = 0.0
        self._glyph = StateGlyph(JobState.CREATED, 0.0, ICON_NAV)
        self._icon = IconLabel("check-circle-fill", "good", ICON_NAV)
        self._title = Label(title, "strong")
        self._message = Label("", "body", "text2", elide="right")
        self._time = Label("", "small", "text3")
        # Most steps never have details, which take longer to make than the line.
        self.details: StepDetails | None = None
        head = row(self._glyph, self._icon, self._title, (self._message, 1), self._time, gap=10)
        self._column = col(head, gap=6, margins=(0, 7, 0, 7))
        self.setLayout(self._column)
        self.show_step(self._step)

    def show_step(self, step: SetUpStep) -> None:
        self._step, self._update_s = step, time.monotonic()
        state = step.state
        shows_glyph = state in (StepState.WAITING, StepState.RUNNING)
        self._glyph.setVisible(shows_glyph)
        self._icon.setVisible(not shows_glyph)
        if shows_glyph:
            is_running = state is StepState.RUNNING
            self._glyph.set_state(JobState.STARTING if is_running else JobState.CREATED)
            self._glyph.setToolTip("")
        else:
            self._icon.set_icon(*_ICONS[state])
        self._title.set_color_role("text3" if state is StepState.WAITING else "text")
        has_failed = state is StepState.FAILED
        message = "" if has_failed else step.message
        self._message.setText(message or STEPS.get(step.title, "") if shows_glyph else message)
        color_roles: dict[StepState, ColorRole] = {
            StepState.RUNNING: "live",
            StepState.WAITING: "text3",
        }
        self._message.set_color_role(color_roles.get(state, "text2"))
        self._show_details(step)
        self.tick()
        remedy = step.remedy if has_failed else ""
        name = f"{step.title} {_STATE_LABELS[state]}. {step.message} {remedy}"
        self.setAccessibleName(name.strip())

    def _show_details(self, step: SetUpStep) -> None:
        count = {StepState.RUNNING: _LIVE_LINES, StepState.FAILED: _FAILED_LINES}.get(step.state, 0)
        lines = last_lines(step.output, count) if count else []
        if self.details is None and (lines or step.state in _STOPPED_STATES):
            self.details = StepDetails()
            self.details.retry.clicked.connect(self.retry_requested)
            self._column.addWidget(self.details)
        if self.details is not None:
            self.details.show_step(step, lines)

    def tick(self) -> None:
        """Advance the clock of the live step between two updates."""
        seconds = self._step.seconds
        if self._step.state is StepState.RUNNING:
            seconds += time.monotonic() - self._update_s
            self._time.setText(step_time(max(1.0, float(int(seconds)))))
        else:
            self._time.setText(step_time(seconds) if seconds else "")


class StepDetails(QWidget):
    """The output of a step; after a failure the reason, the remedy, and the buttons."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._output = ""
        self.cause = Label("", "body", "bad", wrap=True, selectable=True)
        self.remedy = Label("", "body", "text2", wrap=True, selectable=True)
        self._line_column = col(gap=3, margins=(S3, S2, S3, S2))
        self._log = StyledFrame("sunken", self._line_column)
        self._shown_lines: list[str] = []
        self.retry = Button("Retry from here", icon="arrow-clockwise")
        self.copy = Button("Copy log", kind="quiet", icon="copy")
        self.copy.clicked.connect(
            lambda: QGuiApplication.clipboard().setText(strip_codes(self._output))
        )
        self._actions = QWidget()
        self._actions.setLayout(row(self.retry, self.copy, STRETCH, gap=S2))
        # The remedy comes before the log; a long log would push it out of view.
        parts = (self.cause, self.remedy, self._actions, self._log)
        self.setLayout(col(*parts, gap=S2, margins=(ICON_NAV + 10, 0, 0, 4)))

    def show_step(self, step: SetUpStep, lines: list[str]) -> None:
        """Show the step, and the last lines of its output."""
        self._output = step.output
        has_failed, has_stopped = step.state is StepState.FAILED, step.state in _STOPPED_STATES
        self.cause.setText(step.message if has_failed else "")
        self.cause.setVisible(has_failed and bool(step.message))
        self.remedy.setText(step.remedy)
        self.remedy.setVisible(has_failed and bool(step.remedy))
        self._show_lines(lines)
        self._actions.setVisible(has_stopped)
        self.copy.setVisible(bool(step.output))
        self.setVisible(has_stopped or bool(lines))

    def _show_lines(self, lines: list[str]) -> None:
        self._log.setVisible(bool(lines))
        if lines == self._shown_lines:
            return
        self._shown_lines = lines
        while self._line_column.count() > len(lines):
            item = self._line_column.takeAt(self._line_column.count() - 1)
            widget = item.widget() if item is not None else None
            if widget is not None:
                widget.hide()
                widget.deleteLater()
        for number, line in enumerate(lines):
            item = self._line_column.itemAt(number)
            label = item.widget() if item is not None else None
            if isinstance(label, Label):
                label.setText(line)
            else:
                self._line_column.addWidget(Label(line, "mono", "text2", elide="right"))


class SetUpView(QWidget):
    """All steps of one node.

    Signals:
        retry_requested: Name of the node, and the title of the step to retry from.
    """

    retry_requested = Signal(str, str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.set_up = SetUp("")
        self._steps: dict[str, SetUpStep] = {}
        self._views: dict[str, StepView] = {}
        self._column = col(gap=0)
        self.setLayout(self._column)
        self._clock = QTimer(self, interval=_TICK_MS)
        self._clock.timeout.connect(self._tick)

    def step(self, title: str) -> StepView:
        return self._views[title]

    def show_set_up(self, set_up: SetUp) -> None:
        """Show an update of the set-up; before the first update there are only the plans."""
        steps = {step.title: step for step in set_up.steps or map(SetUpStep, STEPS)}
        is_other = list(self._steps) != list(steps)
        self.set_up, self._steps = set_up, steps
        if is_other:
            self._remove_steps()
            for title in steps:
                self._add_step(title)
        for title, view in self._views.items():
            view.show_step(steps[title])

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._clock.start()

    def hideEvent(self, event: QHideEvent) -> None:
        super().hideEvent(event)
        self._clock.stop()

    def _remove_steps(self) -> None:
        clear(self._column)
        self._views = {}

    def _add_step(self, title: str) -> None:
        if self._views:
            self._column.addWidget(Separator())
        view = self._views[title] = StepView(title)
        view.retry_requested.connect(partial(self._request_retry, title))
        view.show_step(self._steps[title])
        self._column.addWidget(view)

    def _request_retry(self, title: str) -> None:
        self.retry_requested.emit(self.set_up.node, title)

    @Slot()
    def _tick(self) -> None:
        for view in self._views.values():
            view.tick()
