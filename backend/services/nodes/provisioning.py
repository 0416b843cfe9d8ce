"""Sets nodes up, several at once, and removes what was installed.

The wheels for similar nodes are fetched once, all nodes get one version of Open MPI, and a node
that fails does not prevent the set-up of others.
"""

from __future__ import annotations

import ipaddress
import json
import logging
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path, PurePosixPath
from typing import TypeVar

from backend.base.errors import BackendError, Cancelled, as_backend_error
from backend.base.log import suppress, swallowed
from backend.base.progress import Progress
from backend.datastore.access.root_access import OpenRoot
from backend.datastore.nodes import files as node_files
from backend.datastore.queue import files as queue_files
from backend.launch.network import single_hosts
from backend.launch.slurm_task import build_node
from backend.node.system import wording
from backend.node.system.start_supervisor import CODE_ROOT
from backend.provisioning import agent_commands, cluster_key, horovod_wheels, unprovision
from backend.provisioning.agent_commands import AgentPaths
from backend.provisioning.cluster_key import ClusterKey, Peer
from backend.provisioning.code_archive import make_bundle
from backend.provisioning.horovod_wheels import HorovodWheel, WheelTarget
from backend.provisioning.node_environment import NodeEnvironments
from backend.provisioning.provisioner import SetUpPlan, set_up
from backend.provisioning.script_environment import ThisComputer, make_environment
from backend.provisioning.script_wheels import (
    SCRIPT_MARK,
    ScriptWheels,
    UnresolvedPackages,
)
from backend.provisioning.step_reporter import StepReporter
from backend.provisioning.unprovision import FoundEnvironment, home_of, refuse_running
from backend.provisioning.wheelhouse import (
    LEAST_NODES,
    OPEN_MPI,
    Relay,
    Wheelhouses,
    locked,
)
from backend.records.base.layout import JobFolder, NodeHome
from backend.records.base.validation import sanitize
from backend.records.jobs.launch import launch_of, remote_run_of
from backend.records.jobs.placement import THIS_COMPUTER
from backend.records.nodes.entry import NodeAddress, NodeEntry, NodeInfo, NodePython, SetUp
from backend.records.nodes.provisioning_options import SetUpOptions, different_mpi_message
from backend.services.tools.training_python import training_python
from backend.ssh.interface import Machine, Shell
from backend.ssh.known_hosts import fingerprint_of

_MAX_THREADS = 16
_SILENT_S = 15.0
"""An agent writes every 2 s."""
_log = logging.getLogger(__name__)

T = TypeVar("T")
_Result = TypeVar("_Result")
OpenShell = Callable[[NodeEntry], Shell]
Inspect = Callable[[NodeEntry, Shell], NodeInfo]


@dataclass(frozen=True)
class DesktopPaths:
    """Files of this desktop for setting nodes up.

    ``keys`` contains the cluster's key of one data root, ``wheels`` the wheels for the nodes,
    ``horovod`` the folders in which Horovod wheels were built, ``constraints`` the lock file.
    """

    keys: Path
    wheels: Path
    constraints: Path
    horovod: Sequence[Path]
    pip: Sequence[str] = (sys.executable, "-I", "-m", "pip")


def default_paths(data_key: str, constraints: Path) -> DesktopPaths:
    """Return this user's folders: ``data_key`` separates the clusters of two data roots."""
    import platformdirs

    cache = platformdirs.user_cache_path("ringmaster")
    wheel_folders = [cache / "wheels"]
    try:
        # The environment for training knows the origin of its own wheel.
        environment = Path(training_python()).parents[1]
        stamp = json.loads((environment / "ringmaster.json").read_text("utf-8"))
        wheel_folders.insert(0, Path(stamp["horovod_wheel"]).parents[1])
    except (OSError, ValueError, KeyError, IndexError) as error:
        swallowed(error)
    # A bundle contains the wheel that was built with it.
    wheel_folders.append(CODE_ROOT / "wheels")
    return DesktopPaths(
        keys=platformdirs.user_data_path("ringmaster") / "clusters" / data_key,
        wheels=cache / "node-wheels",
        constraints=constraints,
        horovod=tuple(dict.fromkeys(wheel_folders)),
    )


