"""A program of one's own over a data root that the desktop does not mount."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import pytest

from backend.records.jobs.checkpoint import Checkpoint
from backend.records.jobs.placement import Placement
from backend.records.jobs.state import JobState
from backend.records.jobs.view import JobView
from backend.records.library.item import Kind
from backend.services.context.container import Services
from tests.cluster.ready import ReadyCluster
from tests.cluster.remote_desktop import remote_desktop
from tests.cluster.runs import wait_for_no_processes
from tests.integration.test_script_life import FOLDERS, RESUME


def job_of(services: Services, folder: Path, out: str) -> JobView:
    (folder / "program").mkdir()
    (folder / "program/train.py").write_text(FOLDERS)
    item = services.library.import_item(Kind.SCRIPT, folder / "program", "mine")
    raw: dict[str, Any] = {
        "name": "mine",
        "script": item.reference,
        "arguments": ["--out", out],
        **RESUME,
        "placement": [{"node": "node1", "processes": 1}],
    }
    return services.jobs.create(raw)


def is_stopped_and_resumes_from_a_folder(
    services: Services, job_id: str, target_folder: Path
) -> None:
    """Export the script's checkpoint on the desktop, and continue from it on another node."""
    jobs = services.jobs

    def folders() -> list[Checkpoint]:
        return [
            checkpoint
            for checkpoint in jobs.queries.checkpoints(job_id)
            if "checkpoint-" in checkpoint.file
        ]

    jobs.lifecycle.start(job_id)
    view = jobs.queries.wait(job_id, is_finished=lambda v: v.state.is_over or bool(folders()))
    assert view.state is JobState.TRAINING, (view.error, view.status.message)
    jobs.lifecycle.stop(job_id)
    view = jobs.queries.wait(job_id)
    assert view.state is JobState.INTERRUPTED, (view.error, view.status.message)
    record = folders()[-1]
    step = Path(record.file).name.removeprefix("checkpoint-")
    with zipfile.ZipFile(jobs.export(job_id, record.name, "zip", target_folder)) as archive:
        (state,) = (name for name in archive.namelist() if name.endswith("state.txt"))
        assert archive.read(state).decode() == step

    jobs.lifecycle.resume(job_id, record.name, placement=(Placement("node2", 1),))
    view = jobs.queries.wait(
        job_id, is_finished=lambda v: v.state.is_over or v.step > int(step) + 1
    )
    assert view.state is JobState.TRAINING, (view.error, view.status.message)
    assert f"begins at {step}\n" in jobs.queries.log(job_id, 0).text
    jobs.lifecycle.stop(job_id)
    view = jobs.queries.wait(job_id)
    assert view.state is JobState.INTERRUPTED, (view.error, view.status.message)
    names = [checkpoint.file for checkpoint in jobs.queries.checkpoints(job_id)]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    "out",
    [pytest.param("{output}", id="output"), pytest.param(".", id="work", marks=pytest.mark.slow)],
)
def test_checkpoints_of_a_script_are_fetched_and_resumed_over_sftp(
    ready_cluster: ReadyCluster, tmp_path: Path, out: str
) -> None:
    with remote_desktop(ready_cluster.cluster, tmp_path / "home") as services:
        job_id = job_of(services, tmp_path, out).id
        is_stopped_and_resumes_from_a_folder(services, job_id, tmp_path / "taken.zip")
    wait_for_no_processes(ready_cluster)
