"""A workplace with the tiny job's parts in it, and nothing of it left running afterwards."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from backend.node.system import process_cleanup, process_identity
from backend.records.base.atomic_files import read_json
from backend.records.base.layout import DataRoot, JobFolder, run_tag
from backend.records.jobs.state import JobState
from backend.records.jobs.status import ProcessIdentity
from backend.records.jobs.view import JobView
from backend.records.library.item import Kind
from backend.services.context.container import Services, open_services
from tests.integration.tiny import ALONE, raw_job, write_sources
from tests.keepers import end_keeper
from tests.waiting import wait_for

WORKING = (JobState.TRAINING, JobState.EVALUATING, JobState.SAVING)


FINISHED = raw_job(
    1,
    epochs=3,
    batch_size=16,
    schedule={"name": "cosine", "warmup_epochs": 1},
    checkpoint={"every_epochs": 1},
    **ALONE,
)


@pytest.fixture(scope="session")
def stock(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny job's parts in a data root, and what was counted in them: that imports torch."""
    folder = tmp_path_factory.mktemp("stock")
    services = open_services(folder / "data", folder / "catalogue.sqlite")
    for kind, source in zip(
        (Kind.MODEL, Kind.LOADER, Kind.DATASET), write_sources(folder / "sources"), strict=True
    ):
        services.library.import_item(kind, source, "tiny")
    job = services.jobs.create(raw_job())
    services.close()
    shutil.rmtree(services.data_root.job(job.id).path)
    return folder


@pytest.fixture(scope="session")
def job_that_finished(stock: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a job that ran to its end; tests use copies of it."""
    root = tmp_path_factory.mktemp("finished")
    shutil.copytree(stock, root, dirs_exist_ok=True)
    services = open_services(root / "data", root / "catalogue.sqlite")
    view = services.jobs.create_and_start(FINISHED)
    view = services.jobs.queries.wait(view.id)
    services.close()
    assert view.state is JobState.FINISHED, view.error
    folder = services.data_root.job(view.id)
    wait_for(lambda: not has_supervisor(folder, view.run), "the end of the supervisor")
    return folder.path


@pytest.fixture
def workplace(stock: Path, tmp_path: Path) -> Path:
    """A folder with the data root ``data``, and what the first desktop on it had counted."""
    shutil.copytree(stock / "data", tmp_path / "data")
    shutil.copytree(stock / "sources", tmp_path / "sources")
    for desktop in ("desktop", "desktop-0"):
        counts_folder = tmp_path / desktop / "catalogue.sqlite.cache"
        shutil.copytree(stock / "catalogue.sqlite.cache", counts_folder)
    return tmp_path


@pytest.fixture
def finished(workplace: Path, job_that_finished: Path) -> str:
    """The id of a job in the workplace that ran to its end."""
    shutil.copytree(job_that_finished, workplace / "data" / "jobs" / job_that_finished.name)
    return job_that_finished.name


@pytest.fixture
def open_desktop(workplace: Path) -> Iterator[Callable[[], Services]]:
    """Opens the test's workplace, again and again: each time another desktop on one data root."""
    opened_services: list[Services] = []

    def start_desktop() -> Services:
        catalogue = workplace / f"desktop-{len(opened_services)}" / "catalogue.sqlite"
        opened_services.append(open_services(workplace / "data", catalogue))
        return opened_services[-1]

    yield start_desktop
    for services in opened_services:
        for view in services.jobs.queries.list():
            if view.state.is_live:
                process_cleanup.end_tagged(run_tag(view.id, view.run), 0.0)
        services.close()
    end_keeper(DataRoot(workplace / "data"))


@pytest.fixture
def services(open_desktop: Callable[[], Services]) -> Services:
    return open_desktop()


def is_training(view: JobView) -> bool:
    """Steps are made; or it is over, and the test shall say why."""
    return view.state in WORKING or not view.state.is_live


def has_supervisor(folder: JobFolder, run: int) -> bool:
    """Whether one still writes there: a run is over before its last status is written."""
    supervisor = ProcessIdentity.from_dict(read_json(folder.attempt(run).supervisor))
    return process_identity.is_alive(supervisor)


def leftovers(view: JobView) -> list[int]:
    return [process.pid for process in process_cleanup.tagged(run_tag(view.id, view.run))]
