"""Which subnet the ranks of several nodes meet in."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.errors import BackendError
from backend.launch.network import common_subnet

DOCKER = "172.17.0.1/16"


def test_m4_the_subnet_that_all_nodes_share_is_found_whatever_the_interfaces_are_called() -> None:
    assert common_subnet(
        {"node1": ("192.168.7.4/24", "10.77.0.2/24"), "node2": ("10.77.0.3/24", "10.1.0.9/16")}
    ) == ("10.77.0.0/24", {"node1": "10.77.0.2", "node2": "10.77.0.3"})


def test_m4_a_bridge_with_the_same_address_everywhere_connects_nobody() -> None:
    found, hosts = common_subnet(
        {"node1": (DOCKER, "10.77.0.2/24"), "node2": (DOCKER, "10.77.0.3/24")}
    )
    assert (found, hosts["node2"]) == ("10.77.0.0/24", "10.77.0.3")
    with pytest.raises(BackendError, match=r"node1 has 172\.17\.0\.1/16; node2 has 172"):
        common_subnet({"node1": (DOCKER,), "node2": (DOCKER,)})


def test_of_two_common_subnets_the_one_by_which_the_node_is_known_is_taken() -> None:
    fast = {"node1": ("10.1.0.1/24", "10.77.0.2/24"), "node2": ("10.77.0.3/24", "10.1.0.2/24")}
    assert common_subnet(fast)[0] == "10.1.0.0/24"


def test_loops_links_and_what_is_no_address_are_passed_over() -> None:
    odd = ("127.0.0.1/8", "169.254.3.3/16", "fe80::1/64", "no address")
    with pytest.raises(BackendError, match="no subnet in common"):
        common_subnet({"node1": odd, "node2": odd})
    found, _ = common_subnet({"node1": (*odd, "fd00::1/64"), "node2": ("fd00::2/64", *odd)})
    assert found == "fd00::/64"


@given(
    st.lists(st.integers(2, 250), min_size=2, max_size=8, unique=True),
    st.lists(st.integers(1, 200), min_size=1, max_size=3, unique=True),
)
def test_every_node_gets_its_own_address_in_the_subnet(
    nodes: list[int], networks: list[int]
) -> None:
    found, hosts = common_subnet(
        {f"node{n}": (DOCKER, *(f"10.{net}.0.{n}/24" for net in networks)) for n in nodes}
    )
    assert found == f"10.{networks[0]}.0.0/24"
    assert hosts == {f"node{n}": f"10.{networks[0]}.0.{n}" for n in nodes}
