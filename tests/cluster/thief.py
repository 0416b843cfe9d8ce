"""A thief on node1 with the key from there to node2, and the key's limits."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from backend.node.agent.ssh_command_filter import REFUSAL
from backend.records.jobs.state import JobState
from backend.records.jobs.view import JobView
from backend.records.nodes.entry import NodeEntry
from backend.records.nodes.provisioning_options import SetUpOptions
from tests.cluster.ready import ReadyCluster
from tests.cluster.runs import makes_steps, run_processes, wait_for_no_processes


def run_with_key(
    ready: ReadyCluster, *argv: str, options: tuple[str, ...] = (), input: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run OpenSSH on node1 with the cluster's key."""
    config = f"{ready.home}/ssh/config"
    command = ["ssh", "-F", config, *options, ready.cluster.address_of("node2"), *argv]
    return ready["node1"].run(command, input=input, limit_s=20)


@contextmanager
def unlimited_key(ready: ReadyCluster, nodes: Sequence[str]) -> Iterator[None]:
    """Nodes that are set up with a key that starts any program, otherwise as before."""
    previous_installations = {name: ready.entry(name).installation for name in nodes}
    _set_up(ready, nodes, SetUpOptions(limits_key=False))
    try:
        yield
    finally:
        for name, entry in _set_up(ready, nodes, SetUpOptions()).items():
            installation, previous_installation = entry.installation, previous_installations[name]
            assert installation is not None
            assert previous_installation is not None
            assert replace(installation, bytes=0) == replace(previous_installation, bytes=0)


def _set_up(
    ready: ReadyCluster, nodes: Sequence[str], options: SetUpOptions
) -> dict[str, NodeEntry]:
    entries = {}
    for name, entry in ready.services.provisioning.set_up(
        nodes, lambda _: None, options=options
    ).items():
        assert isinstance(entry, NodeEntry), entry
        assert entry.installation is not None
        assert entry.installation.limits_key is options.limits_key
        entries[name] = entry
    return entries


def gets_no_shell_and_no_files(ready: ReadyCluster) -> None:
    for argv in ((), ("id",), ("bash", "-c", "id"), ("cat", "/etc/passwd")):
        completed = run_with_key(ready, *argv, input="id\n")
        assert (completed.returncode, completed.stdout) == (1, "")
        assert REFUSAL in completed.stderr
    target = ready.cluster.address_of("node2")
    config = f"{ready.home}/ssh/config"
    for program in (["sftp", "-b", "-"], ["scp", "/etc/hostname"]):
        destination = f"{target}:/tmp/copied" if program[0] == "scp" else target
        command = [program[0], "-F", config, *program[1:], destination]
        copy = ready["node1"].run(command, input="ls\n")
        assert copy.returncode != 0
    assert ready["node2"].run(["test", "-e", "/tmp/copied"]).returncode == 1


def lets_a_run_begin_and_end(ready: ReadyCluster, run: Callable[..., JobView]) -> None:
    view = run("node1", "node2")
    assert makes_steps(view)
    assert view.world_size == 2
    assert any(name == "node2" for name, _ in run_processes(ready))
    ready.services.jobs.lifecycle.stop(view.id)
    view = ready.services.jobs.queries.wait(view.id)
    assert view.state is JobState.INTERRUPTED
    # The sweep goes over this very key, too.
    log = ready.services.data_root.job(view.id).mpirun_log.read_text()
    assert "could not be cleaned up" not in log
    wait_for_no_processes(ready)
