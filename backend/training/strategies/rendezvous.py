"""The meeting of a run's ranks through MPI, and their store for torch.distributed.

MPI is used for one broadcast only, of the address of rank 0's store: its port is one that the
system chose. It has ended when the ranks begin to train, so a rank that dies later is no matter of
MPI's.
"""

from __future__ import annotations

import ipaddress
import os
import socket
from datetime import timedelta
from typing import Any

import torch.distributed

from backend.base.errors import BackendError

# Most of its names are not annotated.
distributed: Any = torch.distributed
_SUBNETS = "OMPI_MCA_btl_tcp_if_include"
"""mpirun passes its own argument on to the ranks: the subnets through which nodes reach each
other."""


class Rendezvous:
    """Rank, number of ranks and common store; all are valid after `join`."""

    def load(self) -> None:
        """Import mpi4py.

        Raises:
            BackendError: It is not installed here.
        """
        try:
            import mpi4py

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
        world = self._mpi.COMM_WORLD
        self.rank, self.world_size = int(world.rank), int(world.size)
        interface, address = interface_of(os.environ.get(_SUBNETS, ""))
        os.environ["GLOO_SOCKET_IFNAME"] = os.environ["NCCL_SOCKET_IFNAME"] = interface
        # The guard ends a rank that hangs; this is for runs without a guard.
        self.limit = timedelta(seconds=2 * stall_limit_s + 60)
        if self.rank == 0:
            self.store = self._store(address, 0)
            world.bcast((address, self.store.port))
        else:
            self.store = self._store(*world.bcast(None))
        self._mpi.Finalize()

    def leave(self) -> None:
        """Do nothing: the store ends with rank 0."""

    def _store(self, host: str, port: int) -> Any:
        return distributed.TCPStore(
            host, port, self.world_size, self.rank == 0, self.limit, wait_for_workers=False
        )


class Meets:
    """The part of a strategy whose ranks meet without Horovod."""

    def __init__(self) -> None:
        super().__init__()
        self._meeting = Rendezvous()

    @property
    def rank(self) -> int:
        return self._meeting.rank

    @property
    def world_size(self) -> int:
        return self._meeting.world_size

    def load(self) -> None:
        self._meeting.load()


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
