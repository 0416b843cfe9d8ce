"""A node that does not see the data root, behind a real sshd, and a desktop that mounts it."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from pathlib import Path

from backend.datastore.nodes.files import entry, write_entry
from backend.records.base.layout import JobFolder
from backend.records.jobs.launch import remote_run_of
from backend.records.jobs.view import JobView
from backend.records.nodes.reading import NodeState, Presence
from backend.services.context.container import Services
from tests.backend.services.access_cases import NODE, DataSite, FakeHead, RemoteRun, on_node
from tests.backend.ssh.sshd_rig import Sshd
from tests.fakes.mounted_root import mounted
from tests.waiting import wait_for


class StagedSite(DataSite):
    """``remote`` is what the node has in the place of the data root."""

    def __init__(self, folder: Path, sshd: Sshd) -> None:
        super().__init__(folder, sshd, is_mounted=True)
        self.remote = mounted(sshd.home / ".ringmaster" / "carried" / "abcd")
        self.remote.jobs.mkdir(parents=True)
        self.remote.node(NODE).path.mkdir(parents=True)
        self.add_blind_node()

    def add_blind_node(self, name: str = NODE) -> None:
        self.add_node(self.remote.path)
        seeing = entry(self.data, NODE)
        assert seeing is not None
        address = replace(self.sshd.address, port=self.wire.port)
        write_entry(self.data, replace(seeing, name=name, address=address, is_staged=True))

    def desktop(self) -> Services:
        services = super().desktop()
        services.cluster.accept_key(replace(self.sshd.host_key, port=self.wire.port))
        return services


class StagedRun(RemoteRun):
    """What rank 0 and the supervisor write, in the node's own root."""

    def __init__(self, site: StagedSite, view: JobView) -> None:
        self.data = site.remote
        super().__init__(self, view)  # type: ignore[arg-type]


def open_stocked_desktop(site: StagedSite) -> Services:
    services = site.desktop()
    site.stock(services)
    wait_until_online(services)
    return services


def start_staged_job(services: Services, site: StagedSite) -> tuple[JobView, StagedRun]:
    """A job that was started on the node, and what runs it there."""
    FakeHead().instead_of(services)
    view = services.jobs.lifecycle.start(services.jobs.create(on_node()).id)
    return view, StagedRun(site, view)


def wait_until_home(folder: JobFolder, run: int = 1) -> None:
    def is_home() -> bool:
        remote_run = remote_run_of(folder.attempt(run))
        return remote_run is not None and remote_run.is_home

    wait_for(is_home, "everything of the run to be in the data root")


def state_of(services: Services) -> NodeState:
    (state,) = services.nodes.remote()
    return state


def wait_until_online(services: Services) -> NodeState:
    """The node, once its beats are fetched: on a busy machine the first come late."""
    wait_for(lambda: state_of(services).presence is Presence.ONLINE, "beats of the node")
    return state_of(services)


def files_below(folder: Path) -> dict[str, tuple[int, int]]:
    """Inode and time of each file: what was sent again is another one."""
    contents = {}
    for path in folder.rglob("*"):
        with contextlib.suppress(FileNotFoundError):
            if path.is_file():
                status = path.stat()
                contents[str(path.relative_to(folder))] = (status.st_ino, status.st_mtime_ns)
    return contents
