"""Files of a script are checkpoints when they are complete, and stay the script's own."""

from __future__ import annotations

import json
import os
import shutil
import time
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from backend.node.run.run_files import record_checkpoints
from backend.records.base.atomic_files import read_json, replace_json
from backend.records.base.content import sha256_of, size_of
from backend.records.base.layout import JobFolder
from backend.records.jobs.checkpoint import Checkpoint, read_checkpoints
from backend.records.jobs.config import CheckpointPolicy
from backend.records.jobs.job_file import parse_job
from backend.records.jobs.launch import Launch, RankPlan
from backend.records.jobs.state import JobState
from backend.records.jobs.status import RunStatus
from backend.training.script_checkpoints import ScriptCheckpoints, ScriptPosition
from backend.training.script_rank import ScriptReports


class Rig:
    """Job folder with the recorder of rank 0."""

    def __init__(self, path: Path, **settings: object) -> None:
        self.folder = JobFolder(path / "job")
        self.output = self.folder.output
        self.work = self.folder.work(1, "a")
        for folder in (self.output, self.work):
            folder.mkdir(parents=True)
        placement = [{"node": "a", "processes": 1}]
        raw = {"name": "mine", "script": "mine", "placement": placement, **settings}
        self.launch = Launch("job", 1, parse_job(raw).draft, (), "", "", "")
        self.step = 0
        self.metrics: dict[str, float | None] = {}

    def begin_run(self) -> None:
        self.checkpoints = ScriptCheckpoints(self.folder, self.launch, self.work, lambda _: None)

    def poll(self, **options: bool) -> list[str]:
        """Return the files of the checkpoints after a poll, oldest first, all verified."""
        self.checkpoints.update(
            lambda _path, _ns: ScriptPosition(0, self.step, self.metrics), **options
        )
        checkpoints = read_checkpoints(self.folder.checkpoints, ".json")
        assert all(
            sha256_of(Path(checkpoint.path)) == checkpoint.sha256 for checkpoint in checkpoints
        )
        assert all(size_of(Path(checkpoint.path)) == checkpoint.bytes for checkpoint in checkpoints)
        return [Path(checkpoint.file).name for checkpoint in checkpoints]

    def latest(self) -> str:
        return Path(Checkpoint.from_dict(read_json(self.folder.latest)).file).name


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    rig = Rig(tmp_path)
    rig.begin_run()
    return rig


def file(folder: Path, name: str, text: str = "weights") -> None:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text)


@pytest.mark.parametrize(
    ("names", "expected_names"),
    [
        (["model.pt", "last.ckpt", "notes.txt"], ["last.ckpt", "model.pt"]),
        (["checkpoint-5/model.safetensors", "checkpoint-5/a/rng.pth"], ["checkpoint-5"]),
        (["run/weights/best.pt", "run/checkpoint-1/x"], ["best.pt", "checkpoint-1"]),
        (
            ["checkpoint.pth.tar", "model_best.pth.tar", "images.tar"],
            ["checkpoint.pth.tar", "model_best.pth.tar"],
        ),
        (["checkpoint-9"], []),
        ([".model.pt", "tmp-checkpoint-5/model.bin", ".a/model.pt"], []),
        (["tmp-checkpoint-5/rng.pth"], []),
    ],
)
def test_files_and_folders_that_match_are_found_once(
    rig: Rig, names: list[str], expected_names: list[str]
) -> None:
    for name in names:
        file(rig.output, name)
    assert rig.poll() == []
    assert sorted(rig.poll()) == expected_names
    assert sorted(rig.poll()) == expected_names


def test_a_checkpoint_counts_when_it_no_longer_grows(rig: Rig) -> None:
    file(rig.output, "checkpoint-1/a.bin")
    assert rig.poll() == []
    file(rig.output, "checkpoint-1/b.bin")
    assert rig.poll() == []
    assert rig.poll() == ["checkpoint-1"]
    file(rig.output, "checkpoint-1/trainer_state.json", "{}")
    assert rig.poll() == []
    assert rig.poll() == ["checkpoint-1"]


def test_a_whole_zip_counts_at_once(rig: Rig) -> None:
    # Lightning keeps one file of each epoch: it may be gone before the next poll.
    write_zip(rig.output / "cut.ckpt", cut=30)
    write_zip(rig.output / "epoch=1.ckpt")
    assert rig.poll() == ["epoch=1.ckpt"]


def test_a_rewritten_file_is_a_new_checkpoint_in_its_place(rig: Rig) -> None:
    for step in (1, 2, 3):
        rig.step = step
        file(rig.output, "last.pt", "weights" * step)
        rig.poll()
        assert rig.poll() == ["last.pt"]
        (record,) = read_checkpoints(rig.folder.checkpoints, ".json")
        assert (record.step, record.name) == (step, f"step-{step:06d}")
    assert rig.latest() == "last.pt"


