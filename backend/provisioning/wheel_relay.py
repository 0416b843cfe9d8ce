"""Delivery of wheels to several nodes: from the desktop to the data root once, then to each node.

A desktop has one connection to all of them, often a slow one, and encrypts each byte that it sends:
226 MB take a second of its processor, and eight nodes eight. If a node cannot take a wheel from the
data root, it is sent to the node. It cannot come from another node: there the cluster's key starts
training runs and opens no files (`backend.node.agent.ssh_command_filter`).
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable
from pathlib import Path, PurePosixPath

from backend.base.errors import BackendError, Cancelled
from backend.base.log import suppress
from backend.provisioning.step_reporter import StepReporter
from backend.provisioning.wheelhouse import Wheel
from backend.records.base.layout import NodeHome
from backend.ssh.interface import Machine

LEAST_NODES = 3
"""With fewer nodes, the way over the data root is longer."""
_PREFIX = ".relay-"
_ABANDONED_MINUTES = 60
_COPY_LIMIT_S = 600.0


class Relay:
    """One set-up of several nodes; every method may be called on the thread of any node."""

    def __init__(self) -> None:
        self._folder = f"{_PREFIX}{secrets.token_hex(4)}"
        self._lock = threading.Lock()
        self._locks: dict[Wheel, threading.Lock] = {}
        self._stored_wheels: set[Wheel] = set()
        self.used_by = ""
        """The data root, at its path on a node that has put wheels there."""

    def bring(
        self,
        shell: Machine,
        steps: StepReporter,
        data_root: str,
        source: Path,
        wheel: Wheel,
        target: str,
        on_bytes: Callable[[int, int], None],
    ) -> int | None:
        """Bring a wheel to ``target`` on a node; return the bytes sent by this desktop.

        None: it has to be sent, because the data root cannot be used for it.
        """
        folder = self._relay_folder(data_root)
        relay_path = f"{folder}/{wheel.name}"
        sent_bytes = 0
        with self._lock:
            lock = self._locks.setdefault(wheel, threading.Lock())
        if lock.locked():
            steps.show_message(f"Waiting for another node, which gets {wheel.package} for all")
        with lock:
            if wheel not in self._stored_wheels:
                try:
                    self._prepare(shell, steps, folder, data_root)
                    shell.send(source, relay_path, on_bytes)
                except Cancelled:
                    raise
                except BackendError as error:
                    steps.add_line(f"{folder}: {error.message}")
                    return None
                sent_bytes = wheel.bytes
                self._stored_wheels.add(wheel)
        steps.show_message(f"Copying {wheel.package} from the data root")
        answer = steps.run_command(shell, ["cp", "--", relay_path, target], _COPY_LIMIT_S)
        return sent_bytes if answer.ok else None

    def clear(self, shell: Machine) -> None:
        """Remove the wheels from the data root; a later set-up removes what cannot be reached."""
        with suppress(BackendError):
            shell.run(
                ["rm", "-rf", "--", str(self._relay_folder(self.used_by))], limit_s=_COPY_LIMIT_S
            )

    def _relay_folder(self, data_root: str) -> PurePosixPath:
        return NodeHome.shared_in(PurePosixPath(data_root)).path / self._folder

    def _prepare(
        self, shell: Machine, steps: StepReporter, folder: PurePosixPath, data_root: str
    ) -> None:
        if self.used_by:
            return
        steps.require_output(shell, ["mkdir", "-p", "--", str(folder)], f"{folder} cannot be made")
        self.used_by = data_root
        age_filter = ["-name", f"{_PREFIX}*", "-mmin", f"+{_ABANDONED_MINUTES}"]
        find = ["find", str(folder.parent), "-mindepth", "1", "-maxdepth", "1", *age_filter]
        steps.run_command(shell, [*find, "-exec", "rm", "-rf", "--", "{}", "+"], 300)
