"""A job with a script goes to another desktop in a bundle, and is repeated there."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from backend.records.jobs.state import JobState
from backend.services.context.container import open_services
from tests.integration.test_cli import Cli
from tests.integration.test_script_life import COUNT, RESUME, ended, job_of


def test_a_job_with_a_script_is_bundled_resumed_and_repeated_elsewhere(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    desk = tmp_path / "first"
    desk.mkdir()
    first = open_services(desk / "data", desk / "desktop" / "catalogue.sqlite")
    try:
        job = ended(first, job_of(first, desk, COUNT, processes=1, **RESUME))
        assert job.state is JobState.FINISHED
    finally:
        first.close()
    bundle = tmp_path / "mine.ringmaster"
    Cli(desk, capsys).json("job", "bundle", job.id, bundle)
    # What the other desktop has is all in the bundle.
    shutil.rmtree(desk)
    cli = Cli(tmp_path, capsys)
    found = cli.json("job", "unbundle", bundle)["view"]
    assert found["state"] == "FINISHED"
    (checkpoint,) = (one for one in cli.json("job", "checkpoints", found["id"]) if one["is_latest"])
    assert Path(checkpoint["path"]).read_text() == "3"
    verdict = cli.json("job", "replay", found["id"], "--wait")
    assert verdict["is_same"], verdict
    assert verdict["steps"] == 3
