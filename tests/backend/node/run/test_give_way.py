"""Real trainings that give way to other users of their GPUs, behind a library with NVML's ABI."""

from __future__ import annotations

import getpass
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from backend.node.queue.entries import entry_of
from backend.node.queue.keeper import lock_of
from backend.node.system import process_identity
from backend.records.base.atomic_files import read_json, replace_json
from backend.records.base.layout import RUN_VARIABLE, DataRoot
from backend.records.jobs.audit_entry import AuditEntry
from backend.records.jobs.state import JobState
from backend.records.jobs.status import RunExit, RunStatus
from backend.records.jobs.stop_request import pause_requested
from backend.records.nodes.entry import NodeAddress, NodeEntry
from tests.fakes.nvml.driver import FakeDriver, build
from tests.fakes.runs import Run
from tests.waiting import LIMIT_S, wait_for

GPUS = [f"GPU-0000000{n}-aaaa-bbbb-cccc-dddddddddddd" for n in range(2)]
QUIET_MINUTES = 0.05

MODEL = """
from torch import nn

class UserModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 3)
        self.dropout = nn.Dropout(0.3)
    def forward(self, x):
        return self.layer(self.dropout(x))
    def loss(self, output, target):
        return nn.functional.cross_entropy(output, target)
"""
LOADER = """
import os, time
import torch
from torch.utils.data import Dataset

class UserDataset(Dataset):
    def __init__(self, path):
        pass
    def __len__(self):
        return 64
    def __getitem__(self, index):
        if not os.path.exists(os.environ["NO_LONGER_SLOW"]):
            time.sleep(0.08)
        return torch.full((4,), index / 64), index % 3
"""


class Desk:
    """A data root with two GPUs, and another user's process that may use one of them."""

    def __init__(self, folder: Path, driver: FakeDriver, process: subprocess.Popen[bytes]) -> None:
        self.root = DataRoot(folder / "data")
        self._folder, self._driver, self._process = folder, driver, process
        self._runs: list[Run] = []

    def start(self, *, is_fast: bool = False, **job: Any) -> Run:
        self.root.path.mkdir(exist_ok=True)
        gate = self._folder / f"fast-{len(self._runs)}"
        if is_fast:
            gate.touch()
        run = Run(
            self.root.path,
            module="cpu_rank",
            model=MODEL,
            loader=LOADER,
            placement=[{"node": "this-computer", "gpus": GPUS}],
            batch_size=8,
            quiet_minutes=QUIET_MINUTES,
            environment={
                "OMP_NUM_THREADS": "1",
                "NO_LONGER_SLOW": str(gate),
                # Horovod looks for work a thousand times a second by default.
                "HOROVOD_CYCLE_TIME": "10",
            },
            **{"gives_way": True, **job},
        )
        self._runs.append(run)
        launch = replace(run.launch, python=sys.executable)
        replace_json(run.folder.launch, launch.to_dict())
        return run.start()

    def hurry(self, run: Run) -> None:
        Path(run.launch.config.environment["NO_LONGER_SLOW"]).touch()

    def is_used(self, gpu: int | None) -> None:
        processes = () if gpu is None else (f"process {gpu} {self._process.pid} 18432",)
        self._driver.describe("gpus 2", *processes)

    def clean(self) -> None:
        keeper = lock_of(self.root).holder()
        if keeper is not None:
            process_identity.send_signal(keeper, 15)
            wait_for(lambda: lock_of(self.root).holder() is None, "the end of the keeper")
        for run in self._runs:
            for number in range(1, run.folder.newest_run() + 1):
                LaterRun(run, number).clean_processes()
            run.clean()


class LaterRun:
    """A later run of the same job."""

    def __init__(self, run: Run, number: int) -> None:
        self.number, self._run = number, run
        self._attempt = run.folder.attempt(number)

    def end(self, limit_s: float = LIMIT_S) -> RunExit:
        label = f"the end of run {self.number}"
        wait_for(self._attempt.exit.exists, label, limit_s, self._hint)
        return RunExit.from_dict(read_json(self._attempt.exit))

    def trains(self) -> int:
        """Return its step when it has made some."""
        status = wait_for(self._status, f"steps of run {self.number}", hint=self._hint)
        assert isinstance(status, RunStatus)
        return status.step

    def _status(self) -> RunStatus | None:
        status = self._run.status
        is_on = status.run == self.number and status.state is JobState.TRAINING
        return status if is_on and status.is_planned and status.samples_per_second else None

    def _hint(self) -> str:
        return f"{self._run.status} {entry_of(self._run.folder)}"

    def clean_processes(self) -> None:
        if self._attempt.supervisor.exists():
            from backend.records.jobs.status import ProcessIdentity

            identity = ProcessIdentity.from_dict(read_json(self._attempt.supervisor))
            process_identity.send_signal(identity, 9)


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    driver = FakeDriver(build(tmp_path / "library"), tmp_path / "state")
    for name in ("LD_LIBRARY_PATH", "FAKE_NVML_STATE"):
        monkeypatch.setenv(name, driver.environment[name])
    process = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
    desk = Desk(tmp_path, driver, process)
    desk.is_used(None)
    yield desk
    desk.clean()
    process.kill()
    process.wait()


def weights(run: Run) -> dict[str, torch.Tensor]:
    newest = run.folder.checkpoints / f"{read_json(run.folder.latest)['name']}.pt"
    weights_state = torch.load(newest, weights_only=True)
    return dict(weights_state["model"])


