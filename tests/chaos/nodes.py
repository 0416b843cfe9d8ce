"""The same on three nodes of the test cluster, and what befalls machines, in one table."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from backend.records.jobs.view import JobView
from backend.services.context.container import Services, open_services
from tests.chaos.acts import PEOPLE, Act, Do, is_whole
from tests.chaos.world import Clock, World, one
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
            return open_remote(self._place.cluster, self._place.folder / "far")
        return open_services(self._place.cluster.share, self.catalogue(number))

    def catalogue(self, number: int) -> Path:
        return (self._place.folder, self._place.folder / "far")[number] / "catalogue.sqlite"

    def placement(self, chance: random.Random) -> list[dict[str, Any]]:
        nodes = chance.sample(sorted(self.ready.cluster.nodes), chance.randrange(1, 4))
        return [{"node": node, "processes": 1} for node in nodes]

    def may_doubt(self, view: JobView) -> bool:
        return bool(self.faults) and bool(view.doubt)

    def may_compare(self) -> bool:
        return not self.faults


def breaking(what: str, do: Callable[[Node], object]) -> Do:
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
        do(node)
        return node.name

    return act


def kill_agent(node: Node) -> None:
    for process in node.processes():
        if "backend.node.agent.agent" in process.argv:
            os.kill(process.host_pid, signal.SIGKILL)


_BREAKS: tuple[tuple[str, Callable[[Node], object]], ...] = (
    ("cut", Node.cut),
    ("slow", lambda node: node.delay(300)),
    ("power off", Node.power_off),
    ("reboot", Node.reboot),
    ("clock back", lambda node: node.set_clock(-7200)),
    ("clock on", lambda node: node.set_clock(7200)),
    ("full disk", Node.fill_disk),
    ("sshd gone", Node.stop_sshd),
    ("share gone", Node.unmount_share),
    ("agent killed", kill_agent),
)
ACTS: tuple[Act, ...] = (
    *PEOPLE,
    *(Act(what, 2, is_whole, breaking(what, do)) for what, do in _BREAKS),
)


@contextlib.contextmanager
def made(folder: Path) -> Iterator[Place]:
    """Bring the cluster up, and set its nodes and two desktops up."""
    with (
        Cluster(folder / "cluster") as cluster,
        made_ready(cluster, folder) as ready,
        remote_desktop(cluster, folder / "far") as far,
    ):
        stock(ready, folder / "sources")
        place = Place(cluster, folder, [ready.services, far])
        yield place
        for desktop in place.desktops:
            desktop.close()
