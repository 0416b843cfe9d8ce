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
from backend.records.jobs.schedulers import SCHEDULERS
from backend.records.nodes.entry import HostKey, NodeAddress
from backend.records.nodes.provisioning_options import SHARED, SetUpOptions
from widgets.common.buttons import Button, IconButton, Switch
from widgets.common.dialog import Dialog, TaskStatus
from widgets.common.fields import Field, LineEdit, align_with_field
from widgets.common.labels import Label
from widgets.common.layout import STRETCH, col, fit_height, row
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
_FIELDS = {
    "host": ("Host", "gpu13 or 10.0.4.23"),
    "name": ("Name", "gpu13"),
    "port": ("Port", str(DEFAULT_PORT)),
    "user": ("User", "from ~/.ssh/config, or your own"),
    "identity": ("Key file", "the SSH agent and your own keys"),
    "jump": ("Jump host", "user@gateway, as ProxyJump"),
    "data_root": ("Data root on the node", "same path as here"),
}
"""Label and placeholder of each field."""
_RARE_FIELDS = ("jump", "data_root")
"""Fields that are rarely needed."""


def host_error(host: str) -> str:
    """Return why this cannot be an OpenSSH host, or ""."""
    if not host:
        return "Enter a host name, an address, or a Host of ~/.ssh/config."
    if any(c.isspace() for c in host) or host.startswith("-") or "@" in host or "/" in host:
        return "Enter the host name only; put the user in User."
    return ""


def suggested_name(host: str) -> str:
    """The default name of a node: the host without its domain."""
    short_name = host.partition(".")[0]
    return host if short_name.isdecimal() or not short_name or ":" in host else short_name


@dataclass(frozen=True)
class NodeRequest:
    """A node to add. ``data_root`` is its path there, "" for the same path as here."""

    address: NodeAddress
    name: str
    data_root: str = ""
    no_share: bool = False
    scheduler: str = ""


