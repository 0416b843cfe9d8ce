"""The SSH section of the settings: the keys for logging in, and the trusted hosts."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal, Slot
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QWidget

from backend.records.nodes.entry import HostKey, SshOverview
from widgets.common import formats
from widgets.common.buttons import Button
from widgets.common.fields import ComboBox
from widgets.common.labels import Label
from widgets.common.layout import clear, col, row
from widgets.common.theme import S1, S2, S3
from widgets.shell.settings_rows import SettingsRow, path_line

_HOSTS_W = 220
_PASSPHRASE_NOTE = "Kept until you quit, or in the system keyring if you tick it."


class SshSettings(QWidget):
    """Details of SSH, and one action: to forget the key of a host.

    Signals:
        details_requested: The section is visible; answer with `show_details` or `show_error`.
        forget_requested: A `HostKey`: no longer accept the keys of its host and port.
        path_opened: A path, for the file manager.
    """

    details_requested = Signal()
    forget_requested = Signal(HostKey)
    path_opened = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._keys: dict[str, HostKey] = {}
        self._login_keys = Label("Reading…", "small", "text2", wrap=True)
        self._paths = col(gap=0)
        self._hosts = ComboBox(name="Host with an accepted key")
        self._hosts.setFixedWidth(_HOSTS_W)
        self._hosts.currentIndexChanged.connect(self._show_fingerprint)
        self._forget = Button(
            "Forget", tip="The next connection to this host asks for its key again"
        )
        self._forget.clicked.connect(self._request_forget)
        control = QWidget()
        control.setLayout(row(self._hosts, self._forget, gap=S2))
        self._hosts_row = SettingsRow("Accepted host keys", "–", control)
        self._hosts_row.description.setTextInteractionFlags(
            Qt.TextInteractionFlag.TextSelectableByMouse
        )
        self._passphrases = Label("", "small", "text2", wrap=True)
        self.setLayout(
            col(
                col(Label("Keys", "body"), self._login_keys, gap=S1),
                col(Label("Passphrases", "body"), self._passphrases, gap=S1),
                self._hosts_row,
                self._paths,
                gap=S3,
            )
        )
        self._hosts_row.show_separator()
        self._show_keys(())

    def show_details(self, details: SshOverview) -> None:
        self._login_keys.set_color_role("text2")
        self._login_keys.setText(_login_keys_text(details))
        passphrase_count = formats.plural(details.passphrases, "passphrase")
        passphrase_state = (
            f"{passphrase_count} {'is' if details.passphrases == 1 else 'are'} kept now."
            * bool(details.passphrases)
        )
        self._passphrases.setText(
            " ".join(filter(None, (_PASSPHRASE_NOTE, passphrase_state, details.keyring_error)))
        )
        self._show_keys(details.accepted_keys)
        clear(self._paths)
        for caption, path in (
            ("File of accepted host keys", details.known_hosts),
            ("SSH client settings", details.config),
        ):
            self._paths.addLayout(path_line(caption, path, self.path_opened.emit))

    def show_error(self, message: str) -> None:
        """Show why the details could not be read."""
        self._login_keys.set_color_role("bad")
        self._login_keys.setText(message)

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self.details_requested.emit()

    def _show_keys(self, keys: tuple[HostKey, ...]) -> None:
        self._keys = {f"{key.host}:{key.port}": key for key in keys}
        self._hosts.set_options((address, _host_label(key)) for address, key in self._keys.items())
        for part in (self._hosts, self._forget):
            part.setVisible(bool(keys))
        self._show_fingerprint()

    @Slot()
    def _show_fingerprint(self) -> None:
        key = self._keys.get(self._hosts.key())
        empty_text = "None yet. Each host is confirmed once, when it is added."
        self._hosts_row.description.setText(f"{key.kind} {key.fingerprint}" if key else empty_text)

    @Slot()
    def _request_forget(self) -> None:
        key = self._keys.get(self._hosts.key())
        if key is not None:
            self.forget_requested.emit(key)


def _host_label(key: HostKey) -> str:
    return key.host if key.port == 22 else f"{key.host}, port {key.port}"


def _login_keys_text(details: SshOverview) -> str:
    agent_key_count = details.agent_keys
    agent = "No SSH agent is running"
    if agent_key_count is not None:
        agent = f"The SSH agent holds {formats.plural(agent_key_count, 'key')}"
    files = f"the key files {formats.join_names(details.keys)} are" if len(details.keys) > 1 else ""
    if len(details.keys) == 1:
        files = f"the key file {details.keys[0]} is"
    text = f"{agent}; {files} tried." if files else f"{agent}; there is no key file in ~/.ssh."
    config_note = " Nodes and ~/.ssh/config can specify other keys."
    return text + config_note
