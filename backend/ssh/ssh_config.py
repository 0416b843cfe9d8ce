"""Resolve a node's address: the user's client settings, and the jump hosts on the way.

Pure: it sends nothing to the network.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from backend.base.errors import BackendError
from backend.records.base.account import expand_home, user_name
from backend.records.base.validation import sanitize
from backend.records.nodes.entry import NodeAddress
from backend.ssh.known_hosts import SSH_PORT

DEFAULT_KEYS = ("~/.ssh/id_ed25519", "~/.ssh/id_ecdsa", "~/.ssh/id_rsa")
_MOST_JUMPS = 8
Lookup = Callable[[NodeAddress], Mapping[str, Any]]
"""Returns the settings of a host, with lower-case keys, as `ssh -G` prints them."""


@dataclass(frozen=True)
class Hop:
    """One sshd on the way. ``name`` is the user's name for it, ``host`` its address."""

    name: str
    host: str
    port: int
    user: str
    identities: tuple[str, ...] = ()
    asked_for: int = 0
    """How many of ``identities``, from the first, were explicitly named."""
    identities_only: bool = False
    agent: str | None = None
    """The socket of the agent, "" for none; None is the one of SSH_AUTH_SOCK."""

    @property
    def account(self) -> str:
        """The account and the host, for sentences: ``lab@gpu1``."""
        return f"{self.user}@{self.name}"

    @property
    def label(self) -> str:
        """The host, with its address if the settings define another."""
        return self.name if self.name == self.host else f"{self.name} ({self.host})"


def route(address: NodeAddress, lookup: Lookup) -> tuple[Hop, ...]:
    """Return the jump hosts in order, then the node.

    Raises:
        BackendError: The address is invalid, or the settings require something unsupported.
    """
    _valid_host(address.host)
    settings = lookup(address)
    jumps = address.jump or _text(settings, "proxyjump")
    if not address.jump and "proxycommand" in settings and _is_set(settings["proxycommand"]):
        raise BackendError(
            f"The SSH settings reach {address.host} through a ProxyCommand, which Ringmaster "
            "does not run.",
            "Use ProxyJump in ~/.ssh/config, or --jump [USER@]HOST[:PORT].",
        )
    hops = [address]
    while _is_set(jumps) and len(hops) <= _MOST_JUMPS:
        # A `Host *` with a ProxyJump applies to the jump host too, which is not its own jump host.
        used_hosts = {(hop.host, hop.port) for hop in hops}
        new_hops = [
            hop for hop in map(_jump, jumps.split(",")) if (hop.host, hop.port) not in used_hosts
        ]
        hops[:0] = new_hops
        jumps = _text(lookup(new_hops[0]), "proxyjump") if new_hops else ""
    return tuple(_hop(hop, lookup(hop)) for hop in hops)


def _hop(address: NodeAddress, settings: Mapping[str, Any]) -> Hop:
    asked_for = (address.identity,) if address.identity else ()
    if address.identity and not expand_home(address.identity).is_file():
        raise BackendError(
            f"There is no key file {address.identity}.", "Pass the private key with --identity."
        )
    identities = tuple(str(path) for path in settings.get("identityfile", ()))
    port = address.port or _port(_text(settings, "port") or str(SSH_PORT), address.host)
    return Hop(
        name=address.host,
        host=_valid_host(_text(settings, "hostname") or address.host),
        port=port,
        user=address.user or _text(settings, "user") or user_name(),
        identities=(*asked_for, *(identities or (DEFAULT_KEYS if asked_for else ()))),
        asked_for=len(asked_for),
        identities_only=_text(settings, "identitiesonly").lower() == "yes",
        agent=_agent(_text(settings, "identityagent")),
    )


def _agent(text: str) -> str | None:
    """Parse `IdentityAgent`: a path, ``none``, or the variable that contains the path."""
    if text in ("", "SSH_AUTH_SOCK"):
        return None
    if text.startswith("$"):
        return os.environ.get(text[1:], "")
    return "" if text == "none" else text


def _jump(text: str) -> NodeAddress:
    """Parse ``[user@]host[:port]``, as OpenSSH's ProxyJump."""
    user, _, address = text.strip().removeprefix("ssh://").rpartition("@")
    if address.startswith("["):
        host, _, port = address[1:].partition("]")
        port = port.removeprefix(":")
    elif address.count(":") > 1:
        host, port = address, ""
    else:
        host, _, port = address.partition(":")
    return NodeAddress(_valid_host(host), port=_port(port, host) if port else 0, user=user)


def _port(text: str, host: str) -> int:
    if not text.isdecimal() or not 0 < int(text) < 65536:
        raise BackendError(
            f"“{sanitize(text)}” is not a valid port of {sanitize(host)}.",
            "Use a number between 1 and 65535; SSH's default is 22.",
        )
    return int(text)


def _valid_host(host: str) -> str:
    if not host or host.startswith("-") or any(c.isspace() or c in "@/\\\0" for c in host):
        raise BackendError(
            f"“{sanitize(host)}” is not a valid host name.",
            "Enter only the host's name or IP address; set user and port separately.",
        )
    return host


def _text(settings: Mapping[str, Any], key: str) -> str:
    value = settings.get(key, "")
    return value if isinstance(value, str) else ""


def _is_set(value: object) -> bool:
    return isinstance(value, str) and value.lower() not in ("", "none")
