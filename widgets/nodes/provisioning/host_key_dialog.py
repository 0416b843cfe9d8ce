"""Ask about the host key of a node."""

from __future__ import annotations

from PySide6.QtCore import Signal, Slot
from PySide6.QtWidgets import QWidget

from backend.records.nodes.entry import HostKey
from widgets.common.auto_height_dialog import FittedDialog
from widgets.common.labels import Label
from widgets.common.layout import col
from widgets.common.theme import S3, S4, S6
from widgets.nodes.provisioning.host_key_pages import TrustPage

_WIDTH = 480


class HostKeyDialog(FittedDialog):
    """The page `TrustPage` in a dialog of its own.

    Signals:
        trusted: The `HostKey`.
    """

    trusted = Signal(object)

    def __init__(self, key: HostKey, parent: QWidget | None = None) -> None:
        super().__init__(f"Is this {key.host}?", _WIDTH, parent)
        self.page = TrustPage()
        self.page.trusted.connect(self._trust)
        self.page.refused.connect(self.reject)
        self.page.default.setDefault(True)
        title = Label(f"Is this {key.host}?", "title", elide="middle")
        self.setLayout(col(title, self.page, gap=S3, margins=(S6, S4, S6, S4)))
        self.page.ask(key)
        self.page.default.setFocus()

    @Slot(object)
    def _trust(self, key: HostKey) -> None:
        self.trusted.emit(key)
        self.accept()