def _states() -> dict[str, object]:
    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2)
    weights, of_optimizer = model.state_dict(), optimizer.state_dict()
    return {
        "weights": weights,
        "model object": model,
        "wrapped weights": {"model": weights, "epoch": 7},
        "stripped": {"model": model, "optimizer": None, "epoch": -1},
        "optimizer": of_optimizer,
        "scheduler": scheduler.state_dict(),
        "whole": {"epoch": 7, "model": weights, "optimizer": of_optimizer},
        "whole, state first": {"state": weights, "optim": of_optimizer},
        "whole with objects": {"model": model, "optimizer": optimizer},
        "Lightning": {"state_dict": weights, "optimizer_states": [of_optimizer]},
    }


STATES = _states()


@pytest.mark.parametrize(
    ("first_file", "last_file", "resumed_file"),
    [
        ("whole", "weights", "first.pt"),
        ("Lightning", "wrapped weights", "first.pt"),
        ("whole with objects", "model object", "first.pt"),
        ("whole, state first", "stripped", "first.pt"),
        ("whole", "optimizer", "first.pt"),
        ("whole", "scheduler", "first.pt"),
        ("weights", "optimizer", "first.pt"),
        ("optimizer", "weights", "last.pt"),
        ("weights", "whole", "last.pt"),
        ("whole", "whole with objects", "last.pt"),
        ("weights", "model object", "last.pt"),
    ],
)
def test_a_script_resumes_from_the_newest_file_that_holds_all(
    rig: Rig, first_file: str, last_file: str, resumed_file: str
) -> None:
    for rig.step, (name, content) in enumerate(
        {"first.pt": first_file, "last.pt": last_file}.items()
    ):
        torch.save(STATES[content], rig.output / name)
        rig.poll()
    assert rig.latest() == resumed_file


@pytest.mark.parametrize("part", ["weights", "optimizer", "scheduler", "stripped", "model object"])
def test_retention_keeps_the_newest_whole_state(tmp_path: Path, part: str) -> None:
    policy = {"keep_latest": 1, "keep_best": 1, "best_metric": "loss"}
    rig = Rig(tmp_path, remove_old_checkpoints=True, checkpoint=policy)
    rig.begin_run()
    for rig.step, (name, content) in enumerate({"a": "whole", "b": part, "c": part}.items()):
        rig.metrics = {"loss": 1.0 / (rig.step + 1)}
        torch.save(STATES[content], rig.output / f"{name}.pt")
        rig.poll()
    torch.save(STATES[part], rig.output / "d.pt")
    rig.step, rig.metrics = 9, {"loss": 2.0}
    rig.poll()
    assert rig.latest() == "a.pt"
    assert (rig.output / "a.pt").exists()


def test_weights_in_another_format_are_only_weights(rig: Rig) -> None:
    torch.save(STATES["whole"], rig.output / "last.ckpt")
    file(rig.output, "model.safetensors")
    file(rig.output, "checkpoint-1/model.safetensors")
    for _ in range(2):
        rig.poll()
    records = read_checkpoints(rig.folder.checkpoints, ".json")
    parts = {Path(record.file).name: record.marks for record in records}
    assert parts == {"last.ckpt": "", "model.safetensors": "weights only", "checkpoint-1": ""}


