"""One preflight check: find everything that would prevent a job from running.

All nodes are asked in parallel over their own connections, with their own time limits, so that a
node that does not answer delays only the end. Nothing is started or changed, with two exceptions
that the start makes as well: mpirun's SSH settings on the head node are updated, and a folder in
the data root proves that all nodes see the same one; it is removed again.
"""

from __future__ import annotations

import contextlib
import logging
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Any

from backend.base.cores import usable_cores
from backend.base.errors import BackendError, Cancelled
from backend.base.log import suppress
from backend.launch.network import common_subnet
from backend.node.system.mpi import find_mpirun
from backend.node.system.start_supervisor import CODE_ROOT
from backend.provisioning import cluster_key
from backend.provisioning.agent_commands import AgentPaths
from backend.provisioning.code_archive import bundle_name
from backend.records.base.access_modes import is_narrower
from backend.records.base.layout import NodeHome
from backend.records.base.schema import json_value
from backend.records.jobs.config import JobConfig
from backend.records.jobs.placement import THIS_COMPUTER, Placement
from backend.records.nodes.entry import NodeEntry
from backend.records.nodes.preflight import Preflight, smaller_placement
from backend.records.queue.scheduling import Reservation
from backend.services.preflight import node_probe
from backend.services.preflight.check import Replies
from backend.services.preflight.checks import CHECKS, LOAD, judge
from backend.services.preflight.context import (
    JobPreflight,
    NodePreflight,
    PreflightContext,
    PreflightTarget,
    node_python,
    read_ssh_settings,
    script_python_fields,
)
from backend.services.tools.training_python import has_horovod, training_error
from backend.ssh.interface import Shell

_log = logging.getLogger(__name__)
_DRAIN_S = 0.1
_POLL_S = 0.05
_NONCE_BYTES = 64


