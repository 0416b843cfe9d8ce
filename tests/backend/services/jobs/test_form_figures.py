"""What the form says before a start comes from real jobs: their pace, and their checkpoints."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from backend.datastore.nodes import files as node_files
from backend.records.base.atomic_files import read_json, replace_json
from backend.records.jobs.config import StrategyConfig
from backend.records.jobs.status import RunStatus
from backend.records.library.item import Kind
from backend.records.library.preview import DataSize
from backend.records.nodes.entry import NodeAddress, NodeEntry, NodeInstallation
from backend.records.sweeps.spec import Sweep
from backend.records.sweeps.values import Axis
from backend.services.context.container import Services, open_services
from backend.services.jobs import validation
from backend.services.jobs.dataset_size import DataSizeCounter
from tests.backend.services.bundles.test_bundle_service import finished_job


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
