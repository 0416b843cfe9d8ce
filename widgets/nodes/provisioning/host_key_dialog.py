"""Ask about the host key of a node."""

from __future__ import annotations

from PySide6.QtCore import Signal, Slot
from PySide6.QtWidgets import QWidget

from backend.records.nodes.entry import HostKey
from widgets.common.dialog import Dialog
from widgets.common.labels import Label
from widgets.nodes.provisioning.host_key_pages import TrustPage

_WIDTH = 480


class HostKeyDialog(Dialog):
    """The page `TrustPage` in a dialog of its own.

    Signals:
        key_trusted: The `HostKey`.
    """

    key_trusted = Signal(object)

    def __init__(self, key: HostKey, parent: QWidget | None = None) -> None:
        super().__init__(f"Is this {key.host}?", _WIDTH, parent)
        self.page = TrustPage()
        self.page.key_trusted.connect(self._trust)
        self.page.key_refused.connect(self.reject)
        self.page.default.setDefault(True)
        self.fill(self.page, head=Label(f"Is this {key.host}?", "title", elide="middle"))
        self.page.ask(key)
        self.page.default.setFocus()

    @Slot(object)
    def _trust(self, key: HostKey) -> None:
        self.key_trusted.emit(key)
        self.accept()
