"""A job that uses more memory than Slurm gave to it ends with that cause, on whichever node."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from backend.records.jobs.state import JobState
from backend.services.context.container import Services
from tests.cluster.slurm import SlurmCluster
from tests.cluster.slurm_jobs import SlurmJobs, login_desktop
from tests.integration.tiny import LOADER

pytestmark = pytest.mark.slow
HUNGRY_LOADER = LOADER.replace(
    "    def __getitem__(self, index):\n",
    """    def __getitem__(self, index):
        if os.environ["OMPI_COMM_WORLD_RANK"] == os.environ["HUNGRY_RANK"]:
            self.kept = [*getattr(self, "kept", []), b"x" * 20_000_000]
""",
)


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmCluster]:
    with SlurmCluster(tmp_path_factory.mktemp("slurm"), limits_memory=True) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def services(slurm: SlurmCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Services]:
    with login_desktop(slurm, tmp_path_factory.mktemp("desktop"), HUNGRY_LOADER) as services:
        yield services


@pytest.mark.parametrize("rank", [0, 1])
def test_a_rank_that_is_killed_for_its_memory_names_the_memory_of_the_job(
    slurm: SlurmCluster, services: Services, rank: int
) -> None:
    jobs = SlurmJobs(services, slurm)
    raw = jobs.raw(nodes=2, options=["--mem=1500M"])
    raw["environment"] = {**raw["environment"], "HUNGRY_RANK": str(rank)}
    job_id = services.jobs.create_and_start(raw).id
    view = jobs.wait_until(job_id, lambda view: view.state.is_over, "the end", 300)
    assert view.state is JobState.ERROR, jobs.describe(view)
    assert view.error is not None
    assert "memory" in view.error.message, jobs.describe(view)
    assert "--mem" in f"{view.error.message} {view.error.remedy}"
