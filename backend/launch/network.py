"""Choice of the network over which the ranks of several nodes communicate.

A subnet is suitable if every chosen node has its own address in it. Docker's bridge has the same
address on each node (172.17.0.1/16); with it as the network, Open MPI 5.0.11 ended in "server
accept cannot find guid" and 4.1.4 hung.

Without a common subnet the nodes connect by address: machines of some hosters and VPNs have
addresses without a subnet (/32), and others are routed to each other. The preflight check finds
out whether they reach each other.
"""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Mapping, Sequence

from backend.base.errors import BackendError
from backend.records.jobs.launch import networks_of

Subnet = ipaddress.IPv4Network | ipaddress.IPv6Network
Interface = ipaddress.IPv4Interface | ipaddress.IPv6Interface


def common_subnet(addresses: Mapping[str, Sequence[str]]) -> tuple[str, dict[str, str]]:
    """Return the networks for mpirun, separated by commas, and each node's address in them.

    Args:
        addresses: Of each node its addresses with their prefix (``10.77.0.2/24``), the one that the
            other nodes use first.

    Raises:
        BackendError: A node has no address of its own.
    """
    by_node = {node: _interfaces(interfaces) for node, interfaces in addresses.items()}
    first_interfaces = next(iter(by_node.values()))
    for candidate in first_interfaces:
        subnet = candidate.network
        hosts = {
            node: next(
                (str(interface.ip) for interface in interfaces if interface.network == subnet), ""
            )
            for node, interfaces in by_node.items()
        }
        if subnet.num_addresses > 1 and _are_on_several_hosts(hosts):
            return str(subnet), hosts
    hosts = _single_hosts(by_node) or _unique_hosts(by_node)
    if _are_on_several_hosts(hosts):
        return _networks_of(hosts, addresses), hosts
    listing = "; ".join(
        f"{node} has {', '.join(map(str, interfaces)) or 'none'}"
        for node, interfaces in by_node.items()
    )
    raise BackendError(
        "The nodes have no common subnet for their ranks, and not each an address of its own: "
        f"{listing}.",
        "Choose nodes that are connected to one network.",
    )


def single_hosts(addresses: Sequence[str]) -> tuple[str, ...]:
    """Return addresses without a subnet (/32), which other nodes can still reach."""
    return tuple(
        str(interface.ip)
        for interface in _interfaces(addresses)
        if interface.network.num_addresses == 1
    )


def _are_on_several_hosts(hosts: Mapping[str, str]) -> bool:
    return all(hosts.values()) and len(set(hosts.values())) == len(hosts)


def _single_hosts(by_node: Mapping[str, Sequence[Interface]]) -> dict[str, str]:
    """Of addresses without a subnet, return the first node's best and the others' nearest to it."""
    ips_by_node = {
        node: [interface.ip for interface in interfaces if interface.network.num_addresses == 1]
        for node, interfaces in by_node.items()
    }
    for candidate in next(iter(ips_by_node.values())):
        same_version = {
            node: [ip for ip in ips if ip.version == candidate.version]
            for node, ips in ips_by_node.items()
        }
        hosts = {
            node: str(min(ips, key=lambda ip: int(ip) ^ int(candidate), default=""))
            for node, ips in same_version.items()
        }
        if _are_on_several_hosts(hosts):
            return hosts
    return {}


def _unique_hosts(by_node: Mapping[str, Sequence[Interface]]) -> dict[str, str]:
    """Return the first address of each node that no other node has."""
    counts = Counter(
        ip for interfaces in by_node.values() for ip in {interface.ip for interface in interfaces}
    )
    return {
        node: next((str(interface.ip) for interface in interfaces if counts[interface.ip] == 1), "")
        for node, interfaces in by_node.items()
    }


def _networks_of(hosts: Mapping[str, str], addresses: Mapping[str, Sequence[str]]) -> str:
    """Return one network around all addresses if it contains no other, otherwise each separately.

    mpirun warns on each node about each network in which it has no address.
    """
    networks = [ipaddress.ip_network(host) for host in hosts.values()]
    cover = networks[0]
    while cover.prefixlen and not all(_is_in(network, cover) for network in networks):
        cover = cover.supernet()
    for node, texts in addresses.items():
        ips = {str(network.ip) for network in map(_interface, (*texts, "127.0.0.1/8")) if network}
        if any(_is_in(ipaddress.ip_network(ip), cover) for ip in ips - {hosts[node]}):
            return networks_of(hosts.values())
    is_common = all(_is_in(network, cover) for network in networks)
    return str(cover) if is_common else networks_of(hosts.values())


def _is_in(subnet: Subnet, outer_subnet: Subnet) -> bool:
    return subnet.version == outer_subnet.version and subnet.subnet_of(outer_subnet)  # type: ignore[arg-type]


def _interface(text: str) -> Interface | None:
    try:
        return ipaddress.ip_interface(text)
    except ValueError:  # a name in place of an address
        return None


def _interfaces(addresses: Sequence[str]) -> list[Interface]:
    """Return the usable ones, IPv4 first: Open MPI's TCP transport prefers it."""
    usable_interfaces = [
        interface
        for interface in map(_interface, addresses)
        if interface and not (interface.is_loopback or interface.is_link_local)
    ]
    return sorted(usable_interfaces, key=lambda interface: interface.version)
