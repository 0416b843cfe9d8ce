"""A cluster on which jobs can be started: three nodes, added and set up for real, once for all.

Setting up costs a minute or two and 226 MB a node, so every test that wants it shares it. What a
test breaks through the methods of its nodes is fixed after it, agents that ended live again, and
files stay: a test that spoils a file of a node puts it back.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from types import ModuleType
from unittest import mock

from backend.base.errors import BackendError
from backend.provisioning import agent_commands, provisioner
from backend.provisioning.agent_commands import AgentPaths
from backend.records.nodes import health
from backend.records.nodes.entry import HostKey, NodeAddress, NodeEntry, SetUp
from backend.services.context.container import Services, open_services
from backend.services.preflight.context import VARIABLE
from backend.ssh import client as ssh_client
from tests.cluster.cluster import Cluster
from tests.cluster.commands import ClusterError
from tests.cluster.node import Node
from tests.waiting import LIMIT_S

PATIENT_PREFLIGHT_S = "180"
_AGENT = "backend.node.agent.agent"

_PATIENT_LIMITS: tuple[tuple[ModuleType, dict[str, float]], ...] = (
    (health, {"_MISSED_BEATS": 30}),
    (provisioner, {"_AGENT_LIMIT_S": LIMIT_S}),
)


@dataclass(frozen=True)
class ReadyCluster:
    """``services`` are those of the desktop; its nodes are called as those of ``cluster``."""

    cluster: Cluster
    services: Services

    def __getitem__(self, name: str) -> Node:
        return self.cluster[name]

    def entry(self, name: str) -> NodeEntry:
        return self.services.cluster.entry(name)

    @property
    def home(self) -> PurePosixPath:
        """The program's folder on every node."""
        info = self.entry("node1").info
        assert info is not None
        return PurePosixPath(info.home)

    def revive(self) -> None:
        """Start the agents that do not live, as a cron of the node would after a boot."""
        for name in self.cluster.nodes:
            if not self.agent_lives(name):
                self.start_agent(name)

    def agent_lives(self, name: str) -> bool:
        """Whether the agent of this data root runs; a node has an agent for each data root."""
        folder = self._agent_paths(name).folder
        processes = self.cluster[name].processes()
        return any({_AGENT, folder} <= set(process.argv) for process in processes)

    def start_agent(self, name: str) -> None:
        paths = self._agent_paths(name)
        for argv in (agent_commands.start(paths), agent_commands.check(paths, LIMIT_S)):
            completed = self.cluster[name].run(argv)
            if completed.returncode:
                raise ClusterError(f"The agent of {name} does not start: {completed.stderr}")

    def stop_agent(self, name: str) -> None:
        completed = self.cluster[name].run(agent_commands.stop(self._agent_paths(name)))
        if completed.returncode:
            raise ClusterError(f"The agent of {name} does not end: {completed.stderr}")

    def _agent_paths(self, name: str) -> AgentPaths:
        entry = self.entry(name)
        assert entry.info is not None
        assert entry.installation is not None
        return AgentPaths(name, entry.installation.python, entry.installation.bundle, entry.info)


@contextmanager
def patience() -> Iterator[None]:
    """Give the desktop limits that the nodes keep where one busy machine plays all of them."""
    with ExitStack() as stack:
        for module, limits in _PATIENT_LIMITS:
            stack.enter_context(mock.patch.multiple(module, **limits))
        stack.enter_context(mock.patch.dict("os.environ", {VARIABLE: PATIENT_PREFLIGHT_S}))
        stack.enter_context(mock.patch.dict(ssh_client.connect.__kwdefaults__, limit_s=15.0))
        yield


@contextmanager
def open_ready_cluster(cluster: Cluster, folder: Path) -> Iterator[ReadyCluster]:
    """Add every node of a cluster that is up and set it up; ``folder`` keeps the desktop's files.

    Raises:
        ClusterError: A node could not be set up.
    """
    # The cluster's key goes where the desktop's user keeps data; a test has its own.
    environment = {"XDG_DATA_HOME": str(folder / "data-home"), VARIABLE: PATIENT_PREFLIGHT_S}
    with mock.patch.dict("os.environ", environment):
        services = open_services(cluster.share, folder / "catalogue.sqlite")
    try:
        for name in cluster.nodes:
            services.cluster.add(
                name,
                NodeAddress(
                    cluster.address_of(name), user=cluster.user, identity=str(cluster.identity)
                ),
                accept=lambda key: _is_known(cluster, key),
                node_data_root=cluster.data_root,
            )
        steps: dict[str, SetUp] = {}
        with patience():
            outcome = services.provisioning.set_up(
                tuple(cluster.nodes), lambda update: steps.__setitem__(update.node, update)
            )
        _require_set_up(outcome, steps)
        yield ReadyCluster(cluster, services)
    finally:
        services.close()


def _is_known(cluster: Cluster, key: HostKey) -> bool:
    return any(line.endswith(f" {key.text}") for line in cluster.known_hosts)


def _require_set_up(
    outcome: Mapping[str, NodeEntry | BackendError], steps: Mapping[str, SetUp]
) -> None:
    for name, result in outcome.items():
        if isinstance(result, BackendError):
            failed = steps[name].failed_step if name in steps else None
            output = failed.output if failed is not None else ""
            raise ClusterError(f"{name} could not be set up: {result}\n{output}")
