"""Notifications of ended jobs."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from typing import Annotated, Any
from urllib.parse import urlsplit

from backend.base.errors import BackendError
from backend.cli import questions
from backend.cli.command import ArgSpec, command
from backend.cli.printing import Answer, Properties, print_note
from backend.records.base.program_name import COMMAND
from backend.records.notifications.notification import (
    MAIL,
    PORTS,
    STARTTLS,
    WEBHOOK,
    Channels,
    Mail,
)
from backend.services.context.container import Services

# The address of a webhook is a key to its channel: it is never printed in full, and ``-`` reads it
# from the terminal, because all users of a machine can read the command line. For the same reason a
# password is only typed at a terminal, or read from this variable.
PASSWORD = "RINGMASTER_MAIL_PASSWORD"
_NONE = "none"
_SWITCH = ("on", "off")


@command("notice show")
def show(services: Services) -> Answer:
    """The notification settings."""
    return _channels_answer(services, services.notifications.channels())


@command("notice webhook")
def webhook(
    services: Services,
    address: Annotated[str, ArgSpec("URL", f"or - to type it hidden, or {_NONE}")],
) -> Answer:
    """Notify a webhook: Slack, Mattermost, Teams."""
    if address == "-":
        address = _read_secret("Address of the webhook: ")
    elif address == _NONE:
        address = ""
    return _store(services, replace(services.notifications.channels(), webhook=address))


@command("notice mail")
def mail(
    services: Services,
    to: Annotated[tuple[str, ...], ArgSpec("ADDRESS", f"recipients; or only {_NONE}")],
    *,
    sender: Annotated[str, ArgSpec("ADDRESS", "default: first recipient")] = "",
    server: Annotated[str, ArgSpec("HOST")] = "",
    port: Annotated[int, ArgSpec("P", "default: the usual one")] = 0,
    security: Annotated[str, ArgSpec(choices=tuple(PORTS))] = STARTTLS,
    user: Annotated[str, ArgSpec("U", f"asks for a password, or reads ${PASSWORD}")] = "",
) -> Answer:
    """Notify by mail."""
    channels = services.notifications.channels()
    if to == (_NONE,):
        return _store(services, replace(channels, mail=None))
    new_mail = Mail(
        server or (channels.mail.host if channels.mail is not None else ""),
        to,
        sender or to[0],
        port or PORTS[security],
        security,
        user,
    )
    password = _password(new_mail) if new_mail.user else None
    return _store(services, replace(channels, mail=new_mail), password)


@command("notice set")
def set_channels(
    services: Services,
    *,
    finished: Annotated[str, ArgSpec(choices=_SWITCH, help="also report finished jobs")] = "",
    from_nodes: Annotated[
        str, ArgSpec(choices=_SWITCH, help="nodes report even if no window is open")
    ] = "",
) -> Answer:
    """Choose which jobs are reported, and by which computer."""
    channels = services.notifications.channels()
    if finished:
        channels = replace(channels, notifies_finished=finished == "on")
    if from_nodes:
        channels = replace(channels, from_nodes=from_nodes == "on")
    return _store(services, channels)


@command("notice test")
def send_test(services: Services, kind: Annotated[str, ArgSpec(choices=(WEBHOOK, MAIL))]) -> Answer:
    """Send a test message."""
    channels = services.notifications.channels()
    if kind == WEBHOOK and not channels.webhook:
        raise BackendError("No webhook is set up.", f"Set one up: {COMMAND} notice webhook URL")
    if kind == MAIL and channels.mail is None:
        raise BackendError(
            "No mail is set up.", f"Set it up: {COMMAND} notice mail ADDRESS --server HOST"
        )
    services.notifications.send_test(kind, channels, os.environ.get(PASSWORD))
    return Answer({"sent": kind}, "Sent. It should arrive within a minute.")


def _password(mail: Mail) -> str | None:
    password = os.environ.get(PASSWORD)
    if password is not None or not sys.stdin.isatty():
        return password
    return _read_secret(f"Password of {mail.account}: ") or None


def _read_secret(question: str) -> str:
    """Read a secret, hidden at a terminal; otherwise the next line of standard input."""
    text = questions.ask_secret(question) if sys.stdin.isatty() else sys.stdin.readline()
    return text.strip()


def _store(services: Services, channels: Channels, password: str | None = None) -> Answer:
    stored_channels = services.notifications.store(channels, password)
    failures = services.notifications.copy_to_nodes()
    keyring_error = services.notifications.keyring_error() if password is not None else ""
    for failure in (
        *failures,
        *([f"{keyring_error} The password is not stored."] if keyring_error else []),
    ):
        print_note(failure)
    return _channels_answer(services, stored_channels, failures)


def _channels_answer(
    services: Services, channels: Channels, failures: tuple[str, ...] = ()
) -> Answer:
    data = _in_json(services, channels)
    mail = channels.mail
    properties = [
        ("Webhook", data["webhook"] or _NONE),
        ("Mail to", ", ".join(mail.to) if mail is not None else _NONE),
        ("Mail by", _server(mail) if mail is not None else ""),
        ("Password", _password_state(mail, data["has_password"])),
        ("Finished jobs", "reported" if channels.notifies_finished else "not reported"),
        ("From the nodes", "yes" if channels.from_nodes else "no"),
    ]
    return Answer({**data, "troubles": failures}, Properties(properties))


def _in_json(services: Services, channels: Channels) -> dict[str, Any]:
    mail = channels.mail
    return {
        "webhook": masked_address(channels.webhook),
        "mail": None
        if mail is None
        else {
            "to": list(mail.to),
            "sender": mail.sender,
            "host": mail.host,
            "port": mail.port,
            "security": mail.security,
            "user": mail.user,
        },
        "has_password": services.notifications.has_password(),
        "tells_finished": channels.notifies_finished,
        "from_nodes": channels.from_nodes,
    }


def masked_address(address: str) -> str:
    """Return only the host of a webhook; the rest of its address is a key."""
    if not address:
        return ""
    parts = urlsplit(address)
    return f"{parts.scheme}://{parts.hostname}/…"


def _server(mail: Mail) -> str:
    user = f" as {mail.user}" if mail.user else ""
    return f"{mail.host}, port {mail.port}, {mail.security}{user}, from {mail.sender}"


def _password_state(mail: Mail | None, is_known: bool) -> str:
    if mail is None or not mail.user:
        return ""
    return "stored" if is_known else f"not known here; set it again, or pass it in ${PASSWORD}"
