"""The launchers of all jobs: the head nodes of those that name nodes, and the clusters' schedulers.

A login node was added as one, or is this computer. A cluster is asked for all jobs at once, at most
every `POLL_S`, and in a thread of its own: a login node that is slow or down delays no list, and
what it said last holds.
"""

from __future__ import annotations

import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Sequence

from backend.base.errors import BackendError
from backend.base.log import swallowed
from backend.datastore.access.root_access import OpenJob, OpenRoot
from backend.launch.launcher import Cluster, Launcher, LoginNode
from backend.launch.slurm import POLL_S, SlurmCluster
from backend.node.run import run_start
from backend.records.base.program_name import COMMAND
from backend.records.jobs.launch import launch_of
from backend.records.jobs.placement import THIS_COMPUTER, ClusterPlacement, PlacementError
from backend.records.jobs.schedulers import (
    SCHEDULERS,
    ClusterScheduler,
    scheduler_of,
    scheduler_of_run,
    submission_of,
)
from backend.records.jobs.status import Condition
from backend.records.nodes.partition import Partition
from backend.services.nodes.head_node import HeadNodes, NodeLauncher
from backend.services.nodes.registry import NodeRegistry
from backend.ssh.interface import CommandResult, Shell, Unreachable

CLUSTERS: dict[str, Callable[[LoginNode, float], Cluster]] = {
    "slurm": lambda login_node, poll_s: SlurmCluster(login_node, poll_s=poll_s),
}
"""What the desktop does with each entry of `SCHEDULERS`."""
_FIRST_ANSWER_S = 5.0
"""How long the first question about a job waits for an answer of its cluster."""


class LauncherService:
    """Every call may run on any thread."""

    def __init__(
        self,
        root: OpenRoot,
        nodes: NodeRegistry,
        heads: HeadNodes,
        login_node_of: Callable[[str], LoginNode] | None = None,
        poll_s: float = POLL_S,
    ) -> None:
        """Store the parts; ``login_node_of`` replaces SSH, ``poll_s`` the time between queries."""
        self._root = root
        self._nodes = nodes
        self._heads = heads
        self._login_node_of = login_node_of
        self._poll_s = poll_s
        self._clusters: dict[tuple[str, str], Cluster] = {}
        self._login_nodes: list[_SshLoginNode] = []
        self._watches: dict[str, _JobWatch] = {}
        self._lock = threading.Lock()

    def cluster(self, placement: ClusterPlacement) -> Cluster:
        """Return the cluster of a placement; nothing is connected before a question."""
        return self._cluster(scheduler_of(placement), placement.cluster)

    def _cluster(self, scheduler: ClusterScheduler, name: str) -> Cluster:
        with self._lock:
            key = scheduler.key, name
            if key not in self._clusters:
                login_node = self._login_node(scheduler, name)
                self._clusters[key] = CLUSTERS[scheduler.key](login_node, self._poll_s)
            return self._clusters[key]

    def _login_node(self, scheduler: ClusterScheduler, name: str) -> LoginNode:
        if self._login_node_of is not None:
            return self._login_node_of(name)
        if name == THIS_COMPUTER:
            return _LocalLoginNode(scheduler)
        login_node = _SshLoginNode(name, self._nodes)
        self._login_nodes.append(login_node)
        return login_node

    def partitions(self, name: str) -> tuple[Partition, ...]:
        """Return the partitions with their nodes.

        Raises:
            BackendError: The login node or its scheduler does not answer.
        """
        return self._cluster(self._scheduler(name), name).partitions()

    def _scheduler(self, name: str) -> ClusterScheduler:
        """Return the scheduler of a login node, by default the first one."""
        first_scheduler, *_ = schedulers = tuple(SCHEDULERS.values())
        if name != THIS_COMPUTER:
            return SCHEDULERS.get(self._nodes.entry(name).scheduler, first_scheduler)
        return next((s for s in schedulers if shutil.which(s.submit_command)), first_scheduler)

    def check(self, placement: ClusterPlacement) -> tuple[PlacementError, ...]:
        """Return why the cluster would refuse a job, or never start it.

        Raises:
            BackendError: The login node or its scheduler does not answer.
        """
        return self.cluster(placement).check(placement)

    def launcher(self, placement: ClusterPlacement | None) -> Launcher:
        """Return the launcher of a job by its `JobConfig.allocation`."""
        if placement is None:
            return NodeLauncher(self._heads, self._root)
        return self.cluster(placement).launcher(placement, self._root.files)

    def leave_queue(self, folder: OpenJob) -> bool:
        """Remove a job from the queue of its scheduler; return False if it is not in one.

        A first run that has not begun is given back: the job is as before its start.

        Raises:
            BackendError: The scheduler does not answer, the job begins just now, or the record of
                its submission cannot be read.
        """
        run = folder.newest_run()
        attempt = folder.attempt(run)
        scheduler, submission = scheduler_of_run(attempt), submission_of(attempt)
        if scheduler is None:
            return False
        if submission is None:
            raise BackendError(
                f"Run {run} of {folder.job_id} has no readable record of its submission to "
                f"{scheduler.name}.",
                f"Look for it with {scheduler.name}'s own commands, and cancel it with them.",
            )
        if not self.launcher(submission.placement).leave_queue(folder):
            raise BackendError(
                f"The job {folder.job_id} has just left {scheduler.name}'s queue and begins.",
                "Stop it instead.",
            )
        launch = launch_of(folder.launch, run)
        if launch is not None and not folder.attempt(run).exit.exists():
            run_start.give_back(folder, launch, self._root.files)
        return True

    def condition(self, folder: OpenJob, run: int) -> Condition | None:
        """Return the state of a submitted run; None without news of it.

        An end that only the scheduler knows is recorded.
        """
        submission = submission_of(folder.attempt(run))
        if submission is None:
            return None
        cluster = submission.placement.cluster
        with self._lock:
            if cluster not in self._watches:
                self._watches[cluster] = _JobWatch(self._poll_s)
            watch = self._watches[cluster]
        return watch.condition(folder, run, self.launcher(submission.placement))

    def close(self) -> None:
        for login_node in self._login_nodes:
            login_node.close()


