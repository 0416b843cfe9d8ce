"""Repeated retransmissions show that the peer of a process does not answer any more."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from backend.node.system.tcp_watch import LIMIT_S, TcpStallWatch

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
    assert not lines.any(10 + LIMIT_S - 1)
    assert lines.any(10 + LIMIT_S)


def test_a_repaired_cut_restarts_the_limit(proc: Proc) -> None:
    lines = TcpStallWatch(PID, proc.folder)
    proc.say(tries=6)
    assert not lines.any(0)
    assert not lines.any(30)
    proc.say()
    assert not lines.any(40)
    proc.say(tries=1)
    assert not lines.any(LIMIT_S + 5)
    assert lines.any(2 * LIMIT_S + 10)


def test_connections_of_others_and_processes_that_ended_say_nothing(proc: Proc) -> None:
    lines = TcpStallWatch(PID, proc.folder)
    proc.say(tries=4, inode=98)
    for now in range(0, int(3 * LIMIT_S), 10):
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
        assert not lines.any(2 * LIMIT_S)
