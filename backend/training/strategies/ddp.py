"""Synchronous data parallelism by PyTorch alone: `torch.nn.parallel.DistributedDataParallel`.

It trains as `AllReduce` does, on nodes where Horovod cannot be built. Gradients go through gloo on
CPUs and NCCL on GPUs. MPI is used once, to pass on the address of rank 0's store: the port is one
that the system chose.
"""

from __future__ import annotations

import ipaddress
import os
import socket
from datetime import timedelta
from typing import Any

import torch
import torch.distributed

from backend.base.errors import BackendError
from backend.training.strategies.base import LocalGradients

# Most of its names are not annotated.
_distributed: Any = torch.distributed
_SUBNETS = "OMPI_MCA_btl_tcp_if_include"
"""mpirun passes its own argument on to the ranks: the subnets through which nodes reach each
other."""


class Ddp(LocalGradients):
    name = "ddp"

    @property
    def rank(self) -> int:
        return int(self._mpi.COMM_WORLD.rank)

    @property
    def world_size(self) -> int:
        return int(self._mpi.COMM_WORLD.size)

    def load(self) -> None:
        try:
            import mpi4py

            # MPI starts in `join` and ends in `leave`.
            mpi4py.rc.initialize = mpi4py.rc.finalize = False
            from mpi4py import MPI
        except (ImportError, RuntimeError) as error:
            raise BackendError(
                f"mpi4py cannot be loaded on this node: {error}.",
                "Set the node up again, or choose the strategy “alone” for one process.",
            ) from error
        self._mpi: Any = MPI

    def join(self, stall_limit_s: float) -> None:
        self._mpi.Init()
        interface, address = interface_of(os.environ.get(_SUBNETS, ""))
        os.environ["GLOO_SOCKET_IFNAME"] = os.environ["NCCL_SOCKET_IFNAME"] = interface
        # The guard ends a rank that hangs; this is for runs without a guard.
        limit = timedelta(seconds=2 * stall_limit_s + 60)
        world = self._mpi.COMM_WORLD
        store = None
        if self.rank == 0:
            store = self._store(address, 0, limit)
            address = f"{address} {store.port}"
        host, port = world.bcast(address).split()
        on_gpu = torch.cuda.is_available() and bool(os.environ.get("CUDA_VISIBLE_DEVICES"))
        _distributed.init_process_group(
            "cpu:gloo,cuda:nccl" if on_gpu else "gloo",
            store=store or self._store(host, int(port), limit),
            rank=self.rank,
            world_size=self.world_size,
            timeout=limit,
        )

    def _store(self, host: str, port: int, limit: timedelta) -> Any:
        return _distributed.TCPStore(
            host, port, self.world_size, self.rank == 0, limit, wait_for_workers=False
        )

    def broadcast(self, values: torch.Tensor) -> None:
        _distributed.broadcast(values, 0)

    def parallel(self, forward: torch.nn.Module) -> torch.nn.Module:
        # Every rank has rank 0's values (`share_model`); buffers are each rank's own until then.
        # A step may leave parameters unused, on some ranks or on all.
        return torch.nn.parallel.DistributedDataParallel(
            forward,
            broadcast_buffers=False,
            init_sync=False,
            gradient_as_bucket_view=True,
            find_unused_parameters=True,
        )

    def adopt(self, model: torch.nn.Module, ballot_size: int) -> torch.Tensor:
        self._sync = super().adopt(model, ballot_size)
        return self._sync

    def zero(self) -> None:
        super().zero()
        # It is sent while the gradients are computed.
        self._sent = _distributed.all_reduce(self._sync, async_op=True)

    def reduce(self) -> None:
        super().reduce()
        self._sent.wait()
        self._sync.div_(self.world_size)

    def total(self, values: torch.Tensor) -> torch.Tensor:
        _distributed.all_reduce(values)
        return values

    def gather(self, value: Any) -> list[Any]:
        values = [None] * self.world_size
        _distributed.all_gather_object(values, value)
        return values

    def leave(self) -> None:
        _distributed.destroy_process_group()
        self._mpi.Finalize()


def interface_of(subnets: str) -> tuple[str, str]:
    """Return the network interface of this node in one of the subnets, and its address there.

    Args:
        subnets: As mpirun has them ("10.0.0.0/24,10.1.0.0/24"), "" for ranks of one node.

    Raises:
        BackendError: No interface has an address in them.
    """
    import psutil

    networks = [ipaddress.ip_network(one) for one in (subnets or "127.0.0.0/8").split(",")]
    for interface, addresses in psutil.net_if_addrs().items():
        for one in addresses:
            if one.family in (socket.AF_INET, socket.AF_INET6):
                address = one.address.partition("%")[0]
                if any(ipaddress.ip_address(address) in network for network in networks):
                    return interface, address
    raise BackendError(
        f"{socket.gethostname()} has no network address in {subnets}, through which its job's "
        "nodes reach each other.",
        "Check its addresses with “ip address”, and press Check on the Nodes page.",
    )
