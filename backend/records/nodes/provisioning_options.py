"""Options for setting up nodes, and whether they fit the nodes' last known facts.

Pure, standard library only and Python 3.9: the nodes import this.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from backend.records.nodes.entry import NodeEntry, NodeInfo

SYSTEM_MPI, SHARED, LIMITS_KEY = "system_mpi", "shared", "limits_key"
WITHOUT_HOROVOD = "without_horovod"
"""Keys of the options that the window offers, as in `SetUpOptions`."""
_MOST_NAMED = 3


@dataclass(frozen=True)
class SetUpOptions:
    """The user's choices: no GPUs, the nodes' own Open MPI, an existing key, one environment on the
    data root for all similar nodes, no Horovod."""

    cpu_only: bool = False
    system_mpi: bool = False
    own_key: str = ""
    """Path on the nodes of a private key with which they reach each other already."""
    shared: bool = False
    limits_key: bool = True
    """The cluster's key can start only training runs, where that works; see `ssh_command_filter`.
    """
    without_horovod: bool = False
    packages: tuple[str, ...] = ()
    """Packages to install besides those that the node has, by name."""


def options_of(entry: NodeEntry) -> SetUpOptions:
    """Return the options with which a node was set up."""
    if entry.installation is None:
        return SetUpOptions()
    return SetUpOptions(
        own_key=entry.installation.own_key,
        system_mpi=entry.has_own_mpi,
        shared=entry.shares_environment,
        limits_key=entry.installation.limits_key,
        without_horovod=entry.installation.without_horovod,
    )


def usual_options(entries: Sequence[NodeEntry]) -> SetUpOptions:
    """Return the options of most nodes that are set up; an option of only half of them is off.

    The key of a new node is limited, whatever that of others is: each node decides it for itself.
    """
    ready = [options_of(entry) for entry in entries if entry.is_ready]

    def most(has: Callable[[SetUpOptions], bool]) -> bool:
        return 2 * sum(has(one) for one in ready) > len(ready)

    keys = {one.own_key for one in ready}
    return SetUpOptions(
        system_mpi=most(lambda one: one.system_mpi),
        shared=most(lambda one: one.shared),
        without_horovod=most(lambda one: one.without_horovod),
        own_key=keys.pop() if len(keys) == 1 else "",
    )


def choice_errors(
    options: SetUpOptions, chosen: Sequence[NodeEntry], others: Sequence[NodeEntry], brought: str
) -> Mapping[str, str]:
    """Return why options do not fit, a sentence by the key of the option.

    Args:
        chosen: The nodes to be set up together.
        others: All other nodes; they stay as they are.
        brought: Version of Ringmaster's own Open MPI, "" if it is not known.
    """
    faults = {
        SYSTEM_MPI: _own_mpi_fault(chosen, others)
        if options.system_mpi
        else _brought_mpi_fault(chosen, others, brought),
        SHARED: _shared_fault(chosen) if options.shared else "",
    }
    return {name: fault for name, fault in faults.items() if fault}


def _own_mpi_fault(chosen: Sequence[NodeEntry], others: Sequence[NodeEntry]) -> str:
    inspected = _inspected(chosen)
    lacking = [name for name, facts in inspected if not facts.mpirun]
    if lacking:
        return (
            f"{_named(lacking)} {_have(lacking)} no Open MPI. Install it, for example with "
            "apt-get install openmpi-bin, or use Ringmaster's Open MPI."
        )
    for name, facts in inspected:
        if facts.mpi_version.partition(".")[0] not in ("4", "5"):
            return f"{name} has Open MPI {facts.mpi_version}; only 4.1 and 5.0 can be used."
    versions = [(name, facts.mpi_version) for name, facts in inspected]
    for (name, mine), (other, theirs) in zip(versions, versions[1:]):
        if mine != theirs:
            return (
                f"{name} has Open MPI {mine} and {other} has {theirs}; the ranks of a job need the "
                "same on all nodes. Install the same version, or use Ringmaster's Open MPI."
            )
    return _apart(versions[0][1], others) if versions else ""


def _brought_mpi_fault(
    chosen: Sequence[NodeEntry], others: Sequence[NodeEntry], brought: str
) -> str:
    return _apart(brought, others) if chosen and brought else ""


def _apart(version: str, others: Sequence[NodeEntry]) -> str:
    """Return why nodes that are not being set up conflict, because they use another Open MPI."""
    for other in others:
        there = other.installation
        if there is not None and there.mpi_version != version:
            apart = [one.name for one in others if _is_apart(one, version)]
            whose = "of its own" if other.has_own_mpi else "from Ringmaster"
            return (
                f"This would be Open MPI {version}, and {_named(apart)} {_have(apart)} "
                f"{there.mpi_version} {whose}; the ranks of a job need the same on all nodes. "
                f"Choose the same, or set {_named(apart)} up together with this."
            )
    return ""


def _is_apart(entry: NodeEntry, version: str) -> bool:
    return entry.installation is not None and entry.installation.mpi_version != version


def _shared_fault(chosen: Sequence[NodeEntry]) -> str:
    inspected = _inspected(chosen)
    blind = [one.name for one in chosen if one.info and (one.is_staged or not one.info.data_root)]
    if blind:
        sees = "does" if len(blind) == 1 else "do"
        return (
            f"{_named(blind)} {sees} not see the data root, so nothing can be shared in it. "
            "Mount it, or give each node its own environment."
        )
    barred = [name for name, facts in inspected if not facts.data_root_writable]
    if barred:
        return (
            f"{_named(barred)} may not write to the data root, so nothing can be shared in it. "
            "Mount it with write permission, or give each node its own environment."
        )
    return ""


def _inspected(entries: Sequence[NodeEntry]) -> list[tuple[str, NodeInfo]]:
    return [(entry.name, entry.info) for entry in entries if entry.info is not None]


def _named(names: Sequence[str]) -> str:
    """ "gpu1, gpu2 and 5 more"."""
    if len(names) > _MOST_NAMED:
        return f"{', '.join(names[:2])} and {len(names) - 2} more"
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


def _have(names: Sequence[str]) -> str:
    return "has" if len(names) == 1 else "have"
