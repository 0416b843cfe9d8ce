"""A node whose memory is too small for its rank."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from backend.records.jobs.state import JobState
from backend.records.jobs.view import JobView
from backend.records.library.item import Kind
from tests.cluster.ready import ReadyCluster
from tests.cluster.runs import wait_for_no_processes
from tests.integration.tiny import LOADER

pytestmark = pytest.mark.slow

pytest_plugins = ["tests.cluster.runs_fixtures"]

HUNGRY = LOADER.replace(
    "        return self.data[index], self.target[index]",
    """        if os.environ.get("OMPI_COMM_WORLD_RANK") == "1" and index % 2:
            import resource
            used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (used + 2**28,) * 2)
            torch.zeros(2**30)
        return self.data[index], self.target[index]""",
)


@pytest.fixture
def hungry(stocked: ReadyCluster, tmp_path: Path) -> str:
    """A loader that one rank has no memory for, by the limit that its host gives it."""
    folder = tmp_path / "hungry"
    folder.mkdir()
    (folder / "bks_dataset.py").write_text(HUNGRY)
    stocked.services.library.import_item(Kind.LOADER, folder, "hungry")
    return "hungry"


def test_f19_the_error_of_a_rank_out_of_memory_on_another_node_names_a_batch_size(
    stocked: ReadyCluster, run: Callable[..., JobView], hungry: str
) -> None:
    view = run("node1", "node2", loader=hungry, batch_size=48)
    view = stocked.services.jobs.queries.wait(view.id)
    assert view.state is JobState.ERROR
    assert view.error is not None
    assert (view.error.rank, view.error.node) == (1, "node2")
    assert view.status.message == (
        "Rank 1 on node2: The node is out of memory. Try batch size 32 instead of 48."
    )
    assert "torch.zeros" in view.error.traceback
    wait_for_no_processes(stocked)
