"""Starting a supervisor on this computer so that nothing ties it to who starts it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from backend.errors import BackendError
from backend.records.layout import JobFolder

CODE_ROOT = Path(__file__).resolve().parents[2]
"""The folder that holds the package ``backend``; PYTHONPATH of everything that a run starts."""


def start_supervisor(job_folder: JobFolder, run: int, python: str) -> None:
    """Start the supervisor of a run and return at once; it has no parent that could end it.

    The process started here forks and leaves, so that no zombie stays with a window that lives
    for days, and what ends the window's session or process group does not reach the supervisor.
    """
    attempt = job_folder.attempt(run)
    command = [python, "-m", "backend.node.supervise", "--job", str(job_folder.path)]
    with attempt.supervisor_log.open("ab") as log:
        try:
            code = subprocess.run(
                [*command, "--run", str(run), "--detach"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                env={**os.environ, "PYTHONPATH": str(CODE_ROOT)},
                start_new_session=True,
                timeout=60,
                check=False,
            ).returncode
        except (OSError, subprocess.TimeoutExpired) as error:
            raise BackendError(
                f"The supervisor of run {run} could not be started with {python}: {error}.",
                "Check that this Python exists and starts.",
            ) from error
    if code != 0:
        raise BackendError(
            f"The supervisor of run {run} ended at once with code {code}; "
            f"{attempt.supervisor_log} says why."
        )
