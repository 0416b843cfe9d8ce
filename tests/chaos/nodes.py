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
from tests.chaos.acts import PEOPLE, Act, Do, is_whole, killed_command, make_read_only
from tests.chaos.world import Clock, World, import_script, one
from tests.cluster.cluster import Cluster
from tests.cluster.node import Node
from tests.cluster.ready import ReadyCluster, made_ready
from tests.cluster.remote_desktop import open_remote, remote_desktop
from tests.cluster.runs import stock


@dataclass
class Place:
    """The nodes with their two desktops, for all days; ``folder`` has the desktops' files."""

    cluster: Cluster
    folder: Path
    desktops: list[Services]


class Nodes(World):
    """A day on the nodes; the second desktop reaches the data root through node1."""

    def __init__(self, folder: Path, place: Place, clock: Clock) -> None:
        super().__init__(folder, folder, clock)
        self._place = place
        self.root = place.desktops[0].data_root
        self.desktops = place.desktops

    @property
    def ready(self) -> ReadyCluster:
        return ReadyCluster(self._place.cluster, self.desktops[0])

    def __enter__(self) -> Nodes:
        self.ready.revive()
        (self.folder / "sources" / "model").mkdir(parents=True)
        return self

    def __exit__(self, *_: object) -> None:
        for repair in self.faults.values():
            repair()
        for name in self.ready.cluster.nodes:
            with contextlib.suppress(IndexError):
                self.ready.stop_agent(name)
        self.ready.cluster.heal(())
        for folder in (self.root.jobs, self.root.queue, self.root.trash):
            for left in folder.glob("*"):
                if left.is_dir():
                    shutil.rmtree(left)
                else:
                    left.unlink()
        self.desktops[0].library.rescan()

    def opened(self, number: int) -> Services:
        """Open it again as the same user of the same computer, whose nodes' keys were accepted."""
        if number:
            return open_remote(self._place.cluster, self._place.folder / "remote")
        return open_services(self._place.cluster.share, self.catalogue(number))

    def catalogue(self, number: int) -> Path:
        return (self._place.folder, self._place.folder / "remote")[number] / "catalogue.sqlite"

    def placement(self, chance: random.Random) -> list[dict[str, Any]]:
        nodes = chance.sample(sorted(self.ready.cluster.nodes), chance.randrange(1, 4))
        return [{"node": node, "processes": 1} for node in nodes]

    def command(self, number: int, *words: str) -> subprocess.Popen[bytes]:
        """Of the first desktop: the other one's place is no folder."""
        return super().command(0, *words)

    def make_read_only(self, folder: Path) -> None:
        """For the nodes and the desktop that works through one; root may still write."""
        mode = stat.S_IMODE(folder.stat().st_mode)
        folder.chmod(mode & ~0o222)

        def repair() -> None:
            with contextlib.suppress(FileNotFoundError):
                folder.chmod(mode)

        self.faults[f"read-only {folder.name}"] = repair

    def may_doubt(self, view: JobView) -> bool:
        return bool(self.faults) and bool(view.contact_warning)

    def may_compare(self) -> bool:
        return not self.faults


_OLDER = """
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


def run_older_agent(world: Nodes, node: Node) -> None:
    entry = world.ready.entry(node.name)
    assert entry.installation is not None
    folder = f"{entry.data_root}/nodes/{node.name}"
    world.ready.stop_agent(node.name)
    words = ("--name", node.name, "--folder", folder, "--data-root", entry.data_root, "--detach")
    there = entry.installation
    node.run(("env", f"PYTHONPATH={there.bundle}", there.python, "-c", _OLDER, *words))


def breaking(what: str, do: Callable[[Nodes, Node], object]) -> Do:
    """An act that breaks one node until it is repaired."""

    def act(world: World, chance: random.Random) -> str:
        assert isinstance(world, Nodes)
        node = one(chance, list(world.ready.cluster.nodes.values()))

        def repair() -> None:
            world.ready.cluster.heal()
            # As a cron of the node would.
            world.ready.revive()

        world.harm()
        world.faults[f"{what} {node.name}"] = repair
        do(world, node)
        return node.name

    return act


def kill_agent(node: Node) -> None:
    for process in node.processes():
        if "backend.node.agent.agent" in process.argv:
            os.kill(process.host_pid, signal.SIGKILL)


_BREAKS: tuple[tuple[str, Callable[[Nodes, Node], object]], ...] = (
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
    *(Act(what, 2, is_whole, breaking(what, do)) for what, do in _BREAKS),
    Act("make read-only", 2, is_whole, make_read_only),
    Act("killed command", 3, World.resting, killed_command),
)


@contextlib.contextmanager
def made(folder: Path) -> Iterator[Place]:
    """Bring the cluster up, and set its nodes and two desktops up."""
    with (
        Cluster(folder / "cluster") as cluster,
        made_ready(cluster, folder) as ready,
        remote_desktop(cluster, folder / "remote") as remote,
    ):
        stock(ready, folder / "sources")
        import_script(ready.services, folder / "sources")
        place = Place(cluster, folder, [ready.services, remote])
        yield place
        for desktop in place.desktops:
            desktop.close()
