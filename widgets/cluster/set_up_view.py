"""One node being set up: a line per step; the live one shows its last output, a failed one why."""

from __future__ import annotations

import time
from functools import partial

from PySide6.QtCore import QTimer, Signal, Slot
from PySide6.QtGui import QGuiApplication, QHideEvent, QShowEvent
from PySide6.QtWidgets import QWidget

from backend.records.cluster import SetUp, SetUpStep, StepState
from backend.records.state import JobState
from widgets.common import formats
from widgets.common.buttons import Button
from widgets.common.cards import Frame, Rule
from widgets.common.layout import STRETCH, clear, col, row
from widgets.common.state_badge import StateGlyph
from widgets.common.text import IconLabel, Label
from widgets.common.theme import ICON_NAV, S2, S3, Tone
from widgets.jobs.log_ansi import plain

STEPS = {
    "Reach": "SSH, the host key, whose account it is",
    "Look": "system, GPUs, driver, disk, the data root",
    "Python": "an environment of its own, nothing of the system's",
    "Open MPI": "the same version as on all other nodes",
    "Horovod": "built against this node's own torch",
    "Agent": "copy, start, first heartbeat",
    "Trial": "two ranks, one allreduce, one checkpoint",
}
"""What each step is going to do, in their order."""

_LIVE_LINES, _FAILED_LINES = 2, 8
_TICK_MS = 1000
_ICONS: dict[StepState, tuple[str, Tone]] = {
    StepState.DONE: ("check-circle-fill", "good"),
    StepState.FAILED: ("x-circle-fill", "bad"),
    StepState.CANCELLED: ("minus-circle-fill", "idle"),
}
_WORDS = {
    StepState.WAITING: "waits",
    StepState.RUNNING: "is under way",
    StepState.DONE: "is done",
    StepState.FAILED: "failed",
    StepState.CANCELLED: "was cancelled",
}


def last_lines(output: str, count: int) -> list[str]:
    """The last lines that say something, without colours and without what a bar overwrote."""
    lines = [line.rstrip() for line in plain(output).splitlines() if line.strip()]
    return lines[-count:]


def step_time(seconds: float) -> str:
    """``0.4 s``, ``14 s``, ``1:48``."""
    if seconds < 60:
        return f"{seconds:.1f}{formats.GAP}s" if seconds < 9.95 else f"{seconds:.0f}{formats.GAP}s"
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


