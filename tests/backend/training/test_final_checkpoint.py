"""The last checkpoint of a run, on a disk that refuses it for a while, or for good."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from backend.records.base.layout import JobFolder
from backend.records.jobs.config import CheckpointPolicy
from backend.records.jobs.heartbeat import LAST_WORDS_VARIABLE, Phase, RankHeartbeat
from backend.training import checkpoint
from backend.training.checkpoint import (
    FORMAT,
    Checkpointer,
    NotSaved,
    finish_writing,
    load_checkpoint,
)
from backend.training.error_report import make_record
from backend.training.rank import Rank
from tests.backend.training.training_rig import MODEL, new_training

Refuse = Callable[[int, int], None]


@pytest.fixture
def refuse(monkeypatch: pytest.MonkeyPatch) -> Refuse:
    """From now on the disk refuses so many writings, for that reason."""
    real_fsync = os.fsync
    remaining_count = 0
    reason = 0

    def start_refusing(times: int, errno_code: int) -> None:
        nonlocal remaining_count, reason
        remaining_count, reason = times, errno_code

    def fsync(file: int) -> None:
        nonlocal remaining_count
        remaining_count -= 1
        if remaining_count >= 0:
            raise OSError(reason, os.strerror(reason))
        real_fsync(file)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(checkpoint, "_PAUSE_S", 0.001)
    return start_refusing


@pytest.fixture
def checkpointer(tmp_path: Path) -> Checkpointer:
    return Checkpointer(JobFolder(tmp_path / "job"), 1, CheckpointPolicy(), "hash")


def save(checkpointer: Checkpointer) -> None:
    checkpointer.save(
        {"format": FORMAT, "step": 7}, epoch=1, step=7, epoch_step=7, metrics={}, reason="stop"
    )


def test_f34_the_last_checkpoint_waits_for_a_missing_disk(
    checkpointer: Checkpointer, refuse: Refuse
) -> None:
    refuse(3, errno.EROFS)
    save(checkpointer)
    beat = RankHeartbeat.inherited()
    assert finish_writing(checkpointer, beat, 600.0) == ""
    # Its guard sees that it has not gone to sleep.
    assert beat.read() == (3, Phase.SAVING)
    assert checkpointer.last_checkpoint is not None
    assert load_checkpoint(Path(checkpointer.last_checkpoint.path))["step"] == 7


@pytest.mark.parametrize(
    ("errno_code", "files_free", "bytes_free", "text"),
    [
        (
            errno.ENOSPC,
            0,
            900 * 2**20,
            "it takes no more files (no free inodes), with 944 MB free",
        ),
        (errno.ENOSPC, 10, 0, "No space left on device (/"),
        (errno.ENOSPC, 10, 5 * 2**30, "a quota or a limit of the file system is reached"),
        (errno.EDQUOT, 10, 5 * 2**30, "the user's quota is used up"),
        (errno.EROFS, 10, 5 * 2**30, "mounted again for reading only"),
        (errno.EIO, 10, 5 * 2**30, "the storage did not keep what was written"),
        (errno.ESTALE, 10, 5 * 2**30, "Stale file handle (/"),
    ],
)
@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_the_first_failure_says_why_a_checkpoint_is_not_saved(
    checkpointer: Checkpointer,
    monkeypatch: pytest.MonkeyPatch,
    call: str,
    errno_code: int,
    files_free: int,
    bytes_free: int,
    text: str,
) -> None:
    def refuse_write(*_: object) -> None:
        raise OSError(errno_code, os.strerror(errno_code))

    space = SimpleNamespace(
        f_bavail=bytes_free // 4096, f_frsize=4096, f_files=100, f_favail=files_free
    )
    failures: list[tuple[int, str]] = []
    checkpointer.on_failure = lambda step, message: failures.append((step, message))
    with monkeypatch.context() as patch:
        patch.setattr(os, call, refuse_write)
        patch.setattr(os, "statvfs", lambda _: space)
        for _ in range(2):
            save(checkpointer)
            checkpointer.wait()
    assert text in checkpointer.failure
    ((step, message),) = failures
    assert step == 7
    assert message == f"{checkpointer.failure} There is no other one yet."
    assert "start the job over: it has no checkpoint" in NotSaved(checkpointer.failure).remedy
    save(checkpointer)
    checkpointer.wait()
    assert checkpointer.failure == ""
    assert "resume from epoch-0001" in NotSaved("full", checkpointer.newest_name()).remedy


FULL = """
import os
real = os.fsync
def fsync(file):
    if "/.epoch-" in os.readlink(f"/proc/self/fd/{file}"):
        raise OSError(28, "No space left on device")
    real(file)
os.fsync = fsync
"""


@pytest.mark.parametrize(
    "settings",
    [{}, {"strategy": {"name": "downpour"}, "optimizer": {"name": "adagrad", "lr": 0.05}}],
    ids=["allreduce", "downpour"],
)
def test_a_job_ends_with_the_second_checkpoint_in_a_row_that_fails(
    tmp_path: Path, settings: dict[str, Any]
) -> None:
    training = new_training(tmp_path, model=FULL + MODEL, epochs=9, **settings)
    assert training.train() != 0
    message = training.first_error()["sentence"]
    assert "epoch-0002-step-" in message
    assert message.endswith("start the job over: it has no checkpoint.")
    (alarm,) = training.status()["alarms"]
    assert alarm["kind"] == "not-saved"
    assert "epoch-0001-step-" in alarm["sentence"]


def test_f26_the_final_write_has_a_time_limit(checkpointer: Checkpointer, refuse: Refuse) -> None:
    refuse(10**6, errno.ENOSPC)
    save(checkpointer)
    failure = finish_writing(checkpointer, RankHeartbeat.inherited(), 0.2)
    assert failure.startswith(
        "The checkpoint epoch-0001-step-000007 could not be written: No space"
    )
    assert NotSaved(failure).remedy == "Free space, then start the job over: it has no checkpoint."
    assert (
        "can write to the data root"
        in NotSaved("… could not be written: Read-only file system").remedy
    )


def test_f26_only_the_rank_that_writes_is_named_as_the_cause() -> None:
    records = [
        make_record(NotSaved("full"), rank=rank, node="gpu1", batch=None, batch_size=8)
        for rank in (0, 1)
    ]
    assert [(record["rank"], record["secondary"]) for record in records] == [(0, False), (0, True)]


def test_f26_the_error_of_a_rank_reaches_its_guard_without_a_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = os.memfd_create("last words")
    monkeypatch.setenv(LAST_WORDS_VARIABLE, str(memory))
    (tmp_path / "job").write_text("no folder\n")
    Rank(JobFolder(tmp_path / "job"), 1, RankHeartbeat.inherited()).record_error(NotSaved("full"))
    record = json.loads(os.pread(memory, 100_000, 0))
    os.close(memory)
    assert record["sentence"].startswith("full")
