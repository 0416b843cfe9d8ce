"""Rendezvous of a run's ranks without MPI, and their store for torch.distributed.

Rank 0 listens at the run's `RendezvousPoint`, on the address at which the other nodes reach it. All
connections are `PeerLink`s, so a foreign program can neither read nor write the store.
"""

from __future__ import annotations

import ipaddress
import os
import socket
import threading
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import torch.distributed

from backend.base.errors import BackendError
from backend.base.log import swallowed
from backend.base.rendezvous_point import PORT_VARIABLE, take_secret
from backend.training.strategies.peer_link import Listener, PeerLink, connect
from backend.training.strategies.wire_format import decode, encode

# Most of its names are not annotated.
distributed: Any = torch.distributed
_SUBNETS = "OMPI_MCA_btl_tcp_if_include"
"""mpirun passes its own argument on to the ranks: the subnets through which nodes reach each
other."""
_STORE = "store"
"""Name of the connections through which other ranks use rank 0's store."""


class Rendezvous:
    """Rank, number of ranks and common store; all are valid after `join`."""

    def __init__(self, host: str) -> None:
        """Prepare to meet at rank 0, whose address is ``host`` for all ranks."""
        self._host = host
        self.rank = int(os.environ.get("OMPI_COMM_WORLD_RANK", "0"))
        self.world_size = int(os.environ.get("OMPI_COMM_WORLD_SIZE", "1"))
        self._condition = threading.Condition()
        self._links: dict[str, PeerLink] = {}
        self._listener: Listener | None = None
        self._memory = StoreMemory()

    def load(self) -> None:
        """Take the run's secret from the environment.

        Raises:
            BackendError: The secret is missing.
        """
        try:
            self._secret, self._port = take_secret(), int(os.environ[PORT_VARIABLE])
        except (KeyError, ValueError) as error:
            raise BackendError(
                "The ranks have no secret by which they recognize each other.",
                "Start the job in Ringmaster, or copy its command again.",
            ) from error

    def join(self, stall_limit_s: float) -> None:
        interface, self._own_address = interface_of(os.environ.get(_SUBNETS, ""))
        os.environ["GLOO_SOCKET_IFNAME"] = os.environ["NCCL_SOCKET_IFNAME"] = interface
        # The guard ends a rank that hangs; this is for runs without a guard.
        self.timeout = timedelta(seconds=2 * stall_limit_s + 60)
        if self.rank == 0:
            self._listener = self._listen(self._host, self._port)
        self.store = RunStore(self)
        self.store.set_timeout(self.timeout)
        # All ranks have arrived when this returns.
        self.store.set(f"arrived/{self.rank}", b"")
        self.store.wait([f"arrived/{rank}" for rank in range(self.world_size)])

    def leave(self) -> None:
        """Close this rank's listener, and its connection to the store."""
        self.store.close()
        if self._listener is not None:
            self._listener.close()

    def query_store(self, link: PeerLink | None, query: tuple[Any, ...]) -> Any:
        """Return the answer of rank 0's store; ``link`` is None at rank 0."""
        if link is None:
            return self._memory.answer(*query)
        _send(link, query)
        return _receive(link)

    def link_to_store(self) -> PeerLink | None:
        """Return a connection to rank 0's store; None at rank 0."""
        if self.rank == 0:
            return None
        return connect(self._host, self._port, self._secret, _STORE, self.timeout.total_seconds())

    def open_link(self, name: str, listener_rank: int) -> PeerLink:
        """Return this rank's end of the connection ``name``, which two ranks make.

        Raises:
            OSError: The other rank did not come.
        """
        if self.rank == listener_rank:
            link = self._accept(name)
        else:
            host, port = decode(self.store.get(f"address/{listener_rank}"))
            link = connect(host, port, self._secret, name, self.timeout.total_seconds())
        link.set_limit(self.timeout.total_seconds())
        return link

    def _accept(self, name: str) -> PeerLink:
        with self._condition:
            if self._listener is None:
                self._listener = self._listen(self._own_address, 0)
            self.store.set(f"address/{self.rank}", encode(self._listener.address))
            if not self._condition.wait_for(
                lambda: name in self._links, self.timeout.total_seconds()
            ):
                raise TimeoutError(f"The rank for the connection {name} did not come.")
            return self._links.pop(name)

    def _listen(self, host: str, port: int) -> Listener:
        try:
            return Listener(host, port, self._secret, self._serve_link)
        except OSError as error:
            raise BackendError(
                f"Rank {self.rank} cannot listen on {host} port {port}: {error.strerror}.",
                "Start the job again; it then uses another port. If that fails, too, check the "
                "node's addresses with “ip address”.",
            ) from error

    def _serve_link(self, name: str, link: PeerLink) -> None:
        if name != _STORE:
            with self._condition:
                self._links[name] = link
                self._condition.notify_all()
            return
        try:
            while True:
                _send(link, self._memory.answer(*_receive(link)))
        except OSError as error:
            # The rank has ended; its guard has the reason.
            swallowed(error)
        finally:
            link.close()


