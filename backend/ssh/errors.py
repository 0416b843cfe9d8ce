"""Sentences and remedies for failed connections, one for each cause.

Each function returns a sentence and a remedy, in the order of `BackendError`.
"""

from __future__ import annotations

import base64
import errno
import shlex
import socket
from collections.abc import Sequence
from typing import NamedTuple

from backend.node.system.wording import last_message, seconds
from backend.records.base.account import expand_home
from backend.records.base.program_name import host_key_removal_command
from backend.records.base.validation import sanitize
from backend.records.nodes.entry import HostKey
from backend.ssh.known_hosts import host_name
from backend.ssh.ssh_config import Hop

MessageAndRemedy = tuple[str, str]
_NO_ROUTE = (errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ENETDOWN, errno.EHOSTDOWN)
_ORDINARY = (
    "Use an ordinary key for this program (ssh-keygen -t ed25519), and pass it with --identity."
)
_RC_FILES = (
    "the files that the login shell reads first (bash: ~/.bashrc, zsh: ~/.zshenv, tcsh: ~/.tcshrc "
    "or ~/.cshrc, fish: ~/.config/fish/config.fish)"
)
_KEX_WORDS = ("no acceptable", "incompatible")


def unreachable(error: BaseException, hop: Hop, limit_s: float) -> MessageAndRemedy:
    """Describe a failure before the login."""
    if isinstance(error, socket.gaierror):
        return (
            f"The host {hop.label} was not found.",
            "Check its name, or give its IP address.",
        )
    numbers = _numbers(error)
    if errno.ECONNREFUSED in numbers:
        return (
            f"{hop.label} refuses connections on port {hop.port}: no SSH server listens on it.",
            "Start one (apt-get install openssh-server), or give its port with --port.",
        )
    if numbers & set(_NO_ROUTE):
        return (
            f"There is no route to {hop.label}.",
            "Check that it is on, and that this computer is in its network (VPN, cable).",
        )
    is_greeting = "banner" in str(error) or "protocol version" in str(error)
    # paramiko's message if its limit is over first; nothing else in a new connection causes it.
    if "No existing session" in str(error) or (
        is_greeting and isinstance(error.__context__, TimeoutError)
    ):
        return (
            f"Port {hop.port} of {hop.label} accepts connections but sent no greeting within "
            f"{seconds(limit_s)}: it is not an SSH server, or the node hangs.",
            "Give the port of its sshd with --port.",
        )
    if is_greeting:
        return no_greeting(hop)
    if isinstance(error, TimeoutError) or errno.ETIMEDOUT in numbers or "imeout" in str(error):
        return (
            f"{hop.label} did not answer on port {hop.port} within {seconds(limit_s)}.",
            "Check that it is on, and that no firewall blocks the port.",
        )
    if any(word in str(error).lower() for word in _KEX_WORDS):
        return (
            f"The SSH server of {hop.label} is too old or too strict: {short(error)}.",
            f"Update OpenSSH on {hop.label}.",
        )
    return (
        f"The connection to {hop.label} broke off before the login ({short(error)}).",
        "Try again; if that fails too, read the log of sshd on that host.",
    )


def no_greeting(hop: Hop) -> MessageAndRemedy:
    return (
        f"The program at port {hop.port} of {hop.label} is not an SSH server.",
        "Give the port of its sshd with --port.",
    )


def not_from_jump(hop: Hop, jump: str, reason: str) -> MessageAndRemedy:
    return (
        f"The jump host {jump} could not reach {hop.label} on port {hop.port}: "
        f"{sanitize(reason) or 'no reason given'}.",
        "Check that the node is on, and that the jump host's sshd allows forwarding "
        "(AllowTcpForwarding).",
    )


class UnusableKey(NamedTuple):
    """A key that could not be tried: ``why`` follows its name."""

    name: str
    reason: str
    remedy: str


