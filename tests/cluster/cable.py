"""A node's network card and the cable from it to the cluster's bridge."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.cluster.commands import ClusterError, call, ip
from tests.cluster.slot import Slot
from tests.waiting import LIMIT_S, wait_for

_UNUSED_MAC = "02:52:4d:ff:ff:ff"
_RELAY = Path(__file__).with_name("relay.py")


class Cable:
    """A pair of links: ``eth0`` in the node's network namespace, the other end here."""

    def __init__(self, slot: Slot, index: int, node: str) -> None:
        self.address = str(slot.subnet[index + 1])
        self.namespace = slot.namespace(node)
        self._slot = slot
        self._mac = slot.mac(index)
        self._link = slot.link("n", index)
        self._relay_links = slot.link("d", index), slot.link("e", index)
        self._relay: subprocess.Popen[str] | None = None
        self.is_blocked = False

    def plug_in(self) -> None:
        """A new card, in a network namespace of its own."""
        call("ip", "netns", "add", self.namespace)
        ip(
            [
                f"link add {self._link} type veth"
                f" peer name eth0 address {self._mac} netns {self.namespace}",
                f"link set {self._link} master {self._slot.bridge}",
                # Out of the bridge, for a relay, it must not answer in the desktop's name.
                f"link set {self._link} arp off addrgenmode none up",
            ]
        )
        prefix = self._slot.subnet.prefixlen
        ip(
            ["link set lo up", f"address add {self.address}/{prefix} dev eth0", "link set eth0 up"],
            self.namespace,
        )

    def pull(self) -> None:
        """Take it out for good: what is sent from now on is lost, a closing word too."""
        # A namespace's links go some time after it; the next card must not meet this one.
        ip([f"link delete {self._link}"])
        if self._relay is not None:
            self.end_relay()
            ip([f"link delete {self._relay_links[0]}"])

    def cut(self) -> None:
        ip([f"link set {self._link} down"])

    def repair(self) -> None:
        ip([f"link set {self._link} up"])
        state = Path("/sys/class/net", self._link, "operstate")
        wait_for(lambda: state.read_text() == "up\n", f"a carrier for {self.namespace}")

    def forget_neighbours(self) -> None:
        ip(["neigh flush dev eth0"], self.namespace)

    def block_desktop_route(self) -> None:
        """Drop packets between the node and the desktop in silence; nodes reach each other."""
        for line, namespace in self._desktop_routes():
            ip([f"neigh replace {line} lladdr {_UNUSED_MAC} nud permanent"], namespace)
        self.is_blocked = True

    def restore_desktop_route(self) -> None:
        for line, namespace in self._desktop_routes():
            ip([f"neigh delete {line}"], namespace)
        self.is_blocked = False

    def _desktop_routes(self) -> tuple[tuple[str, str], tuple[str, str]]:
        return (
            (f"{self.address} dev {self._slot.bridge}", ""),
            (f"{self._slot.subnet[1]} dev eth0", self.namespace),
        )

    def delay(self, round_trip_s: float) -> None:
        """Make it so long that a word and its answer take that much longer; 0 for a short one."""
        relay_end, bridge_end = self._relay_links
        if self._relay is not None:
            self.end_relay()
            ip([f"link delete {relay_end}", f"link set {self._link} master {self._slot.bridge}"])
        if not round_trip_s:
            return
        ip(
            [
                f"link set {self._link} nomaster",
                f"link add {relay_end} type veth peer name {bridge_end}",
                f"link set {relay_end} arp off addrgenmode none up",
                f"link set {bridge_end} master {self._slot.bridge}",
            ]
        )
        self._relay = subprocess.Popen(
            [sys.executable, "-I", "-S", _RELAY, self._link, relay_end, str(round_trip_s / 2)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert self._relay.stdout is not None
        if self._relay.stdout.readline() != "carrying\n":
            raise ClusterError(f"The relay for {self.namespace} did not start")
        ip([f"link set {bridge_end} up"])

    @property
    def is_delayed(self) -> bool:
        return self._relay is not None

    def end_relay(self) -> None:
        if self._relay is not None:
            self._relay.communicate(timeout=LIMIT_S)
            self._relay = None
