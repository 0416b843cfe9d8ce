"""Sessions: jobs whose script runs JupyterLab on a node, and the ways to them: browser and SSH."""

from __future__ import annotations

import json
import tempfile
import threading
import time
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from backend.base.errors import BackendError
from backend.base.progress import Progress
from backend.node.system.wording import node_label
from backend.records.base.account import expand_home
from backend.records.base.layout import NodeHome
from backend.records.jobs.placement import THIS_COMPUTER
from backend.records.jobs.script import REQUIREMENTS, SESSION, command_line, session_kind
from backend.records.library.item import Kind

if TYPE_CHECKING:
    from backend.records.jobs.view import JobView
    from backend.services.jobs.queries import JobQueries
    from backend.services.library.service import LibraryService
    from backend.services.nodes.registry import NodeRegistry
    from backend.services.nodes.service import NodeService
    from backend.ssh.tunnel import Tunnel

_SOURCE = Path(__file__).resolve().parents[3] / "resources" / "session"
_READY_LIMIT_S = 240.0
"""Longer than `session.py` waits for JupyterLab."""
_POLL_S = 0.5
_PAGE = """<!doctype html>
<meta charset="utf-8">
<meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0; url={url}">
<title>{label}</title>
"""


class SessionService:
    """The sessions. Every call blocks and may run on any thread."""

    def __init__(
        self,
        library: LibraryService,
        nodes: NodeService,
        queries: JobQueries,
        cluster: NodeRegistry,
    ) -> None:
        self._library = library
        self._nodes = nodes
        self._queries = queries
        self._cluster = cluster
        self._lock = threading.Lock()
        self._tunnels: dict[tuple[str, int], Tunnel] = {}
        self._pages: list[Path] = []

    def job_file(
        self,
        node: str,
        gpus: str = "",
        arguments: tuple[str, ...] = ("--hours", "8", "--idle-min", "30"),
    ) -> dict[str, Any]:
        """Return the job file of a session.

        Args:
            gpus: UUIDs, or a number of free GPUs; by default a free one, if the node has any.

        Raises:
            BackendError: The node has not that many free GPUs.
        """
        item = self._library.import_item(Kind.SCRIPT, _SOURCE, SESSION, reuse_same=True)
        return {
            "name": f"session on {node_label(node)}",
            "script": item.reference,
            "entry": "session.py",
            "python": REQUIREMENTS,
            "arguments": list(arguments),
            # With one it may give way.
            "resume_arguments": ["--again"],
            "processes_per": "node",
            "placement": [{"node": node, **self._devices(node, gpus)}],
        }

    def _devices(self, node: str, gpus: str) -> Mapping[str, Any]:
        if gpus and not gpus.isdecimal():
            return {"gpus": gpus.split(",")}
        reading = next((s.reading for s in self._nodes.list() if s.name == node), None)
        all_gpus = reading.gpus if reading is not None else ()
        used_uuids = {
            uuid
            for view in self._queries.list()
            if view.state.is_live
            for placement in view.config.placement
            for uuid in placement.gpus
        }
        free_uuids = [
            gpu.uuid for gpu in all_gpus if gpu.uuid not in used_uuids and not gpu.refusal()[0]
        ]
        count = int(gpus) if gpus else min(1, len(all_gpus))
        if count > len(free_uuids):
            raise BackendError(
                f"{node_label(node)} has {len(free_uuids)} free of {len(all_gpus)} GPUs, not "
                f"{count}.",
                "Name GPUs that will be free and queue the session, or take another node.",
            )
        return {"gpus": free_uuids[:count]} if count else {"processes": 1}

    def open(self, job_id: str, progress: Progress | None = None) -> Path:
        """Wait until a session is ready; return a page that leads a browser on this computer to it.

        Only this user can read the page: it has the token. `close` removes it.

        Raises:
            BackendError: The job is no session or does not run, or its node cannot be reached.
            Cancelled: By ``progress``.
        """
        view, address = self._wait_until_ready(job_id, progress or Progress())
        port, node = int(address["port"]), view.nodes[0]
        if node != THIS_COMPUTER:
            from backend.ssh.tunnel import Tunnel

            with self._lock:
                tunnel = self._tunnels.get((job_id, view.run))
                if tunnel is None:
                    tunnel = Tunnel(lambda: self._cluster.open_shell(node), port)
                    self._tunnels[job_id, view.run] = tunnel
            port = tunnel.port
        kind = session_kind(view.config.arguments)
        url = f"http://127.0.0.1:{port}/{kind.page}?token={address['token']}"
        # A browser in a sandbox (snap) reads no hidden folder and no /tmp. The mode is 0600.
        with tempfile.NamedTemporaryFile(
            "w", prefix="ringmaster-session-", suffix=".html", dir=Path.home(), delete=False
        ) as file:
            file.write(_PAGE.format(url=url, label=kind.label))
        self._pages.append(Path(file.name))
        return Path(file.name)

    def ssh_command(self, job_id: str) -> tuple[str, str]:
        """Return the command that leads to a session by the user's own SSH, as VS Code takes it.

        The second one gives its GPUs to the programs that are started there, "" without GPUs.

        Raises:
            BackendError: The job is no session, does not run, or runs on this computer.
        """
        view = self._queries.show(job_id)
        _require_session(view)
        placement = view.config.placement[0]
        if placement.node == THIS_COMPUTER:
            raise BackendError(f"The session {job_id} runs on this computer.", "No SSH is needed.")
        address = self._cluster.entry(placement.node).address
        tokens = ["ssh"]
        if address.jump:
            tokens += ["-J", address.jump]
        if address.port:
            tokens += ["-p", str(address.port)]
        if address.identity and expand_home(address.identity).exists():
            tokens += ["-i", address.identity]
        tokens.append(f"{address.user}@{address.host}" if address.user else address.host)
        devices = ",".join(placement.gpus)
        return command_line(tokens), f"export CUDA_VISIBLE_DEVICES={devices}" if devices else ""

    def _wait_until_ready(
        self, job_id: str, progress: Progress
    ) -> tuple[JobView, Mapping[str, Any]]:
        deadline_s = time.monotonic() + _READY_LIMIT_S
        while True:
            view = self._queries.show(job_id)
            node = view.nodes[0] if view.nodes else ""
            _require_session(view)
            try:
                return view, self._read_address(view, node)
            except FileNotFoundError:
                progress.step(0, 0, f"Starting JupyterLab on {node_label(node)}")
            if time.monotonic() > deadline_s:
                raise BackendError(
                    f"The session {job_id} is not ready, or another user started it.",
                    "Its log says more. Only the user who runs it on its node can open it.",
                )
            time.sleep(_POLL_S)

    def _read_address(self, view: JobView, node: str) -> Mapping[str, Any]:
        name = f"{view.id}-{view.run}/session.json"
        if node == THIS_COMPUTER:
            home = NodeHome(PurePosixPath(Path.home() / ".ringmaster"))
            content = Path(home.sessions / name).read_bytes()
        else:
            info = self._cluster.entry(node).info
            assert info is not None, "a node that runs a job was inspected"
            with closing(self._cluster.open_shell(node)) as shell:
                content = shell.read(str(NodeHome(PurePosixPath(info.home)).sessions / name))
        address: Mapping[str, Any] = json.loads(content)
        return address

    def close(self) -> None:
        """Close the tunnels and remove the pages; the sessions stay."""
        with self._lock:
            for tunnel in self._tunnels.values():
                tunnel.close()
            self._tunnels.clear()
            for page in self._pages:
                page.unlink(missing_ok=True)
            self._pages.clear()


def _require_session(view: JobView) -> None:
    if not view.is_session:
        raise BackendError(f"The job {view.id} is no session.", "Open its page or its log.")
    if (scheduler := view.config.scheduler) is not None:
        raise BackendError(
            f"{scheduler.name} chose the node of the session {view.id}, to which no tunnel leads.",
            "Start sessions on nodes that were added by SSH.",
        )
    if not view.state.is_live:
        message = view.error.message if view.error is not None else view.state_label
        raise BackendError(
            f"The session {view.id} does not run: {message.rstrip('.')}.",
            "Wait until the queue starts it."
            if view.state.is_queued
            else "Start it, or start another session.",
        )
