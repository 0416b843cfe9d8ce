"""Start a run's supervisor on its head node: the first chosen node, locally or over SSH.

The firewall that keeps other machines from the ports of runs (docs/network.md) is checked here.
"""

from __future__ import annotations

import errno
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from pathlib import PurePosixPath

from backend.base.errors import BackendError
from backend.datastore.access.root_access import OpenRoot
from backend.datastore.queue import files as queue_files
from backend.node.queue.entries import entry_of
from backend.node.system.start_supervisor import start_supervisor, supervisor_command
from backend.provisioning import cluster_key
from backend.records.base.layout import JobFolder, NodeHome
from backend.records.jobs.launch import Launch, RankPlan
from backend.records.jobs.placement import THIS_COMPUTER
from backend.records.jobs.status import Condition
from backend.records.nodes.entry import NodeEntry
from backend.records.nodes.reading import Finding
from backend.services.nodes.provisioning import ProvisioningService
from backend.services.nodes.registry import NodeRegistry
from backend.ssh.interface import Shell

_START_LIMIT_S = 60.0


SupervisorStart = Callable[[JobFolder, Launch], None]
"""Starts the supervisor of a run and returns at once, or raises `BackendError`."""


class HeadNodes:
    """Finds the head node of a run among this computer and the added nodes."""

    def __init__(self, cluster: NodeRegistry, provisioning: ProvisioningService) -> None:
        self._cluster = cluster
        self.provisioning = provisioning

    @contextmanager
    def open_head(self, ranks: Sequence[RankPlan]) -> Iterator[SupervisorStart]:
        """Open the head node of a run with these ranks, and enable it to reach the other nodes.

        The connection to it is open before the run is claimed, so that no claim is in vain.

        Raises:
            BackendError: The head node cannot be reached; nothing was started.
        """
        name = ranks[0].node
        if name == THIS_COMPUTER:
            yield start_supervisor
            return
        with closing(self._cluster.open_shell(name)) as shell:
            if any(plan.node != name for plan in ranks):
                self._renew_settings(shell, self._cluster.entry(name))
            yield partial(_start_remotely, name, shell)

    def prepare(self, ranks: Sequence[RankPlan]) -> None:
        """Enable the head node to reach the other nodes when it starts a run by itself.

        Raises:
            BackendError: The head node cannot be reached, so its settings cannot be updated.
        """
        name = ranks[0].node
        if name == THIS_COMPUTER or all(plan.node == name for plan in ranks):
            return
        with closing(self._cluster.open_shell(name)) as shell:
            self._renew_settings(shell, self._cluster.entry(name))

    def _renew_settings(self, shell: Shell, head: NodeEntry) -> None:
        """Write the nodes that were added, and host keys accepted, since the head was set up."""
        assert head.info is not None, "a head was set up"
        assert head.installation is not None, "a head was set up"
        home = NodeHome(PurePosixPath(head.info.home))
        cluster_key.write_settings(
            shell, home, self.provisioning.peers(), head.installation.own_key
        )


class NodeLauncher:
    """The launcher of a job that names its nodes; see `backend.launch.launcher.Launcher`.

    The supervisor of such a run reads requests and records ends, or after its loss an agent.
    """

    def __init__(self, heads: HeadNodes, root: OpenRoot) -> None:
        self._heads = heads
        self._root = root
        self._start: SupervisorStart = start_supervisor

    @contextmanager
    def connect(self, launch: Launch) -> Iterator[None]:
        with self._heads.open_head(launch.ranks) as self._start:
            yield

    def submit(self, folder: JobFolder, launch: Launch, sweep: str = "") -> None:
        self._start(folder, launch)

    def state(self, folder: JobFolder) -> Condition:
        return Condition(None)

    def leave_queue(self, folder: JobFolder) -> bool:
        is_queued = entry_of(folder) is not None
        queue_files.leave(self._root, folder)
        return is_queued

    def end(self, folder: JobFolder) -> None:
        """Do nothing: the request is enough."""


def _start_remotely(name: str, shell: Shell, folder: JobFolder, launch: Launch) -> None:
    command = supervisor_command(launch.python, launch.job_folder, launch.run)
    answer = shell.run(("env", f"PYTHONPATH={launch.code_root}", *command), limit_s=_START_LIMIT_S)
    if not answer.ok:
        raise BackendError(
            f"The supervisor of run {launch.run} did not start on {name}: {answer.complaint}.",
            f"Set {name} up again, which reinstalls what is missing.",
        )


CHECK = "ports of runs"
_PORTS = (32_768, 45_321, 60_999)
"""The ends and a middle of the range from which Linux gives ports away."""
_LIMIT_S = 1.0


def check_ports(name: str, address: str) -> Finding:
    """Try the ports of a node from this computer.

    A port without a listener answers, too, unless a firewall drops the packets.
    """
    if not any(_answers(address, port) for port in _PORTS):
        return Finding(CHECK, True, f"This computer cannot connect to the ports of runs on {name}.")
    return Finding(
        CHECK,
        True,
        f"This computer can connect to the ports of runs on {name}, and so can every machine of "
        "its network; “Who may reach the nodes” in the help closes them.",
    )


def _answers(address: str, port: int) -> bool:
    try:
        with socket.create_connection((address, port), _LIMIT_S):
            return True
    except OSError as error:
        return error.errno == errno.ECONNREFUSED
