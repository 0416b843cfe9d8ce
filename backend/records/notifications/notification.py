"""Settings and messages for notifications of ended runs outside the window.

The settings are private: the address of a webhook is a key to its channel. So they are in the home
of the user who sends, never in the data root. The password of a mail server is not among them: it
is in a desktop's keyring, or nowhere.
Standard library only and Python 3.9: the nodes import this.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any
from urllib.parse import urlsplit

from backend.records.base.schema import KEY, Record
from backend.records.base.timestamps import seconds
from backend.records.jobs.state import JobState

SCHEMA = 1
STARTTLS, TLS, PLAIN = "starttls", "tls", "none"
PORTS = {STARTTLS: 587, TLS: 465, PLAIN: 25}
WEBHOOK, MAIL = "webhook", "mail"
_ADDRESS = re.compile(r"[^@\s<>,;\"]+@[^@\s<>,;\"]+")


@dataclass(frozen=True)
class Mail:
    """A mail server and the recipients. With ``user`` the server requires a password."""

    host: str
    to: tuple[str, ...]
    sender: str
    port: int = PORTS[STARTTLS]
    security: str = STARTTLS
    user: str = ""

    @property
    def account(self) -> str:
        """The name of the password in the keyring."""
        return f"{self.user}@{self.host}"


@dataclass(frozen=True)
class NotificationTarget:
    """A recipient. ``key`` is the same for all senders, and does not reveal the address."""

    kind: str
    key: str
    needs_password: bool = False


@dataclass(frozen=True)
class Channels(Record, label="settings of notices", newest_schema=SCHEMA):
    """Notification settings of one user for one data root.

    ``enabled_at`` is UTC, ISO 8601, by the clock of the data root's files: a desktop does not
    notify of runs that ended before.
    """

    webhook: str = ""
    mail: Mail | None = None
    notifies_finished: bool = field(default=True, metadata={KEY: "tells_finished"})
    enabled_at: str = field(default="", metadata={KEY: "since"})
    from_nodes: bool = False
    """The head nodes have these settings too, and notify without a desktop."""

    @property
    def targets(self) -> tuple[NotificationTarget, ...]:
        targets = []
        if self.webhook:
            targets.append(NotificationTarget(WEBHOOK, _key(self.webhook)))
        if self.mail is not None:
            mail_key = "\n".join((self.mail.host, *sorted(self.mail.to)))
            targets.append(
                NotificationTarget(MAIL, _key(mail_key), needs_password=bool(self.mail.user))
            )
        return tuple(targets)

    def notifies_of(self, state: JobState) -> bool:
        """Return whether to notify of an end."""
        if not (self.webhook or self.mail):
            return False
        if state is JobState.FINISHED:
            return self.notifies_finished
        return state.has_failed

    def is_new(self, ended_s: float) -> bool:
        """Return whether a run has ended since then, by the clock of the data root's files."""
        return ended_s >= seconds(self.enabled_at)

    def to_dict(self) -> dict[str, Any]:
        return {"schema": SCHEMA, **super().to_dict()}


@dataclass(frozen=True)
class RunEndMessage:
    """The end of one run, for recipients who do not see the window.

    ``lines`` are the last ones of the log of ``rank``, or of mpirun if that is None.
    """

    job_id: str
    run: int
    state: str
    state_label: str = field(metadata={KEY: "word"})
    name: str
    cause: str
    remedy: str = ""
    rank: int | None = None
    nodes: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        return f"{self.state_label}: {self.name}"

    @property
    def log(self) -> str:
        return "mpirun.log" if self.rank is None else f"rank-{self.rank}.log"


def settings_name(data_root: PurePath | str) -> str:
    """Return the name of the settings file for a data root, by the path of the data root."""
    return f"{_key(str(data_root))}.json"


def webhook_error(address: str) -> str:
    """Return why notifications cannot be sent to ``address``, in one sentence; "" if they can."""
    try:
        parts = urlsplit(address)
        has_host = bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:  # The sentence below names what is wrong.
        has_host = False
        parts = urlsplit("")
    if (
        parts.scheme not in ("http", "https")
        or not has_host
        or re.search(r"[\s\x00-\x20]", address)
    ):
        return "A webhook address begins with https:// (or http:// in a local network)."
    return ""


def mail_error(mail: Mail) -> str:
    """Return why mail cannot be sent with these settings, in one sentence; "" if it can."""
    if not re.fullmatch(r"[^\s/@]+", mail.host):
        return "Enter the mail server's host name, such as smtp.lab.example."
    if not 0 < mail.port < 65536:
        return "The port must be between 1 and 65535."
    for address in (mail.sender, *mail.to):
        if not _ADDRESS.fullmatch(address):
            return f"“{address}” is not a mail address." if address else "Enter a mail address."
    if not mail.to:
        return "Enter a mail address."
    if mail.user and mail.security == PLAIN:
        return "A password is sent over TLS only; choose STARTTLS or TLS, or remove the user."
    return ""


def _key(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]