class AddNodeDialog(Dialog):
    """The form, then the questions of SSH.

    Signals:
        inspection_requested: A `NodeRequest`; answer with `show_progress`, then with one of
            `ask_trust`, `show_changed_key`, `ask_passphrase`, `show_refusal`, or `accept` once the
            node is added.
        key_trusted: The `HostKey` of `ask_trust`; continue.
        passphrase_given: The typed text, and True to store it in the system keyring. The dialog
        does not store it: the field is emptied at once.
        cancelled: Cancel the running work.

    Attributes:
        choices: How the node is set up.
    """

    inspection_requested = Signal(NodeRequest)
    key_trusted = Signal(object)
    passphrase_given = Signal(str, bool)
    cancelled = Signal()

    def __init__(
        self,
        existing_names: Collection[str] = (),
        parent: QWidget | None = None,
        options: SetUpOptions | None = None,
    ) -> None:
        """Build the dialog.

        Args:
            existing_names: Names of the existing nodes.
            options: The default options of the set-up.
        """
        super().__init__("Add a node", _WIDTH, parent)
        self._existing_names = {name.casefold() for name in existing_names}
        self._is_connecting = False
        self._refusals: dict[str, str] = {}
        self.choices = OptionsForm()
        self.choices.show_options(options or SetUpOptions())
        self._title = Label("Add a node", "title", elide="right")
        self._form = self._make_form()
        self._trust_page = TrustPage()
        self._trust_page.key_trusted.connect(self._pass_trust)
        self._trust_page.key_refused.connect(self._return_to_form)
        self._changed_key_page = ChangedKeyPage()
        self._changed_key_page.closed.connect(self.reject)
        self._passphrase_page = PassphrasePage()
        self._passphrase_page.passphrase_given.connect(self._pass_passphrase)
        self._passphrase_page.back_requested.connect(self._return_to_form)
        self._pages = (self._form, self._trust_page, self._changed_key_page, self._passphrase_page)
        self.fill(*self._pages, head=self._title)
        self._show_page(self._form)
        self._edits["host"].setFocus()

    # -- Answers of the controller.

    def show_progress(self, text: str, share: float | None = None) -> None:
        """Show the current step ("Connecting to gpu13"); the form is disabled, Cancel is not."""
        self._is_connecting = True
        self._refusals.clear()
        self._status.show_progress(share, text)
        # Before the fields are disabled: otherwise Qt passes the focus through all of them.
        self._cancel_button.setFocus()
        self._show_page(self._form)

    def ask_trust(self, key: HostKey) -> None:
        """Ask about a host key that this computer has not seen."""
        self._is_connecting = False
        self._trust_page.ask(key)
        self._show_page(self._trust_page, f"Is this {key.host}?")
        self._trust_page.default.setFocus()

    def show_changed_key(self, key: HostKey, known_fingerprint: str) -> None:
        """Show that the host key changed; the only way on is Close."""
        self._is_connecting = False
        self._changed_key_page.show_changed_key(key, known_fingerprint)
        self._show_page(self._changed_key_page, f"The key of {key.host} changed")
        self._changed_key_page.default.setFocus()

    def ask_passphrase(self, prompt: str, refusal: str = "") -> None:
        """Ask for the passphrase of the private key, or the password of the account.

        Args:
            prompt: "Passphrase for ~/.ssh/id_ed25519".
            refusal: Why the last passphrase was rejected.
        """
        self._is_connecting = False
        self._passphrase_page.ask(prompt, refusal)
        title = f"Unlock the connection to {self._text('host')}"
        self._show_page(self._passphrase_page, title)
        self._passphrase_page.edit.setFocus()

    def show_keyring(self, reason: str) -> None:
        """Set whether a passphrase can be stored: "", or the reason why not."""
        self._passphrase_page.show_keyring(reason)

    def show_refusal(self, field: str, message: str, remedy: str = "") -> None:
        """Show a failure. `field` is one of `_FIELDS`, or ""."""
        self._is_connecting = False
        text = f"{message} {remedy}".strip()
        is_field = field in _FIELDS
        self._refusals = {field: text} if is_field else {}
        self._status.show_result("bad", "" if is_field else text)
        if field in _RARE_FIELDS:
            self._show_rare_fields(True)
        self._show_page(self._form)
        self._edits[field if is_field else "host"].setFocus()

    def reject(self) -> None:
        if self._is_connecting or self._form.isHidden():
            self._is_connecting = False
            self.cancelled.emit()
        super().reject()

    # -- The form.

    def _text(self, field: str) -> str:
        return self._edits[field].text().strip()

    def _make_form(self) -> QWidget:
        self._edits = {
            key: LineEdit(placeholder=placeholder, name=label)
            for key, (label, placeholder) in _FIELDS.items()
        }
        self._fields = {key: Field(_FIELDS[key][0], edit) for key, edit in self._edits.items()}
        self._fields["port"].setFixedWidth(_PORT_W)
        self.no_share = Switch("This node cannot access the data root: copy files over SSH")
        self.no_share.toggled.connect(self._fit_shared)
        self.scheduler_switches = {
            key: Switch(f"This is the login node of a {s.name} cluster: {s.name} starts the jobs")
            for key, s in SCHEDULERS.items()
        }
        for switch in self.scheduler_switches.values():
            switch.toggled.connect(self._fit_shared)
        switches = (self.no_share, *self.scheduler_switches.values(), self.choices)
        rare_fields = [self._fields[key] for key in _RARE_FIELDS]
        self._rare_parts = (*rare_fields, *switches)
        for part in self._rare_parts:
            part.hide()
        for field, edit in self._edits.items():
            edit.textEdited.connect(partial(self._accept_edit, field))
        self._key_file_button = IconButton("folder-open", "Choose a key file")
        self._key_file_button.clicked.connect(self._choose_identity)
        self._more_button = Button("More", kind="quiet", icon="caret-down")
        self._more_button.clicked.connect(
            lambda: self._show_rare_fields(self._fields["jump"].isHidden())
        )
        self._status = TaskStatus("", cancel_label="")
        self._connect_button = Button(
            "Connect", kind="primary", tip="Connect to the node and read its hardware"
        )
        self._connect_button.clicked.connect(self._request)
        self._cancel_button = Button("Cancel")
        self._cancel_button.setAutoDefault(False)
        self._cancel_button.clicked.connect(self._cancel_or_close)
        identity = row(
            (self._fields["identity"], 1), align_with_field(self._key_file_button), gap=S1, top=True
        )
        page = QWidget()
        page.setLayout(
            col(
                row((self._fields["host"], 1), self._fields["port"], gap=S3, top=True),
                row((self._fields["name"], 1), (self._fields["user"], 1), gap=S3, top=True),
                identity,
                row(*((field, 1) for field in rare_fields), gap=S3, top=True),
                col(*switches, gap=S1),
                STRETCH,
                col(
                    self._status,
                    row(self._more_button, STRETCH, self._cancel_button, self._connect_button),
                    gap=S2,
                ),
                gap=S2,
            )
        )
        return page

    @Slot(str)
    def _accept_edit(self, field: str, _text: str = "") -> None:
        self._refusals.pop(field, None)
        self._status.clear()
        if field == "host" and not self._edits["name"].isModified():
            self._edits["name"].setText(suggested_name(self._text("host")))
        self._check_fields()

    def _field_errors(self) -> dict[str, str]:
        values = {key: self._text(key) for key in _FIELDS}
        errors = dict.fromkeys(_FIELDS, "")
        errors["host"] = host_error(values["host"])
        errors["name"] = name_error(values["name"])
        if values["name"].casefold() in self._existing_names:
            errors["name"] = f"A node “{values['name']}” already exists."
        port = values["port"]
        if port and not (port.isascii() and port.isdecimal() and 0 < int(port) < 65536):
            errors["port"] = "Enter a port from 1 to 65535."
        for key in ("user", "jump"):
            if values[key].startswith("-") or any(c.isspace() for c in values[key]):
                errors[key] = "Enter it without spaces, and without - at the start."
        shares_data_root = not self.no_share.isChecked()
        if shares_data_root and values["data_root"] and not values["data_root"].startswith("/"):
            errors["data_root"] = "Enter an absolute path."
        return errors

    def _check_fields(self) -> None:
        """Show each error at once, but not that a field is still empty."""
        errors = self._field_errors()
        for key, field in self._fields.items():
            error = errors[key] if self._edits[key].text() else ""
            field.set_error(self._refusals.get(key, "") or error)
        is_idle = not self._is_connecting
        no_share, scheduler = self.no_share.isChecked(), self._scheduler()
        for part in (
            *self._fields.values(),
            self._key_file_button,
            self._more_button,
            self.choices,
        ):
            part.setEnabled(is_idle)
        self._fields["data_root"].setEnabled(is_idle and not no_share)
        self.no_share.setEnabled(is_idle and not scheduler)
        for key, switch in self.scheduler_switches.items():
            switch.setEnabled(is_idle and not no_share and scheduler in ("", key))
        self._connect_button.setEnabled(is_idle and not any(errors.values()))

    def _show_rare_fields(self, is_visible: bool) -> None:
        # With all fields the dialog is as high as a small screen.
        self._status.reserve_height(not is_visible)
        for part in self._rare_parts:
            part.setVisible(is_visible)
        self.no_share.setVisible(is_visible and not self._scheduler())
        self._more_button.setText("Less" if is_visible else "More")
        self._more_button.set_icon("caret-up" if is_visible else "caret-down")

    def _scheduler(self) -> str:
        return next((key for key, s in self.scheduler_switches.items() if s.isChecked()), "")

    @Slot()
    def _fit_shared(self) -> None:
        """Show that nothing is shared where the data root is not seen."""
        no_share, scheduler = self.no_share.isChecked(), self._scheduler()
        shared_switch = self.choices.switch(SHARED)
        shared_switch.setChecked(shared_switch.isChecked() and not no_share)
        shared_switch.setEnabled(not no_share)
        self.choices.fit((scheduler,))
        self.no_share.setVisible(not scheduler)
        self._check_fields()

    @Slot()
    def _choose_identity(self) -> None:
        folder = str(Path.home() / ".ssh")
        path, _ = QFileDialog.getOpenFileName(self, "Private key", folder)
        if path:
            self._edits["identity"].setText(path)
            self._accept_edit("identity")

    @Slot()
    def _request(self) -> None:
        identity = self._text("identity")
        address = NodeAddress(
            self._text("host"),
            int(self._text("port") or 0),
            self._text("user"),
            str(PurePath(identity)) if identity else "",
            self._text("jump"),
        )
        self.show_progress(f"Connecting to {address.host}")
        no_share = self.no_share.isChecked()
        data_root = "" if no_share else self._text("data_root")
        request = NodeRequest(address, self._text("name"), data_root, no_share, self._scheduler())
        self.inspection_requested.emit(request)

    @Slot()
    def _cancel_or_close(self) -> None:
        """Cancel ends running work; otherwise it closes the dialog."""
        if self._is_connecting:
            self._return_to_form()
        else:
            self.reject()

    @Slot()
    def _return_to_form(self) -> None:
        self._is_connecting = False
        self._status.clear()
        self._show_page(self._form)
        self._edits["host"].setFocus()
        self.cancelled.emit()

    @Slot(object)
    def _pass_trust(self, key: HostKey) -> None:
        self.show_progress(f"Connecting to {key.host}")
        self.key_trusted.emit(key)

    @Slot(str, bool)
    def _pass_passphrase(self, passphrase: str, is_stored: bool) -> None:
        self.show_progress(f"Connecting to {self._text('host')}")
        self.passphrase_given.emit(passphrase, is_stored)

    def _show_page(self, page: QWidget, title: str = "Add a node") -> None:
        self._title.setText(title)
        for stacked_page in self._pages:
            stacked_page.setVisible(stacked_page is page)
        defaults = {
            self._trust_page: self._trust_page.default,
            self._changed_key_page: self._changed_key_page.default,
            self._passphrase_page: self._passphrase_page.default,
        }
        # A dialog has one default button: that of the visible page.
        defaults.get(page, self._connect_button).setDefault(True)
        self._check_fields()
        fit_height(self)
