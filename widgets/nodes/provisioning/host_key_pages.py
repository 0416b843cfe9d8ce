"""Questions of an SSH connection: a new host key, a changed host key, a passphrase."""

from __future__ import annotations

from PySide6.QtCore import Signal, Slot
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QLineEdit, QWidget

from backend.records.base.program_name import host_key_removal_command
from backend.records.nodes.entry import HostKey
from widgets.common.banner import Banner
from widgets.common.buttons import Button, CheckBox, IconButton
from widgets.common.cards import StyledFrame
from widgets.common.dialog import Dialog
from widgets.common.fields import Field, LineEdit
from widgets.common.labels import IconLabel, Label
from widgets.common.layout import STRETCH, col, row
from widgets.common.theme import ICON_NAV, S2, S3

DEFAULT_PORT = 22


class TrustedKey(StyledFrame):
    """The line with the accepted host key of a node; hidden without a key."""

    def __init__(self, parent: QWidget | None = None) -> None:
        self._fingerprint = Label("", "mono", "text2", elide="middle")
        super().__init__(
            "sunken",
            row(
                IconLabel("shield-check", "good", ICON_NAV),
                Label("Host key", "small_strong"),
                (self._fingerprint, 1),
                Label("trusted on this computer", "small", "text2"),
                gap=S2,
                margins=(S3, S2, S3, S2),
            ),
            parent,
        )
        self.hide()

    def show_key(self, fingerprint: str) -> None:
        """Show the fingerprint of the key, "" for none."""
        self._fingerprint.setText(fingerprint)
        self.setVisible(bool(fingerprint))


class TrustPage(QWidget):
    """The fingerprint of a host key that this computer has not seen. Enter does not trust it.

    Signals:
        key_trusted: The `HostKey`.
        key_refused: The user does not trust the key.

    Attributes:
        default: The button that Enter presses.
    """

    key_trusted = Signal(object)
    key_refused = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._key: HostKey | None = None
        self._explanation = Label("", "body", "text2", wrap=True)
        self._kind = Label("", "small", "text3")
        self.fingerprint = Label("", "mono", wrap=True, selectable=True)
        copy_button = IconButton("copy", "Copy the fingerprint")
        copy_button.clicked.connect(self._copy)
        fingerprint_frame = StyledFrame(
            "sunken",
            row(
                IconLabel("fingerprint", "text2", ICON_NAV),
                (col(self._kind, self.fingerprint, gap=2), 1),
                copy_button,
                margins=(S3, S2, S2, S2),
            ),
        )
        hint_label = Label(
            "To print the fingerprint, run this on the node itself:", "small", "text2"
        )
        self._command = Label("", "mono", "text2", selectable=True)
        self.trust = Button("Trust", tip="Remember this key for the node")
        self.trust.setAutoDefault(False)
        self.trust.clicked.connect(self._trust)
        self.default = Button("Do not trust", kind="primary")
        self.default.clicked.connect(self.key_refused)
        self.setLayout(
            col(
                self._explanation,
                fingerprint_frame,
                col(hint_label, self._command, gap=2),
                STRETCH,
                S2,
                row(STRETCH, self.trust, self.default, gap=S2),
                gap=S3,
            )
        )

    def ask(self, key: HostKey) -> None:
        self._key = key
        address = key.host if key.port in (0, DEFAULT_PORT) else f"{key.host}, port {key.port}"
        self._explanation.setText(
            f"First connection to {address}. Compare this fingerprint "
            "with the one its administrator gives you."
        )
        self._kind.setText(key.kind)
        self.fingerprint.setText(key.fingerprint)
        kind = key.kind.removeprefix("ssh-").partition("-")[0]
        self._command.setText(f"ssh-keygen -lf /etc/ssh/ssh_host_{kind}_key.pub")

    @Slot()
    def _trust(self) -> None:
        if self._key is not None:
            self.key_trusted.emit(self._key)

    @Slot()
    def _copy(self) -> None:
        QGuiApplication.clipboard().setText(self.fingerprint.text())


