"""Status and history: whole for readers at every moment, complete at the end."""

from __future__ import annotations

import errno
import math
import os
import threading
import tomllib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from backend.node.run import run_files
from backend.records.base.atomic_files import read_json
from backend.records.base.layout import JobFolder
from backend.records.jobs.state import JobState
from backend.records.jobs.status import RunStatus
from backend.training.curve_files import EventFile
from backend.training.reporter import Reporter, Step
from tests.backend.training.training_rig import new_training
from tests.waiting import LIMIT_S


class WatchedReporter(Reporter):
    """Reporter that signals each write of its thread, so that a test need not poll."""

    def __init__(self, folder: JobFolder, previous_status: RunStatus | None = None) -> None:
        self._has_written = threading.Condition()
        super().__init__(
            folder, run=1, epochs=2, world_size=2, global_batch=16, previous_status=previous_status
        )

    def _write_status(self) -> None:
        super()._write_status()
        with self._has_written:
            self._has_written.notify_all()

    def wait_for(self, condition: Callable[[], bool]) -> None:
        with self._has_written:
            assert self._has_written.wait_for(condition, LIMIT_S)


def reporter_of(folder: JobFolder) -> WatchedReporter:
    folder.path.mkdir(parents=True, exist_ok=True)
    reporter = WatchedReporter(folder)
    reporter.plan(step=0, epoch=1, total_steps=100, steps_per_epoch=50)
    return reporter


def step(number: int, **metrics: float) -> Step:
    return Step(
        number,
        1 + (number - 1) // 50,
        1 + (number - 1) % 50,
        {"loss": 1 / number, **metrics},
        0.01,
        (5.0, 7.0),
    )


def test_every_step_is_in_the_history_and_the_file_is_toml(tmp_path: Path) -> None:
    folder = JobFolder(tmp_path / "job")
    reporter = reporter_of(folder)
    reporter.set_state(JobState.TRAINING)
    for number in range(1, 101):
        reporter.add_step(step(number, **({"validation/loss": 3.0} if number % 50 == 0 else {})))
    reporter.close()
    entries = tomllib.loads(folder.history.read_text())["entry"]
    steps = [n for e in entries for n in range(e["first"], e["totalIter"] + 1)]
    assert steps == list(range(1, 101))
    assert all(len({len(v) for v in e["metrics"].values()}) == 1 for e in entries)
    status = RunStatus.from_dict(read_json(folder.status))
    assert (status.step, status.epoch, status.state) == (100, 2, JobState.TRAINING)
    assert status.metrics["validation/loss"] == 3.0
    assert status.rank_step_ms == (5.0, 7.0)
    assert status.samples_per_second == pytest.approx(1600)


def test_the_samples_of_a_step_are_those_of_the_plan(tmp_path: Path) -> None:
    reporter = reporter_of(JobFolder(tmp_path))
    reporter.plan(step=0, epoch=1, total_steps=2, steps_per_epoch=1, step_samples=1000)
    reporter.add_step(step(1))
    reporter.add_step(step(2))
    reporter.close()
    status = RunStatus.from_dict(read_json(JobFolder(tmp_path).status))
    assert status.samples_per_second == pytest.approx(100_000)


def test_a_rank_that_keeps_the_others_waiting_is_in_the_status(tmp_path: Path) -> None:
    folder = JobFolder(tmp_path / "job")
    reporter = reporter_of(folder)
    for number in range(1, 102):
        reporter.add_step(replace(step(number), rank_step_ms=(50.0, 120.0)))
    reporter.close()
    status = RunStatus.from_dict(read_json(folder.status))
    assert (status.rank_step_ms, status.slow_ranks) == ((50.0, 120.0), (1,))


def test_the_heartbeat_advances_without_steps(tmp_path: Path) -> None:
    folder = JobFolder(tmp_path / "job")
    reporter = reporter_of(folder)
    reporter.wait_for(folder.status.exists)
    first = read_json(folder.status)["heartbeat"]
    reporter.wait_for(lambda: read_json(folder.status)["heartbeat"] >= first + 2)
    reporter.close()


