"""Assignment of ranks to nodes and GPUs. Pure: a job's placement becomes a list of ranks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from backend.base.errors import BackendError
from backend.records.jobs.config import JobConfig
from backend.records.jobs.launch import RankPlan
from backend.records.jobs.placement import THIS_COMPUTER, Placement
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
class NodeRoom:
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
    no_share: bool = False
    """It does not see the data root; see `records.cluster.NodeEntry`."""


def this_computer(
    cores: int, gpus: tuple[str, ...] = (), site: NodePaths | None = None
) -> NodeRoom:
    # The address and not the name: with names, /etc/hosts decides whether mpirun starts.
    return NodeRoom(THIS_COMPUTER, "127.0.0.1", cores, gpus, site=site)


def require_one_kind(rooms: Sequence[NodeRoom]) -> None:
    """Check that all of ``rooms`` see the data root, or none does.

    Raises:
        BackendError: They differ; the sentence names two of them.
    """
    blind = [room.node for room in rooms if room.no_share]
    sees = [room.node for room in rooms if not room.no_share]
    if blind and sees:
        raise BackendError(
            f"{sees[0]} sees the data root and {blind[0]} does not, so they cannot train together.",
            f"Choose nodes of one kind, or mount the data root on {blind[0]} and add it again.",
        )


def one_site(rooms: Sequence[NodeRoom]) -> NodePaths:
    """Return the paths that all of ``rooms`` have in common.

    Raises:
        BackendError: A node was not set up, or two of them differ; the sentence names them.
    """
    first = rooms[0]
    for room in rooms:
        if room.site is None:
            raise BackendError(f"{room.node} is not set up.", f"Set up {room.node} first.")
        if not room.site.data_root:
            raise BackendError(
                f"{room.node} does not see the data root.",
                f"Mount it on {room.node} at the same path as on the others, then check the node.",
            )
        for what, of_first, here in _sights(first, room):
            if of_first != here:
                raise BackendError(
                    f"{first.node} and {room.node} cannot train together: {what} is {of_first} "
                    f"on {first.node} and {here} on {room.node}.",
                    f"Set up {room.node} again, or choose nodes with the same paths.",
                )
    assert first.site is not None
    return first.site


def _sights(first: NodeRoom, room: NodeRoom) -> tuple[tuple[str, str, str], ...]:
    one, other = first.site, room.site
    assert one is not None
    assert other is not None
    return (
        ("the data root", one.data_root, other.data_root),
        ("Python", one.python, other.python),
        ("the program", one.code_root, other.code_root),
        ("Open MPI", one.mpi_version, other.mpi_version),
        ("mpirun", one.mpirun, other.mpirun),
    )


def rank_plans(config: JobConfig, rooms: Sequence[NodeRoom]) -> tuple[RankPlan, ...]:
    """Return the ranks in the order in which mpirun numbers them: node by node, as in the job.

    Raises:
        BackendError: A node or GPU does not exist, or has no room; all reasons at once.
    """
    known = {room.node: room for room in rooms}
    reasons = [reason for one in config.placement for reason in _reasons(one, known)]
    if reasons:
        raise BackendError(" ".join(reasons), "Change where the job runs.")
    plans: list[RankPlan] = []
    for one in config.placement:
        room = known[one.node]
        for local_rank in range(count := config.processes_on(one)):
            # Every process has one GPU, or a single one for the node all of them.
            gpu = ",".join(one.gpus[local_rank::count])
            plans.append(RankPlan(len(plans), local_rank, one.node, room.host, gpu))
    return tuple(plans)


def _reasons(one: Placement, known: dict[str, NodeRoom]) -> list[str]:
    room = known.get(one.node)
    if room is None:
        names = ", ".join(sorted(known)) or "none"
        return [f"Unknown node “{one.node}”. Known nodes: {names}."]
    missing = [gpu for gpu in one.gpus if gpu not in room.gpus]
    if missing:
        has = f"has {', '.join(room.gpus)}" if room.gpus else "has no GPU"
        return [f"GPU {gpu} does not exist on {one.node}, which {has}." for gpu in missing]
    slots = room.cores * PROCESSES_PER_CORE
    if one.processes > slots:
        cores = "1 core" if room.cores == 1 else f"{room.cores} cores"
        return [
            f"{one.node} has {cores}, enough for {slots} processes; "
            f"the job asks for {one.processes}."
        ]
    return []
