"""A library to train from on the ready cluster, and runs that end with their test.

A module that uses these fixtures names this one in ``pytest_plugins``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from backend.records.jobs.view import JobView
from tests.cluster.ready import ReadyCluster
from tests.cluster.runs import job_starter, stock_library
from tests.integration.tiny import MODEL

_WRITES_ITS_ENVIRONMENT = MODEL.replace(
    "    def forward(self, data):",
    """        import json, os, subprocess, sys
        found = {name: os.environ.get(name, "") for name in ("ODD", "OMPI_COMM_WORLD_RANK")}
        with open(f"/tmp/environment-{found['OMPI_COMM_WORLD_RANK']}", "w") as file:
            json.dump(found, file)
        if os.environ.get("LEAVES_A_CHILD"):
            subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"],
                             start_new_session=True)

    def forward(self, data):""",
)


@pytest.fixture(scope="module")
def stocked(ready_cluster: ReadyCluster, tmp_path_factory: pytest.TempPathFactory) -> ReadyCluster:
    """With something in the library to train."""
    stock_library(ready_cluster, tmp_path_factory.mktemp("sources"), _WRITES_ITS_ENVIRONMENT)
    return ready_cluster


@pytest.fixture
def run(stocked: ReadyCluster) -> Iterator[Callable[..., JobView]]:
    """Starts a job on nodes; what a test leaves running is stopped."""
    with job_starter(stocked) as start:
        yield start
