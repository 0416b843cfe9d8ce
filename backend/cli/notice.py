"""``notice show|webhook|mail|set|test``: notifications of ended jobs outside the desktop.

The address of a webhook is a key to its channel: it is never printed in full, and ``-`` reads it
from the terminal, because all users of a machine can read the command line. For the same reason a
password is only typed at a terminal, or read from the variable `PASSWORD`.
"""

from __future__ import annotations

import argparse
import getpass
import os
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from backend.base.errors import BackendError
from backend.cli.common_options import SubcommandGroup
from backend.cli.printing import OK, print_facts, print_json, print_line, print_note
from backend.records.base.program_name import COMMAND
from backend.records.notifications.notification import (
    MAIL,
    PORTS,
    STARTTLS,
    WEBHOOK,
    Channels,
    Mail,
)

if TYPE_CHECKING:
    from backend.services.context.container import Services

PASSWORD = "RINGMASTER_MAIL_PASSWORD"
_NOBODY = "none"


def add_words(words: SubcommandGroup) -> None:
    words.leaf("show", "the notification settings")
    leaf = words.leaf("webhook", "notify a webhook: Slack, Mattermost, Teams")
    leaf.add_argument("address", metavar="URL", help=f"or - to type it hidden, or {_NOBODY}")
    leaf = words.leaf("mail", "notify by mail")
    leaf.add_argument("to", nargs="+", metavar="ADDRESS", help=f"recipients; or only {_NOBODY}")
    leaf.add_argument("--sender", default="", metavar="ADDRESS", help="default: first recipient")
    leaf.add_argument("--server", default="", metavar="HOST")
    leaf.add_argument("--port", type=int, default=0, metavar="P", help="default: the usual one")
    leaf.add_argument("--security", choices=tuple(PORTS), default=STARTTLS)
    leaf.add_argument(
        "--user", default="", metavar="U", help=f"asks for a password, or reads ${PASSWORD}"
    )
    leaf = words.leaf("set", "which jobs are reported, and by which computer")
    leaf.add_argument("--finished", choices=("on", "off"), help="also report finished jobs")
    leaf.add_argument(
        "--from-nodes", choices=("on", "off"), help="nodes report even if no window is open"
    )
    leaf = words.leaf("test", "send a test message")
    leaf.add_argument("kind", choices=(WEBHOOK, MAIL))


def show(services: Services, _: argparse.Namespace, as_json: bool) -> int:
    return _print(services, services.notices.channels(), as_json)


def webhook(services: Services, arguments: argparse.Namespace, as_json: bool) -> int:
    address = arguments.address
    if address == "-":
        address = _typed("Address of the webhook: ")
    elif address == _NOBODY:
        address = ""
    return _keep(services, replace(services.notices.channels(), webhook=address), as_json)


def mail(services: Services, arguments: argparse.Namespace, as_json: bool) -> int:
    before = services.notices.channels()
    if arguments.to == [_NOBODY]:
        return _keep(services, replace(before, mail=None), as_json)
    wanted = Mail(
        arguments.server or (before.mail.host if before.mail is not None else ""),
        tuple(arguments.to),
        arguments.sender or arguments.to[0],
        arguments.port or PORTS[arguments.security],
        arguments.security,
        arguments.user,
    )
    password = _password(wanted) if wanted.user else None
    return _keep(services, replace(before, mail=wanted), as_json, password)


def set_channels(services: Services, arguments: argparse.Namespace, as_json: bool) -> int:
    wanted = services.notices.channels()
    if arguments.finished:
        wanted = replace(wanted, tells_finished=arguments.finished == "on")
    if arguments.from_nodes:
        wanted = replace(wanted, from_nodes=arguments.from_nodes == "on")
    return _keep(services, wanted, as_json)


def send_test(services: Services, arguments: argparse.Namespace, as_json: bool) -> int:
    channels = services.notices.channels()
    if arguments.kind == WEBHOOK and not channels.webhook:
        raise BackendError("No webhook is set up.", f"Set one up: {COMMAND} notice webhook URL")
    if arguments.kind == MAIL and channels.mail is None:
        raise BackendError(
            "No mail is set up.", f"Set it up: {COMMAND} notice mail ADDRESS --server HOST"
        )
    services.notices.send_test(arguments.kind, channels, os.environ.get(PASSWORD))
    if as_json:
        print_json({"sent": arguments.kind})
    else:
        print_line("Sent. It should arrive within a minute.")
    return OK


def _password(mail: Mail) -> str | None:
    given = os.environ.get(PASSWORD)
    if given is not None or not sys.stdin.isatty():
        return given
    return _typed(f"Password of {mail.account}: ") or None


def _typed(question: str) -> str:
    """Read a secret, hidden at a terminal; otherwise the next line of standard input."""
    if not sys.stdin.isatty():
        return sys.stdin.readline().strip()
    try:
        return getpass.getpass(question).strip()
    except EOFError:
        return ""


def _keep(
    services: Services, channels: Channels, as_json: bool, password: str | None = None
) -> int:
    kept = services.notices.keep(channels, password)
    troubles = services.notices.spread()
    code = _print(services, kept, as_json, troubles)
    fault = services.notices.keyring_fault() if password is not None else ""
    for trouble in (*troubles, *([f"{fault} The password is not stored."] if fault else [])):
        print_note(trouble)
    return code


def _print(
    services: Services, channels: Channels, as_json: bool, troubles: tuple[str, ...] = ()
) -> int:
    told = _told(services, channels)
    if as_json:
        print_json({**told, "troubles": list(troubles)})
        return OK
    mail = channels.mail
    print_facts(
        [
            ("Webhook", told["webhook"] or _NOBODY),
            ("Mail to", ", ".join(mail.to) if mail is not None else _NOBODY),
            ("Mail by", _server(mail) if mail is not None else ""),
            ("Password", _password_words(mail, told["has_password"])),
            ("Finished jobs", "reported" if channels.tells_finished else "not reported"),
            ("From the nodes", "yes" if channels.from_nodes else "no"),
        ]
    )
    return OK


def _told(services: Services, channels: Channels) -> dict[str, Any]:
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
        "has_password": services.notices.has_password(),
        "tells_finished": channels.tells_finished,
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
