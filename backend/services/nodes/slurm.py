"""Slurm clusters: nodes that were added as login nodes, or this computer with Slurm's commands.

A cluster is asked for all jobs at once, at most every `POLL_S`, and in a thread of its own: a login
node that is slow or down delays no list, and what it said last holds.
"""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Callable, Sequence

from backend.base.errors import BackendError
from backend.base.log import swallowed
from backend.datastore.access.root_access import OpenJob, OpenRoot
from backend.launch.slurm import POLL_S, LoginNode, SlurmCluster, SlurmLauncher, read_submission
from backend.node.run import run_start
from backend.records.base.program_name import COMMAND
from backend.records.jobs.launch import Launch, launch_of
from backend.records.jobs.placement import THIS_COMPUTER
from backend.records.slurm.cluster import Partition
from backend.records.slurm.job import Condition
from backend.records.slurm.placement import PlacementError, SlurmPlacement
from backend.services.nodes.registry import NodeRegistry
from backend.ssh.interface import CommandResult, Shell, Unreachable

_FIRST_ANSWER_S = 5.0
"""How long the first question about a job waits for an answer of its cluster."""


class SlurmService:
    """Every call may run on any thread."""

    def __init__(
        self,
        root: OpenRoot,
        nodes: NodeRegistry,
        login_node_of: Callable[[str], LoginNode] | None = None,
        poll_s: float = POLL_S,
    ) -> None:
        """Store the parts; ``login_node_of`` replaces SSH, ``poll_s`` the time between queries."""
        self._root = root
        self._nodes = nodes
        self._login_node_of = login_node_of or self._open_login_node
        self._poll_s = poll_s
        self._clusters: dict[str, SlurmCluster] = {}
        self._login_nodes: list[_SshLoginNode] = []
        self._watches: dict[str, _JobWatch] = {}
        self._lock = threading.Lock()

    def cluster(self, name: str) -> SlurmCluster:
        """Return a cluster by the name of its node; nothing is connected before a question."""
        with self._lock:
            if name not in self._clusters:
                self._clusters[name] = SlurmCluster(self._login_node_of(name), poll_s=self._poll_s)
            return self._clusters[name]

    def _open_login_node(self, name: str) -> LoginNode:
        if name == THIS_COMPUTER:
            return _LocalLoginNode()
        login_node = _SshLoginNode(name, self._nodes)
        self._login_nodes.append(login_node)
        return login_node

    def partitions(self, name: str) -> tuple[Partition, ...]:
        """Return the partitions with their nodes.

        Raises:
            BackendError: The login node or Slurm does not answer.
        """
        return self.cluster(name).partitions()

    def check(self, placement: SlurmPlacement) -> tuple[PlacementError, ...]:
        """Return why the cluster would refuse a job, or never start it.

        Raises:
            BackendError: The login node or Slurm does not answer.
        """
        return self.cluster(placement.cluster).check(placement)

    def launcher(self, placement: SlurmPlacement) -> SlurmLauncher:
        return SlurmLauncher(self.cluster(placement.cluster), placement, self._root.files)

    def submit(
        self, placement: SlurmPlacement, sweep: str, folder: OpenJob, launch: Launch
    ) -> None:
        """Submit a claimed run; one that Slurm refuses is given back.

        ``sweep`` is the name of the job's sweep, "" for none.

        Raises:
            BackendError: Slurm refused the job, or does not answer.
        """
        try:
            self.launcher(placement).submit(folder, launch, sweep)
        except Unreachable:  # Slurm may have the job: only its own answer is certain.
            raise
        except BackendError:
            run_start.give_back(folder, launch, self._root.files)
            raise

    def leave_queue(self, job_id: str) -> bool:
        """Remove a job that waits from Slurm's queue; return False if it is not in one.

        A first run that has not begun is given back: the job is as before its start.

        Raises:
            BackendError: Slurm does not answer, or the job begins just now.
        """
        folder = self._root.job(job_id)
        run = folder.newest_run()
        if not run or not folder.attempt(run).slurm.exists():
            return False
        launcher = self.launcher(read_submission(folder, run).placement)
        if not launcher.leave_queue(folder):
            raise BackendError(
                f"The job {job_id} has just left Slurm's queue and begins.", "Stop it instead."
            )
        launch = launch_of(folder.launch, run)
        if launch is not None and not folder.attempt(run).exit.exists():
            run_start.give_back(folder, launch, self._root.files)
        return True

    def condition(self, folder: OpenJob, run: int) -> Condition | None:
        """Return the state of a submitted run; None without news of it.

        An end that only Slurm knows is recorded.
        """
        try:
            placement = read_submission(folder, run).placement
        except BackendError as error:
            swallowed(error)
            return None
        with self._lock:
            if placement.cluster not in self._watches:
                self._watches[placement.cluster] = _JobWatch(self._poll_s)
            watch = self._watches[placement.cluster]
        return watch.condition(folder, run, self.launcher(placement))

    def close(self) -> None:
        for login_node in self._login_nodes:
            login_node.close()


