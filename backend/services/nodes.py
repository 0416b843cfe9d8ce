"""The nodes. This computer is one from the first start, with no SSH.

What a node has is read anew each time: nobody keeps a list that could be wrong.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from backend.errors import BackendError
from backend.launch.placement import NodeRoom, Site, this_computer
from backend.node.check import Places, findings
from backend.node.mpi import MpiRun, find_mpirun
from backend.node.probe import Probe
from backend.node.start import CODE_ROOT
from backend.records.job import THIS_COMPUTER
from backend.records.launch import RankPlan
from backend.records.layout import DataRoot
from backend.records.node import Finding, NodeReading, NodeState, Presence
from backend.records.values import nearest, printable
from backend.services.heads import Head, Heads


class NodeService:
    """See `docs/architecture.md`. Every call may run on any thread."""

    def __init__(
        self,
        root: DataRoot,
        catalogue: Path | None = None,
        python: str = sys.executable,
        heads: Heads | None = None,
    ) -> None:
        self._root = root
        self._heads = heads or Heads((), None)
        self._catalogue = catalogue
        self._python = python
        self._probe: Probe | None = None
        self._reading = threading.Lock()
        self._mpirun: MpiRun | None = None

    def reading(self) -> NodeReading:
        """This computer, now; rates come with the second reading."""
        with self._reading:
            if self._probe is None:
                self._probe = Probe(THIS_COMPUTER, self._root.path)
            return self._probe.read()

    def list(self) -> tuple[NodeState, ...]:
        return (NodeState(THIS_COMPUTER, Presence.ONLINE, self.reading()),)

    def check(self, name: str) -> tuple[Finding, ...]:
        """Whether the node can train: two ranks add up a number there, too.

        Raises:
            BackendError: There is no such node.
        """
        known = tuple(node.name for node in self.list())
        if name not in known:
            near = nearest(name, known)
            raise BackendError(
                f"There is no node “{printable(name)}”.",
                f"Did you mean “{near}”?" if near else f"There is {', '.join(known)}.",
            )
        return findings(self._places(), smoke=True)

    def doctor(self) -> tuple[Finding, ...]:
        """What is installed, what is missing, and what mends it."""
        return findings(self._places())

    def rooms(self) -> tuple[NodeRoom, ...]:
        """What the nodes offer a job."""
        reading = self.reading()
        gpus = tuple(gpu.uuid for gpu in reading.gpus)
        return (this_computer(reading.cpu.cores, gpus, self._site()),)

    def head(self, ranks: Sequence[RankPlan]) -> AbstractContextManager[Head]:
        """Where the supervisor of a run with these ranks is started."""
        return self._heads.of(ranks)

    def _site(self) -> Site:
        if self._mpirun is None:
            self._mpirun = find_mpirun(self._python)
        return Site(
            data_root=str(self._root.path.absolute()),
            python=self._python,
            code_root=str(CODE_ROOT),
            mpirun=self._mpirun.path if self._mpirun is not None else "",
            mpi_version=self._mpirun.version if self._mpirun is not None else "",
        )

    def _places(self) -> Places:
        return Places(self._root.path, self._catalogue, self._python)
