"""Install a package that a loader or a model needs, for the Python of this computer."""

from __future__ import annotations

import re
import shlex

from backend.base.errors import BackendError
from backend.base.progress import Progress
from backend.provisioning.wheelhouse import run_pip
from backend.records.base.validation import sanitize
from backend.services.tools.training_python import training_python

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


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

    def cancelled() -> bool:
        progress.step(0, 0, f"Installing {package}")
        return False

    code, output = run_pip(_command(package), lambda _line: None, cancelled)
    if code == 0:
        return
    lines = output.splitlines()
    reason = next((line for line in reversed(lines) if line.startswith("ERROR:")), "")
    reason = sanitize(reason.removeprefix("ERROR:").strip().rstrip("."), 200)
    raise BackendError(
        f"{package} could not be installed: {reason or f'pip ended with {code}'}.",
        f"Install it with {install_command(package)}.",
    )


def _command(package: str) -> list[str]:
    options = ("--no-input", "--disable-pip-version-check")
    return [training_python(), "-m", "pip", "install", *options, package]