class _JobWatch:
    """The states of the jobs in a cluster, renewed in a thread of their own."""

    def __init__(self, poll_s: float) -> None:
        self._poll_s = poll_s
        self._renewal: threading.Thread | None = None
        self._launchers: dict[tuple[str, int], tuple[OpenJob, SlurmLauncher]] = {}
        self._conditions: dict[tuple[str, int], Condition] = {}
        self._next_renewal_s = 0.0
        self._lock = threading.Lock()

    def condition(self, folder: OpenJob, run: int, launcher: SlurmLauncher) -> Condition | None:
        """Return what is known of a run; the first time it waits for an answer."""
        key = folder.job_id, run
        with self._lock:
            is_new = key not in self._launchers
            self._launchers[key] = folder, launcher
            is_idle = self._renewal is None or not self._renewal.is_alive()
            if is_idle and (is_new or time.monotonic() >= self._next_renewal_s):
                self._next_renewal_s = time.monotonic() + self._poll_s
                # The end of a program does not wait for a login node.
                self._renewal = threading.Thread(target=self._renew, name="slurm", daemon=True)
                self._renewal.start()
            renewal = self._renewal
        if is_new and renewal is not None:
            renewal.join(_FIRST_ANSWER_S)
        return self._conditions.get(key)

    def _renew(self) -> None:
        with self._lock:
            launchers = dict(self._launchers)
        for key, (folder, launcher) in launchers.items():
            try:
                is_newest = folder.newest_run() == key[1]
                condition = launcher.state(folder) if is_newest else None
            except (BackendError, OSError) as error:
                swallowed(error)
                continue
            if condition is not None:
                self._conditions[key] = condition
            if condition is None or (condition.state is not None and condition.state.is_over):
                # The record of its end has all that a later reader needs.
                with self._lock:
                    self._launchers.pop(key, None)


class _LocalLoginNode:
    """This computer as the login node."""

    def run(
        self, argv: Sequence[str], *, input: bytes = b"", limit_s: float = 60.0
    ) -> CommandResult:
        try:
            completed = subprocess.run(
                argv, input=input, capture_output=True, timeout=limit_s, check=False
            )
        except FileNotFoundError as error:
            raise BackendError(
                f"This computer has no {argv[0]}, so it is not a login node of Slurm.",
                f"Add the login node: {COMMAND} node add HOST --slurm",
            ) from error
        except (OSError, subprocess.TimeoutExpired) as error:
            raise Unreachable(f"Slurm does not answer: {argv[0]} did not end.") from error
        out, err = (text.decode(errors="replace") for text in (completed.stdout, completed.stderr))
        return CommandResult(completed.returncode, out, err)


class _SshLoginNode:
    """A login node over one connection, which is opened at the first command and after a loss."""

    def __init__(self, name: str, nodes: NodeRegistry) -> None:
        self._name = name
        self._nodes = nodes
        self._shell: Shell | None = None
        self._is_closed = False
        self._lock = threading.Lock()

    def run(
        self, argv: Sequence[str], *, input: bytes = b"", limit_s: float = 60.0
    ) -> CommandResult:
        with self._lock:
            if self._is_closed:
                raise Unreachable(f"The connection to {self._name} was closed.")
            if self._shell is None:
                self._shell = self._nodes.open_shell(self._name)
            try:
                return self._shell.run(argv, input=input, limit_s=limit_s)
            except Unreachable:
                shell, self._shell = self._shell, None
                shell.close()
                raise

    def close(self) -> None:
        """Close the connection also while a command runs, which then ends as unreachable."""
        self._is_closed = True
        if (shell := self._shell) is not None:
            shell.close()
