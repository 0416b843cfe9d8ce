"""The last checkpoint of a run, on a disk that refuses it for a while, or for good."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from backend.records.base.layout import JobFolder
from backend.records.jobs.config import CheckpointPolicy
from backend.records.jobs.heartbeat import LAST_WORDS_VARIABLE, Phase, RankHeartbeat
from backend.training import checkpoint
from backend.training.checkpoint import (
    FORMAT,
    Checkpointer,
    NotSaved,
    load_checkpoint,
    write_out,
)
from backend.training.error_report import record_of
from backend.training.rank import Rank

Refuse = Callable[[int, int], None]


@pytest.fixture
def refuse(monkeypatch: pytest.MonkeyPatch) -> Refuse:
    """From now on the disk refuses so many writings, for that reason."""
    real = os.fsync
    left = 0
    reason = 0

    def begin(times: int, why: int) -> None:
        nonlocal left, reason
        left, reason = times, why

    def fsync(file: int) -> None:
        nonlocal left
        left -= 1
        if left >= 0:
            raise OSError(reason, os.strerror(reason))
        real(file)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(checkpoint, "_PAUSE_S", 0.001)
    return begin


@pytest.fixture
def checkpointer(tmp_path: Path) -> Checkpointer:
    return Checkpointer(JobFolder(tmp_path / "job"), 1, CheckpointPolicy(), "hash")


def save(checkpointer: Checkpointer) -> None:
    checkpointer.save(
        {"format": FORMAT, "step": 7}, epoch=1, step=7, epoch_step=7, metrics={}, reason="stop"
    )


def test_f34_the_last_checkpoint_waits_for_a_disk_that_is_away(
    checkpointer: Checkpointer, refuse: Refuse
) -> None:
    refuse(3, errno.EROFS)
    save(checkpointer)
    beat = RankHeartbeat.inherited()
    assert write_out(checkpointer, beat, 600.0) == ""
    # Its guard sees that it has not gone to sleep.
    assert beat.read() == (3, Phase.SAVING)
    assert checkpointer.saved is not None
    assert load_checkpoint(Path(checkpointer.saved.path))["step"] == 7


def test_f26_it_does_not_wait_for_ever(checkpointer: Checkpointer, refuse: Refuse) -> None:
    refuse(10**6, errno.ENOSPC)
    save(checkpointer)
    trouble = write_out(checkpointer, RankHeartbeat.inherited(), 0.2)
    assert trouble.startswith(
        "The checkpoint epoch-0001-step-000007 could not be written: No space"
    )
    assert NotSaved(trouble).remedy == "Free space, then resume from the newest checkpoint."
    assert "can write there" in NotSaved("… could not be written: Read-only file system").remedy


def test_f26_of_all_ranks_that_leave_for_it_the_one_that_writes_is_told() -> None:
    records = [
        record_of(NotSaved("full"), rank=rank, node="gpu1", batch=None, batch_size=8)
        for rank in (0, 1)
    ]
    assert [(one["rank"], one["secondary"]) for one in records] == [(0, False), (0, True)]


def test_f26_what_ended_a_rank_reaches_its_guard_when_no_disk_takes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = os.memfd_create("last words")
    monkeypatch.setenv(LAST_WORDS_VARIABLE, str(memory))
    (tmp_path / "job").write_text("no folder\n")
    Rank(JobFolder(tmp_path / "job"), 1, RankHeartbeat.inherited()).record(NotSaved("full"))
    told = json.loads(os.pread(memory, 100_000, 0))
    os.close(memory)
    assert told["sentence"].startswith("full")
