"""Nodes that have a processor of their own take no more of this machine's than they were given."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from installers.console import Progress
from tests.cluster.cluster import Cluster
from tests.cluster.processor import Processor
from tests.waiting import wait_for

pytestmark = pytest.mark.slow

CORES = 0.2
BURN = "import time; end = time.monotonic() + 2\nwhile time.monotonic() < end: pass"


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(
        tmp_path / "small", ("node1",), (), Progress(sys.stderr), CORES
    ) as running_cluster:
        yield running_cluster


def test_programs_on_a_node_stay_below_its_share_of_the_processor(small: Cluster) -> None:
    node = small["node1"]
    assert node.processor is not None
    burn = ("python3", "-c", BURN)
    for start in (lambda: small.ssh("node1", *burn), lambda: node.run(burn)):
        previous_throttling = node.processor.throttle_count()
        assert start().returncode == 0
        assert node.processor.throttle_count() > previous_throttling, (
            "it is not in the group, or has no quota"
        )


def test_a_node_has_its_processor_after_a_reboot_as_well(small: Cluster) -> None:
    node = small["node1"]
    node.power_off()
    node.boot()
    test_programs_on_a_node_stay_below_its_share_of_the_processor(small)


def test_a_process_of_this_machine_is_held_for_a_block_and_free_afterwards(small: Cluster) -> None:
    def read_group() -> str:
        return Path("/proc/self/cgroup").read_text()

    previous_group = read_group()
    processor = Processor(small.slot.namespace("desktop"), CORES)
    with processor.hold_process(os.getpid()):
        assert read_group() != previous_group
        wait_for(lambda: processor.used_s() > 0.05, "work that is counted in the group")
    assert read_group() == previous_group
