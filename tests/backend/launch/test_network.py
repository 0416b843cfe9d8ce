"""Which subnet the ranks of several nodes meet in."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.base.errors import BackendError
from backend.launch.network import common_subnet

DOCKER = "172.17.0.1/16"


def test_m4_the_subnet_that_all_nodes_share_is_found_whatever_the_interfaces_are_called() -> None:
    assert common_subnet(
        {"node1": ("192.168.7.4/24", "10.77.0.2/24"), "node2": ("10.77.0.3/24", "10.1.0.9/16")}
    ) == ("10.77.0.0/24", {"node1": "10.77.0.2", "node2": "10.77.0.3"})


def test_m4_a_bridge_with_the_same_address_everywhere_connects_no_nodes() -> None:
    subnet, hosts = common_subnet(
        {"node1": (DOCKER, "10.77.0.2/24"), "node2": (DOCKER, "10.77.0.3/24")}
    )
    assert (subnet, hosts["node2"]) == ("10.77.0.0/24", "10.77.0.3")
    with pytest.raises(BackendError, match=r"node1 has 172\.17\.0\.1/16; node2 has 172"):
        common_subnet({"node1": (DOCKER,), "node2": (DOCKER,)})


def test_the_subnet_by_which_the_node_is_known_wins_over_another_common_one() -> None:
    fast = {"node1": ("10.1.0.1/24", "10.77.0.2/24"), "node2": ("10.77.0.3/24", "10.1.0.2/24")}
    assert common_subnet(fast)[0] == "10.1.0.0/24"


def test_loopback_link_local_and_invalid_addresses_are_passed_over() -> None:
    unusable_addresses = ("127.0.0.1/8", "169.254.3.3/16", "fe80::1/64", "no address")
    with pytest.raises(BackendError, match="no common subnet"):
        common_subnet({"node1": unusable_addresses, "node2": unusable_addresses})
    subnet, _ = common_subnet(
        {"node1": (*unusable_addresses, "fd00::1/64"), "node2": ("fd00::2/64", *unusable_addresses)}
    )
    assert subnet == "fd00::/64"


@pytest.mark.parametrize(
    ("addresses", "networks", "hosts"),
    [
        ((("10.88.0.2/32",), ("10.88.0.3/32",)), "10.88.0.2/31", ("10.88.0.2", "10.88.0.3")),
        # Google's machines, with Docker's bridge.
        (
            (("10.128.0.2/32", DOCKER), ("10.128.0.7/32", DOCKER)),
            "10.128.0.0/29",
            ("10.128.0.2", "10.128.0.7"),
        ),
        # Tailscale, beside the networks of two homes.
        (
            (("192.168.1.5/24", "100.64.3.1/32"), ("192.168.178.2/24", "100.101.2.3/32")),
            "100.64.0.0/10",
            ("100.64.3.1", "100.101.2.3"),
        ),
        # A hoster's public and private addresses, both alone.
        (
            (("10.0.0.2/32", "88.198.1.2/32"), ("88.198.9.9/32", "10.0.0.3/32")),
            "10.0.0.2/31",
            ("10.0.0.2", "10.0.0.3"),
        ),
        # Two subnets with a router between, and two zones of one private cloud.
        ((("10.1.0.5/24",), ("10.2.0.7/24",)), "10.0.0.0/14", ("10.1.0.5", "10.2.0.7")),
        (
            (("10.128.0.5/20", DOCKER), ("10.132.0.7/20", DOCKER)),
            "10.128.0.0/13",
            ("10.128.0.5", "10.132.0.7"),
        ),
        # One network around both would hold another address of the first.
        (
            (("10.1.0.5/24", "10.2.9.1/24"), ("10.2.0.7/16",)),
            "10.1.0.4/31,10.2.0.6/31",
            ("10.1.0.5", "10.2.0.7"),
        ),
        (
            (("10.1.0.5/24",), ("192.168.7.7/32",)),
            "10.1.0.4/31,192.168.7.6/31",
            ("10.1.0.5", "192.168.7.7"),
        ),
        ((("fd00::1/128",), ("fd00::2/128",)), "fd00::/126", ("fd00::1", "fd00::2")),
    ],
)
def test_without_a_common_subnet_the_nodes_meet_by_address(
    addresses: tuple[tuple[str, ...], ...], networks: str, hosts: tuple[str, ...]
) -> None:
    subnet, hosts_by_node = common_subnet(
        {f"node{n}": node_addresses for n, node_addresses in enumerate(addresses)}
    )
    assert (subnet, tuple(hosts_by_node.values())) == (networks, hosts)


def test_a_node_without_an_address_is_refused_with_all_that_the_nodes_have() -> None:
    with pytest.raises(BackendError, match=r"fa has 10\.88\.0\.2/32; fb has none"):
        common_subnet({"fa": ("10.88.0.2/32",), "fb": ("127.0.0.1/8",)})


addresses_alone = st.integers(2**24, 2**25).map(
    lambda n: f"{ipaddress.ip_address(9 * 2**24 + n)}/32"
)


@given(st.lists(addresses_alone, min_size=2, max_size=6, unique=True), st.booleans())
def test_the_networks_for_mpirun_hold_one_address_of_each_node(
    known_subnets: list[str], has_more: bool
) -> None:
    other_addresses = ("10.99.0.1/30", DOCKER) if has_more else ()
    nodes = {f"node{n}": (address, *other_addresses) for n, address in enumerate(known_subnets)}
    subnet, hosts = common_subnet(nodes)
    networks = [ipaddress.ip_network(address) for address in subnet.split(",")]
    for node, addresses in nodes.items():
        ips = [ipaddress.ip_interface(address).ip for address in addresses]
        inside = {str(ip) for ip in ips if any(ip in address for address in networks)}
        assert inside == {hosts[node]}


@given(
    st.lists(st.integers(2, 250), min_size=2, max_size=8, unique=True),
    st.lists(st.integers(1, 200), min_size=1, max_size=3, unique=True),
)
def test_every_node_gets_its_own_address_in_the_subnet(
    nodes: list[int], networks: list[int]
) -> None:
    subnet, hosts = common_subnet(
        {f"node{n}": (DOCKER, *(f"10.{net}.0.{n}/24" for net in networks)) for n in nodes}
    )
    assert subnet == f"10.{networks[0]}.0.0/24"
    assert hosts == {f"node{n}": f"10.{networks[0]}.0.{n}" for n in nodes}
