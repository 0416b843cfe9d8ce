"""The nodes. This computer is one from the first start, with no SSH.

What a node is, is read anew each time: nobody keeps a list that could be wrong.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from backend.errors import BackendError
from backend.launch.placement import NodeRoom, this_computer
from backend.records.job import THIS_COMPUTER
from backend.records.layout import DataRoot
from backend.records.node import Cpu, Finding, NodeReading, NodeState
from backend.records.values import printable


@dataclass(frozen=True)
class Launcher:
    """The mpirun of this computer and the major version of its Open MPI."""

    path: str
    major: int


class NodeService:
    def __init__(self, root: DataRoot, python: str = sys.executable) -> None:
        self._root = root
        self._python = python

    def reading(self) -> NodeReading:
        """This computer, now."""
        return NodeReading(
            THIS_COMPUTER,
            "localhost",
            1,
            Cpu("cpu", os.cpu_count() or 1, None, 0.0),
            1,
            0,
            0,
            0,
            str(self._root.path),
            None,
            None,
        )

    def list(self) -> tuple[NodeState, ...]:
        return (NodeState(THIS_COMPUTER, "ONLINE", self.reading()),)

    def check(self, name: str) -> tuple[Finding, ...]:
        """Whether the node can train, each fault with what mends it."""
        self._known(name)
        return ()

    def doctor(self) -> tuple[Finding, ...]:
        return ()

    def rooms(self) -> tuple[NodeRoom, ...]:
        """What the nodes offer a job."""
        return (this_computer(os.cpu_count() or 1),)

    def launcher(self) -> Launcher:
        """The mpirun beside the Python that trains, else the one on the path.

        Raises:
            BackendError: There is none.
        """
        beside = Path(self._python).with_name("mpirun")
        found = str(beside) if beside.is_file() else shutil.which("mpirun")
        if found is None:
            raise BackendError(
                "mpirun was not found on this computer.",
                "main.py doctor says how it is installed; one process needs none: choose the "
                "strategy “alone”.",
            )
        return Launcher(found, _major(found))

    def _known(self, name: str) -> None:
        if name != THIS_COMPUTER:
            raise BackendError(
                f"There is no node “{printable(name)}”.", f"There is {THIS_COMPUTER}."
            )


@lru_cache
def _major(mpirun: str) -> int:
    """``mpirun (Open MPI) 5.0.11`` -> 5; what cannot be read is taken for the newest."""
    try:
        words = subprocess.run(
            [mpirun, "--version"], capture_output=True, text=True, timeout=20, check=False
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return 5
    match = re.search(r"(\d+)\.\d+", words)
    return int(match[1]) if match else 5
