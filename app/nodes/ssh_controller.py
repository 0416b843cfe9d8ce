"""The SSH section of the settings: this computer's keys and the hosts it trusts."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Slot

from app.runtime.background import Runner
from backend.base.errors import BackendError
from backend.records.nodes.entry import HostKey
from widgets.shell.ssh_settings import SshSettings

if TYPE_CHECKING:
    from backend.services.nodes.registry import NodeRegistry

_QUEUE = "ssh settings"


class SshController(QObject):
    """Serve the SSH section of the settings while a data root is open."""

    def __init__(
        self, cluster: NodeRegistry, runner: Runner, page: SshSettings, parent: QObject
    ) -> None:
        super().__init__(parent)
        self._cluster = cluster
        self._runner = runner
        self._page = page
        page.details_requested.connect(self.refresh)
        page.forget_requested.connect(self._remove_host_key)
        if page.isVisible():
            self.refresh()

    @Slot()
    def refresh(self) -> None:
        """Read the keys and hosts again."""
        self._runner.run(
            _QUEUE, self._cluster.ssh_overview, self._page.show_details, self._show_error
        )

    def _show_error(self, error: BackendError) -> None:
        self._page.show_error(error.with_remedy)

    @Slot(HostKey)
    def _remove_host_key(self, key: HostKey) -> None:
        def report_removal(_count: int) -> None:
            self._runner.notify(
                f"The next connection to {key.host} will ask you to confirm its key"
            )
            self.refresh()

        self._runner.run(
            _QUEUE,
            partial(self._cluster.remove_host_key, key.host, key.port),
            report_removal,
            lambda error: self._runner.notify(error.with_remedy),
        )
