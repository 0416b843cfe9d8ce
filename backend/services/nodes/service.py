"""The nodes. This computer is always a node, without SSH.

The state of a node is read each time, so that no stored list can be outdated.
"""

from __future__ import annotations

import contextlib
import json
import secrets
import shlex
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from backend.base import worker_yield
from backend.base.errors import BackendError, as_backend_error
from backend.base.log import suppress
from backend.datastore.access.root_access import OpenRoot
from backend.datastore.nodes import files as node_files
from backend.datastore.nodes.files import NodeChanges, StatusWatch
from backend.datastore.nodes.history import read_past
from backend.launch.placement import NodePaths, NodeResources, this_computer
from backend.node.checks import orphans
from backend.node.checks.doctor import DoctorPaths, findings
from backend.node.metrics.probe import Probe
from backend.node.system.mpi import MpiRun, find_mpirun
from backend.node.system.start_supervisor import CODE_ROOT
from backend.records.base import number_format
from backend.records.base.program_name import COMMAND
from backend.records.base.schema import LENIENT, build
from backend.records.base.validation import sanitize
from backend.records.jobs.placement import THIS_COMPUTER
from backend.records.nodes.entry import NodeEntry
from backend.records.nodes.history import PastReading
from backend.records.nodes.reading import Finding, NodeReading, NodeState, Orphan, Presence
from backend.services.nodes import head_node, ssh_reading
from backend.services.nodes.head_node import HeadNodes
from backend.services.nodes.registry import NodeRegistry
from backend.services.tools.training_python import training_error, training_python
from backend.ssh.interface import Unreachable

HISTORY_S = 7 * 86_400.0
_SETTLE_S = 0.2
_CHECK_LIMIT_S = 180.0


