"""The SSH section of the settings: this computer's keys and the hosts it trusts."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Slot

from app.runtime.background import Runner
from app.runtime.controller import Controller
from backend.records.nodes.entry import HostKey
from widgets.shell.ssh_settings import SshSettings

if TYPE_CHECKING:
    from backend.services.nodes.registry import NodeRegistry

_QUEUE = "ssh settings"


class SshController(Controller):
    """Serve the SSH section of the settings while a data root is open."""

    def __init__(
        self, cluster: NodeRegistry, runner: Runner, page: SshSettings, parent: QObject
    ) -> None:
        super().__init__(runner, parent)
        self._cluster = cluster
        self._page = page
        page.details_requested.connect(self.refresh)
        page.forget_requested.connect(self._remove_host_key)
        if page.isVisible():
            self.refresh()

    @Slot()
    def refresh(self) -> None:
        """Read the keys and hosts again."""
        page = self._page
        self.serve(_QUEUE, self._cluster.ssh_overview, page.show_details, page.show_error)

    @Slot(HostKey)
    def _remove_host_key(self, key: HostKey) -> None:
        def report_removal(_count: int) -> None:
            self._runner.notify(
                f"The next connection to {key.host} will ask you to confirm its key"
            )
            self.refresh()

        remove = partial(self._cluster.remove_host_key, key.host, key.port)
        self.serve(_QUEUE, remove, report_removal)