class ProvisioningService:
    """Sets up nodes. Every call blocks and may run on any thread.

    Args:
        host_key: Returns the known-hosts line of an accepted node without its name, or "".
        start_agent: See `SetUpPlan`.
    """

    def __init__(
        self,
        root: OpenRoot,
        paths: DesktopPaths,
        open_shell: OpenShell,
        inspect: Inspect,
        host_key: Callable[[NodeEntry], str],
        start_agent: Callable[[AgentPaths], Sequence[str]] = agent_commands.start,
    ) -> None:
        self._root = root
        self._paths = paths
        self._open_shell = open_shell
        self._inspect = inspect
        self._host_key = host_key
        self._start_agent = start_agent

    def set_up(
        self,
        names: Sequence[str],
        on_change: Callable[[SetUp], None],
        is_cancelled: Callable[[str], bool] = lambda name: False,
        options: SetUpOptions | None = None,
    ) -> Mapping[str, NodeEntry | BackendError]:
        """Set nodes up in parallel; return the result of each by name.

        ``on_change`` is called on several threads, for one node on the same. ``is_cancelled``
        is called with each node's name.

        Raises:
            BackendError: A name is not that of a node, or the cluster's key cannot be used.
        """
        options = options or SetUpOptions()
        entries = self._entries()
        requested_entries = [self._find_entry(entries, name) for name in dict.fromkeys(names)]
        other_entries = [e for e in entries.values() if e not in requested_entries]
        all_entries = [*other_entries, *requested_entries]
        key = None if options.own_key else self._cluster_key(all_entries)
        bundle = make_bundle()
        wheels = _NodeWheels(self._paths, options)
        versions = _MpiVersions(
            {e.name: e.installation.mpi_version for e in other_entries if e.installation}
        )
        peers = self.peers()
        # Other desktops do not wait: the first rename wins.
        locks: dict[str, threading.Lock] = {}
        in_job = partial(build_node, partition_name=options.partition)
        # With a shared environment, a single node receives the wheels anyway.
        relay = Relay() if len(requested_entries) >= LEAST_NODES and not options.shared else None

        def set_up_node(entry: NodeEntry) -> NodeEntry:
            # A new environment needs the packages of user code, too.
            old_packages = entry.installation.packages if entry.installation is not None else ()
            packages = tuple(dict.fromkeys((*old_packages, *options.packages)))
            is_shared = options.shared or bool(entry.scheduler)
            plan = SetUpPlan(
                wheels=wheels,
                bundle=bundle,
                inspect=partial(self._inspect, entry),
                agree=partial(versions.require_same, entry.name),
                key=key,
                options=replace(options, packages=packages, shared=is_shared),
                peers=peers,
                start_agent=self._start_agent,
                exclusive_access=lambda name: locks.setdefault(name, threading.Lock()),
                relay=relay,
                allocate=in_job if options.in_job else None,
            )
            fingerprint = ""
            with suppress(BackendError):  # Connecting reports any problem.
                fingerprint = fingerprint_of(self._host_key(entry))

            def report(state: SetUp) -> None:
                on_change(replace(state, trusted_fingerprint=fingerprint))

            ready_entry = set_up(
                entry, self._open_shell, plan, report, lambda: is_cancelled(entry.name)
            )
            node_files.write_entry(self._root, ready_entry)
            return ready_entry

        outcomes = _call_for_each(set_up_node, requested_entries)
        results = dict(zip((e.name for e in requested_entries), outcomes, strict=True))
        ready_entries = [e for e in results.values() if isinstance(e, NodeEntry)]
        if key is not None:
            self._authorize_new(other_entries, [e.name for e in ready_entries], key)
        if relay is not None and relay.used_by:
            self._clear_relay(relay, ready_entries + requested_entries)
        return results

    def provide_script(
        self, names: Sequence[str], python: str, name: str, source: Path, progress: Progress
    ) -> str:
        """Make the environment ``name`` of a script where it is missing; return its Python.

        Args:
            names: Nodes, or this computer.
            python: The Python of the base environment, on all nodes.
            source: The script's folder on this computer.

        Raises:
            BackendError: The environment cannot be made; the message is that of the resolver, or
                names the node.
            Cancelled: By ``progress``.
        """
        wheels = ScriptWheels(self._paths.wheels, self._paths.constraints, self._paths.pip)
        self._paths.wheels.mkdir(parents=True, exist_ok=True)
        entries = {n: self._entry(n) for n in names if n != THIS_COMPUTER}
        relay = Relay() if len(entries) >= LEAST_NODES else None

        def is_cancelled() -> bool:
            return progress.is_cancelled

        def exclusive_access(key: str) -> AbstractContextManager[None]:
            path = self._paths.wheels / f"{name}{key}.lock"
            return locked(
                path,
                lambda _: report_message("Waiting for another job, which makes it"),
                is_cancelled,
            )

        def report_message(message: str) -> None:
            progress.report(0, 0, f"Packages of the script: {message}")

        def prepare_node(node: str) -> BackendError | None:
            entry, node_label = entries.get(node), wording.node_label(node)

            def report(state: SetUp) -> None:
                report_message(f"{node_label}: {state.steps[0].message}")

            steps = StepReporter(node_label, ("Packages",), report, is_cancelled)
            is_shared = entry is not None and entry.shares_environment
            node_info = None if entry is None or is_shared or entry.is_staged else entry.info
            accepts_wheels = node_info is not None and node_info.data_root_writable

            def make_on(shell: Machine, home: NodeHome) -> None:
                environments = NodeEnvironments(shell, home, steps)
                if relay is not None and accepts_wheels and entry is not None:
                    environments.bring = partial(relay.bring, shell, steps, entry.data_root)
                with exclusive_access("" if is_shared else f"-{node}"):
                    fetch = partial(
                        wheels.gather_for,
                        source,
                        name,
                        on_line=steps.add_line,
                        is_cancelled=is_cancelled,
                    )
                    steps.run_step(
                        lambda: make_environment(shell, steps, environments, python, name, fetch)
                    )

            try:
                with as_backend_error("They cannot be written"):
                    self._in_home(node, make_on, is_cancelled)
            except (Cancelled, UnresolvedPackages):
                raise
            except BackendError as error:
                return BackendError(
                    f"The packages of the script are not on {node_label}: {error.message}",
                    "Correct that, then start the job again.",
                )
            return None

        with ThreadPoolExecutor(min(_MAX_THREADS, len(names))) as pool:
            errors = [e for e in pool.map(prepare_node, names) if e is not None]
        if relay is not None and relay.used_by:
            self._clear_relay(relay, entries.values())
        if errors:
            raise errors[0]
        home = NodeHome(PurePosixPath(python).parents[3]) if entries else self._local_home
        return str(home.environments / name / "bin/python")

    def _authorize_new(
        self, entries: Sequence[NodeEntry], names: Sequence[str], key: ClusterKey
    ) -> None:
        """Authorize new nodes at existing nodes, unless a common subnet does so."""
        peers = self.peers()
        new_peers = [peer for peer in peers if peer.name in names]
        for entry in entries:
            if entry.installation is None:
                continue
            try:
                if "," in cluster_key.sources(entry, new_peers):
                    self._with_shell(
                        entry, partial(self._authorize, entry=entry, key=key, peers=peers)
                    )
            except BackendError:
                # The preflight check finds the missing authorization and offers to repeat it.
                _log.info("%s does not let %s in.", entry.name, names, exc_info=True)

    def _clear_relay(self, relay: Relay, entries: Iterable[NodeEntry]) -> None:
        """Clear the relay from the first node that answers and has the same data root path."""
        for entry in entries:
            if entry.data_root == relay.used_by:
                with suppress(BackendError):
                    self._with_shell(entry, relay.clear)
                    return

    def bundled_mpi_version(self) -> str:
        """Return the version of Ringmaster's Open MPI for the nodes, "" if unknown."""
        with suppress(OSError, ValueError):
            for line in self._paths.constraints.read_text("utf-8").splitlines():
                package, _, version = line.partition("==")
                if package == OPEN_MPI:
                    return version.partition(";")[0].strip()
        return ""

    def wake(self, name: str, limit_s: float = 0.0) -> bool:
        """Start the agent of a node that is set up, for example after a reboot.

        The agent closes the runs of an earlier boot.

        Args:
            limit_s: Wait so long for the agent to work; without a limit, only for its start.

        Returns:
            Whether the agent was started.

        Raises:
            BackendError: The node does not answer, or its agent does not start.
        """
        entry = self._entry(name)
        if entry.installation is None or entry.info is None:
            return False
        agent = AgentPaths(name, entry.installation.python, entry.installation.bundle, entry.info)

        def start(shell: Shell) -> bool:
            if shell.run(agent_commands.check(agent)).ok:
                return False
            answer = shell.run(self._start_agent(agent))
            waits = answer.ok and limit_s > 0
            if not (shell.run(agent_commands.check(agent, limit_s)) if waits else answer).ok:
                raise BackendError(
                    f"The agent of {name} does not start: {answer.complaint}.",
                    f"Set {name} up again.",
                )
            return True

        return self._with_shell(entry, start)

    def wake_silent_nodes(
        self, names: Iterable[str], check_reachable: Callable[[NodeAddress], None]
    ) -> Mapping[str, bool | BackendError]:
        """Start the agents of nodes without a recent heartbeat.

        Args:
            check_reachable: Raises a `BackendError` soon if a node does not answer.

        Returns:
            The result of `wake` by name, for the silent nodes that are set up. A wrong clock only
            costs a connection: `wake` starts nothing where an agent is alive.
        """
        with suppress(BackendError):
            self._root.files.refresh_nodes()
        entries = {e.name: e for e in node_files.entries(self._root) if e.installation}
        silent_nodes = [
            name for name in dict.fromkeys(names) if name in entries and self._is_silent(name)
        ]

        def wake_node(name: str) -> bool:
            check_reachable(entries[name].address)
            return self.wake(name)

        return dict(zip(silent_nodes, _call_for_each(wake_node, silent_nodes), strict=True))

    def _is_silent(self, name: str) -> bool:
        try:
            written_s = self._root.node(name).status.stat().st_mtime
        except OSError:
            return True  # no heartbeat yet
        return abs(time.time() - written_s) > _SILENT_S

    def peers(self) -> tuple[Peer, ...]:
        """Return every node that mpirun of another node may reach; see `write_settings`."""
        return tuple(
            Peer(
                e.name,
                rank_address,
                e.address.port,
                e.address.user or (e.info.user if e.info else ""),
                key,
                tuple(ip for ip in single_hosts(e.addresses) if ip != rank_address),
            )
            for e in self._entries().values()
            if e.ranks_address
            and (rank_address := str(ipaddress.ip_interface(e.ranks_address).ip))
            and (key := self._host_key(e))
        )

    def authorize_all(self) -> None:
        """Authorize the cluster's key on every node that is set up, and update the settings.

        Raises:
            BackendError: A node could not be reached or written; all other nodes were updated.
        """
        entries = [e for e in node_files.entries(self._root) if e.installation is not None]
        key, peers = self._cluster_key(entries), self.peers()

        def authorize_node(entry: NodeEntry) -> None:
            self._with_shell(entry, lambda shell: self._authorize(shell, entry, key, peers))

        for result in _call_for_each(authorize_node, entries):
            if isinstance(result, BackendError):
                raise result

    def _authorize(
        self, shell: Shell, entry: NodeEntry, key: ClusterKey, peers: Sequence[Peer]
    ) -> None:
        assert entry.info is not None, "a node that is set up has its info"
        assert entry.installation is not None, "asked for by the caller"
        home = NodeHome(PurePosixPath(entry.info.home))
        if not entry.installation.own_key:
            installation = entry.installation
            gate_python = installation.python if installation.limits_key else ""
            cluster_key.install_key(
                shell, home, key, cluster_key.sources(entry, peers), gate_python
            )
        cluster_key.write_settings(shell, home, peers, entry.installation.own_key)

    @property
    def _local_home(self) -> NodeHome:
        return NodeHome(PurePosixPath(self._paths.wheels.parent) / "scripts")

    def _in_home(
        self,
        node: str,
        work: Callable[[Machine, NodeHome], T],
        is_cancelled: Callable[[], bool] = lambda: False,
    ) -> T:
        """Call ``work`` with the folder of the environments of a node, or of this computer."""
        if node == THIS_COMPUTER:
            return work(ThisComputer(is_cancelled), self._local_home)
        entry = self._entry(node)
        is_shared = entry.shares_environment
        home = NodeHome.shared_in(PurePosixPath(entry.data_root)) if is_shared else home_of(entry)
        return self._with_shell(entry, lambda shell: work(shell, home))

    def environments(self, node: str) -> tuple[FoundEnvironment, ...]:
        """Return the environments on a node, or those of scripts on this computer."""
        return self._in_home(node, unprovision.environments)

    def remove_environments(self, node: str, names: Sequence[str]) -> int:
        """Remove environments, and those of scripts over them; return the bytes freed.

        Raises:
            BackendError: An environment does not exist, or a node, a run or a queued job uses it;
                nothing was removed.
        """

        def remove(shell: Machine, home: NodeHome) -> int:
            known_names = [e.name for e in unprovision.environments(shell, home)]
            for name in names:
                if name not in known_names:
                    raise BackendError(f"{wording.node_label(node)} has no environment {name}.")
            environments = {e for e in known_names if {e, e.partition(SCRIPT_MARK)[0]} & {*names}}
            self._refuse_used(node, shell, home, environments)
            return unprovision.remove_environments(shell, home, environments)

        return self._in_home(node, remove)

    def _refuse_used(
        self, node: str, shell: Machine, home: NodeHome, environments: Set[str]
    ) -> None:
        folders = [home.environments / e for e in environments]
        entries = self._entries()
        if node not in entries:
            node_label = wording.node_label(node)
            refuse_running(node_label, shell, sys.executable, str(CODE_ROOT), folders)
        shares = node in entries and entries[node].shares_environment
        users = {node, *(e for e in entries if shares and entries[e].shares_environment)}
        for entry in (e for name, e in entries.items() if name in users):
            if entry.installation is not None and entry.installation.environment in environments:
                raise BackendError(
                    f"{entry.installation.environment} is the environment that {entry.name} trains "
                    "with.",
                    "Remove the whole node, or set it up with a newer Ringmaster first.",
                )
            refuse = partial(unprovision.refuse_running_of, entry, folders=folders)
            refuse(shell) if entry.name == node else self._with_shell(entry, refuse)
        for queue_entry in queue_files.entries(self._root):
            launch = launch_of(self._root.job(queue_entry.job_id).queued_launch, queue_entry.run)
            pythons = (launch.python, launch.script_python) if launch is not None else ()
            used_environments = {PurePosixPath(p).parents[1].name for p in pythons if p}
            is_on_users = any(placement.node in users for placement in queue_entry.placement)
            if is_on_users and environments & used_environments:
                raise BackendError(
                    f"The job {queue_entry.job_id} is queued and uses that environment.",
                    "Take it from the queue first.",
                )

    def un_provision(self, name: str) -> int:
        """Remove everything of Ringmaster from a node; return the bytes freed. The entry stays.

        Raises:
            BackendError: See `backend.provisioning.unprovision.remove`.
        """
        entry = self._entry(name)
        if entry.is_staged:
            self._require_all_is_home(name)
        freed_bytes = self._with_shell(entry, lambda shell: unprovision.remove(entry, shell))
        node_files.write_entry(self._root, replace(entry, installation=None))
        return freed_bytes

    def un_provision_all(self, names: Sequence[str]) -> Iterator[tuple[str, int | BackendError]]:
        """Remove everything from several nodes in turn; yield the result of each by name.

        In turn, because the last node with a shared environment removes the environment, too.

        Raises:
            BackendError: A name is not that of a node; nothing was removed.
        """
        entries = self._entries()
        for entry in [self._find_entry(entries, name) for name in dict.fromkeys(names)]:
            try:
                yield entry.name, self.un_provision(entry.name)
            except BackendError as error:
                yield entry.name, error

    def _require_all_is_home(self, name: str) -> None:
        """Refuse to remove results from a node that does not see the data root."""
        with suppress(FileNotFoundError):
            for path in self._root.jobs.iterdir():
                folder = self._root.job(path.name)
                if not _is_on(folder, name):
                    continue
                self._root.files.bring_home(folder, Progress())
                if _is_on(folder, name):
                    raise BackendError(
                        f"The results of the job {folder.job_id} are on {name} and nowhere else.",
                        "Stop that job, or wait for its end.",
                    )

    def _cluster_key(self, entries: Sequence[NodeEntry]) -> ClusterKey:
        """Return this desktop's cluster key, otherwise that of a node, otherwise a new key."""
        folder = self._paths.keys
        if (stored_key := cluster_key.stored_key(folder)) is not None:
            return stored_key
        # Another desktop set these nodes up: all nodes must keep accepting its key.
        first_error: BackendError | None = None
        for entry in entries:
            try:
                node_key = self._key_on(entry)
            except BackendError as error:
                first_error = first_error or error
                continue
            if node_key is not None:
                return cluster_key.store_key(folder, node_key)
        if first_error is not None:
            raise BackendError(
                "The cluster's key is on the nodes that are set up already, and none of them "
                f"returned it: {first_error.message}",
                "Start one of them, or remove nodes that no longer exist; then set up again.",
            ) from first_error
        return cluster_key.store_key(folder, cluster_key.make_key())

    def _key_on(self, entry: NodeEntry) -> ClusterKey | None:
        if entry.installation is None or entry.info is None:
            return None
        path = str(NodeHome(PurePosixPath(entry.info.home)).ssh / cluster_key.PRIVATE_NAME)
        try:
            return cluster_key.parse_key(self._with_shell(entry, lambda shell: shell.read(path)))
        except (FileNotFoundError, ValueError) as error:
            swallowed(error)
            return None

    def _with_shell(self, entry: NodeEntry, work: Callable[[Shell], T]) -> T:
        with closing(self._open_shell(entry)) as shell:
            return work(shell)

    def _entry(self, name: str) -> NodeEntry:
        return self._find_entry(self._entries(), name)

    def _entries(self) -> dict[str, NodeEntry]:
        self._root.files.refresh_nodes()
        return {entry.name: entry for entry in node_files.entries(self._root)}

    @staticmethod
    def _find_entry(entries: Mapping[str, NodeEntry], name: str) -> NodeEntry:
        if name not in entries:
            raise BackendError(f"There is no node “{sanitize(name)}”.", "Add it first.")
        return entries[name]


