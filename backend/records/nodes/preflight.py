"""Result of the preflight check: whether the chosen nodes can run this job now and together.

Standard library only and Python 3.9: the nodes import this.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, Optional

from backend.records.base.schema import KEY, Record, json_value
from backend.records.jobs.placement import Placement
from backend.records.nodes.entry import HostKey


class Fix(Enum):
    """A fix that the program can do for a finding. None of them needs an administrator."""

    NONE = ""
    SET_UP_AGAIN = "set up again"
    INSTALL_CLUSTER_KEY = "let the cluster's key in"
    END_ORPHANS = "end what is left over"
    START_AGENT = "start the agent"
    CHECK_AGAIN = "look at the node again"
    SHARE_JOBS = "let those write to the jobs who may write to the data root"
    PUT_INTO_SERVICE = "put it back into service"
    ACCEPT_HOST_KEY = "accept its host key"
    CHECK_COMPUTE_NODE = "check a compute node in a job"
    LEAVE_OUT = "leave it out"
    """Remove the finding's GPUs from the job, or else its nodes."""
    TAKE_FREE_GPUS = "take free GPUs of the node instead"
    FIT_PROCESSES = "start as many processes as fit"

    @property
    def is_about_job(self) -> bool:
        """True if the fix changes the placement of the job, and nothing on the nodes."""
        return self in (Fix.LEAVE_OUT, Fix.TAKE_FREE_GPUS, Fix.FIT_PROCESSES)

    @property
    def is_about_all_nodes(self) -> bool:
        """True if the fix changes something that all nodes of the job share."""
        return self in (Fix.INSTALL_CLUSTER_KEY, Fix.SHARE_JOBS)

    @property
    def needs_a_person(self) -> bool:
        """True if the fix needs a request, because the state may be intended."""
        return self.is_about_job or self in _ONLY_ON_REQUEST


_ONLY_ON_REQUEST = (
    Fix.NONE,
    Fix.PUT_INTO_SERVICE,
    Fix.ACCEPT_HOST_KEY,
    Fix.CHECK_COMPUTE_NODE,
)


@dataclass(frozen=True)
class PreflightFinding(Record, label="finding"):
    """The result of a check. ``nodes`` are the affected nodes; none for the desktop itself.

    A finding that is not ``ok`` prevents the start, unless ``is_warning``. ``free_gpus`` could
    replace ``gpus``, one for one; ``process_capacity`` is the number of processes that the node can
    take. ``host_key`` is the key that `Fix.ACCEPT_HOST_KEY` accepts, after the user confirmed it.
    """

    check: str
    ok: bool
    message: str = field(metadata={KEY: "sentence"})
    remedy: str = ""
    nodes: tuple[str, ...] = ()
    fix: Fix = Fix.NONE
    is_warning: bool = False
    gpus: tuple[str, ...] = ()
    free_gpus: tuple[str, ...] = ()
    process_capacity: int = field(default=0, metadata={KEY: "fitting"})
    host_key: Optional[HostKey] = None  # noqa: UP045 - read at run time by 3.9

    @property
    def label(self) -> str:
        return self.check[:1].upper() + self.check[1:]

    @property
    def blocks(self) -> bool:
        return not self.ok and not self.is_warning


@dataclass(frozen=True)
class TrialResult:
    """The result of a trial of one batch. A failure has the error and traceback of its rank."""

    succeeded: bool = field(metadata={KEY: "passed"})
    message: str = field(metadata={KEY: "sentence"})
    took_s: float
    traceback: str = ""