def no_login(
    hop: Hop,
    tried_names: Sequence[str],
    allowed_types: Sequence[str],
    unusable_keys: Sequence[UnusableKey],
) -> MessageAndRemedy:
    """Describe a refused login. A wrong user and a wrong key cannot be distinguished."""
    copy = ["ssh-copy-id", *(["-p", str(hop.port)] if hop.port != 22 else []), hop.account]
    if allowed_types and "publickey" not in allowed_types:
        return (
            f"{hop.label} accepts {hop.user} by {' or '.join(map(sanitize, allowed_types))} only, "
            "and Ringmaster needs a key.",
            f"Allow keys in sshd_config of {hop.label}: PubkeyAuthentication yes.",
        )
    skipped_keys = sanitize("; ".join(f"{key.name}, {key.reason}" for key in unusable_keys), 400)
    remedies = " ".join(dict.fromkeys(key.remedy for key in unusable_keys))
    if not tried_names and unusable_keys:
        return (
            f"{hop.label} refuses {hop.user}: no key could be used: {skipped_keys}.",
            remedies,
        )
    if not tried_names:
        return (
            f"{hop.label} refuses {hop.user}: there is no key on this computer to try.",
            f"Make one and copy it to {hop.label}: ssh-keygen -t ed25519, then {shlex.join(copy)}",
        )
    unusable_note = f"; not usable: {skipped_keys}" if unusable_keys else ""
    return (
        f"{hop.label} refuses {hop.user}: no such user, or none of the keys is accepted "
        f"(tried: {sanitize(', '.join(tried_names), 300)}{unusable_note}).",
        f"{remedies} Check the user's name, and that {hop.label} lists the key: "
        f"{shlex.join(copy)}".strip(),
    )


def unsigned_key(name: str, kind: str, error: BaseException) -> UnusableKey:
    """Describe a key with which nothing could be signed."""
    if kind.startswith("sk-"):
        return UnusableKey(name, f"on a hardware security key ({short(error)})", _ORDINARY)
    remedy = "Unlock the agent and confirm when it asks, or pass a key file with --identity."
    if "(agent)" not in name and "of the agent" not in name:
        remedy = _ORDINARY
    return UnusableKey(name, f"with which nothing could be signed ({short(error)})", remedy)


def unread_key(path: str, error: OSError) -> UnusableKey:
    reason = f"which cannot be read ({short(error)})"
    return UnusableKey(
        path, reason, f"Make yourself its owner and run: chmod 600 {_in_shell(path)}."
    )


def unusable_key(path: str, content: bytes) -> UnusableKey:
    """Describe an unusable key file by its content."""
    text = content.lstrip(b"\xef\xbb\xbf").strip()
    body = b"".join(line for line in text.splitlines() if not line.startswith(b"-----"))
    try:
        key_bytes = base64.b64decode(body)
    except ValueError:  # the content is looked at below
        key_bytes = b""
    if not text:
        return UnusableKey(path, "which is empty", "Copy that key here again.")
    if text.startswith(b"PuTTY-User-Key-File"):
        arguments = f"{_in_shell(path)} -O private-openssh -o {_in_shell(f'{path}.openssh')}"
        return UnusableKey(path, "which is a PuTTY key", f"Convert it: puttygen {arguments}")
    if text.startswith((b"ssh-", b"ecdsa-", b"sk-")):
        return UnusableKey(path, "which is a public key", "Use the private one, without .pub.")
    if b"sk-ssh-" in key_bytes or b"sk-ecdsa-" in key_bytes:
        return UnusableKey(path, "which is on a hardware security key", _ORDINARY)
    if b"ssh-dss" in key_bytes or b" DSA " in text:
        return UnusableKey(path, "which is a DSA key", _ORDINARY)
    if text.startswith(b"-----BEGIN ") and b"-----END " not in text:
        return UnusableKey(path, "which is truncated", "Copy that key here again.")
    if text.startswith(b"-----BEGIN ") and b"PRIVATE KEY-----" in text:
        reason = "which is a private key in a format that Ringmaster does not read"
        remedy = f"Convert it (ssh-keygen -p -f {_in_shell(path)}), or use another key."
        return UnusableKey(path, reason, remedy)
    reason = "which is not a private key that can be read"
    return UnusableKey(path, reason, "Pass an OpenSSH private key with --identity.")


def _in_shell(path: str) -> str:
    return shlex.quote(str(expand_home(path)))


