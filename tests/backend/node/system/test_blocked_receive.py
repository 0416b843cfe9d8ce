"""A launcher that an outsider keeps waiting goes on."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from backend.node.system import blocked_receive
from backend.node.system.blocked_receive import BlockedReceiveWatch
from tests.waiting import wait_for

# It reads as Open MPI does: a whole first message of each connection, without a limit.
LAUNCHER = """
import socket, sys
server = socket.create_server((sys.argv[1], 0), family=getattr(socket, sys.argv[2]))
print(server.getsockname()[1], flush=True)
while True:
    connection, _ = server.accept()
    print(len(connection.recv(100, socket.MSG_WAITALL)), flush=True)
"""
ADDRESSES = {"IPv4": ("127.0.0.1", "AF_INET"), "IPv6": ("::1", "AF_INET6")}


@pytest.fixture(params=ADDRESSES)
def launcher(request: pytest.FixtureRequest) -> Iterator[tuple[subprocess.Popen[str], str, int]]:
    host, family = ADDRESSES[request.param]
    command = [sys.executable, "-c", LAUNCHER, host, family]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process, host, int(process.stdout.readline())
        process.kill()


def is_receiving(watch: BlockedReceiveWatch) -> bool:
    return bool(list(watch._receives()))


@pytest.mark.parametrize("sent", [b"x", bytes(32), b"GET / HTTP/1.1\r\n\r\n"])
def test_a_connection_that_keeps_a_launcher_waiting_is_ended(
    launcher: tuple[subprocess.Popen[str], str, int], sent: bytes
) -> None:
    process, host, port = launcher
    assert process.stdout is not None
    watch, clock = BlockedReceiveWatch(process.pid), 0.0
    for attempt in range(2):
        with socket.create_connection((host, port)) as outsider:
            outsider.sendall(sent)
            wait_for(lambda: is_receiving(watch), "the receive of the launcher")
            watch.end_blocked(clock)
            # The first one is given time, which the others of its address are not.
            if not attempt:
                assert watch.blocking_addresses == []
                clock += blocked_receive.LIMIT_S
                watch.end_blocked(clock)
            assert process.stdout.readline() == f"{len(sent)}\n"
    assert watch.blocking_addresses == [host]
    # The next one is served.
    with socket.create_connection((host, port)) as peer:
        peer.sendall(bytes(100))
        assert process.stdout.readline() == "100\n"


def test_a_process_that_waits_otherwise_is_left_alone() -> None:
    own_socket, peer_socket = socket.socketpair()
    listener = socket.create_server(("127.0.0.1", 0))
    client = socket.create_connection(listener.getsockname())
    server, _ = listener.accept()
    reading, writing = os.pipe()
    waits = {
        "a pipe": f"import os; os.read({reading}, 1)",
        "a local socket": f"import socket; socket.socket(fileno={peer_socket.fileno()}).recv(1)",
        "poll": f"import select; select.select([{server.fileno()}], [], [])",
    }
    files = (reading, peer_socket.fileno(), server.fileno())
    for wait in waits.values():
        with subprocess.Popen([sys.executable, "-c", wait], pass_fds=files) as process:
            watch = BlockedReceiveWatch(process.pid)
            wait_for(lambda pid=process.pid: _is_asleep(pid), "the wait")
            for now in (0.0, 10.0, 20.0):
                watch.end_blocked(now)
            assert watch.blocking_addresses == []
            assert process.poll() is None
            process.kill()
    for end in (own_socket, peer_socket, listener, client, server):
        end.close()
    os.close(reading)
    os.close(writing)


def test_a_process_that_has_ended_has_no_receives() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    BlockedReceiveWatch(process.pid).end_blocked(time.monotonic())


def _is_asleep(pid: int) -> bool:
    with open(f"/proc/{pid}/syscall", encoding="utf-8") as file:
        call = file.read().split()[0]
    with open(f"/proc/{pid}/cmdline", "rb") as file:
        has_begun = b"-c" in file.read()
    # read, recvfrom, select, pselect6, poll, ppoll on x86-64.
    return has_begun and call in ("0", "45", "23", "270", "7", "271")
