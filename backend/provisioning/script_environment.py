"""The environment of a script: on a node or on this computer, over the one that is there.

The environment has what the script lists and its base lacks; all else is imported from the base, so
torch is the node's own. Its folder is beside the base, has the base's name and a digest of what the
script lists, and is made aside and renamed (`NodeEnvironments`). Programs in its ``bin`` find their
Python by their own path.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from backend.base.log import swallowed
from backend.provisioning.node_environment import NodeEnvironments
from backend.provisioning.script_wheels import LISTING, BaseEnvironment
from backend.provisioning.step_reporter import StepReporter
from backend.provisioning.wheelhouse import IsCancelled, Wheelhouse, run_pip
from backend.records.base.atomic_files import replace_bytes
from backend.ssh.interface import CommandResult, Machine
from backend.ssh.sftp import RemoteFile

_LAYER = """import pathlib, sys, sysconfig
lines = ["import os, site, sys, sysconfig"]
lines += [f"site.addsitedir({place!r})" for place in sys.argv[1:]]
listed = 'os.path.exists(os.path.join(sysconfig.get_path("purelib"), "mpi4py"))'
lines += [f'{listed} or sys.modules.__setitem__("mpi4py", None)']
path = pathlib.Path(sysconfig.get_path("purelib"), "_node.pth")
path.write_text("; ".join(lines) + "\\n", "utf-8")"""
# Lightning starts MPI where it finds mpi4py. Ours is not the script's, unless it lists it.

GatherWheels = Callable[[BaseEnvironment], Wheelhouse]


class ThisComputer:
    """This computer as a `Machine`; a command has no limit but ends when ``is_cancelled``."""

    def __init__(self, is_cancelled: IsCancelled = lambda: False) -> None:
        self._is_cancelled = is_cancelled

    def run(
        self,
        argv: Sequence[str],
        *,
        limit_s: float = 60.0,
        on_line: Callable[[str], None] | None = None,
    ) -> CommandResult:
        try:
            code, output = run_pip(argv, on_line or (lambda line: None), self._is_cancelled)
        except OSError as error:
            swallowed(error)
            return CommandResult(127, "", f"{argv[0]}: {error.strerror}")
        return CommandResult(code, output, "")

    def write(self, path: str, content: bytes, mode: int = 0o644) -> None:
        replace_bytes(Path(path), content, mode)

    def read(self, path: str, offset: int = 0, limit_bytes: int = 4_000_000) -> bytes:
        with open(path, "rb") as file:
            file.seek(offset)
            return file.read(limit_bytes)

    def listing(self, path: str) -> tuple[RemoteFile, ...]:
        with os.scandir(path) as entries:
            return tuple(
                RemoteFile(
                    entry.path,
                    entry.stat().st_size,
                    entry.is_dir(),
                    mtime_s=int(entry.stat().st_mtime),
                )
                for entry in entries
            )

    def send(
        self, source: Path, path: str, on_bytes: Callable[[int, int], None] | None = None
    ) -> None:
        shutil.copyfile(source, path)


def make_environment(
    shell: Machine,
    steps: StepReporter,
    environments: NodeEnvironments,
    python: str,
    name: str,
    gather: GatherWheels,
) -> str:
    """Make an environment on a node or here, unless it exists; ``python`` is that of the base.

    Raises:
        BackendError: The disk is full, or see `gather`; nothing half remains.
    """
    if environments.find(name) is not None:
        environments.mark_used(name)
        return f"{name} exists."
    argv = [python, "-I", "-c", LISTING]
    base = BaseEnvironment.parse(steps.require_output(shell, argv, f"{python} does not start"))
    house = gather(base)
    folder = environments.make_empty(python, house)
    try:
        layer = [str(folder / "bin/python"), "-I", "-c", _LAYER, *base.site_folders]
        steps.require_output(shell, layer, f"{folder} cannot be written")
        environments.push(python, house, [house.uv, *house.wheels])
        environments.install(folder, house, house.wheels)
        wheels = [wheel.name for wheel in (house.uv, *house.wheels)]
        environments.finish(folder, name, {"python": base.python, "wheels": wheels})
    except BaseException:
        environments.drop(folder)
        raise
    return f"{len(house.wheels)} packages."
