"""``launch.json``: all parameters of a run, so that nodes need no TOML and no catalogue.

Beside it is the record of a run on nodes that do not see the data root. Standard library only and
Python 3.9: the records are.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from backend.records.base.atomic_files import stored_record
from backend.records.base.layout import AttemptFolder
from backend.records.base.schema import KEY, READ, STRICT, Record, json_value
from backend.records.jobs.config import JobConfig
from backend.records.jobs.job_file import parse_job
from backend.records.jobs.placement import ALLOCATED_GPU
from backend.records.jobs.status import Continuation
from backend.records.jobs.stop_request import STOP_GRACE_S

RANK_MODULE = "backend.training.rank"
SCRIPT_MODULE = "backend.training.script_rank"
"""The `Launch.rank_module` of a script."""
_L = TypeVar("_L", bound="Launch")
TRIAL_PREFIX = ".canary-"
"""The id of a run that no list shows begins with it; see `services.jobs.trial_run`."""
ALLOCATED_DEVICES = "RINGMASTER_ALLOCATED_DEVICES"
"""The variable with the devices of the allocation on this node, from the guard to its rank."""


@dataclass(frozen=True)
class RankPlan:
    """The place of one rank.

    ``gpu`` is a UUID or `ALLOCATED_GPU` with a number, several with commas, or "" on CPUs.
    """

    rank: int
    local_rank: int
    node: str
    host: str
    gpu: str = ""


def gpu_count(plan: RankPlan) -> int:
    return len(list(filter(None, plan.gpu.split(","))))


def visible_devices(gpus: str, environment: Mapping[str, str]) -> str:
    """Return ``CUDA_VISIBLE_DEVICES`` for GPUs with commas.

    Those of an allocation are numbers within the devices that the scheduler gave to the node.
    """
    allocated_devices = list(filter(None, environment.get(ALLOCATED_DEVICES, "").split(",")))
    devices = []
    for gpu in filter(None, gpus.split(",")):
        number = gpu[len(ALLOCATED_GPU) :] if gpu.startswith(ALLOCATED_GPU) else ""
        is_listed = number and int(number) < len(allocated_devices)
        devices.append(allocated_devices[int(number)] if is_listed else number or gpu)
    return ",".join(devices)


@dataclass(frozen=True)
class RankLauncher:
    """The program that starts the ranks, and what it needs besides them.

    A next run has the launcher of the run before: its nodes have the same paths and networks.
    """

    path: str = ""
    """The absolute path of mpirun; not used for a job of one process that needs none."""
    version: int = 5
    """The major version of that Open MPI, 4 or 5."""
    networks: str = ""
    """The networks between the nodes, separated by commas (`backend.launch.network`)."""
    is_crowded: bool = False
    """A node has more ranks than CPU cores."""
    is_allocated: bool = False
    """A scheduler gives the nodes to mpirun, which starts its daemons through it, without SSH."""


def _config(raw: Mapping[str, Any]) -> JobConfig:
    parsed_job = parse_job(raw)
    if parsed_job.config is None:
        raise ValueError(parsed_job.errors[0].message)
    return parsed_job.config


@dataclass(frozen=True)
class Launch(Record, label="launch record", rules=STRICT):
    """One run with all its parameters. Every path is absolute and the same on every node.

    The command that the supervisor executes is computed from it
    (`backend.node.run.launch_command`). ``resume_from`` is the path of the checkpoint to resume
    from, ``start_from`` that of weights to begin with; at most one is set.
    """

    job_id: str
    run: int
    config: JobConfig = field(metadata={READ: _config})
    ranks: tuple[RankPlan, ...]
    model_source: str
    loader_source: str
    dataset_files: str
    validation_loader_source: str = ""
    validation_dataset_files: str = ""
    script_source: str = ""
    script_python: str = ""
    """The Python of the script; "" for that of the ranks."""
    resume_from: str = ""
    start_from: str = ""
    job_folder: str = ""
    code_root: str = ""
    """The folder that holds the package ``backend``, or several as in PYTHONPATH."""
    launcher: RankLauncher = RankLauncher()
    rank_module: str = RANK_MODULE
    """The module that every rank executes."""
    hashes: Mapping[str, str] = field(default_factory=dict)
    """Content hash of each pinned version (``{"model": "<sha256>"}``)."""
    python: str = ""
    """The Python of every rank, on every node."""
    ssh_config: str = ""
    """OpenSSH client file with which the head node reaches the others; "" on one node."""
    is_staged: bool = field(default=False, metadata={KEY: "apart"})
    """The nodes see neither the data root nor each other's files: each has its own root."""
    grace_s: float = STOP_GRACE_S
    """Time without progress after a stop request before a rank is ended."""
    continuation: Continuation | None = field(default=None, metadata={KEY: "continued"})
    reserved_from: str = ""
    """`QueueEntry.not_before` of a run with a reservation, which its next run keeps."""
    reserved_s: float = 0.0
    steps_limit: int = 0
    """Steps after which an epoch ends, without validation; 0 is no limit. The last checkpoint of
    such a trial is read back."""

    @property
    def is_trial(self) -> bool:
        """Return whether the run has no job: such a run is not continued, and sends nothing."""
        return self.steps_limit > 0 or self.job_id.startswith(TRIAL_PREFIX)

    @property
    def sources(self) -> tuple[str, ...]:
        """The folders of the user's files, "" for one that it does not have."""
        validation = self.validation_loader_source, self.validation_dataset_files
        code_sources = self.model_source, self.loader_source, self.script_source
        return *code_sources, self.dataset_files, *validation

    @property
    def lr_factor(self) -> float:
        """The factor of the learning rate for the size of an update, in batches of the user's size.

        With fewer nodes and the same global batch it is that of the nodes that the user chose.
        """
        if self.continuation is None or not self.continuation.chosen_batch:
            return self.config.lr_factor
        batches = self.config.global_batch_size / self.continuation.chosen_batch
        return self.config.lr_factor_of(batches)

    @property
    def rendezvous_host(self) -> str:
        """The address of rank 0 for all ranks; on one node no other machine can reach it."""
        is_alone = len({plan.node for plan in self.ranks}) == 1
        return "127.0.0.1" if is_alone else self.ranks[0].host

    def can_lose(self, rank: int) -> bool:
        """Return whether the job continues without this rank: it is one of several workers."""
        servers = self.config.strategy.servers
        return 0 < servers <= rank

    @property
    def expendable(self) -> frozenset[int]:
        """The ranks without which the job continues."""
        return frozenset(plan.rank for plan in self.ranks if self.can_lose(plan.rank))

    @property
    def can_lose_nodes(self) -> bool:
        """Return whether the job continues without any node but the first."""
        return can_lose_nodes(self.config, self.ranks)

    def manual_run_id(self, name: str) -> str:
        """Return the job's id when it is started in a shell: no run of the program has it."""
        return f"{self.job_id}-{name}"

    def to_dict(self) -> dict[str, Any]:
        return {**super().to_dict(), "config": self.config.to_dict()}

    @classmethod
    def from_dict(cls: type[_L], raw: Mapping[str, Any]) -> _L:
        argv, environment = raw.get("argv"), raw.get("environment", {})
        if isinstance(argv, list) and isinstance(environment, Mapping):
            raw = {**raw, **_parse_argv([*map(str, argv)], raw.get("python"), environment)}
            del raw["argv"], raw["environment"]
        return super().from_dict(raw)


