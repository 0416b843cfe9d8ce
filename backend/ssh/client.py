"""Connections to nodes: the one importer of Fabric and paramiko.

By default Fabric accepts every host key (`AutoAddPolicy`), sets no time limits, and reads from the
terminal; paramiko waits without a limit for the answer to a command's start. Here each is set once.
Fabric makes the connections and goes through jump hosts; commands and files use paramiko's
channels, because `Connection.run` keeps all output in memory and decodes it strictly.
"""

from __future__ import annotations

import logging
import os
import shutil
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial
from io import StringIO
from pathlib import Path
from typing import Any

import fabric
import paramiko
from paramiko.ssh_exception import ChannelException, SSHException

from backend.base.log import swallowed
from backend.node.system.wording import seconds
from backend.records.base.account import expand_home, password_file_home
from backend.records.nodes.entry import NodeAddress
from backend.ssh import errors as ssh_errors
from backend.ssh.client_config import ask_ssh, readable, unreadable
from backend.ssh.interface import (
    CommandResult,
    HostKeyChanged,
    HostKeyUnknown,
    LoginRefused,
    PassphraseNeeded,
    Shell,
    Unreachable,
)
from backend.ssh.known_hosts import KnownHosts, host_key
from backend.ssh.remote_command import LoginTimeout, execute
from backend.ssh.sftp import RemoteFile, SftpFiles
from backend.ssh.ssh_config import DEFAULT_KEYS, Hop, Lookup, route

CONNECT_LIMIT_S = 10.0
_CHANNEL_LIMIT_S = 15.0
_FILES_LIMIT_S = 30.0
_CLOSE_LIMIT_S = 2.0
_KEEPALIVE_S = 15
_GRACE_S = 2.0
_NEXT_SESSION_S = 5.0
_SESSION_POLL_S = 0.02
_AGENT_LIMIT_S = 30.0
"""The user may have to confirm, or to touch a security key."""
_PROHIBITED = 1  # SSH_OPEN_ADMINISTRATIVELY_PROHIBITED of RFC 4254
_SYSTEM_SETTINGS = Path("/etc/ssh/ssh_config")

_log = logging.getLogger(__name__)
# Without a handler Python prints paramiko's tracebacks to standard error.
logging.getLogger("paramiko").addHandler(logging.NullHandler())


def connect(
    address: NodeAddress,
    known_hosts: KnownHosts,
    *,
    passphrase: str = "",
    limit_s: float = CONNECT_LIMIT_S,
    ssh_config: Path | None = None,
    silence_s: float = _FILES_LIMIT_S,
) -> Shell:
    """Open a connection; every jump host on the way is verified like the node itself.

    ``passphrase`` opens locked keys and is not stored. ``ssh_config`` replaces the user's and the
    system's settings. ``limit_s`` is the limit of each stage: TCP, banner, login; ``silence_s`` is
    how long a transfer may receive no byte.

    Raises:
        HostKeyUnknown, HostKeyChanged: The sshd is not trusted; no login was tried.
        PassphraseNeeded: A key is locked, and no other one was accepted.
        Refused: The login failed.
        Unreachable: No SSH server can be reached.
        BackendError: The address or the client settings cannot be used.
    """
    connections: list[Any] = []
    try:
        for hop in hops_of(address, ssh_config):
            gateway = connections[-1] if connections else None
            connections.append(_open(hop, gateway, known_hosts, passphrase, limit_s))
    except BaseException:
        _close(connections)
        raise
    return SshShell(connections, hop.account, silence_s)


def place_of(address: NodeAddress, ssh_config: Path | None = None) -> tuple[str, int]:
    """Return host and port of the node's own sshd, as in `KnownHosts`.

    Raises:
        BackendError: The address or the client settings cannot be used.
    """
    hop = hops_of(address, ssh_config)[-1]
    return hop.host, hop.port


