"""Connections between ranks, and outsiders who connect to them."""

from __future__ import annotations

import pickle
import queue
import secrets
import socket
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from backend.training.strategies import peer_link
from backend.training.strategies.peer_link import (
    ForeignPeerError,
    Listener,
    PeerLink,
    connect,
)

SECRET, OTHER_SECRET = secrets.token_bytes(32), secrets.token_bytes(32)


class Door:
    """A listener of a run, and the links that it let in."""

    def __init__(self) -> None:
        self.links: queue.Queue[tuple[str, PeerLink]] = queue.Queue()
        self.open_links: list[PeerLink] = []
        self.listener = Listener(
            "127.0.0.1", 0, SECRET, lambda name, link: self.links.put((name, link))
        )

    def close(self) -> None:
        self.listener.close()
        for link in self.open_links:
            link.close()

    def enter(self, name: str = "3-1") -> tuple[PeerLink, PeerLink]:
        """Return both ends of a new link."""
        client_link = connect(*self.listener.address, SECRET, name, 20.0)
        arrived_name, link = self.links.get(timeout=60)
        self.open_links += [client_link, link]
        assert arrived_name == name
        return client_link, link


@pytest.fixture
def door() -> Iterator[Door]:
    door = Door()
    yield door
    door.close()


def received(link: PeerLink, size: int) -> bytes:
    content = bytearray(size)
    link.receive(content)
    return bytes(content)


def test_messages_of_any_size_arrive_both_ways(door: Door) -> None:
    client_link, link = door.enter()
    for size in (0, 1, 100, 70_000):
        content = secrets.token_bytes(size)
        for sender, receiver in ((client_link, link), (link, client_link)):
            sender.send(content[: size // 2], content[size // 2 :])
            assert received(receiver, size) == content


OUTSIDERS: dict[str, Callable[[socket.socket], Any]] = {
    "silent": lambda outsider: None,
    "HTTP": lambda outsider: outsider.sendall(b"GET / HTTP/1.1\r\n\r\n" + bytes(200)),
    "pickle": lambda outsider: outsider.sendall(pickle.dumps(print) * 20),
    "torn": lambda outsider: outsider.sendall(bytes(31)),
    "zeros": lambda outsider: outsider.sendall(bytes(500)),
    "random": lambda outsider: outsider.sendall(secrets.token_bytes(100_000)),
    "reset": lambda outsider: outsider.setsockopt(
        socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0"
    ),
    "other run": lambda outsider: peer_link._connect_to_peer(outsider, OTHER_SECRET),
}


@pytest.mark.parametrize("kind", OUTSIDERS)
def test_an_outsider_is_not_let_in_and_keeps_no_rank_out(
    door: Door, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    outsider = socket.create_connection(door.listener.address)
    with suppress(OSError):
        OUTSIDERS[kind](outsider)
    client_link, link = door.enter()
    client_link.send(b"still here")
    assert received(link, 10) == b"still here"
    outsider.close()
    assert door.links.empty()


def test_an_outsider_is_named_once_in_the_log(
    door: Door, capsys: pytest.CaptureFixture[str]
) -> None:
    for _ in range(3):
        with socket.create_connection(door.listener.address) as outsider:
            outsider.sendall(bytes(64))
            # It has been judged when it is closed from the other side.
            outsider.settimeout(20)
            with suppress(ConnectionResetError):
                while outsider.recv(4096):
                    pass
    assert capsys.readouterr().out.count("A connection from 127.0.0.1 was closed") == 1


def test_many_silent_outsiders_use_a_limited_number_of_threads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(peer_link, "_UNPROVEN_LIMIT", 3)
    monkeypatch.setattr(peer_link, "_PROOF_LIMIT_S", 0.3)
    door = Door()
    outsiders = [socket.create_connection(door.listener.address) for _ in range(10)]
    # The silent ones are closed at their limit, and a rank that tries again comes in.
    client_link, link = door.enter()
    client_link.send(b"in")
    assert received(link, 2) == b"in"
    for outsider in outsiders:
        outsider.close()
    door.close()


def test_an_outsider_that_sends_a_byte_now_and_then_is_closed(
    door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peer_link, "_PROOF_LIMIT_S", 0.2)
    sent_count, is_open = 0, True
    with socket.create_connection(door.listener.address) as outsider, suppress(ConnectionError):
        outsider.settimeout(0.05)
        while is_open:
            outsider.sendall(b"x")
            sent_count += 1
            with suppress(TimeoutError):
                is_open = outsider.recv(100) != b""
    # A proof has 64 bytes.
    assert sent_count < 64
    assert door.links.empty()


def test_a_rank_does_not_take_another_program_for_a_rank() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as impostor,
        pytest.raises(TimeoutError, match="No rank of this run answered"),
    ):
        connect(*impostor.getsockname(), SECRET, "store", 0.2)


class TappedSocket:
    """A socket that changes what is sent through it."""

    def __init__(self, socket_: socket.socket, change: Callable[[bytes], bytes]) -> None:
        self._inner, self._change = socket_, change

    def close(self) -> None:
        self._inner.close()

    def sendall(self, content: bytes | bytearray) -> None:
        self._inner.sendall(self._change(bytes(content)))


def flip(content: bytes) -> bytes:
    return bytes([content[0] ^ 1]) + content[1:]


@pytest.mark.parametrize("bad", ["changed", "repeated", "of another link", "to itself"])
def test_a_message_that_the_other_rank_did_not_send_is_refused(door: Door, bad: str) -> None:
    client_link, link = door.enter()
    wire = client_link._connection
    frames: list[bytes] = []

    def keep(content: bytes) -> bytes:
        frames.append(content)
        return content

    if bad == "changed":
        client_link._connection = TappedSocket(wire, flip)  # type: ignore[assignment]
        client_link.send(b"rate=0.1")
    elif bad == "repeated":
        client_link._connection = TappedSocket(wire, keep)  # type: ignore[assignment]
        client_link.send(b"rate=0.1")
        assert received(link, 8) == b"rate=0.1"
        wire.sendall(frames[0])
    elif bad == "of another link":
        second_link, _ = door.enter("5-1")
        second_link._connection = TappedSocket(second_link._connection, keep)  # type: ignore[assignment]
        second_link.send(b"rate=0.1")
        wire.sendall(frames[0])
    else:
        wire = link._connection
        link._connection = TappedSocket(link._connection, keep)  # type: ignore[assignment]
        link.send(b"rate=0.1")
        link._connection = wire
        client_link._connection.sendall(frames[0])
    with pytest.raises(ForeignPeerError):
        received(link, 8)
