"""The cluster's own key, with which mpirun reaches other nodes, and nothing else.

A user's keys stay on the desktop. The program makes a key pair for the cluster, puts the private
part on each node and authorizes the public part there with ``restrict`` and the nodes' subnet. A
stolen key can be used only from the cluster, without a terminal and forwarding; that is enough for
mpirun. By default sshd starts `ssh_command_filter` for it (``command=``), which allows mpirun's
daemon and little more.

The edited files belong to another program, so each edit is a pure function that keeps every other
line unchanged, byte for byte.
"""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from backend.base.errors import BackendError
from backend.base.log import swallowed
from backend.node.agent import ssh_command_filter
from backend.records.base.layout import NodeHome
from backend.records.nodes.entry import NodeEntry
from backend.ssh.interface import Shell

COMMENT = "ringmaster-cluster"
PRIVATE_NAME = "id_cluster"
GATE_NAME = "key_gate.py"
_IN_SH = """exec env SHELL=/bin/sh /bin/sh -c 'eval "$SSH_ORIGINAL_COMMAND"'"""
"""mpirun's command is for a POSIX shell; csh and fish read this line as intended."""
_DEFAULT_PORT = 22
_CONNECT_LIMIT_S = 10
_LIMIT_BYTES = 1_000_000
_PLAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_PLAIN_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._@+-]*")
_PLAIN_PATH = re.compile(r"/[A-Za-z0-9._/+-]+")
_HOST_KEY = re.compile(r"[a-z0-9][a-z0-9@.-]* [A-Za-z0-9+/]+={0,3}")


@dataclass(frozen=True)
class ClusterKey:
    """``private_key`` is an OpenSSH key file, ``public_key`` its type and key in one line."""

    private_key: bytes
    public_key: str

    def __repr__(self) -> str:
        return f"ClusterKey({self.public_key!r})"


@dataclass(frozen=True)
class Peer:
    """A node as the others reach it; ``address`` is the IP of its ranks, without a prefix.

    ``unique_addresses``: its other addresses that are unique (`launch.network.single_hosts`).
    ``host_key`` is a known-hosts line without the name; port 0 and user "" are OpenSSH's defaults.
    """

    name: str
    address: str
    port: int
    user: str
    host_key: str
    unique_addresses: tuple[str, ...] = ()


def make_key() -> ClusterKey:
    # Imported only to make or read a key: cryptography takes 8 MB of every window.
    from backend.ssh import key_pair

    return ClusterKey(*key_pair.make())


def parse_key(private_key: bytes) -> ClusterKey:
    """Return the pair of a private key file.

    Raises:
        ValueError: It is not an unlocked ed25519 key.
    """
    from backend.ssh import key_pair

    return ClusterKey(private_key, key_pair.public_part(private_key))


