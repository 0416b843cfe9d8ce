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

_MAX_EVENTS = 9
_MAX_CHECKPOINTS = 3
_EXCEPTION_LINE = re.compile(r"(?:\w+\.)*(\w*(?:Error|Exception|Interrupt|Exit))\b")


@dataclass(frozen=True)
class Event:
    """An event of a run; ``time_s`` is Unix time."""

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
    """Return the start of the run, and its last events.

    Args:
        checkpoints: The existing checkpoints.
        curves: The curves with the time of each step.
        problems: The problems of the job's GPUs, in Unix time.
    """
    events = sorted(
        chain(
            _checkpoint_events(view, checkpoints),
            _curve_events(view, curves),
            (Event(span.x0, "warning-fill", "warn", span.text) for span in problems if span.text),
            _end_events(view),
        ),
        key=lambda event: event.time_s,
    )
    start_time = instant(view.status.started_at)
    if start_time is None:
        return tuple(events[-_MAX_EVENTS:])
    start_event = Event(start_time.timestamp(), "play", "text2", f"Run {view.run} began")
    return (
        start_event,
        *[event for event in events if event.time_s >= start_event.time_s][1 - _MAX_EVENTS :],
    )


def _checkpoint_events(view: JobView, checkpoints: Iterable[Checkpoint]) -> Iterable[Event]:
    run_checkpoints = sorted(
        (checkpoint for checkpoint in checkpoints if checkpoint.run == view.run),
        key=lambda checkpoint: checkpoint.step,
    )
    for checkpoint in run_checkpoints[-_MAX_CHECKPOINTS:]:
        created = instant(checkpoint.created)
        if created is not None:
            position = position_text(checkpoint.epoch, checkpoint.step, formats.count)
            message = f"Checkpoint saved: {position}"
            yield Event(created.timestamp(), "floppy-disk", "good", message)


def _curve_events(view: JobView, curves: RunCurves) -> Iterable[Event]:
    loss = curves.get("loss")
    if loss is None or not len(loss) or not curves.started_s:
        return
    for alarm in view.status.alarms:
        time_s = curves.x_at_step(alarm.step, XAxis.CLOCK)
        if time_s is not None:
            message = alarm.message
            if f"step {alarm.step}" not in message:
                message = f"Step {formats.count(alarm.step)}: {message}"
            yield Event(time_s, "warning-fill", "warn", message)
    finite_indices = np.flatnonzero(np.isfinite(loss.raw))
    if finite_indices.size:
        last_index = finite_indices[-1]
        message = f"Last step with a loss: {formats.count(int(loss.steps[last_index]))}"
        yield Event(float(loss.times_s[last_index]), "chart-line-up", "text2", message)


def _end_events(view: JobView) -> Iterable[Event]:
    end_time = instant(view.status.ended_at)
    if end_time is None:
        return
    error = view.error
    rank_name = "A rank" if error is None or error.rank is None else f"Rank {error.rank}"
    exception_name = _exception_name(error.traceback) if error is not None else ""
    if view.state is JobState.LOST:
        message = "The run stopped reporting"
    elif exception_name:
        message = f"{rank_name} raised {exception_name}"
    else:
        message = "The run failed" if rank_name == "A rank" else f"{rank_name} failed"
    yield Event(end_time.timestamp(), "x-circle-fill", "bad", message)


def _exception_name(traceback: str) -> str:
    """Return the name of the exception: "OutOfMemoryError"."""
    for line in reversed(traceback.splitlines()):
        match = _EXCEPTION_LINE.match(line)
        if match is not None:
            return match[1]
    return ""


class EventList(Card):
    """A line per event: time, icon, text."""

    def __init__(self, parent: QWidget | None = None) -> None:
        self.shown_events: tuple[Event, ...] = ()
        self._rows = QGridLayout()
        self._rows.setHorizontalSpacing(S2)
        self._rows.setVerticalSpacing(S2)
        self._rows.setColumnStretch(2, 1)
        super().__init__(col(Label("Events", "strong"), self._rows, STRETCH, gap=S2))
        self.setAccessibleName("Events before the failure")

    def show_events(self, events: tuple[Event, ...]) -> None:
        """Show these events, oldest first; the card is hidden if there are none."""
        self.setVisible(bool(events))
        if events == self.shown_events:
            return
        self.shown_events = events
        clear(self._rows)
        last_day = formats.day(events[-1].time_s) if events else ""
        for row_index, event in enumerate(events):
            day = formats.day(event.time_s)
            clock = formats.clock_s(event.time_s)
            time_label = Label(clock if day == last_day else f"{day} {clock}", "small", "text3")
            time_label.set_tip(formats.full_time(event.time_s))
            color_role: ColorRole = "bad" if event.color_role == "bad" else "text"
            icon = IconLabel(event.icon, event.color_role, ICON_SMALL)
            message_label = Label(event.message, "body", color_role, wrap=True)
            for column, part in enumerate((time_label, icon, message_label)):
                self._rows.addWidget(part, row_index, column, Qt.AlignmentFlag.AlignTop)
