"""What a look before a start stands on: the desktop's side of it, and what it knows of a node."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from backend.datastore.access.root_access import MOUNTED, DataRootAccess
from backend.provisioning.node_facts import LEAST_PYTHON
from backend.records.base.layout import DataRoot, NodeHome
from backend.records.nodes.entry import NodeEntry
from backend.records.nodes.preflight import PreflightFinding
from backend.records.queue.entry import PROCESSES_PER_CORE
from backend.services.nodes.provisioning import SetUpService
from backend.services.nodes.registry import ClusterService
from backend.services.preflight import findings as preflight_findings
from backend.services.preflight.findings import NodeReplies, PreflightTarget
from backend.ssh.interface import Shell


@dataclass
class NodePreflight:
    """One node of the job: what is known before, and what its thread finds."""

    site: PreflightTarget
    entry: NodeEntry | None
    address: str = ""
    listening: threading.Event = field(default_factory=threading.Event)
    """Set as soon as the node listens, or certainly will not."""
    port: int = 0
    told: NodeReplies = field(default_factory=NodeReplies)
    met: list[dict[str, Any]] = field(default_factory=list)

    @property
    def is_limited(self) -> bool:
        """Whether the cluster's key starts nothing but runs there."""
        there = self.entry.installation if self.entry else None
        return there is not None and there.limits_key and not there.own_key


@dataclass(frozen=True)
class PreflightContext:
    """What a pre-flight stands on: the desktop's side of everything."""

    root: DataRoot
    cluster: ClusterService
    set_up: SetUpService
    python: str
    share: DataRootAccess = MOUNTED


def facts_of(entry: NodeEntry) -> Any:
    assert entry.facts is not None, "a node that was set up was looked at"
    return entry.facts


def looking_python(entry: NodeEntry) -> str:
    """One of the node's own, outside of the environment that is to be looked at."""
    for one in facts_of(entry).pythons:
        if tuple(int(part) for part in one.version.split(".")[:2]) >= LEAST_PYTHON:
            return str(one.path)
    return "python3"


def settings_texts(shell: Shell, home: NodeHome) -> list[bytes]:
    """The SSH settings as they are; of a file that is not there, nothing."""
    texts = []
    for name in ("config", "known_hosts"):
        try:
            texts.append(shell.read(str(home.ssh / name)))
        except FileNotFoundError:
            texts.append(b"")
    return texts


def too_many_processes(site: PreflightTarget, cores: int) -> Iterator[PreflightFinding]:
    slots = cores * PROCESSES_PER_CORE
    if site.placement.processes > slots:
        yield preflight_findings.too_many(site, cores, slots)
