"""A job that uses more memory than Slurm gave to it ends with that cause, on whichever node."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from backend.records.jobs.state import JobState
from backend.records.library.item import Kind
from backend.services.context.container import Services, open_services
from tests.cluster.slurm import SlurmCluster
from tests.cluster.slurm_jobs import SlurmJobs
from tests.integration.tiny import LOADER, write_sources

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
    folder = tmp_path_factory.mktemp("desktop")
    services = open_services(slurm.data / "root", folder / "catalogue.sqlite")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SLURM_CONF", slurm.environment["SLURM_CONF"])
        model, loader, dataset = write_sources(folder)
        (loader / "bks_dataset.py").write_text(HUNGRY_LOADER)
        for kind, source in ((Kind.MODEL, model), (Kind.LOADER, loader), (Kind.DATASET, dataset)):
            services.library.import_item(kind, source, "tiny")
        yield services
        services.close()


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
