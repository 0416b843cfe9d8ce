"""Real trainings under the supervisor: Horovod between two ranks, users' code that goes wrong."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from backend.records.base.atomic_files import read_json
from backend.records.jobs.launch import RANK_MODULE
from backend.records.jobs.state import JobState
from tests.backend.node.run.early_signal import hurry_guard
from tests.fakes.runs import Run, saved_message
from tests.waiting import wait_for

ALONE_SETTINGS = {"ranks": 1, "strategy": "alone"}

MODEL = """
import os, sys, ctypes, subprocess, time
import torch
from torch import nn

class UserModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 3)
        self.calls = 0
    def forward(self, x):
        self.calls += 1
        if self.training and self.calls == 3 and os.environ.get("OMPI_COMM_WORLD_RANK", "1") == "1":
            self.happen()
        return self.layer(x)
    def happen(self):
        HAPPENS
    def loss(self, output, target):
        return nn.functional.cross_entropy(output, target)
"""
LOADER = """
import multiprocessing, os, time
import torch
from torch.utils.data import Dataset, get_worker_info

class UserDataset(Dataset):
    def __init__(self, path):
        self.lock = multiprocessing.Lock()
        SETUP
    def __len__(self):
        return 96
    def __getitem__(self, index):
        HAPPENS
        return torch.full((4,), index / 96), index % 3