def hops_of(address: NodeAddress, ssh_config: Path | None = None) -> tuple[Hop, ...]:
    """Return every sshd on the way to a node, its own last.

    Raises:
        BackendError: The address or the client settings cannot be used.
    """
    return route(address, _lookup(ssh_config))


def identities_of(address: NodeAddress, ssh_config: Path | None = None) -> tuple[str, ...]:
    """Return the key files that may be tried on the way, as `PassphraseNeeded` names them.

    Raises:
        BackendError: The address or the client settings cannot be used.
    """
    hops = hops_of(address, ssh_config)
    return tuple(dict.fromkeys(path for hop in hops for path in hop.identities or DEFAULT_KEYS))


def agent_keys() -> int | None:
    """Return the number of keys in the user's SSH agent; None if no agent answers."""
    agent = _agent() if os.environ.get("SSH_AUTH_SOCK") else None
    if agent is None:
        return None
    try:
        return len(agent.get_keys())
    except SSHException as error:
        swallowed(error)
        return None
    finally:
        agent.close()


class SshShell:
    """`Shell` over SSH. For one user at a time; `close` may be called from any thread."""

    def __init__(self, connections: Sequence[Any], account: str, silence_s: float) -> None:
        self._connections = connections
        self._silence_s = silence_s
        self._transport = connections[-1].transport
        self._account = account
        self._sftp: Any = None

    def run(
        self,
        argv: Sequence[str],
        *,
        input: bytes = b"",
        limit_s: float = 60.0,
        on_line: Callable[[str], None] | None = None,
    ) -> CommandResult:
        """See `Shell`. Of output over 4 MB the end is kept; ``on_line`` gets both streams.

        A command that exceeded its limit may continue on the node: closing the channel only ends
        its output.
        """
        with self._connected(limit_s):
            channel = self._session(min(limit_s, _CHANNEL_LIMIT_S))
            try:
                outcome = execute(channel, argv, input=input, limit_s=limit_s, on_line=on_line)
            except LoginTimeout as error:
                raise Unreachable(
                    *ssh_errors.login_waits(self._account, limit_s, str(error))
                ) from error
            except TimeoutError as error:
                raise Unreachable(
                    f"“{argv[0]}” on {self._account} had not ended after {seconds(limit_s)}.",
                    "Find what blocks it on the node: an unresponsive share, a busy disk.",
                ) from error
            finally:
                channel.close()
        if not outcome.has_begun:
            raise LoginRefused(
                *ssh_errors.no_command(self._account, outcome.code, outcome.login_output)
            )
        return CommandResult(
            outcome.code,
            outcome.out.decode("utf-8", "replace"),
            outcome.err.decode("utf-8", "replace"),
        )

    def write(self, path: str, content: bytes, mode: int = 0o644) -> None:
        with self._connected():
            self._files().write(path, content, mode)

    def read(self, path: str, offset: int = 0, limit_bytes: int = 4_000_000) -> bytes:
        with self._connected():
            return self._files().read(path, offset, limit_bytes)

    def listing(self, path: str) -> tuple[RemoteFile, ...]:
        with self._connected():
            return self._files().listing(path)

    def send(
        self, source: Path, path: str, on_bytes: Callable[[int, int], None] | None = None
    ) -> None:
        """See `Shell`. A file that is executable here is executable on the node."""
        with self._connected():
            self._files().send(source, path, on_bytes)

    def fetch(
        self, path: str, target: Path, on_bytes: Callable[[int, int], None] | None = None
    ) -> None:
        """See `Shell`; FileNotFoundError if there is no such file."""
        with self._connected():
            self._files().fetch(path, target, on_bytes)

    @contextmanager
    def files(self) -> Iterator[SftpFiles]:
        """See `Shell`; FileNotFoundError and FileExistsError are passed on."""
        with self._connected():
            yield self._files()

    def open_port(self, port: int) -> Any:
        """See `Shell`."""
        limit_s = _CHANNEL_LIMIT_S
        with self._connected(limit_s):
            try:
                return self._transport.open_channel(
                    "direct-tcpip", ("127.0.0.1", port), ("127.0.0.1", 0), timeout=limit_s
                )
            except ChannelException as error:
                is_refused = error.code == _PROHIBITED
                raise LoginRefused(
                    *ssh_errors.no_tunnel(self._account, port, is_refused=is_refused)
                ) from error

    def close(self) -> None:
        _close(self._connections)

    def _files(self) -> SftpFiles:
        return SftpFiles(self._sftp_client, self._account, self._free_bytes)

    def _session(self, limit_s: float) -> Any:
        """Open a channel; if sshd allows only one (MaxSessions 1), after the one before it."""
        end = time.monotonic() + min(limit_s, _NEXT_SESSION_S)
        while True:
            try:
                return self._transport.open_session(timeout=limit_s)
            except ChannelException as error:
                if self._sftp is not None:
                    self._sftp.close()
                    self._sftp = None
                elif time.monotonic() >= end:
                    raise LoginRefused(*ssh_errors.no_session(self._account, error.text)) from error
                else:
                    # sshd counts a session until its processes have ended.
                    time.sleep(_SESSION_POLL_S)

    def _sftp_client(self) -> Any:
        if self._sftp is not None:
            return self._sftp
        channel = self._session(_CHANNEL_LIMIT_S)
        channel.settimeout(self._silence_s)
        try:
            channel.invoke_subsystem("sftp")
            self._sftp = paramiko.SFTPClient(channel)
            return self._sftp
        except (SSHException, EOFError) as error:
            channel.close()
            if not self._transport.is_active():
                raise
            raise LoginRefused(*ssh_errors.no_sftp(self._account)) from error

    def _free_bytes(self, folder: str) -> int | None:
        try:
            answer = self.run(["df", "-Pk", "--", folder], limit_s=_CHANNEL_LIMIT_S)
        except LoginRefused:
            # The account may transfer files but run nothing.
            return None
        try:
            return int(answer.out.splitlines()[-1].split()[3]) * 1024
        except (IndexError, ValueError) as error:
            swallowed(error)
            return None

    @contextmanager
    def _connected(self, limit_s: float | None = None) -> Iterator[None]:
        """Turn connection errors into `BackendError`; with a limit, close the connection at it."""
        watchdog = None
        if limit_s is not None:
            # paramiko waits without a limit for the answer to a request, and for a socket whose
            # buffer is full; only closing the connection ends that.
            watchdog = threading.Timer(limit_s + _GRACE_S, _close, [self._connections])
            watchdog.daemon = True
            watchdog.start()
        try:
            yield
        except (FileNotFoundError, FileExistsError):
            raise
        except TimeoutError as error:
            raise Unreachable(
                f"{self._account} has not answered for {seconds(self._silence_s)}.",
                "Check whether it is busy or its disk hangs, then connect again.",
            ) from error
        except (EOFError, OSError, SSHException) as error:
            raise Unreachable(
                f"The connection to {self._account} broke off ({ssh_errors.short(error)}).",
                "Connect again; if that fails too, check that the node is on.",
            ) from error
        finally:
            if watchdog is not None:
                watchdog.cancel()


