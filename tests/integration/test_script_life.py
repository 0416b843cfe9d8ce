"""People's own programs as jobs on this computer, with real mpirun and real processes."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import pytest

from backend.base.errors import BackendError
from backend.base.process_signals import send
from backend.node.system import process_cleanup
from backend.records.base.layout import run_tag
from backend.records.jobs.placement import THIS_COMPUTER
from backend.records.jobs.state import JobState
from backend.records.jobs.view import JobView
from backend.records.library.item import Kind
from backend.services.context.container import Services
from tests.integration.conftest import leftovers
from tests.waiting import wait_for

COUNT = """
import argparse, json, os, signal, sys, time
given = argparse.ArgumentParser()
given.add_argument("--out")
given.add_argument("--steps", type=int, default=3)
given.add_argument("--resume", default="")
given = given.parse_args()
step = int(open(given.resume).read()) if given.resume else 0
while step < given.steps and not os.path.exists(os.environ["RINGMASTER_STOP"]):
    step += 1
    if os.environ["RANK"] == "0":
        print(json.dumps({"step": step, "loss": 1 / step, "total_steps": given.steps}), flush=True)
        with open(f"{given.out}/model-{step}.pt", "w") as file:
            file.write(str(step))
    if given.steps > 100:
        time.sleep(0.05)
"""
SIGNALLED = "import signal\nsignal.signal(signal.SIGTERM, lambda *_: None)\n" + COUNT
FOLDERS = """
import argparse, json, os, pathlib, signal, time
signal.signal(signal.SIGTERM, lambda *_: None)
given = argparse.ArgumentParser()
given.add_argument("--out", type=pathlib.Path)
given.add_argument("--resume", default="")
given = given.parse_args()
step = int(pathlib.Path(given.resume, "state.txt").read_text()) if given.resume else 0
print("begins at", step, flush=True)
while not os.path.exists(os.environ["RINGMASTER_STOP"]):
    step += 1
    made = given.out / f"checkpoint-{step}"
    made.mkdir()
    (made / "model.pt").write_text("weights")
    (made / "state.txt").write_text(str(step))
    (given.out / "last.pt").write_text(str(step))
    print(json.dumps({"step": step, "eval_loss": abs(step - 2)}), flush=True)
    time.sleep(0.5)
"""
TEXT = """
import os, signal, time
for epoch in range(4):
    for batch in range(5):
        print(f"Epoch [{epoch}/4][{batch}/5] loss: {1 / (1 + 5 * epoch + batch):.4f}", flush=True)
while not os.path.exists(os.environ["RINGMASTER_STOP"]):
    print("waits, accuracy 0.5", flush=True)
    time.sleep(0.3)
