"""Connections between ranks on which every message proves that it belongs to the run.

A foreign program on the nodes' network can connect to any port of a rank. Both ends therefore prove
first that they have the run's secret, each by a keyed hash (HMAC-SHA-256, RFC 2104) of random
numbers of both. Every message then carries a keyed hash of its number and its bytes, so messages of
another run, repeated messages and changed messages are refused. The content is not encrypted.
"""

from __future__ import annotations

import hmac
import math
import secrets
import socket
import sys
import threading
import time
from collections.abc import Callable

from backend.base.rendezvous_point import listen

_DIGEST = "sha256"
_DIGEST_BYTES = 32
_NONCE_BYTES = 32
_PROOF_LIMIT_S = 10.0
_UNPROVEN_LIMIT = 256
"""Number of connections that may be open without a proof, so that they cannot use up the memory."""
_RETRY_S = 0.05
_SMALL_BYTES = 65536
"""Parts of a message below this size are sent together."""
_NAME_LIMIT_BYTES = 64
_KEEPALIVE = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 20),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 10),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 4),
    (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 60_000),
)
"""A lost node is noticed within a minute, as by mpirun (`backend.node.run.launch_command`)."""
Buffer = bytes | bytearray | memoryview


class ForeignPeerError(ConnectionError):
    """The other end, or one of its messages, does not prove that it belongs to this run."""


class LinkClosed(ConnectionResetError):
    """The other process has closed the connection, as the system does when a process ends."""


class PeerLink:
    """One end of a connection whose other end has a valid proof, for one thread at a time.

    All methods raise `OSError` if the other end is lost or has ended.
    """

    def __init__(self, connection: socket.socket, sending_key: bytes, receiving_key: bytes) -> None:
        self._connection = connection
        self._keys = sending_key, receiving_key
        self._sent_count = self._received_count = 0

    def keep_alive(self) -> None:
        """Notice the loss of the other node, which otherwise only mpirun does."""
        for level, option, value in _KEEPALIVE:
            self._connection.setsockopt(level, option, value)

    def close(self) -> None:
        self._connection.close()

    def set_limit(self, seconds: float) -> None:
        """Set the time limit of a part of a message."""
        self._connection.settimeout(seconds)

    def send(self, *parts: Buffer) -> None:
        """Send the parts as one message; `receive` must expect parts with as many bytes in all."""
        digest = hmac.new(self._keys[0], self._sent_count.to_bytes(8, "big"), _DIGEST)
        self._sent_count += 1
        small_parts = bytearray()
        for part in parts:
            digest.update(part)
            if len(part) < _SMALL_BYTES:
                small_parts += part
                continue
            self._connection.sendall(small_parts)
            small_parts.clear()
            self._connection.sendall(part)
        self._connection.sendall(small_parts + digest.digest())

    def receive(self, *parts: Buffer) -> None:
        """Fill the parts with the next message.

        Raises:
            ForeignPeerError: The message is not the sent message.
        """
        digest = hmac.new(self._keys[1], self._received_count.to_bytes(8, "big"), _DIGEST)
        self._received_count += 1
        for part in parts:
            _receive_into(self._connection, memoryview(part))
            digest.update(part)
        if not hmac.compare_digest(
            _receive_bytes(self._connection, _DIGEST_BYTES), digest.digest()
        ):
            raise ForeignPeerError("A message is not what the other rank sent.")


class Listener:
    """Listener on one address for connections of the run's ranks, which closes all others.

    Each proven connection is passed to ``on_link``, with the name from the other end, in its own
    thread.
    """

    def __init__(
        self, host: str, port: int, secret: bytes, on_link: Callable[[str, PeerLink], None]
    ) -> None:
        self._socket = listen(host, port)
        self._secret = secret
        self._on_link = on_link
        self._is_closed = False
        self._free_slots = threading.BoundedSemaphore(_UNPROVEN_LIMIT)
        self._reported_addresses: set[str] = set()
        self.address: tuple[str, int] = self._socket.getsockname()[:2]
        threading.Thread(target=self._accept, name="peers", daemon=True).start()

    def close(self) -> None:
        """Accept no more connections; those that are open stay."""
        self._is_closed = True
        # This also ends `accept` in the other thread; closing alone does not.
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _accept(self) -> None:
        while not self._is_closed:
            try:
                connection, address = self._socket.accept()
            except OSError as error:
                if self._is_closed:
                    return
                # The other end may have given up; without free file descriptors a pause helps.
                sys.stderr.write(f"A connection could not be accepted: {error}\n")
                time.sleep(_RETRY_S)
                continue
            if not self._free_slots.acquire(blocking=False):
                connection.close()
                continue
            threading.Thread(
                target=self._prove, args=(connection, address[0]), name="peer", daemon=True
            ).start()

    def _prove(self, connection: socket.socket, address: str) -> None:
        try:
            try:
                link = _accept_peer(connection, self._secret)
                size = bytearray(1)
                link.receive(size)
                name = bytearray(size[0])
                link.receive(name)
            finally:
                self._free_slots.release()
        except OSError as error:
            connection.close()
            if address not in self._reported_addresses:
                self._reported_addresses.add(address)
                sys.stdout.write(
                    f"A connection from {address} was closed: it did not prove that it belongs "
                    f"to this run ({error}).\n"
                )
            return
        connection.settimeout(None)
        self._on_link(name.decode(), link)


