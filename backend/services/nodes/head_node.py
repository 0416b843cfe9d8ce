"""Start a run's supervisor on its head node: the first chosen node, locally or over SSH."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Protocol

from backend.base.errors import BackendError
from backend.base.progress import Progress
from backend.launch.placement import NodePaths
from backend.node.system.start_supervisor import start_supervisor, supervisor_command
from backend.provisioning import cluster_key
from backend.records.base.layout import JobFolder, NodeHome
from backend.records.jobs.launch import RankPlan
from backend.records.jobs.placement import THIS_COMPUTER
from backend.records.nodes.entry import NodeEntry
from backend.services.nodes.provisioning import ProvisioningService
from backend.services.nodes.registry import NodeRegistry
from backend.ssh.interface import Shell

_START_LIMIT_S = 60.0


class HeadNode(Protocol):
    """A computer that can start a supervisor now."""

    def start(self, folder: JobFolder, run: int, site: NodePaths) -> None:
        """Start the supervisor and return at once; the supervisor then runs independently.

        Raises:
            BackendError: The supervisor did not start.
        """


class LocalHeadNode:
    """This computer."""

    def start(self, folder: JobFolder, run: int, site: NodePaths) -> None:
        start_supervisor(folder, run, site.python)


class RemoteHeadNode:
    """A node over SSH, with an open connection, so that a run is not claimed in vain."""

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
                f"Set {self._name} up again, which reinstalls what is missing.",
            )


class HeadNodeLauncher:
    """Finds the head node of a run among this computer and the added nodes."""

    def __init__(self, cluster: NodeRegistry, provisioning: ProvisioningService) -> None:
        self._cluster = cluster
        self._provisioning = provisioning

    @contextmanager
    def open_head(self, ranks: Sequence[RankPlan]) -> Iterator[HeadNode]:
        """Open the head node of a run with these ranks, and enable it to reach the other nodes.

        Raises:
            BackendError: The head node cannot be reached; nothing was started.
        """
        name = ranks[0].node
        if name == THIS_COMPUTER:
            yield LocalHeadNode()
            return
        shell = self._cluster.open_shell(name)
        try:
            if any(plan.node != name for plan in ranks):
                self._renew_settings(shell, self._cluster.entry(name))
            yield RemoteHeadNode(name, shell)
        finally:
            shell.close()

    def prepare(self, ranks: Sequence[RankPlan]) -> None:
        """Enable the head node to reach the other nodes when it starts a run by itself.

        Raises:
            BackendError: The head node cannot be reached, so its settings cannot be updated.
        """
        name = ranks[0].node
        if name == THIS_COMPUTER or all(plan.node == name for plan in ranks):
            return
        shell = self._cluster.open_shell(name)
        try:
            self._renew_settings(shell, self._cluster.entry(name))
        finally:
            shell.close()

    def provide_script(
        self, names: Sequence[str], python: str, name: str, source: Path, progress: Progress
    ) -> str:
        """Provide the environment of a script; see `ProvisioningService.provide_script`."""
        return self._provisioning.provide_script(names, python, name, source, progress)

    def _renew_settings(self, shell: Shell, head: NodeEntry) -> None:
        """Write the nodes that were added, and host keys accepted, since the head was set up."""
        assert head.info is not None, "a head was set up"
        assert head.installation is not None, "a head was set up"
        home = NodeHome(PurePosixPath(head.info.home))
        cluster_key.write_settings(
            shell, home, self._provisioning.peers(), head.installation.own_key
        )
