"""Figures in the form before a start: pace and checkpoints of real jobs, and memory for a batch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.datastore.nodes import files as node_files
from backend.records.base.atomic_files import read_json, replace_json
from backend.records.jobs.config import JobConfig, StrategyConfig
from backend.records.jobs.job_file import parse_job
from backend.records.jobs.status import RunStatus
from backend.records.library.item import Kind
from backend.records.library.preview import DataSize, ModelCheck
from backend.records.nodes.entry import NodeAddress, NodeEntry, NodeInstallation
from backend.records.nodes.reading import NodeState
from backend.records.sweeps.spec import Sweep
from backend.records.sweeps.values import Axis
from backend.services.context.container import Services, open_services
from backend.services.jobs import validation
from backend.services.jobs.validation import DataSizeCounter, memory_hint
from tests.backend.services.bundles.test_bundle_service import finished_job
from tests.widgets.nodes import samples


@pytest.fixture
def services(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Services]:
    monkeypatch.setattr(DataSizeCounter, "cached_size", lambda *_: DataSize(512, 64))
    container = open_services(tmp_path / "root", tmp_path / "here" / "c.sqlite")
    yield container
    container.close()


def test_time_and_disk_are_predicted_from_the_job_before(
    services: Services, tmp_path: Path
) -> None:
    job_id = finished_job(services, tmp_path / "sources")
    folder = services.data_root.job(job_id)
    status = RunStatus.from_dict(read_json(folder.status))
    replace_json(folder.status, replace(status, pace_s=0.25).to_dict())
    services.jobs.queries.show(job_id)
    raw = {**services.jobs.clone(job_id), "epochs": 10}
    check = services.jobs.check(raw)
    assert check.errors == ()
    assert check.steps_per_epoch == 32
    forecast = check.forecast
    assert (forecast.total_steps, forecast.lasts_s, forecast.pace_source) == (
        320,
        80.0,
        "Täglich/1",
    )
    assert (forecast.checkpoint_bytes, forecast.checkpoints_kept, forecast.disk_bytes) == (
        700,
        3,
        2100,
    )
    assert forecast.free_bytes is not None
    # With another batch it is unknown how long a step takes.
    other_forecast = services.jobs.check({**raw, "batch_size": 4}).forecast
    assert (other_forecast.lasts_s, other_forecast.disk_bytes) == (None, 2100)
    sweep = services.sweeps.check(Sweep(raw, (Axis("seed", (1, 2)),)))
    assert (sweep.jobs, sweep.forecast.lasts_s) == (2, 80.0)


def test_before_any_job_the_size_comes_from_the_models_parameters(
    services: Services, tmp_path: Path
) -> None:
    finished_job(services, tmp_path / "sources")
    services.library.import_item(Kind.MODEL, tmp_path / "sources" / "model", "fresh")
    (tmp_path / "sources" / "model" / "extra.py").write_text("x = 1\n")
    item = services.library.import_item(Kind.MODEL, tmp_path / "sources" / "model", "fresh")
    raw = services.jobs.clone(services.jobs.queries.list()[0].id)
    raw["model"] = item.reference
    assert services.jobs.check(raw).forecast.disk_bytes is None
    services.library._add_details(item, {"parameter_bytes": 1_000_000}, "")
    forecast = services.jobs.check(raw).forecast
    assert forecast.checkpoint_bytes == 2_000_000, "momentum is as large as the weights"


def test_a_job_that_names_no_strategy_trains_by_ddp_where_horovod_is_missing(
    services: Services, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    finished_job(services, tmp_path / "sources")
    raw = services.jobs.clone(services.jobs.queries.list()[0].id)
    raw["strategy"] = {"lr_scaling": "none"}
    allreduce = raw | {"strategy": {"name": "allreduce"}}
    assert services.jobs.check(raw).usual_strategy == "allreduce"
    assert services.jobs.create(raw).config.strategy == StrategyConfig("allreduce", "none")
    monkeypatch.setattr(validation, "has_horovod", lambda: False)
    assert services.jobs.check(allreduce).usual_strategy == "ddp"
    assert services.jobs.create(raw).config.strategy == StrategyConfig("ddp", "none")
    assert services.jobs.create(allreduce).config.strategy.name == "allreduce"
    raw["placement"] = [{"node": "gpu1", "processes": 2}]
    for without_horovod, strategy in ((False, "allreduce"), (True, "ddp")):
        installation = NodeInstallation(
            "/p", "/m", "5", "e", "/b", "/c", without_horovod=without_horovod
        )
        entry = NodeEntry("gpu1", NodeAddress("gpu1"), installation=installation)
        node_files.write_entry(services.data_root, entry)
        assert services.jobs.check(raw).usual_strategy == strategy


@pytest.mark.parametrize(
    ("changed", "has_figures"),
    [
        ({"gives_way": True}, True),
        ({"model": "gone"}, True),
        ({"name": ""}, True),
        ({"stall_limit_s": "long"}, True),
        ({"early_stop": {"patience_epochs": 0}}, True),
        ({"epochs": 0}, False),
        ({"optimizer": {"name": "sgd", "lr": "fast"}}, False),
        ({"batch_size": "many"}, False),
        ({"placement": []}, False),
    ],
)
def test_a_fault_takes_away_only_the_figures_that_follow_from_it(
    services: Services, changed: dict[str, object], has_figures: bool
) -> None:
    optimizer = {"name": "sgd", "lr": 0.1}
    placement = [{"node": "this-computer", "processes": 1}]
    raw = {"name": "j", "epochs": 3, "batch_size": 8, "optimizer": optimizer}
    check = services.jobs.check({**raw, "placement": placement, **changed})
    assert check.errors
    assert (check.global_batch, bool(check.rates)) == ((8, True) if has_figures else (None, False))


GIB = 1 << 30
LOCAL = {"node": "this-computer", "processes": 1}
GPUS = {"node": "gpu01", "gpus": ["GPU-0", "GPU-1"]}


def config(placement: dict[str, Any], batch_size: int = 32) -> JobConfig:
    parts = {"name": "j", "model": "m", "dataset": "d", "loader": "l", "epochs": 1}
    optimizer = {"name": "sgd", "lr": 0.1}
    raw = {**parts, "optimizer": optimizer, "batch_size": batch_size, "placement": [placement]}
    return parse_job(raw).draft


def state(name: str, memory_bytes: int, gpu_bytes: int = 0) -> NodeState:
    sample_state = samples.state(name, count=2 if gpu_bytes else 0)
    assert sample_state.reading is not None
    gpus = tuple(replace(gpu, memory_total_bytes=gpu_bytes) for gpu in sample_state.reading.gpus)
    reading = replace(sample_state.reading, memory_total_bytes=memory_bytes, gpus=gpus)
    return replace(sample_state, reading=reading)


NODES = {
    "this-computer": state("this-computer", 24 * GIB),
    "gpu01": state("gpu01", 512 * GIB, 16 * GIB),
}


def check(activation_bytes: int | None, parameter_bytes: int = 0) -> ModelCheck:
    return ModelCheck(1, 1, parameter_bytes, activation_bytes=activation_bytes)


@pytest.mark.parametrize(
    ("placement", "trial", "message", "remedy"),
    [
        (LOCAL, check(GIB), "A batch of 32 needs about 32.0 GiB of memory; a process has 24.0 GiB.",
         "Choose 24 or less, or 16 in 2 passes of a step."),
        ({**LOCAL, "processes": 2}, check(GIB // 2),
         "A batch of 32 needs about 16.0 GiB of memory; a process has 12.0 GiB.",
         "Choose 24 or less, or 16 in 2 passes of a step."),
        (GPUS, check(GIB, GIB), "A batch of 32 needs about 34.0 GiB of memory; a process has "
         "16.0 GiB.", "Choose 14 or less."),
        (GPUS, check(GIB, 8 * GIB), "A batch of 32 needs about 48.0 GiB of memory; a process has "
         "16.0 GiB.",
         "Use a smaller model, or the strategy FSDP, whose processes share the weights."),
        (LOCAL, check(GIB, 12 * GIB), "A batch of 32 needs about 56.0 GiB of memory; a "
         "process has 24.0 GiB.", "Use a smaller model."),
        (LOCAL, check(GIB // 2), "", ""),
        (LOCAL, check(None, 9 * GIB), "", ""),
        ({"node": "gone", "processes": 1}, check(99 * GIB), "", ""),
    ],
)  # fmt: skip
def test_the_hint_says_how_much_is_needed_and_what_fits(
    placement: dict[str, Any], trial: ModelCheck, message: str, remedy: str
) -> None:
    hints = memory_hint(config(placement), trial, NODES)
    assert [(hint.message, hint.remedy) for hint in hints] == ([(message, remedy)] * bool(message))
    assert all(not hint.ok for hint in hints)


@given(st.integers(1, 4096), st.integers(1, 4 * GIB), st.integers(0, 8 * GIB))
def test_what_is_said_to_fit_has_no_hint(
    batch_size: int, activation_bytes: int, parameter_bytes: int
) -> None:
    trial = check(activation_bytes, parameter_bytes)
    for hint in memory_hint(config(LOCAL, batch_size), trial, NODES):
        numbers = hint.remedy.replace("\u202f", "").split()
        if numbers[0] == "Choose":
            smaller = int(numbers[1])
            if "passes" in numbers:
                size, passes = int(numbers[5]), int(numbers[7])
                assert size <= smaller
                assert size * passes == batch_size
            assert smaller < batch_size
            assert memory_hint(config(LOCAL, smaller), trial, NODES) == ()
