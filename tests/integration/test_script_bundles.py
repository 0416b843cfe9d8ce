"""A job with a script goes to another desktop in a bundle, and is repeated there."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from backend.base.errors import BackendError
from backend.records.jobs.state import JobState
from backend.services.context.container import open_services
from tests.integration.test_cli import Cli
from tests.integration.test_script_life import COUNT, FOLDERS, RESUME, job_of, run_job


def test_a_job_with_a_script_is_bundled_resumed_and_repeated_elsewhere(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    desk = tmp_path / "first"
    desk.mkdir()
    first_services = open_services(desk / "data", desk / "desktop" / "catalogue.sqlite")
    try:
        job = run_job(first_services, job_of(first_services, desk, COUNT, processes=1, **RESUME))
        assert job.state is JobState.FINISHED
    finally:
        first_services.close()
    bundle = tmp_path / "mine.ringmaster"
    Cli(desk, capsys).json("job", "bundle", job.id, bundle)
    # What the other desktop has is all in the bundle.
    shutil.rmtree(desk)
    cli = Cli(tmp_path, capsys)
    imported_view = cli.json("job", "unbundle", bundle)["view"]
    assert imported_view["state"] == "FINISHED"
    (checkpoint,) = (
        c for c in cli.json("job", "checkpoints", imported_view["id"]) if c["is_latest"]
    )
    assert Path(checkpoint["path"]).read_text() == "3"
    comparison = cli.json("job", "replay", imported_view["id"], "--wait")
    assert comparison["is_same"], comparison
    assert comparison["steps"] == 3


def test_a_checkpoint_that_is_a_folder_is_bundled_and_resumed_on_another_data_root(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    desk = tmp_path / "first"
    desk.mkdir()
    first_services = open_services(desk / "data", desk / "desktop" / "catalogue.sqlite")
    try:
        jobs = first_services.jobs
        job = job_of(first_services, desk, FOLDERS, processes=1, **RESUME)
        jobs.lifecycle.start(job.id)
        jobs.queries.wait(job.id, is_finished=lambda v: v.step > 2 or v.state.is_over)
        jobs.lifecycle.stop(job.id)
        assert jobs.queries.wait(job.id).state is JobState.INTERRUPTED
        checkpoints = jobs.queries.checkpoints(job.id)
        record = next(c for c in reversed(checkpoints) if Path(c.path).is_dir())
        bundle = tmp_path / "mine.ringmaster"
        first_services.bundles.bundle(job.id, bundle, checkpoint=record.name)
        (Path(record.path) / "state.txt").write_text("7")
        with pytest.raises(BackendError, match="does not match its record"):
            first_services.bundles.bundle(
                job.id, tmp_path / "no.ringmaster", checkpoint=record.name
            )
    finally:
        first_services.close()
    shutil.rmtree(desk)
    second_services = open_services(tmp_path / "data", tmp_path / "desktop" / "catalogue.sqlite")
    try:
        jobs = second_services.jobs
        view = second_services.bundles.unbundle(bundle).view
        (checkpoint,) = jobs.queries.checkpoints(view.id)
        assert (checkpoint.file, checkpoint.sha256) == (record.file, record.sha256)
        jobs.lifecycle.resume(view.id)
        step = int(Path(record.path).name.rpartition("-")[2])
        view = jobs.queries.wait(
            view.id, is_finished=lambda v: v.step > step + 1 or v.state.is_over
        )
        log = second_services.data_root.job(view.id).rank_log(0).read_text()
        assert f"begins at {step}" in log
        jobs.lifecycle.stop(view.id)
        assert jobs.queries.wait(view.id).state is JobState.INTERRUPTED
    finally:
        second_services.close()
