"""Results of a pre-flight check as sentences, and checks from known facts. Pure."""

from __future__ import annotations

import errno
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from backend.base.errors import BackendError
from backend.node.system import wording
from backend.records.base.program_name import COMMAND
from backend.records.base.validation import sanitize
from backend.records.jobs.config import THIS_COMPUTER, Placement
from backend.records.nodes.entry import NodeEntry
from backend.records.nodes.preflight import Fix, PreflightFinding
from backend.services.preflight.limits import VARIABLE
from backend.ssh.interface import HostKeyChanged, HostKeyUnknown, LoginRefused, Unreachable

Facts = Mapping[str, Any]

FULL = (errno.ENOSPC, errno.EDQUOT)
CLOCK_WARNING_S = 60.0
_BUSY_PER_CORE = 2.0
SLOW_BYTES_PER_S = 10e6
"""Less than Fast Ethernet; training across such nodes waits for the network."""

DATA_ROOT, DISK, HOME = "data root", "disk", "home folder"
PYTHON, PYTORCH, HOROVOD, OPEN_MPI = "Python", "PyTorch", "Horovod", "Open MPI"
MPI4PY = "MPI for Python"
LIBRARIES = {"torch": PYTORCH, "horovod": HOROVOD, "mpi4py": MPI4PY}
PROGRAM, AGENT, NODE, NETWORK = "program", "agent", "node", "common network"
SSH, HOST_KEY, BETWEEN = "SSH", "host key", "SSH between nodes"
ROUTE, GPUS, CLOCK = "connections between nodes", "GPUs", "clock"
SHARED_MEMORY, OPEN_FILES, LEFTOVERS = "shared memory", "open files", "left-over processes"
PROCESSES, SETTINGS = "processes", "SSH settings"
ALL = (
    *(NODE, SSH, HOST_KEY, PYTHON, PYTORCH, HOROVOD, MPI4PY, OPEN_MPI, PROGRAM, AGENT, DATA_ROOT),
    *(DISK, HOME, NETWORK, SETTINGS, BETWEEN, ROUTE, GPUS, SHARED_MEMORY, OPEN_FILES, PROCESSES),
    *(CLOCK, LEFTOVERS),
)
"""In the order in which they are shown."""
ONLY_FAR = frozenset((SSH, HOST_KEY, PROGRAM, AGENT, HOME, CLOCK))
ONLY_BETWEEN = frozenset((NETWORK, SETTINGS, BETWEEN, ROUTE))
ONLY_WARNS = frozenset((CLOCK, LEFTOVERS))


@dataclass(frozen=True)
class PreflightTarget:
    """The part of the check for one node: ``placement`` is its share of the job."""

    node: str
    placement: Placement
    python: str
    mpirun: str
    mpi_version: str
    bundle: str
    data_root: str
    home: str
    leads: bool
    needed_bytes: int = 0
    library: str = "horovod"
    """Imported besides torch; "" for the strategy "alone", which needs no mpirun."""
    jobs_are_narrow: bool = False
    """On this computer the folder of all jobs is writable for fewer users than its parent."""
    no_share: bool = False
    """`data_root` is a staged one, see `NodeEntry`."""
    loader_workers: int = 0


@dataclass
class NodeReplies:
    """The facts of one node by question; None if it was not answered in time."""

    facts: dict[str, Facts | None] = field(default_factory=dict)

    def of(self, name: str) -> Facts:
        return self.facts.get(name) or {}


def busy(facts: Facts) -> str:
    """Return ``load 34 on 2 cores`` for a node that is busy, otherwise ""."""
    load, cores = facts.get("load", 0.0), facts.get("cores", 1)
    return f"load {load:.0f} on {cores} cores" if load >= _BUSY_PER_CORE * cores else ""


def fault(
    check: str,
    node: str,
    sentence: str,
    remedy: str,
    fix: Fix = Fix.NONE,
    **more: Any,
) -> PreflightFinding:
    return PreflightFinding(check, False, sentence, remedy, (node,), fix, **more)


