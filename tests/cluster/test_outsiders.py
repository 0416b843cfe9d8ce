"""A machine on the nodes' network without a login connects to every port that a run opens.

It does so from before the start until the run ends: it sends nothing, garbage, a torn message, a
pickle and valid messages of another run, and keeps its connections open. The run must train on,
and nothing that it sends may be executed.
"""

from __future__ import annotations

import os
import pickle
import socket
import struct
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from backend.records.jobs.state import JobState
from backend.records.jobs.view import JobView
from backend.training.strategies import peer_link
from tests.cluster.node import Node
from tests.cluster.ready import ReadyCluster
from tests.cluster.runs import makes_steps, wait_for_no_processes, wait_for_step_after

pytest_plugins = ["tests.cluster.runs_fixtures"]
pytestmark = pytest.mark.slow

NODES = ("node1", "node2", "node3")
STRATEGIES = ("allreduce", "ddp", "downpour", "dc-asgd", "sandblaster")
PROOF = "/tmp/executed-by-a-outsider"
_LISTENS = "0A"
_INTERVAL_S = 0.1


class ProofOfExecution:
    """A value whose pickle leaves a proof on the machine that loads it."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (f"touch {PROOF}",)


def _greet_as_another_run(connection: socket.socket) -> None:
    peer_link._connect_to_peer(connection, bytes(32))


SENDERS: dict[str, Callable[[socket.socket], Any]] = {
    "nothing": lambda connection: None,
    "garbage": lambda connection: connection.sendall(os.urandom(5000)),
    "HTTP": lambda connection: connection.sendall(b"GET / HTTP/1.1\r\nHost: node\r\n\r\n"),
    "32 bytes": lambda connection: connection.sendall(bytes(32)),
    "a torn length": lambda connection: connection.sendall(struct.pack("<Q", 2**40)),
    "a pickle": lambda connection: connection.sendall(pickle.dumps(ProofOfExecution())),
    "another run": _greet_as_another_run,
    # torch's TCPStore: the question whether the other end is one, then a key that is set.
    "a store's greeting": lambda connection: connection.sendall(
        struct.pack("<BI", 0, 0x3C85F7CE) + struct.pack("<BQ", 1, 3) + b"key"
    ),
}


def listening_ports(node: Node) -> set[int]:
    """Return the TCP ports to which other machines can connect."""
    lines = node.run(["cat", "/proc/net/tcp", "/proc/net/tcp6"]).stdout.splitlines()
    ports = set()
    for line in lines:
        fields = line.split()
        if len(fields) > 3 and fields[3] == _LISTENS:
            address, _, port = fields[1].rpartition(":")
            is_loopback = address in ("0100007F", "00000000000000000000000001000000")
            if not is_loopback:
                ports.add(int(port, 16))
    return ports


class Outsider:
    """Connects to each port of the nodes as soon as it is open, again and again."""

    def __init__(self, nodes: list[Node]) -> None:
        self._nodes = nodes
        self._usual_ports = {node.name: listening_ports(node) for node in nodes}
        self._is_over = threading.Event()
        self.attempts: Counter[tuple[str, int]] = Counter()
        """Connections, by node and port."""
        self._connections: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._try_ports, args=(node,)) for node in nodes]

    @contextmanager
    def run_threads(self) -> Iterator[Outsider]:
        for thread in self._threads:
            thread.start()
        try:
            yield self
        finally:
            self._is_over.set()
            for thread in self._threads:
                thread.join()
            for connection in self._connections:
                connection.close()

    def _try_ports(self, node: Node) -> None:
        while not self._is_over.wait(_INTERVAL_S):
            for port in listening_ports(node) - self._usual_ports[node.name]:
                if self.attempts[node.name, port] < 2 * len(SENDERS):
                    for send in SENDERS.values():
                        self.attempts[node.name, port] += 1
                        self._connect(node.address, port, send)

    def _connect(self, host: str, port: int, send: Callable[[socket.socket], Any]) -> None:
        with suppress(OSError):
            connection = socket.create_connection((host, port), 2)
            self._connections.append(connection)
            send(connection)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_run_trains_on_whatever_an_outsider_sends_to_its_ports(
    stocked: ReadyCluster, run: Callable[..., JobView], strategy: str
) -> None:
    settings: dict[str, Any] = {"strategy": {"name": strategy}}
    if strategy == "sandblaster":
        settings["optimizer"] = {"name": "lbfgs", "lr": 1.0}
    with Outsider([stocked[name] for name in NODES]).run_threads() as outsider:
        view = run(*NODES, **settings)
        assert makes_steps(view), f"{view.status.message} {outsider.attempts}"
        assert wait_for_step_after(stocked, view.id, view.step + 10).state.is_live
        stocked.services.jobs.lifecycle.stop(view.id)
        assert stocked.services.jobs.queries.wait(view.id).state is JobState.INTERRUPTED
    assert outsider.attempts
    wait_for_no_processes(stocked)
    for name in NODES:
        assert stocked[name].run(["test", "-e", PROOF]).returncode == 1
