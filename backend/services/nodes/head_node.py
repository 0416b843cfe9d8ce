"""Starting a run's supervisor on its head node: the first one chosen, here or over SSH."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import PurePosixPath
from typing import Protocol

from backend.base.errors import BackendError
from backend.launch.placement import NodePaths
from backend.node.system.start_supervisor import start_supervisor, supervisor_command
from backend.provisioning import cluster_key
from backend.records.base.layout import JobFolder, NodeHome
from backend.records.jobs.config import THIS_COMPUTER
from backend.records.jobs.launch import RankPlan
from backend.records.nodes.entry import NodeEntry
from backend.services.nodes.provisioning import SetUpService
from backend.services.nodes.registry import ClusterService
from backend.ssh.interface import Shell

_START_LIMIT_S = 60.0


class Head(Protocol):
    """Where a supervisor can be started, right now."""

    def start(self, folder: JobFolder, run: int, site: NodePaths) -> None:
        """Start it and return at once; it needs nobody from then on.

        Raises:
            BackendError: It did not start.
        """


class ThisComputer:
    def start(self, folder: JobFolder, run: int, site: NodePaths) -> None:
        start_supervisor(folder, run, site.python)


class RemoteNode:
    """A node over SSH; the connection is open already, so that no claim is made in vain."""

    def __init__(self, name: str, shell: Shell) -> None:
        self._name = name
        self._shell = shell

    def start(self, folder: JobFolder, run: int, site: NodePaths) -> None:
        job_folder = str(PurePosixPath(site.data_root, "jobs", folder.job_id))
        command = supervisor_command(site.python, job_folder, run)
        answer = self._shell.run(
            ("env", f"PYTHONPATH={site.code_root}", *command), limit_s=_START_LIMIT_S
        )
        if not answer.ok:
            raise BackendError(
                f"The supervisor of run {run} did not start on {self._name}: {answer.complaint}.",
                f"Check {self._name}; setting it up again mends what is missing there.",
            )


class HeadNodeLauncher:
    """Finds the head of a run among this computer and the nodes that were added."""

    def __init__(self, cluster: ClusterService, set_up: SetUpService) -> None:
        self._cluster = cluster
        self._set_up = set_up

    @contextmanager
    def of(self, ranks: Sequence[RankPlan]) -> Iterator[Head]:
        """The head of a run with these ranks, and a way from it to all the others.

        Raises:
            BackendError: It cannot be reached; nothing was started.
        """
        name = ranks[0].node
        if name == THIS_COMPUTER:
            yield ThisComputer()
            return
        shell = self._cluster.open_shell(name)
        try:
            if any(plan.node != name for plan in ranks):
                self._renew_settings(shell, self._cluster.entry(name))
            yield RemoteNode(name, shell)
        finally:
            shell.close()

    def prepare(self, ranks: Sequence[RankPlan]) -> None:
        """See to it that the head can reach the others whenever it starts by itself.

        Raises:
            BackendError: It cannot be reached, and without that the others cannot be either.
        """
        name = ranks[0].node
        if name == THIS_COMPUTER or all(plan.node == name for plan in ranks):
            return
        shell = self._cluster.open_shell(name)
        try:
            self._renew_settings(shell, self._cluster.entry(name))
        finally:
            shell.close()

    def _renew_settings(self, shell: Shell, head: NodeEntry) -> None:
        """Nodes that were added since the head was set up, and host keys accepted since."""
        assert head.facts is not None, "a head was set up"
        assert head.installation is not None, "a head was set up"
        home = NodeHome(PurePosixPath(head.facts.home))
        cluster_key.write_settings(shell, home, self._set_up.peers(), head.installation.own_key)
