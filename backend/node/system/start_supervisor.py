"""Starting a supervisor so that nothing ties it to who starts it, here or on another node."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from backend.base.errors import BackendError
from backend.records.base.layout import JobFolder

CODE_ROOT = Path(__file__).resolve().parents[3]
"""The folder that holds the package ``backend``; PYTHONPATH of everything that a run starts."""


def supervisor_command(python: str, job_folder: str, run: int) -> tuple[str, ...]:
    """What starts a supervisor and returns at once; it has no parent that could end it.

    The process forks and leaves, so that no zombie stays with a window that lives for days, and
    what ends the window's session or process group does not reach the supervisor.
    """
    command = (python, "-m", "backend.node.run.supervisor", "--job", job_folder, "--run", str(run))
    return (*command, "--detach")


def start_supervisor(job_folder: JobFolder, run: int, python: str, code_root: str = "") -> None:
    """Start the supervisor of a run on this computer and return at once.

    ``code_root`` is the folder that holds the package ``backend``, this one's if unsaid.

    Raises:
        BackendError: It did not start.
    """
    try:
        done = subprocess.run(
            supervisor_command(python, str(job_folder.path), run),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            cwd="/",
            env={**os.environ, "PYTHONPATH": code_root or str(CODE_ROOT)},
            start_new_session=True,
            timeout=60,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BackendError(
            f"The supervisor of run {run} could not be started with {python}: {error}.",
            "Check that this Python exists and starts.",
        ) from error
    if done.returncode != 0:
        raise BackendError(
            f"The supervisor of run {run} ended at once with code {done.returncode}: "
            f"{last_line(done.stderr)}"
        )


def last_line(output: bytes) -> str:
    """What a process that failed said last, for a sentence."""
    lines = output.decode("utf-8", "replace").strip().splitlines()
    return lines[-1] if lines else "it said nothing."
