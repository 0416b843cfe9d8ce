"""The limits of a stolen cluster key, on real sshd; mpirun can still use the key."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from backend.records.jobs.view import JobView
from tests.cluster.commands import ip
from tests.cluster.ready import ReadyCluster
from tests.cluster.thief import (
    gets_no_shell_and_no_files,
    lets_a_run_begin_and_end,
    run_with_key,
    unlimited_key,
)

pytest_plugins = ["tests.cluster.runs_fixtures"]

OTHER_ADDRESS = "10.78.0.1"


@pytest.fixture
def other_address(ready_cluster: ReadyCluster) -> Iterator[None]:
    """Node1 has an address outside of the ranks' subnet, to which node2 knows the way back."""
    slot = ready_cluster.cluster.slot
    node1, node2 = slot.namespace("node1"), slot.namespace("node2")
    ip([f"address add {OTHER_ADDRESS}/32 dev eth0"], node1)
    ip([f"route add {OTHER_ADDRESS}/32 via {ready_cluster.cluster.address_of('node1')}"], node2)
    with unlimited_key(ready_cluster, ("node1", "node2")):
        yield
    ip([f"address del {OTHER_ADDRESS}/32 dev eth0"], node1)
    ip([f"route del {OTHER_ADDRESS}/32"], node2)


@pytest.mark.slow
def test_f62_the_key_is_refused_elsewhere_and_opens_no_terminal_and_no_tunnel(
    ready_cluster: ReadyCluster, other_address: None
) -> None:
    assert run_with_key(ready_cluster, "true").returncode == 0
    foreign_login = run_with_key(ready_cluster, "true", options=("-b", OTHER_ADDRESS))
    assert foreign_login.returncode == 255
    assert "Permission denied (publickey" in foreign_login.stderr

    terminal = run_with_key(ready_cluster, "tty", options=("-tt",))
    assert "PTY allocation request failed" in terminal.stderr
    assert (terminal.returncode, terminal.stdout) == (255, "")
    agent = run_with_key(ready_cluster, "echo agent:$SSH_AUTH_SOCK.", options=("-A",))
    assert agent.stdout == "agent:.\n"
    through = run_with_key(ready_cluster, options=("-W", "127.0.0.1:22"))
    assert through.returncode == 255
    assert "administratively prohibited" in through.stderr
    listening = ("-o", "ExitOnForwardFailure=yes", "-R", "40000:127.0.0.1:22")
    assert (
        "remote port forwarding failed"
        in run_with_key(ready_cluster, "true", options=listening).stderr
    )


def test_f62_by_default_the_key_opens_no_shell_and_no_files(ready_cluster: ReadyCluster) -> None:
    gets_no_shell_and_no_files(ready_cluster)


@pytest.mark.slow
def test_f62_by_default_the_key_starts_runs(
    stocked: ReadyCluster, run: Callable[..., JobView]
) -> None:
    lets_a_run_begin_and_end(stocked, run)
