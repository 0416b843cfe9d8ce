"""The command that starts a run, as an argument list. Pure.

The spelling is the one that Open MPI 4.1 and 5.0 both accept: 5.0 refuses `-bind-to` and `-map-by`
with a single dash, as Horovod's manual has them. A shell on the remote node runs what follows
`--mca` (3 of 3 tries), so no user text is there: addresses and paths are checked by their form, and
all user text goes through `-x` or the argument list, which are byte-exact.
"""

from __future__ import annotations

import ipaddress
import re
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from backend.base.errors import BackendError
from backend.base.rendezvous_point import PORT_VARIABLE, SECRET_VARIABLE
from backend.records.base.layout import RUN_VARIABLE, run_tag
from backend.records.jobs.config import JobConfig
from backend.records.jobs.launch import Launch, RankPlan, can_lose_nodes

GUARD = "backend.node.run.rank_guard"
SCRIPT_MODULE = "backend.training.script_rank"
"""What the guard of a script starts in place of a rank."""
STALL_SHUTDOWN = "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS"
EXPORTED = (RUN_VARIABLE, "PYTHONPATH", "PYTHONUTF8", STALL_SHUTDOWN)
"""Variables that mpirun passes to every rank; their values come from `environment`. Those of the
run's meeting come from the supervisor."""

_PORT_BY_HAND = 29500
"""The port that PyTorch's own launcher uses by default."""
_MAKE_SECRET = "od -An -vtx1 -N32 /dev/urandom | tr -d ' \\n'"
_PLAIN_PATH = re.compile(r"/[A-Za-z0-9._/+-]+")
_HOST = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]*|\[?[0-9A-Fa-f:]+\]?")
_KEEPALIVE = {"oob_tcp_keepalive_time": 20, "oob_tcp_keepalive_intvl": 10}
_SHORT_KEEPALIVE = {"oob_tcp_keepalive_time": 5, "oob_tcp_keepalive_intvl": 2}
"""For jobs that continue without a lost node: it is noticed in 13 s, and a shorter outage is
survived."""
_PROBES = ("oob_tcp_keepalive_probes", 4)
_NO_KEEPALIVE = {"oob_tcp_keepalive_time": 0}
"""mpirun ends all ranks when it notices that a node is lost; here they notice it themselves."""


@dataclass(frozen=True)
class Network:
    """Networks (`common_subnet`) and OpenSSH client file with which nodes reach each other.

    In an allocation ``cidr`` may be "", which leaves the choice to mpirun, and ``ssh_config`` is.
    """

    cidr: str
    ssh_config: str


def command(
    config: JobConfig,
    ranks: Sequence[RankPlan],
    *,
    job_folder: str,
    run: int,
    python: str,
    mpirun: str = "",
    version: int = 5,
    cores: Mapping[str, int] | None = None,
    network: Network | None = None,
    rank_module: str = "",
    is_allocated: bool = False,
) -> tuple[str, ...]:
    """Return the command that the supervisor executes.

    Args:
        mpirun: Its absolute path; not used for a job of one process that needs none.
        version: Major version of that Open MPI, 4 or 5.
        cores: CPU cores of each node; with more ranks than cores, and without GPUs, waiting ranks
            yield.
        network: Needed for more than one node.
        is_allocated: A scheduler gives the nodes to mpirun, and starts its daemons on them.

    Raises:
        BackendError: An address or a path cannot be passed to mpirun safely.
    """
    guard: tuple[str, ...] = (python, "-m", GUARD, "--job", job_folder, "--run", str(run))
    rank_module = rank_module or (SCRIPT_MODULE if config.script else "")
    if rank_module:
        guard += ("--module", rank_module)
    if not config.needs_mpirun:
        return guard
    slots = Counter(plan.node for plan in ranks)
    hosts = {plan.node: plan.host for plan in ranks}
    argv = [mpirun, "--bind-to", "none", "--map-by", "slot"]
    argv += ["--mca", "pml", "ob1", "--mca", "btl", "^openib"]
    is_crowded = any(count > (cores or {}).get(node, count) for node, count in slots.items())
    if is_crowded or not config.uses_gpus:
        # Ranks on CPUs compute on all cores, and one that waits without yielding takes a core from
        # them: two had 51 % efficiency instead of 84 with RetinaNet on 2 cores (docs/studies). With
        # more ranks than cores, an allreduce of 400 kB took 220–380 ms instead of 3–13.
        argv += ["--mca", "mpi_yield_when_idle", "1"]
    if len(slots) > 1:
        if network is None:
            raise ValueError("several nodes need a network")
        keepalive = _SHORT_KEEPALIVE if config.on_failure.continues else _KEEPALIVE
        if can_lose_nodes(config, ranks):
            keepalive = _NO_KEEPALIVE
        argv += _between_nodes(network, version, keepalive)
    secret = () if config.script else (SECRET_VARIABLE,)
    for name in (*EXPORTED, PORT_VARIABLE, *secret):
        argv += ["-x", name]
    argv += ["-np", str(len(ranks))]
    if not is_allocated:
        argv += ["-H", ",".join(f"{_host(node, hosts[node])}:{n}" for node, n in slots.items())]
    return (*argv, *guard)