def test_a_resumed_run_shows_the_earlier_progress_until_it_has_a_plan(tmp_path: Path) -> None:
    folder = JobFolder(tmp_path / "job")
    folder.path.mkdir()
    figures = {"run": 1, "step": 60, "total_steps": 100, "epoch": 2, "metrics": {"loss": 0.5}}
    earlier = {"earlier_s": 30.0, "earlier_gpu_s": 60.0, "earlier_energy_j": 900.0, "gpus": 2}
    previous_status = RunStatus(JobState.STARTING, **figures, **earlier, heartbeat=9)
    reporter = WatchedReporter(folder, previous_status)
    reporter.set_stopping()
    reporter.wait_for(folder.status.exists)
    status = RunStatus.from_dict(read_json(folder.status))
    assert {name: getattr(status, name) for name in figures} == figures
    assert {name: getattr(status, name) for name in earlier} == earlier
    assert status.heartbeat > 9
    assert not run_files.has_begun(status), "it obeys no stop request yet"
    reporter.plan(step=50, epoch=2, total_steps=100, steps_per_epoch=50)
    reporter.close()
    status = RunStatus.from_dict(read_json(folder.status))
    assert (status.step, run_files.has_begun(status)) == (50, True)


def test_after_a_stop_request_no_other_state_is_shown(tmp_path: Path) -> None:
    folder = JobFolder(tmp_path / "job")
    reporter = reporter_of(folder)
    reporter.set_stopping()
    reporter.set_state(JobState.SAVING)
    reporter.close()
    assert read_json(folder.status)["state"] == "STOPPING"


@pytest.mark.parametrize("is_flush", [False, True], ids=["at a write", "only when flushed"])
def test_f27_a_disk_that_says_it_is_full_under_the_history_loses_no_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_flush: bool
) -> None:
    folder = JobFolder(tmp_path / "job")
    reporter = reporter_of(folder)
    reporter.add_step(step(1))
    reporter.wait_for(folder.history.exists)
    history = reporter._history
    reporter.wait_for(lambda: bool(folder.history.stat().st_size) and history.is_flushed)
    history_content = folder.history.read_bytes()
    flush, is_full = os.fsync, True
    real_file: Any = history._file

    class Disk:
        """Takes half of a block and then no more, as a disk does that fills up."""

        def write(self, content: bytes) -> int:
            if not is_full:
                return int(real_file.write(content))
            real_file.write(content[:20])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        def __getattr__(self, name: str) -> Any:
            return getattr(real_file, name)

    def flush_to_server(file: int) -> None:
        if is_full and os.path.samestat(os.fstat(file), folder.history.stat()):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        flush(file)

    if is_flush:
        monkeypatch.setattr(os, "fsync", flush_to_server)
    else:
        monkeypatch.setattr(history, "_file", Disk())
    reporter.add_step(step(2))
    # The next try may be under way, with half of a block.
    reporter.wait_for(
        lambda: (
            "No space left" in read_json(folder.status)["message"]
            and folder.history.read_bytes() == history_content
        )
    )
    is_full = False
    reporter.close()
    entries = tomllib.loads(folder.history.read_text())["entry"]
    assert [e["first"] for e in entries] == [1, 2]


def test_tensorboard_shows_metrics_under_their_own_names(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    names = ("IoU (0.5)", "IoU [0.5]", "mAP@0.5, 日本", "/x", "huge")
    file = EventFile(tmp_path)
    file.write([(1, dict(zip(names, (1.0, 10.0, 100.0, 1000.0, 1e39), strict=True)))])
    file.close()
    events = EventAccumulator(str(tmp_path)).Reload()
    assert set(events.Tags()["scalars"]) == set(names)
    assert [events.Scalars(name)[0].value for name in names] == [1, 10, 100, 1000, math.inf]


def test_tensorboard_reads_the_written_events(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    training = new_training(tmp_path, processes=1, strategy={"name": "alone"})
    training.train_well()
    events = EventAccumulator(str(training.folder.tensorboard)).Reload()
    validation = events.Scalars("validation/loss")
    assert {e.step: pytest.approx(e.value) for e in validation} == training.curve("validation/loss")
    assert events.Scalars("loss")[-1].step == 36


def test_a_run_that_was_replaced_writes_no_more(tmp_path: Path) -> None:
    folder = JobFolder(tmp_path)
    reporter = reporter_of(folder)
    reporter.wait_for(lambda: folder.status.exists())
    folder.attempt(2).path.mkdir(parents=True)
    reporter._thread.join(LIMIT_S)
    of_run_2 = folder.status.read_bytes()
    reporter.add_step(Step(1, 1, 1, {"loss": 1.0}, 0.1, (1.0, 1.0)))
    reporter.close()
    assert folder.status.read_bytes() == of_run_2
    assert not folder.history.exists() or folder.history.stat().st_size == 0
