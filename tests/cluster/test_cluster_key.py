"""What a thief of the cluster's key could do with it, on real sshd; and that mpirun still can."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from backend.node.key_gate import REFUSAL
from backend.records.job_view import JobView
from backend.records.set_up_choices import SetUpOptions
from backend.records.state import JobState
from tests.cluster.commands import ip, wait_for
from tests.cluster.ready import ReadyCluster
from tests.cluster.runs import of_runs

pytest_plugins = ["tests.cluster.runs_fixtures"]

ELSEWHERE = "10.78.0.1"


def with_the_key(
    ready: ReadyCluster, *words: str, options: tuple[str, ...] = (), input: str = ""
) -> subprocess.CompletedProcess[str]:
    """What OpenSSH gets for who sits on node1 and has the key that goes to node2."""
    config = f"{ready.home}/ssh/config"
    command = ["ssh", "-F", config, *options, ready.cluster.address_of("node2"), *words]
    return ready["node1"].run(command, input=input, limit_s=20)


@pytest.fixture
def elsewhere(ready_cluster: ReadyCluster) -> Iterator[None]:
    """Node1 has an address outside of the ranks' subnet, to which node2 knows the way back."""
    slot = ready_cluster.cluster.slot
    near, far = slot.namespace("node1"), slot.namespace("node2")
    ip([f"address add {ELSEWHERE}/32 dev eth0"], near)
    ip([f"route add {ELSEWHERE}/32 via {ready_cluster.cluster.address_of('node1')}"], far)
    yield
    ip([f"address del {ELSEWHERE}/32 dev eth0"], near)
    ip([f"route del {ELSEWHERE}/32"], far)


def test_f62_the_key_is_refused_elsewhere_and_opens_no_terminal_and_no_tunnel(
    ready_cluster: ReadyCluster, elsewhere: None
) -> None:
    assert with_the_key(ready_cluster, "true").returncode == 0
    away = with_the_key(ready_cluster, "true", options=("-b", ELSEWHERE))
    assert away.returncode == 255
    assert "Permission denied (publickey" in away.stderr

    terminal = with_the_key(ready_cluster, "tty", options=("-tt",))
    assert "PTY allocation request failed" in terminal.stderr
    assert (terminal.returncode, terminal.stdout) == (255, "")
    agent = with_the_key(ready_cluster, "echo agent:$SSH_AUTH_SOCK.", options=("-A",))
    assert agent.stdout == "agent:.\n"
    through = with_the_key(ready_cluster, options=("-W", "127.0.0.1:22"))
    assert through.returncode == 255
    assert "administratively prohibited" in through.stderr
    listening = ("-o", "ExitOnForwardFailure=yes", "-R", "40000:127.0.0.1:22")
    assert (
        "remote port forwarding failed"
        in with_the_key(ready_cluster, "true", options=listening).stderr
    )


@pytest.fixture
def limited(stocked: ReadyCluster) -> Iterator[None]:
    """Nodes that were set up with a key that starts runs and nothing else."""
    nodes = ("node1", "node2")
    before = {name: stocked.entry(name).installation for name in nodes}
    for limits_key in (True, False):
        outcome = stocked.services.set_up.set_up(
            nodes, lambda news: None, options=SetUpOptions(limits_key=limits_key)
        )
        for name, entry in outcome.items():
            assert not isinstance(entry, Exception), entry
            assert entry.installation is not None
            assert entry.installation.limits_key is limits_key
            if not limits_key:
                assert replace(entry.installation, bytes=0) == replace(before[name], bytes=0)
        if limits_key:
            yield


@pytest.mark.timeout(600)
def test_f62_a_key_that_was_limited_starts_runs_and_no_shell_no_files_nothing(
    stocked: ReadyCluster, limited: None, run: Callable[..., JobView]
) -> None:
    for words in ((), ("id",), ("bash", "-c", "id"), ("cat", "/etc/passwd")):
        refused = with_the_key(stocked, *words, input="id\n")
        assert (refused.returncode, refused.stdout) == (1, "")
        assert REFUSAL in refused.stderr
    target = stocked.cluster.address_of("node2")
    config = f"{stocked.home}/ssh/config"
    for program in (["sftp", "-b", "-"], ["scp", "/etc/hostname"]):
        to = f"{target}:/tmp/copied" if program[0] == "scp" else target
        done = stocked["node1"].run([program[0], "-F", config, *program[1:], to], input="ls\n")
        assert done.returncode != 0
    assert stocked["node2"].run(["test", "-e", "/tmp/copied"]).returncode == 1

    view = run("node1", "node2")
    assert view.world_size == 2
    assert any(name == "node2" for name, _ in of_runs(stocked))
    # With its guard gone, only the sweep over this very key ends what it left.
    stocked.services.jobs.stop(view.id)
    view = stocked.services.jobs.wait(view.id)
    assert view.state is JobState.INTERRUPTED
    log = stocked.services.data_root.job(view.id).mpirun_log.read_text()
    assert "could not be swept" not in log
    wait_for(lambda: not of_runs(stocked), "Something is left on a node", 10)