class _JobWatch:
    """The states of the jobs in a cluster, renewed in a thread of their own."""

    def __init__(self, poll_s: float) -> None:
        self._poll_s = poll_s
        self._renewal: threading.Thread | None = None
        self._launchers: dict[tuple[str, int], tuple[OpenJob, Launcher]] = {}
        self._conditions: dict[tuple[str, int], Condition] = {}
        self._next_renewal_s = 0.0
        self._lock = threading.Lock()

    def condition(self, folder: OpenJob, run: int, launcher: Launcher) -> Condition | None:
        """Return the known condition of a run; the first call waits for an answer."""
        key = folder.job_id, run
        with self._lock:
            is_new = key not in self._launchers
            self._launchers[key] = folder, launcher
            is_idle = self._renewal is None or not self._renewal.is_alive()
            if is_idle and (is_new or time.monotonic() >= self._next_renewal_s):
                self._next_renewal_s = time.monotonic() + self._poll_s
                # The end of a program does not wait for a login node.
                self._renewal = threading.Thread(target=self._renew, name="cluster", daemon=True)
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

    def __init__(self, scheduler: ClusterScheduler) -> None:
        self._scheduler = scheduler

    def run(
        self, argv: Sequence[str], *, input: bytes = b"", limit_s: float = 60.0
    ) -> CommandResult:
        try:
            process = subprocess.run(
                argv, input=input, capture_output=True, timeout=limit_s, check=False
            )
        except FileNotFoundError as error:
            raise BackendError(
                f"This computer has no {argv[0]}, so it is not a login node of "
                f"{self._scheduler.name}.",
                f"Add the login node: {COMMAND} node add HOST --{self._scheduler.key}",
            ) from error
        except (OSError, subprocess.TimeoutExpired) as error:
            message = f"{self._scheduler.name} does not answer: {argv[0]} did not end."
            raise Unreachable(message) from error
        out, err = (text.decode(errors="replace") for text in (process.stdout, process.stderr))
        return CommandResult(process.returncode, out, err)


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
