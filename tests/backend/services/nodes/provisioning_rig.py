"""Three nodes of a data root and the service that sets them up, with wheels from a folder."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from backend.base.errors import BackendError
from backend.datastore.nodes import files as node_files
from backend.provisioning import cluster_key
from backend.provisioning.wheelhouse import Wheelhouse, Wheelhouses
from backend.records.nodes.entry import NodeEntry, NodeInfo, SetUp
from backend.records.nodes.provisioning_options import SetUpOptions
from backend.services.nodes import provisioning
from backend.services.nodes.provisioning import DesktopPaths, ProvisioningService
from backend.ssh.interface import Shell, Unreachable
from tests.backend.provisioning.provisioner_rig import BUNDLE, Node, start_fake, without_horovod
from tests.backend.provisioning.test_wheelhouse import CONSTRAINTS, built
from tests.fakes.mounted_root import mounted

NAMES = ("gpu1", "gpu2", "gpu3")
HOST_KEY = cluster_key.make_key().public_key


@dataclass
class Cluster:
    """Three nodes of a data root, and the service of a desktop; wheels come from ``house``."""

    folder: Path
    house: Wheelhouse
    nodes: dict[str, Node] = field(default_factory=dict)
    updates: list[SetUp] = field(default_factory=list)
    silent: set[str] = field(default_factory=set)
    gathered: int = 0

    def __post_init__(self) -> None:
        self.root = mounted(self.folder / "root")
        self.root.path.mkdir()
        (self.folder / "horovod").mkdir()
        built(self.folder / "horovod")
        for number, name in enumerate(NAMES, start=2):
            node = self.nodes[name] = Node.make(self.folder, self.house, name)
            entry = replace(node.entry, ranks_address=f"10.77.0.{number}/24")
            node_files.write_entry(self.root, entry)

    def service(self, desktop: str = "desktop") -> ProvisioningService:
        return ProvisioningService(
            self.root,
            DesktopPaths(
                keys=self.folder / desktop / "keys",
                wheels=self.folder / desktop / "wheels",
                constraints=CONSTRAINTS,
                horovod=[self.folder / "horovod"],
            ),
            self.open,
            self.inspect,
            lambda entry: HOST_KEY,
            start_fake,
        )

    def open(self, entry: NodeEntry) -> Shell:
        if entry.name in self.silent:
            raise Unreachable(f"{entry.name} did not answer.", "Check whether it is on.")
        return self.nodes[entry.name].open(entry)

    def inspect(self, entry: NodeEntry, shell: Shell) -> NodeInfo:
        return self.nodes[entry.name].node_info

    def set_up(
        self, *names: str, options: SetUpOptions | None = None, desktop: str = "desktop"
    ) -> dict[str, NodeEntry | BackendError]:
        handle = self.service(desktop).set_up(names, self.updates.append, options=options)
        return dict(handle)

    def entry(self, name: str) -> NodeEntry:
        entry = node_files.entry(self.root, name)
        assert entry is not None
        return entry


@contextmanager
def cluster_of(
    folder: Path, house: Wheelhouse, patch: pytest.MonkeyPatch, *, sees_data_root: bool = False
) -> Iterator[Cluster]:
    """A cluster whose wheels are those of ``house``; its agents end with the block.

    Args:
        sees_data_root: Each node may write to the data root.
    """
    cluster = Cluster(folder, house)

    def gather(
        houses: Wheelhouses, target: object, horovod: object, *arguments: object
    ) -> Wheelhouse:
        cluster.gathered += 1
        return house if horovod else without_horovod(house)

    patch.setattr(Wheelhouses, "gather", gather)
    # The same files pack to the same bytes, in half a second of a core.
    patch.setattr(provisioning, "make_bundle", lambda: BUNDLE)
    for node in cluster.nodes.values() if sees_data_root else ():
        node.node_info = replace(
            node.node_info, data_root=str(cluster.root.path), data_root_writable=True
        )
    yield cluster
    for node in cluster.nodes.values():
        node.end_agent()
