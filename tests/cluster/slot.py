"""The number of a cluster on this machine, and everything that is named after the number.

The number gives the subnet, the bridge and the names of links and namespaces, so several clusters
stand side by side, and what a killed run left is known by its name.  A lock says whether a
number's owner lives.  Besides the owner a guard holds it: a process that waits for the owner's
end, however it comes, and then takes everything down.
"""

from __future__ import annotations

import contextlib
import fcntl
import ipaddress
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.cluster import processor
from tests.cluster.commands import ClusterError, call, ip
from tests.waiting import wait_for

_LOCKS = Path("/run/lock")
_SLOTS = range(64)
_REPOSITORY = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Slot:
    """Names and addresses of one cluster."""

    number: int

    @property
    def subnet(self) -> ipaddress.IPv4Network:
        return ipaddress.IPv4Network(f"10.77.{self.number}.0/24")

    @property
    def bridge(self) -> str:
        return f"rmc{self.number}"

    def link(self, kind: str, index: int) -> str:
        """A link's name; ``kind`` is one letter for what it is to the node ``index``."""
        return f"rmc{self.number}{kind}{index}"

    def namespace(self, node: str) -> str:
        return f"rmc{self.number}-{node}"

    def mac(self, index: int) -> str:
        """Nodes keep theirs over a reboot, as machines do: neighbours remember it for a while."""
        return f"02:52:4d:{self.number:02x}:00:{index:02x}"

    @property
    def lock(self) -> Path:
        """Holds the cluster's folder while it stands."""
        return _LOCKS / f"ringmaster-cluster-{self.number}"

    def links(self) -> list[str]:
        """Its links that exist, the bridge last."""
        link_pattern = re.compile(rf"rmc{self.number}([a-z]\d+)?")
        names = [link["ifname"] for link in json.loads(call("ip", "-json", "link"))]
        return sorted(filter(link_pattern.fullmatch, names), reverse=True)

    def namespaces(self) -> list[str]:
        """Its network namespaces that exist."""
        names = [line.split()[0] for line in call("ip", "netns", "list").splitlines()]
        return [name for name in names if name.startswith(self.namespace(""))]


@contextlib.contextmanager
def claim_slot(folder: Path) -> Iterator[Slot]:
    """A number for a cluster in ``folder``; all that was made under it goes at the end.

    First goes whatever killed runs have left, under this number or another.
    """
    with contextlib.ExitStack() as stack:
        claim = None
        for slot in map(Slot, _SLOTS):
            if claim is not None and not slot.lock.exists():
                continue
            with contextlib.suppress(BlockingIOError):
                lock = stack.enter_context(_lock_slot(slot))
                if claim is None or slot.lock.read_text():
                    take_down(slot)
                if claim is None and _is_free(slot.subnet):
                    claim = stack.pop_all(), slot, lock
                stack.close()
        if claim is None:
            raise ClusterError("No subnet 10.77.0.0/24 to 10.77.63.0/24 is free on this machine")
        lock_stack, slot, lock = claim
        with lock_stack:
            slot.lock.write_text(str(folder.resolve()))
            with _guard_slot(slot, lock):
                try:
                    yield slot
                finally:
                    take_down(slot)


@contextlib.contextmanager
def _lock_slot(slot: Slot) -> Iterator[int]:
    lock = os.open(slot.lock, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield lock
    finally:
        os.close(lock)


def _is_free(subnet: ipaddress.IPv4Network) -> bool:
    routes = json.loads(call("ip", "-json", "-4", "route", "show", "table", "all"))
    used_networks = [ipaddress.ip_network(r["dst"]) for r in routes if r["dst"][0].isdigit()]
    # A wider route, a VPN's 10.0.0.0/8 for one, yields to the bridge's own.
    return not any(subnet.overlaps(route) for route in used_networks if route.prefixlen >= 16)


@contextlib.contextmanager
def _guard_slot(slot: Slot, lock: int) -> Iterator[None]:
    argv = [sys.executable, "-m", "tests.cluster.slot", str(slot.number)]
    with subprocess.Popen(
        argv,
        cwd=_REPOSITORY,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        pass_fds=(lock,),
        start_new_session=True,
    ):
        yield  # the end of the block closes the guard's input, its sign to check and leave


def take_down(slot: Slot) -> None:
    """End and remove all that bears the slot's name; for the holder of its lock alone.

    Raises:
        ClusterError: Something stays.
    """
    for link in slot.links():
        with contextlib.suppress(ClusterError):  # the other end of a pair went with the first
            ip([f"link delete {link}"])
    for namespace in slot.namespaces():
        end_processes(namespace)
        call("ip", "netns", "delete", namespace)
    processor.remove_groups(slot.namespace(""))
    if folder := slot.lock.read_text():
        for mount in mounts_below(Path(folder)):
            call("umount", "--lazy", mount)
        try:
            wait_for(lambda: not loops_below(Path(folder)), f"the end of loop devices in {folder}")
        except AssertionError as error:
            # A process of this machine still has a file open there, and the device goes with it.
            # That is printed, and fails no test: the one that happens to be the last is innocent.
            sys.stderr.write(f"{error}\n")
        for disk in Path(folder).glob("**/*.ext4"):
            disk.unlink()
    slot.lock.write_text("")
    if remaining_names := [*slot.links(), *slot.namespaces()]:
        raise ClusterError(
            f"The cluster was taken down, yet there is still {', '.join(remaining_names)}"
        )


def processes_in(namespace: str) -> list[int]:
    """Ids on this machine of the processes in a network namespace."""
    return [int(pid) for pid in call("ip", "netns", "pids", namespace).split()]


def end_processes(namespace: str) -> None:
    """Kill everything in a network namespace; nothing runs there when this returns."""

    def is_empty() -> bool:
        pids = processes_in(namespace)
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return not pids

    wait_for(is_empty, f"the end of processes in {namespace}", hint=lambda: call("ps", "-ef"))


def mounts_below(folder: Path) -> list[str]:
    """Mount points in a folder on this machine, the innermost first."""
    mounts = json.loads(call("findmnt", "--json", "--list", "--output", "TARGET"))
    mount_points = [entry["target"] for entry in mounts["filesystems"]]
    return sorted(
        (p for p in mount_points if Path(p).is_relative_to(folder)), key=len, reverse=True
    )


def loops_below(folder: Path) -> list[str]:
    """Loop devices whose disk lies in a folder."""
    listing = call("losetup", "--list", "--json", "--output", "NAME,BACK-FILE")
    devices = json.loads(listing)["loopdevices"] if listing.strip() else []
    return [d["name"] for d in devices if Path(d["back-file"] or "").is_relative_to(folder)]


def _run_guard(slot: Slot) -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    sys.stdin.buffer.read()
    if slot.lock.read_text():
        take_down(slot)


if __name__ == "__main__":
    _run_guard(Slot(int(sys.argv[1])))