def _is_on(folder: JobFolder, node: str) -> bool:
    """Return whether the newest run of a job is staged on a node and not fetched yet."""
    remote_run = remote_run_of(folder.attempt(folder.newest_run()))
    return remote_run is not None and remote_run.node == node and not remote_run.is_home


def _call_for_each(
    function: Callable[[T], _Result], values: Sequence[T]
) -> list[_Result | BackendError]:
    """Call a function with each value, several at once; return the results or errors in order."""

    def call(value: T) -> _Result | BackendError:
        try:
            return function(value)
        except BackendError as error:
            return error

    with ThreadPoolExecutor(min(_MAX_THREADS, max(1, len(values)))) as pool:
        return list(pool.map(call, values))


class _NodeWheels(Wheelhouses):
    """The wheels of a set-up: similar nodes share them; the first node's thread fetches them."""

    def __init__(self, paths: DesktopPaths, options: SetUpOptions) -> None:
        super().__init__(paths.wheels, paths.constraints, paths.pip)
        skips_horovod = options.without_horovod
        self._built = None if skips_horovod else horovod_wheels.built_wheels(paths.horovod)
        self._cpu_only = options.cpu_only

    def choose(
        self, name: str, info: NodeInfo
    ) -> tuple[NodePython, WheelTarget, HorovodWheel | None]:
        return horovod_wheels.choose(name, info, self._built, cpu_only=self._cpu_only)


class _MpiVersions:
    """The Open MPI version of each node; a node with a different version is refused."""

    def __init__(self, versions: Mapping[str, str]) -> None:
        self._versions = dict(versions)
        self._lock = threading.Lock()

    def require_same(self, name: str, version: str) -> None:
        with self._lock:
            for other_node, other_version in sorted(self._versions.items()):
                if other_version != version:
                    raise BackendError(
                        different_mpi_message(name, version, other_node, other_version),
                        f"Set {name} and {other_node} up again together, and all other nodes: with "
                        "Ringmaster's Open MPI, or with the one of their system.",
                    )
            self._versions[name] = version