class NodeService:
    """The nodes and their states; see `docs/architecture.md`. Every call may run on any thread."""

    def __init__(
        self,
        root: OpenRoot,
        cluster: NodeRegistry,
        heads: HeadNodes,
        catalogue: Path | None = None,
        python: Callable[[], str] = training_python,
    ) -> None:
        self._root = root
        self._cluster = cluster
        self.heads = heads
        self._catalogue = catalogue
        self._python = python
        self._probe: Probe | None = None
        self._probe_lock = threading.Lock()
        self._watch = StatusWatch(root)
        self._watch_lock = threading.Lock()
        self._mpirun: MpiRun | None = None

    def reading(self) -> NodeReading:
        """Read the state of this computer; rates come with the second reading."""
        with self._probe_lock:
            if self._probe is None:
                self._probe = Probe(THIS_COMPUTER, self._root.path)
            return self._probe.read()

    def list(self) -> tuple[NodeState, ...]:
        """Return this computer, then every added node, by name.

        The first call waits for a node's next heartbeat, because one heartbeat proves nothing.
        """
        return (NodeState(THIS_COMPUTER, Presence.ONLINE, self.reading()), *self.remote())

    def remote(self) -> tuple[NodeState, ...]:
        """Return every added node, by name."""
        entries = self._cluster.known_entries()
        with self._watch_lock:
            while True:
                # A node that cannot be read becomes silent, because its reading gets old.
                with suppress(Unreachable):
                    self._root.files.refresh_nodes()
                status = {}
                for entry in entries:
                    status[entry.name] = self._watch.read(entry.name)
                    worker_yield.pause()
                if all(
                    status[entry.name].presence is not None or not entry.is_ready
                    for entry in entries
                ):
                    return tuple(_state(entry, status[entry.name]) for entry in entries)
                time.sleep(_SETTLE_S)

    def history(self, name: str) -> tuple[PastReading, ...]:
        """Return the node's history of the last week, oldest first, by this computer's clock.

        The history of this computer is empty, because it has no agent.

        Raises:
            BackendError: There is no such node.
        """
        if name == THIS_COMPUTER:
            return ()
        info = self._cluster.entry(name).info
        clock_offset_s = info.clock_offset_s if info is not None else None
        folder = self._root.node(name)
        with suppress(Unreachable):
            self._root.files.refresh_past(folder)
        return read_past(folder, time.time(), clock_offset_s or 0.0, HISTORY_S)

    def check(self, name: str) -> tuple[Finding, ...]:
        """Check whether a node can train, by a sum over two ranks.

        Raises:
            BackendError: There is no such node, or the node does not answer.
        """
        if name == THIS_COMPUTER:
            return self._findings(smoke=True)
        entry = self._cluster.entry(name)
        if entry.installation is None:
            return (Finding("set up", False, f"{name} is not set up.", f"Set up {name}."),)
        answer = self._run_module(
            name, "backend.node.checks.doctor", "--smoke", limit_s=_CHECK_LIMIT_S
        )
        address = entry.ranks_address.partition("/")[0] or entry.address.host
        findings = (build(Finding, reply, LENIENT) for reply in answer)
        return (*findings, head_node.check_ports(name, address))

    def orphans(self, name: str) -> tuple[Orphan, ...]:
        """Return processes on a node that survived a run of this data root.

        Raises:
            BackendError: There is no such node, or it does not answer.
        """
        if name == THIS_COMPUTER:
            with as_backend_error("The leftover processes of this computer could not be found"):
                return orphans.find(self._root)
        return _orphans(name, self._run_module(name, "backend.node.checks.orphans"))

    def end_orphans(self, name: str, leftovers: Sequence[Orphan]) -> tuple[Orphan, ...]:
        """End these orphans; return all orphans that remain on the node.

        Raises:
            BackendError: There is no such node, or it does not answer.
        """
        keys = [(o.process.pid, o.process.start_ticks) for o in leftovers]
        if not keys:
            return ()
        if name == THIS_COMPUTER:
            orphans.end(self._root, keys)
            return self.orphans(name)
        arguments = [f"{pid}:{ticks}" for pid, ticks in keys]
        return _orphans(
            name, self._run_module(name, "backend.node.checks.orphans", "--end", *arguments)
        )

    def reading_over_ssh(self, entry: NodeEntry) -> NodeReading:
        """Read a node whose agent writes no reading (`services.nodes.ssh_reading`).

        Raises:
            BackendError: The node cannot be reached, or its answer cannot be used.
        """
        shell = self._cluster.connect(entry.address, limit_s=ssh_reading.CONNECT_LIMIT_S)
        with contextlib.closing(shell):
            return ssh_reading.read(shell, entry)

    def _run_module(self, name: str, module: str, *arguments: str, limit_s: float = 60.0) -> Any:
        """Return the JSON that one of the program's modules prints on a node."""
        entry = self._cluster.entry(name)
        if entry.installation is None:
            raise BackendError(f"{name} is not set up.", f"Set up {name} first.")
        with contextlib.closing(self._cluster.open_shell(name)) as shell:
            answer = shell.run(
                (
                    *("env", f"PYTHONPATH={entry.installation.bundle}"),
                    *(entry.installation.python, "-m", module),
                    *("--data-root", entry.data_root, *arguments),
                ),
                limit_s=limit_s,
            )
        try:
            return json.loads(answer.out)
        except ValueError as error:
            raise BackendError(
                f"{name} could not be checked: {answer.complaint}.", f"Set {name} up again."
            ) from error

    def doctor(self) -> tuple[Finding, ...]:
        """Return the findings about installed and missing software, and the remedies."""
        return self._findings(smoke=False)

    @property
    def trains_here(self) -> bool:
        """Return whether this computer sees the data root, as every node of a run must."""
        return self._root.files.is_mounted

    def capacities(self) -> tuple[NodeResources, ...]:
        """Return the resources of the nodes for a job; offline nodes have none."""
        reading = self.reading()
        gpus = tuple(gpu.uuid for gpu in reading.gpus)
        local_capacity = this_computer(reading.cpu.cores, gpus, self._site())
        return (
            local_capacity,
            *(_capacity(state) for state in self.remote() if state.reading is not None),
        )

    def login_site(self, name: str) -> NodePaths | None:
        """Return the paths on a login node; None if it is not set up.

        Raises:
            BackendError: There is no such node.
        """
        return self._site() if name == THIS_COMPUTER else _site(self._cluster.entry(name))

    def _site(self) -> NodePaths:
        python = self._python()
        if self._mpirun is None:
            self._mpirun = find_mpirun(python)
        return NodePaths(
            data_root=str(self._root.path.absolute()) if self.trains_here else "",
            python=python,
            code_root=str(CODE_ROOT),
            mpirun=self._mpirun.path if self._mpirun is not None else "",
            mpi_version=self._mpirun.version if self._mpirun is not None else "",
        )

    def _findings(self, smoke: bool) -> tuple[Finding, ...]:
        error = training_error()
        paths = DoctorPaths(self._root.path, self._catalogue, self._python(), trains=error is None)
        doctor_findings = findings(paths, smoke)
        if error is not None:
            doctor_findings = (
                Finding("pytorch", False, error.message, error.remedy),
                *doctor_findings,
            )
        if self.trains_here:
            return doctor_findings
        remote_findings = tuple(
            self._check_remote_root() if f.check == "data root" else f for f in doctor_findings
        )
        return (*remote_findings, *self._mirror_findings())

    def _check_remote_root(self) -> Finding:
        """Check the remote data root instead of its mirror."""
        name = self._root.display_path(self._root.path)
        test_file = self._root.path / f".ringmaster-check-{secrets.token_hex(8)}"
        try:
            self._root.files.replace_bytes(test_file, b"ringmaster")
            self._root.files.remove(test_file)
        except BackendError as error:
            return Finding("data root", False, error.message, error.remedy)
        return Finding("data root", True, f"{name} can be written, over SFTP.")

    def _mirror_findings(self) -> Iterator[Finding]:
        mirror_usage = self._root.files.mirror_usage()
        if mirror_usage is None:
            return
        size = number_format.size(mirror_usage.bytes)
        message = f"{size} of it are kept on this computer, in {mirror_usage.folder}"
        if mirror_usage.refetchable_bytes:
            address = shlex.quote(mirror_usage.address)
            message += (
                f"; {COMMAND} --data-root {address} mirror clear frees "
                f"{number_format.size(mirror_usage.refetchable_bytes)}, "
                "which are fetched again when needed"
            )
        yield Finding("mirror", True, f"{message}.")


