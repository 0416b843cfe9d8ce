"""Choose a node's Python for training: Horovod has no wheel on any index, only those built here.

`installers/horovod_wheel.py` builds a wheel for one Python minor version, processor, torch and Open
MPI, and stores it in ``horovod…/`` with its checksum and ``ingredients.json``. The wheel loads its
libraries from its own folder, so it works on any node of that kind.
"""

from __future__ import annotations

import hashlib
import json
import re
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from backend.base.errors import BackendError
from backend.base.log import swallowed
from backend.records.base.program_name import COMMAND
from backend.records.nodes.entry import OLDEST_PYTHON, NodeInfo, NodePython

NEWEST_PYTHON = (3, 14)
"""The lock file's torch has wheels up to it."""
LEAST_GLIBC = "2.28"
"""The wheels of torch and Open MPI require it (manylinux_2_28)."""
_SYMBOL = re.compile(rb"GLIBC_(2\.\d+)")


@dataclass(frozen=True)
class WheelTarget:
    """A kind of node. ``python`` is a minor version, ``3.11``."""

    python: str
    machine: str
    cuda: bool = False

    def __str__(self) -> str:
        return f"Python {self.python} on {self.machine} {'with' if self.cuda else 'without'} CUDA"


@dataclass(frozen=True)
class HorovodWheel:
    """A complete wheel built on this desktop; ``glibc`` is the oldest version that it supports."""

    path: Path
    sha256: str
    target: WheelTarget
    torch: str
    openmpi: str
    glibc: str


def built_wheels(folders: Sequence[Path]) -> tuple[HorovodWheel, ...]:
    """Return every complete Horovod wheel in these folders, the newest first."""
    paths = (home for folder in folders for home in folder.glob("horovod*/ingredients.json"))
    sorted_paths = sorted(paths, key=lambda path: path.stat().st_mtime, reverse=True)
    return tuple(wheel for path in sorted_paths for wheel in _read(path))


def _read(ingredients: Path) -> Iterator[HorovodWheel]:
    try:
        raw = json.loads(ingredients.read_text("utf-8"))
        checksum, name = (ingredients.parent / "sha256").read_text("utf-8").split()
        path = ingredients.parent / name
        content = path.read_bytes()
        if hashlib.sha256(content).hexdigest() != checksum:
            return
        tag = str(raw["python_tag"])
        target = WheelTarget(f"{tag[2]}.{tag[3:]}", str(raw["machine"]), raw["nccl"] is not None)
        yield HorovodWheel(
            path, checksum, target, str(raw["torch"]), str(raw["openmpi"]), _glibc(path)
        )
    except (OSError, ValueError, KeyError, IndexError, TypeError, zipfile.BadZipFile) as error:
        swallowed(error)
        return


def _glibc(wheel: Path) -> str:
    versions = {LEAST_GLIBC}
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if name.endswith(".so"):
                versions |= {version.decode() for version in _SYMBOL.findall(archive.read(name))}
    return max(versions, key=_numbers)


def choose(
    name: str,
    node_facts: NodeInfo,
    wheels: Sequence[HorovodWheel] | None,
    *,
    cpu_only: bool = False,
) -> tuple[NodePython, WheelTarget, HorovodWheel | None]:
    """Choose the Python of a node to train with, and the Horovod wheel for it.

    Args:
        wheels: The wheels built here, the preferred first; None leaves Horovod out.
        cpu_only: Use no GPU, even if the node has some.

    Raises:
        BackendError: The node has no suitable Python, or there is no wheel for one.
    """
    usable_pythons = [
        python
        for python in node_facts.pythons
        if OLDEST_PYTHON <= python.version_numbers[:2] <= NEWEST_PYTHON
    ]
    if not usable_pythons:
        requirement = "training needs {}.{} to {}.{}.".format(*OLDEST_PYTHON, *NEWEST_PYTHON)
        versions = ", ".join(python.version for python in node_facts.pythons)
        raise BackendError(
            f"{name} has Python {versions} only; {requirement}"
            if versions
            else f"{name} has no Python; {requirement}",
            "Let an administrator of the node install one: apt-get install python3.",
        )
    if not node_facts.glibc:
        raise BackendError(
            f"{name} runs {node_facts.system}, whose C library is not glibc: torch has no wheel "
            "for it.",
            "Use a node with Debian, Ubuntu, Fedora, Rocky Linux or a similar system.",
        )
    cuda = bool(node_facts.gpus) and not cpu_only
    targets = {
        python: WheelTarget("{}.{}".format(*python.version_numbers[:2]), node_facts.machine, cuda)
        for python in usable_pythons
    }
    if wheels is None and _numbers(node_facts.glibc) < _numbers(LEAST_GLIBC):
        raise BackendError(
            f"{name} has glibc {node_facts.glibc}, and torch needs {LEAST_GLIBC} or newer.",
            "Use a node with a newer system.",
        )
    if wheels is None:
        newest_python = max(usable_pythons, key=lambda python: python.version_numbers)
        return newest_python, targets[newest_python], None
    matches = [
        (python, wheel)
        for wheel in wheels
        for python in usable_pythons
        if wheel.target == targets[python]
    ]
    for python, wheel in matches:
        if _numbers(node_facts.glibc) >= _numbers(wheel.glibc):
            return python, wheel.target, wheel
    if matches:
        raise BackendError(
            f"{name} has glibc {node_facts.glibc}, and the wheels built on this computer need "
            f"{matches[0][1].glibc} or newer.",
            f"Run {COMMAND} doctor on a computer whose system is as old as the node's; it "
            "builds Horovod.",
        )
    raise _no_wheel(name, tuple(targets.values()), wheels)


def _no_wheel(
    name: str, targets: Sequence[WheelTarget], wheels: Sequence[HorovodWheel]
) -> BackendError:
    first_target = targets[0]
    built_targets = "; ".join(sorted({str(wheel.target) for wheel in wheels})) or "nothing"
    message = (
        f"There is no Horovod for {first_target}, which {name} has; built on this computer: "
        f"{built_targets}."
    )
    machines = {wheel.target.machine for wheel in wheels}
    if machines and first_target.machine not in machines:
        remedy = (
            f"Build it with {COMMAND} doctor on a computer whose processor is "
            f"{first_target.machine}, and set the node up from that computer."
        )
    elif first_target.cuda and any(
        wheel.target in {WheelTarget(t.python, t.machine) for t in targets} for wheel in wheels
    ):
        remedy = (
            "Build it here with the CUDA build of torch, or set the node up for CPU training only."
        )
    else:
        remedy = (
            f"Run RINGMASTER_PYTHON=python{first_target.python} {COMMAND} doctor to build "
            "it here, or install a Python of that list on the node."
        )
    return BackendError(message, f"{remedy} Or set the node up without Horovod.")


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version))
