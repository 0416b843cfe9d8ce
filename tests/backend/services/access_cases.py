"""One data root and desktops that reach it by its mounted path or over SFTP, through a wire that
counts and can be cut; and a node whose agent beats."""

from __future__ import annotations

import contextlib
import hashlib
import select
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from backend.base.errors import BackendError
from backend.datastore.nodes.files import write_entry
from backend.node.metrics.probe import Probe
from backend.node.system import process_cleanup
from backend.node.system.mpi import find_mpirun
from backend.node.system.start_supervisor import CODE_ROOT
from backend.records.base.atomic_files import replace_json
from backend.records.base.layout import JobFolder, run_tag
from backend.records.base.remote_root import RemoteRoot
from backend.records.jobs.checkpoint import Checkpoint
from backend.records.jobs.history import Block, encode
from backend.records.jobs.launch import Launch
from backend.records.jobs.state import JobState
from backend.records.jobs.status import ProcessIdentity, RunExit, RunStatus
from backend.records.jobs.view import JobView
from backend.records.library.item import Kind
from backend.records.nodes.entry import Interface, NodeEntry, NodeInfo, NodeInstallation
from backend.services.context.container import Services, open_services
from backend.services.nodes.head_node import SupervisorStart
from backend.services.tools.training_python import training_python
from tests.backend.ssh.sshd_rig import USER, Sshd
from tests.fakes.mounted_root import mounted
from tests.integration.tiny import raw_job, write_sources

NODE = "gpu1"
PAYLOAD = b"weights" * 1000
_BEAT_S = 0.25


class Wire:
    """Carries TCP to a port of 127.0.0.1."""

    def __init__(self, port: int) -> None:
        self._to = port
        self._ears = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._ears.getsockname()[1])
        self._open: list[socket.socket] = []
        self._is_cut = False
        self.came_bytes = 0
        """To the desktop, with all that SSH adds."""
        self.connections = 0
        threading.Thread(target=self._listen, daemon=True).start()

    def cut(self) -> None:
        self._is_cut = True
        for connection in self._open:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def repair(self) -> None:
        self._is_cut = False

    def close(self) -> None:
        self.cut()
        with contextlib.suppress(OSError):
            self._ears.shutdown(socket.SHUT_RDWR)
        self._ears.close()

    def _listen(self) -> None:
        while True:
            try:
                client, _ = self._ears.accept()
            except OSError:
                return
            if self._is_cut:
                client.close()
                continue
            try:
                server = socket.create_connection(("127.0.0.1", self._to))
            except OSError:
                # The server may have ended meanwhile.
                client.close()
                continue
            self._open += [client, server]
            self.connections += 1
            threading.Thread(target=self._forward, args=(client, server), daemon=True).start()

    def _forward(self, client: socket.socket, server: socket.socket) -> None:
        other_end = {client: server, server: client}
        with client, server, contextlib.suppress(OSError):
            while True:
                for end in select.select([client, server], [], [])[0]:
                    chunk = end.recv(65536)
                    if not chunk:
                        return
                    self.came_bytes += len(chunk) if end is server else 0
                    other_end[end].sendall(chunk)


class Heart:
    """The agent of the node: only its beat. ``root`` is the data root as the node sees it."""

    def __init__(self, root: Path) -> None:
        self._folder = mounted(root).node(NODE)
        self._reading = Probe(NODE, root).read()
        self._end = threading.Event()
        self._write(0)
        self._thread = threading.Thread(target=self._beat)
        self._thread.start()

    def _beat(self) -> None:
        beat = 0
        while not self._end.wait(_BEAT_S):
            beat += 1
            self._write(beat)

    def _write(self, beat: int) -> None:
        reading = replace(self._reading, heartbeat=beat, interval_s=1.0)
        replace_json(self._folder.status, reading.to_dict())

    def stop(self) -> None:
        self._end.set()
        self._thread.join()