class PreflightRun:
    """One preflight check: collect the replies of the nodes and judge them.

    Attributes:
        job: The job with its nodes, which the checks judge.
    """

    def __init__(
        self,
        context: PreflightContext,
        config: JobConfig,
        needed_bytes: int,
        reservations: Sequence[Reservation] = (),
    ) -> None:
        self._root = context.root
        self._node_registry = context.node_registry
        self._provisioning = context.provisioning
        self._python = context.python()
        self._share = context.root.files
        self._config = config
        self._script_fields = script_python_fields(config, context.needs_torch)
        self._needed_bytes = needed_bytes
        self._limits, self._now = context.limits, context.now
        self._started_s = self._now()
        self._token = secrets.token_hex(16)
        self._nonce = secrets.token_hex(16)
        library = config.strategy.library
        self.job = JobPreflight(library, bundle_name(), root_name=self._root.name)
        self.job.data_notes = context.data_notes(config)
        self.job.reservations = reservations
        self._finished_event = threading.Event()

    def run(self, is_cancelled: Callable[[], bool]) -> Preflight:
        """See `PreflightService.run`."""
        try:
            with self._proof_folder():
                self.collect_nodes()
                self._query_nodes(is_cancelled)
            findings, unchecked_pairs = judge(self.job)
        finally:
            self._finished_event.set()
        nodes = tuple(node.name for node in self.job.nodes)
        preflight = Preflight(
            nodes, findings, self._now() - self._started_s, unchecked_pairs=unchecked_pairs
        )
        if preflight.succeeded:
            return preflight
        return replace(
            preflight, smaller_placement=smaller_placement(self._config.placement, findings)
        )

    # Before the nodes are asked.

    @contextlib.contextmanager
    def _proof_folder(self) -> Iterator[None]:
        """Create a temporary folder in the data root."""
        folder = self._root.path / self._folder
        try:
            # In the folder of jobs, because its permissions may differ from the data root's.
            self._share.make_folder(self._root.jobs, exist_ok=True)
            self._share.make_folder(folder)
            self._share.replace_bytes(folder / "desktop", self._nonce.encode())
        except (BackendError, OSError) as error:
            self.job.root_error = error
        try:
            yield
        finally:
            self._share.remove_tree(folder)

    @property
    def _folder(self) -> str:
        return f"{self._root.jobs.name}/.preflight-{self._token[:16]}"

    def collect_nodes(self) -> None:
        """Collect the nodes of the job with their entries and addresses, without a connection."""
        entries = {entry.name: entry for entry in self._node_registry.list()}
        self.job.cluster_nodes = tuple(entries)
        jobs_are_narrow = False
        if self._share.is_mounted:
            with suppress(OSError):
                jobs_are_narrow = is_narrower(self._root.jobs, self._root.path)
        self.job.nodes = tuple(
            self._local_node(placement)
            if placement.node == THIS_COMPUTER
            else self._remote_node(placement, entries.get(placement.node), jobs_are_narrow)
            for placement in self._config.placement
        )
        target_nodes = self.job.target_nodes
        if len(target_nodes) > 1:
            # This computer has no address among nodes.
            addresses = {n.name: n.entry.addresses if n.entry else () for n in target_nodes}
            try:
                _, hosts = common_subnet(addresses)
            except BackendError as error:
                self.job.network_error = error
            else:
                for node in target_nodes:
                    node.address = hosts[node.name]

    def _local_node(self, placement: Placement) -> NodePreflight:
        if (setup_error := training_error()) is not None:
            return NodePreflight(placement, training_error=setup_error)
        mpirun = find_mpirun(self._python) if self.job.library else None
        target = PreflightTarget(
            THIS_COMPUTER,
            placement,
            self._python,
            mpirun.path if mpirun else "",
            mpirun.version if mpirun else "",
            "",
            str(self._root.path),
            "",
            placement is self._config.placement[0],
            self._needed_bytes,
            self.job.library,
            loader_workers=self._config.loader_workers,
            **self._script_fields,
        )
        return NodePreflight(
            placement, target, cores=usable_cores(), has_horovod=has_horovod(), limits=self._limits
        )

    def _remote_node(
        self, placement: Placement, entry: NodeEntry | None, jobs_are_narrow: bool
    ) -> NodePreflight:
        if entry is None or entry.installation is None or entry.info is None:
            return NodePreflight(placement, entry=entry)
        installation, info = entry.installation, entry.info
        home = NodeHome(PurePosixPath(info.home))
        # One finding is enough for a missing Horovod.
        lacks_horovod = self.job.library == "horovod" and installation.without_horovod
        target = PreflightTarget(
            entry.name,
            placement,
            installation.python,
            installation.mpirun,
            installation.mpi_version,
            installation.bundle,
            entry.data_root,
            str(home.path.parent),
            placement is self._config.placement[0],
            self._needed_bytes,
            "mpi4py" if lacks_horovod else self.job.library,
            jobs_are_narrow and not entry.is_staged,
            entry.is_staged,
            self._config.loader_workers,
            AgentPaths(entry.name, installation.python, installation.bundle, info).folder,
            str(home.import_check(entry.name)),
            **self._script_fields,
        )
        return NodePreflight(
            placement,
            target,
            entry,
            info.cores,
            not installation.without_horovod,
            limits=self._limits,
        )

    # The nodes, all at once.

    def _query_nodes(self, is_cancelled: Callable[[], bool]) -> None:
        for node in self.job.target_nodes:
            thread = threading.Thread(target=self._query_node, args=(node,), name=node.name)
            thread.daemon = True
            thread.start()
        for node in self.job.target_nodes:
            while not node.finished_event.is_set():
                if is_cancelled():
                    raise Cancelled
                if self._now() > self._started_s + self.job.limit_s:
                    return
                node.finished_event.wait(_DRAIN_S)
        if is_cancelled():
            raise Cancelled

    def _query_node(self, node: NodePreflight) -> None:
        """Query one node, on its own thread."""
        with contextlib.ExitStack() as cleanup:
            try:
                if node.entry is None:
                    self._store_replies(node, node_probe.probe_locally(self.request(node)))
                else:
                    self._query_remote_node(node, node.entry, cleanup)
            except BackendError as error:
                node.error = error
            except Exception as error:  # noqa: BLE001 - the check of one node, not of all
                _log.exception("The check of %s failed", node.name)
                node.error = error
            finally:
                node.finished_event.set()
                node.listening_event.set()

    def _query_remote_node(
        self, node: NodePreflight, entry: NodeEntry, cleanup: contextlib.ExitStack
    ) -> None:
        """Query a node over SSH; ``cleanup`` runs once its replies are in."""
        started_s = time.monotonic()
        shell = self._node_registry.open_shell(node.name)
        cleanup.callback(shell.close)
        login_s = time.monotonic() - started_s
        node.limits = self._limits.for_node(login_s)
        python = node_python(entry)
        visitors = len(self.job.target_nodes) - 1
        node.listener_reply, node.clock_offset_s = node_probe.listen(
            shell, python, node.address, self._token, visitors, node.limits
        )
        if node.port:
            cleanup.callback(self._end_listener, shell, python, node)
        reply = node.listener_reply
        load, cores = float(reply.get("load", 0)), int(reply.get("cores", 1))
        node.limits = self._limits.for_node(login_s, load, cores)
        node.listening_event.set()
        # The first probe mostly imports torch; the network tests need not wait for that.
        connection_thread = threading.Thread(
            target=self._test_connections, args=(node, entry, shell, python), daemon=True
        )
        with self._staged_proof(entry, shell):
            # Only while the proof is there: two threads that use files of one shell at the same
            # time take each other's answers, and one of them waits for 30 s.
            if node.address and node.port:
                connection_thread.start()
            self._store_replies(node, node_probe.probe_node(shell, python, self.request(node)))
            if connection_thread.ident is not None:
                connection_thread.join()

    def _end_listener(self, shell: Shell, python: str, node: NodePreflight) -> None:
        """End a listener once no node can need it, as a listener without visitors lasts minutes."""
        self._finished_event.wait()
        endpoint = {"address": node.address, "port": node.port, "token": self._token}
        listener = {**endpoint, "visitors": len(self.job.target_nodes) - 1}
        with suppress(BackendError):
            node_probe.end_listener(shell, python, listener, node.limits)

    @contextlib.contextmanager
    def _staged_proof(self, entry: NodeEntry, shell: Shell) -> Iterator[None]:
        """Do as `_proof_folder` in the staged root of a node that does not see the data root."""
        if not entry.is_staged:
            yield
            return
        folder = f"{entry.data_root}/{self._folder}"
        with shell.files() as files:
            # If it cannot be written, the probe reports that the node does not see it.
            with suppress(BackendError, OSError):
                files.make_folder(folder)
                files.write(f"{folder}/desktop", self._nonce.encode())
            try:
                yield
            finally:
                with suppress(BackendError, OSError):
                    files.remove_tree(folder)

    def request(self, node: NodePreflight) -> Mapping[str, Any]:
        """Return the request to a node, see `preflight_probe.check`."""
        assert node.target is not None
        probes = {c.probe for c in CHECKS if c.probe and c.is_relevant(node, self.job)} | {LOAD}
        return {
            **json_value(node.target),
            "asked": {probe.name: probe.request(node.target) for probe in probes},
            "code_root": node.target.bundle or str(CODE_ROOT),
            "folder": self._folder,
            "nonce": self._nonce,
            "limit_s": node.limits.inspection_s,
            "command_limit_s": node.limits.command_s,
            "root_limit_s": node.limits.root_s,
        }

    def _store_replies(self, node: NodePreflight, replies: Replies) -> None:
        root_reply, target = replies.get("data_root") or {}, node.target
        # In a staged root the proof was written on the node itself, and staging reads it there.
        is_shared = target is not None and not target.no_share
        if is_shared and root_reply.get("seen") and not root_reply["why"]:
            node.is_proof_seen = self._is_proof_seen(node)
        node.replies = replies

    def _is_proof_seen(self, node: NodePreflight) -> bool:
        path = self._root.path / self._folder / node.name
        end_s = time.monotonic() + self._limits.answer_s
        while time.monotonic() < end_s:
            with suppress(OSError, BackendError):
                if self._share.read(path, 0, _NONCE_BYTES) == self._nonce.encode():
                    return True
            if self._finished_event.wait(_POLL_S):
                break
        return False

    # The nodes among each other.

    def _test_connections(
        self, node: NodePreflight, entry: NodeEntry, shell: Shell, python: str
    ) -> None:
        other_nodes = [peer for peer in self.job.target_nodes if peer is not node]
        for other_node in other_nodes:
            remaining_s = self._started_s + self._limits.listening_s - self._now()
            other_node.listening_event.wait(max(0.0, remaining_s))
        peers = [peer for peer in other_nodes if peer.port]
        if not peers:
            return
        request: dict[str, Any] = {
            "token": self._token,
            "peers": {peer.name: [peer.address, peer.port] for peer in peers},
            "ssh": {},
            "ssh_config": "",
        }
        is_head = node.target is not None and node.target.is_head
        if is_head and self._update_ssh_settings(node, entry, shell):
            request["ssh"] = {peer.name: [peer.address, peer.is_limited] for peer in peers}
            assert entry.installation is not None
            request["ssh_config"] = entry.installation.ssh_config
        # Without a result its checks count as not made.
        with suppress(BackendError):
            limits = max((peer.limits for peer in (node, *peers)), key=lambda peer: peer.total_s)
            node.connection_results = node_probe.connect_to_peers(shell, python, request, limits)

    def _update_ssh_settings(self, node: NodePreflight, entry: NodeEntry, shell: Shell) -> bool:
        """Update the settings as the start does: nodes may have been added since set-up."""
        assert entry.installation is not None
        assert entry.info is not None
        home = NodeHome(PurePosixPath(entry.info.home))
        try:
            previous_settings = read_ssh_settings(shell, home)
            cluster_key.write_settings(
                shell, home, self._provisioning.peers(), entry.installation.own_key
            )
            node.settings_update = read_ssh_settings(shell, home) != previous_settings
        except BackendError as error:
            node.settings_update = error
        return isinstance(node.settings_update, bool)
