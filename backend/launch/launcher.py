"""The interface of all launchers: to begin, watch and end the runs of a job.

There are two: the head node of a job that names its nodes (`backend.services.nodes.head_node`), and
Slurm (`backend.launch.slurm`). `backend.services.nodes.launchers` chooses. From its beginning a run
is the same with each: a supervisor, which reads requests from the folder of the job and records
what happens there.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from backend.records.base.layout import JobFolder
from backend.records.base.local_files import Files
from backend.records.jobs.launch import Launch
from backend.records.jobs.placement import PlacementError
from backend.records.jobs.status import Condition
from backend.records.nodes.partition import Partition
from backend.ssh.interface import CommandResult


class Launcher(Protocol):
    """Launches the runs of one job. Each call raises `BackendError` if there is no answer."""

    def connect(self, launch: Launch) -> AbstractContextManager[None]:
        """Connect to where a run will begin before it is claimed, so that no claim is in vain."""

    def submit(self, folder: JobFolder, launch: Launch, sweep: str = "") -> None:
        """Hand over a claimed run, which begins now or when its turn comes.

        A call that is repeated, because its answer was lost, starts no second run. ``sweep`` is the
        name of the job's sweep, "" for none.

        Raises:
            Unreachable: The run may begin: there was no answer.
            BackendError: The run was refused.
        """

    def state(self, folder: JobFolder) -> Condition:
        """Return what the files of the newest run do not say; record an end that they miss.

        No news is never an end.
        """

    def leave_queue(self, folder: JobFolder) -> bool:
        """Cancel a run that waits; return False if none does."""

    def end(self, folder: JobFolder) -> None:
        """End the newest run, waiting or not, whose end was requested in the job's folder."""


class LoginNode(Protocol):
    """A computer with a scheduler's commands, such as `backend.ssh.interface.Shell`."""

    def run(
        self, argv: Sequence[str], *, input: bytes = b"", limit_s: float = 60.0
    ) -> CommandResult: ...


class Cluster(Protocol):
    """The cluster of a scheduler, made from its `LoginNode`; placements are those of its jobs."""

    def partitions(self) -> tuple[Partition, ...]: ...

    def check(self, placement: Any) -> tuple[PlacementError, ...]:
        """Compare a placement with what the cluster has and allows."""

    def launcher(self, placement: Any, files: Files) -> Launcher: ...