"""


@pytest.fixture
def train(tmp_path: Path) -> Iterator[Callable[..., Run]]:
    runs: list[Run] = []

    def start(
        in_forward: str = "pass",
        in_loader: str = "pass",
        in_setup: str = "pass",
        prepare: Callable[[Run], object] = lambda run: None,
        **settings: Any,
    ) -> Run:
        settings = {"epochs": 1, "batch_size": 8, **settings}
        runs.append(
            Run(
                tmp_path,
                module=RANK_MODULE,
                model=MODEL.replace("HAPPENS", in_forward),
                loader=LOADER.replace("HAPPENS", in_loader).replace("SETUP", in_setup),
                environment={"OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1")},
                **settings,
            )
        )
        prepare(runs[-1])
        return runs[-1].start()

    yield start
    for run in runs:
        run.clean()


Train = Callable[..., Run]


def gate_variables(gate: Path) -> dict[str, str]:
    """A loader that holds its rank from its sixth reading of the data on, until the gate exists."""
    waits = f"while self.taken > 5 * 96 and not os.path.exists({str(gate)!r}): time.sleep(0.01)"
    return {"in_setup": "self.taken = 0", "in_loader": f"self.taken += 1\n        {waits}"}


def says_here(run: Run) -> bool:
    return run.folder.rank_log(0).exists() and "here" in run.log(0)


def test_a_training_finishes_with_its_checkpoint_and_its_last_figures(train: Train) -> None:
    run = train()
    # The lock of an earlier run does not stop this one.
    run.folder.stop_request.write_text(json.dumps({"run": 7}))
    record = run.end()
    assert (record.state, record.message, record.error) == (JobState.FINISHED, "", None)
    assert run.status.step == run.status.total_steps == 6
    assert run.status.metrics["loss"] is not None
    assert run.checkpoints() == ["epoch-0001-step-000006"]


@pytest.mark.slow
def test_one_process_trains_without_mpirun(train: Train) -> None:
    run = train(ranks=1, strategy="alone", mpirun_path="/nowhere")
    assert run.end().state is JobState.FINISHED


@pytest.mark.slow
def test_a_stop_saves_and_names_its_checkpoint(train: Train) -> None:
    run = train(epochs=10_000)
    run.wait_until_training()
    run.folder.stop_request.write_text(json.dumps({"run": 1, "user": "ben"}))
    record = run.end()
    name = read_json(run.folder.latest)["name"]
    assert record.state is JobState.INTERRUPTED
    assert record.message == f"Stopped by ben. {saved_message(name)}"


@pytest.mark.slow
def test_f01_killing_rank_0_of_a_training(train: Train) -> None:
    run = train(epochs=10_000)
    run.wait_until_training()
    run.kill("rank_bootstrap.py", 0)
    record = run.end()
    assert record.state is JobState.ERROR
    assert record.message.startswith("Rank 0 on this computer was killed by signal 9 (SIGKILL)")
    assert run.rank_exit(1).is_secondary


def test_a_downpour_job_continues_without_a_killed_worker_and_says_so(
    train: Train, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    run = train(**gate_variables(gate), epochs=60, strategy="downpour", ranks=3)
    run.wait_until_training()
    run.kill("rank_bootstrap.py", 2)
    wait_for(lambda: "1 of 2 workers" in run.status.message, "the message", hint=lambda: run.log(0))
    assert run.status.message == "Rank 2 on this-computer has ended; 1 of 2 workers train on."
    gate.touch()
    record = run.end()
    assert record.state is JobState.FINISHED, record.message
    assert "Rank 2 on this computer was killed by signal 9 (SIGKILL)" in record.message
    assert run.status.epoch == 60


def test_a_sandblaster_job_continues_with_the_portions_of_a_killed_worker(
    train: Train, tmp_path: Path
) -> None:
    # Rank 1 dies in its first portion, and rank 2 waits in its own until the job has said so: how
    # often L-BFGS evaluates the loss after that depends on rounding, so on the processor.
    gate = tmp_path / "gate"
    gate_is_shut = f"not os.path.exists({str(gate)!r})"
    run = train(
        "os.kill(os.getpid(), 9)",
        f"while os.environ['OMPI_COMM_WORLD_RANK'] == '2' and {gate_is_shut}: time.sleep(0.01)",
        epochs=2,
        strategy="sandblaster",
        optimizer={"name": "lbfgs", "lr": 1.0},
        ranks=3,
    )
    wait_for(lambda: "1 of 2 workers" in run.status.message, "the message", hint=lambda: run.log(0))
    gate.touch()
    record = run.end()
    assert record.state is JobState.FINISHED, record.message
    assert "Rank 1 on this computer was killed by signal 9 (SIGKILL)" in record.message
    assert run.status.epoch == run.status.step == 2


@pytest.mark.slow
def test_a_job_that_has_converged_finishes_before_its_last_epoch_and_says_so(train: Train) -> None:
    lbfgs = {"name": "lbfgs", "lr": 1.0}
    run = train(epochs=10_000, strategy="sandblaster", optimizer=lbfgs)
    record, step = run.end(), run.status.step
    assert record.state is JobState.FINISHED, record.message
    assert record.message == f"Converged at step {step} of 10,000: no step lowers the loss."
    assert run.status.epoch == step
    assert run.checkpoints()[-1] == f"epoch-{step:04}-step-{step:06}"


@pytest.mark.slow
def test_a_downpour_job_with_a_killed_server_ends_at_its_last_checkpoint(train: Train) -> None:
    run = train(epochs=10_000, strategy="downpour", ranks=3, checkpoint={"every_steps": 5})
    wait_for(lambda: len(run.checkpoints()) > 1, "two checkpoints", hint=lambda: run.log(0))
    run.kill("rank_bootstrap.py", 0)
    record = run.end()
    assert record.state is JobState.ERROR
    assert record.message.startswith("Rank 0 on this computer was killed by signal 9 (SIGKILL)")


@pytest.mark.slow
def test_a_downpour_job_whose_workers_all_fail_names_the_first(train: Train) -> None:
    model_fails = 'raise ValueError("no such colour")'
    record = train(model_fails, strategy="downpour", ranks=2).end()
    assert record.state is JobState.ERROR
    assert record.message.startswith("Rank 1 on this computer: ")
    assert "no such colour" in record.message


@pytest.mark.slow
def test_m14_the_rank_that_raised_is_named_and_not_horovods_echo(train: Train) -> None:
    record = train('raise ValueError("no such colour")').end()
    assert record.message.startswith("Rank 1 on this computer: ")
    assert "no such colour" in record.message
    assert record.error is not None
    assert "bks_model.py" in record.error.traceback


@pytest.mark.slow
def test_f13_sys_exit_in_the_model_is_an_error_of_that_rank(train: Train) -> None:
    record = train("sys.exit(0)").end()
    assert record.state is JobState.ERROR
    assert record.error is not None
    assert record.error.rank == 1
    assert "sys.exit(0)" in record.message


def test_f15_a_segfault_in_a_training_names_the_users_line(train: Train) -> None:
    record = train("ctypes.string_at(0)", **ALONE_SETTINGS).end()
    assert "crashed with signal 11 (SIGSEGV" in record.message
    assert "at bks_model.py, line " in record.message
    assert record.message.endswith("in happen.")


def test_f16_an_infinite_loop_in_the_model_names_the_users_line(train: Train) -> None:
    marks: list[Path] = []
    run = train(
        "print('here')\n        while True: time.sleep(0.01)",
        prepare=lambda run: marks.append(hurry_guard(run, 0)),
        **ALONE_SETTINGS,
    )
    wait_for(lambda: says_here(run), "the loop")
    marks[0].touch()
    record = run.end()
    assert record.message.startswith(
        "Rank 0 on this computer made no progress for 600 s in the model's step, at bks_model.py"
    )
    assert record.message.endswith("in happen.")


@pytest.mark.slow
def test_f17_a_deadlock_in_a_loaders_worker_names_the_users_line(train: Train) -> None:
    record = train(
        in_loader="if index == 40: self.lock.acquire(); self.lock.acquire()",
        stall_limit_s=5.0,
        loader_workers=1,
    ).end()
    assert "made no progress for 5 s while the loader was making a batch" in record.message
    assert "at bks_dataset.py, line 13, in __getitem__" in record.message


@pytest.mark.slow
def test_f22_a_stop_while_a_users_dataset_is_being_made_ends_at_once(train: Train) -> None:
    run = train(in_setup="print('here', flush=True); time.sleep(600)")
    wait_for(lambda: says_here(run), "the dataset")
    run.stop()
    record = run.end()
    assert record.state is JobState.INTERRUPTED
    assert record.message == "Stopped before the first step; there is no checkpoint yet."
