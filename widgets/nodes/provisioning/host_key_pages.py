"""Questions of an SSH connection: a new host key, a changed host key, a passphrase."""

from __future__ import annotations

from PySide6.QtCore import Signal, Slot
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QLineEdit, QWidget

from backend.records.base.program_name import to_remove
from backend.records.nodes.entry import HostKey
from widgets.common.banner import Banner
from widgets.common.buttons import Button, CheckBox, IconButton
from widgets.common.cards import StyledFrame
from widgets.common.fields import Field, LineEdit
from widgets.common.labels import IconLabel, Label
from widgets.common.layout import STRETCH, col, row
from widgets.common.theme import ICON_NAV, S2, S3

DEFAULT_PORT = 22


class TrustedKey(StyledFrame):
    """The line with the accepted host key of a node; hidden if there is none."""

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
        """Show its fingerprint, "" for none."""
        self._fingerprint.setText(fingerprint)
        self.setVisible(bool(fingerprint))


class TrustPage(QWidget):
    """The fingerprint of a host key that this computer has not seen. Enter does not trust it.

    Signals:
        trusted: The `HostKey`.
        refused: It is not trusted.

    Attributes:
        default: The button that Enter presses.
    """

    trusted = Signal(object)
    refused = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._key: HostKey | None = None
        self._words = Label("", "body", "text2", wrap=True)
        self._kind = Label("", "small", "text3")
        self.fingerprint = Label("", "mono", wrap=True, selectable=True)
        copy = IconButton("copy", "Copy the fingerprint")
        copy.clicked.connect(self._copy)
        plate = StyledFrame(
            "sunken",
            row(
                IconLabel("fingerprint", "text2", ICON_NAV),
                (col(self._kind, self.fingerprint, gap=2), 1),
                copy,
                margins=(S3, S2, S2, S2),
            ),
        )
        hint = Label("To print the fingerprint, run this on the node itself:", "small", "text2")
        self._command = Label("", "mono", "text2", selectable=True)
        self.trust = Button("Trust", tip="Remember this key for the node")
        self.trust.setAutoDefault(False)
        self.trust.clicked.connect(self._trust)
        self.default = Button("Do not trust", kind="primary")
        self.default.clicked.connect(self.refused)
        self.setLayout(
            col(
                self._words,
                plate,
                col(hint, self._command, gap=2),
                STRETCH,
                S2,
                row(STRETCH, self.trust, self.default, gap=S2),
                gap=S3,
            )
        )

    def ask(self, key: HostKey) -> None:
        self._key = key
        where = key.host if key.port in (0, DEFAULT_PORT) else f"{key.host}, port {key.port}"
        self._words.setText(
            f"First connection to {where}. Compare this fingerprint "
            "with the one its administrator gives you."
        )
        self._kind.setText(key.kind)
        self.fingerprint.setText(key.fingerprint)
        kind = key.kind.removeprefix("ssh-").partition("-")[0]
        self._command.setText(f"ssh-keygen -lf /etc/ssh/ssh_host_{kind}_key.pub")

    @Slot()
    def _trust(self) -> None:
        if self._key is not None:
            self.trusted.emit(self._key)

    @Slot()
    def _copy(self) -> None:
        QGuiApplication.clipboard().setText(self.fingerprint.text())


class ChangedKeyPage(QWidget):
    """A host showed another key than the known one: there is only Close.

    Signals:
        closed: Close the dialog.
    """

    closed = Signal()

    def __init__(self, then: str = "add the node again", parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._banner = Banner("bad", stacked=True)
        hint = (
            f"If its administrator confirms the change, forget the old key with this. Then {then}."
        )
        self._command = Label("", "mono", "text2", wrap=True, selectable=True)
        self._known = Label("", "mono", "text2", wrap=True, selectable=True)
        self._shown = Label("", "mono", "bad", wrap=True, selectable=True)
        self.default = Button("Close", kind="primary")
        self.default.clicked.connect(self.closed)
        self.setLayout(
            col(
                self._banner,
                col(Label("Previous key", "small", "text2"), self._known, gap=2),
                col(Label("Current key", "small", "text2"), self._shown, gap=2),
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
        self._known.setText(known_fingerprint)
        self._shown.setText(key.fingerprint)
        self._command.setText(to_remove(key.host, key.port))


class KeyPlate(QWidget):
    """The page for a new or changed key, inside a dialog with other content.

    Attributes:
        trust: Shown for a key that is not known.
    """

    def __init__(self, then: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.trust = TrustPage()
        self.changed = ChangedKeyPage(then)
        self.setLayout(col(self.trust, self.changed, gap=0))

    def show_key(self, key: HostKey, accepted: str = "") -> str:
        """Ask about a key, or report that it differs from ``accepted``; return the title."""
        self.trust.setVisible(not accepted)
        self.changed.setVisible(bool(accepted))
        if accepted:
            self.changed.show_changed_key(key, accepted)
        else:
            self.trust.ask(key)
        default = self.changed.default if accepted else self.trust.default
        default.setDefault(True)
        # A dialog that is fitted now would use the size of the previous content.
        for part in (self.trust, self.changed, self):
            part.updateGeometry()
        return f"The key of {key.host} changed" if accepted else f"Is this {key.host}?"


class PassphrasePage(QWidget):
    """A passphrase for a private key. It stays in the field only until it is handed over.

    Signals:
        given: The typed text, and True to store it in the system keyring.
        refused: The user cancelled.

    Attributes:
        default: The button that Enter presses.
    """

    given = Signal(str, bool)
    refused = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.edit = LineEdit(name="Passphrase")
        self.edit.setEchoMode(QLineEdit.EchoMode.Password)
        self.field = Field("Passphrase", self.edit, note="Kept in memory until the window closes.")
        self.keep = CheckBox("Store it in the system keyring")
        self.keep.setEnabled(False)
        self._why_not = Label("", "small", "text3", wrap=True)
        self._why_not.hide()
        self.default = Button("Unlock", kind="primary")
        self.default.setEnabled(False)
        self.default.clicked.connect(self._give)
        self.edit.textChanged.connect(self._changed)
        back = Button("Back")
        back.clicked.connect(self._back)
        keep = col(self.keep, self._why_not, gap=2)
        self.setLayout(col(self.field, keep, S2, row(STRETCH, back, self.default, gap=S2), gap=S3))

    def ask(self, what: str, refusal: str = "") -> None:
        self.edit.clear()
        self.field.set_label(what)
        self.field.set_error(refusal)

    def show_keyring(self, fault: str) -> None:
        """Set whether the system has a keyring: "", or why not."""
        self.keep.setEnabled(not fault)
        if fault:
            self.keep.setChecked(False)
        self._why_not.setText(fault)
        self._why_not.setVisible(bool(fault))

    @Slot(str)
    def _changed(self, text: str) -> None:
        self.default.setEnabled(bool(text))

    @Slot()
    def _give(self) -> None:
        text = self.edit.text()
        self.edit.clear()
        if text:
            self.given.emit(text, self.keep.isChecked())

    @Slot()
    def _back(self) -> None:
        self.edit.clear()
        self.refused.emit()
