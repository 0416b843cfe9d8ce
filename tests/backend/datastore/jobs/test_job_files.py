"""A job's folder: made whole, claimed once, moved and never deleted; a request is for one run."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from backend.base.errors import BackendError
from backend.datastore.access.root_access import OpenJob
from backend.datastore.jobs import files as job_files
from backend.datastore.jobs.checkpoint_files import list_checkpoints
from backend.datastore.jobs.files import JobFile
from backend.node.run import run_start
from backend.records.base.atomic_files import replace_bytes, replace_json
from backend.records.base.schema import json_value
from backend.records.jobs.checkpoint import Checkpoint
from backend.records.jobs.comparison import rated_metrics
from backend.records.jobs.config import JobConfig
from backend.records.jobs.job_file import parse_job, with_changes
from backend.records.jobs.state import JobState
from backend.records.jobs.status import RunStatus
from backend.records.jobs.stop_request import StopRequest, pause_requested, stop_requested
from backend.records.jobs.summary import summary_of
from backend.records.library.item import Pin
from tests.fakes.mounted_root import MOUNTED, mounted

HARD_NAMES = (
    "a b 'c' \"d\"",
    "$(touch oops); `id` && x",
    "😀 日本語 Ω",
    "../../etc",
    "-rf --json",
    "CON",
    "ü" * 127,
    "[[entry]] = \\n \\u0000",
)


def config(**changes: Any) -> JobConfig:
    raw = {
        "name": "a job",
        "model": "m",
        "dataset": "d",
        "loader": "l",
        "epochs": 2,
        "batch_size": 4,
        "optimizer": {"name": "adam", "lr": 0.1, "betas": [0.5, 0.75]},
        "placement": [{"node": "this-computer", "processes": 2}],
        **changes,
    }
    parsed = parse_job(raw)
    assert parsed.config is not None, parsed.errors
    return parsed.config


def make(root: Path, **changes: Any) -> tuple[JobFile, OpenJob]:
    pins = {"model": Pin("m", 1, "a" * 64)}
    file = job_files.create_job(mounted(root), config(**changes), pins)
    return file, mounted(root).job(file.id)


def test_a_new_job_reads_back_unchanged(tmp_path: Path) -> None:
    file, folder = make(tmp_path, tags=["x"], notes="n", environment={"A": "b c"})
    assert job_files.read_job(folder) == file
    assert [entry.name for entry in (tmp_path / "jobs").iterdir()] == [file.id]


def test_a_replaced_job_file_is_read_again(tmp_path: Path) -> None:
    _, folder = make(tmp_path)
    assert job_files.read_job(folder).config.epochs == 2
    text = folder.config.read_bytes()
    replace_bytes(folder.config, text.replace(b"epochs = 2", b"epochs = 7"))
    assert job_files.read_job(folder).config.epochs == 7


def test_a_checkpoint_with_a_replaced_record_is_read_again(tmp_path: Path) -> None:
    file, folder = make(tmp_path)
    record = Checkpoint("one", 1, 1, 5, 0, 3, "a" * 64, "b" * 64, "2026-11-22T07:00:00Z")
    path = folder.checkpoints / "one.pt"
    path.write_bytes(b"abc")
    for loss in (0.5, 0.25):
        replace_json(path.with_suffix(".json"), replace(record, metrics={"loss": loss}).to_dict())
        (checkpoint,) = list_checkpoints(folder, file.config.checkpoint)
        assert checkpoint.metrics == {"loss": loss}


@pytest.mark.parametrize("name", HARD_NAMES)
def test_f54_any_name_of_a_job_comes_back_as_it_was(tmp_path: Path, name: str) -> None:
    file, folder = make(tmp_path, name=name, environment={"X": name})
    read = job_files.read_job(folder)
    assert (read.name, read.config.environment) == (name, {"X": name})
    job_files.write_notes(folder, name[::-1], "", (name,))
    assert job_files.read_job(folder).name == name[::-1]
    assert read.id == file.id


def test_a_stop_request_is_for_one_run(tmp_path: Path) -> None:
    _, folder = make(tmp_path)
    job_files.request_stop(folder, 1)
    assert not stop_requested(folder.stop_request, 2)
    run_start.clear_old_stop_request(folder, 2, MOUNTED)
    assert not folder.stop_request.exists()
    job_files.request_stop(folder, 2)
    run_start.clear_old_stop_request(folder, 2, MOUNTED)
    assert stop_requested(folder.stop_request, 2)
    folder.stop_request.unlink()
    job_files.request_stop(folder, 1)
    assert job_files.request_stop(folder, 2)
    assert stop_requested(folder.stop_request, 2)


def test_a_user_who_stops_a_job_that_gives_way_stops_it(tmp_path: Path) -> None:
    _, folder = make(tmp_path)
    pause = "Paused: alice uses GPU 2 on gpu03."
    replace_json(folder.stop_request, json_value(StopRequest(1, pause=pause)))
    assert (pause_requested(folder.stop_request, 1), pause_requested(folder.stop_request, 2)) == (
        pause,
        "",
    )
    assert job_files.request_stop(folder, 1)
    assert stop_requested(folder.stop_request, 1)
    assert pause_requested(folder.stop_request, 1) == ""
    assert not job_files.request_stop(folder, 1)


ON_GPUS = [{"node": "gpu03", "gpus": ["GPU-1"]}]
ON_CPUS = [{"node": "gpu03", "processes": 1}]


@pytest.mark.parametrize(
    ("created_changes", "later"),
    [
        ({"gives_way": True, "placement": ON_GPUS}, {"gives_way": False}),
        ({"gives_way": True, "placement": ON_GPUS}, {"gives_way": False, "placement": ON_CPUS}),
        ({"placement": ON_CPUS}, {"gives_way": True, "placement": ON_GPUS}),
        ({"placement": ON_GPUS}, {"gives_way": True, "quiet_minutes": 0.5}),
        ({"quiet_minutes": 0.5}, {"quiet_minutes": 5.0}),
        ({}, {"batch_size": 7, "optimizer.lr": 0.25}),
    ],
)
def test_a_desktop_reads_the_changes_of_another_desktop(
    tmp_path: Path, created_changes: dict[str, Any], later: dict[str, Any]
) -> None:
    file, folder = make(tmp_path, **created_changes)
    changed = with_changes(file.config, later).config
    assert changed is not None
    job_files.write_placement(folder, changed)
    assert job_files.read_job(folder).config == changed
    # The last one who changes it decides.
    job_files.write_placement(folder, file.config)
    assert job_files.read_job(folder).config == file.config


def test_one_damaged_value_of_a_change_does_not_spoil_the_others(tmp_path: Path) -> None:
    _, folder = make(tmp_path)
    replace_json(folder.placement, {"batch_size": 7, "gives_way": "maybe", "quiet_minutes": -1})
    config = job_files.read_job(folder).config
    assert (config.batch_size, config.gives_way, config.quiet_minutes) == (7, False, 5.0)


def test_a_lock_file_made_by_hand_requests_a_stop(tmp_path: Path) -> None:
    _, folder = make(tmp_path)
    folder.stop_request.touch()
    assert stop_requested(folder.stop_request, 1)


def test_m10_starting_over_moves_every_byte_and_deletes_none(tmp_path: Path) -> None:
    _, folder = make(tmp_path)
    run_start.claim(folder, 1, MOUNTED)
    files = {
        "output/history.toml": b"history",
        "checkpoints/epoch-0001-step-000010.pt": b"weights",
        "logs/rank-0.log": b"log",
        "status.json": b"{}",
        "launch.json": b"{}",
        "attempts/1/exit.json": b"{}",
    }
    for name, content in files.items():
        (folder.path / name).parent.mkdir(parents=True, exist_ok=True)
        (folder.path / name).write_bytes(content)
    run_start.claim(folder, 2, MOUNTED)
    run_start.move_earlier_runs(folder, 2, MOUNTED)
    moved_folder = folder.started_over_runs / "1"
    assert {n: (moved_folder / n).read_bytes() for n in files} == files
    assert folder.newest_run() == 2
    assert list(folder.output.iterdir()) == []
    assert list(folder.checkpoints.iterdir()) == []


def test_removing_a_job_moves_it_to_the_trash(tmp_path: Path) -> None:
    _, folder = make(tmp_path)
    config_file = folder.config.read_bytes()
    target = job_files.move_to_trash(mounted(tmp_path), folder)
    assert (target / "config.toml").read_bytes() == config_file
    assert not folder.path.exists()


@pytest.mark.parametrize(
    ("spoil", "word"),
    [
        (lambda f: f.meta.write_text("{"), r"^meta.json of the job \S+ is damaged\.$"),
        (lambda f: f.meta.write_text('{"schema": 99}'), "newer"),
        (lambda f: f.config.write_text("x ="), r"^config.toml of the job \S+ is damaged\.$"),
        (lambda f: f.config.write_bytes(b"\xff"), r"^config.toml of the job \S+ is damaged\.$"),
        (lambda f: f.config.unlink(), r"^config.toml of the job \S+ is missing\.$"),
        (lambda f: f.meta.unlink(), r"^meta.json of the job \S+ is missing\.$"),
        (lambda f: f.config.write_text("epochs = 0"), "changed"),
        (lambda f: shutil.rmtree(f.path), "There is no job"),
    ],
)
def test_a_damaged_folder_is_reported_in_a_sentence(tmp_path: Path, spoil: Any, word: str) -> None:
    _, folder = make(tmp_path)
    spoil(folder)
    with pytest.raises(BackendError, match=word):
        job_files.read_job(folder)


def _bytes_of(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def test_a_job_is_restored_from_the_trash_byte_for_byte(tmp_path: Path) -> None:
    file, folder = make(tmp_path)
    (folder.checkpoints / "epoch-0001.pt").write_bytes(b"weights")
    previous_bytes = _bytes_of(folder.path)
    job_files.move_to_trash(mounted(tmp_path), folder)
    assert not folder.path.exists()
    assert job_files.take_from_trash(mounted(tmp_path), file.id)
    assert _bytes_of(folder.path) == previous_bytes
    assert not job_files.take_from_trash(mounted(tmp_path), file.id), "there is no other one"


def test_the_last_trashed_copy_is_restored(tmp_path: Path) -> None:
    root = mounted(tmp_path)
    file, folder = make(tmp_path)
    for number in range(11):
        folder.path.mkdir(exist_ok=True)
        (folder.path / "number").write_text(str(number))
        job_files.move_to_trash(root, folder)
    # A name of another job that begins alike is none of them.
    (root.trash / "jobs" / f"{file.id}x.99").mkdir()
    for number in reversed(range(11)):
        assert job_files.take_from_trash(root, file.id)
        assert (folder.path / "number").read_text() == str(number)
        folder.path.rename(tmp_path / f"seen-{number}")


def test_an_existing_job_is_not_replaced_from_the_trash(tmp_path: Path) -> None:
    root = mounted(tmp_path)
    file, folder = make(tmp_path)
    job_files.move_to_trash(root, folder)
    folder.path.mkdir()
    with pytest.raises(FileExistsError):
        job_files.take_from_trash(root, file.id)
    assert list(folder.path.iterdir()) == []
    assert (root.trash / "jobs" / file.id / "config.toml").exists()


@pytest.mark.parametrize(
    ("metrics", "best_metric", "best_mode"),
    [
        ({"loss": 2.0, "val_acc": 0.5}, ("val_acc", 0.5), "max"),
        ({"train/loss": 2.0, "val/loss": 3.0}, ("val/loss", 3.0), "min"),
        ({"validation/loss": 1.0, "test_acc": 0.5}, ("validation/loss", 1.0), "min"),
        ({"lr": 0.1, "Loss": 2.0}, ("Loss", 2.0), "min"),
        ({"lr": 0.1, "epoch": 3.0, "score": 2.0}, ("score", 2.0), ""),
        ({"grad_norm": 1.0, "Güte": 2.0, "eval/Güte": 3.0}, ("eval/Güte", 3.0), ""),
        ({"objective": 2.0, "test_acc": 0.5}, ("test_acc", 0.5), "max"),
        ({"step_time": 0.1, "tokens/s": 9.0, "gpu_mem": 3.0, "ll": -1.0}, ("ll", -1.0), ""),
        ({"train/lr": 0.1, "loss": None}, None, None),
        ({}, None, None),
    ],
)
def test_a_script_is_judged_by_a_number_that_it_writes(
    tmp_path: Path, metrics: Any, best_metric: Any, best_mode: str | None
) -> None:
    raw = {"name": "mine", "script": "s", "placement": [{"node": "a", "processes": 1}]}
    parsed = parse_job(raw).config
    assert parsed is not None
    file = job_files.create_job(mounted(tmp_path), parsed, {})
    view = job_files.view_of(file, RunStatus(JobState.FINISHED, metrics=metrics))
    assert view.best_metric == best_metric
    assert best_mode is None or rated_metrics([view]) == (best_metric[0],)
    assert best_mode is None or summary_of(view).best_mode == best_mode
