"""The most serious finding of an open job, shown above the job."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from backend.records.base.timestamps import instant
from backend.records.jobs.state import JobState
from backend.records.jobs.status import Alarm
from backend.records.jobs.view import JobView
from backend.records.queue.entry import QueuedJob
from widgets.common import formats
from widgets.common.theme import Family
from widgets.jobs.detail.slow_node import SlowNode, slowdown_message

_REPORTED_FAMILIES: dict[JobState, Family] = {
    JobState.INTERRUPTED: "rest",
    JobState.STOPPING: "warn",
    JobState.FINISHED: "idle",
}
"""States whose message is shown; for a finished job it says where it was imported from."""


@dataclass(frozen=True)
class JobFinding:
    """A message with details, and its severity."""

    family: Family
    message: str
    details: str = ""
    icon: str = ""
    node: str = ""
    """The node with the cause."""
    is_about_processes: bool = False
    """The processes of the node show the cause."""
    original: str = ""
    """The job that the open job replays."""


@dataclass(frozen=True)
class ReplayComparison:
    """The comparison of a replay with its original, whose id is ``original``."""

    message: str = ""
    is_same: bool = False
    original: str = ""


def job_finding(
    view: JobView,
    refusal: tuple[str, str],
    read_error: str,
    queued_job: QueuedJob | None,
    result: ReplayComparison,
    slow_node: SlowNode | None = None,
) -> JobFinding | None:
    """Return the most serious finding, None if everything is normal.

    Args:
        refusal: Why the last action was refused, and the remedy; ("", "") if it was not.
        read_error: Why the job could not be read, "" if it could.
        queued_job: The queue entry of the job, with its position.
        result: The comparison of a replay with its original.
        slow_node: The node that slows the job.
    """
    message, remedy = refusal
    if message:
        return JobFinding("bad", message, remedy)
    read_error = read_error or (view.contact_warning if view.state.is_live else "")
    if read_error:
        return JobFinding("warn", read_error[:1].upper() + read_error[1:], icon="wifi-slash")
    alarm, details = _last_alarm(view)
    if alarm is not None:
        return JobFinding("warn", alarm.message, details)
    slow_message, node = slowdown_message(view, slow_node)
    if slow_message:
        cause = view.status.slow_cause
        is_about_processes = cause is not None and cause.is_of_shared_cores
        return JobFinding("warn", slow_message, node=node, is_about_processes=is_about_processes)
    if queued_job is not None and view.state.is_queued:
        details = f"{queued_job.entry.reason} {queued_job.message}".lstrip()
        return JobFinding("idle", f"Place {queued_job.number}.", details, icon="clock")
    if view.status.continuation is not None and view.state.is_live:
        has_grown = view.status.continuation.has_grown
        return JobFinding("idle" if has_grown else "warn", view.status.continuation.reason)
    if result.message and view.state is JobState.FINISHED:
        summary, _, comparison = result.message.partition(": ")
        details_text = comparison[:1].upper() + comparison[1:]
        return JobFinding(
            "good" if result.is_same else "warn",
            f"{summary}.",
            details_text,
            original=result.original,
        )
    if view.state in _REPORTED_FAMILIES and view.status.message:
        return JobFinding(_REPORTED_FAMILIES[view.state], view.status.message, _stop_time(view))
    return None


def _stop_time(view: JobView) -> str:
    """Return when the job was stopped, "" if it was not."""
    if view.state is not JobState.INTERRUPTED or not view.status.ended_at:
        return ""
    now = datetime.now().astimezone()
    return formats.time_with_day(instant(view.status.ended_at), now)


def _last_alarm(view: JobView) -> tuple[Alarm | None, str]:
    """Return the last alarm, and a sentence with the number of other alarms."""
    if not view.status.alarms or not view.state.is_live:
        return None, ""
    other_count = len(view.status.alarms) - 1
    return view.status.alarms[-1], f"{other_count} more on the curve." if other_count else ""
