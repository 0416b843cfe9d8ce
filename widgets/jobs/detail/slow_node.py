"""The node that slows a running job, with its cost and cause, or a cause on all nodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from backend.records.jobs.view import JobView
from backend.records.nodes.reading import HealthFinding, NodeState, worst_finding
from widgets.common import formats
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
    slowest = view.slowest()
    if slowest is None:
        return None
    slow_ranks = [rank for rank in view.status.slow_ranks if rank < len(view.status.rank_step_ms)]
    gpus = {rank: (placement.node, uuid) for rank, placement, uuid in view.ranks()}
    worst_rank, cost = slowest
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


def slowdown_message(view: JobView, slow: SlowNode | None) -> tuple[str, str]:
    """Return the cause that slows the job as text, and its node; "" if there is none."""
    cause = view.status.slow_cause if view.state.is_live else None
    if cause is None or (slow is not None and cause.rank in slow.ranks):
        return (slow.message, slow.name) if slow is not None else ("", "")
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
