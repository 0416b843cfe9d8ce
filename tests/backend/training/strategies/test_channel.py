"""A channel between two ranks, both in this process."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch

from backend.base.rendezvous_point import RendezvousPoint
from backend.training.error_report import make_record
from backend.training.strategies.channel import Channel, PeerLost
from backend.training.strategies.rendezvous import Rendezvous
from backend.training.train_state import Batch


class Ranks:
    """Two ranks that have met, and their channels."""

    def __init__(self, rendezvous_ends: list[Rendezvous]) -> None:
        self.rendezvous_ends = rendezvous_ends
        self._channels: list[Channel] = []

    def pair(self, server: int = 0, **options: Any) -> tuple[Channel, Channel]:
        """Return the ends of the server and of its worker."""
        worker = 1 - server
        with ThreadPoolExecutor(2) as pool:
            first, second = pool.map(
                lambda rank: Channel(self.rendezvous_ends[rank], worker, server, **options),
                (server, worker),
            )
        self._channels += [first, second]
        return first, second

    def close(self) -> None:
        for channel in self._channels:
            channel.close()
        for rendezvous in self.rendezvous_ends:
            rendezvous.leave()


@pytest.fixture
def ranks(monkeypatch: pytest.MonkeyPatch) -> Iterator[Ranks]:
    point = RendezvousPoint("127.0.0.1")
    rendezvous_ends = []
    for rank in range(2):
        for name, value in point.variables.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("OMPI_COMM_WORLD_RANK", str(rank))
        monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "2")
        rendezvous_ends.append(Rendezvous("127.0.0.1"))
        rendezvous_ends[-1].load()
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda rendezvous: rendezvous.join(30.0), rendezvous_ends))
    ranks = Ranks(rendezvous_ends)
    yield ranks
    ranks.close()
    point.release()


@pytest.mark.parametrize("server", [0, 1])
def test_a_channel_carries_messages_between_any_two_ranks(ranks: Ranks, server: int) -> None:
    server_end, worker_end = ranks.pair(server)
    with ThreadPoolExecutor(1) as pool:
        pool.submit(worker_end.send, {"kind": "push"}, [torch.ones(3)])
        message, (values,) = server_end.receive([torch.zeros(3)])
    assert (message, values.tolist()) == ({"kind": "push"}, [1.0, 1.0, 1.0])


@pytest.mark.parametrize(("keepalive", "limit_ms"), [(True, 60_000), (False, 0)])
def test_a_channel_of_a_job_that_can_lose_nodes_notices_a_lost_one_in_a_minute(
    ranks: Ranks, keepalive: bool, limit_ms: int
) -> None:
    for end in ranks.pair(keepalive=keepalive):
        connection = end._link._connection
        assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == limit_ms


def test_a_rank_that_ends_is_another_loss_than_a_lost_node(ranks: Ranks) -> None:
    server, worker = ranks.pair()
    worker.close()
    with pytest.raises(PeerLost, match="by peer") as caught:
        server.receive()
    assert caught.value.has_ended
    assert not PeerLost(TimeoutError("timed out")).has_ended


def test_tensors_of_any_size_and_type_arrive_in_their_order(ranks: Ranks) -> None:
    sent_tensors = [
        torch.rand(3),
        torch.rand(200, 200),
        torch.empty(0),
        torch.rand(100, 200, dtype=torch.complex64).T,
        torch.tensor([True, False]),
        torch.rand(50, 50),
        torch.rand(300, 300).to(torch.bfloat16),
    ]
    templates = [torch.zeros_like(tensor) for tensor in sent_tensors]
    server, worker = ranks.pair()
    with ThreadPoolExecutor(1) as pool:
        for _ in range(2):
            pool.submit(worker.send, {"kind": "push"}, sent_tensors)
            _, received = server.receive(templates)
            assert [tensor.dtype for tensor in received] == [
                tensor.dtype for tensor in sent_tensors
            ]
            assert all(torch.equal(*pair) for pair in zip(received, sent_tensors, strict=True))
        pool.submit(worker.send, "other shapes", [torch.rand(400, 400)])
        _, (lasting_tensor,) = server.receive([torch.zeros(400, 400)], is_lasting=True)
        assert torch.equal(received[1], sent_tensors[1])
        assert lasting_tensor.shape == (400, 400)


def exchange(end: Channel, is_receiving: bool) -> None:
    while True:
        if is_receiving:
            end.receive()
        else:
            end.send({"kind": "ready"})


@pytest.mark.parametrize("is_receiving", [True, False])
def test_a_rank_whose_peer_has_ended_is_not_named_as_the_first_that_failed(
    ranks: Ranks, is_receiving: bool
) -> None:
    server_end, worker_end = ranks.pair()
    server_end.close()
    with pytest.raises(PeerLost) as caught:
        exchange(worker_end, is_receiving)
    record = make_record(
        caught.value, rank=1, node="a", batch=Batch(stage="validation"), batch_size=8
    )
    assert record["secondary"]
    assert record["sentence"].startswith("Another rank ended")
