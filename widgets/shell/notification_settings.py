"""The notification settings: the events, and their channels besides this desktop."""

from __future__ import annotations

from dataclasses import dataclass, replace

from PySide6.QtCore import QSignalBlocker, Qt, Signal, Slot
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QLineEdit, QWidget

from backend.records.notifications.notification import (
    MAIL,
    PLAIN,
    PORTS,
    STARTTLS,
    TLS,
    WEBHOOK,
    Channels,
    Mail,
    mail_error,
    webhook_error,
)
from widgets.common.buttons import Button, Switch
from widgets.common.cards import Separator
from widgets.common.fields import ComboBox, Field, LineEdit, align_with_field
from widgets.common.labels import IconLabel, Label
from widgets.common.layout import col, row
from widgets.common.theme import ICON, S1, S2, S3, S4, ColorRole

_SECURITY = ((STARTTLS, "STARTTLS"), (TLS, "TLS"), (PLAIN, "None (trusted network)"))
_KEYRING_NOTE = "Stored in the system keyring of this computer."


@dataclass(frozen=True)
class ChannelTest:
    """A test of ``webhook`` or ``mail``; the password is None if none was typed."""

    kind: str
    channels: Channels
    password: str | None


class NoticeSettings(QWidget):
    """Settings of notifications. A field applies when it loses the focus; there is no button.

    Signals:
        channels_chosen: `Channels`, and a password or None if none was typed.
        test_requested: A `ChannelTest` to send.
        keyring_requested: The page was opened; answer with `show_keyring`.
    """

    keyring_requested = Signal()

    channels_chosen = Signal(Channels, object)
    test_requested = Signal(ChannelTest)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._channels = Channels()
        self.finished_switch = Switch(name="Notify when a job finishes")
        self.finished_switch.setChecked(True)
        self.tray_switch = Switch(name="Stay in the tray")
        self._tray_row = _switch_row(
            "Stay in the tray",
            "When you close the window, the program stays in the tray and still notifies you. "
            "Click its icon to open the window.",
            self.tray_switch,
        )
        self._from_nodes = Switch(name="Also from the nodes")
        self._from_nodes.toggled.connect(self._apply)
        self._no_tray_label = Label(
            "This desktop has no tray. The bell has the list of notifications.",
            "small",
            "text2",
            wrap=True,
        )
        self._make_webhook()
        self._make_mail()
        self.setLayout(
            col(
                _switch_row(
                    "Notify when a job finishes",
                    "Always notified: failures, lost jobs, stalls, and nodes that go offline "
                    "during a job.",
                    self.finished_switch,
                ),
                self._tray_row,
                self._no_tray_label,
                Separator(),
                row(
                    (self._webhook_field, 1), align_with_field(self._webhook_test), gap=S3, top=True
                ),
                self._webhook_result,
                Separator(),
                row((self._to_field, 3), (self._sender_field, 2), gap=S3, top=True),
                row(
                    (self._host_field, 3),
                    (self._port_field, 1),
                    (self._security_field, 2),
                    gap=S3,
                    top=True,
                ),
                row(
                    (self._user_field, 3),
                    (self._password_field, 3),
                    align_with_field(self._mail_test),
                    gap=S3,
                    top=True,
                ),
                self._mail_result,
                Separator(),
                _switch_row(
                    "Also from the nodes",
                    "Send notifications even when no window is open. Your addresses are then "
                    "stored on each node, readable only by you. Passwords never leave this "
                    "computer, so mail that needs a password is sent when the next window opens.",
                    self._from_nodes,
                ),
                gap=S3,
            )
        )
        self.show_tray(True)
        self._update_buttons()

    # -- input

    def show_finished(self, tells_finished: bool) -> None:
        with QSignalBlocker(self.finished_switch):
            self.finished_switch.setChecked(tells_finished)

    def show_stays_in_tray(self, stays_in_tray: bool) -> None:
        with QSignalBlocker(self.tray_switch):
            self.tray_switch.setChecked(stays_in_tray)

    def show_tray(self, is_available: bool) -> None:
        """Set whether the desktop has a tray."""
        self._no_tray_label.setVisible(not is_available)
        self._tray_row.setVisible(is_available)

    def show_channels(self, channels: Channels, has_password: bool) -> None:
        """Show the stored channels."""
        self._channels = channels
        self._webhook.setText(channels.webhook)
        mail = channels.mail
        if mail is not None or not self._typed_mail():
            mail = mail or Mail("", (), "")
            self._to.setText(", ".join(mail.to))
            self._sender.setText(mail.sender)
            self._host.setText(mail.host)
            self._user.setText(mail.user)
            with QSignalBlocker(self._security):
                self._security.choose(mail.security)
            is_default_port = mail.port == PORTS[mail.security]
            self._port.setText("" if is_default_port else str(mail.port))
        self._password.clear()
        self._password.setPlaceholderText("•" * 8 if has_password and channels.mail else "")
        with QSignalBlocker(self._from_nodes):
            self._from_nodes.setChecked(channels.from_nodes)
        self._update_buttons()

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self.keyring_requested.emit()

    def show_keyring(self, cause: str) -> None:
        """Show the cause why a password is kept only until the program ends, or ""."""
        note = f"{cause} The password is used until this window closes." if cause else _KEYRING_NOTE
        self._password_field.set_note(note, "warn" if cause else "text3")

    def show_test_result(self, kind: str, message: str, color_role: ColorRole) -> None:
        """Show the result of the last test, "" for none."""
        result = self._webhook_result if kind == WEBHOOK else self._mail_result
        result.show_result(message, color_role)
        test = self._webhook_test if kind == WEBHOOK else self._mail_test
        test.setText("Send a test")
        self._update_buttons()

    # -- construction

    def _make_webhook(self) -> None:
        self._webhook = LineEdit(placeholder="https://", name="Webhook", mono=True)
        # The address is a secret: the field hides it from onlookers.
        self._webhook.setEchoMode(QLineEdit.EchoMode.PasswordEchoOnEdit)
        self._webhook.editingFinished.connect(self._apply)
        self._webhook.textChanged.connect(self._update_buttons)
        self._webhook_field = Field(
            "Webhook",
            self._webhook,
            note="Receives the cause and the last lines of the log as JSON. Works with Slack, "
            "Mattermost and Teams.",
        )
        self._webhook_test = Button("Send a test")
        self._webhook_test.clicked.connect(lambda: self._request_test(WEBHOOK))
        self._webhook_result = _TestResult()

    def _make_mail(self) -> None:
        self._to = LineEdit(placeholder="you@lab.example", name="Mail to")
        self._sender = LineEdit(placeholder="ringmaster@lab.example", name="Mail from")
        self._host = LineEdit(placeholder="smtp.lab.example", name="Mail server")
        self._port = LineEdit(name="Port")
        self._security = ComboBox(_SECURITY, STARTTLS, name="Encryption")
        self._user = LineEdit(placeholder="none", name="User")
        self._password = LineEdit(name="Password")
        self._password.setEchoMode(QLineEdit.EchoMode.Password)
        for edit in (self._to, self._sender, self._host, self._port, self._user, self._password):
            edit.editingFinished.connect(self._apply)
            edit.textChanged.connect(self._update_buttons)
        self._security.currentIndexChanged.connect(self._apply)
        self._to_field = Field("Mail to", self._to, note="Separate several addresses by commas.")
        self._sender_field = Field("From", self._sender)
        self._host_field = Field("Mail server", self._host)
        self._port_field = Field("Port", self._port)
        self._security_field = Field("Encryption", self._security)
        self._user_field = Field("User", self._user, note="Only if the server requires one.")
        self._password_field = Field("Password", self._password, note=_KEYRING_NOTE)
        self._mail_test = Button("Send a test")
        self._mail_test.clicked.connect(lambda: self._request_test(MAIL))
        self._mail_result = _TestResult()

    # -- events

    def _typed_mail(self) -> bool:
        edits = (self._to, self._sender, self._host)
        return any(edit.text().strip() for edit in edits)

    def _typed_channels(self) -> Channels:
        """Return the content of the fields, valid or not."""
        mail = None
        if self._typed_mail():
            security = self._security.key()
            port = self._port.text().strip()
            mail = Mail(
                self._host.text().strip(),
                tuple(part.strip() for part in self._to.text().split(",") if part.strip()),
                self._sender.text().strip(),
                int(port) if port.isdecimal() else PORTS[security] if not port else 0,
                security,
                self._user.text().strip(),
            )
        return replace(
            self._channels,
            webhook=self._webhook.text().strip(),
            mail=mail,
            notifies_finished=self.finished_switch.isChecked(),
            from_nodes=self._from_nodes.isChecked(),
        )

    def _typed_password(self) -> str | None:
        return self._password.text() or None

    @Slot()
    def _apply(self) -> None:
        """Apply the valid part; the message of an incomplete part names the missing field."""
        channels = self._typed_channels()
        webhook_cause = webhook_error(channels.webhook) if channels.webhook else ""
        self._webhook_field.set_error(webhook_cause)
        mail_cause = mail_error(channels.mail) if channels.mail is not None else ""
        self._mail_result.show_result(f"Not used yet: {mail_cause}" if mail_cause else "", "warn")
        if webhook_cause:
            channels = replace(channels, webhook=self._channels.webhook)
        if mail_cause:
            channels = replace(channels, mail=self._channels.mail)
        password = self._typed_password()
        if channels != self._channels or (password is not None and not mail_cause):
            self._channels = channels
            self.channels_chosen.emit(channels, password)
        self._update_buttons()

    @Slot()
    def _update_buttons(self) -> None:
        channels = self._typed_channels()
        self._webhook_test.setEnabled(
            bool(channels.webhook) and not webhook_error(channels.webhook)
        )
        self._mail_test.setEnabled(channels.mail is not None and not mail_error(channels.mail))
        self._port.setPlaceholderText(str(PORTS[self._security.key()]))

    def _request_test(self, kind: str) -> None:
        test = self._webhook_test if kind == WEBHOOK else self._mail_test
        test.setText("Sending…")
        test.setEnabled(False)
        self.test_requested.emit(ChannelTest(kind, self._typed_channels(), self._typed_password()))


class _TestResult(QWidget):
    """The result of a test with its icon; hidden while it is empty."""

    def __init__(self) -> None:
        super().__init__()
        self._icon = IconLabel("info-fill", "text3", ICON)
        self._message = Label("", "small", "text2", wrap=True)
        self.setLayout(row(self._icon, (self._message, 1), gap=S2))
        self.hide()

    def show_result(self, message: str, color_role: ColorRole) -> None:
        icon = {"good": "check-circle-fill", "warn": "warning-fill", "bad": "x-circle-fill"}
        self._icon.set_icon(icon.get(color_role, "info-fill"), color_role)
        self._message.setText(message)
        self.setVisible(bool(message))


def _switch_row(title: str, description: str, control: QWidget) -> QWidget:
    holder = QWidget()
    texts = col(Label(title, "body"), Label(description, "small", "text2", wrap=True), gap=S1)
    line = row((texts, 1), control, gap=S4)
    line.setAlignment(control, Qt.AlignmentFlag.AlignVCenter)
    holder.setLayout(line)
    return holder
