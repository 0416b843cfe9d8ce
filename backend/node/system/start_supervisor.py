"""Start of a supervisor that does not depend on its starter, here or on another node."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from backend.base.errors import BackendError
from backend.records.base.layout import JobFolder

if TYPE_CHECKING:
    from backend.records.jobs.launch import Launch

CODE_ROOT = Path(__file__).resolve().parents[3]
"""The folder that holds the package ``backend``; PYTHONPATH of everything that a run starts."""
_PYTHON_VARIABLES = (
    *("PYTHONHOME", "PYTHONPATH", "PYTHONSAFEPATH", "PYTHONSTARTUP", "PYTHONUSERBASE"),
    *("PYTHONINSPECT", "PYTHONPLATLIBDIR"),
)
"""Variables by which the user's own Python finds modules: with them, ours would find others."""

_START_S = 60.0


def own_environment(code_root: str = "") -> dict[str, str]:
    """Return the environment of a Python of the program; see `CODE_ROOT`."""
    variables = {name: value for name, value in os.environ.items() if name not in _PYTHON_VARIABLES}
    return {**variables, "PYTHONPATH": code_root or str(CODE_ROOT), "PYTHONUTF8": "1"}


def supervisor_command(python: str, job_folder: str, run: int) -> tuple[str, ...]:
    """Return the command that starts a supervisor without a parent and returns at once.

    The process forks and exits, so that no zombie stays with a window that lives for days, and
    signals to the window's session or process group do not reach the supervisor.
    """
    command = (python, "-m", "backend.node.run.supervisor", "--job", job_folder, "--run", str(run))
    return (*command, "--detach")


def start_supervisor(folder: JobFolder, launch: Launch) -> None:
    """Start the supervisor of a run on this computer and return at once.

    Raises:
        BackendError: It did not start.
    """
    command = supervisor_command(launch.python, str(folder.path), launch.run)
    failure = start_detached(command, launch.code_root)
    if failure:
        raise BackendError(
            f"The supervisor of run {launch.run} could not be started with {launch.python}: "
            f"{failure}",
            "Check that this Python exists and starts.",
        )


def start_detached(command: Sequence[str], code_root: str = "") -> str:
    """Run a module that detaches itself, and return at once: "", or why it did not start."""
    try:
        result = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            cwd="/",
            env=own_environment(code_root),
            start_new_session=True,
            timeout=_START_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{error}."
    return last_line(result.stderr) if result.returncode else ""


def last_line(output: bytes) -> str:
    """Return the last line of a failed process's output, for a sentence."""
    lines = output.decode("utf-8", "replace").strip().splitlines()
    return lines[-1] if lines else "it printed nothing."
