"""The SSH section of the settings: the keys for logging in, and the trusted hosts."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal, Slot
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QVBoxLayout, QWidget

from backend.records.nodes.entry import HostKey, SshOverview
from widgets.common import formats
from widgets.common.buttons import Button
from widgets.common.fields import ComboBox
from widgets.common.labels import Label
from widgets.common.layout import clear, col, row
from widgets.common.theme import S1, S2, S3
from widgets.shell.settings_rows import SettingsRow, path_line

_HOSTS_W = 220
_KEPT = "Kept until you quit, or in the system keyring if you tick it."


class SshSettings(QWidget):
    """Facts, and one action: to forget the key of a host.

    Signals:
        opened: The section is visible; answer with `show_facts` or `show_error`.
        forget_requested: A `HostKey`: no longer accept the keys of its host and port.
        place_opened: A path, for the file manager.
    """

    details_requested = Signal()
    forget_requested = Signal(HostKey)
    path_opened = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._keys: dict[str, HostKey] = {}
        self._ways = Label("Reading…", "small", "text2", wrap=True)
        self._places = QVBoxLayout()
        self._places.setSpacing(0)
        self._hosts = ComboBox(name="Host with an accepted key")
        self._hosts.setFixedWidth(_HOSTS_W)
        self._hosts.currentIndexChanged.connect(self._show_fingerprint)
        self._forget = Button(
            "Forget", tip="The next connection to this host asks for its key again"
        )
        self._forget.clicked.connect(self._request_forget)
        control = QWidget()
        control.setLayout(row(self._hosts, self._forget, gap=S2))
        self._hosts_line = SettingsRow("Accepted host keys", "–", control)
        self._hosts_line.description.setTextInteractionFlags(
            Qt.TextInteractionFlag.TextSelectableByMouse
        )
        self._passphrases = Label("", "small", "text2", wrap=True)
        self.setLayout(
            col(
                col(Label("Keys", "body"), self._ways, gap=S1),
                col(Label("Passphrases", "body"), self._passphrases, gap=S1),
                self._hosts_line,
                self._places,
                gap=S3,
            )
        )
        self._hosts_line.set_ruled()
        self._show_keys(())

    def show_details(self, details: SshOverview) -> None:
        self._ways.set_color_role("text2")
        self._ways.setText(_ways(details))
        known = formats.plural(details.passphrases, "passphrase")
        now = f"{known} {'is' if details.passphrases == 1 else 'are'} kept now." * bool(
            details.passphrases
        )
        self._passphrases.setText(" ".join(filter(None, (_KEPT, now, details.keyring_error))))
        self._show_keys(details.accepted_keys)
        clear(self._places)
        for caption, path in (
            ("File of accepted host keys", details.known_hosts),
            ("SSH client settings", details.config),
        ):
            self._places.addLayout(path_line(caption, path, self.path_opened.emit))

    def show_error(self, message: str) -> None:
        """Show why the facts could not be read."""
        self._ways.set_color_role("bad")
        self._ways.setText(message)

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self.details_requested.emit()

    def _show_keys(self, keys: tuple[HostKey, ...]) -> None:
        self._keys = {f"{key.host}:{key.port}": key for key in keys}
        self._hosts.set_options((place, _name(key)) for place, key in self._keys.items())
        for part in (self._hosts, self._forget):
            part.setVisible(bool(keys))
        self._show_fingerprint()

    @Slot()
    def _show_fingerprint(self) -> None:
        key = self._keys.get(self._hosts.key())
        none = "None yet. Each host is confirmed once, when it is added."
        self._hosts_line.description.setText(f"{key.kind} {key.fingerprint}" if key else none)

    @Slot()
    def _request_forget(self) -> None:
        key = self._keys.get(self._hosts.key())
        if key is not None:
            self.forget_requested.emit(key)


def _name(key: HostKey) -> str:
    return key.host if key.port == 22 else f"{key.host}, port {key.port}"


def _ways(facts: SshOverview) -> str:
    held = facts.agent_keys
    agent = "No SSH agent is running"
    if held is not None:
        agent = f"The SSH agent holds {formats.plural(held, 'key')}"
    files = f"the key files {formats.join_names(facts.keys)} are" if len(facts.keys) > 1 else ""
    if len(facts.keys) == 1:
        files = f"the key file {facts.keys[0]} is"
    words = f"{agent}; {files} tried." if files else f"{agent}; there is no key file in ~/.ssh."
    named = " Nodes and ~/.ssh/config can specify other keys."
    return words + named