def connect(host: str, port: int, secret: bytes, name: str, limit_s: float) -> PeerLink:
    """Connect to a `Listener` of the run, which may start later, and give the connection a name.

    Raises:
        TimeoutError: No rank of this run has answered within the limit.
    """
    if len(name.encode()) > _NAME_LIMIT_BYTES:
        raise ValueError(f"the name of a connection is too long: {name}")
    deadline = time.monotonic() + limit_s
    reason: OSError | None = None
    while time.monotonic() < deadline:
        try:
            connection = socket.create_connection((host, port), _PROOF_LIMIT_S)
        except OSError as error:
            reason = error
        else:
            try:
                link = _connect_to_peer(connection, secret)
                link.send(bytes([len(name.encode())]))
                link.send(name.encode())
            except OSError as error:
                reason = error
                connection.close()
            else:
                connection.settimeout(None)
                return link
        time.sleep(_RETRY_S)
    raise TimeoutError(f"No rank of this run answered at {host} port {port}: {reason}")


def _accept_peer(connection: socket.socket, secret: bytes) -> PeerLink:
    _prepare(connection)
    # A foreign program may send a byte every few seconds.
    deadline = time.monotonic() + _PROOF_LIMIT_S
    peer_nonce = _receive_bytes(connection, _NONCE_BYTES, deadline)
    own_nonce = secrets.token_bytes(_NONCE_BYTES)
    connection.sendall(own_nonce)
    nonces = peer_nonce + own_nonce
    _require_proof(
        _receive_bytes(connection, _DIGEST_BYTES, deadline),
        _keyed_digest(secret, b"connecting", nonces),
    )
    connection.sendall(_keyed_digest(secret, b"listening", nonces))
    to_listening, to_connecting = _message_keys(secret, nonces)
    return PeerLink(connection, to_connecting, to_listening)


def _connect_to_peer(connection: socket.socket, secret: bytes) -> PeerLink:
    _prepare(connection)
    own_nonce = secrets.token_bytes(_NONCE_BYTES)
    connection.sendall(own_nonce)
    nonces = own_nonce + _receive_bytes(connection, _NONCE_BYTES)
    connection.sendall(_keyed_digest(secret, b"connecting", nonces))
    _require_proof(
        _receive_bytes(connection, _DIGEST_BYTES), _keyed_digest(secret, b"listening", nonces)
    )
    to_listening, to_connecting = _message_keys(secret, nonces)
    return PeerLink(connection, to_listening, to_connecting)


def _prepare(connection: socket.socket) -> None:
    connection.settimeout(_PROOF_LIMIT_S)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def _message_keys(secret: bytes, nonces: bytes) -> tuple[bytes, bytes]:
    return _keyed_digest(secret, b"to listening", nonces), _keyed_digest(
        secret, b"to connecting", nonces
    )


def _keyed_digest(secret: bytes, role: bytes, nonces: bytes) -> bytes:
    return hmac.digest(secret, role + nonces, _DIGEST)


def _require_proof(proof: bytes, expected_proof: bytes) -> None:
    if not hmac.compare_digest(proof, expected_proof):
        raise ForeignPeerError("its proof is wrong")


def _receive_bytes(connection: socket.socket, size: int, deadline: float = math.inf) -> bytes:
    content = bytearray(size)
    _receive_into(connection, memoryview(content), deadline)
    return bytes(content)


def _receive_into(
    connection: socket.socket, content: memoryview, deadline: float = math.inf
) -> None:
    start = 0
    while start < len(content):
        if time.monotonic() > deadline:
            raise TimeoutError("its proof takes too long")
        count = connection.recv_into(content[start:])
        if not count:
            raise LinkClosed("Connection closed by peer")
        start += count