class _AcceptedKeyPolicy:
    """paramiko's "missing host key policy": continue only with an accepted key."""

    def __init__(self, hop: Hop, known_hosts: KnownHosts) -> None:
        self._hop = hop
        self._known_hosts = known_hosts

    def missing_host_key(self, client: object, hostname: str, key: Any) -> None:
        # Called for every key: paramiko itself has none to compare with.
        offered_key = host_key(self._hop.host, self._hop.port, key.get_name(), key.asbytes())
        accepted_keys = self._known_hosts.keys(self._hop.host, self._hop.port)
        if any(accepted_key.text == offered_key.text for accepted_key in accepted_keys):
            return
        if accepted_keys:
            # Also for a key of another kind: an attacker would simply offer that one.
            raise HostKeyChanged(
                *ssh_errors.key_changed(offered_key, accepted_keys[0]),
                offered_key,
                accepted_keys[0].fingerprint,
            )
        raise HostKeyUnknown(*ssh_errors.key_unknown(offered_key), offered_key)


class _KeyBreaksConnection(Exception):
    """A key with which paramiko cannot log in at all; the connection broke with it."""


class _Login:
    """paramiko's "auth strategy": keys of the agent and of files, explicitly named ones first."""

    def __init__(self, hop: Hop, passphrase: str) -> None:
        self._hop = hop
        self._passphrase = passphrase
        self._unsigned_keys: dict[tuple[str, bytes], ssh_errors.UnusableKey] = {}
        """Keys that failed before the sshd could judge them; kept over connections."""

    def authenticate(self, transport: Any) -> None:
        self._tried_names: list[str] = []
        self._locked_keys: list[str] = []
        self._unusable_keys: list[ssh_errors.UnusableKey] = []
        allowed_types: Sequence[str] = ()
        limit_s = transport.auth_timeout
        for name, key in self._keys():
            key_id = name, bytes(key.asbytes())
            if key_id in self._unsigned_keys:
                continue
            is_held = isinstance(key, paramiko.AgentKey)
            # The agent may ask the user first, or wait for a touch of a security key.
            transport.auth_timeout = limit_s + _AGENT_LIMIT_S if is_held else limit_s
            try:
                transport.auth_publickey(self._hop.user, key)
            except paramiko.BadAuthenticationType as error:
                self._tried_names.append(name)
                allowed_types = error.allowed_types
                break
            except (OSError, EOFError):
                raise
            except Exception as error:
                # The exceptions of paramiko and cryptography for one key have no common class.
                if "timeout" in str(error):
                    raise Unreachable(*ssh_errors.silent_login(self._hop)) from error
                is_refusal = isinstance(error, paramiko.AuthenticationException)
                if is_refusal and (transport.is_active() or "saw EOF" in str(error)):
                    self._tried_names.append(name)
                    if transport.is_active():
                        continue
                    # sshd has seen too many wrong keys.
                    break
                _log.info("The key %s is skipped.", name, exc_info=True)
                self._unsigned_keys[key_id] = ssh_errors.unsigned_key(name, key.get_name(), error)
                if not transport.is_active():
                    raise _KeyBreaksConnection from error
            else:
                if transport.is_authenticated():
                    return
                raise LoginRefused(*ssh_errors.second_factor(self._hop))
        if self._locked_keys:
            path = self._locked_keys[0]
            message_and_remedy = ssh_errors.locked(
                path, self._hop, has_passphrase=bool(self._passphrase)
            )
            raise PassphraseNeeded(*message_and_remedy, path)
        bad_keys = [*self._unsigned_keys.values(), *self._unusable_keys]
        raise LoginRefused(
            *ssh_errors.no_login(self._hop, self._tried_names, allowed_types, bad_keys)
        )

    def _keys(self) -> Iterator[tuple[str, Any]]:
        """Yield keys and their origins; an sshd disconnects after some six wrong ones."""
        agent = _agent(self._hop.agent)
        try:
            agent_keys = {bytes(key.asbytes()): key for key in (agent.get_keys() if agent else ())}
            files = self._hop.identities or DEFAULT_KEYS
            for path in files:
                key = agent_keys.pop(_public_half(path), None)
                if key is not None:
                    yield f"{path} (agent)", key
            yield from self._keys_of_files(files[: self._hop.asked_for])
            if not self._hop.identities_only:
                for key in agent_keys.values():
                    yield f"“{key.comment}” of the agent", key
            yield from self._keys_of_files(files[self._hop.asked_for :])
        finally:
            if agent is not None:
                agent.close()

    def _keys_of_files(self, paths: Sequence[str]) -> Iterator[tuple[str, Any]]:
        for path in paths:
            try:
                content = expand_home(path).read_bytes()
                key = self._loaded(content)
            except FileNotFoundError:
                continue
            except OSError as error:
                self._unusable_keys.append(ssh_errors.unread_key(path, error))
            except Exception:  # noqa: BLE001 - as above: a key file may raise anything
                _log.info("The key %s is skipped.", path, exc_info=True)
                self._unusable_keys.append(ssh_errors.unusable_key(path, content))
            else:
                if key is None:
                    self._locked_keys.append(path)
                else:
                    yield from self._certified_keys(f"{path}-cert.pub", content)
                    yield path, key

    def _certified_keys(self, path: str, content: bytes) -> Iterator[tuple[str, Any]]:
        certificate = expand_home(path)
        if not certificate.is_file():
            return
        key = self._loaded(content)
        try:
            key.load_certificate(str(certificate))
        except (ValueError, OSError, SSHException):
            _log.info("The certificate %s is skipped.", path, exc_info=True)
            return
        yield path, key

    def _loaded(self, content: bytes) -> Any:
        """Return the key of a file, None if it stays locked."""
        # Imported only to read a key file, as in `backend.provisioning.cluster_key`.
        from backend.ssh import key_pair

        unlocked_key = key_pair.unlocked(content, self._passphrase)
        if unlocked_key is None:
            return None
        kind, text = unlocked_key
        classes = {
            identifier: key_class
            for key_class in paramiko.key_classes
            for identifier in key_class.identifiers()
        }
        return classes[kind].from_private_key(StringIO(text))


