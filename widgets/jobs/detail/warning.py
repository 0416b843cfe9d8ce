"""The one thing to be said atop an open job: the worst of what is known of it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from backend.records.base.timestamps import instant
from backend.records.jobs.alarm import Alarm
from backend.records.jobs.state import JobState
from backend.records.jobs.view import JobView
from backend.records.queue.entry import QueuePlace
from widgets.common import formats
from widgets.common.theme import Family
from widgets.jobs.detail.slow_node import SlowNode

_TELLING: dict[JobState, Family] = {
    JobState.INTERRUPTED: "rest",
    JobState.STOPPING: "warn",
    JobState.FINISHED: "idle",
}
"""States whose message is told; one that has finished says whence it was imported."""


@dataclass(frozen=True)
class JobFinding:
    """A sentence, what is to be done or known about it, and how bad it is."""

    family: Family
    sentence: str
    more: str = ""
    icon: str = ""
    node: str = ""
    """The node that it is about."""


def finding(
    view: JobView,
    refusal: tuple[str, str],
    doubt: str,
    place: QueuePlace | None,
    verdict: tuple[str, bool],
    slow: SlowNode | None = None,
) -> JobFinding | None:
    """The worst of it, None when all is as one expects.

    Args:
        refusal: Why the last act was refused, and the way out; ("", "") when none was.
        doubt: Why the job could not be looked at, "" when it could.
        place: Where it stands in the queue.
        verdict: How a replay went beside its original, and whether its curve is the same.
        slow: The node that slows it.
    """
    sentence, remedy = refusal
    if sentence:
        return JobFinding("bad", sentence, remedy)
    doubt = doubt or (view.doubt if view.state.is_live else "")
    if doubt:
        return JobFinding("warn", doubt[:1].upper() + doubt[1:], icon="wifi-slash")
    alarm, more = _last_alarm(view)
    if alarm is not None:
        return JobFinding("warn", alarm.sentence, more)
    if slow is not None:
        return JobFinding("warn", slow.sentence, node=slow.name)
    if place is not None and view.state is JobState.QUEUED:
        return JobFinding("idle", f"Place {place.number}.", place.sentence, icon="clock")
    sentence, is_same = verdict
    if sentence and view.state is JobState.FINISHED:
        strong, _, rest = sentence.partition(": ")
        told = rest[:1].upper() + rest[1:]
        return JobFinding("good" if is_same else "warn", f"{strong}.", told)
    if view.state in _TELLING and view.message:
        return JobFinding(_TELLING[view.state], view.message, _when(view))
    return None


def _when(view: JobView) -> str:
    """When it was stopped: on this desktop or another one."""
    if view.state is not JobState.INTERRUPTED or not view.ended:
        return ""
    now = datetime.now().astimezone()
    return formats.moment_long(instant(view.ended), now)


def _last_alarm(view: JobView) -> tuple[Alarm | None, str]:
    """The alarm that came last, and how many others there are."""
    if not view.alarms or not view.state.is_live:
        return None, ""
    rest = len(view.alarms) - 1
    return view.alarms[-1], f"{rest} more on the curve." if rest else ""