class ChangedKeyPage(QWidget):
    """A page for a host with another key than the known key: there is only Close.

    Signals:
        closed: Close the dialog.
    """

    closed = Signal()

    def __init__(
        self, next_step: str = "add the node again", parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._banner = Banner("bad", is_stacked=True)
        hint = (
            "If its administrator confirms the change, forget the old key with this. "
            f"Then {next_step}."
        )
        self._command = Label("", "mono", "text2", wrap=True, selectable=True)
        self._previous_key = Label("", "mono", "text2", wrap=True, selectable=True)
        self._current_key = Label("", "mono", "bad", wrap=True, selectable=True)
        self.default = Button("Close", kind="primary")
        self.default.clicked.connect(self.closed)
        self.setLayout(
            col(
                self._banner,
                col(Label("Previous key", "small", "text2"), self._previous_key, gap=2),
                col(Label("Current key", "small", "text2"), self._current_key, gap=2),
                col(Label(hint, "small", "text2", wrap=True), self._command, gap=2),
                STRETCH,
                S2,
                row(STRETCH, self.default),
                gap=S3,
            )
        )

    def show_changed_key(self, key: HostKey, known_fingerprint: str) -> None:
        self._banner.set_finding(
            "bad",
            f"{key.host} has a different key than before",
            "Either it was reinstalled, or someone is intercepting the connection. Nothing was "
            "sent. Ask its administrator.",
            icon="warning-octagon-fill",
        )
        self._previous_key.setText(known_fingerprint)
        self._current_key.setText(key.fingerprint)
        self._command.setText(host_key_removal_command(key.host, key.port))


class KeyPlate(QWidget):
    """The page for a new or changed key, inside a dialog with other content.

    Attributes:
        trust_page: Shown for a key that is not known.
    """

    def __init__(self, next_step: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.trust_page = TrustPage()
        self.changed_key_page = ChangedKeyPage(next_step)
        self.setLayout(col(self.trust_page, self.changed_key_page, gap=0))

    def show_key(self, key: HostKey, accepted_fingerprint: str = "") -> str:
        """Ask about a key, or report that it differs from the accepted key; return the title."""
        self.trust_page.setVisible(not accepted_fingerprint)
        self.changed_key_page.setVisible(bool(accepted_fingerprint))
        if accepted_fingerprint:
            self.changed_key_page.show_changed_key(key, accepted_fingerprint)
        else:
            self.trust_page.ask(key)
        default = self.changed_key_page.default if accepted_fingerprint else self.trust_page.default
        default.setDefault(True)
        # A dialog that is fitted now would use the size of the previous content.
        for widget in (self.trust_page, self.changed_key_page, self):
            widget.updateGeometry()
        return f"The key of {key.host} changed" if accepted_fingerprint else f"Is this {key.host}?"


class PassphrasePage(QWidget):
    """A passphrase for a private key. The field keeps the passphrase only until it is sent.

    Signals:
        passphrase_given: The typed text, and True to store it in the system keyring.
        back_requested: The user cancelled.

    Attributes:
        default: The button that Enter presses.
    """

    passphrase_given = Signal(str, bool)
    back_requested = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.edit = LineEdit(name="Passphrase")
        self.edit.setEchoMode(QLineEdit.EchoMode.Password)
        self.field = Field("Passphrase", self.edit, note="Kept in memory until the window closes.")
        self.store_box = CheckBox("Store it in the system keyring")
        self.store_box.setEnabled(False)
        self._keyring_reason = Label("", "small", "text3", wrap=True)
        self._keyring_reason.hide()
        self.default = Button("Unlock", kind="primary")
        self.default.setEnabled(False)
        self.default.clicked.connect(self._unlock)
        self.edit.textChanged.connect(lambda text: self.default.setEnabled(bool(text)))
        back_button = Button("Back")
        back_button.clicked.connect(self._request_back)
        store_column = col(self.store_box, self._keyring_reason, gap=2)
        self.setLayout(
            col(
                self.field,
                store_column,
                S2,
                row(STRETCH, back_button, self.default, gap=S2),
                gap=S3,
            )
        )

    def ask(self, prompt: str, refusal: str = "") -> None:
        self.edit.clear()
        self.field.set_label(prompt)
        self.field.set_error(refusal)

    def show_keyring(self, reason: str) -> None:
        """Set whether the system has a keyring: "", or why not."""
        self.store_box.setEnabled(not reason)
        if reason:
            self.store_box.setChecked(False)
        self._keyring_reason.setText(reason)
        self._keyring_reason.setVisible(bool(reason))

    @Slot()
    def _unlock(self) -> None:
        text = self.edit.text()
        self.edit.clear()
        if text:
            self.passphrase_given.emit(text, self.store_box.isChecked())

    @Slot()
    def _request_back(self) -> None:
        self.edit.clear()
        self.back_requested.emit()


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