def _open(hop: Hop, gateway: Any, known_hosts: KnownHosts, passphrase: str, limit_s: float) -> Any:
    login = _Login(hop, passphrase)
    while True:
        try:
            return _attempt(hop, gateway, known_hosts, login, limit_s)
        except _KeyBreaksConnection:
            # `login` skips that key from now on.
            continue


def _attempt(hop: Hop, gateway: Any, known_hosts: KnownHosts, login: _Login, limit_s: float) -> Any:
    accepted_keys = known_hosts.keys(hop.host, hop.port)
    connection = fabric.Connection(
        hop.host,
        user=hop.user,
        port=hop.port,
        # Empty: `route` has read the settings, and fabric.py files are not executed.
        config=fabric.Config(ssh_config=paramiko.SSHConfig(), lazy=True),
        gateway=gateway,
        forward_agent=False,
        connect_kwargs={
            "auth_strategy": login,
            "timeout": limit_s,
            "banner_timeout": limit_s,
            "auth_timeout": limit_s,
            "channel_timeout": limit_s,
            "transport_factory": partial(_transport, [host_key.kind for host_key in accepted_keys]),
        },
    )
    connection.client.set_missing_host_key_policy(_AcceptedKeyPolicy(hop, known_hosts))
    try:
        connection.open()
    except BaseException as error:
        _close([connection])
        if isinstance(error, ChannelException) and gateway is not None:
            raise Unreachable(*ssh_errors.not_from_jump(hop, gateway.host, error.text)) from error
        if isinstance(error, (OSError, EOFError, SSHException)):
            raise Unreachable(*ssh_errors.unreachable(error, hop, limit_s)) from error
        raise
    connection.transport.set_keepalive(_KEEPALIVE_S)
    return connection


