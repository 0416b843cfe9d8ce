"""Two desktops that write to one data root at once, one by its mount and one over SFTP."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from backend.records.library.item import Kind
from backend.services.context.container import Services
from backend.services.tools import tool_process
from backend.services.tools.tool_process import ToolError
from tests.cluster.ready import ReadyCluster
from tests.cluster.remote_desktop import remote_desktop
from tests.integration.tiny import raw_job
from tests.waiting import LIMIT_S

pytest_plugins = ["tests.cluster.runs_fixtures"]

ROUNDS = 8
ON_NODE1 = [{"node": "node1", "processes": 1}]


@pytest.fixture
def desktops(
    stocked: ReadyCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Services, Services]]:
    def measure(*_: object, **__: object) -> None:
        raise ToolError("not now")

    # Counting samples takes a process with torch, and writes nothing.
    monkeypatch.setattr(tool_process, "count_samples", measure)
    with remote_desktop(stocked.cluster, tmp_path / "remote") as remote:
        yield stocked.services, remote


def test_f45_both_desktops_see_everything_that_they_write_at_once(
    desktops: tuple[Services, Services], tmp_path: Path
) -> None:
    job_ids: list[str] = []
    imported_texts: dict[str, str] = {}
    start_barrier = threading.Barrier(4, timeout=LIMIT_S)

    def make_jobs(services: Services, desktop_name: str) -> None:
        jobs = services.jobs
        for _ in range(ROUNDS):
            start_barrier.wait()
            view = jobs.create(raw_job(name=desktop_name, placement=ON_NODE1))
            job_ids.append(view.id)
            job_ids.append(jobs.create(jobs.clone(view.id)).id)
            jobs.annotate(view.id, notes=f"by {desktop_name}")

    def import_versions(services: Services, desktop_name: str) -> None:
        for number in range(ROUNDS):
            start_barrier.wait()
            text = f"{desktop_name}, {number}"
            source = tmp_path / text
            source.mkdir()
            (source / "text").write_text(text)
            item = services.library.import_item(Kind.DATASET, source, "both")
            assert item.reference not in imported_texts
            imported_texts[item.reference] = text

    with ThreadPoolExecutor(4) as pool:
        futures = [
            pool.submit(write_items, services, desktop_name)
            for services, desktop_name in zip(desktops, ("mounted", "remote"), strict=True)
            for write_items in (make_jobs, import_versions)
        ]
        for future in futures:
            future.result()

    assert len(job_ids) == len(set(job_ids))
    indexes = []
    for services in desktops:
        services.library.rescan()
        views = {view.id: view for view in services.catalogue.jobs()}
        assert set(job_ids) <= views.keys()
        notes = Counter((views[job_id].name, views[job_id].notes) for job_id in job_ids)
        for desktop_name in ("mounted", "remote"):
            assert notes[desktop_name, f"by {desktop_name}"] == ROUNDS
            copies = [name for name, _ in notes if name.startswith(f"{desktop_name} (copy")]
            assert sum(notes[name, ""] for name in copies) == ROUNDS
        items = {item.reference: item for item in services.catalogue.items(Kind.DATASET)}
        assert imported_texts.keys() <= items.keys()
        for reference, text in imported_texts.items():
            assert services.library.text(Kind.DATASET, reference, "text") == text
        indexes.append((set(views), {name: item.sha256 for name, item in items.items()}))
    assert indexes[0] == indexes[1]