def locked(path: str, hop: Hop, has_passphrase: bool) -> MessageAndRemedy:
    if has_passphrase:
        return (f"The passphrase does not open the key {path} for {hop.account}.", "Try again.")
    return (
        f"The key {path} for {hop.account} is locked and needs its passphrase.",
        f"Type it when asked, or unlock it in the agent: ssh-add {_in_shell(path)}",
    )


def second_factor(hop: Hop) -> MessageAndRemedy:
    return (
        f"{hop.label} accepted the key of {hop.user} and requires a second factor, which "
        "Ringmaster does not support.",
        f"Allow a key alone in sshd_config of {hop.label}: AuthenticationMethods publickey.",
    )


def silent_login(hop: Hop) -> MessageAndRemedy:
    return (
        f"{hop.label} did not answer the login of {hop.user}.",
        "Check whether the node is busy, or its user directory (LDAP) does not answer.",
    )


def key_unknown(offered_key: HostKey) -> MessageAndRemedy:
    name = host_name(offered_key.host, offered_key.port)
    return (
        f"First connection to {name}: its host key {offered_key.fingerprint} "
        f"({offered_key.kind}) has not "
        "been accepted here.",
        "Compare it with the node's own output of ssh-keygen -lf /etc/ssh/ssh_host_*_key.pub; "
        f"if it is the same: --accept-key {offered_key.fingerprint}",
    )


def key_changed(offered_key: HostKey, accepted_key: HostKey) -> MessageAndRemedy:
    name = host_name(offered_key.host, offered_key.port)
    return (
        f"{name} presents another host key than the accepted one: {offered_key.fingerprint} "
        f"({offered_key.kind}) instead of {accepted_key.fingerprint} ({accepted_key.kind}). "
        "Either it was reinstalled, or someone is intercepting the connection.",
        "Ask its administrator. Only if the change is intended, remove the old key: "
        f"{host_key_removal_command(offered_key.host, offered_key.port)}; then accept the new one "
        "with any command that "
        f"connects: --accept-key {offered_key.fingerprint}",
    )


def no_command(account: str, code: int, printed_text: str) -> MessageAndRemedy:
    last_line = last_message(printed_text)
    quotation = f" and printed “{sanitize(last_line, 120)}”" if last_line else ""
    return (
        f"The login shell of {account} ended with code {code} before any command began{quotation}.",
        f"Change {_RC_FILES} of {account}: they must not end or fail without a terminal.",
    )


def login_waits(account: str, limit_s: float, printed_text: str) -> MessageAndRemedy:
    last_line = last_message(printed_text)
    quotation = f"; it printed “{sanitize(last_line, 120)}”" if last_line else ""
    return (
        f"The login shell of {account} began no command within {seconds(limit_s)}{quotation}.",
        f"Change {_RC_FILES} of {account}: without a terminal they must ask nothing. If they do "
        "not, find what blocks them on the node: an unresponsive share, a busy disk.",
    )


def no_session(account: str, reason: str) -> MessageAndRemedy:
    return (
        f"The SSH server of {account} allows no session on an open connection: "
        f"{sanitize(reason) or 'no reason given'}.",
        "Allow more in its sshd_config: OpenSSH's default is MaxSessions 10.",
    )


def no_tunnel(account: str, port: int, *, is_refused: bool) -> MessageAndRemedy:
    if is_refused:
        return (
            f"The SSH server of {account} allows no tunnel.",
            "Set AllowTcpForwarding to local in its sshd_config.",
        )
    return f"Nothing answers at port {port} of {account}.", "Its program may have ended."


def no_sftp(account: str) -> MessageAndRemedy:
    return (
        f"{account} offers no file transfer (SFTP).",
        "Add to its sshd_config: Subsystem sftp internal-sftp. Output of the login shell also "
        f"breaks it; remove such output from {_RC_FILES}.",
    )


def short(error: BaseException) -> str:
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return sanitize(str(text).strip(" .\n"), 160)


def _numbers(error: BaseException) -> set[int]:
    """Return all errno of an attempt; paramiko keeps one for each address of a name."""
    inner_errors = getattr(error, "errors", None)
    errors = [error, *(inner_errors.values() if isinstance(inner_errors, dict) else ())]
    numbers = (getattr(cause, "errno", None) for cause in errors)
    return {number for number in numbers if isinstance(number, int)}
