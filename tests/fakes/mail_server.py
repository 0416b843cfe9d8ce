"""A mail server that speaks enough of SMTP (RFC 5321, STARTTLS, AUTH PLAIN) for real clients.

It keeps what a real one promises: a mail is taken when the dot was answered with 250 and not
before, the connection after STARTTLS begins again, a sign-in is offered over TLS only, and a
recipient that is not known is refused by itself.
"""

from __future__ import annotations

import base64
import datetime
import ipaddress
import socketserver
import ssl
import threading
from email import message_from_bytes, policy
from email.message import EmailMessage
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


def certificate(folder: Path) -> Path:
    """Key and certificate of ``localhost`` in one file, which a client may trust by name."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    signed_certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = folder / "localhost.pem"
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        + signed_certificate.public_bytes(serialization.Encoding.PEM)
    )
    return path


class MailServer:
    """Listens on 127.0.0.1. ``at_once``: TLS from the first byte on, as on port 465.

    Attributes:
        mails: What was taken, oldest first.
        answer_to_data: What is said instead of taking a mail ("" takes it).
        logins: User and password of each sign-in.
    """

    def __init__(
        self,
        tls: Path | None = None,
        users: dict[str, str] | None = None,
        implicit_tls: bool = False,
    ) -> None:
        self.mails: list[EmailMessage] = []
        self.logins: list[tuple[str, str]] = []
        self.unknown_addresses: set[str] = set()
        self.data_reply = ""
        self.users = users or {}
        self.context: ssl.SSLContext | None = None
        if tls is not None:
            self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self.context.load_cert_chain(tls)
        outer = self

        class Handler(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                session = _SmtpSession(outer, self.request)
                try:
                    if implicit_tls:
                        session.secure()
                    session.run()
                finally:
                    session.close()

        class Server(socketserver.ThreadingTCPServer):
            daemon_threads = True
            allow_reuse_address = True

            def handle_error(self, request: Any, client_address: Any) -> None:
                """A client that hangs up in the middle is no fault."""

        self._server = Server(("127.0.0.1", 0), Handler)
        self.port = int(self._server.server_address[1])
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _SmtpSession:
    def __init__(self, server: MailServer, connection: Any) -> None:
        self._server = server
        self._connection = connection
        self._file = connection.makefile("rb")
        self._is_secure = False
        self._is_signed_in = not server.users

    def run(self) -> None:
        self._reply("220 localhost")
        recipients: list[str] = []
        while line := self._file.readline():
            word, _, argument = line.decode().strip().partition(" ")
            match word.upper():
                case "EHLO" | "HELO":
                    self._greet()
                case "STARTTLS" if self._server.context and not self._is_secure:
                    self._reply("220 go ahead")
                    self.secure()
                case "AUTH" if self._is_secure and argument.upper().startswith("PLAIN "):
                    self._sign_in(argument.split(" ")[1])
                case "MAIL":
                    recipients = []
                    self._reply("250 ok" if self._is_signed_in else "530 5.7.0 sign in first")
                case "RCPT":
                    address = argument.partition("<")[2].partition(">")[0]
                    if address in self._server.unknown_addresses:
                        self._reply("550 5.1.1 no such mailbox")
                    else:
                        recipients.append(address)
                        self._reply("250 ok")
                case "DATA":
                    self._receive_mail()
                case "QUIT":
                    self._reply("221 bye")
                    return
                case "RSET" | "NOOP":
                    self._reply("250 ok")
                case _:
                    self._reply("502 5.5.1 not known here")

    def _reply(self, text: str) -> None:
        self._connection.sendall(text.encode() + b"\r\n")

    def _greet(self) -> None:
        offers = ["localhost", "SIZE 1000000"]
        if self._server.context and not self._is_secure:
            offers.append("STARTTLS")
        if self._is_secure and self._server.users:
            offers.append("AUTH PLAIN")
        for offer in offers[:-1]:
            self._reply(f"250-{offer}")
        self._reply(f"250 {offers[-1]}")

    def close(self) -> None:
        self._file.close()
        self._connection.close()

    def secure(self) -> None:
        context = self._server.context
        assert context is not None
        self._file.close()
        self._connection = context.wrap_socket(self._connection, server_side=True)
        self._file = self._connection.makefile("rb")
        self._is_secure = True

    def _sign_in(self, credentials: str) -> None:
        _, user, password = base64.b64decode(credentials).decode().split("\0")
        self._server.logins.append((user, password))
        self._is_signed_in = self._server.users.get(user) == password
        self._reply("235 ok" if self._is_signed_in else "535 5.7.8 wrong user or password")

    def _receive_mail(self) -> None:
        self._reply("354 go ahead")
        lines = []
        while (line := self._file.readline()) not in (b".\r\n", b""):
            lines.append(line[1:] if line.startswith(b"..") else line)
        if self._server.data_reply:
            self._reply(self._server.data_reply)
            return
        mail = message_from_bytes(b"".join(lines).replace(b"\r\n", b"\n"), policy=policy.default)
        assert isinstance(mail, EmailMessage)
        self._server.mails.append(mail)
        self._reply("250 taken")
