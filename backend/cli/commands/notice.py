"""Notifications of ended jobs."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from typing import Annotated, Any
from urllib.parse import urlsplit

from backend.base.errors import BackendError
from backend.cli import questions
from backend.cli.command import Word, command
from backend.cli.printing import Answer, Facts, print_note
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
    return _shown(services, services.notifications.channels())


@command("notice webhook")
def webhook(
    services: Services,
    address: Annotated[str, Word("URL", f"or - to type it hidden, or {_NONE}")],
) -> Answer:
    """Notify a webhook: Slack, Mattermost, Teams."""
    if address == "-":
        address = _typed("Address of the webhook: ")
    elif address == _NONE:
        address = ""
    return _kept(services, replace(services.notifications.channels(), webhook=address))


@command("notice mail")
def mail(
    services: Services,
    to: Annotated[tuple[str, ...], Word("ADDRESS", f"recipients; or only {_NONE}")],
    *,
    sender: Annotated[str, Word("ADDRESS", "default: first recipient")] = "",
    server: Annotated[str, Word("HOST")] = "",
    port: Annotated[int, Word("P", "default: the usual one")] = 0,
    security: Annotated[str, Word(choices=tuple(PORTS))] = STARTTLS,
    user: Annotated[str, Word("U", f"asks for a password, or reads ${PASSWORD}")] = "",
) -> Answer:
    """Notify by mail."""
    before = services.notifications.channels()
    if to == (_NONE,):
        return _kept(services, replace(before, mail=None))
    wanted = Mail(
        server or (before.mail.host if before.mail is not None else ""),
        to,
        sender or to[0],
        port or PORTS[security],
        security,
        user,
    )
    password = _password(wanted) if wanted.user else None
    return _kept(services, replace(before, mail=wanted), password)


@command("notice set")
def set_channels(
    services: Services,
    *,
    finished: Annotated[str, Word(choices=_SWITCH, help="also report finished jobs")] = "",
    from_nodes: Annotated[
        str, Word(choices=_SWITCH, help="nodes report even if no window is open")
    ] = "",
) -> Answer:
    """Choose which jobs are reported, and by which computer."""
    wanted = services.notifications.channels()
    if finished:
        wanted = replace(wanted, notifies_finished=finished == "on")
    if from_nodes:
        wanted = replace(wanted, from_nodes=from_nodes == "on")
    return _kept(services, wanted)


@command("notice test")
def send_test(services: Services, kind: Annotated[str, Word(choices=(WEBHOOK, MAIL))]) -> Answer:
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
    given = os.environ.get(PASSWORD)
    if given is not None or not sys.stdin.isatty():
        return given
    return _typed(f"Password of {mail.account}: ") or None


def _typed(question: str) -> str:
    """Read a secret, hidden at a terminal; otherwise the next line of standard input."""
    text = questions.secret(question) if sys.stdin.isatty() else sys.stdin.readline()
    return text.strip()


def _kept(services: Services, channels: Channels, password: str | None = None) -> Answer:
    kept = services.notifications.store(channels, password)
    failures = services.notifications.copy_to_nodes()
    fault = services.notifications.keyring_error() if password is not None else ""
    for failure in (*failures, *([f"{fault} The password is not stored."] if fault else [])):
        print_note(failure)
    return _shown(services, kept, failures)


def _shown(services: Services, channels: Channels, failures: tuple[str, ...] = ()) -> Answer:
    data = _in_json(services, channels)
    mail = channels.mail
    facts = [
        ("Webhook", data["webhook"] or _NONE),
        ("Mail to", ", ".join(mail.to) if mail is not None else _NONE),
        ("Mail by", _server(mail) if mail is not None else ""),
        ("Password", _password_words(mail, data["has_password"])),
        ("Finished jobs", "reported" if channels.notifies_finished else "not reported"),
        ("From the nodes", "yes" if channels.from_nodes else "no"),
    ]
    return Answer({**data, "troubles": failures}, Facts(facts))


def _in_json(services: Services, channels: Channels) -> dict[str, Any]:
    mail = channels.mail
    return {
        "webhook": masked(channels.webhook),
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


def masked(address: str) -> str:
    """Return only the host of a webhook; the rest of its address is a key."""
    if not address:
        return ""
    parts = urlsplit(address)
    return f"{parts.scheme}://{parts.hostname}/…"


def _server(mail: Mail) -> str:
    user = f" as {mail.user}" if mail.user else ""
    return f"{mail.host}, port {mail.port}, {mail.security}{user}, from {mail.sender}"


def _password_words(mail: Mail | None, is_known: bool) -> str:
    if mail is None or not mail.user:
        return ""
    return "stored" if is_known else f"not known here; set it again, or pass it in ${PASSWORD}"