def _transport(kinds: Sequence[str], sock: Any, disabled_algorithms: Any = None) -> Any:
    """Make a transport that requests a host key of an accepted kind, if there is one."""
    transport = paramiko.Transport(sock, disabled_algorithms=disabled_algorithms)
    options = transport.get_security_options()
    accepted_kinds = [kind for kind in options.key_types if _kind_of(kind) in kinds]
    options.key_types = [
        *accepted_kinds,
        *(kind for kind in options.key_types if kind not in accepted_kinds),
    ]
    return transport


def _kind_of(algorithm: str) -> str:
    return "ssh-rsa" if algorithm.startswith("rsa-sha2-") else algorithm


class _Agent(paramiko.Agent):  # type: ignore[misc] # paramiko has no types
    """The agent at a socket. One key that paramiko cannot read does not hide the others."""

    def __init__(self, path: str) -> None:
        paramiko.agent.AgentSSH.__init__(self)
        self._conn = socket.socket(socket.AF_UNIX)
        self._conn.settimeout(_AGENT_LIMIT_S)
        self._conn.connect(str(expand_home(path)))
        kind, answer = self._send_message(paramiko.agent.cSSH2_AGENTC_REQUEST_IDENTITIES)
        if kind != paramiko.agent.SSH2_AGENT_IDENTITIES_ANSWER:
            raise SSHException("the agent does not list its keys")
        for _ in range(answer.get_int()):
            blob, comment = answer.get_binary(), answer.get_binary().decode("utf-8", "replace")
            try:
                self._keys += (_AgentKey(self, blob, comment),)
            except (ValueError, SSHException):
                _log.info("The agent's key “%s” cannot be read.", comment, exc_info=True)