@dataclass(frozen=True)
class Preflight:
    """All results, failures first. ``nodes`` are those of the job.

    With ``smaller_placement`` a job that cannot start could start at once; () if there is none,
    or none is needed. ``unchecked_pairs`` are the checks that were not made, each with its node;
    these checks have not passed.
    """

    nodes: tuple[str, ...]
    findings: tuple[PreflightFinding, ...]
    took_s: float
    smaller_placement: tuple[Placement, ...] = ()
    unchecked_pairs: tuple[tuple[str, str], ...] = ()

    @property
    def succeeded(self) -> bool:
        return not any(finding.blocks for finding in self.findings)

    @property
    def blocking_findings(self) -> tuple[PreflightFinding, ...]:
        return tuple(finding for finding in self.findings if finding.blocks)

    @property
    def warnings(self) -> tuple[PreflightFinding, ...]:
        return tuple(f for f in self.findings if not f.ok and f.is_warning)

    def to_dict(self) -> dict[str, Any]:
        return {
            "passed": self.succeeded,
            "nodes": list(self.nodes),
            "took_s": round(self.took_s, 2),
            "findings": json_value(self.findings),
            "smaller": json_value(self.smaller_placement),
            "unchecked": [{"check": check, "node": node} for check, node in self.unchecked_pairs],
        }

    @property
    def unchecked_message(self) -> str:
        """The missing checks as a sentence, or ""."""
        checks_by_node: dict[str, list[str]] = {}
        for check, node in self.unchecked_pairs:
            checks_by_node.setdefault(node, []).append(check)
        check_list = "; ".join(
            f"{', '.join(check_names)} on {node}" for node, check_names in checks_by_node.items()
        )
        return f"Not checked: {check_list}." if checks_by_node else ""

    def after_part(self, part: Preflight, nodes: Sequence[str]) -> Preflight:
        """Return these results, updated by a later check of ``nodes`` and possibly others.

        Results that concern none of ``nodes`` stay.
        """
        requested_nodes = set(nodes)
        kept_findings = [
            f for f in self.findings if f.ok or not requested_nodes.intersection(f.nodes)
        ]
        new_findings = [
            f for f in part.findings if not f.ok and requested_nodes.intersection(f.nodes)
        ]
        failed_checks = {f.check for f in (*kept_findings, *new_findings) if not f.ok}
        remaining_unchecked = [
            f for f in self.unchecked_pairs if f[1] not in requested_nodes.union(part.nodes)
        ]
        unchecked_pairs = (*remaining_unchecked, *part.unchecked_pairs)
        failed_checks.update(check for check, _ in unchecked_pairs)
        passed_findings = [f for f in kept_findings if f.ok and f.check not in failed_checks]
        known_checks = {f.check for f in passed_findings} | failed_checks
        for finding in part.findings:
            if finding.ok and finding.check not in known_checks:
                passed_findings.append(finding)
                known_checks.add(finding.check)
        failures = [f for f in (*kept_findings, *new_findings) if not f.ok]
        return replace(
            self,
            findings=(*sorted(failures, key=lambda f: f.is_warning), *passed_findings),
            took_s=part.took_s,
            unchecked_pairs=unchecked_pairs,
        )


def smaller_placement(
    placement: Sequence[Placement], findings: Sequence[PreflightFinding]
) -> tuple[Placement, ...]:
    """Return the placement without what ``findings`` are about; () if nothing remains.

    Of two nodes that cannot reach each other, the one with more such findings is removed, otherwise
    the later one, because the first node of a job leads it.
    """
    blocking_findings = [finding for finding in findings if finding.blocks]
    if not blocking_findings or any(not finding.nodes for finding in blocking_findings):
        return ()
    node_names = [p.node for p in placement]
    bad_gpus = {gpu for finding in blocking_findings for gpu in finding.gpus}
    capacities = {
        p.nodes[0]: p.process_capacity for p in blocking_findings if p.fix is Fix.FIT_PROCESSES
    }
    node_groups = [
        p.nodes for p in blocking_findings if not p.gpus and p.fix is not Fix.FIT_PROCESSES
    ]
    removed_nodes = {nodes[0] for nodes in node_groups if len(nodes) == 1}
    while broken_links := [
        nodes for nodes in node_groups if len(set(nodes) - removed_nodes) == len(nodes) > 1
    ]:
        failures = Counter(node for nodes in broken_links for node in nodes)
        removed_nodes.add(max(failures, key=lambda node: (failures[node], node_names.index(node))))
    remaining_placement = []
    for p in placement:
        gpus = tuple(gpu for gpu in p.gpus if gpu not in bad_gpus)
        if p.node not in removed_nodes and (gpus or p.processes):
            processes = capacities.get(p.node, p.processes)
            remaining_placement.append(replace(p, gpus=gpus, processes=processes))
    return tuple(remaining_placement)


def fixed_placement(
    placement: Sequence[Placement], finding: PreflightFinding
) -> tuple[Placement, ...]:
    """Return the placement after the finding's `Fix` about the job; may be ()."""
    return tuple(
        changed_placement
        for node_placement in placement
        if (
            changed_placement := _apply_fix(node_placement, finding)
            if node_placement.node in finding.nodes
            else node_placement
        )
        is not None
    )


def _apply_fix(placement: Placement, finding: PreflightFinding) -> Placement | None:
    if finding.fix is Fix.FIT_PROCESSES:
        return replace(placement, processes=finding.process_capacity)
    if not finding.gpus:
        return None
    replacement_gpus: tuple[str, ...] = ()
    if finding.fix is Fix.TAKE_FREE_GPUS:
        replacement_gpus = finding.free_gpus
    kept_gpus = tuple(gpu for gpu in placement.gpus if gpu not in finding.gpus)
    gpus = (*kept_gpus, *(gpu for gpu in replacement_gpus if gpu not in kept_gpus))
    return replace(placement, gpus=gpus) if gpus else None
