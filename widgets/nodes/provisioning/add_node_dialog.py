"""Add a node: its address, its host key, and any other question of SSH.

Enter never trusts a host key, and a changed key cannot be trusted here.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePath

from PySide6.QtCore import Signal, Slot
from PySide6.QtWidgets import QFileDialog, QWidget

from backend.records.base.validation import name_error
from backend.records.nodes.entry import HostKey, NodeAddress
from backend.records.nodes.provisioning_options import SHARED, SetUpOptions
from widgets.common.buttons import Button, IconButton, Switch
from widgets.common.dialog import Dialog
from widgets.common.fields import Field, LineEdit, align_with_field
from widgets.common.labels import Label
from widgets.common.layout import STRETCH, col, fit_height, row
from widgets.common.task_status import TaskStatus
from widgets.common.theme import S1, S2, S3
from widgets.nodes.provisioning.host_key_pages import (
    DEFAULT_PORT,
    ChangedKeyPage,
    PassphrasePage,
    TrustPage,
)
from widgets.nodes.provisioning.options_form import OptionsForm

_WIDTH = 540
_PORT_W = 96
FIELDS = ("host", "name", "port", "user", "identity", "jump", "data_root")
"""The fields that a refusal can concern; "" concerns none."""
_MORE = ("jump", "data_root")
"""Fields that are rarely needed."""


def host_fault(host: str) -> str:
    """Return why this cannot be an OpenSSH host, or ""."""
    if not host:
        return "Enter a host name, an address, or a Host of ~/.ssh/config."
    if any(c.isspace() for c in host) or host.startswith("-") or "@" in host or "/" in host:
        return "Enter the host name only; put the user in User."
    return ""


def suggested_name(host: str) -> str:
    """The default name of a node: the host without its domain."""
    head = host.partition(".")[0]
    return host if head.isdecimal() or not head or ":" in host else head


@dataclass(frozen=True)
class NodeRequest:
    """A node to add. ``data_root`` is its path there, "" for the same path as here."""

    address: NodeAddress
    name: str
    data_root: str = ""
    no_share: bool = False


class AddNodeDialog(Dialog):
    """The form, then the questions of SSH.

    Signals:
        inspection_requested: A `NodeRequest`; answer with `show_progress`, then with one of
            `ask_trust`, `show_changed_key`, `ask_passphrase`, `show_refusal`, or `accept` once the
            node is added.
        trusted: The `HostKey` of `ask_trust`; continue.
        passphrase_given: The typed text, and True to store it in the system keyring. The dialog
        does not store it: the field is emptied at once.
        cancelled: Cancel the running work.

    Attributes:
        choices: How the node is set up.
    """

    inspection_requested = Signal(NodeRequest)
    trusted = Signal(object)
    passphrase_given = Signal(str, bool)
    cancelled = Signal()

    def __init__(
        self,
        taken: Collection[str] = (),
        parent: QWidget | None = None,
        options: SetUpOptions | None = None,
    ) -> None:
        """Build the dialog.

        Args:
            taken: Names of the existing nodes.
            options: The default options of the set-up.
        """
        super().__init__("Add a node", _WIDTH, parent)
        self._taken = {name.casefold() for name in taken}
        self._under_way = False
        self._refusals: dict[str, str] = {}
        self.choices = OptionsForm()
        self.choices.show_options(options or SetUpOptions())
        self._title = Label("Add a node", "title", elide="right")
        self._form = self._make_form()
        self._trust = TrustPage()
        self._trust.trusted.connect(self._pass_trust)
        self._trust.refused.connect(self._back_to_form)
        self._changed = ChangedKeyPage()
        self._changed.closed.connect(self.reject)
        self._passphrase = PassphrasePage()
        self._passphrase.given.connect(self._pass_passphrase)
        self._passphrase.refused.connect(self._back_to_form)
        self._pages = (self._form, self._trust, self._changed, self._passphrase)
        self.fill(*self._pages, head=self._title)
        self._show_page(self._form)
        self._host.setFocus()

    # -- Answers of the controller.

    def show_progress(self, text: str, share: float | None = None) -> None:
        """Show the current step ("Connecting to gpu13"); the form is disabled, Cancel is not."""
        self._under_way = True
        self._refusals.clear()
        self._status.show_progress(share, text)
        # Before the fields are disabled: otherwise Qt passes the focus through all of them.
        self._cancel.setFocus()
        self._show_page(self._form)

    def ask_trust(self, key: HostKey) -> None:
        """Ask about a host key that this computer has not seen."""
        self._under_way = False
        self._trust.ask(key)
        self._show_page(self._trust, f"Is this {key.host}?")
        self._trust.default.setFocus()

    def show_changed_key(self, key: HostKey, known_fingerprint: str) -> None:
        """Show that the host key changed; the only way on is Close."""
        self._under_way = False
        self._changed.show_changed_key(key, known_fingerprint)
        self._show_page(self._changed, f"The key of {key.host} changed")
        self._changed.default.setFocus()

    def ask_passphrase(self, what: str, refusal: str = "") -> None:
        """Ask for the passphrase of the private key, or the password of the account.

        Args:
            what: "Passphrase for ~/.ssh/id_ed25519".
            refusal: Why the last one was rejected.
        """
        self._under_way = False
        self._passphrase.ask(what, refusal)
        self._show_page(self._passphrase, f"Unlock the connection to {self._host.text().strip()}")
        self._passphrase.edit.setFocus()

    def show_keyring(self, fault: str) -> None:
        """Set whether a passphrase can be stored: "", or the reason why not."""
        self._passphrase.show_keyring(fault)

    def show_refusal(self, field: str, sentence: str, remedy: str = "") -> None:
        """Show a failure. `field` is one of `FIELDS`, or "" if it concerns none."""
        self._under_way = False
        text = f"{sentence} {remedy}".strip()
        known = field in FIELDS
        self._refusals = {field: text} if known else {}
        self._status.show_result("bad", "" if known else text)
        if field in _MORE:
            self._show_more(True)
        self._show_page(self._form)
        self._edits[field if known else "host"].setFocus()

    def reject(self) -> None:
        if self._under_way or self._form.isHidden():
            self._under_way = False
            self.cancelled.emit()
        super().reject()

    # -- The form.

    def _make_form(self) -> QWidget:
        self._host = LineEdit(placeholder="gpu13 or 10.0.4.23", name="Host")
        self._name = LineEdit(placeholder="gpu13", name="Name")
        self._port = LineEdit(placeholder=str(DEFAULT_PORT), name="Port")
        self._user = LineEdit(
            placeholder="from ~/.ssh/config, or your own",
            name="User",
        )
        self._identity = LineEdit(placeholder="the SSH agent and your own keys", name="Key file")
        self._jump = LineEdit(placeholder="user@gateway, as ProxyJump", name="Jump host")
        self._data_root = LineEdit(placeholder="same path as here", name="Data root on the node")
        edits = (
            *(self._host, self._name, self._port, self._user),
            *(self._identity, self._jump, self._data_root),
        )
        self._edits = dict(zip(FIELDS, edits, strict=True))
        self._fields = {
            "host": Field("Host", self._host),
            "name": Field("Name", self._name),
            "port": Field("Port", self._port),
            "user": Field("User", self._user),
            "identity": Field("Key file", self._identity),
            "jump": Field("Jump host", self._jump),
            "data_root": Field("Data root on the node", self._data_root),
        }
        self._fields["port"].setFixedWidth(_PORT_W)
        self.no_share = Switch("This node cannot access the data root: copy files over SSH")
        self.no_share.toggled.connect(self._toggled_share)
        for part in (*(self._fields[key] for key in _MORE), self.no_share, self.choices):
            part.hide()
        for field, edit in self._edits.items():
            edit.textEdited.connect(partial(self._edited, field))
        self._choose = IconButton("folder-open", "Choose a key file")
        self._choose.clicked.connect(self._choose_identity)
        self._more = Button("More", kind="quiet", icon="caret-down")
        self._more.clicked.connect(self._toggle_more)
        self._status = TaskStatus("", cancel_label="")
        self._inspect = Button(
            "Connect", kind="primary", tip="Connect to the node and read its hardware"
        )
        self._inspect.clicked.connect(self._request)
        self._cancel = Button("Cancel")
        self._cancel.setAutoDefault(False)
        self._cancel.clicked.connect(self._stop)
        identity = row((self._fields["identity"], 1), align_with_field(self._choose), gap=S1, top=True)
        page = QWidget()
        page.setLayout(
            col(
                row((self._fields["host"], 1), self._fields["port"], gap=S3, top=True),
                row((self._fields["name"], 1), (self._fields["user"], 1), gap=S3, top=True),
                identity,
                row(*((self._fields[key], 1) for key in _MORE), gap=S3, top=True),
                col(self.no_share, self.choices, gap=S1),
                STRETCH,
                col(
                    self._status,
                    row(self._more, STRETCH, self._cancel, self._inspect, gap=S2),
                    gap=S2,
                ),
                gap=S3,
            )
        )
        return page

    @Slot(str)
    def _edited(self, field: str, _text: str = "") -> None:
        self._refusals.pop(field, None)
        self._status.clear()
        if field == "host" and not self._name.isModified():
            self._name.setText(suggested_name(self._host.text().strip()))
        self._check()

    def _faults(self) -> dict[str, str]:
        typed = {key: edit.text().strip() for key, edit in self._edits.items()}
        faults = dict.fromkeys(FIELDS, "")
        faults["host"] = host_fault(typed["host"])
        faults["name"] = name_error(typed["name"])
        if typed["name"].casefold() in self._taken:
            faults["name"] = f"A node “{typed['name']}” already exists."
        port = typed["port"]
        if port and not (port.isascii() and port.isdecimal() and 0 < int(port) < 65536):
            faults["port"] = "Enter a port from 1 to 65535."
        for key in ("user", "jump"):
            if typed[key].startswith("-") or any(c.isspace() for c in typed[key]):
                faults[key] = "Enter it without spaces, and without - at the start."
        sees_it = not self.no_share.isChecked()
        if sees_it and typed["data_root"] and not typed["data_root"].startswith("/"):
            faults["data_root"] = "Enter an absolute path."
        return faults

    def _check(self) -> None:
        """Show an error as soon as it appears, but not that a field is still empty."""
        faults = self._faults()
        for key, field in self._fields.items():
            fault = faults[key] if self._edits[key].text() else ""
            field.set_error(self._refusals.get(key, "") or fault)
            field.setEnabled(not self._under_way)
        self._choose.setEnabled(not self._under_way)
        blind = self.no_share.isChecked()
        self._fields["data_root"].setEnabled(not self._under_way and not blind)
        self.no_share.setEnabled(not self._under_way)
        self.choices.setEnabled(not self._under_way)
        self._more.setEnabled(not self._under_way)
        self._inspect.setEnabled(not any(faults.values()) and not self._under_way)

    @Slot()
    def _toggle_more(self) -> None:
        self._show_more(self._fields["jump"].isHidden())

    def _show_more(self, more: bool) -> None:
        # With all fields the dialog is as high as a small screen.
        self._status.reserve_height(not more)
        for key in _MORE:
            self._fields[key].setVisible(more)
        for part in (self.no_share, self.choices):
            part.setVisible(more)
        self._more.setText("Less" if more else "More")
        self._more.set_icon("caret-up" if more else "caret-down")

    @Slot(bool)
    def _toggled_share(self, blind: bool) -> None:
        shared = self.choices.switch(SHARED)
        shared.setChecked(shared.isChecked() and not blind)
        shared.setEnabled(not blind)
        self._check()

    @Slot()
    def _choose_identity(self) -> None:
        folder = str(Path.home() / ".ssh")
        chosen, _ = QFileDialog.getOpenFileName(self, "Private key", folder)
        if chosen:
            self._identity.setText(chosen)
            self._edited("identity")

    @Slot()
    def _request(self) -> None:
        identity = self._identity.text().strip()
        address = NodeAddress(
            self._host.text().strip(),
            int(self._port.text().strip() or 0),
            self._user.text().strip(),
            str(PurePath(identity)) if identity else "",
            self._jump.text().strip(),
        )
        self.show_progress(f"Connecting to {address.host}")
        blind = self.no_share.isChecked()
        data_root = "" if blind else self._data_root.text().strip()
        self.inspection_requested.emit(
            NodeRequest(address, self._name.text().strip(), data_root, blind)
        )

    @Slot()
    def _stop(self) -> None:
        """Cancel ends running work; otherwise it closes the dialog."""
        if self._under_way:
            self._back_to_form()
        else:
            self.reject()

    @Slot()
    def _back_to_form(self) -> None:
        self._under_way = False
        self._status.clear()
        self._show_page(self._form)
        self._host.setFocus()
        self.cancelled.emit()

    @Slot(object)
    def _pass_trust(self, key: HostKey) -> None:
        self.show_progress(f"Connecting to {key.host}")
        self.trusted.emit(key)

    @Slot(str, bool)
    def _pass_passphrase(self, passphrase: str, keep: bool) -> None:
        self.show_progress(f"Connecting to {self._host.text().strip()}")
        self.passphrase_given.emit(passphrase, keep)

    def _show_page(self, page: QWidget, title: str = "Add a node") -> None:
        self._title.setText(title)
        for each in self._pages:
            each.setVisible(each is page)
        defaults = {
            self._trust: self._trust.default,
            self._changed: self._changed.default,
            self._passphrase: self._passphrase.default,
        }
        # A dialog has one default button: that of the visible page.
        defaults.get(page, self._inspect).setDefault(True)
        self._check()
        fit_height(self)
