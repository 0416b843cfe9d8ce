"""Install a package that a loader or a model needs, on this computer and on nodes."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace

from backend.base.errors import BackendError
from backend.base.progress import Progress
from backend.provisioning.wheelhouse import run_pip
from backend.records.base.validation import sanitize
from backend.records.jobs.placement import THIS_COMPUTER
from backend.records.library.packages import is_package_name
from backend.records.nodes.entry import NodeEntry, SetUp
from backend.records.nodes.provisioning_options import SetUpOptions, options_of
from backend.services.nodes.provisioning import ProvisioningService
from backend.services.nodes.registry import NodeRegistry
from backend.services.tools.training_python import training_python


class PackageService:
    """Installs packages where jobs run. Every call blocks and may run on any thread."""

    def __init__(self, cluster: NodeRegistry, provisioning: ProvisioningService) -> None:
        self._cluster = cluster
        self._provisioning = provisioning

    def install(self, package: str, nodes: Sequence[str], progress: Progress) -> None:
        """Install a package and its dependencies on nodes, or on this computer.

        Another set-up of a node installs the package again.

        Raises:
            BackendError: The name is invalid, or the package could not be installed everywhere.
            Cancelled: By ``progress``.
        """
        _require_name(package)
        if THIS_COMPUTER in nodes:
            install_package(package, progress)
        names_by_options: dict[SetUpOptions, list[str]] = {}
        for name in nodes:
            if name != THIS_COMPUTER:
                options = replace(options_of(self._cluster.entry(name)), packages=(package,))
                names_by_options.setdefault(options, []).append(name)

        def report(state: SetUp) -> None:
            progress.report(0, 0, f"Installing {package} on {state.node}")

        for options, names in names_by_options.items():
            results = self._provisioning.set_up(
                names, report, lambda _: progress.is_cancelled, options
            )
            for name, outcome in results.items():
                if not isinstance(outcome, NodeEntry):
                    message = f"{package} is not installed on {name}: {outcome.message}"
                    raise BackendError(message, outcome.remedy)


def _require_name(package: str) -> None:
    # The name may come from a process that ran user code: it must not be an option of pip.
    if not is_package_name(package):
        raise BackendError(
            f"“{sanitize(package, 60)}” is not the name of a package.",
            "A name has letters, digits, dots, hyphens and underscores.",
        )


def install_command(package: str) -> str:
    """Return the command that installs a package, to be pasted into a shell."""
    return shlex.join(_command(package))


def install_package(package: str, progress: Progress) -> None:
    """Install a package by pip.

    Raises:
        BackendError: The name is invalid, or pip failed; the remedy has the command.
        Cancelled: By ``progress``.
    """
    _require_name(package)

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