def no_way_in(node: str, error: BackendError) -> PreflightFinding:
    check = HOST_KEY if isinstance(error, (HostKeyChanged, HostKeyUnknown)) else SSH
    known = isinstance(error, (HostKeyChanged, HostKeyUnknown, LoginRefused, Unreachable))
    sentence = error.sentence if known else f"{node} cannot be reached: {error.sentence}"
    if isinstance(error, HostKeyUnknown):
        fix = Fix.ACCEPT_HOST_KEY
        return fault(check, node, sentence, error.remedy, fix, host_key=error.key)
    return fault(check, node, sentence, error.remedy, Fix.LEAVE_OUT)


def no_answer(node: str, limit_s: float) -> PreflightFinding:
    return fault(
        NODE,
        node,
        f"{wording.place(node)} has not answered within {limit_s:g} s.",
        f"Check the load of {wording.place(node)} and its network, then check again. For slow "
        f"nodes, set {VARIABLE} to more seconds.",
        Fix.LEAVE_OUT,
    )


def not_checked(node: str, checks: Sequence[str], why: str = "") -> PreflightFinding:
    """Say that checks of a node were not made; those that only warn never prevent a start."""
    warns = set(checks) <= ONLY_WARNS
    return fault(
        checks[0],
        node,
        f"{', '.join(checks)} of {wording.place(node)}: not checked{why and ', '}{why}.",
        f"Check the load of {wording.place(node)}, then check again.",
        Fix.NONE if warns else Fix.LEAVE_OUT,
        is_warning=warns,
    )


def no_python(node: str, python: str, why: str) -> PreflightFinding:
    return fault(
        PYTHON,
        node,
        f"{python} on {node} does not start: {sanitize(why, 160)}.",
        f"Reinstall Python on {node} (apt-get install python3), then set {node} up again.",
        Fix.LEAVE_OUT,
    )


def of_entry(entry: NodeEntry, bundle: str) -> Iterator[PreflightFinding]:
    """Yield what is known without asking. ``bundle`` is the name of this desktop's bundle."""
    name, there = entry.name, entry.installation
    if not entry.in_service:
        yield fault(
            NODE,
            name,
            f"{name} is out of service.",
            "Put it back into service, or run without it.",
            Fix.PUT_INTO_SERVICE,
        )
    if there is None:
        yield fault(NODE, name, f"{name} is not set up.", f"Set {name} up.", Fix.SET_UP_AGAIN)
        return
    if not entry.data_root:
        yield fault(
            DATA_ROOT,
            name,
            f"{name} does not see the data root.",
            f"Mount it on {name} at the same path as on the other nodes, then check {name} again.",
            Fix.LOOK_AGAIN,
        )
    if there.bundle.rpartition("/")[2] != bundle:
        yield fault(
            PROGRAM,
            name,
            f"{name} has another version of Ringmaster than this computer.",
            f"Set {name} up again; that takes a few seconds.",
            Fix.SET_UP_AGAIN,
        )


def clock(node: str, offset_s: float) -> Iterator[PreflightFinding]:
    if abs(offset_s) >= CLOCK_WARNING_S:
        way = "ahead of" if offset_s > 0 else "behind"
        minutes = abs(offset_s) / 60
        yield fault(
            CLOCK,
            node,
            f"The clock of {node} is {minutes:.0f} min {way} this computer's; times in its logs "
            "will look wrong.",
            f"Switch on time synchronisation on {node}: timedatectl set-ntp true",
            is_warning=True,
        )


def apart(head: PreflightTarget, other: PreflightTarget) -> Iterator[PreflightFinding]:
    """Yield the differences between two nodes that must be equal, from their set-up."""
    again = f"Set up {head.node} and {other.node} again together."
    if head.no_share is not other.no_share:
        blind, sees = (head, other) if head.no_share else (other, head)
        yield fault(
            DATA_ROOT,
            other.node,
            f"{blind.node} does not see the data root and {wording.place(sees.node)} does; "
            "the nodes of a job must be of one kind.",
            f"Choose other nodes, or mount the data root on {blind.node} and add it again.",
            Fix.LEAVE_OUT,
        )
        return
    for check, what, mine, theirs in (
        (DATA_ROOT, "the data root", head.data_root, other.data_root),
        (OPEN_MPI, "Open MPI", head.mpi_version, other.mpi_version),
        (PYTHON, "Python", head.python, other.python),
        (OPEN_MPI, "mpirun", head.mpirun, other.mpirun),
    ):
        if mine and theirs and mine != theirs:
            yield fault(
                check,
                other.node,
                f"{what[0].upper() + what[1:]} is {mine} on {head.node} and {theirs} on "
                f"{other.node}; the nodes of a job need the same.",
                again if check != DATA_ROOT else "Mount it at the same path on both.",
                Fix.SET_UP_AGAIN if check != DATA_ROOT else Fix.LEAVE_OUT,
            )
            return


