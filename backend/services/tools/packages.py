"""Install a package that a loader or a model needs, for the Python of this computer."""

from __future__ import annotations

import re
import shlex
import subprocess
import tempfile

from backend.base import process_signals
from backend.base.errors import BackendError
from backend.base.progress import Progress
from backend.records.base.validation import sanitize
from backend.services.tools.training_python import training_python

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_LOOK_S = 0.2
_END_S = 5.0


def install_command(package: str) -> str:
    """Return the command that installs a package, to be pasted into a shell."""
    return shlex.join(_command(package))


def install_package(package: str, progress: Progress) -> None:
    """Install a package by pip.

    Raises:
        BackendError: It has no such name, or pip failed; the remedy has the command.
        Cancelled: By ``progress``.
    """
    # The name comes from a process that ran user code: it must not be an option of pip.
    if not _NAME.fullmatch(package):
        raise BackendError(f"“{sanitize(package, 60)}” is not the name of a package.")
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(
            _command(package), stdin=subprocess.DEVNULL, stdout=said, stderr=subprocess.STDOUT
        )
        try:
            while process.poll() is None:
                progress.step(0, 0, f"Installing {package}")
                try:
                    process.wait(_LOOK_S)
                except subprocess.TimeoutExpired:
                    continue
        finally:
            process_signals.end(process, _END_S)
        if process.returncode == 0:
            return
        said.seek(0)
        lines = said.read().decode("utf-8", "replace").strip().splitlines()
    reason = next((line for line in reversed(lines) if line.startswith("ERROR:")), "")
    reason = sanitize(reason.removeprefix("ERROR:").strip().rstrip("."), 200)
    raise BackendError(
        f"{package} could not be installed: {reason or f'pip ended with {process.returncode}'}.",
        f"Install it with {install_command(package)}.",
    )


def _command(package: str) -> list[str]:
    options = ("--no-input", "--disable-pip-version-check")
    return [training_python(), "-m", "pip", "install", *options, package]
