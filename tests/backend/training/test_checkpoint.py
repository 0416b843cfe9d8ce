"""Checkpoints are proved before they count, and refused when they changed."""

from __future__ import annotations

import errno
import os
import pickle
import stat
from pathlib import Path
from typing import Any

import pytest
import torch

from backend.base.errors import BackendError
from backend.records.base.atomic_files import read_json, replace_json
from backend.records.base.content import hash_file
from backend.records.base.layout import JobFolder
from backend.records.jobs.checkpoint import Checkpoint, read_checkpoints
from backend.records.jobs.config import CheckpointPolicy
from backend.training import checkpoint
from backend.training.checkpoint import (
    FORMAT,
    Checkpointer,
    load_checkpoint,
    retired_checkpoints,
    sidecar_of,
)
from tests.fakes.disk import Disk


def save(folder: JobFolder, *steps: int, **policy: Any) -> Checkpointer:
    writer = Checkpointer(folder, 1, CheckpointPolicy(**policy), "hash")
    for step in steps:
        writer.save(
            {"format": FORMAT, "model": {"w": torch.full((50, 50), float(step))}},
            epoch=step,
            step=step,
            epoch_step=0,
            metrics={"validation/loss": 1 / step},
            reason="policy",
        )
    writer.wait()
    return writer


@pytest.fixture
def folder(tmp_path: Path) -> JobFolder:
    return JobFolder(tmp_path / "job")


def path_of(folder: JobFolder, step: int) -> Path:
    return folder.checkpoints / f"epoch-{step:04d}-step-{step:06d}.pt"


