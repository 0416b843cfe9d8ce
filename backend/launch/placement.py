"""The conditions on the nodes of a job: GPUs, room for processes, common paths. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from backend.base.errors import BackendError
from backend.records.jobs.config import JobConfig, OnFailure
from backend.records.jobs.launch import Launch, rank_plans
from backend.records.jobs.placement import THIS_COMPUTER, ClusterPlacement, Placement
from backend.records.queue.entry import PROCESSES_PER_CORE


@dataclass(frozen=True)
class NodePaths:
    """Paths on a node that a run uses. All paths are absolute and valid on the node.

    mpirun starts the same command everywhere, so they must be equal on the nodes of one run.
    """

    data_root: str
    python: str
    code_root: str
    mpirun: str = ""
    mpi_version: str = ""
    ssh_config: str = ""

    @property
    def mpi_major(self) -> int:
        return int(self.mpi_version.partition(".")[0] or 5)


@dataclass(frozen=True)
class NodeResources:
    """Resources of a node: its address, CPU cores, and the UUIDs of its GPUs.

    ``addresses`` are all of its addresses with their prefix, the one that other nodes use first.
    ``site`` is None if the node was not set up.
    """

    node: str
    host: str
    cores: int
    gpus: tuple[str, ...] = ()
    addresses: tuple[str, ...] = ()
    site: NodePaths | None = None
    is_staged: bool = False
    """It does not see the data root; see `records.cluster.NodeEntry`."""


def this_computer(
    cores: int, gpus: tuple[str, ...] = (), site: NodePaths | None = None
) -> NodeResources:
    # The address and not the name: with names, /etc/hosts decides whether mpirun starts.
    return NodeResources(THIS_COMPUTER, "127.0.0.1", cores, gpus, site=site)


def require_same_access(capacities: Collection[NodeResources]) -> None:
    """Check that all nodes see the data root, or none does.

    Raises:
        BackendError: The nodes differ; the message names two of them.
    """
    staged_nodes = [capacity.node for capacity in capacities if capacity.is_staged]
    mounting_nodes = [capacity.node for capacity in capacities if not capacity.is_staged]
    if staged_nodes and mounting_nodes:
        raise BackendError(
            f"{mounting_nodes[0]} sees the data root and {staged_nodes[0]} does not, so they "
            "cannot train together.",
            "Choose nodes of one kind, or mount the data root on "
            f"{staged_nodes[0]} and add it again.",
        )


def common_paths(capacities: Sequence[NodeResources]) -> NodePaths:
    """Return the paths that all nodes have in common.

    Raises:
        BackendError: A node was not set up, or two of them differ; the sentence names them.
    """
    head = capacities[0]
    for capacity in capacities:
        if capacity.site is None:
            raise BackendError(f"{capacity.node} is not set up.", f"Set up {capacity.node} first.")
        if not capacity.site.data_root:
            raise BackendError(
                f"{capacity.node} does not see the data root.",
                f"Mount it on {capacity.node} at the same path as on the others, then check the "
                "node.",
            )
        for subject, first_value, value in _site_values(head, capacity):
            if first_value != value:
                raise BackendError(
                    f"{head.node} and {capacity.node} cannot train together: {subject} is "
                    f"{first_value} on {head.node} and {value} on {capacity.node}.",
                    f"Set up {capacity.node} again, or choose nodes with the same paths.",
                )
    assert head.site is not None
    return head.site


def _site_values(head: NodeResources, capacity: NodeResources) -> tuple[tuple[str, str, str], ...]:
    first_site, site = head.site, capacity.site
    assert first_site is not None
    assert site is not None
    return (
        ("the data root", first_site.data_root, site.data_root),
        ("Python", first_site.python, site.python),
        ("the program", first_site.code_root, site.code_root),
        ("Open MPI", first_site.mpi_version, site.mpi_version),
        ("mpirun", first_site.mpirun, site.mpirun),
    )


def require_capacity(config: JobConfig, capacities: Sequence[NodeResources]) -> None:
    """Check that the nodes of a job can take its processes.

    Raises:
        BackendError: A node or GPU does not exist, or has no room; all reasons at once.
    """
    by_node = {capacity.node: capacity for capacity in capacities}
    reasons = [reason for placement in config.placement for reason in _reasons(placement, by_node)]
    if reasons:
        raise BackendError(" ".join(reasons), "Change where the job runs.")


def _reasons(placement: Placement, by_node: dict[str, NodeResources]) -> list[str]:
    capacity = by_node.get(placement.node)
    if capacity is None:
        names = ", ".join(sorted(by_node)) or "none"
        return [f"Unknown node “{placement.node}”. Known nodes: {names}."]
    missing_gpus = [gpu for gpu in placement.gpus if gpu not in capacity.gpus]
    if missing_gpus:
        equipment = f"has {', '.join(capacity.gpus)}" if capacity.gpus else "has no GPU"
        return [
            f"GPU {gpu} does not exist on {placement.node}, which {equipment}."
            for gpu in missing_gpus
        ]
    slots = capacity.cores * PROCESSES_PER_CORE
    if placement.processes > slots:
        cores = "1 core" if capacity.cores == 1 else f"{capacity.cores} cores"
        return [
            f"{placement.node} has {cores}, enough for {slots} processes; "
            f"the job asks for {placement.processes}."
        ]
    return []


def allocation_launch(launch: Launch, placement: ClusterPlacement) -> Launch:
    """Return the launch for nodes that a scheduler chooses: they have numbers for names.

    It queues the job again after a failure of the machine, so the program's own retries are off.
    The launch names nodes, and no longer what the job asks of the scheduler: the batch script puts
    those of the allocation in place of the numbers.
    """
    placements = placement.placements()
    config = replace(launch.config, placement=placements, allocation=None, on_failure=OnFailure())
    return replace(
        launch,
        config=config,
        ranks=rank_plans(config, {p.node: p.node for p in placements}),
        launcher=replace(launch.launcher, networks=placement.networks, is_allocated=True),
        ssh_config="",
        is_staged=False,
    )
