"""A channel between two ranks, both in this process."""

from __future__ import annotations

import gc
import os
import socket
import stat
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from backend.training.strategies.channel import Channel, PeerLost
from backend.training.strategies.rendezvous import distributed


def pair(keepalive: bool) -> tuple[Channel, Channel]:
    """Return the ends of rank 0, a server, and of its worker."""
    store: Any = distributed.HashStore()

    def make(rank: int) -> Channel:
        meeting: Any = SimpleNamespace(rank=rank, store=store, limit=timedelta(seconds=60))
        return Channel(meeting, 1, 0, keepalive)

    with ThreadPoolExecutor(2) as pool:
        server, worker = pool.map(make, (0, 1))
    return server, worker


def timeouts() -> dict[str, int]:
    """Return the time of each TCP connection of this process until unanswered data ends it."""
    found = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            is_socket = stat.S_ISSOCK(os.stat(f"/proc/self/fd/{name}").st_mode)
        except FileNotFoundError:
            continue
        if not is_socket:
            continue
        # Only of a socket: a copy of another file would stay open, such as the pipe on whose end
        # the guard of the test cluster waits.
        with socket.socket(fileno=os.dup(int(name))) as one:
            if one.family == socket.AF_INET and one.type == socket.SOCK_STREAM:
                found[name] = one.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT)
    return found


@pytest.mark.parametrize(("keepalive", "wanted"), [(True, 60_000), (False, 0)])
def test_a_channel_of_a_job_that_can_lose_nodes_notices_a_lost_one_in_a_minute(
    keepalive: bool, wanted: int
) -> None:
    before = timeouts()
    server, worker = pair(keepalive)
    new = [ms for name, ms in timeouts().items() if name not in before]
    assert len(new) >= 2
    assert set(new) == {wanted}
    with ThreadPoolExecutor(1) as pool:
        pool.submit(worker.send, {"kind": "push"}, [torch.ones(3)])
        message, (values,) = server.receive([torch.zeros(3)])
    assert (message, values.tolist()) == ({"kind": "push"}, [1.0, 1.0, 1.0])
    del worker, pool
    gc.collect()
    with pytest.raises(PeerLost, match="by peer"):
        server.receive()


def test_tensors_of_any_size_and_type_arrive_in_their_order() -> None:
    sent = [
        torch.rand(3),
        torch.rand(200, 200),
        torch.empty(0),
        torch.rand(100, 200, dtype=torch.complex64).T,
        torch.tensor([True, False]),
        torch.rand(50, 50),
        torch.rand(300, 300).to(torch.bfloat16),
    ]
    like = [torch.zeros_like(one) for one in sent]
    server, worker = pair(False)
    with ThreadPoolExecutor(1) as pool:
        for _ in range(2):
            pool.submit(worker.send, {"kind": "push"}, sent)
            _, found = server.receive(like)
            assert [one.dtype for one in found] == [one.dtype for one in sent]
            assert all(torch.equal(*both) for both in zip(found, sent, strict=True))
        pool.submit(worker.send, "other shapes", [torch.rand(400, 400)])
        _, (other,) = server.receive([torch.zeros(400, 400)], is_lasting=True)
        assert torch.equal(found[1], sent[1])
        assert other.shape == (400, 400)