def _state(entry: NodeEntry, status: NodeChanges) -> NodeState:
    presence = status.presence or Presence.OFFLINE
    message = status.message
    if not entry.is_ready:
        presence, message = Presence.NEW, "not set up yet"
    elif not entry.in_service:
        presence, message = Presence.OUT_OF_SERVICE, "taken out of service"
    problem = (status.problem,) if status.problem is not None else ()
    return NodeState(
        entry.name, presence, status.reading, problem, entry, message, silent_s=status.silent_s
    )


def _capacity(state: NodeState) -> NodeResources:
    entry, reading = state.entry, state.reading
    assert entry is not None, "a remote node was added"
    assert reading is not None, "asked for by the caller"
    return NodeResources(
        node=entry.name,
        host=entry.ranks_address.partition("/")[0] or entry.address.host,
        cores=reading.cpu.cores,
        gpus=tuple(gpu.uuid for gpu in reading.gpus),
        addresses=entry.addresses,
        site=_site(entry),
        is_staged=entry.is_staged,
    )


def _site(entry: NodeEntry) -> NodePaths | None:
    installation = entry.installation
    if installation is None:
        return None
    return NodePaths(
        data_root=entry.data_root,
        python=installation.python,
        code_root=installation.bundle,
        mpirun=installation.mpirun,
        mpi_version=installation.mpi_version,
        ssh_config=installation.ssh_config,
    )


def _orphans(name: str, answer: Any) -> tuple[Orphan, ...]:
    try:
        return tuple(node_files.build_record(Orphan, reply) for reply in answer["orphans"])
    except (ValueError, KeyError, TypeError) as error:
        raise BackendError(
            f"The answer of {name} about its processes is invalid: {sanitize(str(error), 200)}.",
            f"Set {name} up again.",
        ) from error
