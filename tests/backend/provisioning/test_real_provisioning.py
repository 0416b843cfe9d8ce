"""One set-up with nothing left out: torch, Horovod, Open MPI, and two ranks that add up."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from backend.provisioning import horovod_wheels
from backend.provisioning.provisioner import set_up
from backend.provisioning.wheelhouse import Wheelhouses
from backend.records.nodes.entry import NodeEntry, NodePython
from backend.services.nodes.provisioning import default_paths
from tests.backend.provisioning.provisioner_rig import Node
from tests.fakes.local_shell import LocalShell

CONSTRAINTS = Path(__file__).parents[3] / "installers/constraints.txt"


# A loaded disk takes minutes for a gigabyte.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


class Built:
    """The node that the session's tests share."""

    def __init__(self, folder: Path) -> None:
        paths = default_paths("tests", CONSTRAINTS)
        wheel = horovod_wheels.built_wheels(paths.horovod)[0]
        # A node's own Python, not the one of the environment that tests run in.
        python = Path(f"/usr/bin/python{wheel.target.python}")
        assert python.exists(), f"the tests' environment was made from another Python than {python}"
        version = subprocess.check_output([python, "-V"], text=True).split()[1]
        self.wheel = wheel
        self.house = Wheelhouses(paths.wheels, CONSTRAINTS).gather(wheel.target, wheel)
        self.node = Node.make(folder, self.house)
        pythons = (NodePython(str(python), version, False),)
        self.node.node_info = replace(
            self.node.node_info, pythons=pythons, machine=wheel.target.machine
        )
        self.node.choose = lambda name, node_info: (pythons[0], wheel.target, wheel)  # type: ignore[method-assign]

    def set_up(self) -> NodeEntry:
        return set_up(self.node.entry, self.node.open, self.node.plan(), self.node.updates.append)


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Built, NodeEntry]]:
    built_node = Built(tmp_path_factory.mktemp("real"))
    yield built_node, built_node.set_up()
    built_node.node.end_agent()
    shutil.rmtree(built_node.node.shell.home)


def test_a_bare_node_trains_and_nothing_is_sent_to_a_ready_one(
    built: tuple[Built, NodeEntry],
) -> None:
    built_node, entry = built
    assert built_node.node.messages[-1] == "MPI test passed (2 ranks)."
    sent = built_node.node.shell.sent_bytes
    assert built_node.set_up().installation == entry.installation
    assert built_node.node.shell.sent_bytes == sent
    assert sent < 260_000_000


TRAINING = """
import importlib, pkgutil
import backend.training
for found in pkgutil.walk_packages(backend.training.__path__, "backend.training."):
    importlib.import_module(found.name)
import horovod.torch, mpi4py.MPI, numpy, psutil, pynvml, safetensors.torch, tensorboardX, torch
torch.from_numpy(numpy.ones(2)) @ torch.ones(2, dtype=torch.float64)
"""


def test_the_environment_has_all_that_training_imports(built: tuple[Built, NodeEntry]) -> None:
    installation = built[1].installation
    assert installation is not None
    bundle = f"PYTHONPATH={installation.bundle}"
    shell = LocalShell(built[0].node.shell.home)
    answer = shell.run(["env", bundle, installation.python, "-W", "error", "-c", TRAINING])
    assert (answer.code, answer.out, answer.err) == (0, "", "")
