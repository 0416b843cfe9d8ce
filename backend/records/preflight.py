"""What a look before the start found: whether the chosen nodes can run this job, now and together.

Standard library only and Python 3.9: the nodes import this.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from enum import Enum
from typing import Any

from backend.records.job import Placement


class Fix(Enum):
    """What the program itself can do about a finding. None of them needs an administrator."""

    NONE = ""
    SET_UP_AGAIN = "set up again"
    INSTALL_CLUSTER_KEY = "let the cluster's key in"
    END_ORPHANS = "end what is left over"
    START_AGENT = "start the agent"
    LOOK_AGAIN = "look at the node again"
    LEAVE_OUT = "leave it out"
    """Of this job: the finding's GPUs where it names some, else its nodes."""


@dataclass(frozen=True)
class PreflightFinding:
    """One point that was checked. ``nodes`` are those it is about, none when it is the desktop's.

    A finding that is not ``ok`` keeps the job from starting, unless ``is_warning``.
    """

    check: str
    ok: bool
    sentence: str
    remedy: str = ""
    nodes: tuple[str, ...] = ()
    fix: Fix = Fix.NONE
    is_warning: bool = False
    gpus: tuple[str, ...] = ()

    @property
    def blocks(self) -> bool:
        return not self.ok and not self.is_warning

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "fix": self.fix.value}


@dataclass(frozen=True)
class Preflight:
    """Everything that was checked, faults first. ``nodes`` are those that the job is to run on.

    ``smaller`` is where the job could start at once although it cannot as it is; () when there is
    no such place, or no need of one.
    """

    nodes: tuple[str, ...]
    findings: tuple[PreflightFinding, ...]
    took_s: float
    smaller: tuple[Placement, ...] = ()

    @property
    def passed(self) -> bool:
        return not any(finding.blocks for finding in self.findings)

    @property
    def faults(self) -> tuple[PreflightFinding, ...]:
        return tuple(finding for finding in self.findings if finding.blocks)

    @property
    def warnings(self) -> tuple[PreflightFinding, ...]:
        return tuple(f for f in self.findings if not f.ok and f.is_warning)

    def to_dict(self) -> dict[str, Any]:
        return {
            "passed": self.passed,
            "nodes": list(self.nodes),
            "took_s": round(self.took_s, 2),
            "findings": [finding.to_dict() for finding in self.findings],
            "smaller": [asdict(placement) for placement in self.smaller],
        }


def smaller_placement(
    placement: Sequence[Placement], findings: Sequence[PreflightFinding]
) -> tuple[Placement, ...]:
    """What is left of a placement without whatever ``findings`` are about; () when nothing is.

    Of two nodes that cannot do with each other the one goes that has more such trouble, else the
    later one: the first node of a job leads it.
    """
    faults = [finding for finding in findings if finding.blocks]
    if not faults or any(not finding.nodes for finding in faults):
        return ()
    order = [one.node for one in placement]
    bad_gpus = {gpu for finding in faults for gpu in finding.gpus}
    whole = [finding.nodes for finding in faults if not finding.gpus]
    out = {nodes[0] for nodes in whole if len(nodes) == 1}
    while between := [nodes for nodes in whole if len(set(nodes) - out) == len(nodes) > 1]:
        troubles = Counter(node for nodes in between for node in nodes)
        out.add(max(troubles, key=lambda node: (troubles[node], order.index(node))))
    left = []
    for one in placement:
        gpus = tuple(gpu for gpu in one.gpus if gpu not in bad_gpus)
        if one.node not in out and (gpus or one.processes):
            left.append(replace(one, gpus=gpus))
    return tuple(left)
