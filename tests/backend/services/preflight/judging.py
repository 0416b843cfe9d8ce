"""Findings of the checks for one node, from facts alone."""

from __future__ import annotations

from typing import Any

from backend.records.jobs.placement import Placement
from backend.records.nodes.preflight import PreflightFinding
from backend.services.preflight.checks import BY_NAME, judge_replies
from backend.services.preflight.context import JobPreflight, NodePreflight, PreflightTarget
from backend.services.preflight.names import HOST_KEY
from backend.ssh.interface import HostKeyChanged, HostKeyUnknown


def answered(target: PreflightTarget, **replies: Any) -> list[PreflightFinding]:
    return list(judge_replies(NodePreflight(target.placement, target, replies=replies)))


def unknown_key(name: str, error: HostKeyUnknown | HostKeyChanged) -> PreflightFinding:
    node = NodePreflight(Placement(name, 1), error=error)
    (finding,) = BY_NAME[HOST_KEY].node_findings(node, JobPreflight("", ""), None)
    return finding
