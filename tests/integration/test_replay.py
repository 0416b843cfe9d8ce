"""X6: a job that came in a bundle is trained again, and its curve comes out the same."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from backend.base.progress import Progress
from backend.datastore.bundles.archive_files import open_bundle
from backend.records.jobs.state import JobState
from backend.services.context.container import open_services
from backend.services.context.example import create_example
from tests.integration.test_cli import Cli


@pytest.mark.slow
def test_x6_another_desktop_makes_the_same_curve_of_a_bundle(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    desk = tmp_path / "first"
    desk.mkdir()
    cli = Cli(tmp_path, capsys)
    first_services = open_services(desk / "data", desk / "desktop" / "catalogue.sqlite")
    try:
        raw = first_services.jobs.clone(create_example(first_services).id)
        raw.update(epochs=1, name="digits")
        job = first_services.jobs.create(raw)
        first_services.jobs.lifecycle.start(job.id)
        assert first_services.jobs.queries.wait(job.id).state is JobState.FINISHED
    finally:
        first_services.close()
    bundle = tmp_path / "digits.ringmaster"
    bundle_result = Cli(desk, capsys).json("job", "bundle", job.id, bundle, "--with-data")
    assert bundle_result["path"] == str(bundle)
    assert bundle_result["checkpoint"]
    code, out, _ = Cli(desk, capsys)("job", "bundle", job.id, tmp_path / "light.ringmaster")
    assert (code, out[:6]) == (0, "Wrote ")
    assert (tmp_path / "light.ringmaster").stat().st_size < bundle.stat().st_size
    (run,) = open_bundle(bundle, Progress()).manifest.runs
    assert run.torch == torch.__version__
    assert (run.processes, run.seed) == (2, job.config.seed)
    assert run.python
    assert run.device or run.system
    assert run.threads
    unbundle_result = cli.json("job", "unbundle", bundle)
    assert unbundle_result["view"]["state"] == "FINISHED"
    comparison = cli.json("job", "replay", unbundle_result["view"]["id"], "--wait")
    assert comparison["is_same"], comparison
    assert comparison["steps"] == unbundle_result["view"]["total_steps"]
    assert comparison["differences"] == []
    assert "The same curve" in comparison["sentence"]
    second_comparison = cli.json("job", "replayed", comparison["replay"])
    assert second_comparison == comparison
    assert "is not a replay" in cli.error("job", "replayed", unbundle_result["view"]["id"])