def pauses(desk: Desk, run: Run, number: int, gpu: int) -> None:
    """Let another user need a GPU of this run, and go."""
    step = LaterRun(run, number).trains()
    desk.is_used(gpu)
    record = LaterRun(run, number).end()
    user = getpass.getuser()
    assert record.state is JobState.INTERRUPTED
    assert record.pause == f"Paused: {user} uses GPU {gpu} on this computer."
    assert record.message.startswith(record.pause)
    assert "Saved at epoch" in record.message
    entry = entry_of(run.folder)
    assert entry is not None
    longer = f" It paused {number} times within an hour, so it waits longer." if number > 6 else ""
    assert (entry.run, entry.reason) == (number + 1, record.pause + longer)
    audited = sorted(run.folder.acts.iterdir())[number - 1]
    assert AuditEntry.from_dict(read_json(audited)).action == (
        f"Gave way ({user} uses GPU {gpu} on this computer)"
    )
    assert run.status.step >= step
    desk.is_used(None)


class Terminals:
    """The terminals that processes of a job have, and those that they made themselves.

    mpirun makes one for the output of each rank.
    """

    def __init__(self, run: Run) -> None:
        self._tag = f"{RUN_VARIABLE}={run.folder.job_id}/".encode()
        self.used_terminals: set[str] = set()
        self.created_terminals: set[str] = set()

    def scan(self) -> int:
        """Return how many processes there are now."""
        process_count = 0
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if self._tag not in (process / "environ").read_bytes():
                    continue
                process_count += 1
                terminal = int((process / "stat").read_text().rpartition(")")[2].split()[4])
                self.used_terminals |= {f"/dev/pts/{os.minor(terminal)}"} if terminal else set()
                for file in (process / "fd").iterdir():
                    self.used_terminals |= {os.readlink(file)}
                    index = (process / "fdinfo" / file.name).read_text().partition("tty-index:")[2]
                    self.created_terminals |= {f"/dev/pts/{index.split()[0]}"} if index else set()
        return process_count

    @property
    def of_others(self) -> set[str]:
        used_terminals = (
            terminal
            for terminal in self.used_terminals
            if terminal.startswith(("/dev/pts/", "/dev/tty"))
        )
        return {
            terminal
            for terminal in used_terminals
            if terminal not in self.created_terminals and terminal != "/dev/pts/ptmx"
        }


def user() -> bytes:
    return subprocess.run(["who"], check=True, stdout=subprocess.PIPE).stdout


def test_a_pause_is_invisible_in_who_and_on_other_terminals(desk: Desk) -> None:
    logged_in, (outer, terminal) = user(), os.openpty()
    run = desk.start(epochs=10_000)
    LaterRun(run, 1).trains()
    terminals = Terminals(run)
    desk.is_used(1)
    while not run.attempt.exit.exists():
        assert terminals.scan() > len(GPUS) or run.status.state is not JobState.TRAINING
        assert user() == logged_in
    assert terminals.of_others == set()
    # They would be noticed.
    tag = {**os.environ, RUN_VARIABLE: f"{run.folder.job_id}/1"}
    noisy = subprocess.Popen(["sleep", "1000"], stdout=terminal, env=tag)
    terminals.scan()
    noisy.kill()
    noisy.wait()
    assert terminals.of_others == {os.ttyname(terminal)}
    os.close(outer)
    os.close(terminal)


def test_a_job_pauses_while_another_user_needs_its_gpu_and_ends_with_the_same_weights(
    desk: Desk,
) -> None:
    # Its node makes it give way, not the job.
    node = NodeEntry("this-computer", NodeAddress("here"), gives_way="always")
    desk.root.node(node.name).path.mkdir(parents=True)
    replace_json(desk.root.node(node.name).entry, node.to_dict())
    run = desk.start(epochs=10, gives_way=False)

    pauses(desk, run, 1, gpu=1)

    assert LaterRun(run, 2).trains() > 0
    desk.hurry(run)
    assert LaterRun(run, 2).end().state is JobState.FINISHED
    undisturbed = desk.start(epochs=10, is_fast=True)
    assert undisturbed.end().state is JobState.FINISHED
    expected = weights(undisturbed)
    assert all(torch.equal(value, expected[name]) for name, value in weights(run).items())


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_20_pauses_lose_nothing(desk: Desk) -> None:
    # Enough steps for all pauses; a machine that is busy makes the others in some minutes.
    job = {"epochs": 200, "checkpoint": {"every_epochs": 100}}
    run = desk.start(**job)

    for number in range(1, 21):
        pauses(desk, run, number, gpu=number % 2)

    desk.hurry(run)
    assert LaterRun(run, 21).end(limit_s=600).state is JobState.FINISHED
    undisturbed = desk.start(is_fast=True, **job)
    assert LaterRun(undisturbed, 1).end(limit_s=600).state is JobState.FINISHED
    expected = weights(undisturbed)
    assert all(torch.equal(value, expected[name]) for name, value in weights(run).items())


def test_a_stop_by_a_user_during_the_pause_ends_it(desk: Desk) -> None:
    run = desk.start(epochs=10_000)
    LaterRun(run, 1).trains()
    desk.is_used(0)
    # The file is made before its content is written.
    wait_for(lambda: pause_requested(run.folder.stop_request, 1), "the request")
    request = read_json(run.folder.stop_request)
    run.folder.stop_request.write_text(json.dumps({**request, "user": "ben", "pause": ""}))

    record = LaterRun(run, 1).end()

    assert (record.state, record.pause) == (JobState.INTERRUPTED, "")
    assert record.message.startswith("Stopped by ben. ")
    assert entry_of(run.folder) is None
