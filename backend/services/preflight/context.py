"""Context of a preflight check: this desktop, the job and its nodes, and the time limits."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from backend.base.errors import BackendError
from backend.datastore.access.root_access import OpenRoot
from backend.node.system import wording
from backend.records.base.layout import NodeHome
from backend.records.base.schema import KEY
from backend.records.jobs.config import JobConfig
from backend.records.jobs.placement import Placement
from backend.records.jobs.script import REQUIREMENTS
from backend.records.nodes.entry import OLDEST_PYTHON, NodeEntry
from backend.records.nodes.preflight import PreflightFinding
from backend.records.queue.scheduling import Reservation
from backend.services.nodes.provisioning import ProvisioningService
from backend.services.nodes.registry import NodeRegistry
from backend.ssh.interface import Shell

_MAX_FACTOR = 5.0
VARIABLE = "RINGMASTER_PREFLIGHT_S"
"""The environment variable that sets the limit of the whole check, for slow nodes."""


@dataclass(frozen=True)
class PreflightLimits:
    """Limits in seconds. A check without a result within its limit blocks the start."""

    total_s: float = 25.0
    listening_s: float = 11.0
    """Wait for the listeners of all nodes before the connection tests; longer than SSH's limit."""
    connection_s: float = 4.0
    listen_s: float = 8.0
    inspection_s: float = 12.0
    command_s: float = 11.0
    root_s: float = 4.0
    answer_s: float = 4.0
    agent_s: float = 20.0
    """The limit of the fix that starts an agent."""

    @classmethod
    def scaled_to(cls, total_s: float) -> PreflightLimits:
        """Return the limits of a check that may take ``total_s``, all in proportion."""
        factor = total_s / cls.total_s
        return cls(*(getattr(cls, field.name) * factor for field in fields(cls)))

    def for_node(self, login_s: float, load: float = 0.0, cores: int = 1) -> PreflightLimits:
        """Return the limits of a node, by the time of its login, usually 1 s, and by its load."""
        load_per_core = load / max(cores, 1)
        factor = min(_MAX_FACTOR, max(1.0, load_per_core, login_s))
        return self.scaled_to(self.total_s * factor)

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> PreflightLimits:
        """Return the limits that the environment sets.

        Raises:
            BackendError: The value is not a number of seconds.
        """
        text = environment.get(VARIABLE, "").strip()
        try:
            total_s = float(text or cls.total_s)
        except ValueError:  # refused below
            total_s = math.nan
        if not 1 <= total_s <= 3600:
            raise BackendError(
                f"{VARIABLE} is “{text}”; it must be a number of seconds from 1 to 3600.",
                f"Remove the variable for {cls.total_s:g} s.",
            )
        return cls.scaled_to(total_s)


Reply = Mapping[str, Any]
"""A node's answer to a `Probe`."""


@dataclass(frozen=True)
class PreflightTarget:
    """Part of the check for one node: ``placement`` is its share of the job."""

    node: str
    placement: Placement
    python: str
    mpirun: str
    mpi_version: str
    bundle: str
    data_root: str
    home: str
    is_head: bool = field(metadata={KEY: "leads"})
    needed_bytes: int = 0
    library: str = "horovod"
    """The library besides torch; "" for the strategy "alone", which needs no mpirun."""
    jobs_are_narrow: bool = False
    """The folder of all jobs is writable for fewer users than its parent, on this computer."""
    no_share: bool = False
    """`data_root` is a staged root, see `NodeEntry`."""
    loader_workers: int = 0
    agent_folder: str = ""
    imports: str = ""
    """The file in which the node keeps the result of its imports."""
    script_python: str = ""
    """The path of the Python that the job names for its script; "" without one."""
    needs_torch: bool = False
    """The script imports torch."""

    @property
    def label(self) -> str:
        return wording.node_label(self.node)