class _AgentKey(paramiko.AgentKey):  # type: ignore[misc] # as above
    def sign_ssh_data(self, data: bytes, algorithm: str | None = None) -> bytes:
        try:
            return bytes(super().sign_ssh_data(data, algorithm))
        except OSError as error:
            # Not a broken connection.
            raise SSHException(f"the agent did not answer: {ssh_errors.short(error)}") from error


def _agent(path: str | None = None) -> Any:
    """Open the agent at ``path``; "" is none, and None the one of the environment."""
    try:
        path = os.environ.get("SSH_AUTH_SOCK") if path is None else path
        if path is None or not hasattr(socket, "AF_UNIX"):
            return paramiko.Agent()
        return _Agent(path) if path else None
    except (OSError, SSHException):
        _log.info("The SSH agent at %s cannot be used.", path, exc_info=True)
        return None


def _public_half(path: str) -> bytes:
    """Return the public key next to a private one, which identifies it in an agent, or b""."""
    try:
        text = expand_home(f"{path}.pub").read_text("utf-8", "replace")
        return bytes(paramiko.pkey.PublicBlob.from_string(text).key_blob)
    except (OSError, ValueError) as error:
        swallowed(error)
        return b""


def _lookup(ssh_config: Path | None) -> Lookup:
    """Return a lookup of the user's client settings for a host."""
    ssh = shutil.which("ssh")
    # ssh refuses a user without an entry in the password file.
    if ssh is not None and password_file_home() is not None:
        return cache(partial(ask_ssh, ssh, file=ssh_config))
    settings = paramiko.SSHConfig()
    files = (ssh_config,) if ssh_config else (expand_home("~/.ssh/config"), _SYSTEM_SETTINGS)
    for file in files:
        if file != ssh_config and not file.is_file():
            continue
        try:
            text = file.read_text("utf-8", "surrogateescape")
        except OSError as error:
            raise unreadable(file, error) from error
        settings.parse(StringIO(readable(text)))

    def settings_of(address: NodeAddress) -> dict[str, Any]:
        try:
            return dict(settings.lookup(address.host))
        except (OSError, paramiko.ConfigParseError, paramiko.CouldNotCanonicalize) as error:
            raise unreadable(files[0], error) from error

    return settings_of


def _close(connections: Sequence[Any]) -> None:
    """Close the last connection first, in a thread: a send to a dead peer may block."""

    def close() -> None:
        for connection in reversed(connections):
            connection.client.close()

    close_thread = threading.Thread(target=close, daemon=True)
    close_thread.start()
    close_thread.join(_CLOSE_LIMIT_S)
