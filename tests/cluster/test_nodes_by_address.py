"""Nodes whose addresses stand alone (/32), as some hosters and VPNs give them, train together."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from backend.records.jobs.job_file import parse_job
from backend.records.jobs.view import JobView
from tests.cluster.commands import ip
from tests.cluster.ready import ReadyCluster
from tests.cluster.runs import makes_steps, wait_for_no_processes
from tests.integration.tiny import raw_job

pytest_plugins = ["tests.cluster.runs_fixtures"]
NODES = ("node1", "node2")


def inspected_addresses(ready: ReadyCluster) -> list[str]:
    """Inspect the nodes again and let the cluster's key in; their addresses for the ranks."""
    addresses = [ready.services.cluster.inspect(name).ranks_address for name in NODES]
    ready.services.provisioning.authorize_all()
    return addresses


@pytest.fixture
def addresses_without_subnet(stocked: ReadyCluster) -> Iterator[list[str]]:
    slot = stocked.cluster.slot
    length = slot.subnet.prefixlen
    previous_addresses = [stocked.entry(name).ranks_address for name in NODES]

    def change(old_length: int, new_length: int, *commands: str) -> None:
        for name in NODES:
            address = stocked.cluster.address_of(name)
            delete_command = f"address del {address}/{old_length} dev eth0"
            add_command = f"address add {address}/{new_length} dev eth0"
            ip([delete_command, add_command, *commands], slot.namespace(name))

    change(length, 32, f"route add {slot.subnet} dev eth0")
    yield [f"{stocked.cluster.address_of(name)}/32" for name in NODES]
    change(32, length)
    assert inspected_addresses(stocked) == previous_addresses


@pytest.mark.slow
def test_nodes_without_a_subnet_pass_the_preflight_check_and_train_together(
    stocked: ReadyCluster, addresses_without_subnet: list[str], run: Callable[..., JobView]
) -> None:
    assert inspected_addresses(stocked) == addresses_without_subnet
    placement = [{"node": name, "processes": 1} for name in NODES]
    parsed = parse_job(raw_job(placement=placement))
    assert parsed.config is not None, parsed.errors
    result = stocked.services.preflight.run(parsed.config)
    assert result.succeeded, result.blocking_findings
    view = run(*NODES)
    assert makes_steps(view)
    assert view.world_size == 2
    stocked.services.jobs.lifecycle.stop(view.id)
    stocked.services.jobs.queries.wait(view.id)
    wait_for_no_processes(stocked)
