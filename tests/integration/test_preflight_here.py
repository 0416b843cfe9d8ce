"""The preflight on this computer alone: cheap, and shown by the command line."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from backend.base.errors import BackendError, Cancelled
from backend.base.progress import Progress
from backend.node.run import run_start
from backend.records.base import number_format
from backend.records.base.atomic_files import replace_json
from backend.records.base.layout import JobFolder
from backend.records.jobs.config import JobConfig
from backend.records.jobs.placement import Placement
from backend.records.jobs.state import JobState
from backend.records.jobs.status import RunExit
from backend.records.library.item import Kind
from backend.services.context.container import Services
from backend.services.preflight import machine, names
from backend.services.preflight.service import PreflightFailed, PreflightService
from tests.fakes.command_line import run_command
from tests.fakes.mounted_root import MOUNTED
from tests.integration.tiny import ALONE, raw_job


def test_the_preflight_check_passes_and_leaves_nothing(services: Services) -> None:
    job = services.jobs.create(raw_job())
    preflight = services.preflight.run(job.config, job.id)
    assert preflight.succeeded, preflight.blocking_findings
    assert {finding.check for finding in preflight.findings} == {
        *(names.NODE, names.OPEN_MPI, names.DATA_ROOT, names.DISK, names.SHARED_MEMORY),
        *(names.OPEN_FILES, names.PROCESSES, names.RESERVATION, names.LEFTOVERS),
    }
    assert [path.name for path in services.data_root.jobs.iterdir()] == [job.id]


def test_all_faults_come_at_once(services: Services, tmp_path: Path) -> None:
    job = services.jobs.create(raw_job())
    large_config = replace(job.config, placement=(Placement("this-computer", 10_000),))
    preflight_service = PreflightService(
        services.data_root,
        services.cluster,
        services.provisioning,
        lambda: str(tmp_path / "no-python"),
    )
    (tmp_path / "mpirun").write_text("#!/bin/sh\nexit 3\n")
    (tmp_path / "mpirun").chmod(0o755)
    failed_checks = {
        finding.check for finding in preflight_service.run(large_config).blocking_findings
    }
    assert failed_checks >= {names.OPEN_MPI, names.PROCESSES}


def test_a_missing_data_root_is_one_fault(services: Services) -> None:
    job = services.jobs.create(raw_job())
    services.data_root.path.rename(services.data_root.path.with_name("away"))
    try:
        (finding,) = services.preflight.run(job.config).blocking_findings
    finally:
        services.data_root.path.with_name("away").rename(services.data_root.path)
    assert finding.check == names.DATA_ROOT
    assert finding.nodes == ()


def test_the_command_line_shows_the_result(
    services: Services, capsys: pytest.CaptureFixture[str]
) -> None:
    job = services.jobs.create(raw_job())
    assert run_command(services, "job", "preflight", job.id) == 0
    assert "The job can start; checked this computer in" in capsys.readouterr().out
    assert run_command(services, "job", "preflight", job.id, "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert document["passed"] is True
    assert document["canary"] is None
    assert {"check", "ok", "sentence", "fix", "nodes"} <= set(document["findings"][0])


def test_the_command_line_names_faults_and_runs_no_trial_then(
    services: Services, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    job = services.jobs.create(raw_job())
    monkeypatch.setattr(machine, "MIN_OPEN_FILES", 10**9)
    assert run_command(services, "job", "preflight", job.id, "--fix", "--canary") == 1
    out = capsys.readouterr().out
    assert "FAULT  open files (this computer): A process on this computer can open only" in out
    assert "1 problem prevents the job from starting" in out
    assert "trial" not in out


def test_no_run_begins_without_a_preflight_check(services: Services) -> None:
    job = services.jobs.create(raw_job())
    with pytest.raises(PreflightFailed) as refusal:
        services.jobs.lifecycle.start(job.id, placement=(Placement("gpu99", 1),))
    assert [finding.check for finding in refusal.value.preflight.blocking_findings] == [names.NODE]
    assert refusal.value.config.placement == (Placement("gpu99", 1),)
    view = services.jobs.queries.show(job.id)
    assert (view.run, view.config.placement) == (0, job.config.placement)


def test_a_cancelled_check_starts_nothing(services: Services) -> None:
    job = services.jobs.create(raw_job())
    progress = Progress()
    progress.cancel()
    with pytest.raises(Cancelled):
        services.jobs.lifecycle.start(job.id, placement=(Placement("gpu99", 1),), progress=progress)
    assert services.jobs.queries.show(job.id).run == 0


def test_a_job_that_could_not_start_is_not_made(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    def require(config: JobConfig, job_id: str = "", progress: Progress | None = None) -> None:
        raise PreflightFailed(services.preflight.run(config), config)

    monkeypatch.setattr(services.preflight, "require", require)
    with pytest.raises(PreflightFailed):
        services.jobs.create_and_start(raw_job())
    assert services.jobs.queries.list() == ()


def test_a_start_cancelled_while_files_are_sent_leaves_no_job(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(folder: JobFolder, *_: object, **__: object) -> bool:
        assert folder.config.exists()
        raise Cancelled

    monkeypatch.setattr(services.jobs._starter, "start", start)
    with pytest.raises(Cancelled):
        services.jobs.create_and_start(raw_job())
    assert services.jobs.queries.list() == ()


def test_a_job_with_a_claimed_first_run_stays(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(folder: JobFolder, *_: object, **__: object) -> bool:
        assert run_start.claim(folder, 1, MOUNTED)
        replace_json(folder.attempt(1).exit, RunExit(1, JobState.ERROR, "No room.").to_dict())
        raise BackendError("The supervisor did not start.")

    monkeypatch.setattr(services.jobs._starter, "start", start)
    with pytest.raises(BackendError):
        services.jobs.create_and_start(raw_job())
    (view,) = services.jobs.queries.list()
    assert (view.run, view.state) == (1, JobState.ERROR)


def test_a_large_model_does_not_start_on_a_disk_too_small_for_its_checkpoints(
    services: Services,
) -> None:
    (model,) = services.library.list(Kind.MODEL)
    free = shutil.disk_usage(services.data_root.path).free
    services.library._add_details(model, {"parameter_bytes": free // 4}, "")
    # Weights and momentum; three of them are kept, and a fourth is there while it is written.
    raw = raw_job(checkpoint={"every_epochs": 1, "keep_latest": 2, "keep_best": 1})
    need = f"the job's checkpoints need about {number_format.size(4 * 2 * (free // 4))}."
    with pytest.raises(PreflightFailed) as refusal:
        services.jobs.create_and_start(raw)
    (finding,) = refusal.value.preflight.blocking_findings
    assert (finding.check, services.jobs.queries.list()) == (names.DISK, ())
    assert "GB left, and" in finding.message
    assert finding.message.endswith(need)

    job = services.jobs.create(raw)
    with pytest.raises(PreflightFailed):
        services.jobs.lifecycle.start(job.id)
    assert services.jobs.queries.show(job.id).run == 0
    # A requested check and the queue find it as well.
    assert services.preflight.run(job.config, job.id).blocking_findings[0].message.endswith(need)
    assert services.preflight.run(job.config).blocking_findings[0].message.endswith(need)
    single_checkpoint = raw_job(1, epochs=1, checkpoint={"every_epochs": 1}, **ALONE)
    assert services.jobs.create_and_start(single_checkpoint).run == 1


def test_nodes_that_left_the_job_have_no_findings(services: Services) -> None:
    job = services.jobs.create(raw_job())
    large_config = replace(job.config, placement=(*job.config.placement, Placement("gpu99", 1)))
    previous_preflight = services.preflight.run(large_config)
    assert [finding.nodes for finding in previous_preflight.blocking_findings] == [("gpu99",)]
    checked_again = services.preflight.check_again(job.config, previous_preflight, ("gpu99",))
    assert checked_again.succeeded
    assert checked_again.nodes == ("this-computer",)


@pytest.mark.parametrize("start_method", ["create and start", "start"])
def test_a_start_checks_the_placement_plans_and_verifies_once(
    services: Services, monkeypatch: pytest.MonkeyPatch, start_method: str
) -> None:
    call_counts: Counter[str] = Counter()

    def count(owner: object, name: str) -> None:
        real_function = getattr(owner, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            call_counts[name] += 1
            return real_function(*args, **kwargs)

        monkeypatch.setattr(owner, name, call)

    monkeypatch.setattr(services.nodes.heads, "open_head", lambda _: nullcontext(lambda *_: None))
    job = services.jobs.create(raw_job(1, **ALONE)) if start_method == "start" else None
    for owner, name in (
        (services.nodes, "list"),
        (services.nodes, "capacities"),
        (services.library, "verify"),
    ):
        count(owner, name)
    if job is None:
        services.jobs.create_and_start(raw_job(1, **ALONE))
    else:
        services.jobs.lifecycle.start(job.id)
    # Model, loader and dataset, each once.
    assert call_counts == {"list": 1, "capacities": 1, "verify": 3}
