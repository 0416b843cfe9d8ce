"""The events of a failed run in order of time, from its start to its last update."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QGridLayout, QWidget

from backend.records.base.layout import position_text
from backend.records.base.timestamps import instant
from backend.records.jobs.checkpoint import Checkpoint
from backend.records.jobs.state import JobState
from backend.records.jobs.view import JobView
from widgets.common import formats
from widgets.common.cards import Card
from widgets.common.labels import IconLabel, Label
from widgets.common.layout import STRETCH, clear, col
from widgets.common.theme import ICON_SMALL, S2, ColorRole
from widgets.plots.annotations import AxisSpan
from widgets.plots.curve_data import XAxis
from widgets.plots.run_curves import RunCurves

_MOST = 9
_CHECKPOINTS = 3
_RAISED = re.compile(r"(?:\w+\.)*(\w*(?:Error|Exception|Interrupt|Exit))\b")


@dataclass(frozen=True)
class Event:
    """An event; ``at_s`` is Unix time."""

    time_s: float
    icon: str
    color_role: ColorRole
    message: str


def failure_events(
    view: JobView,
    checkpoints: Iterable[Checkpoint],
    curves: RunCurves,
    problems: Sequence[AxisSpan] = (),
) -> tuple[Event, ...]:
    """Return the start of the run, and the last events after it.

    Args:
        checkpoints: Those that still exist.
        curves: Give the time of each step.
        problems: When GPUs of the job had problems, in Unix time.
    """
    found = sorted(
        chain(
            _of_checkpoints(view, checkpoints),
            _of_curves(view, curves),
            (Event(span.x0, "warning-fill", "warn", span.text) for span in problems if span.text),
            _end(view),
        ),
        key=lambda event: event.time_s,
    )
    started = instant(view.status.started_at)
    if started is None:
        return tuple(found[-_MOST:])
    began = Event(started.timestamp(), "play", "text2", f"Run {view.run} began")
    return (began, *[event for event in found if event.time_s >= began.time_s][1 - _MOST :])


def _of_checkpoints(view: JobView, checkpoints: Iterable[Checkpoint]) -> Iterable[Event]:
    mine = sorted((one for one in checkpoints if one.run == view.run), key=lambda one: one.step)
    for one in mine[-_CHECKPOINTS:]:
        made = instant(one.created)
        if made is not None:
            words = f"Checkpoint saved: {position_text(one.epoch, one.step, formats.count)}"
            yield Event(made.timestamp(), "floppy-disk", "good", words)


def _of_curves(view: JobView, curves: RunCurves) -> Iterable[Event]:
    loss = curves.get("loss")
    if loss is None or not len(loss) or not curves.started_s:
        return
    for alarm in view.status.alarms:
        at = curves.x_at_step(alarm.step, XAxis.CLOCK)
        if at is not None:
            words = alarm.message
            if f"step {alarm.step}" not in words:
                words = f"Step {formats.count(alarm.step)}: {words}"
            yield Event(at, "warning-fill", "warn", words)
    known = np.flatnonzero(np.isfinite(loss.raw))
    if known.size:
        last, at = formats.count(int(loss.steps[known[-1]])), float(loss.times_s[known[-1]])
        yield Event(at, "chart-line-up", "text2", f"Last step with a loss: {last}")


def _end(view: JobView) -> Iterable[Event]:
    ended = instant(view.status.ended_at)
    if ended is None:
        return
    error = view.error
    who = "A rank" if error is None or error.rank is None else f"Rank {error.rank}"
    raised = _exception(error.traceback) if error is not None else ""
    if view.state is JobState.LOST:
        words = "The run stopped reporting"
    elif raised:
        words = f"{who} raised {raised}"
    else:
        words = "The run failed" if who == "A rank" else f"{who} failed"
    yield Event(ended.timestamp(), "x-circle-fill", "bad", words)


def _exception(traceback: str) -> str:
    """Return the name of the exception: "OutOfMemoryError"."""
    for line in reversed(traceback.splitlines()):
        found = _RAISED.match(line)
        if found is not None:
            return found[1]
    return ""


class EventList(Card):
    """A line per event: time, icon, text."""

    def __init__(self, parent: QWidget | None = None) -> None:
        self._shown: tuple[Event, ...] = ()
        self._rows = QGridLayout()
        self._rows.setHorizontalSpacing(S2)
        self._rows.setVerticalSpacing(S2)
        self._rows.setColumnStretch(2, 1)
        super().__init__(col(Label("Events", "strong"), self._rows, STRETCH, gap=S2))
        self.setAccessibleName("Events before the failure")

    @property
    def shown_events(self) -> tuple[Event, ...]:
        return self._shown

    def show_events(self, events: tuple[Event, ...]) -> None:
        """Show these events, oldest first; the card is hidden if there are none."""
        self.setVisible(bool(events))
        if events == self._shown:
            return
        self._shown = events
        clear(self._rows)
        last_day = formats.day(events[-1].time_s) if events else ""
        for line, event in enumerate(events):
            day = formats.day(event.time_s)
            clock = formats.clock_s(event.time_s)
            when = Label(clock if day == last_day else f"{day} {clock}", "small", "text3")
            when.set_tip(formats.full_time(event.time_s))
            tone: ColorRole = "bad" if event.color_role == "bad" else "text"
            icon = IconLabel(event.icon, event.color_role, ICON_SMALL)
            words = Label(event.message, "body", tone, wrap=True)
            for column, part in enumerate((when, icon, words)):
                self._rows.addWidget(part, line, column, Qt.AlignmentFlag.AlignTop)
