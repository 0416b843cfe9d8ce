"""The most serious finding of an open job, shown above the job, and the node that slows it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from backend.records.base.timestamps import instant
from backend.records.jobs.state import JobState
from backend.records.jobs.status import Alarm
from backend.records.jobs.view import JobView
from backend.records.nodes.reading import HealthFinding, NodeState, worst_finding
from backend.records.queue.entry import QueuedJob
from widgets.common import formats
from widgets.common.theme import Family
from widgets.nodes.row.node_row import node_title


@dataclass(frozen=True)
class SlowNode:
    """A node whose ranks delay the others.

    ``cost`` is the relative increase of the step time due to the slow ranks. ``reasons`` has the
    known problem of the GPU or node of each slow rank: "slowed by heat, 91 °C".
    """

    name: str
    cost: float
    ranks: tuple[int, ...]
    reasons: Mapping[int, str]
    cause: str = ""
    has_servers: bool = False
    """Its workers do not wait for each other at each step."""

    @property
    def message(self) -> str:
        """Return ``gpu07 slows this job by 25 %: GPU 3 slowed by heat, 91 °C.``"""
        message = f"{node_title(self.name)} slows this job by {formats.percent(self.cost)}"
        if self.has_servers:
            message = f"A step takes {formats.percent(self.cost)} longer on {node_title(self.name)}"
        return f"{message}: {self.cause}." if self.cause else f"{message}."


def slow_node(view: JobView, states: Mapping[str, NodeState]) -> SlowNode | None:
    """Return the node with the slowest rank; None if no rank is slow, or all are."""
    slowest_rank = view.slowest()
    if slowest_rank is None:
        return None
    slow_ranks = [rank for rank in view.status.slow_ranks if rank < len(view.status.rank_step_ms)]
    gpus = {rank: (placement.node, uuid) for rank, placement, uuid in view.ranks()}
    worst_rank, cost = slowest_rank
    name = gpus[worst_rank][0]
    reasons = {}
    cause = ""
    for rank in slow_ranks:
        node, uuid = gpus[rank]
        rank_finding = _worst_finding(states.get(node), uuid)
        if rank_finding is not None:
            finding, temperature_suffix = rank_finding
            reasons[rank] = finding.description + temperature_suffix
            if rank == worst_rank:
                cause = finding.headline + temperature_suffix
    if view.status.slow_cause is not None and view.status.slow_cause.rank == worst_rank:
        cause = cause or view.status.slow_cause.evidence
    return SlowNode(
        name,
        cost,
        tuple(rank for rank in slow_ranks if gpus[rank][0] == name),
        reasons,
        cause,
        view.config.strategy.servers > 0,
    )


def slowdown_message(view: JobView, slow_node: SlowNode | None) -> tuple[str, str]:
    """Return the cause that slows the job as text, and its node; "" if there is none."""
    cause = view.status.slow_cause if view.state.is_live else None
    if cause is None or (slow_node is not None and cause.rank in slow_node.ranks):
        return (slow_node.message, slow_node.name) if slow_node is not None else ("", "")
    names = [placement.node for _, placement, _ in view.ranks()]
    if cause.is_of_shared_cores:
        return cause.message("", len(set(names))), names[0]
    name = names[cause.rank] if cause.rank is not None else ""
    return cause.message(node_title(name), len(set(names))), name


def _worst_finding(state: NodeState | None, uuid: str) -> tuple[HealthFinding, str] | None:
    """Return the worst finding of a rank's GPU, or of its node, with the GPU's temperature."""
    reading = state.reading if state is not None else None
    if state is None or reading is None:
        return None
    gpu = next((gpu for gpu in reading.gpus if gpu.uuid == uuid), None)
    if gpu is not None and (finding := state.worst_gpu_finding(gpu)) is not None:
        temperature_c = gpu.temperature_c if finding.key.endswith("clock") else None
        return finding, "" if temperature_c is None else f", {formats.temperature(temperature_c)}"
    node_finding = worst_finding(h for h in state.health if h.gpu is None)
    return None if node_finding is None else (node_finding, "")


_REPORTED_FAMILIES: dict[JobState, Family] = {
    JobState.QUEUED: "idle",
    JobState.PAUSED: "idle",
    JobState.INTERRUPTED: "rest",
    JobState.STOPPING: "warn",
    JobState.FINISHED: "idle",
}
"""States whose message is shown: for a finished job it says where it was imported from, for one
that waits, why its scheduler has not begun it."""


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
    original_id: str = ""
    """The job that the open job replays."""


@dataclass(frozen=True)
class ReplayComparison:
    """The comparison of a replay with its original, whose id is ``original_id``."""

    message: str = ""
    is_same: bool = False
    original_id: str = ""


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
            original_id=result.original_id,
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