class StoreMemory:
    """The keys and values of a run's store, in the process of rank 0."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._values: dict[str, bytes] = {}

    def answer(self, verb: str, keys: list[str], value: Any, limit_s: float) -> Any:
        """Answer the query of a rank; None if a key did not come within the limit."""
        with self._condition:
            if verb == "check":
                return all(key in self._values for key in keys)
            if verb in ("get", "wait"):
                has_keys = self._condition.wait_for(
                    lambda: all(key in self._values for key in keys), limit_s
                )
                return [self._values[key] for key in keys] if has_keys else None
            if verb == "count":
                return len(self._values)
            (key,) = keys
            old_value = self._values.get(key)
            if verb == "delete":
                return self._values.pop(key, None) is not None
            if verb == "set":
                self._values[key] = value
            elif verb == "add":
                self._values[key] = str(int(old_value or b"0") + value).encode()
            elif verb == "compare_set":
                expected, desired = value
                if old_value == expected or (old_value is None and not expected):
                    self._values[key] = desired
                elif old_value is None:
                    return expected
            else:
                raise ValueError(f"the store has no verb {verb}")
            self._condition.notify_all()
            return self._values[key]


class RunStore(distributed.Store):  # type: ignore[misc]
    """Rank 0's store as `torch.distributed` uses it, from any rank and thread.

    torch's own `TCPStore` takes keys from any program that connects, and listens on all interfaces.
    """

    def __init__(self, rendezvous: Rendezvous) -> None:
        super().__init__()
        self._rendezvous = rendezvous
        self._link = rendezvous.link_to_store()
        self._lock = threading.Lock()

    def close(self) -> None:
        if self._link is not None:
            self._link.close()

    def clone(self) -> RunStore:
        """Return a store with its own connection, which need not wait for this store."""
        copy = RunStore(self._rendezvous)
        copy.set_timeout(self.timeout)
        return copy

    def set(self, key: str, value: bytes | str) -> None:
        self._query("set", [key], value.encode() if isinstance(value, str) else bytes(value))

    def get(self, key: str) -> bytes:
        return bytes(self._wait("get", [key], self.timeout)[0])

    def add(self, key: str, amount: int) -> int:
        return int(self._query("add", [key], amount))

    def compare_set(self, key: str, expected: bytes | str, desired: bytes | str) -> bytes:
        pair = [x.encode() if isinstance(x, str) else bytes(x) for x in (expected, desired)]
        return bytes(self._query("compare_set", [key], pair))

    def check(self, keys: Sequence[str]) -> bool:
        return bool(self._query("check", list(keys)))

    def wait(self, keys: Sequence[str], timeout: timedelta | None = None) -> None:
        self._wait("wait", list(keys), self.timeout if timeout is None else timeout)

    def delete_key(self, key: str) -> bool:
        return bool(self._query("delete", [key]))

    def num_keys(self) -> int:
        return int(self._query("count", []))

    def has_extended_api(self) -> bool:
        return False

    def _wait(self, verb: str, keys: list[str], timeout: timedelta) -> list[bytes]:
        values: list[bytes] | None = self._query(verb, keys, limit_s=timeout.total_seconds())
        if values is None:
            raise distributed.DistStoreError(
                f"wait timeout after {timeout.total_seconds():.0f} s, keys: {', '.join(keys)}"
            )
        return values

    def _query(self, verb: str, keys: list[str], value: Any = None, limit_s: float = 0.0) -> Any:
        with self._lock:
            return self._rendezvous.query_store(self._link, (verb, keys, value, limit_s))


class RendezvousMixin:
    """Part of a strategy whose ranks meet without Horovod."""

    def __init__(self, host: str) -> None:
        super().__init__()
        self._rendezvous = Rendezvous(host)

    @property
    def rank(self) -> int:
        return self._rendezvous.rank

    @property
    def world_size(self) -> int:
        return self._rendezvous.world_size

    def load(self) -> None:
        self._rendezvous.load()


def interface_of(subnets: str) -> tuple[str, str]:
    """Return the network interface of this node in one of the subnets, and its address there.

    Args:
        subnets: As mpirun has them ("10.0.0.0/24,10.1.0.0/24"), "" for ranks of one node.

    Raises:
        BackendError: No interface has an address in them.
    """
    import psutil

    networks = [ipaddress.ip_network(subnet) for subnet in (subnets or "127.0.0.0/8").split(",")]
    for interface, addresses in psutil.net_if_addrs().items():
        for subnet in addresses:
            if subnet.family in (socket.AF_INET, socket.AF_INET6):
                address = subnet.address.partition("%")[0]
                if any(ipaddress.ip_address(address) in network for network in networks):
                    return interface, address
    raise BackendError(
        f"{socket.gethostname()} has no network address in {subnets}, through which its job's "
        "nodes reach each other.",
        "Check its addresses with “ip address”, and press Check on the Nodes page.",
    )


def _send(link: PeerLink, value: Any) -> None:
    content = encode(value)
    link.send(len(content).to_bytes(8, "big"))
    link.send(content)


def _receive(link: PeerLink) -> Any:
    size = bytearray(8)
    link.receive(size)
    content = bytearray(int.from_bytes(size, "big"))
    link.receive(content)
    return decode(content)