class StepView(QWidget):
    """One step.

    Signals:
        retry_requested: From here once more.
    """

    retry_requested = Signal()

    def __init__(self, title: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._step = SetUpStep(title)
        self._shown_at = 0.0
        self._glyph = StateGlyph(JobState.CREATED, 0.0, ICON_NAV)
        self._icon = IconLabel("check-circle-fill", "good", ICON_NAV)
        self._title = Label(title, "strong")
        self._words = Label("", "body", "text2", elide="right")
        self._time = Label("", "small", "text3")
        self._cause = Label("", "body", "bad", wrap=True, selectable=True)
        self._remedy = Label("", "body", "text2", wrap=True, selectable=True)
        self._lines = col(gap=3, margins=(S3, S2, S3, S2))
        self._log = Frame("sunken", self._lines)
        self._log_shown: list[str] = []
        self._retry = Button("Retry from here", icon="arrow-clockwise")
        self._retry.clicked.connect(self.retry_requested)
        self._copy = Button("Copy log", kind="quiet", icon="copy")
        self._copy.clicked.connect(self._copy_log)
        head = row(self._glyph, self._icon, self._title, (self._words, 1), self._time, gap=10)
        self._actions = QWidget()
        self._actions.setLayout(row(self._retry, self._copy, STRETCH, gap=S2))
        self._more = QWidget()
        margins = (ICON_NAV + 10, 0, 0, 4)
        # What mends it before the log, or a long one pushes it out of sight.
        parts = (self._cause, self._remedy, self._actions, self._log)
        self._more.setLayout(col(*parts, gap=S2, margins=margins))
        self.setLayout(col(head, self._more, gap=6, margins=(0, 7, 0, 7)))
        self.show_step(self._step)

    def show_step(self, step: SetUpStep) -> None:
        self._step, self._shown_at = step, time.monotonic()
        state = step.state
        drawn = state in (StepState.WAITING, StepState.RUNNING)
        self._glyph.setVisible(drawn)
        self._icon.setVisible(not drawn)
        if drawn:
            live = state is StepState.RUNNING
            self._glyph.set_state(JobState.STARTING if live else JobState.CREATED)
            self._glyph.setToolTip("")
        else:
            self._icon.set_icon(*_ICONS[state])
        self._title.set_tone("text3" if state is StepState.WAITING else "text")
        failed = state is StepState.FAILED
        words = "" if failed else step.sentence
        self._words.setText(words or STEPS.get(step.title, "") if drawn else words)
        tones: dict[StepState, Tone] = {StepState.RUNNING: "live", StepState.WAITING: "text3"}
        self._words.set_tone(tones.get(state, "text2"))
        self._cause.setText(step.sentence if failed else "")
        self._cause.setVisible(failed and bool(step.sentence))
        self._remedy.setText(step.remedy)
        self._remedy.setVisible(failed and bool(step.remedy))
        count = {StepState.RUNNING: _LIVE_LINES, StepState.FAILED: _FAILED_LINES}.get(state, 0)
        self._show_lines(last_lines(step.output, count) if count else [])
        ended = state in (StepState.FAILED, StepState.CANCELLED)
        self._actions.setVisible(ended)
        self._copy.setVisible(bool(step.output))
        self._more.setVisible(ended or bool(self._log_shown))
        self.tick()
        spoken = f"{step.title} {_WORDS[state]}. {step.sentence} {step.remedy if failed else ''}"
        self.setAccessibleName(spoken.strip())

    def tick(self) -> None:
        """The clock of the live step goes on between two of its news."""
        seconds = self._step.seconds
        if self._step.state is StepState.RUNNING:
            seconds += time.monotonic() - self._shown_at
            self._time.setText(step_time(max(1.0, float(int(seconds)))))
        else:
            self._time.setText(step_time(seconds) if seconds else "")

    def _show_lines(self, lines: list[str]) -> None:
        self._log.setVisible(bool(lines))
        if lines == self._log_shown:
            return
        self._log_shown = lines
        while self._lines.count() > len(lines):
            item = self._lines.takeAt(self._lines.count() - 1)
            widget = item.widget() if item is not None else None
            if widget is not None:
                widget.hide()
                widget.deleteLater()
        for number, line in enumerate(lines):
            item = self._lines.itemAt(number)
            label = item.widget() if item is not None else None
            if isinstance(label, Label):
                label.setText(line)
            else:
                self._lines.addWidget(Label(line, "mono", "text2", elide="right"))

    @Slot()
    def _copy_log(self) -> None:
        QGuiApplication.clipboard().setText(plain(self._step.output))


class SetUpView(QWidget):
    """All steps of one node.

    Signals:
        retry_requested: Name of the node, and the title of the step from which on.
    """

    retry_requested = Signal(str, str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._set_up = SetUp("")
        self._views: dict[str, StepView] = {}
        self._column = col(gap=0)
        self.setLayout(self._column)
        self._clock = QTimer(self)
        self._clock.setInterval(_TICK_MS)
        self._clock.timeout.connect(self._tick)

    @property
    def set_up(self) -> SetUp:
        return self._set_up

    def step(self, title: str) -> StepView:
        return self._views[title]

    def show_set_up(self, set_up: SetUp) -> None:
        """The whole of it, at each change; before the first there are only the plans."""
        steps = set_up.steps or tuple(SetUpStep(title) for title in STEPS)
        self._set_up = set_up
        if list(self._views) != [step.title for step in steps]:
            self._build([step.title for step in steps])
        for step in steps:
            self._views[step.title].show_step(step)

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._clock.start()

    def hideEvent(self, event: QHideEvent) -> None:
        super().hideEvent(event)
        self._clock.stop()

    def _build(self, titles: list[str]) -> None:
        clear(self._column)
        self._views = {}
        for title in titles:
            if self._views:
                self._column.addWidget(Rule())
            view = self._views[title] = StepView(title)
            view.retry_requested.connect(partial(self._retried, title))
            self._column.addWidget(view)

    def _retried(self, title: str) -> None:
        self.retry_requested.emit(self._set_up.node, title)

    @Slot()
    def _tick(self) -> None:
        for view in self._views.values():
            view.tick()