def environment(config: JobConfig, *, job_id: str, run: int, code_root: str) -> dict[str, str]:
    """Return the variables that `command` takes from its environment.

    The job's own variables are not included: the guard passes them to the rank only.
    """
    return {
        RUN_VARIABLE: run_tag(job_id, run),
        "PYTHONPATH": code_root,
        # The locales of the nodes may differ, and with them how text and names of files are read.
        "PYTHONUTF8": "1",
        # The guard's limit must be reached first: it knows rank and line, Horovod knows neither.
        STALL_SHUTDOWN: str(int(config.stall_limit_s * 1.2) + 60),
    }


def manual_command(launch: Launch, name: str) -> str:
    """Return a run's command as a line for a shell of its first node.

    Its output goes to its own folder called ``name`` (`backend.node.run.manual_run`).
    """
    variables = {**launch.environment, RUN_VARIABLE: run_tag(launch.manual_run_id(name), 1)}
    line = shell_line((*launch.argv, "--by-hand", name), variables)
    if SECRET_VARIABLE not in launch.argv:
        return line
    # The shell sets it itself, so no argument of a program has it.
    return f"{PORT_VARIABLE}={_PORT_BY_HAND} {SECRET_VARIABLE}=$({_MAKE_SECRET}) {line}"


def shell_line(argv: Sequence[str], variables: Mapping[str, str]) -> str:
    """Return the command as a line that can be pasted into a shell."""
    if not variables:
        return shlex.join(argv)
    return shlex.join(("env", *(f"{name}={value}" for name, value in variables.items()), *argv))


def _between_nodes(network: Network, version: int, keepalive: Mapping[str, int]) -> list[str]:
    try:
        cidrs = network.cidr.split(",") if network.cidr or network.ssh_config else ()
        subnets = ",".join(str(ipaddress.ip_network(cidr)) for cidr in cidrs)
    except ValueError as error:
        raise BackendError(
            f"“{network.cidr}” is not a subnet that mpirun accepts.",
            "Give the nodes addresses in one subnet, such as 10.0.0.0/24.",
        ) from error
    if network.ssh_config and not _PLAIN_PATH.fullmatch(network.ssh_config):
        raise BackendError(
            "mpirun passes the path of the SSH settings to a shell, and this path contains "
            f"shell characters: {network.ssh_config}",
            "Keep them in a folder named with letters, digits, - _ and dots.",
        )
    option = "--prtemca" if version >= 5 else "--mca"
    argv = ["--mca", "btl_tcp_if_include", subnets] if subnets else []
    # By itself it takes ports from 1024 on; a firewall closes the range that Linux takes them from
    # (docs/network.md).
    argv += ["--mca", "btl_tcp_port_min_v4", "32768", "--mca", "btl_tcp_port_range_v4", "28232"]
    if network.ssh_config:
        argv += ["--mca", "plm_rsh_args", f"-F {network.ssh_config}"]
    # A lost node is noticed within a minute, and an outage of 18 s survives; TCP's own takes 444 s.
    for name, value in (*keepalive.items(), _PROBES):
        argv += [option, name, str(value)]
    return argv


def _host(node: str, host: str) -> str:
    if not _HOST.fullmatch(host):
        raise BackendError(
            f"The address of node {node} is not one that mpirun accepts.",
            "Give the node an IP address or a plain host name.",
        )
    return host