def test_latest_names_a_checkpoint_that_loads_and_others_may_read(
    folder: JobFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(monkeypatch)
    folder.path.parent.chmod(0o755)
    save(folder, 1, 2)
    record = Checkpoint.from_dict(read_json(folder.latest))
    assert record.name == "epoch-0002-step-000002"
    path = path_of(folder, 2)
    assert load_checkpoint(path)["model"]["w"][0, 0] == 2
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert record.bytes == path.stat().st_size
    assert disk.has_synced(path)
    assert disk.has_synced(sidecar_of(path))
    assert disk.has_synced(folder.latest)


def test_the_checkpoint_that_a_run_continues_from_is_the_newest_from_then_on(
    folder: JobFolder,
) -> None:
    save(folder, 1, 2)
    assert read_json(folder.latest)["step"] == 2
    second_writer = Checkpointer(folder, 2, CheckpointPolicy(), "hash")
    second_writer.continue_from(path_of(folder, 1))
    assert read_json(folder.latest)["step"] == 1
    second_writer.continue_from(folder.checkpoints / "removed.pt")
    assert read_json(folder.latest)["step"] == 1


def truncate(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 100)


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


class Bomb:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (os.environ["BOMB"],)


def bomb(path: Path) -> None:
    path.write_bytes(pickle.dumps(Bomb()))


def bomb_with_record(path: Path) -> None:
    """Write a hostile file with a matching record, as an attacker who knows of the hash."""
    torch.save({"format": FORMAT, "model": Bomb()}, path)
    record = read_json(sidecar_of(path))
    record.update(bytes=path.stat().st_size, sha256=hash_file(path))
    replace_json(sidecar_of(path), record)


def no_record(path: Path) -> None:
    sidecar_of(path).unlink()


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        pytest.param(truncate, "bytes instead of", id="f29"),
        pytest.param(flip, "SHA-256 differs", id="f30"),
        pytest.param(bomb, "bytes instead of", id="f31"),
        pytest.param(bomb_with_record, "more than weights and numbers", id="f31-with-record"),
        pytest.param(no_record, "is missing", id="no-record"),
        pytest.param(Path.unlink, "is missing", id="gone"),
    ],
)
def test_f29_f30_f31_a_changed_checkpoint_is_refused_and_the_one_before_offered(
    folder: JobFolder, tmp_path: Path, damage: Any, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BOMB", str(tmp_path / "exploded"))
    save(folder, 1, 2, keep_latest=5)
    damage(path_of(folder, 2))
    with pytest.raises(BackendError) as caught:
        load_checkpoint(path_of(folder, 2))
    assert reason in caught.value.message
    assert "epoch-0001-step-000001" in caught.value.remedy
    assert not (tmp_path / "exploded").exists()
    flip(path_of(folder, 1))
    with pytest.raises(BackendError) as caught:
        load_checkpoint(path_of(folder, 2))
    assert "no undamaged checkpoint before" in caught.value.remedy


def test_f26_a_full_disk_is_said_and_the_last_good_checkpoint_stays(
    folder: JobFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = save(folder, 1)

    def raise_disk_full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", raise_disk_full)
        writer.save({"format": FORMAT}, epoch=2, step=2, epoch_step=0, metrics={}, reason="policy")
        writer.wait()
    assert "No space left on device" in writer.failure
    assert "epoch-0002-step-000002" in writer.failure
    assert read_json(folder.latest)["name"] == "epoch-0001-step-000001"
    assert {p.name for p in folder.checkpoints.iterdir()} == {
        "epoch-0001-step-000001.pt",
        "epoch-0001-step-000001.json",
        "latest.json",
    }
    writer.save({"format": FORMAT}, epoch=3, step=3, epoch_step=0, metrics={}, reason="policy")
    writer.wait()
    assert writer.failure == ""
    assert read_json(folder.latest)["name"] == "epoch-0003-step-000003"


def test_a_bug_in_the_writing_thread_is_raised_by_the_next_call(folder: JobFolder) -> None:
    writer = save(folder, 1)
    writer.save(
        {"format": FORMAT, "odd": lambda: 1},
        epoch=2,
        step=2,
        epoch_step=0,
        metrics={},
        reason="policy",
    )
    with pytest.raises((AttributeError, pickle.PicklingError)):
        writer.wait()


def test_a_checkpoint_has_the_weights_of_the_moment_of_its_save(folder: JobFolder) -> None:
    weights = torch.zeros(1000, 1000)
    writer = Checkpointer(folder, 1, CheckpointPolicy(), "hash")
    shared = {"a": weights, "b": weights}
    writer.save(
        {"format": FORMAT, "model": shared},
        epoch=1,
        step=1,
        epoch_step=0,
        metrics={},
        reason="policy",
    )
    weights.add_(1)
    writer.wait()
    loaded = load_checkpoint(path_of(folder, 1))["model"]
    assert loaded["a"].sum() == 0
    assert loaded["a"].data_ptr() == loaded["b"].data_ptr()
    assert path_of(folder, 1).stat().st_size < 1.5 * weights.nbytes


def test_a_half_file_of_a_killed_run_is_swept(folder: JobFolder) -> None:
    folder.checkpoints.mkdir(parents=True)
    (folder.checkpoints / ".epoch-0001-step-000001.pt.123.tmp").write_text("half")
    user_file = folder.checkpoints / "my notes.txt"
    user_file.write_text("keep")
    save(folder, 1)
    assert not list(folder.checkpoints.glob(".*"))
    assert user_file.exists()


def test_two_proved_checkpoints_always_stay() -> None:
    checkpoints = [
        Checkpoint(f"c{n}", 1, n, n, 0, 1, "", "", "", {"validation/loss": loss})
        for n, loss in enumerate((0.5, float("nan"), 0.1, 0.9))
    ]
    retired_records = retired_checkpoints(checkpoints, CheckpointPolicy(keep_latest=1, keep_best=0))
    assert [c.name for c in retired_records] == ["c0", "c1"]
    retired_records = retired_checkpoints(checkpoints, CheckpointPolicy(keep_latest=1, keep_best=2))
    assert [c.name for c in retired_records] == ["c1"]
    retired_records = retired_checkpoints(
        checkpoints, CheckpointPolicy(keep_latest=1, keep_best=1, best_mode="max")
    )
    assert [c.name for c in retired_records] == ["c0", "c1"]


@pytest.mark.parametrize(
    ("runs", "keep_latest", "sound_step", "kept_steps"),
    [
        ([(1, 10), (1, 20), (1, 30)], 2, None, [20, 30]),
        ([(1, 10), (2, 15), (1, 20), (1, 30)], 1, 0, [10, 15]),
        ([(1, 10), (2, 15), (1, 20), (1, 30)], 1, 12, [10, 15]),
        ([(1, 10), (2, 15), (2, 18), (1, 20), (1, 30)], 2, 17, [15, 18]),
        ([(1, 10), (2, 15), (2, 18), (1, 20), (1, 30)], 1, 15, [15, 18]),
        ([(1, 10), (3, 12), (2, 18), (1, 20), (1, 30)], 2, None, [12, 18]),
    ],
)
def test_the_newest_are_those_of_the_newest_run(
    runs: list[tuple[int, int]], keep_latest: int, sound_step: int | None, kept_steps: list[int]
) -> None:
    checkpoints = [Checkpoint(f"c{step}", run, 1, step, 0, 1, "", "", "") for run, step in runs]
    policy = CheckpointPolicy(keep_latest=keep_latest, keep_best=0)
    retired_names = {c.name for c in retired_checkpoints(checkpoints, policy, sound_step)}
    assert [c.step for c in checkpoints if c.name not in retired_names] == kept_steps


def keep_for_ever(folder: JobFolder, step: int) -> None:
    path_of(folder, step).with_suffix(".keep").write_text("{}\n")


def test_a_checkpoint_with_a_keep_mark_is_never_pruned(folder: JobFolder) -> None:
    writer = save(folder, 1, 2, keep_latest=1, keep_best=0)
    keep_for_ever(folder, 1)
    save_steps(writer, 3, 4, 5)
    assert saved_steps(folder) == [1, 4, 5]
    assert load_checkpoint(path_of(folder, 1))["model"]["w"][0, 0] == 1
    path_of(folder, 1).with_suffix(".keep").unlink()
    save_steps(writer, 6)
    assert saved_steps(folder) == [5, 6]


def test_a_checkpoint_marked_during_pruning_stays(
    folder: JobFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = save(folder, 1, 2, keep_latest=1, keep_best=0)

    def retire_and_mark(checkpoints: list[Checkpoint], *_: Any) -> list[Checkpoint]:
        keep_for_ever(folder, 1)
        return [checkpoint for checkpoint in checkpoints if checkpoint.step == 1]

    monkeypatch.setattr(checkpoint, "retired_checkpoints", retire_and_mark)
    save_steps(writer, 3)
    assert saved_steps(folder) == [1, 2, 3]
    assert load_checkpoint(path_of(folder, 1))["model"]["w"][0, 0] == 1


def test_a_run_that_repeats_steps_replaces_no_kept_checkpoint(folder: JobFolder) -> None:
    save(folder, 1, 2, 3)
    keep_for_ever(folder, 2)
    second_writer = Checkpointer(folder, 2, CheckpointPolicy(), "hash")
    save_steps(second_writer, 2, weight=20.0)
    assert load_checkpoint(path_of(folder, 2))["model"]["w"][0, 0] == 2
    assert second_writer.last_checkpoint is not None
    assert second_writer.last_checkpoint.name == "epoch-0002-step-000002-run2"
    assert load_checkpoint(Path(second_writer.last_checkpoint.path))["model"]["w"][0, 0] == 20


def save_steps(writer: Checkpointer, *steps: int, weight: float | None = None) -> None:
    for step in steps:
        value = float(step) if weight is None else weight
        writer.save(
            {"format": FORMAT, "model": {"w": torch.full((50, 50), value)}},
            epoch=step,
            step=step,
            epoch_step=0,
            metrics={"validation/loss": 1 / step},
            reason="policy",
        )
    writer.wait()


def saved_steps(folder: JobFolder) -> list[int]:
    """Return the steps of the checkpoints with both file and record."""
    return [checkpoint.step for checkpoint in read_checkpoints(folder.checkpoints)]