def _parse_argv(
    argv: Sequence[str], python: object, environment: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the fields of a launch whose writer stored the command itself."""
    next_arguments, previous_arguments = dict(zip(argv, argv[1:])), dict(zip(argv[1:], argv))
    launcher = RankLauncher(
        path=argv[0] if "-np" in argv else "",
        version=5 if "--prtemca" in argv else 4,
        networks=next_arguments.get("btl_tcp_if_include", ""),
        is_crowded="mpi_yield_when_idle" in argv,
    )
    return {
        "environment": environment,
        "job_folder": next_arguments.get("--job", ""),
        "code_root": environment.get("PYTHONPATH", ""),
        "python": python or previous_arguments.get("-m", ""),
        "rank_module": next_arguments.get("--module", RANK_MODULE),
        "launcher": json_value(launcher),
    }


def networks_of(addresses: Iterable[str]) -> str:
    """Return a network for each address, separated by commas, as mpirun takes them.

    A network has two addresses: Open MPI 5.0 takes one with a single address (/32) for all
    addresses, so in an allocation it used the loopback, and the ranks never met.
    """
    networks = [ipaddress.ip_network(address) for address in addresses]
    pairs = [network.supernet(new_prefix=network.max_prefixlen - 1) for network in networks]
    return ",".join(dict.fromkeys(map(str, pairs)))


def rank_plans(config: JobConfig, hosts: Mapping[str, str]) -> tuple[RankPlan, ...]:
    """Return the ranks in the order in which mpirun numbers them: node by node, as in the job.

    Args:
        hosts: The address of each node.
    """
    plans: list[RankPlan] = []
    for placement in config.placement:
        for local_rank in range(count := config.processes_on(placement)):
            # Every process has one GPU, or a single one for the node all of them.
            gpu = ",".join(placement.gpus[local_rank::count])
            host = hosts[placement.node]
            plans.append(RankPlan(len(plans), local_rank, placement.node, host, gpu))
    return tuple(plans)


def can_lose_nodes(config: JobConfig, ranks: Sequence[RankPlan]) -> bool:
    """Return whether all servers are on the first node, so that the others have workers only."""
    servers = config.strategy.servers
    return servers > 0 and all(plan.node == ranks[0].node for plan in ranks[:servers])


def launch_of(path: Path, run: int) -> Launch | None:
    """Read the launch of run ``run``; None if the file cannot be read or is of another run."""
    launch = stored_record(Launch, path)
    return launch if launch is not None and launch.run == run else None


@dataclass(frozen=True)
class RemoteRun(Record, label="record of a run elsewhere", required=("is_home",)):
    """``attempts/<n>/carried.json``. ``node`` leads the run; ``is_home``: all files are fetched."""

    node: str
    is_home: bool = False


def remote_run_of(attempt: AttemptFolder) -> RemoteRun | None:
    """Read the record of a run, None if its files are written to the data root itself."""
    return stored_record(RemoteRun, attempt.staged_marker)