"""
DISTRIBUTED = """
import json, os
import torch, torch.distributed
torch.distributed.init_process_group("gloo")
here = torch.tensor([float(os.environ["RANK"]) + 1])
torch.distributed.all_reduce(here)
names = ("LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_WORLD_SIZE", "ROLE_RANK", "TORCHELASTIC_RUN_ID")
print("variables", *(os.environ[name] for name in names), os.getcwd(), flush=True)
print(json.dumps({"step": 1, "sum": here.item()}), flush=True)
torch.distributed.destroy_process_group()
"""


def job_of(services: Services, tmp_path: Path, code: str, **settings: Any) -> JobView:
    folder = tmp_path / "program"
    folder.mkdir()
    (folder / "train.py").write_text(code)
    item = services.library.import_item(Kind.SCRIPT, folder, "mine")
    raw = {
        "name": "mine",
        "script": item.reference,
        "arguments": ["--out", "{output}"],
        "placement": [{"node": THIS_COMPUTER, "processes": settings.pop("processes", 2)}],
        **settings,
    }
    return services.jobs.create(raw)


def run_job(services: Services, view: JobView) -> JobView:
    services.jobs.lifecycle.start(view.id)
    return services.jobs.queries.wait(view.id)


def log_of(services: Services, view: JobView, rank: int = 0) -> str:
    return services.data_root.job(view.id).rank_log(rank).read_text()


ENDLESS = ["--out", "{output}", "--steps", "100000"]
RESUME = {"resume_arguments": ["--resume", "{checkpoint}"]}


def test_a_program_runs_to_its_end_with_its_curve_and_checkpoints(
    services: Services, tmp_path: Path
) -> None:
    view = run_job(services, job_of(services, tmp_path, COUNT))
    assert (view.state, view.error) == (JobState.FINISHED, None)
    assert (view.step, view.status.total_steps, view.progress) == (3, 3, 1.0)
    assert list(services.jobs.queries.history(view.id).metrics["loss"]) == pytest.approx(
        [1, 1 / 2, 1 / 3]
    )
    checkpoints = services.jobs.queries.checkpoints(view.id)
    assert [(checkpoint.step, Path(checkpoint.path).name) for checkpoint in checkpoints] == [
        (step, f"model-{step}.pt") for step in (1, 2, 3)
    ]
    assert checkpoints[-1].is_latest
    assert leftovers(view) == []
    exported_file = services.jobs.export(view.id, "latest", "pt", tmp_path / "taken.pt")
    assert exported_file.read_text() == "3"
    for model_action in (
        lambda: services.jobs.export(view.id, "latest", "onnx", tmp_path / "no.onnx"),
        lambda: services.inspection.checkpoint(view.id, "latest"),
    ):
        with pytest.raises(BackendError, match="runs a script, and only the script knows"):
            model_action()


def test_torchruns_variables_let_processes_meet_and_the_version_stays_as_it_is(
    services: Services, tmp_path: Path
) -> None:
    view = run_job(services, job_of(services, tmp_path, DISTRIBUTED))
    assert view.state is JobState.FINISHED, log_of(services, view)
    assert view.status.metrics == {"sum": 3.0}
    folder = services.data_root.job(view.id)
    work = folder.work(1, THIS_COMPUTER)
    for rank in (0, 1):
        line = f"variables {rank} 2 1 {rank} {view.id}-1 {work}"
        assert line in log_of(services, view, rank)
    assert list((services.data_root.path / "scripts/mine/v1/src").iterdir()) == [
        services.data_root.path / "scripts/mine/v1/src/train.py"
    ]


@pytest.mark.parametrize("code", [COUNT, SIGNALLED], ids=["ended by the signal", "by the file"])
def test_a_stop_ends_all_processes_and_a_resume_continues(
    services: Services, tmp_path: Path, code: str
) -> None:
    view = job_of(services, tmp_path, code, arguments=ENDLESS, **RESUME)
    services.jobs.lifecycle.start(view.id)
    services.jobs.queries.wait(view.id, is_finished=lambda v: v.step >= 3 or v.state.is_over)
    services.jobs.lifecycle.stop(view.id)
    view = services.jobs.queries.wait(view.id)
    assert view.state is JobState.INTERRUPTED, log_of(services, view)
    assert leftovers(view) == []
    stopped_step = next(
        checkpoint
        for checkpoint in services.jobs.queries.checkpoints(view.id)
        if checkpoint.is_latest
    ).step
    assert stopped_step >= 3
    services.jobs.lifecycle.resume(view.id)
    wait_for(
        lambda: f'"step": {stopped_step + 1},' in log_of(services, view).partition("run 2")[2],
        "the step after the checkpoint",
    )
    services.jobs.lifecycle.stop(view.id)
    assert services.jobs.queries.wait(view.id).state is JobState.INTERRUPTED


def test_a_checkpoint_may_be_a_folder_or_a_rewritten_file(
    services: Services, tmp_path: Path
) -> None:
    best_settings = {"checkpoint": {"best_metric": "eval_loss"}, "processes": 1, **RESUME}
    view = job_of(services, tmp_path, FOLDERS, **best_settings)
    queries, folder = services.jobs.queries, services.data_root.job(view.id)
    services.jobs.lifecycle.start(view.id)
    wait_for(lambda: len(queries.checkpoints(view.id)) >= 3, "three checkpoints")
    services.jobs.lifecycle.stop(view.id)
    view = queries.wait(view.id)
    assert view.state is JobState.INTERRUPTED, log_of(services, view)
    checkpoint_by_name = {
        Path(checkpoint.path).name: checkpoint for checkpoint in queries.checkpoints(view.id)
    }
    last_step = max(checkpoint.step for checkpoint in checkpoint_by_name.values())
    names = {f"checkpoint-{step}" for step in range(1, last_step + 1)}
    assert checkpoint_by_name.keys() == {"last.pt"} | names
    assert {
        checkpoint.step
        for name, checkpoint in checkpoint_by_name.items()
        if name == f"checkpoint-{checkpoint.step}"
    }
    assert [checkpoint.name for checkpoint in checkpoint_by_name.values() if checkpoint.is_latest]
    assert "newest checkpoint is step" in view.status.message
    assert "epoch" not in "".join(checkpoint.name for checkpoint in checkpoint_by_name.values())
    for name in ("last.pt", f"checkpoint-{last_step}"):
        assert services.jobs.find_damage(view.id, name) == ""
        assert services.jobs.keep(view.id, name).is_kept
    exported_file = services.jobs.export(view.id, "checkpoint-1", "zip", tmp_path / "taken.zip")
    with zipfile.ZipFile(exported_file) as archive:
        assert archive.read("checkpoint-1/state.txt") == b"1"
    for format, output, message in (
        ("zip", exported_file, "exists already and was not changed"),
        ("pt", tmp_path / "no.pt", "is a folder"),
    ):
        with pytest.raises(BackendError, match=message):
            services.jobs.export(view.id, "checkpoint-1", format, output)
    services.jobs.lifecycle.resume(view.id, f"checkpoint-{last_step}")
    wait_for(lambda: f"begins at {last_step}" in log_of(services, view), "the resumed script")
    wait_for(lambda: queries.show(view.id).step > last_step, "a step of the resumed script")
    services.jobs.lifecycle.stop(view.id)
    assert queries.wait(view.id).state is JobState.INTERRUPTED
    assert (folder.output / "checkpoint-1/state.txt").read_text() == "1"
    steps = list(queries.history(view.id).steps)
    assert steps == sorted(set(steps))


def test_a_number_marked_while_the_script_runs_becomes_its_curve(
    services: Services, tmp_path: Path
) -> None:
    view = job_of(services, tmp_path, TEXT, arguments=[], processes=1)
    queries = services.jobs.queries
    services.jobs.lifecycle.start(view.id)
    queries.wait(view.id, is_finished=lambda v: v.state is JobState.TRAINING or v.state.is_over)
    wait_for(lambda: "waits" in log_of(services, view), "the last line of its training")
    for pattern in ("Epoch [{epoch}/{epochs}", "loss: {loss}"):
        services.jobs.lifecycle.draw_number(view.id, pattern)
    # The first pattern alone makes 20 steps: only the curve says that the second was read, too.
    wait_for(lambda: len(queries.history(view.id).metrics.get("loss", ())) == 20, "the loss")
    view = queries.wait(view.id, is_finished=lambda v: v.status.epoch == 4 or v.state.is_over)
    assert list(queries.history(view.id).metrics["loss"]) == pytest.approx(
        [1 / step for step in range(1, 21)], abs=1e-4
    )
    assert (view.status.epoch, view.epochs) == (4, 4)
    services.jobs.lifecycle.draw_number(view.id, "accuracy {accuracy}")
    wait_for(lambda: "accuracy" in queries.history(view.id).metrics, "the second curve")
    services.jobs.lifecycle.stop(view.id)
    view = queries.wait(view.id)
    assert "There is no checkpoint: the script wrote none." in view.status.message
    assert queries.history(view.id).problems == ()
    assert len(queries.show(view.id).config.log_numbers) == 3
    with pytest.raises(BackendError, match="names in braces"):
        services.jobs.lifecycle.draw_number(view.id, "loss")


def test_a_resume_needs_arguments_for_it(services: Services, tmp_path: Path) -> None:
    view = run_job(services, job_of(services, tmp_path, COUNT))
    with pytest.raises(BackendError, match="no arguments with which its script resumes"):
        services.jobs.lifecycle.resume(view.id)


def test_a_killed_process_is_named_and_ends_the_others(services: Services, tmp_path: Path) -> None:
    view = job_of(services, tmp_path, COUNT, arguments=ENDLESS)
    services.jobs.lifecycle.start(view.id)
    view = services.jobs.queries.wait(view.id, is_finished=lambda v: v.step >= 1 or v.state.is_over)

    def of_rank_1() -> int:
        tag = run_tag(view.id, 1)
        for process in process_cleanup.tagged(tag):
            variables = Path(f"/proc/{process.pid}/environ").read_bytes().split(b"\0")
            if b"RANK=1" in variables:
                return process.pid
        return 0

    pid = wait_for(of_rank_1, "the program of rank 1")
    assert send(pid, lambda: True, 9)  # type: ignore[arg-type] # a number is a signal, too
    view = services.jobs.queries.wait(view.id)
    assert view.state is JobState.ERROR
    assert view.error is not None
    assert "Rank 1 on this computer was killed by signal 9 (SIGKILL)" in view.error.message
    assert leftovers(view) == []


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("raise ValueError('no data in /x')", "ValueError: no data in /x"),
        ("import sys; sys.exit(3)", "exited with code 3"),
        ("import os; os.abort()", "signal 6 (SIGABRT"),
        ("input()", "EOFError"),
        ("import os; os._exit(1 if os.environ['RANK'] == '1' else 0)", "exited with code 1"),
        ("import not_there_at_all", "not_there_at_all"),
    ],
)
def test_one_sentence_says_how_a_program_failed(
    services: Services, tmp_path: Path, code: str, message: str
) -> None:
    view = run_job(services, job_of(services, tmp_path, code, arguments=[]))
    assert view.state is JobState.ERROR
    assert view.error is not None
    assert message in view.error.message + view.error.traceback
    assert leftovers(view) == []


def test_a_program_that_leaves_a_daemon_leaves_no_process(
    services: Services, tmp_path: Path
) -> None:
    code = "import os, time\nif os.fork() == 0:\n    os.setsid()\n    time.sleep(1000)\n"
    view = run_job(services, job_of(services, tmp_path, code, arguments=[], processes=1))
    assert view.state is JobState.FINISHED
    assert leftovers(view) == []


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"entry": "trian.py"}, "has no file “trian.py”. Did you mean “train.py”?"),
        ({"script": "yours"}, "script: There is no script “yours”"),
        ({"arguments": ["{where}"]}, "“{where}” is not one"),
    ],
)
def test_a_job_that_cannot_run_is_not_created(
    services: Services, tmp_path: Path, changed: dict[str, Any], message: str
) -> None:
    with pytest.raises(BackendError, match=message.replace("?", r"\?").replace("{", r"\{")):
        job_of(services, tmp_path, COUNT, **changed)
    assert services.jobs.queries.list() == ()
