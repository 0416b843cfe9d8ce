"""Starting a run's supervisor on its head node: the first one chosen, here or over SSH."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import PurePosixPath
from typing import Protocol

from backend.cluster.shell import Shell
from backend.errors import BackendError
from backend.launch.placement import Site
from backend.node.start import start_supervisor, supervisor_command
from backend.records.cluster import NodeEntry
from backend.records.launch import RankPlan
from backend.records.layout import JobFolder

_START_LIMIT_S = 60.0


class Head(Protocol):
    """Where a supervisor can be started, right now."""

    def start(self, folder: JobFolder, run: int, site: Site) -> None:
        """Start it and return at once; it needs nobody from then on.

        Raises:
            BackendError: It did not start.
        """


class ThisComputer:
    def start(self, folder: JobFolder, run: int, site: Site) -> None:
        start_supervisor(folder, run, site.python)


class FarNode:
    """A node over SSH; the connection is open already, so that a claim is not made in vain."""

    def __init__(self, name: str, shell: Shell, settings: Callable[[Site], None]) -> None:
        self._name = name
        self._shell = shell
        self._settings = settings

    def start(self, folder: JobFolder, run: int, site: Site) -> None:
        self._settings(site)
        job_folder = str(PurePosixPath(site.data_root, "jobs", folder.job_id))
        command = supervisor_command(site.python, job_folder, run)
        answer = self._shell.run(
            ("env", f"PYTHONPATH={site.code_root}", *command), limit_s=_START_LIMIT_S
        )
        if not answer.ok:
            raise BackendError(
                f"The supervisor of run {run} did not start on {self._name}: {answer.complaint}.",
                f"Check {self._name}; setting it up again mends what is missing there.",
            )


class Heads:
    """Finds the head of a run among the nodes that were added."""

    def __init__(self, entries: Sequence[NodeEntry], cluster: None) -> None:
        self._entries = entries
        self._cluster = cluster

    @contextmanager
    def of(self, ranks: Sequence[RankPlan]) -> Iterator[Head]:
        yield ThisComputer()
