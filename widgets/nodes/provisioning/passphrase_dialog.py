"""Ask for the passphrase of the SSH key for the data root."""

from __future__ import annotations

from PySide6.QtCore import Signal, Slot
from PySide6.QtWidgets import QWidget

from widgets.common.dialog import Dialog
from widgets.nodes.provisioning.host_key_pages import PassphrasePage

_WIDTH = 480


class PassphraseDialog(Dialog):
    """The page `PassphrasePage` in a dialog of its own.

    Signals:
        passphrase_given: The typed text, and True to store it in the system keyring.
    """

    passphrase_given = Signal(str, bool)

    def __init__(self, identity: str, refusal: str = "", parent: QWidget | None = None) -> None:
        super().__init__("Passphrase for the data root's SSH key", _WIDTH, parent)
        self.page = PassphrasePage()
        self.page.passphrase_given.connect(self._accept_passphrase)
        self.page.back_requested.connect(self.reject)
        self.page.default.setDefault(True)
        self.fill(self.page)
        self.page.ask(f"Passphrase for {identity}", refusal)
        self.page.edit.setFocus()

    def show_keyring(self, reason: str) -> None:
        """Set whether the passphrase can be stored: "", or the reason why not."""
        self.page.show_keyring(reason)

    @Slot(str, bool)
    def _accept_passphrase(self, passphrase: str, is_stored: bool) -> None:
        self.passphrase_given.emit(passphrase, is_stored)
        self.accept()
