"""Check of the firewall that keeps other machines from the ports of runs (docs/network.md)."""

from __future__ import annotations

import errno
import socket

from backend.records.nodes.reading import Finding

CHECK = "ports of runs"
_PORTS = (32_768, 45_321, 60_999)
"""The ends and a middle of the range from which Linux gives ports away."""
_LIMIT_S = 1.0


def check_ports(name: str, address: str) -> Finding:
    """Try the ports of a node from this computer.

    A port without a listener answers, too, unless a firewall drops the packets.
    """
    if not any(_answers(address, port) for port in _PORTS):
        return Finding(CHECK, True, f"This computer cannot connect to the ports of runs on {name}.")
    return Finding(
        CHECK,
        True,
        f"This computer can connect to the ports of runs on {name}, and so can every machine of "
        "its network; “Who may reach the nodes” in the help closes them.",
    )


def _answers(address: str, port: int) -> bool:
    try:
        with socket.create_connection((address, port), _LIMIT_S):
            return True
    except OSError as error:
        return error.errno == errno.ECONNREFUSED