class DataSite:
    """A data root, ``root``, with the tiny library in it, and desktops to open."""

    def __init__(self, folder: Path, sshd: Sshd, is_mounted: bool) -> None:
        self._folder = folder
        self.sshd = sshd
        self.is_mounted = is_mounted
        self.root = folder / "data"
        self.root.mkdir()
        self.data = mounted(self.root)
        self.wire = Wire(sshd.port)
        self.opened_desktops: list[Services] = []
        # A name that only the user's client settings know.
        settings = folder / "desktop-home" / ".ssh" / "config"
        settings.parent.mkdir(exist_ok=True)
        settings.write_text(
            f"Host lab\n  HostName 127.0.0.1\n  Port {self.wire.port}\n  User {USER}\n"
            f"  IdentityFile {sshd.client_key}\n"
        )
        self.address: Path | RemoteRoot = (
            self.root if is_mounted else RemoteRoot("lab", str(self.root))
        )

    def desktop(self) -> Services:
        """Another desktop on the data root."""
        catalogue = self._folder / f"desktop-{len(self.opened_desktops)}" / "catalogue.sqlite"
        fingerprint = self.sshd.fingerprint
        self.opened_desktops.append(
            open_services(
                self.address, catalogue, accept=lambda key: key.fingerprint == fingerprint
            )
        )
        services = self.opened_desktops[-1]
        services.cluster.accept_key(self.sshd.host_key)
        # The node was never set up, which a preflight check would find.
        services.preflight.require = lambda *_, **__: None  # type: ignore[method-assign]
        return services

    def stock(self, services: Services) -> None:
        """The tiny library, brought there by a desktop."""
        model, loader, dataset = write_sources(self._folder / "sources")
        for kind, source in (
            (Kind.MODEL, model),
            (Kind.LOADER, loader),
            (Kind.DATASET, dataset),
        ):
            services.library.import_item(kind, source, "tiny")

    def add_node(self, data_root: Path | None = None) -> None:
        """``data_root`` is where the node sees it, if not where it is."""
        mpirun = find_mpirun(training_python())
        assert mpirun is not None
        info = NodeInfo(
            hostname="gpu1",
            system="Linux",
            machine="x86_64",
            kernel="6",
            user=USER,
            home=str(self.sshd.home / ".ringmaster"),
            data_root=str(data_root or self.root),
            data_root_writable=True,
            interfaces=(Interface("lo", "127.0.0.1/8"),),
        )
        installation = NodeInstallation(
            python=training_python(),
            mpirun=mpirun.path,
            mpi_version=mpirun.version,
            environment="test",
            bundle=str(CODE_ROOT),
            ssh_config="",
        )
        write_entry(
            self.data,
            NodeEntry(NODE, self.sshd.address, info, installation, "127.0.0.1/8"),
        )

    def close(self) -> None:
        self.wire.repair()
        for services in self.opened_desktops:
            with contextlib.suppress(BackendError):
                for view in services.jobs.queries.list():
                    if view.state.is_live:
                        process_cleanup.end_tagged(run_tag(view.id, view.run), 0.0)
            services.close()
        self.wire.close()


class FakeHead:
    """Where supervisors would be started; remembers which."""

    def __init__(self) -> None:
        self.started: list[tuple[str, int, str]] = []

    @contextlib.contextmanager
    def open_head(self, ranks: object) -> Iterator[SupervisorStart]:
        yield self._start

    def _start(self, folder: JobFolder, launch: Launch) -> None:
        self.started.append((folder.job_id, launch.run, str(Path(launch.job_folder).parents[1])))

    def instead_of(self, services: Services) -> None:
        services.nodes.heads.open_head = self.open_head  # type: ignore[method-assign]


class RemoteRun:
    """What rank 0 and the supervisor of a run write, written on the data root itself."""

    def __init__(self, site: DataSite, view: JobView) -> None:
        self.folder = site.data.job(view.id)
        self.run = view.run
        self.step = 0
        self.heartbeat = 10
        supervisor = ProcessIdentity("gpu1", "another-boot", 4711, 1)
        replace_json(self.folder.attempt(self.run).supervisor, supervisor.to_dict())
        self.train(1)

    def train(self, steps: int) -> None:
        first, self.step = self.step + 1, self.step + steps
        self.heartbeat += 1
        block = Block(
            state="TRAINING",
            run=self.run,
            epoch=1,
            epoch_step=self.step,
            first_step=first,
            timestamp=f"2026-11-21T07:30:{self.step % 60:02d}.123456Z",
            metrics={"loss": [1.0 / n for n in range(first, self.step + 1)]},
        )
        with self.folder.history.open("ab") as file:
            file.write(encode(block))
        self.set_state(JobState.TRAINING)

    def set_state(self, state: JobState, **figures: Any) -> None:
        status = RunStatus(
            state,
            run=self.run,
            epoch=1,
            epochs=4,
            step=self.step,
            total_steps=100_000,
            steps_per_epoch=25_000,
            world_size=1,
            heartbeat=self.heartbeat,
            **figures,
        )
        replace_json(self.folder.status, status.to_dict())

    def end_with(self, state: JobState) -> None:
        """As the supervisor: the record first, then the status."""
        record = RunExit(self.run, state, "", ended_at="2026-11-21T07:31:00Z")
        replace_json(self.folder.attempt(self.run).exit, record.to_dict())
        self.set_state(state)


def on_node(**changes: Any) -> dict[str, Any]:
    return raw_job(1, **{"placement": [{"node": NODE, "processes": 1}], **changes})


Beat = Callable[[DataSite], Heart]


def start_job(site: DataSite, services: Services) -> tuple[JobView, RemoteRun]:
    """A job that was started, and what runs it."""
    FakeHead().instead_of(services)
    view = services.jobs.lifecycle.start(services.jobs.create(on_node()).id)
    return view, RemoteRun(site, view)


def add_checkpoint(
    run: RemoteRun, step: int, content: bytes = PAYLOAD, *, not_finite: str = ""
) -> str:
    name = f"epoch-0001-step-{step:06d}"
    folder = run.folder.checkpoints
    (folder / f"{name}.pt").write_bytes(content)
    record = Checkpoint(
        name=name,
        run=run.run,
        epoch=1,
        step=step,
        epoch_step=step,
        bytes=len(content),
        sha256=hashlib.sha256(content).hexdigest(),
        config_sha256="",
        created="2026-11-21T07:30:00Z",
        metrics={"validation/loss": 1.0 / step},
        not_finite=not_finite,
    )
    replace_json(folder / f"{name}.json", record.to_dict())
    if not not_finite:
        replace_json(run.folder.latest, {"name": name})
    return name
