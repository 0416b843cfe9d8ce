"""Notify about events that the user may have missed: once each, merged if there are many.

Always: failed, lost and stalled jobs, jobs that the program continued after a failure, a diverging
loss, and a node that goes offline under a job.
Finished jobs: if the user chose so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, NamedTuple

from PySide6.QtCore import QObject, QTimer, Signal, Slot

from backend.records.base.schema import KEY, READ, Record
from backend.records.base.timestamps import seconds
from backend.records.jobs.state import JobState
from backend.records.jobs.status import NOT_A_NUMBER
from backend.records.jobs.view import JobView
from backend.records.nodes.reading import NodeState, Presence
from backend.records.sweeps.spec import sweep_of, sweep_title
from widgets.common import formats

MERGE_MS = 30_000
_NAMES_SHOWN = 6


def _parse_time(raw: str) -> datetime:
    return datetime.fromisoformat(raw).astimezone()


@dataclass(frozen=True)
class Notice(Record, label="a notice"):
    """A notification. ``job_id`` or ``node`` is the target of a click; neither for several."""

    title: str
    text: str
    timestamp: datetime = field(metadata={KEY: "when", READ: _parse_time})
    job_id: str = ""
    node: str = ""
    family: str = "bad"
    root: str = ""
    """The data root of its job, "" in notices of earlier versions."""
    is_read: bool = False

    def is_of(self, root: str) -> bool:
        """Return True if the notice is about this data root, or about an unknown one."""
        return self.root in ("", root)

    def to_dict(self) -> dict[str, Any]:
        return {**super().to_dict(), "when": self.timestamp.isoformat()}


class Run(NamedTuple):
    """A run as the bell sees it, from a summary or a view.

    ``ended_s`` is 0.0 for none, and by the clock of ``node``, on which its supervisor was started.
    """

    job_id: str
    run: int
    state: JobState
    name: str
    ended_s: float
    reason: str
    node: str = ""

    @classmethod
    def from_view(cls, view: JobView) -> Run:
        ended_s = seconds(view.status.ended_at)
        node = "".join(view.nodes[:1])
        return cls(view.id, view.run, view.state, view.name, ended_s, _end_reason(view), node)


@dataclass(frozen=True)
class _Event:
    """A notice that may still be merged with others. ``word`` names what happened to the jobs."""

    notice: Notice
    name: str
    word: str
    node: str = ""


class NotificationRules(QObject):
    """Watch views and report each end once.

    Runs that had ended before the window opened are reported by `missed_notices`. The first of
    several notices is sent at once, those within the next 30 s together, unless they differ.

    Signals:
        notified: A `Notice`, for the tray and the bell.
    """

    notified = Signal(Notice)

    def __init__(
        self,
        notifies_finished: Callable[[], bool],
        merge_ms: int = MERGE_MS,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._notifies_finished = notifies_finished
        self._live_views: dict[tuple[str, int], JobView] = {}
        self._doubtful_runs: set[tuple[str, int]] = set()
        self._reported_alarms: dict[tuple[str, int], set[tuple[str, int]]] = {}
        self._offline_nodes: set[str] = set()
        self._continuation_times: dict[str, str] = {}
        """When a job that was seen alive was continued without a user, "" for never."""
        self._held_events: list[_Event] = []
        self._open_sweeps: frozenset[str] = frozenset()
        self._newly_open_sweeps: frozenset[str] = frozenset()
        self._finished_of_sweep: dict[str, list[JobView]] = {}
        self._merge_timer = QTimer(self, singleShot=True, interval=merge_ms)
        self._merge_timer.timeout.connect(self.send_held_events)

    @Slot(object)
    def see_view(self, view: JobView) -> None:
        """Take a view; notify if a run that was seen alive has ended, or has a problem."""
        run = (view.id, view.run)
        if view.state.is_live:
            self._live_views[run] = view
            self._see_continuation(view)
            self._see_doubt(view)
        if run not in self._live_views:
            return
        self._see_alarms(view)
        if view.state.is_live:
            return
        del self._live_views[run]
        self._doubtful_runs.discard(run)
        self._reported_alarms.pop(run, None)
        if view.state.has_failed:
            node = view.error.node if view.error else ""
            self._notify(view, view.state_label, _end_reason(view), node=node)
        elif self._reports_success(view.state):
            tag = sweep_of(view.config.tags)
            if tag in self._open_sweeps | self._newly_open_sweeps:
                self._finished_of_sweep.setdefault(tag, []).append(view)
            else:
                self._notify(view, view.state_label, _end_reason(view), "good")

    def see_queue(self, views: Iterable[JobView]) -> None:
        """Take all running and waiting jobs; report the finished ones of a sweep at its end.

        A sweep has ended if two listings in a row have no job of it: the last jobs are reported
        between them.
        """
        self._open_sweeps, self._newly_open_sweeps = (
            self._newly_open_sweeps,
            frozenset(
                sweep_of(view.config.tags)
                for view in views
                if view.state.is_live or view.state.is_queued
            )
            - {""},
        )
        for tag in self._finished_of_sweep.keys() - self._open_sweeps - self._newly_open_sweeps:
            finished_views = self._finished_of_sweep.pop(tag)
            events = [
                _Event(Notice("", "", _now(), family="good"), view.name, view.state_label)
                for view in finished_views
            ]
            notice = _merge_events(events)
            title = f"{sweep_title(tag, [view.name for view in finished_views])}: {notice.title}"
            self._send_or_hold(_Event(replace(notice, title=title), title, tag))

    def missed_notices(self, runs: Iterable[Run]) -> tuple[Notice, ...]:
        """Return a notice of each run that ended while no window was open, oldest end first."""
        notices = []
        for run in sorted(runs, key=lambda r: r.ended_s):
            family = "bad" if run.state.has_failed else "good"
            if run.state.has_failed or self._reports_success(run.state):
                end_time = datetime.fromtimestamp(run.ended_s).astimezone()
                title = f"{run.state.label}: {run.name}"
                notices.append(Notice(title, run.reason, end_time, run.job_id, family=family))
        return tuple(notices)

    def see_nodes(self, states: Iterable[NodeState]) -> None:
        """Take the nodes; notify if one goes offline that a live job needs."""
        for state in states:
            if state.presence is not Presence.OFFLINE:
                self._offline_nodes.discard(state.name)
                continue
            jobs = sorted({v.name for v in self._live_views.values() if state.name in v.nodes})
            if not jobs or state.name in self._offline_nodes:
                continue
            self._offline_nodes.add(state.name)
            title = f"Offline: {state.name}"
            runs = "runs" if len(jobs) == 1 else "run"
            text = f"{_join_names(jobs)} {runs} on it."
            notice = Notice(title, text, _now(), node=state.name)
            self._send_or_hold(_Event(notice, state.name, "Offline"))

    def _reports_success(self, state: JobState) -> bool:
        return state is JobState.FINISHED and self._notifies_finished()

    def _see_continuation(self, view: JobView) -> None:
        continuation = view.status.continuation
        continuation_time = continuation.started_at if continuation is not None else ""
        previous_time = self._continuation_times.get(view.id, continuation_time)
        self._continuation_times[view.id] = continuation_time
        if continuation is not None and continuation_time != previous_time:
            family = "good" if continuation.has_grown else "warn"
            self._notify(view, "Continued", continuation.reason, family)

    def _see_doubt(self, view: JobView) -> None:
        run = (view.id, view.run)
        if not view.contact_warning:
            self._doubtful_runs.discard(run)
        elif run not in self._doubtful_runs:
            self._doubtful_runs.add(run)
            self._notify(
                view, "No news", view.contact_warning[:1].upper() + view.contact_warning[1:], "warn"
            )

    def _see_alarms(self, view: JobView) -> None:
        # The end that the alarm causes is reported by itself, with its message.
        stops_on_nan = view.config.stop_on_nan
        for alarm in view.status.alarms if view.state.is_live else ():
            if stops_on_nan and alarm.kind == NOT_A_NUMBER:
                continue
            reported_alarms = self._reported_alarms.setdefault((view.id, view.run), set())
            if (alarm.kind, alarm.step) not in reported_alarms:
                reported_alarms.add((alarm.kind, alarm.step))
                self._notify(view, alarm.title, alarm.message, "warn")

    def _notify(
        self, view: JobView, word: str, cause: str, family: str = "bad", node: str = ""
    ) -> None:
        notice = Notice(f"{word}: {view.name}", cause, _now(), view.id, family=family)
        self._send_or_hold(_Event(notice, view.name, word, node))

    def _send_or_hold(self, event: _Event) -> None:
        if self._merge_timer.isActive():
            self._held_events.append(event)
            return
        self._merge_timer.start()
        self.notified.emit(event.notice)

    @Slot()
    def send_held_events(self) -> None:
        """Send the held events, merged into one notice for each kind of event and node."""
        held_events, self._held_events = self._held_events, []
        groups: dict[tuple[str, str], list[_Event]] = {}
        for event in held_events:
            groups.setdefault((event.word, event.node), []).append(event)
        if groups:
            self._merge_timer.start()
        for events in groups.values():
            self.notified.emit(events[0].notice if len(events) == 1 else _merge_events(events))


def _end_reason(view: JobView) -> str:
    if view.error is not None and view.state.has_failed:
        return view.error.message
    summary = f"{formats.plural(view.epochs, 'epoch')} done." if view.epochs else "Done."
    return view.status.message or (summary if view.state is JobState.FINISHED else "")


def _merge_events(events: list[_Event]) -> Notice:
    newest_notice, word, node = events[-1].notice, events[0].word, events[0].node
    noun = "nodes" if word == "Offline" else "jobs"
    title = f"{len(events)} {noun}: {word.lower()}"
    if word in ("Failed", "Lost", "Finished"):
        count = formats.plural(len(events), "job")
        title = f"{count} {'are lost' if word == 'Lost' else word.lower()}"
    if node:
        title += f" on {node}"
    names = _join_names([event.name for event in events])
    return Notice(title, names, newest_notice.timestamp, node=node, family=newest_notice.family)


def merge_missed(notices: Sequence[Notice]) -> Notice:
    """Merge the notices of jobs that ended while no window was open."""
    if len(notices) == 1:
        return notices[0]
    title = f"{formats.count(len(notices))} jobs ended while the window was closed"
    text = _join_names([notice.title for notice in notices])
    worst_family = min((notice.family for notice in notices), key=("bad", "warn", "good").index)
    return Notice(title, text, notices[-1].timestamp, family=worst_family)


def _join_names(names: list[str]) -> str:
    shown_names = ", ".join(names[:_NAMES_SHOWN])
    hidden_count = len(names) - _NAMES_SHOWN
    return f"{shown_names} and {hidden_count} more" if hidden_count > 0 else shown_names


def _now() -> datetime:
    return datetime.now().astimezone()