def versions_apart(told: Mapping[str, Facts]) -> Iterator[PreflightFinding]:
    """Yield nodes whose imported libraries differ from those of most nodes."""
    for key, check in LIBRARIES.items():
        found = {node: facts[key] for node, facts in told.items() if facts.get(key)}
        if len(set(found.values())) < 2:
            continue
        # In a tie, the version of the head node, which comes first.
        usual = Counter(found.values()).most_common(1)[0][0]
        like = next(node for node, version in found.items() if version == usual)
        for node, version in found.items():
            if version != usual:
                yield fault(
                    check,
                    node,
                    f"{check} is {version} on {node} and {usual} on {like}; the nodes of a job "
                    "need the same.",
                    f"Set {node} up again.",
                    Fix.SET_UP_AGAIN,
                )


def without_horovod(has: Mapping[str, bool], is_needed: bool) -> Iterator[PreflightFinding]:
    """Yield the nodes without Horovod if the job needs it, or if another of its nodes has it."""
    other = next((node for node in has if has[node]), "")
    for node in has:
        if has[node] or not (is_needed or other):
            continue
        is_here = node == THIS_COMPUTER
        yield fault(
            HOROVOD,
            node,
            f"{wording.place(node)} has no Horovod, which the strategy allreduce needs."
            if is_needed
            else f"{wording.place(node)} has no Horovod and {wording.place(other)} has it; the "
            "nodes of a job need the same.",
            f"{'Choose the strategy DDP' if is_needed else 'Choose other nodes'}, or "
            + ("run ./installers/run doctor." if is_here else f"set {node} up with Horovod."),
            Fix.NONE if is_here else Fix.SET_UP_AGAIN,
        )


def not_its_address(node: str, address: str, why: str) -> PreflightFinding:
    return fault(
        NETWORK,
        node,
        f"{node} no longer has the address {address}, which the other nodes use: {sanitize(why)}.",
        "Check the node again; it may have a new address.",
        Fix.LOOK_AGAIN,
    )


def unknown_node(node: str, known: Sequence[str]) -> PreflightFinding:
    return fault(
        NODE,
        node,
        f"There is no node “{sanitize(node)}”.",
        f"Known nodes: {', '.join(known)}." if known else f"Add it: {COMMAND} node add HOST",
        Fix.LEAVE_OUT,
    )


def too_many(site: PreflightTarget, cores: int, slots: int) -> PreflightFinding:
    return fault(
        PROCESSES,
        site.node,
        f"{wording.place(site.node)} has {cores} cores, enough for {slots} processes; the job asks "
        f"for {site.placement.processes}.",
        "Give it fewer processes.",
        Fix.FIT_PROCESSES,
        fitting=slots,
    )


def not_seen_here(node: str, root: str) -> PreflightFinding:
    return fault(
        DATA_ROOT,
        node,
        f"This computer does not see the file that {wording.place(node)} wrote to {root}.",
        f"Mount the same share on both, not a copy of it on {wording.place(node)}.",
        Fix.LEAVE_OUT,
    )


def no_settings(node: str, error: BackendError) -> PreflightFinding:
    return fault(
        SETTINGS,
        node,
        f"The SSH settings of mpirun on {node} cannot be updated: {error.sentence}",
        error.remedy,
        Fix.INSTALL_CLUSTER_KEY,
    )


def settings_renewed(node: str) -> PreflightFinding:
    return PreflightFinding(
        SETTINGS,
        True,
        f"The SSH settings of mpirun on {node} were outdated and have been updated.",
        nodes=(node,),
    )


def no_common_network(nodes: Sequence[str], error: BackendError) -> PreflightFinding:
    return PreflightFinding(NETWORK, False, error.sentence, error.remedy, tuple(nodes))
