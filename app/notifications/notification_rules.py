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

from backend.records.base.schema import READ, Record
from backend.records.base.timestamps import seconds
from backend.records.jobs.alarm import NOT_A_NUMBER
from backend.records.jobs.state import JobState
from backend.records.jobs.view import JobView
from backend.records.nodes.reading import NodeState, Presence
from backend.records.sweeps.spec import sweep_of, sweep_title
from widgets.common import formats

MERGE_MS = 30_000
_NAMES_SHOWN = 6


def _moment(raw: str) -> datetime:
    return datetime.fromisoformat(raw).astimezone()


@dataclass(frozen=True)
class Notice(Record, what="a notice"):
    """One notification. ``job_id`` or ``node`` is the target of a click; neither for several."""

    title: str
    text: str
    when: datetime = field(metadata={READ: _moment})
    job_id: str = ""
    node: str = ""
    family: str = "bad"
    root: str = ""
    """The data root of its job, "" in notices of earlier versions."""

    def to_dict(self) -> dict[str, Any]:
        return {**super().to_dict(), "when": self.when.isoformat()}


class Run(NamedTuple):
    """A run as the bell sees it, from a summary or a view.

    ``ended_s`` is 0.0 for none, and by the clock of ``node``, on which its supervisor was started.
    """

    job_id: str
    run: int
    state: JobState
    name: str
    ended_s: float
    why: str
    node: str = ""

    @classmethod
    def of(cls, view: JobView) -> Run:
        ended_s = seconds(view.status.ended)
        node = "".join(view.nodes[:1])
        return cls(view.id, view.run, view.state, view.name, ended_s, _why(view), node)


@dataclass(frozen=True)
class _Event:
    """A notice that may still be merged with others. ``word`` names what happened to the jobs."""

    notice: Notice
    name: str
    word: str
    place: str = ""


