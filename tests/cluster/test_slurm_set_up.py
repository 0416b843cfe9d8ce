"""An environment is made in a job of a real Slurm cluster, on a compute node."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from backend.base.errors import BackendError, Cancelled
from backend.base.progress import Progress
from backend.launch.slurm_task import build_node
from backend.provisioning import provisioner
from backend.records.nodes.entry import NodeEntry, NodeInfo, NodePython
from backend.ssh.interface import Shell
from tests.backend.provisioning.provisioner_rig import NODE_PYTHON, Node, house_of, put_house
from tests.cluster.slurm import SlurmCluster
from tests.cluster.test_slurm_jobs import slurm
from tests.fakes.local_shell import LocalShell
from tests.waiting import wait_for

__all__ = ["slurm"]
NODE_PYTHONS = (NodePython(NODE_PYTHON, "3.11.2", False),)
COMMANDS = ("sbatch", "srun", "squeue", "sinfo", "scancel")


@pytest.fixture
def login_node(slurm: SlurmCluster) -> Iterator[Node]:
    """This computer, with Slurm's commands and a home that the compute nodes see."""
    tools = slurm.data / "tools"
    tools.mkdir(exist_ok=True)
    for name in COMMANDS:
        command = f"env SLURM_CONF={slurm.environment['SLURM_CONF']} /usr/bin/{name}"
        (tools / name).write_text(f'#!/bin/sh\nexec {command} "$@"\n')
        (tools / name).chmod(0o755)
    (slurm.data / "nodes/gpu1").mkdir(parents=True, exist_ok=True)
    wheels = slurm.data / "wheels"
    node = Node.make(slurm.data, put_house(wheels) if not wheels.exists() else house_of(wheels))
    node.shell = LocalShell(node.shell.home, tools)
    node.node_info = replace(
        node.node_info, data_root=str(slurm.data), data_root_writable=True, pythons=()
    )
    yield node
    node.end_agent()


def set_up(node: Node, partition: str = "", is_cancelled: bool = False) -> NodeEntry:
    def inspect(shell: Shell) -> NodeInfo:
        """Find a Python on compute nodes only."""
        hostname = shell.run(["hostname"]).out.strip()
        pythons = NODE_PYTHONS if hostname.startswith("sn") else ()
        return replace(node.node_info, hostname=hostname, pythons=pythons)

    def cancelled() -> bool:
        return is_cancelled and any("of Slurm" in message for message in node.messages)

    plan = node.plan(
        inspect=inspect,
        shared=True,
        allocate=lambda shell, progress: build_node(shell, progress, partition),
    )
    return provisioner.set_up(node.entry, node.open, plan, node.updates.append, cancelled)


def test_an_environment_is_made_on_a_compute_node_whose_python_it_has(
    slurm: SlurmCluster, login_node: Node
) -> None:
    entry = set_up(login_node)
    assert entry.installation is not None
    assert entry.installation.python.startswith(f"{slurm.data}/")
    assert login_node.messages[1].endswith("the environment is made on sn1.")
    assert login_node.messages[-1] == "MPI test passed (2 ranks)."
    makers = [argv for argv in login_node.shell.commands if "venv" in argv or "pip" in argv]
    assert makers
    assert {argv[0] for argv in makers} == {"srun"}
    assert slurm.call("squeue", "-h", "-t", "PENDING,RUNNING", "-o", "%j") == ""


def test_a_command_that_fails_on_the_compute_node_keeps_its_own_last_line(
    slurm: SlurmCluster, login_node: Node
) -> None:
    with build_node(login_node.shell, Progress()) as node:
        result = node.run(["sh", "-c", "echo glibc is old >&2; exit 3"])
        assert (result.code, result.complaint) == (3, "glibc is old")
        assert node.run(["cat"], input=b"text").out == "text"
        assert node.run(["sh", "-c", "echo $SLURM_JOB_ID$SLURM_JOBID"]).out == "\n"


@pytest.mark.parametrize(
    ("partition", "message"),
    [("gone", "no partition “gone”"), ("bad name", "characters that Slurm does not accept")],
)
def test_a_job_that_slurm_would_refuse_fails_the_set_up_with_its_sentence(
    login_node: Node, partition: str, message: str
) -> None:
    with pytest.raises(BackendError, match=message):
        set_up(login_node, partition)
    assert login_node.last.failed_step is not None


def test_a_set_up_that_waits_for_a_node_is_cancelled_and_leaves_the_queue(
    slurm: SlurmCluster, login_node: Node
) -> None:
    slurm.call("sbatch", "--nodes=3", "--exclusive", "--output=/dev/null", "--wrap=sleep 600")
    wait_for(lambda: "idle" not in slurm.states().values(), "three busy nodes")
    with pytest.raises(Cancelled):
        set_up(login_node, is_cancelled=True)
    messages = [step.message for update in login_node.updates for step in update.steps]
    assert any("It waits for nodes or GPUs" in message for message in messages)
    assert "set-up" not in slurm.call("squeue", "-h", "-o", "%j")
    slurm.cancel_all()
