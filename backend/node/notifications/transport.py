"""Send one message once, by webhook or mail, and report in a sentence why it failed.

No sentence from here contains the address of a webhook: it gives access to a channel. Standard
library only: apprise 2.3 would add 26 MB and ten packages to each node, takes 0.4 s of processor
time and 55 MB of memory for one message (these modules: 0.05 s, 18 MB), and does not say why one
did not arrive.
"""

from __future__ import annotations

import http.client
import json
import smtplib
import ssl
import urllib.error
import urllib.request
from email.message import EmailMessage
from email.utils import formatdate
from typing import IO, Any
from urllib.parse import urlsplit

from backend.records.notifications.notification import PLAIN, TLS, Mail, RunEndMessage

_LIMIT_S = 15.0
_RETRY_CODES = (408, 425, 429)
_REPLACEMENTS = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "@": "@\u200b", "```": "'''"}
"""Slack reads ``<!channel>`` as a call to all, Mattermost ``@all``; a job's name must not be one.
"""


class NotSent(Exception):
    """``str()`` is one sentence. ``is_final``: another try would fail the same way."""

    def __init__(self, message: str, is_final: bool = False) -> None:
        super().__init__(message)
        self.is_final = is_final


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: http.client.HTTPMessage,
        newurl: str,
    ) -> None:
        """Refuse redirects: a redirected message would arrive empty, and at another place."""


def post_webhook(
    address: str, message: RunEndMessage, context: ssl.SSLContext | None = None
) -> None:
    """Send one POST of JSON. Slack, Mattermost and Teams show its ``text``; the rest is for
    programs.

    Raises:
        NotSent: It did not arrive.
    """
    host = urlsplit(address).hostname or ""
    request = urllib.request.Request(
        address,
        json.dumps(body(message)).encode(),
        {"Content-Type": "application/json; charset=utf-8", "User-Agent": "Ringmaster"},
    )
    handlers: list[urllib.request.BaseHandler] = [_NoRedirect()]
    if context is not None:
        handlers.append(urllib.request.HTTPSHandler(context=context))
    try:
        with urllib.request.build_opener(*handlers).open(request, timeout=_LIMIT_S) as answer:
            answer.read(1024)
    except urllib.error.HTTPError as error:
        error.close()
        is_final = error.code < 500 and error.code not in _RETRY_CODES
        raise NotSent(f"The webhook at {host} answered {error.code}.", is_final) from None
    except (OSError, http.client.HTTPException, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        raise NotSent(f"The webhook at {host} did not answer: {_error_text(reason)}.") from None


def body(message: RunEndMessage) -> dict[str, Any]:
    """Return the content for a webhook."""
    lines = f"\n```\n{_escape(chr(10).join(message.lines))}\n```" if message.lines else ""
    nodes_label = f" ({_escape(', '.join(message.nodes))})" if message.nodes else ""
    cause = " ".join(part for part in (message.cause, message.remedy) if part)
    text = f"*{_escape(message.title)}*{nodes_label}\n{_escape(cause)}{lines}"
    return {
        "text": text,
        "title": message.title,
        "state": message.state,
        "job": message.job_id,
        "name": message.name,
        "run": message.run,
        "cause": message.cause,
        "remedy": message.remedy,
        "rank": message.rank,
        "nodes": list(message.nodes),
        "log": message.log,
        "lines": list(message.lines),
    }


def send_mail(
    mail: Mail, password: str, message: RunEndMessage, context: ssl.SSLContext | None = None
) -> None:
    """Send one mail.

    Raises:
        NotSent: The server did not accept it.
    """
    mail_message = EmailMessage()
    mail_message["Subject"] = f"[Ringmaster] {message.title}"
    mail_message["From"] = mail.sender
    mail_message["To"] = ", ".join(mail.to)
    mail_message["Date"] = formatdate()
    # The same for each sender, so that a mailbox can detect a duplicate.
    mail_message["Message-ID"] = f"<{message.job_id}.{message.run}@ringmaster.invalid>"
    parts = [message.cause, message.remedy]
    if message.nodes:
        parts.append(f"Nodes: {', '.join(message.nodes)}")
    parts.append(f"Job {message.job_id}, run {message.run}")
    if message.lines:
        parts.append("\n".join((f"The last lines of {message.log}:", "", *message.lines)))
    mail_message.set_content("\n\n".join(part for part in parts if part) + "\n")
    try:
        _deliver(mail, password, mail_message, context or ssl.create_default_context())
    except smtplib.SMTPAuthenticationError:
        reason = f"{mail.host} did not accept the user or the password."
        raise NotSent(reason, is_final=True) from None
    except smtplib.SMTPRecipientsRefused as error:
        codes = [code for code, _ in error.recipients.values()]
        reason = f"{mail.host} does not accept mail for {', '.join(error.recipients)}."
        raise NotSent(reason, is_final=all(code >= 500 for code in codes)) from None
    except smtplib.SMTPResponseException as error:
        answer = error.smtp_error
        reply = answer.decode("utf-8", "replace") if isinstance(answer, bytes) else str(answer)
        reason = f"{mail.host} did not accept the mail: {error.smtp_code} {reply[:200]}."
        raise NotSent(reason, is_final=error.smtp_code >= 500) from None
    except smtplib.SMTPNotSupportedError:
        reason = f"{mail.host} does not support the chosen settings (STARTTLS, or a sign-in)."
        raise NotSent(reason, is_final=True) from None
    except (OSError, smtplib.SMTPException, ValueError) as error:
        raise NotSent(f"{mail.host} did not accept the mail: {_error_text(error)}.") from None


def _deliver(
    mail: Mail, password: str, mail_message: EmailMessage, context: ssl.SSLContext
) -> None:
    server: smtplib.SMTP
    if mail.security == TLS:
        server = smtplib.SMTP_SSL(mail.host, mail.port, timeout=_LIMIT_S, context=context)
    else:
        server = smtplib.SMTP(mail.host, mail.port, timeout=_LIMIT_S)
    with server:
        if mail.security not in (TLS, PLAIN):
            server.starttls(context=context)
        if mail.user:
            server.login(mail.user, password)
        server.send_message(mail_message)


def _escape(text: str) -> str:
    for text_part, replacement in _REPLACEMENTS.items():
        text = text.replace(text_part, replacement)
    return text


def _error_text(error: object) -> str:
    if isinstance(error, TimeoutError):
        return f"no answer within {_LIMIT_S:.0f} s"
    reply = error.strerror if isinstance(error, OSError) else None
    return str(reply or error or type(error).__name__).rstrip(".")