def stored_key(folder: Path) -> ClusterKey | None:
    """Return the key that `store_key` stored, None if there is none.

    Raises:
        BackendError: There is one, and it cannot be used.
    """
    path = folder / PRIVATE_NAME
    try:
        return parse_key(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise BackendError(
            f"The cluster's key {path} cannot be used: {error}",
            "Move it away; the next set-up uses the key of a node, or makes another.",
        ) from error


def store_key(folder: Path, key: ClusterKey) -> ClusterKey:
    """Store a key, readable by this user only; return the stored one, as the first writer wins.

    Raises:
        BackendError: The folder cannot be written.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        temporary_path = folder / f".{PRIVATE_NAME}.{os.getpid()}.{id(key)}"
        with open(
            os.open(temporary_path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb"
        ) as file:
            file.write(key.private_key)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(temporary_path, folder / PRIVATE_NAME)
        except FileExistsError:
            return stored_key(folder) or key
        finally:
            temporary_path.unlink()
    except OSError as error:
        raise BackendError(
            f"The cluster's key could not be stored in {folder}: {error.strerror}.",
            f"Free some space in {folder}, or check your write permission.",
        ) from error
    return key


def authorized_line(public_key: str, subnets: str, command: str = "") -> str:
    """Return the line that authorizes the cluster's key from ``subnets`` (`sources`) only.

    With a ``command`` the key can start nothing else; without one, ``/bin/sh`` reads the request,
    whatever the login shell is.

    Raises:
        ValueError: One of ``subnets`` is invalid, or ``command`` would end early in the line.
    """
    if '"' in command or not command.isprintable():
        raise ValueError("not a valid command for a line of authorized_keys")
    forced_command = command or _IN_SH.replace('"', '\\"')
    networks = ",".join(str(ipaddress.ip_network(subnet)) for subnet in subnets.split(","))
    return f'restrict,from="{networks}",command="{forced_command}" {public_key} {COMMENT}'


def with_line(content: bytes, line: str) -> bytes:
    """Return an authorized_keys with our ``line`` in it once; the other lines stay."""
    own_line = line.encode("ascii")
    public_and_comment = own_line.split(b'" ', 1)[1]
    lines = content.split(b"\n")
    positions = [
        index
        for index, existing_line in enumerate(lines)
        if _is_own_line(existing_line, public_and_comment)
    ]
    if not positions:
        gap = b"\n" if content and not content.endswith(b"\n") else b""
        return content + gap + own_line + b"\n"
    lines[positions[0]] = own_line
    return b"\n".join(
        existing_line for index, existing_line in enumerate(lines) if index not in positions[1:]
    )


def without_line(content: bytes, public_key: str) -> bytes:
    """Return an authorized_keys without the cluster's key."""
    public_and_comment = f"{public_key} {COMMENT}".encode("ascii")
    return b"\n".join(
        line for line in content.split(b"\n") if not _is_own_line(line, public_and_comment)
    )


def _is_own_line(line: bytes, public_and_comment: bytes) -> bool:
    return line.startswith(b"restrict,from=") and line.rstrip(b"\r ").endswith(
        b" " + public_and_comment
    )


def ssh_settings(peers: Sequence[Peer], *, identity: str, known_hosts: str) -> tuple[str, str]:
    """Return the OpenSSH client file for mpirun on a node, and the known hosts that it names.

    Args:
        identity: Path of the private key on that node.
        known_hosts: Path of the second text on the node.

    Raises:
        BackendError: A value contains characters that would break a line of these files.
    """
    for path in (identity, known_hosts):
        _require_match(_PLAIN_PATH, path, "The path of the SSH settings on the nodes")
    config = ["# Written by Ringmaster; the next set-up replaces it.\n"]
    known_host_lines = []
    for peer in peers:
        name = _require_match(_PLAIN_NAME, peer.name, "A node's name")
        address, *other_addresses = _addresses(peer)
        config.append(f"Host {' '.join((address, *other_addresses))}\n  HostKeyAlias {name}\n")
        config.append(f"  Port {_port(peer)}\n")
        if peer.user:
            config.append(
                f"  User {_require_match(_PLAIN_USER, peer.user, f'The user on {name}')}\n"
            )
        key = _require_match(_HOST_KEY, peer.host_key, f"The host key of {name}")
        known_host_lines.append(f"{name},{address} {key}\n")
    config.append(
        "Host *\n"
        f"  IdentityFile {identity}\n"
        "  IdentitiesOnly yes\n"
        f"  UserKnownHostsFile {known_hosts}\n"
        "  GlobalKnownHostsFile /dev/null\n"
        "  StrictHostKeyChecking yes\n"
        "  UpdateHostKeys no\n"
        "  BatchMode yes\n"
        f"  ConnectTimeout {_CONNECT_LIMIT_S}\n"
    )
    return "".join(config), "".join(known_host_lines)


def _require_match(pattern: re.Pattern[str], value: str, label: str) -> str:
    if not pattern.fullmatch(value):
        raise BackendError(
            f"{label} is not allowed in SSH settings: {value!r}.",
            "Use letters, digits, dots, - and _ only.",
        )
    return value


def _addresses(peer: Peer) -> list[str]:
    try:
        return [
            str(ipaddress.ip_address(address)) for address in (peer.address, *peer.unique_addresses)
        ]
    except ValueError as error:
        raise BackendError(
            f"The address of {peer.name} for the ranks is not an IP address: {peer.address!r}.",
            "Choose one of the node's addresses.",
        ) from error


def _port(peer: Peer) -> int:
    port = peer.port or _DEFAULT_PORT
    if not 0 < port < 2**16:
        raise BackendError(f"The port of {peer.name} is not a port: {peer.port}.")
    return port


def write_settings(shell: Shell, home: NodeHome, peers: Sequence[Peer], own_key: str = "") -> str:
    """Write the SSH settings for mpirun to a node; return the path of the client file there.

    Args:
        own_key: Path on the nodes of an existing key that connects them; "" for the cluster's.

    Raises:
        BackendError: A value is not allowed in them, or the node cannot be written.
    """
    config, known_hosts = (str(home.ssh / name) for name in ("config", "known_hosts"))
    identity = own_key or str(home.ssh / PRIVATE_NAME)
    texts = ssh_settings(peers, identity=identity, known_hosts=known_hosts)
    _private_folder(shell, home.ssh)
    for path, text in zip((config, known_hosts), texts, strict=True):
        _replace(shell, path, text.encode())
    return config


def install_key(
    shell: Shell, home: NodeHome, key: ClusterKey, subnets: str, gate_python: str = ""
) -> bool:
    """Put the cluster's key on a node and authorize it; return False if both was done already.

    With the path of the node's Python, the key starts only what `ssh_command_filter` allows.

    Raises:
        BackendError: The node's files cannot be written.
    """
    _private_folder(shell, home.ssh)
    command = _gate(shell, home, gate_python) if gate_python else ""
    private_path = str(home.ssh / PRIVATE_NAME)
    has_changed = _replace(shell, private_path, key.private_key)
    # OpenSSH ignores a key that others may read.
    _make(shell, ["chmod", "0600", "--", private_path], home.ssh)
    authorized_path = authorized_keys(shell)
    _make(
        shell,
        ["mkdir", "-p", "-m", "0700", "--", str(authorized_path.parent)],
        authorized_path.parent,
    )
    new_content = with_line(
        _content(shell, str(authorized_path)), authorized_line(key.public_key, subnets, command)
    )
    has_changed = _replace(shell, str(authorized_path), new_content) or has_changed
    # sshd ignores a list that others may write to, and only logs that.
    _make(
        shell,
        ["chmod", "go-w", "--", str(authorized_path.parent), str(authorized_path)],
        authorized_path.parent,
    )
    return has_changed


def reason_against_limit(home: NodeHome, python: str, mpirun: str) -> str:
    """Return why the key cannot be limited on a node; "" if it can."""
    for path in (python, str(home.ssh / GATE_NAME)):
        if not _PLAIN_PATH.fullmatch(path):
            return f"the path {path} has characters that authorized_keys does not take"
    bin_prefix = f"{PurePosixPath(python).parent}/"
    if not mpirun.startswith((bin_prefix, *ssh_command_filter.SYSTEM_FOLDERS)):
        return f"{mpirun} is in none of the system's folders"
    return ""


def _gate(shell: Shell, home: NodeHome, python: str) -> str:
    """Put the command filter on a node; return its command line, which the user's shell runs."""
    gate = str(home.ssh / GATE_NAME)
    for path in (python, gate):
        _require_match(_PLAIN_PATH, path, "The path of the key's command filter")
    _replace(shell, gate, Path(ssh_command_filter.__file__).read_bytes())
    return f"{python} -I {gate}"


def sources(entry: NodeEntry, peers: Sequence[Peer]) -> str:
    """Return the sources from which the cluster's key is accepted, separated by commas.

    These are the network of the node's ranks, and the other nodes' addresses outside of it.

    Raises:
        BackendError: The node has no address for the ranks.
    """
    if not entry.ranks_address:
        raise BackendError(
            f"{entry.name} has no address for the ranks, so the sources of the cluster's key are "
            "not known.",
            "Choose one of the node's addresses in its settings.",
        )
    own_network = ipaddress.ip_interface(entry.ranks_address).network
    peer_addresses = (
        ipaddress.ip_address(address)
        for peer in peers
        if peer.name != entry.name
        for address in (peer.address, *peer.unique_addresses)
    )
    outside_addresses = dict.fromkeys(
        str(address) for address in peer_addresses if address not in own_network
    )
    return ",".join((str(own_network), *outside_addresses))


def remove_key(shell: Shell, home: NodeHome) -> bool:
    """Remove the authorization of this node's key; return False if it was not listed."""
    try:
        key = parse_key(shell.read(str(home.ssh / PRIVATE_NAME)))
    except (FileNotFoundError, ValueError) as error:
        swallowed(error)
        return False
    authorized_path = str(authorized_keys(shell))
    content = _content(shell, authorized_path)
    new_content = without_line(content, key.public_key)
    return new_content != content and _replace(shell, authorized_path, new_content)


def authorized_keys(shell: Shell) -> PurePosixPath:
    """Return the file that sshd reads; a link is followed, so that it stays one."""
    answer = shell.run(["sh", "-c", 'readlink -m -- "$HOME/.ssh/authorized_keys"'])
    path = answer.out.strip()
    if not answer.ok or not path.startswith("/"):
        raise BackendError(f"The node did not return its home folder: {answer.complaint}.")
    return PurePosixPath(path)


def _content(shell: Shell, path: str) -> bytes:
    try:
        content = shell.read(path, limit_bytes=_LIMIT_BYTES)
    except FileNotFoundError:
        return b""
    if len(content) == _LIMIT_BYTES:
        raise BackendError(f"{path} on the node is too large to be edited.")
    return content


def _replace(shell: Shell, path: str, content: bytes) -> bool:
    if _content(shell, path) != content:
        shell.write(path, content, 0o600)
        return True
    return False


def _private_folder(shell: Shell, folder: PurePosixPath) -> None:
    _make(shell, ["install", "-d", "-m", "0700", "--", str(folder)], folder)


def _make(shell: Shell, argv: Sequence[str], folder: PurePosixPath) -> None:
    answer = shell.run(argv)
    if not answer.ok:
        raise BackendError(
            f"The folder {folder} on the node cannot be created as SSH requires: "
            f"{answer.complaint}.",
            "Make the node's user its owner, then set the node up again.",
        )