def test_a_file_of_the_script_is_no_checkpoint_until_it_is_written(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    file(rig.work, "pretrained.pth")
    rig.begin_run()
    file(rig.work, "own.pth")
    rig.poll()
    assert rig.poll() == ["own.pth"]
    file(rig.work, "pretrained.pth", "trained")
    rig.poll()
    assert sorted(rig.poll()) == ["own.pth", "pretrained.pth"]


@pytest.mark.parametrize(
    ("write", "ended_well", "expected_names"),
    [
        (lambda folder: file(folder, "a.pt"), True, ["a.pt"]),
        (lambda folder: file(folder, "a.pt"), False, ["a.pt"]),
        (lambda folder: file(folder, "a.pt", ""), True, []),
        (lambda folder: file(folder, "checkpoint-1/a"), True, ["checkpoint-1"]),
        (lambda folder: file(folder, "checkpoint-1/a"), False, []),
        (lambda folder: (folder / "checkpoint-1").mkdir(), True, []),
        (lambda folder: write_zip(folder / "a.pt"), False, ["a.pt"]),
        (lambda folder: write_zip(folder / "a.pt", cut=30), False, []),
        (lambda folder: write_zip(folder / "a.pt", cut=30), True, []),
    ],
)
def test_a_file_that_may_be_unfinished_at_the_end_does_not_count(
    rig: Rig, write: Callable[[Path], object], ended_well: bool, expected_names: list[str]
) -> None:
    write(rig.output)
    assert rig.poll(is_over=True, ended_well=ended_well) == expected_names


@pytest.mark.parametrize(
    ("name", "before_s", "is_recorded"),
    [
        ("checkpoint-3/model.bin", 3.0, True),
        ("checkpoint-3/model.bin", 1.0, False),
        ("checkpoint-3/model.bin", -1.0, False),
        ("checkpoint-3/deep/model.safetensors", 60.0, True),
        ("model-3.safetensors", 3.0, True),
        ("model-3.pt", 0.0, True),
        ("notes.txt", 60.0, False),
    ],
)
def test_complete_checkpoints_of_a_killed_script_are_recorded(
    rig: Rig, name: str, before_s: float, is_recorded: bool
) -> None:
    rig.launch = replace(rig.launch, ranks=(RankPlan(0, 0, "a", "10.0.0.1"),))
    source = rig.folder.path / "version"
    for folder in (source, rig.work):
        file(folder, "pretrained.pth")
    replace_json(rig.folder.launch, replace(rig.launch, script_source=str(source)).to_dict())
    status = RunStatus(JobState.ERROR, run=1, step=4, epoch=2, metrics={"loss": 0.5})
    replace_json(rig.folder.status, status.to_dict())
    for folder in (rig.output, rig.work):
        file(folder, name)
        path = folder / name
        ended_s = path.stat().st_mtime + before_s
    record = rig.folder.attempt(1).rank_exit(0)
    record.parent.mkdir(parents=True)
    record.touch()
    os.utime(record, (ended_s, ended_s))
    record_checkpoints(rig.folder)
    records = read_checkpoints(rig.folder.checkpoints)
    assert [(checkpoint.step, checkpoint.epoch, checkpoint.metrics) for checkpoint in records] == [
        (3, 2, {"loss": 0.5})
    ] * 2 * is_recorded
    assert {Path(checkpoint.path).parts[-1] for checkpoint in records} <= {Path(name).parts[0]}


def write_zip(path: Path, cut: int = 0) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("data.pkl", "weights" * 100)
    path.write_bytes(path.read_bytes()[: -cut or None])


def test_the_record_goes_with_the_file(rig: Rig) -> None:
    for step in (1, 2):
        file(rig.output, f"model-{step}.pt")
        rig.poll()
        rig.poll()
    assert rig.latest() == "model-2.pt"
    (rig.output / "model-2.pt").unlink()
    assert rig.poll() == ["model-1.pt"]
    assert rig.latest() == "model-1.pt"
    (rig.output / "model-1.pt").unlink()
    assert rig.poll() == []
    assert not rig.folder.latest.exists()


def test_nothing_of_the_script_is_removed_unless_the_user_chose_it(tmp_path: Path) -> None:
    for removes_old in (False, True):
        rig = Rig(tmp_path / str(removes_old), remove_old_checkpoints=removes_old)
        policy = CheckpointPolicy(keep_latest=2, keep_best=1, best_metric="eval_loss")
        rig.launch = replace(rig.launch, config=replace(rig.launch.config, checkpoint=policy))
        rig.begin_run()
        file(rig.output, "notes.txt")
        for step, loss in enumerate((3.0, 1.0, 2.0, 2.5, 2.25, 2.75), 1):
            rig.step, rig.metrics = step, {"eval_loss": loss}
            file(rig.output, f"checkpoint-{step}/model.bin")
            rig.poll()
            rig.poll()
            if step == 1:
                (rig.folder.checkpoints / "step-000001.keep").touch()
        remaining_names = sorted(path.name for path in rig.output.iterdir())
        numbers = (1, 2, 5, 6) if removes_old else range(1, 7)
        assert remaining_names == [*(f"checkpoint-{path}" for path in numbers), "notes.txt"]


def test_a_later_run_knows_the_checkpoints_of_an_earlier_one(rig: Rig) -> None:
    file(rig.output, "checkpoint-1/a")
    rig.poll()
    rig.poll()
    rig.begin_run()
    assert rig.poll() == rig.poll() == ["checkpoint-1"]
    shutil.rmtree(rig.output / "checkpoint-1")
    assert rig.poll() == []


@pytest.mark.parametrize(("folder", "step"), [("checkpoint-30", 30), ("checkpoint-90", 0)])
def test_the_next_run_records_what_a_killed_run_left_at_the_step_of_its_name(
    rig: Rig, tmp_path: Path, folder: str, step: int
) -> None:
    replace_json(rig.folder.status, RunStatus(JobState.ERROR, run=1, step=40).to_dict())
    file(rig.output, f"{folder}/model.pt")
    (tmp_path / "log").touch()
    reports = ScriptReports(
        rig.folder, replace(rig.launch, run=2), rig.work, tmp_path / "log", lambda _: None
    )
    for _ in range(2):
        reports.update()
    (checkpoint,) = read_checkpoints(rig.folder.checkpoints, ".json")
    assert checkpoint.step == step


@pytest.mark.parametrize(
    ("names", "steps"),
    [
        # Written after steps 5, 10 and 15, each read by a poll of its own.
        (["model_1.pt", "model_2.pt", "model_3.pt"], [5, 10, 15]),
        (["model-3.pt", "model-4.pt", "model-5.pt"], [5, 10, 15]),
        (["ckpt-5.pt", "ckpt-10.pt", "ckpt-15.pt"], [5, 10, 15]),
        (["ckpt-3.pt", "ckpt-8.pt", "ckpt-13.pt"], [3, 8, 13]),
        (["epoch_4.pt", "epoch_8.pt", "epoch_12.pt"], [5, 10, 15]),
        (["ep4-8.pt", "ep9-12.pt", "ep14-16.pt"], [5, 10, 15]),
        (["epoch=0-step=4.ckpt", "epoch=1-step=9.ckpt", "epoch=2-step=14.ckpt"], [4, 9, 14]),
        (["rl_1000_steps.pt", "rl_2000_steps.pt", "rl_4_steps.pt"], [5, 10, 15]),
        (["a.pt", "b.pt", "c.pt"], [5, 10, 15]),
        (["resnet50-v2.pt", "resnet50-v3-best.pt", "resnet18-7.pt"], [5, 10, 15]),
        (["20261129.pt", "20261130.pt", "20261224.pt"], [5, 10, 15]),
    ],
)
def test_a_checkpoint_has_the_step_and_values_at_which_it_was_written(
    rig: Rig, tmp_path: Path, names: list[str], steps: list[int]
) -> None:
    log = tmp_path / "log"
    log.touch()
    reports = ScriptReports(rig.folder, rig.launch, rig.work, log, lambda _: None)
    for number, name in enumerate(names):
        rows = ({"step": 5 * number + n, "loss": 5 * number + n} for n in range(1, 6))
        with log.open("a") as file:
            file.writelines(f"{json.dumps(row)}\n" for row in rows)
        (rig.output / name).write_text("weights")
        # The kernel's own stamp is up to 4 ms old, so the first would precede the run.
        os.utime(rig.output / name, ns=(time.time_ns(), time.time_ns()))
        reports.read_curves()
    reports.close(ended_well=True)
    records = sorted(
        read_checkpoints(rig.folder.checkpoints, ".json"),
        key=lambda record: names.index(Path(record.file).name),
    )
    assert [record.step for record in records] == steps
    assert [record.metrics["loss"] for record in records] == steps


def test_the_first_checkpoint_has_the_first_epoch_whose_line_counts_from_the_second_on(
    rig: Rig, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    log.touch()
    reports = ScriptReports(rig.folder, rig.launch, rig.work, log, lambda _: None)
    for epoch, name in enumerate(("a.pt", "b.pt", "c.pt"), 1):
        with log.open("a") as file:
            file.write(f"Epoch {epoch}/3 loss: {epoch}\n")
        (rig.output / name).write_text("weights")
        reports.read_curves()
    reports.close(ended_well=True)
    records = read_checkpoints(rig.folder.checkpoints, ".json")
    steps = {Path(record.file).name: record.step for record in records}
    assert steps == {"a.pt": 1, "b.pt": 2, "c.pt": 3}


def test_a_script_that_saves_at_each_step_has_them_in_its_names(rig: Rig, tmp_path: Path) -> None:
    log = tmp_path / "log"
    rows = [json.dumps({"step": step, "loss": step}) for step in (1, 2, 3)]
    log.touch()
    reports = ScriptReports(rig.folder, rig.launch, rig.work, log, lambda _: None)
    log.write_text("\n".join((*rows, "")))
    for step in (1, 2, 3):
        (rig.output / f"model-{step}.pt").write_text("weights")
    reports.close(ended_well=True)
    records = read_checkpoints(rig.folder.checkpoints, ".json")
    steps = {Path(record.file).name: record.step for record in records}
    assert steps == {f"model-{step}.pt": step for step in (1, 2, 3)}


@pytest.mark.parametrize(
    ("settings", "expected_names"),
    [({}, ["epoch_42"]), ({"checkpoint_files": ["*.safetensors"]}, ["model.safetensors"])],
)
def test_a_folder_that_accelerate_resumes_from_is_the_checkpoint(
    tmp_path: Path, settings: dict[str, object], expected_names: list[str]
) -> None:
    rig = Rig(tmp_path, **settings)
    rig.begin_run()
    for name in ("model.safetensors", "optimizer.bin", "random_states_0.pkl"):
        file(rig.output, f"epoch_42/{name}")
    rig.poll()
    assert rig.poll() == expected_names