@dataclass
class NodePreflight:
    """A node of the job, with its registry entry and the results of its thread.

    Attributes:
        target: None for a node that cannot be probed.
        entry: None for this computer, and for an unknown node.
        training_error: Why this computer cannot train.
        error: Why the node could not be probed, or only in part.
        listener_reply: The node's answer to ``listen`` of the probe, with its load. With an answer,
            SSH and the node's Python work.
        replies: The node's answers by probe name, None for a late answer; None until they are in.
        connection_results: The node's connections to the other nodes.
        settings_update: Whether mpirun's SSH settings changed, or why they could not be updated.
        is_proof_seen: This computer sees the file that the node wrote to the data root.
        limits: Longer than the limits of the check where the node is busy.
    """

    placement: Placement
    target: PreflightTarget | None = None
    entry: NodeEntry | None = None
    cores: int = 0
    has_horovod: bool | None = None
    training_error: BackendError | None = None
    address: str = ""
    error: Exception | None = None
    listener_reply: Reply = field(default_factory=dict)
    clock_offset_s: float = 0.0
    replies: Mapping[str, Reply | None] | None = None
    connection_results: Sequence[Mapping[str, Any]] = ()
    settings_update: bool | BackendError | None = None
    is_proof_seen: bool = True
    limits: PreflightLimits = field(default_factory=PreflightLimits)
    listening_event: threading.Event = field(default_factory=threading.Event)
    """Set when the node listens, or failed to listen."""
    finished_event: threading.Event = field(default_factory=threading.Event)

    @property
    def name(self) -> str:
        return self.placement.node

    @property
    def port(self) -> int:
        return int(self.listener_reply.get("port", 0))

    @property
    def is_limited(self) -> bool:
        """True if the cluster's key can start only training runs on the node."""
        installation = self.entry.installation if self.entry else None
        return installation is not None and installation.limits_key and not installation.own_key


@dataclass
class JobPreflight:
    """A job that is checked, with its nodes in the order of the job.

    Attributes:
        library: The library that its strategy imports, see `PreflightTarget`.
        bundle: The name of this desktop's bundle.
        cluster_nodes: The names of all nodes of the cluster.
        root_error: Why this computer cannot write to the data root.
        network_error: Why the nodes have no network in common.
        data_notes: The reading notes of its dataset, and the warnings of a trial run.
        reservations: The reservations of other jobs into which it would reach.
        findings: The results of the earlier checks, in the order of the table.
    """

    library: str
    bundle: str
    nodes: tuple[NodePreflight, ...] = ()
    cluster_nodes: tuple[str, ...] = ()
    root_name: str = ""
    root_error: BackendError | OSError | None = None
    network_error: BackendError | None = None
    data_notes: Sequence[str] = ()
    reservations: Sequence[Reservation] = ()
    findings: list[PreflightFinding] = field(default_factory=list)

    @property
    def target_nodes(self) -> tuple[NodePreflight, ...]:
        return tuple(node for node in self.nodes if node.target is not None)

    @property
    def limit_s(self) -> float:
        return max(node.limits.total_s for node in self.target_nodes)

    def faulty_nodes(self, check: str) -> set[str]:
        """Return the nodes with a finding of ``check``."""
        findings = (finding for finding in self.findings if finding.check == check)
        return {node for finding in findings if not finding.ok for node in finding.nodes}


@dataclass(frozen=True)
class PreflightContext:
    """This desktop's side of a preflight check."""

    root: OpenRoot
    node_registry: NodeRegistry
    provisioning: ProvisioningService
    python: Callable[[], str]
    limits: PreflightLimits = field(default_factory=PreflightLimits)
    needs_torch: Callable[[JobConfig], bool] = lambda config: False
    """Whether the script of a job imports torch."""
    data_notes: Callable[[JobConfig], Sequence[str]] = lambda config: ()
    now: Callable[[], float] = time.monotonic


def script_python_fields(
    config: JobConfig, needs_torch: Callable[[JobConfig], bool]
) -> dict[str, Any]:
    """Return the fields of `PreflightTarget` about the Python of a job's script."""
    path = "" if config.python == REQUIREMENTS else config.python
    return {"script_python": path, "needs_torch": bool(path) and needs_torch(config)}


def node_python(entry: NodeEntry) -> str:
    """Return the node's own Python, outside the environment to be checked."""
    for python in entry.info.pythons if entry.info is not None else ():
        if python.version_numbers >= OLDEST_PYTHON:
            return python.path
    return "python3"


def read_ssh_settings(shell: Shell, home: NodeHome) -> list[bytes]:
    """Read the current SSH settings; b"" for a missing file."""
    texts = []
    for name in ("config", "known_hosts"):
        try:
            texts.append(shell.read(str(home.ssh / name)))
        except FileNotFoundError:
            texts.append(b"")
    return texts
