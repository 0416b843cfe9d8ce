"""Open the data root and its catalogue, and ask the user about what prevents it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal, Slot
from PySide6.QtWidgets import QWidget

from app.runtime.background import Runner
from backend.base import log
from backend.base.errors import BackendError
from backend.base.log import suppress
from backend.records.base.remote_root import RemoteRoot
from widgets.common.cards import EmptyState
from widgets.common.dialog import DialogHolder

if TYPE_CHECKING:
    from backend.records.nodes.entry import HostKey
    from backend.services.context.container import Services
    from widgets.nodes.provisioning.host_key_pages import PassphraseDialog

_COMPARE_KEY = (
    "Compare it with the output of ssh-keygen -lf /etc/ssh/ssh_host_*_key.pub on that computer, "
    "or ask its administrator."
)


class DataRootOpener(QObject):
    """Opener of the data root; an error is shown on a page of its own, with one button.

    Attributes:
        unknown_key: The key of the data root's host, while the user is asked to accept it.

    Signals:
        services_opened: The `Services`.
        open_failed: Show the page with the reason.
    """

    services_opened = Signal(object)
    open_failed = Signal()

    def __init__(
        self,
        data_root: Path | RemoteRoot,
        catalogue: Path | None,
        runner: Runner,
        window: QWidget,
        parent: QObject,
    ) -> None:
        super().__init__(parent)
        self._data_root = data_root
        self._catalogue = catalogue
        self._runner = runner
        self._window = window
        self._page: EmptyState | None = None
        self._sets_aside = False
        self.unknown_key: HostKey | None = None
        self._locked_key = ""
        self._passphrase = ""
        self._keeps_passphrase = False
        self._has_given_passphrase = False
        self._dialog: DialogHolder[PassphraseDialog] = DialogHolder()

    def start(self, page: EmptyState) -> None:
        """Open on a worker; ``page`` shows an error."""
        self._page = page
        page.pressed.connect(self._try_again)
        self._open()

    def show_error(self, error: BackendError) -> None:
        """Show why the data root or the catalogue cannot be used, and the way out."""
        self._sets_aside = bool(getattr(error, "is_damaged", False))
        self.unknown_key = getattr(error, "key", None) if _is_question(error) else None
        self._locked_key = str(getattr(error, "identity", ""))
        button = "Set it aside and build a new one" if self._sets_aside else "Try again"
        remedy = error.remedy
        if self.unknown_key is not None:
            button = "The fingerprint matches: accept the key"
            # The error's own remedy is an option of the command line.
            remedy = _COMPARE_KEY
        elif self._locked_key:
            button = "Enter the passphrase"
        if self._page is not None:
            self._page.show_message("warning-octagon", str(error), remedy, button=button)
        self.open_failed.emit()

    def _open(self) -> None:
        self._runner.run("open", self._open_services, self.services_opened.emit, self.show_error)

    def _open_services(self) -> Services:
        # On the worker, because it takes longer than the first frame; it defines no class of Qt.
        from backend.services.context.container import open_services

        accepted_key, self.unknown_key = self.unknown_key, None
        passphrase, self._passphrase = self._passphrase, ""
        keeps_passphrase, self._keeps_passphrase = self._keeps_passphrase, False
        services = open_services(
            self._data_root,
            self._catalogue,
            accept=lambda key: key == accepted_key,
            passphrase=(lambda _identity: passphrase) if passphrase else None,
        )
        if passphrase and keeps_passphrase:
            # A keyring that stays locked must not block a data root that is open now.
            with suppress(BackendError):
                services.cluster.keep_passphrase(self._locked_key)
        # None is imported or made later, in the thread of the window.
        return services.make_all()

    @Slot()
    def _try_again(self) -> None:
        if self._locked_key and not self._passphrase:
            self._ask_passphrase()
        elif self._sets_aside:
            self._runner.run("open", self._set_aside, self.services_opened.emit, self.show_error)
        else:
            self._open()

    def _set_aside(self) -> Services:
        from backend.services.context.container import set_catalogue_aside

        set_catalogue_aside(self._data_root, self._catalogue)
        return self._open_services()

    def _ask_passphrase(self) -> None:
        from backend.ssh.system_keyring import SystemKeyring
        from widgets.nodes.provisioning.host_key_pages import PassphraseDialog

        refusal = "That passphrase is wrong." if self._has_given_passphrase else ""
        dialog = PassphraseDialog(self._locked_key, refusal, self._window)

        def use_passphrase(passphrase: str, keep: bool) -> None:
            self._passphrase, self._keeps_passphrase = passphrase, keep
            self._has_given_passphrase = True
            self._try_again()

        dialog.passphrase_given.connect(use_passphrase)
        self._runner.run(
            "keyring", SystemKeyring().unavailable_reason, self._report_keyring, log.swallowed
        )
        self._dialog.open(dialog)

    def _report_keyring(self, keyring_error: str) -> None:
        if self._dialog.dialog is not None:
            self._dialog.dialog.show_keyring(keyring_error)


def _is_question(error: BackendError) -> bool:
    """Return True if the user may accept the key of this error; a changed key is never accepted."""
    from backend.ssh.interface import HostKeyUnknown

    return isinstance(error, HostKeyUnknown)
