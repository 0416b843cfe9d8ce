"""A tunnel through a real sshd, to a server that repeats what it gets."""

from __future__ import annotations

import socket
import socketserver
import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from backend.base.errors import BackendError
from backend.ssh.client import connect
from backend.ssh.interface import LoginRefused, Shell
from backend.ssh.tunnel import Tunnel
from tests.backend.ssh.sshd_rig import Sshd
from tests.waiting import LIMIT_S, wait_for

pytest_plugins = ["tests.backend.ssh.sshd_fixtures"]


class Echo(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        for line in self.rfile:
            self.wfile.write(line)


@pytest.fixture
def echo_port() -> Iterator[int]:
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Echo) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield int(server.server_address[1])
        server.shutdown()


@pytest.fixture
def make_tunnel(sshd: Sshd) -> Iterator[Callable[[int], Tunnel]]:
    tunnels: list[Tunnel] = []

    def make(port: int) -> Tunnel:
        tunnels.append(Tunnel(lambda: shell_to(sshd), port))
        return tunnels[-1]

    yield make
    for tunnel in tunnels:
        tunnel.close()


def shell_to(sshd: Sshd) -> Shell:
    return connect(sshd.address, sshd.known_hosts, ssh_config=sshd.ssh_config)


def echo_of(port: int, line: bytes) -> bytes:
    """Return what comes back; b"" if the connection was closed."""
    with socket.create_connection(("127.0.0.1", port), timeout=LIMIT_S) as connection:
        connection.sendall(line)
        try:
            return connection.makefile("rb").readline()
        except ConnectionResetError:
            return b""


def test_several_connections_pass_both_ways(
    make_tunnel: Callable[[int], Tunnel], echo_port: int
) -> None:
    tunnel = make_tunnel(echo_port)
    with socket.create_connection(("127.0.0.1", tunnel.port), timeout=LIMIT_S) as first:
        large_line = b"x" * 500_000 + b"\n"
        assert echo_of(tunnel.port, large_line) == large_line
        first.sendall(b"first\n")
        assert first.makefile("rb").readline() == b"first\n"


def test_a_port_that_is_taken_here_is_replaced(
    make_tunnel: Callable[[int], Tunnel], echo_port: int
) -> None:
    tunnel = make_tunnel(echo_port)
    assert tunnel.port != echo_port
    assert echo_of(tunnel.port, b"line\n") == b"line\n"


def test_a_free_port_has_the_same_number_on_both_sides(echo_port: int) -> None:
    """A page that is open in a browser finds the session again."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    shell: Any = SimpleNamespace(
        open_port=lambda _port: socket.create_connection(("127.0.0.1", echo_port)), close=int
    )
    tunnel = Tunnel(lambda: shell, port)
    assert tunnel.port == port
    assert echo_of(port, b"line\n") == b"line\n"
    tunnel.close()


def test_it_is_renewed_after_its_connection_was_lost(
    make_tunnel: Callable[[int], Tunnel], sshd: Sshd, echo_port: int
) -> None:
    tunnel = make_tunnel(echo_port)
    sshd.stop()
    assert echo_of(tunnel.port, b"lost\n") == b""
    sshd.start()
    wait_for(lambda: echo_of(tunnel.port, b"again\n") == b"again\n", "the tunnel works again")


def test_a_port_without_a_server_is_named(make_tunnel: Callable[[int], Tunnel]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(BackendError, match=f"Nothing answers at port {port} of"):
        make_tunnel(port)


def test_a_server_that_allows_no_tunnel_is_named(
    make_sshd: Callable[..., Sshd], echo_port: int
) -> None:
    sshd = make_sshd("AllowTcpForwarding no")
    with pytest.raises(LoginRefused) as caught:
        Tunnel(lambda: shell_to(sshd), echo_port)
    assert "allows no tunnel" in str(caught.value)
    assert "AllowTcpForwarding" in caught.value.remedy
