"""Two ranks of `server_bandwidth`: ``python -m tests.benchmarks.server_ranks mpi|server FILE``.

Rank 1 sends 20 MB and gets 20 MB back, 20 times; it writes the bytes a second.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from backend.records.jobs.config import StrategyConfig
from backend.training.parameter_server import ParameterServer
from backend.training.strategies.channel import Channel
from backend.training.strategies.rendezvous import Rendezvous

_SHAPES = [(1000, 1000)] * 4 + [(500, 500)] * 4 + [(100,)] * 8
_WARM, _ROUNDS = 3, 20


def main() -> None:
    method, output = sys.argv[1:]
    rank, exchange = (_mpi if method == "mpi" else _server)()
    for _ in range(_WARM):
        exchange()
    started_s = time.perf_counter()
    for _ in range(_ROUNDS):
        exchange()
    seconds = time.perf_counter() - started_s
    if rank == 1:
        sent_bytes = 2 * _ROUNDS * sum(tensor.numel() * 4 for tensor in _tensors())
        Path(output).write_text(str(sent_bytes / seconds))


def _tensors() -> list[torch.nn.Parameter]:
    return [torch.nn.Parameter(torch.ones(shape)) for shape in _SHAPES]


def _mpi() -> tuple[int, Callable[[], None]]:
    from mpi4py import MPI

    world: Any = MPI.COMM_WORLD
    buffer = torch.cat([tensor.detach().view(-1) for tensor in _tensors()]).numpy()

    def exchange() -> None:
        if world.rank:
            world.Send(buffer, 0)
            world.Recv(buffer, 0)
        else:
            world.Recv(buffer, 1)
            world.Send(buffer, 1)

    return world.rank, exchange


def _server() -> tuple[int, Callable[[], None]]:
    rendezvous = Rendezvous("127.0.0.1")
    rendezvous.load()
    rendezvous.join(60)
    channel = Channel(rendezvous, 1, 0)
    parameters = _tensors()
    server = ParameterServer(
        parameters, torch.optim.SGD(parameters, 0.01), StrategyConfig("downpour")
    )
    server.pull(1)
    gradients = [torch.zeros_like(tensor) for tensor in parameters]

    def exchange() -> None:
        if rendezvous.rank:
            channel.send({"kind": "push"}, gradients)
            channel.receive(parameters)
        else:
            _, pushed_gradients = channel.receive(parameters)
            server.push(1, pushed_gradients, 0.01)
            channel.send({}, server.pull(1))

    return rendezvous.rank, exchange


if __name__ == "__main__":
    main()
