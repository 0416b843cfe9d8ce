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
from dataclasses import replace

from backend.base.errors import BackendError
from backend.base.rendezvous_point import PORT_VARIABLE, SECRET_VARIABLE
from backend.records.base.layout import RUN_VARIABLE, run_tag
from backend.records.jobs.launch import Launch

GUARD = "backend.node.run.rank_guard"
STALL_SHUTDOWN = "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS"
_EXPORTED = (RUN_VARIABLE, "PYTHONPATH", "PYTHONUTF8", STALL_SHUTDOWN)
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


def command(launch: Launch) -> tuple[str, ...]:
    """Return the command that the supervisor of a run executes.

    First start, resume, retry and a continuation on other nodes differ in the record only. The
    command ends with that of a guard, which starts one rank.

    To start ranks by another program, add a field to `RankLauncher` that names it, and here a
    function like `_mpirun` that returns what comes before the guard. The program must pass on the
    variables of `environment` and of the run's meeting. `rank_guard.main` must read the rank from
    its variable.

    Raises:
        BackendError: An address or a path cannot be passed to mpirun safely.
    """
    guard = (launch.python, "-m", GUARD, "--job", launch.job_folder, "--run", str(launch.run))
    return (*_mpirun(launch), *guard) if launch.config.needs_mpirun else guard


def _mpirun(launch: Launch) -> list[str]:
    config, launcher = launch.config, launch.launcher
    rank_counts = Counter(plan.node for plan in launch.ranks)
    hosts = {plan.node: plan.host for plan in launch.ranks}
    argv = [launcher.path, "--bind-to", "none", "--map-by", "slot"]
    argv += ["--mca", "pml", "ob1", "--mca", "btl", "^openib"]
    if launcher.is_crowded or not config.uses_gpus:
        # Ranks on CPUs compute on all cores, and one that waits without yielding takes a core from
        # them: two had 51 % efficiency instead of 84 with RetinaNet on 2 cores (docs/studies). With
        # more ranks than cores, an allreduce of 400 kB took 220–380 ms instead of 3–13.
        argv += ["--mca", "mpi_yield_when_idle", "1"]
    if len(rank_counts) > 1:
        argv += _between_nodes(launch)
    secret = () if config.script else (SECRET_VARIABLE,)
    for name in (*_EXPORTED, PORT_VARIABLE, *secret):
        argv += ["-x", name]
    argv += ["-np", str(len(launch.ranks))]
    if launcher.is_allocated:
        return argv
    return [
        *argv,
        "-H",
        ",".join(f"{_host(node, hosts[node])}:{n}" for node, n in rank_counts.items()),
    ]


def environment(launch: Launch) -> dict[str, str]:
    """Return the variables that `command` takes from its environment.

    The job's own variables are not included: the guard passes them to the rank only.
    """
    return {
        RUN_VARIABLE: run_tag(launch.job_id, launch.run),
        "PYTHONPATH": launch.code_root,
        # The locales of the nodes may differ, and with them how text and names of files are read.
        "PYTHONUTF8": "1",
        # The guard's limit must be reached first: it knows rank and line, Horovod knows neither.
        STALL_SHUTDOWN: str(int(launch.config.stall_limit_s * 1.2) + 60),
    }


def manual_command(launch: Launch, name: str) -> str:
    """Return a run's command as a line for a shell of its first node.

    Its output goes to its own folder called ``name`` (`backend.node.run.rank_guard`).
    """
    variables = environment(replace(launch, job_id=launch.manual_run_id(name), run=1))
    line = shell_line((*command(launch), "--by-hand", name), variables)
    if not launch.config.needs_mpirun or launch.config.script:
        return line
    # The shell sets it itself, so no argument of a program has it.
    return f"{PORT_VARIABLE}={_PORT_BY_HAND} {SECRET_VARIABLE}=$({_MAKE_SECRET}) {line}"


def shell_line(argv: Sequence[str], variables: Mapping[str, str]) -> str:
    """Return the command as a line that can be pasted into a shell."""
    if not variables:
        return shlex.join(argv)
    return shlex.join(("env", *(f"{name}={value}" for name, value in variables.items()), *argv))


def _between_nodes(launch: Launch) -> list[str]:
    networks, ssh_config = launch.launcher.networks, launch.ssh_config
    try:
        subnets = ",".join(str(ipaddress.ip_network(subnet)) for subnet in networks.split(","))
    except ValueError as error:
        raise BackendError(
            f"“{networks}” is not a subnet that mpirun accepts.",
            "Give the nodes addresses in one subnet, such as 10.0.0.0/24.",
        ) from error
    if not launch.launcher.is_allocated and not _PLAIN_PATH.fullmatch(ssh_config):
        raise BackendError(
            "mpirun passes the path of the SSH settings to a shell, and this path contains "
            f"shell characters: {ssh_config}",
            "Keep them in a folder named with letters, digits, - _ and dots.",
        )
    option = "--prtemca" if launch.launcher.version >= 5 else "--mca"
    keepalive = _SHORT_KEEPALIVE if launch.config.on_failure.continues else _KEEPALIVE
    if launch.can_lose_nodes:
        keepalive = _NO_KEEPALIVE
    argv = ["--mca", "btl_tcp_if_include", subnets]
    # By itself it takes ports from 1024 on; a firewall closes the range that Linux takes them from
    # (docs/network.md).
    argv += ["--mca", "btl_tcp_port_min_v4", "32768", "--mca", "btl_tcp_port_range_v4", "28232"]
    if not launch.launcher.is_allocated:
        argv += ["--mca", "plm_rsh_args", f"-F {ssh_config}"]
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
