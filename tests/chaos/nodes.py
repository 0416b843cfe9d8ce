"""The same on three nodes of the test cluster, and what befalls machines, in one table."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import stat
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from backend.records.jobs.view import JobView
from backend.services.context.container import Services, open_services
from tests.chaos.acts import PEOPLE, Act, RunAct, is_whole, kill_command, make_read_only
from tests.chaos.world import Clock, World, choose, import_script
from tests.cluster.cluster import Cluster
from tests.cluster.node import Node
from tests.cluster.ready import ReadyCluster, open_ready_cluster
from tests.cluster.remote_desktop import open_remote, remote_desktop
from tests.cluster.runs import stock_library


@dataclass
class ClusterDesktops:
    """The nodes with their two desktops, for all days; ``folder`` has the desktops' files."""

    cluster: Cluster
    folder: Path
    desktops: list[Services]


class ClusterWorld(World):
    """A day on the nodes; the second desktop reaches the data root through node1."""

    def __init__(self, folder: Path, cluster_desktops: ClusterDesktops, clock: Clock) -> None:
        super().__init__(folder, folder, clock)
        self._cluster_desktops = cluster_desktops
        self.root = cluster_desktops.desktops[0].data_root
        self.desktops = cluster_desktops.desktops

    @property
    def ready(self) -> ReadyCluster:
        return ReadyCluster(self._cluster_desktops.cluster, self.desktops[0])

    def __enter__(self) -> ClusterWorld:
        self.ready.revive()
        (self.folder / "sources" / "model").mkdir(parents=True)
        return self

    def __exit__(self, *_: object) -> None:
        for repair in self.repairs.values():
            repair()
        for name in self.ready.cluster.nodes:
            with contextlib.suppress(IndexError):
                self.ready.stop_agent(name)
        self.ready.cluster.heal(())
        for folder in (self.root.jobs, self.root.queue, self.root.trash):
            for path in folder.glob("*"):
                if path.is_dir():
                    shutil.rmtree(path)
                else:
                    path.unlink()
        self.desktops[0].library.rescan()

    def open_desktop(self, number: int) -> Services:
        """Open it again as the same user of the same computer, whose nodes' keys were accepted."""
        if number:
            folder = self._cluster_desktops.folder / "remote"
            return open_remote(self._cluster_desktops.cluster, folder)
        return open_services(self._cluster_desktops.cluster.share, self.catalogue(number))

    def catalogue(self, number: int) -> Path:
        folder = self._cluster_desktops.folder
        return (folder, folder / "remote")[number] / "catalogue.sqlite"

    def placement(self, chance: random.Random) -> list[dict[str, Any]]:
        nodes = chance.sample(sorted(self.ready.cluster.nodes), chance.randrange(1, 4))
        return [{"node": node, "processes": 1} for node in nodes]

    def start_command(self, number: int, *argv: str) -> subprocess.Popen[bytes]:
        """Start it for the first desktop: the data root of the other is no folder."""
        return super().start_command(0, *argv)

    def make_read_only(self, folder: Path) -> None:
        """For the nodes and the desktop that works through one; root may still write."""
        mode = stat.S_IMODE(folder.stat().st_mode)
        folder.chmod(mode & ~0o222)

        def repair() -> None:
            with contextlib.suppress(FileNotFoundError):
                folder.chmod(mode)

        self.repairs[f"read-only {folder.name}"] = repair

    def may_doubt(self, view: JobView) -> bool:
        return bool(self.repairs) and bool(view.contact_warning)

    def may_compare(self) -> bool:
        return not self.repairs


_OLDER_AGENT = """
import sys
from backend.node.agent import agent
from backend.records.nodes.reading import NodeReading

write, full = agent.replace_json, NodeReading.to_dict
lacks = ("starts_queued", "disk_free_files", "at_keyboard")


def without(raw):
    return {key: value for key, value in raw.items() if key not in lacks}


agent.replace_json = lambda path, value: write(path, without(value))
NodeReading.to_dict = lambda reading: without(full(reading))
agent.Agent._attend_runs = lambda self: self._run_watch.poll()
sys.exit(agent.main())
"""
"""An agent as it was before there was a queue, or the newest of its figures."""


def run_older_agent(world: ClusterWorld, node: Node) -> None:
    entry = world.ready.entry(node.name)
    assert entry.installation is not None
    folder = f"{entry.data_root}/nodes/{node.name}"
    world.ready.stop_agent(node.name)
    argv = ("--name", node.name, "--folder", folder, "--data-root", entry.data_root, "--detach")
    installation = entry.installation
    python_path = f"PYTHONPATH={installation.bundle}"
    node.run(("env", python_path, installation.python, "-c", _OLDER_AGENT, *argv))


def break_node_with(
    damage_name: str, damage_node: Callable[[ClusterWorld, Node], object]
) -> RunAct:
    """Return an act that damages one node until it is repaired."""

    def act(world: World, chance: random.Random) -> str:
        assert isinstance(world, ClusterWorld)
        node = choose(chance, list(world.ready.cluster.nodes.values()))

        def repair() -> None:
            world.ready.cluster.heal()
            # As a cron of the node would.
            world.ready.revive()

        world.mark_harmed()
        world.repairs[f"{damage_name} {node.name}"] = repair
        damage_node(world, node)
        return node.name

    return act


def kill_agent(node: Node) -> None:
    for process in node.processes():
        if "backend.node.agent.agent" in process.argv:
            os.kill(process.host_pid, signal.SIGKILL)


_NODE_DAMAGES: tuple[tuple[str, Callable[[ClusterWorld, Node], object]], ...] = (
    ("cut", lambda world, node: node.cut()),
    ("slow", lambda world, node: node.delay(300)),
    ("power off", lambda world, node: node.power_off()),
    ("reboot", lambda world, node: node.reboot()),
    ("clock back", lambda world, node: node.set_clock(-7200)),
    ("clock on", lambda world, node: node.set_clock(7200)),
    ("full disk", lambda world, node: node.fill_disk()),
    ("sshd gone", lambda world, node: node.stop_sshd()),
    ("share gone", lambda world, node: node.unmount_share()),
    ("agent killed", lambda world, node: kill_agent(node)),
    ("older agent", run_older_agent),
)
ACTS: tuple[Act, ...] = (
    *PEOPLE,
    *(
        Act(damage_name, 2, is_whole, break_node_with(damage_name, damage_node))
        for damage_name, damage_node in _NODE_DAMAGES
    ),
    Act("make read-only", 2, is_whole, make_read_only),
    Act("killed command", 3, World.resting_jobs, kill_command),
)


@contextlib.contextmanager
def open_cluster_desktops(folder: Path) -> Iterator[ClusterDesktops]:
    """Bring the cluster up, and set its nodes and two desktops up."""
    with (
        Cluster(folder / "cluster") as cluster,
        open_ready_cluster(cluster, folder) as ready,
        remote_desktop(cluster, folder / "remote") as remote,
    ):
        stock_library(ready, folder / "sources")
        import_script(ready.services, folder / "sources")
        cluster_desktops = ClusterDesktops(cluster, folder, [ready.services, remote])
        yield cluster_desktops
        for desktop in cluster_desktops.desktops:
            desktop.close()
