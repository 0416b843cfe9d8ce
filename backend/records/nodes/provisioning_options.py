"""Options for setting up nodes, and whether they fit the nodes' last known descriptions.

Pure, standard library only and Python 3.9: the nodes import this.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from backend.records.jobs.schedulers import SCHEDULERS
from backend.records.nodes.entry import NodeEntry, NodeInfo

SYSTEM_MPI, SHARED, LIMITS_KEY = "system_mpi", "shared", "limits_key"
WITHOUT_HOROVOD, IN_JOB = "without_horovod", "in_job"
"""Keys of the options that the window offers, as in `SetUpOptions`."""
_MAX_NAMES = 3


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
    in_job: bool = False
    """On the login node of a Slurm cluster: make the environment in a job, on a compute node."""
    partition: str = ""
    """The partition of that job, "" for the default."""


def offers_job(scheduler: str) -> bool:
    """Return whether an environment can be made in a job of a scheduler, given by its key."""
    return scheduler in SCHEDULERS and SCHEDULERS[scheduler].builds_environments


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
        in_job=entry.installation.in_job,
        partition=entry.installation.partition,
    )


def usual_options(entries: Sequence[NodeEntry]) -> SetUpOptions:
    """Return the options of most nodes that are set up; an option of only half of them is off.

    The key of a new node is limited, whatever that of others is: each node decides it for itself.
    """
    all_options = [options_of(entry) for entry in entries if entry.is_ready]

    def is_majority(predicate: Callable[[SetUpOptions], bool]) -> bool:
        return 2 * sum(predicate(options) for options in all_options) > len(all_options)

    keys = {options.own_key for options in all_options}
    return SetUpOptions(
        system_mpi=is_majority(lambda options: options.system_mpi),
        shared=is_majority(lambda options: options.shared),
        without_horovod=is_majority(lambda options: options.without_horovod),
        own_key=keys.pop() if len(keys) == 1 else "",
    )


def choice_errors(
    options: SetUpOptions,
    chosen_nodes: Sequence[NodeEntry],
    other_nodes: Sequence[NodeEntry],
    bundled_version: str,
) -> Mapping[str, str]:
    """Return the errors of the options as sentences, by the key of the option.

    Args:
        chosen_nodes: The nodes to be set up together.
        other_nodes: All other nodes; they stay as they are.
        bundled_version: Version of Ringmaster's own Open MPI, "" if it is not known.
    """
    errors = {
        SYSTEM_MPI: _own_mpi_error(chosen_nodes, other_nodes)
        if options.system_mpi
        else _bundled_mpi_error(chosen_nodes, other_nodes, bundled_version),
        SHARED: _shared_error(chosen_nodes) if options.shared else "",
        IN_JOB: _job_error(chosen_nodes) if options.in_job else "",
    }
    return {name: error for name, error in errors.items() if error}


def _own_mpi_error(chosen_nodes: Sequence[NodeEntry], other_nodes: Sequence[NodeEntry]) -> str:
    known_infos = _known_infos(chosen_nodes)
    names_without_mpi = [name for name, info in known_infos if not info.mpirun]
    if names_without_mpi:
        return (
            f"{_name_list(names_without_mpi)} {_have(names_without_mpi)} no Open MPI. Install it, "
            "for example with apt-get install openmpi-bin, or use Ringmaster's Open MPI."
        )
    for name, info in known_infos:
        if info.mpi_version.partition(".")[0] not in ("4", "5"):
            return f"{name} has Open MPI {info.mpi_version}; only 4.1 and 5.0 can be used."
    versions = [(name, info.mpi_version) for name, info in known_infos]
    for (name, version), (next_name, next_version) in zip(versions, versions[1:]):
        if version != next_version:
            message = different_mpi_message(name, version, next_name, next_version)
            return f"{message} Install the same version, or use Ringmaster's Open MPI."
    return _mpi_conflict(versions[0][1], other_nodes) if versions else ""


def different_mpi_message(name: str, version: str, other_name: str, other_version: str) -> str:
    return (
        f"{name} has Open MPI {version} and {other_name} has {other_version}; the ranks of a job "
        "need the same on all nodes."
    )


def _bundled_mpi_error(
    chosen_nodes: Sequence[NodeEntry], other_nodes: Sequence[NodeEntry], bundled_version: str
) -> str:
    return _mpi_conflict(bundled_version, other_nodes) if chosen_nodes and bundled_version else ""


def _mpi_conflict(version: str, other_nodes: Sequence[NodeEntry]) -> str:
    """Return why nodes that are not being set up conflict, because they use another Open MPI."""
    for node in other_nodes:
        installation = node.installation
        if installation is not None and installation.mpi_version != version:
            conflicting_names = [
                other_node.name for other_node in other_nodes if _has_other_mpi(other_node, version)
            ]
            origin = "of its own" if node.has_own_mpi else "from Ringmaster"
            return (
                f"This would be Open MPI {version}, and {_name_list(conflicting_names)} "
                f"{_have(conflicting_names)} "
                f"{installation.mpi_version} {origin}; the ranks of a job need the same on all "
                "nodes. "
                f"Choose the same, or set {_name_list(conflicting_names)} up together with this."
            )
    return ""


def _has_other_mpi(entry: NodeEntry, version: str) -> bool:
    return entry.installation is not None and entry.installation.mpi_version != version


def _shared_error(chosen_nodes: Sequence[NodeEntry]) -> str:
    known_infos = _known_infos(chosen_nodes)
    staged_names = [
        node.name
        for node in chosen_nodes
        if node.info and (node.is_staged or not node.info.data_root)
    ]
    if staged_names:
        verb = "does" if len(staged_names) == 1 else "do"
        return (
            f"{_name_list(staged_names)} {verb} not see the data root, so nothing can be shared in "
            "it. Mount it, or give each node its own environment."
        )
    read_only_names = [name for name, info in known_infos if not info.data_root_writable]
    if read_only_names:
        return (
            f"{_name_list(read_only_names)} may not write to the data root, so nothing can be "
            "shared in it. Mount it with write permission, or give each node its own environment."
        )
    return ""


def _job_error(chosen_nodes: Sequence[NodeEntry]) -> str:
    names = [node.name for node in chosen_nodes if not offers_job(node.scheduler)]
    if not names:
        return ""
    if len(names) == 1:
        return f"{names[0]} is not a login node of Slurm: set it up without a job of Slurm."
    return f"{_name_list(names)} are not login nodes of Slurm: set them up without a job of Slurm."


def _known_infos(entries: Sequence[NodeEntry]) -> list[tuple[str, NodeInfo]]:
    return [(entry.name, entry.info) for entry in entries if entry.info is not None]


def _name_list(names: Sequence[str]) -> str:
    """ "gpu1, gpu2 and 5 more"."""
    if len(names) > _MAX_NAMES:
        return f"{', '.join(names[:2])} and {len(names) - 2} more"
    *first_names, last_name = names
    return f"{', '.join(first_names)} and {last_name}" if first_names else last_name


def _have(names: Sequence[str]) -> str:
    return "has" if len(names) == 1 else "have"
