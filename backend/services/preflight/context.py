"""Context of a pre-flight check: this desktop, and the state of each node."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
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
from backend.services.preflight.findings import Facts, NodeReplies, PreflightTarget
from backend.services.preflight.limits import PreflightLimits
from backend.ssh.interface import Shell


@dataclass
class NodePreflight:
    """A node of the job: its known facts, and the results of its thread."""

    site: PreflightTarget
    entry: NodeEntry | None
    address: str = ""
    listening: threading.Event = field(default_factory=threading.Event)
    """Set when the node listens, or has failed to."""
    port: int = 0
    told: NodeReplies = field(default_factory=NodeReplies)
    met: list[dict[str, Any]] = field(default_factory=list)
    limits: PreflightLimits = field(default_factory=PreflightLimits)
    """Longer than the check's own where the node is busy; see `node_probe.patience`."""
    load: Facts = field(default_factory=dict)
    has_answered: bool = False
    """Its Python ran the probe, over SSH where it is another computer."""
    has_settings: bool = False
    is_over: bool = False

    @property
    def is_limited(self) -> bool:
        """True if the cluster's key can start only training runs on the node."""
        there = self.entry.installation if self.entry else None
        return there is not None and there.limits_key and not there.own_key


@dataclass(frozen=True)
class PreflightContext:
    """This desktop's side of a pre-flight check."""

    root: DataRoot
    cluster: ClusterService
    set_up: SetUpService
    python: Callable[[], str]
    share: DataRootAccess = MOUNTED
    limits: PreflightLimits = field(default_factory=PreflightLimits)
    now: Callable[[], float] = time.monotonic


def facts_of(entry: NodeEntry) -> Any:
    assert entry.facts is not None, "a node that is set up has facts"
    return entry.facts


def looking_python(entry: NodeEntry) -> str:
    """Return the node's own Python, outside the environment to be checked."""
    for one in facts_of(entry).pythons:
        if tuple(int(part) for part in one.version.split(".")[:2]) >= LEAST_PYTHON:
            return str(one.path)
    return "python3"


def settings_texts(shell: Shell, home: NodeHome) -> list[bytes]:
    """Read the current SSH settings; b"" for a missing file."""
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
