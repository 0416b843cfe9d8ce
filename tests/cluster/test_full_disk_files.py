"""Files on a full disk: some are written, and the others raise an error."""

from __future__ import annotations

import errno
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from backend.datastore.access.root_access import OpenJob
from backend.datastore.jobs import files as job_files
from backend.node.run import run_start
from backend.records.base.atomic_files import PreallocatedFile, read_json
from backend.records.jobs.stop_request import stop_requested
from backend.training.curve_files import EventFile
from tests.cluster.disks import fill, small_disk
from tests.fakes.mounted_root import MOUNTED


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "disk") as disk:
        yield disk


def test_f26_a_preallocated_file_on_a_full_disk_is_replaced_repeatedly(
    disk: Path,
) -> None:
    status_file = PreallocatedFile(disk / "status.json")
    status_file.replace_json({"step": 0})
    status_file.reserve()
    fill(disk)
    with pytest.raises(OSError, match="No space left"):
        (disk / "other").write_bytes(b"x" * 5000)
    for step in range(1, 20):
        status_file.replace_json({"step": step, "text": "x" * (step * 10)})
        assert read_json(disk / "status.json")["step"] == step
    (disk / "full").unlink()
    status_file.replace_json({"step": 20})
    assert (disk / "status.json").stat().st_size < 100
    status_file.drop_reserve()
    assert {path.name for path in disk.iterdir()} == {"status.json", "other"}


def test_f26_a_file_that_was_never_there_comes_to_a_full_disk(disk: Path) -> None:
    path = disk / "exit.json"
    PreallocatedFile(path).reserve()
    fill(disk)
    PreallocatedFile(path).replace_json({"state": "ERROR"})
    assert read_json(path) == {"state": "ERROR"}


def test_f26_without_room_of_its_own_the_old_file_stays_whole(disk: Path) -> None:
    status_file = PreallocatedFile(disk / "status.json")
    status_file.replace_json({"step": 1})
    fill(disk)
    status_file.reserve()
    with pytest.raises(OSError, match="No space left") as error_info:
        status_file.replace_json({"step": 2})
    assert error_info.value.errno == errno.ENOSPC
    assert read_json(disk / "status.json") == {"step": 1}
    (disk / "full").unlink()
    status_file.reserve()
    fill(disk)
    status_file.replace_json({"step": 3})
    assert read_json(disk / "status.json") == {"step": 3}


def test_f26_no_reader_sees_half_a_file(disk: Path) -> None:
    status_file = PreallocatedFile(disk / "status.json")
    status_file.replace_json({"step": 0})
    status_file.reserve()
    fill(disk)
    for step in range(1, 5):
        with (disk / "status.json").open("rb", buffering=0) as reader:
            first_bytes = reader.read(5)
            status_file.replace_json({"step": step, "text": "x" * 1000})
            assert json.loads(first_bytes + reader.read())["step"] == step - 1
        assert read_json(disk / "status.json")["step"] == step


def test_f26_a_stop_request_needs_no_space_and_means_one_run(disk: Path) -> None:
    folder = OpenJob(disk / "job", MOUNTED)
    folder.path.mkdir()
    fill(disk)
    assert job_files.request_stop(folder, 1)
    assert stop_requested(folder.stop_request, 1)
    assert not job_files.request_stop(folder, 1)
    run_start.clear_old_stop_request(folder, 2, MOUNTED)
    assert not stop_requested(folder.stop_request, 2)
    with pytest.raises(OSError, match="No space left"):
        MOUNTED.create(disk / "claim", b"x")
    assert not (disk / "claim").exists()


def test_f27_points_for_tensorboard_that_found_no_room_come_when_there_is_some(disk: Path) -> None:
    file = EventFile(disk / "tensorboard")
    file.write([(1, {"loss": 0.5})])
    fill(disk)
    later_rows = [(step, {"loss": step / 10}) for step in range(2, 300)]
    for _ in range(2):
        with pytest.raises(OSError, match="No space left"):
            file.write(later_rows)
    (disk / "full").unlink()
    file.write(later_rows)
    file.close()
    events = EventAccumulator(str(disk / "tensorboard")).Reload()
    assert {event.step for event in events.Scalars("loss")} == set(range(1, 300))
