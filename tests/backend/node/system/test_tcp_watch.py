"""A peer that does not answer is noticed, and a launcher that an outsider keeps waiting goes on."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from backend.node.system import tcp_watch
from backend.node.system.tcp_watch import STALL_LIMIT_S, BlockedReceiveWatch, TcpStallWatch
from tests.waiting import wait_for

HEAD = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid"
SILENT, KEPT_ALIVE = "01:00000014 0000000{tries}", "02:00000014 00000000"
PID = 4711


class Proc:
    """What the kernel reports of one process with two connections, next to those of others."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / str(PID) / "fd").mkdir(parents=True)
        (folder / str(PID) / "net").mkdir()
        for number, target in enumerate(("socket:[71]", "/dev/null", "socket:[72]")):
            os.symlink(target, folder / str(PID) / "fd" / str(number))
        self.say()

    def say(self, tries: int = 0, inode: int = 72, name: str = "tcp") -> None:
        other_name = {"tcp": "tcp6", "tcp6": "tcp"}[name]
        busy = SILENT.format(tries=tries) if tries else KEPT_ALIVE
        timers = {71: KEPT_ALIVE, inode: busy, 99: SILENT.format(tries=9)}
        lines = [HEAD] + [
            f" 0: 0100007F:872D 0200007F:0016 01 00000004:00000000 {timer} 1000 0 {address} 1"
            for address, timer in timers.items()
        ]
        folder = self.folder / str(PID) / "net"
        (folder / name).write_text("\n".join(lines) + "\n")
        (folder / other_name).write_text(f"{HEAD}\n")


@pytest.fixture
def proc(tmp_path: Path) -> Proc:
    return Proc(tmp_path)


@pytest.mark.parametrize("name", ["tcp", "tcp6"])
def test_a_connection_that_retransmits_for_a_minute_is_lost(proc: Proc, name: str) -> None:
    lines = TcpStallWatch(PID, proc.folder)
    assert not lines.any(0)
    proc.say(tries=3, name=name)
    assert not lines.any(10)
    assert not lines.any(10 + STALL_LIMIT_S - 1)
    assert lines.any(10 + STALL_LIMIT_S)


def test_a_repaired_cut_restarts_the_limit(proc: Proc) -> None:
    lines = TcpStallWatch(PID, proc.folder)
    proc.say(tries=6)
    assert not lines.any(0)
    assert not lines.any(30)
    proc.say()
    assert not lines.any(40)
    proc.say(tries=1)
    assert not lines.any(STALL_LIMIT_S + 5)
    assert lines.any(2 * STALL_LIMIT_S + 10)


def test_connections_of_others_and_processes_that_ended_say_nothing(proc: Proc) -> None:
    lines = TcpStallWatch(PID, proc.folder)
    proc.say(tries=4, inode=98)
    for now in range(0, int(3 * STALL_LIMIT_S), 10):
        assert not lines.any(now)
    assert not TcpStallWatch(PID + 1, proc.folder).any(0)


def test_the_kernel_s_own_tables_are_understood() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as ears,
        socket.create_connection(ears.getsockname()) as client_socket,
        ears.accept()[0],
    ):
        client_socket.sendall(b"word")
        lines = TcpStallWatch(os.getpid())
        assert os.readlink(f"/proc/self/fd/{client_socket.fileno()}")[8:-1] in set(lines._sockets())
        assert not lines.any(0)
        assert not lines.any(2 * STALL_LIMIT_S)


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
                clock += tcp_watch.RECEIVE_LIMIT_S
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