class NotificationRules(QObject):
    """Watch views and report each end once.

    Runs that had ended before the window opened are reported by `missed`. The first of several
    notices is sent at once, those within 30 s after it together, unless they differ.

    Signals:
        notified: A `Notice`, for the tray and the bell.
    """

    notified = Signal(Notice)

    def __init__(
        self,
        tells_finished: Callable[[], bool],
        merge_ms: int = MERGE_MS,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._reports_finished = tells_finished
        self._live: dict[tuple[str, int], JobView] = {}
        self._in_doubt: set[tuple[str, int]] = set()
        self._alarmed: dict[tuple[str, int], set[tuple[str, int]]] = {}
        self._offline: set[str] = set()
        self._continued: dict[str, str] = {}
        """When a job that was seen alive was continued without a user, "" for never."""
        self._waiting: list[_Event] = []
        self._open_sweeps: frozenset[str] = frozenset()
        self._newly_open_sweeps: frozenset[str] = frozenset()
        self._finished_of_sweep: dict[str, list[JobView]] = {}
        self._merge = QTimer(self)
        self._merge.setSingleShot(True)
        self._merge.setInterval(merge_ms)
        self._merge.timeout.connect(self.send_waiting)

    @Slot(object)
    def see(self, view: JobView) -> None:
        """Take a view; notify if a run that was seen alive has ended, or has a problem."""
        run = (view.id, view.run)
        if view.state.is_live:
            self._live[run] = view
            self._see_continued(view)
            self._see_doubt(view)
        if run not in self._live:
            return
        self._see_alarms(view)
        if view.state.is_live:
            return
        del self._live[run]
        self._in_doubt.discard(run)
        self._alarmed.pop(run, None)
        if view.state.has_failed:
            place = view.error.node if view.error else ""
            self._notify(view, view.state.word, _why(view), place=place)
        elif self._reports_success(view.state):
            tag = sweep_of(view.config.tags)
            if tag in self._open_sweeps | self._newly_open_sweeps:
                self._finished_of_sweep.setdefault(tag, []).append(view)
            else:
                self._notify(view, view.state.word, _why(view), "good")

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
            finished = self._finished_of_sweep.pop(tag)
            events = [
                _Event(Notice("", "", _now(), family="good"), view.name, view.state.word)
                for view in finished
            ]
            merged = _merged(events)
            title = f"{sweep_title(tag, [view.name for view in finished])}: {merged.title}"
            self._send_or_keep(_Event(replace(merged, title=title), title, tag))

    def missed(self, runs: Iterable[Run]) -> tuple[Notice, ...]:
        """Return a notice of each run that ended while no window was open, oldest end first."""
        found = []
        for run in sorted(runs, key=lambda one: one.ended_s):
            family = "bad" if run.state.has_failed else "good"
            if run.state.has_failed or self._reports_success(run.state):
                when = datetime.fromtimestamp(run.ended_s).astimezone()
                title = f"{run.state.word}: {run.name}"
                found.append(Notice(title, run.why, when, run.job_id, family=family))
        return tuple(found)

    def see_nodes(self, states: Iterable[NodeState]) -> None:
        """Take the nodes; notify if one goes offline that a live job needs."""
        for state in states:
            if state.presence is not Presence.OFFLINE:
                self._offline.discard(state.name)
                continue
            jobs = sorted({v.name for v in self._live.values() if state.name in v.nodes})
            if not jobs or state.name in self._offline:
                continue
            self._offline.add(state.name)
            title = f"Offline: {state.name}"
            runs = "runs" if len(jobs) == 1 else "run"
            text = f"{_listed(jobs)} {runs} on it."
            notice = Notice(title, text, _now(), node=state.name)
            self._send_or_keep(_Event(notice, state.name, "Offline"))

    def _reports_success(self, state: JobState) -> bool:
        return state is JobState.FINISHED and self._reports_finished()

    def _see_continued(self, view: JobView) -> None:
        continued = view.status.continued
        since = continued.since if continued is not None else ""
        before = self._continued.get(view.id, since)
        self._continued[view.id] = since
        if continued is not None and since != before:
            family = "good" if continued.has_grown else "warn"
            self._notify(view, "Continued", continued.reason, family)

    def _see_doubt(self, view: JobView) -> None:
        run = (view.id, view.run)
        if not view.doubt:
            self._in_doubt.discard(run)
        elif run not in self._in_doubt:
            self._in_doubt.add(run)
            self._notify(view, "No news", view.doubt[:1].upper() + view.doubt[1:], "warn")

    def _see_alarms(self, view: JobView) -> None:
        # The end that it causes is reported by itself, with its sentence.
        ends = view.config.stop_on_nan
        for alarm in view.status.alarms if view.state.is_live else ():
            if ends and alarm.kind == NOT_A_NUMBER:
                continue
            known = self._alarmed.setdefault((view.id, view.run), set())
            if (alarm.kind, alarm.step) not in known:
                known.add((alarm.kind, alarm.step))
                self._notify(view, alarm.word, alarm.sentence, "warn")

    def _notify(
        self, view: JobView, word: str, cause: str, family: str = "bad", place: str = ""
    ) -> None:
        notice = Notice(f"{word}: {view.name}", cause, _now(), view.id, family=family)
        self._send_or_keep(_Event(notice, view.name, word, place))

    def _send_or_keep(self, event: _Event) -> None:
        if self._merge.isActive():
            self._waiting.append(event)
            return
        self._merge.start()
        self.notified.emit(event.notice)

    @Slot()
    def send_waiting(self) -> None:
        """Send what was held back: as one notice what happened alike, and at one place."""
        waiting, self._waiting = self._waiting, []
        alike: dict[tuple[str, str], list[_Event]] = {}
        for event in waiting:
            alike.setdefault((event.word, event.place), []).append(event)
        if alike:
            self._merge.start()
        for events in alike.values():
            self.notified.emit(events[0].notice if len(events) == 1 else _merged(events))


def _why(view: JobView) -> str:
    if view.error is not None and view.state.has_failed:
        return view.error.sentence
    done = f"{formats.plural(view.epochs, 'epoch')} done." if view.epochs else "Done."
    return view.status.message or (done if view.state is JobState.FINISHED else "")


def _merged(events: list[_Event]) -> Notice:
    newest, word, where = events[-1].notice, events[0].word, events[0].place
    noun = "nodes" if word == "Offline" else "jobs"
    title = f"{len(events)} {noun}: {word.lower()}"
    if word in ("Failed", "Lost", "Finished"):
        count = formats.plural(len(events), "job")
        title = f"{count} {'are lost' if word == 'Lost' else word.lower()}"
    if where:
        title += f" on {where}"
    names = _listed([event.name for event in events])
    return Notice(title, names, newest.when, node=where, family=newest.family)


def of_absence(missed: Sequence[Notice]) -> Notice:
    """Merge what ended while no window was open into one notice."""
    if len(missed) == 1:
        return missed[0]
    title = f"{formats.count(len(missed))} jobs ended while the window was closed"
    text = _listed([notice.title for notice in missed])
    return Notice(title, text, missed[-1].when, family=_worst(missed))


def _worst(notices: Iterable[Notice]) -> str:
    return min((notice.family for notice in notices), key=("bad", "warn", "good").index)


def _listed(names: list[str]) -> str:
    shown = ", ".join(names[:_NAMES_SHOWN])
    rest = len(names) - _NAMES_SHOWN
    return f"{shown} and {rest} more" if rest > 0 else shown


def _now() -> datetime:
    return datetime.now().astimezone()
