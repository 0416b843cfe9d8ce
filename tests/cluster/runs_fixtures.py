"""A library to train from on the ready cluster, and runs that end with their test.

A module that uses these fixtures names this one in ``pytest_plugins``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from backend.records.job_view import JobView
from backend.records.library import Kind
from tests.cluster.ready import ReadyCluster
from tests.cluster.runs import ENDLESS
from tests.integration.conftest import is_training
from tests.integration.tiny import LOADER, MODEL, raw_job, write_sources

_TOLD = MODEL.replace(
    "    def forward(self, data):",
    """        import json, os, subprocess, sys
        told = {name: os.environ.get(name, "") for name in ("ODD", "OMPI_COMM_WORLD_RANK")}
        with open(f"/tmp/told-{told['OMPI_COMM_WORLD_RANK']}", "w") as file:
            json.dump(told, file)
        if os.environ.get("LEAVES_A_CHILD"):
            subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"],
                             start_new_session=True)

    def forward(self, data):""",
)


@pytest.fixture(scope="module")
def stocked(ready_cluster: ReadyCluster, tmp_path_factory: pytest.TempPathFactory) -> ReadyCluster:
    """With something in the library to train."""
    model, loader, dataset = write_sources(tmp_path_factory.mktemp("sources"))
    (model / "bks_model.py").write_text(_TOLD)
    library = ready_cluster.services.library
    for kind, path in ((Kind.MODEL, model), (Kind.LOADER, loader), (Kind.DATASET, dataset)):
        library.import_item(kind, path, "tiny")
    assert LOADER in (loader / "bks_dataset.py").read_text()
    return ready_cluster


@pytest.fixture
def run(stocked: ReadyCluster) -> Iterator[Callable[..., JobView]]:
    """Starts a job on nodes, and stops what a test leaves running."""
    jobs = stocked.services.jobs
    begun: list[str] = []

    def start(*nodes: str, processes: int = 1, **changes: Any) -> JobView:
        placement = [{"node": node, "processes": processes} for node in nodes]
        raw = raw_job(**{"epochs": ENDLESS, **changes, "placement": placement})
        view = jobs.create(raw)
        begun.append(view.id)
        jobs.start(view.id)
        return jobs.wait(view.id, until=lambda v: is_training(v) or not v.state.is_live)

    yield start
    for job_id in begun:
        jobs.stop(job_id)
        jobs.wait(job_id)
