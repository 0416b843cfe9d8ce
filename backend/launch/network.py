"""How the ranks on several nodes reach each other. Pure: addresses in, one subnet out.

A subnet is good when every chosen node has an address of its own in it. The bridge that Docker
makes has the same address on each node (172.17.0.1/16); taken for the network, Open MPI 5.0.11
ended in "server accept cannot find guid" and 4.1.4 hung.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence

from backend.errors import BackendError

Subnet = ipaddress.IPv4Network | ipaddress.IPv6Network


def common_subnet(addresses: Mapping[str, Sequence[str]]) -> tuple[str, dict[str, str]]:
    """The subnet that all nodes share, and each node's address in it.

    Args:
        addresses: Of each node its addresses with their prefix (``10.77.0.2/24``), the one by
            which it is known to the others first.

    Raises:
        BackendError: There is none.
    """
    by_node = {node: _interfaces(found) for node, found in addresses.items()}
    first = next(iter(by_node.values()))
    for candidate in first:
        subnet = candidate.network
        hosts = {
            node: next((str(one.ip) for one in found if one.network == subnet), "")
            for node, found in by_node.items()
        }
        if all(hosts.values()) and len(set(hosts.values())) == len(hosts):
            return str(subnet), hosts
    told = "; ".join(
        f"{node} has {', '.join(map(str, found)) or 'none'}" for node, found in by_node.items()
    )
    raise BackendError(
        f"The nodes have no subnet in common over which their ranks could meet: {told}.",
        "Choose nodes that are connected to one network.",
    )


def _interfaces(
    found: Sequence[str],
) -> list[ipaddress.IPv4Interface | ipaddress.IPv6Interface]:
    """What can serve, IPv4 first: Open MPI's TCP transport prefers it."""
    interfaces = []
    for text in found:
        try:
            one = ipaddress.ip_interface(text)
        except ValueError:
            continue
        if not (one.is_loopback or one.is_link_local) and one.network.num_addresses > 1:
            interfaces.append(one)
    return sorted(interfaces, key=lambda one: one.version)
