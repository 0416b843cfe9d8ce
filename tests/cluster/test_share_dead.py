"""A mounted data root whose connection broke: the kernel refuses each question."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from backend.base.errors import BackendError
from backend.records.jobs.view import JobView
from backend.records.library.item import Kind
from backend.services.context import container
from backend.services.context.container import Services, open_services
from backend.services.tools import tool_process
from backend.services.tools.tool_process import ToolError
from tests.cluster.hanging import dead_share, hanging_share
from tests.integration.tiny import raw_job, write_sources

REQUESTS: dict[str, Callable[[Services, JobView], object]] = {
    "poll": lambda services, job: services.jobs.queries.poll(job.id),
    "show": lambda services, job: services.jobs.queries.show(job.id),
    "list": lambda services, job: services.jobs.queries.list(),
    "checkpoints": lambda services, job: services.jobs.queries.checkpoints(job.id),
    "start": lambda services, job: services.jobs.lifecycle.start(job.id),
    "stop": lambda services, job: services.jobs.lifecycle.stop(job.id),
    "annotate": lambda services, job: services.jobs.annotate(job.id, notes="lost"),
    "clone": lambda services, job: services.jobs.clone(job.id),
    "remove": lambda services, job: services.jobs.remove(job.id),
    "create": lambda services, job: services.jobs.create(raw_job(2)),
    "library": lambda services, job: services.library.list(Kind.MODEL),
    "files": lambda services, job: services.library.files(Kind.MODEL, "tiny"),
    "nodes": lambda services, job: services.nodes.remote(),
    "this computer": lambda services, job: services.nodes.reading(),
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    return folder


@pytest.fixture
def services(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Services]:
    def measure(*_: object, **__: object) -> None:
        raise ToolError("not now")

    monkeypatch.setattr(tool_process, "count_samples", measure)
    opened_services = open_services(root, tmp_path / "catalogue.sqlite")
    model, loader, dataset = write_sources(tmp_path / "sources")
    for kind, path in ((Kind.MODEL, model), (Kind.LOADER, loader), (Kind.DATASET, dataset)):
        opened_services.library.import_item(kind, path, "tiny")
    yield opened_services
    opened_services.close()


def test_f32_every_request_to_a_dead_share_is_answered_with_a_sentence(
    services: Services, root: Path
) -> None:
    job = services.jobs.create(raw_job(2))
    raised_errors: dict[str, str] = {}
    with dead_share(root):
        for name, ask in REQUESTS.items():
            try:
                with suppress(BackendError):
                    ask(services, job)
            except OSError as error:
                raised_errors[name] = f"{error}"
    assert not raised_errors
    assert services.jobs.queries.show(job.id) == job


def test_a_data_root_whose_server_does_not_answer_is_said_and_not_waited_for(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each command and the window open it first; its limit is 4 s."""
    monkeypatch.setattr(container, "_ANSWER_LIMIT_S", 0.2)
    for path in (root, root / "below"):
        with hanging_share(root), pytest.raises(BackendError, match=f"{path} does not answer"):
            open_services(path, tmp_path / "catalogue.sqlite")
    open_services(root, tmp_path / "catalogue.sqlite").close()
