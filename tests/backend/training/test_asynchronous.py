"""Asynchronous training: servers, workers, what they lose and what they keep."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from backend.records.base.atomic_files import read_json
from backend.training.async_server import PushRate
from tests.backend.training.test_resume import assert_bit_equal
from tests.backend.training.training_rig import MODEL, Training, new_training, pausing_model

SGD = {"name": "sgd", "lr": 0.05, "momentum": 0.9}


def downpour(folder: Path, name: str = "job", *, workers: int = 2, **settings: Any) -> Training:
    strategy = {"name": "downpour", **settings.pop("strategy", {})}
    processes = workers + strategy.get("servers", 1)
    job_settings = {"optimizer": SGD, **settings}
    return new_training(folder, name=name, strategy=strategy, processes=processes, **job_settings)


def test_one_worker_trains_bit_by_bit_as_one_process(tmp_path: Path) -> None:
    settings: dict[str, Any] = {
        "epochs": 2,
        "gradient_norm": 0.5,
        "schedule": {"name": "cosine", "warmup_epochs": 0.5},
    }
    single_job = new_training(
        tmp_path, name="alone", processes=1, strategy={"name": "alone"}, **settings
    )
    single_job.train_well()
    served_job = downpour(tmp_path, "served", workers=1, **settings)
    served_job.train_well()
    assert_bit_equal(single_job, served_job)


def synchronized_model(folder: Path, model: str = MODEL) -> str:
    """Return a model with which two workers begin their first batch at the same time."""
    folder.mkdir()
    return model.replace(
        "return self.layers(x)",
        "import os, time\n"
        f"        begun = {str(folder)!r}\n"
        "        if self.training:\n"
        "            open(begun + '/' + os.environ['OMPI_COMM_WORLD_RANK'], 'a').close()\n"
        "        while self.training and len(os.listdir(begun)) < 2:\n"
        "            time.sleep(0.01)\n"
        "        return self.layers(x)",
    )


@pytest.mark.parametrize("servers", [1, 2])
def test_every_sample_is_taken_once_an_epoch(tmp_path: Path, servers: int) -> None:
    model = synchronized_model(tmp_path / "begun")
    training = downpour(tmp_path, model=model, epochs=2, strategy={"servers": servers})
    training.train_well()
    losses = training.curve("loss")
    assert sorted(losses) == list(range(1, 25))
    assert len(training.curve("validation/loss")) == 2
    assert max(training.curve("staleness max").values()) >= 1


def test_stopped_and_resumed_with_one_worker_is_bit_equal_to_straight(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"workers": 1, "epochs": 3, "model": pausing_model(MODEL)}
    straight_job, resumed_job = (
        downpour(tmp_path, name, **settings) for name in ("straight", "halves")
    )
    straight_job.train_well()
    resumed_job.train_well(
        stop_condition=lambda: resumed_job.step() >= 2, **resumed_job.pause_environment
    )
    assert resumed_job.step() < 36
    resumed_job.train_well(resume_from=resumed_job.latest())
    assert_bit_equal(straight_job, resumed_job)


def test_a_job_stopped_on_two_workers_resumes_on_three_with_the_remaining_samples(
    tmp_path: Path,
) -> None:
    training = downpour(tmp_path, model=pausing_model(MODEL), epochs=2, strategy={"servers": 2})
    training.train_well(stop_condition=lambda: training.step() >= 2, **training.pause_environment)
    progress = torch.load(training.latest(), weights_only=True)["course"]
    assert len(set(progress["done"])) == progress["epoch_step"] < 12
    training.with_config(epochs=2, processes=4, optimizer=SGD, strategy={"name": "downpour"})
    training.train_well(resume_from=training.latest())
    assert sorted(training.curve("loss")) == list(range(1, 25))


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> tuple[Training, Path, str]:
    """A job that was stopped within its epoch, the file of its samples, and its checkpoint."""
    folder = tmp_path_factory.mktemp("stopped")
    sample_file = folder / "taken"
    model = MODEL.replace(
        "return self.layers(x)",
        f"open({str(sample_file)!r}, 'a').write("
        "''.join(f'{value:.9f} ' for value in x[:, 0].tolist())"
        " * self.training)\n        return self.layers(x)",
    )
    settings = {"epochs": 1, "strategy": {"servers": 2}, "checkpoint": {"keep_latest": 99}}
    training = downpour(folder, model=pausing_model(model), **settings)
    training.train_well(stop_condition=lambda: training.step() >= 2, **training.pause_environment)
    assert 2 <= training.step() < 12
    return training, sample_file, training.latest()


@pytest.mark.parametrize(
    ("batch_size", "strategy"),
    [
        (16, {"name": "downpour"}),
        (4, {"name": "downpour"}),
        (7, {"name": "dc-asgd", "policy": "portion"}),
        (48, {"name": "downpour", "n_push": 2}),
        (8, {"name": "alone"}),
        (4, {"name": "allreduce"}),
    ],
)
def test_an_epoch_resumed_with_another_batch_size_has_each_sample_once(
    stopped: tuple[Training, Path, str], batch_size: int, strategy: dict[str, Any]
) -> None:
    training, sample_file, checkpoint = stopped
    samples_before = sample_file.read_text()
    training.with_config(
        epochs=1,
        batch_size=batch_size,
        processes={"alone": 1, "allreduce": 2}.get(strategy["name"], 3),
        optimizer=SGD,
        strategy=strategy,
        checkpoint={"keep_latest": 99},
    )
    training.train_well(resume_from=checkpoint)
    samples = sample_file.read_text().split()
    sample_file.write_text(samples_before)
    assert len(set(samples)) == len(samples)
    # Seven do not divide 96.
    assert len(samples) == 96 // batch_size * batch_size


def test_more_servers_than_parameters_are_refused_in_a_sentence(tmp_path: Path) -> None:
    training = downpour(tmp_path, workers=1, strategy={"servers": 7})
    assert training.train() != 0
    # The first server that ends takes the others along.
    records = map(read_json, training.folder.attempt(1).path.glob("rank-*.error.json"))
    assert {record["sentence"] for record in records if not record["secondary"]} == {
        "The job has 7 servers, but the model has only 6 trainable parameters (tensors) to share "
        "among them. Set fewer servers; one is enough for most models."
    }


def test_the_speed_of_a_job_counts_all_batches_of_a_push(tmp_path: Path) -> None:
    training = downpour(tmp_path, workers=1, epochs=1, strategy={"n_push": 3})
    training.train_well()
    assert len(training.curve("loss")) == training.status()["steps_per_epoch"] == 4
    pushes, samples = (
        training.curve(curve) for curve in ("pushes per second", "samples_per_second")
    )
    # At the second push both are of the time since the first.
    assert samples[2] / pushes[2] == pytest.approx(3 * training.config.batch_size)


def slow_model(rank: str, note_folder: Path | None = None) -> str:
    """Return a model that is slow on one rank; each rank notes its batches in a file."""
    note = f"open({str(note_folder)!r} + '/' + rank, 'a').write('x')" if note_folder else "pass"
    return MODEL.replace(
        "return self.layers(x)",
        "import os, time\n"
        "        rank = os.environ['OMPI_COMM_WORLD_RANK']\n"
        f"        time.sleep(0.3 * (self.training and rank == {rank!r}))\n"
        "        if self.training:\n"
        f"            {note}\n"
        "        return self.layers(x)",
    )


def test_with_a_quorum_an_epoch_does_not_wait_for_a_slow_worker(tmp_path: Path) -> None:
    training = downpour(
        tmp_path,
        workers=4,
        model=slow_model("2"),
        epochs=2,
        batch_size=2,
        strategy={"policy": "quorum"},
    )
    training.train_well()
    steps = len(training.curve("loss"))
    assert 2 * 36 <= steps < 2 * 48, "three of four workers took their shards, one did not"


def test_in_small_portions_a_slow_worker_takes_fewer_and_none_is_left_out(tmp_path: Path) -> None:
    batch_folder = tmp_path / "taken"
    batch_folder.mkdir()
    training = downpour(
        tmp_path,
        model=synchronized_model(tmp_path / "begun", slow_model("2", batch_folder)),
        epochs=2,
        batch_size=2,
        strategy={"policy": "portion"},
    )
    training.train_well()
    assert sorted(training.curve("loss")) == list(range(1, 97))
    fast_count, slow_count = ((batch_folder / rank).read_text().count("x") for rank in "12")
    assert slow_count < fast_count / 2


def test_a_worker_trains_on_its_own_updates_between_fetches(tmp_path: Path) -> None:
    training = downpour(
        tmp_path,
        epochs=3,
        loader_workers=1,
        strategy={"name": "dc-asgd", "n_fetch": 4, "n_push": 2, "servers": 2},
    )
    training.train_well()
    # Each of two workers has six batches an epoch, two in a push.
    losses = training.curve("loss")
    assert sorted(losses) == list(range(1, 19))
    assert losses[18] < losses[1]


def test_one_worker_between_fetches_is_not_late_and_trains_as_one_process(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"epochs": 2, "optimizer": {"name": "sgd", "lr": 0.05}}
    single_job = new_training(
        tmp_path, name="alone", processes=1, strategy={"name": "alone"}, **settings
    )
    single_job.train_well()
    strategy = {"name": "dc-asgd", "n_fetch": 5, "servers": 2}
    served_job = downpour(tmp_path, "served", workers=1, strategy=strategy, **settings)
    served_job.train_well()
    models = (
        torch.load(item.latest(), weights_only=True)["model"] for item in (single_job, served_job)
    )
    for single_tensor, served_tensor in zip(*(item.values() for item in models), strict=True):
        assert torch.equal(single_tensor, served_tensor)
    assert set(served_job.curve("staleness max").values()) == {0.0}


@pytest.mark.parametrize(
    "strategy",
    [
        {"servers": 1},
        {"servers": 2},
        {"servers": 3, "n_push": 2},
        {"servers": 2, "n_fetch": 4},
        {"name": "dc-asgd", "servers": 2},
        {"name": "dc-asgd", "servers": 2, "n_fetch": 6, "variant": "constant"},
    ],
)
def test_a_push_that_is_no_number_is_applied_by_no_server(
    tmp_path: Path, strategy: dict[str, Any]
) -> None:
    model = MODEL.replace(
        "return nn.functional.cross_entropy(output, target)",
        "self.calls = getattr(self, 'calls', 0) + self.training\n"
        "        loss = nn.functional.cross_entropy(output, target)\n"
        "        return loss * float('nan') if self.calls == 2 else loss",
    )
    training = downpour(tmp_path, model=model, epochs=1, strategy=strategy, stop_on_nan=False)
    training.train_well()
    checkpoint = torch.load(training.latest(), weights_only=True)
    assert all(tensor.isfinite().all() for tensor in checkpoint["model"].values())
    losses = training.curve("loss")
    # One push of each of two workers is left out.
    assert len(losses) == training.status()["steps_per_epoch"] - 2


def test_the_early_stop_and_checkpoints_by_steps_hold_as_in_other_jobs(tmp_path: Path) -> None:
    training = downpour(
        tmp_path,
        epochs=50,
        optimizer={"name": "sgd", "lr": 1e-30},
        checkpoint={"every_steps": 5, "keep_latest": 100},
        early_stop={"metric": "validation/loss", "min_delta": 0.5, "patience_epochs": 2},
    )
    training.train_well()
    assert len(training.curve("validation/loss")) == 3
    steps = sorted(int(p.stem[-6:]) for p in training.folder.checkpoints.glob("epoch-*.pt"))
    # A push that was on its way may come before the pause.
    assert all(step % 5 <= 1 or step % 12 == 0 for step in steps), steps
    assert len(steps) >= 7
    assert steps[-1] == 36


def test_a_loss_that_is_no_number_ends_the_job_and_names_the_worker(tmp_path: Path) -> None:
    model = MODEL.replace(
        "return nn.functional.cross_entropy(output, target)",
        "self.calls = getattr(self, 'calls', 0) + 1\n"
        "        loss = nn.functional.cross_entropy(output, target)\n"
        "        return loss * float('nan') if self.calls > 8 else loss",
    )
    training = downpour(tmp_path, model=model)
    assert training.train() != 0
    assert "The loss of rank" in training.error(0)["sentence"]
    assert "became NaN" in training.error(0)["sentence"]


@given(
    gaps_ms=st.lists(st.integers(0, 500), min_size=1, max_size=250),
    workers=st.integers(1, 8),
)
@example(gaps_ms=[1000] * 50, workers=4)
def test_samples_per_second_are_those_of_a_window_in_time(gaps_ms: list[int], workers: int) -> None:
    """Workers push together after each gap, as they do when they began together."""
    times = [time_s for time_s in np.cumsum([5, *gaps_ms]) / 1e3 for _ in range(workers)]
    samples = [8 + number % 3 for number in range(len(times))]
    rate = PushRate(0.0)
    for number, now_s in enumerate(times):
        curves = rate.add(float(now_s), samples[number])
        first = max(0, number - 99)
        span_s = now_s - (times[first - 1] if first else 0.0)
        if span_s > 0:
            sample_count = sum(samples[first : number + 1])
            assert curves["samples_per_second"] == pytest.approx(sample_count / span_s)
            assert curves["pushes per second"] == pytest.approx((number + 1 - first) / span_s)
