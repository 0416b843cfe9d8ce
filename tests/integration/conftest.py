"""A workplace with the tiny job's parts in it, and nothing of it left running afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from backend.node import sweep
from backend.records.job_view import JobView
from backend.records.layout import run_tag
from backend.records.library import Kind
from backend.records.state import JobState
from backend.services.workplace import Services, open_services
from tests.integration.tiny import write_sources

WORKING = (JobState.TRAINING, JobState.EVALUATING, JobState.SAVING)


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Callable[[], Services]]:
    """Opens the test's workplace, again and again: each time another desktop on one data root."""
    made: list[Services] = []

    def another() -> Services:
        place = tmp_path / f"desktop-{len(made)}" / "catalogue.sqlite"
        made.append(open_services(tmp_path / "data", place))
        return made[-1]

    yield another
    for services in made:
        for view in services.jobs.list():
            if view.state.is_live:
                sweep.end_tagged(run_tag(view.id, view.run), 0.0)
        services.close()


@pytest.fixture
def services(tmp_path: Path, opened: Callable[[], Services]) -> Services:
    services = opened()
    model, loader, dataset = write_sources(tmp_path / "sources")
    services.library.import_item(Kind.MODEL, model, "tiny")
    services.library.import_item(Kind.LOADER, loader, "tiny")
    services.library.import_item(Kind.DATASET, dataset, "tiny")
    return services


def is_training(view: JobView) -> bool:
    """Steps are made; or it is over, and the test shall say why."""
    return view.state in WORKING or not view.state.is_live


def leftovers(view: JobView) -> list[int]:
    return [process.pid for process in sweep.tagged(run_tag(view.id, view.run))]
