"""Start of a user's program: its command, its variables, and the limit of its disk."""

from __future__ import annotations

import ast
import json
import math
import os
import re
import shlex
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from backend.base.rendezvous_point import SECRET_VARIABLE
from backend.base.room import DiskSpace
from backend.datastore.jobs.history_reader import read_history
from backend.records.base.layout import JobFolder
from backend.records.jobs.heartbeat import RankHeartbeat
from backend.records.jobs.job_file import parse_job
from backend.records.jobs.launch import Launch, RankPlan
from backend.records.jobs.script import interpreter
from backend.records.jobs.status import BAD_CURVE, UNMATCHED, last_status
from backend.training import script_disk, script_rank
from backend.training.script_disk import DiskWatch
from backend.training.script_rank import Script, ScriptReports

PLANS = (
    RankPlan(0, 0, "gpu01", "10.0.0.1", "GPU-a"),
    RankPlan(1, 1, "gpu01", "10.0.0.1", "GPU-b"),
    RankPlan(2, 0, "gpu02", "10.0.0.2", "GPU-c"),
    RankPlan(3, 0, "gpu03", "10.0.0.3", "GPU-d,GPU-e"),
    RankPlan(4, 0, "cpu01", "10.0.0.4"),
    RankPlan(5, 1, "cpu01", "10.0.0.4"),
)

ABORTS = """
import ctypes, faulthandler, signal, sys, time, traceback
libc, one = ctypes.CDLL(None), ctypes.c_ulong()
new = ctypes.pythonapi.PyCapsule_New
new.restype = ctypes.py_object
new.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
held = new(1, None, ctypes.cast(libc.abort, ctypes.c_void_p))
"""
"""Program with an object that aborts the process at its exit, as a thread of gloo may."""


def script_of(tmp_path: Path, plan: RankPlan, *ranks: RankPlan, **changes: Any) -> Script:
    (tmp_path / "version").mkdir(exist_ok=True)
    raw: dict[str, Any] = {
        "name": "mine",
        "script": "mine@1",
        "entry": "train.py",
        "placement": [{"node": "this-computer", "processes": len(ranks)}],
        **changes,
    }
    config = parse_job(raw).config
    assert config is not None
    folder = JobFolder(tmp_path / "job")
    folder.output.mkdir(parents=True, exist_ok=True)
    folder.logs.mkdir(exist_ok=True)
    launch = Launch("id", 1, config, ranks, "", "", "", script_source=str(tmp_path / "version"))
    return Script(folder, launch, plan, RankHeartbeat.inherited())


def reports_of(tmp_path: Path, resume_from: str = "", **changes: Any) -> ScriptReports:
    launch = replace(
        script_of(tmp_path, PLANS[4], PLANS[4], **changes)._launch, resume_from=resume_from
    )
    folder = JobFolder(tmp_path / "job")
    folder.rank_log(0).touch()
    (tmp_path / "work").mkdir(exist_ok=True)
    return ScriptReports(folder, launch, tmp_path / "work", folder.rank_log(0), lambda _count: None)


@pytest.mark.parametrize(
    ("plan", "gpus"),
    zip(PLANS, ["GPU-a,GPU-b", "GPU-a,GPU-b", "GPU-c", "GPU-d,GPU-e", "", ""], strict=True),
)
def test_the_index_of_a_gpu_is_the_local_rank(tmp_path: Path, plan: RankPlan, gpus: str) -> None:
    visible_gpus = script_of(tmp_path, plan, *PLANS)._environment()["CUDA_VISIBLE_DEVICES"]
    assert visible_gpus == gpus
    assert not plan.gpu or visible_gpus.split(",")[plan.local_rank] == plan.gpu.split(",")[0]


@pytest.mark.parametrize(
    ("ranks", "per", "has_variables"),
    [
        (PLANS[4:5], "node", False),
        (PLANS[3:4], "node", False),
        (PLANS[4:5], "gpu", False),
        (PLANS[3:5], "node", True),
        (PLANS[4:], "gpu", True),
        (PLANS, "gpu", True),
    ],
)
def test_a_program_that_starts_its_own_processes_on_one_node_is_no_process_of_torchruns(
    tmp_path: Path, ranks: tuple[RankPlan, ...], per: str, has_variables: bool
) -> None:
    plans = [replace(plan, rank=number) for number, plan in enumerate(ranks)]
    environment = script_of(tmp_path, plans[0], *plans, processes_per=per)._environment()
    names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "GROUP_RANK", "TORCHELASTIC_RUN_ID")
    assert [name in environment for name in names] == [has_variables] * 5
    assert {"RINGMASTER_STOP", "RINGMASTER_OUTPUT"} <= environment.keys()
    assert ("MASTER_ADDR" in environment) is has_variables


@pytest.mark.parametrize(
    ("name", "text", "command"),
    [
        ("train.sh", "#!/bin/bash\nset -o pipefail\n", ["/bin/bash"]),
        ("train.sh", "#!/usr/bin/env bash\n", ["/usr/bin/env", "bash"]),
        ("train.sh", "#! /bin/bash -e -u\n", ["/bin/bash", "-e -u"]),
        ("train.sh", "echo\n", ["/bin/sh"]),
        ("train", "#!/bin/dash\n", ["/bin/dash"]),
        ("train", "import torch\n", []),
        ("train.py", "#!/usr/bin/python2\n", []),
        ("-m package", "", []),
    ],
)
def test_the_program_of_an_entry_is_that_of_its_first_line(
    tmp_path: Path, name: str, text: str, command: list[str]
) -> None:
    if text:
        (tmp_path / name).write_text(text)
    assert interpreter(tmp_path / name) == command


@pytest.mark.parametrize(
    ("log", "output", "other_gb", "text"),
    [
        (95, 0, 0, "wrote 95.0 GB to its log and 0 B to its output folder, and 1.0 GB are left"),
        (0, 95, 0, "wrote 0 B to its log and 95.0 GB to its output folder"),
        (50, 45, 0, "wrote 50.0 GB to its log and 45.0 GB"),
        (50, 40, 0, ""),
        (0, 1, 94, ""),
        (0, 0, 96, ""),
        (3, 0, 92, "wrote 3.0 GB to its log"),
    ],
)
def test_a_script_that_fills_the_disk_is_ended_and_others_are_not_its_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, log: int, output: int, other_gb: int, text: str
) -> None:
    giga = 10**9
    job = JobFolder(tmp_path)
    (job.output / "deep").mkdir(parents=True)
    free = [96 * giga]
    monkeypatch.setattr(
        script_disk, "disk_space", lambda path: DiskSpace(100 * giga, free[0], None)
    )
    paths = {"log": tmp_path / "rank-0.log", "output": job.output / "deep/model.pt"}
    watch = DiskWatch(tmp_path, paths["log"], job.output)
    for name, count in (("log", log), ("output", output)):
        with paths[name].open("wb") as file:
            # A file with holes: its size counts, and it takes no room here.
            file.truncate(count * giga)
    free[0] -= (log + output + other_gb) * giga
    reason = watch.end_reason()
    assert text in reason if text else not reason


@pytest.mark.parametrize(
    ("lock", "was_stopped"),
    [("", False), ('{"run": 1}', True), ('{"run": 2}', False), ("touched", True)],
)
def test_a_script_that_ends_before_it_hears_of_a_stop_was_stopped(
    tmp_path: Path, lock: str, was_stopped: bool
) -> None:
    script = script_of(tmp_path, PLANS[2], *PLANS)
    path = JobFolder(tmp_path / "job").stop_request
    write = f"open({str(path)!r}, 'w').write({lock!r})\n" if lock else ""
    # On a busy machine the signal of the stop reaches it before it ends.
    deaf_code = "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    (tmp_path / "version/train.py").write_text(f"{deaf_code}{write}raise SystemExit(1)\n")
    assert script.run() == (1, was_stopped)


@pytest.mark.parametrize(
    ("code", "was_done"),
    [
        ("print('done')", True),
        ("print('done')\nsys.exit()", True),
        ("del held", False),
        ("def train(held):\n    globals().clear()\ntrain(held)", False),
        ("raise RuntimeError('no such file')", False),
        ("try:\n    raise OSError\nexcept OSError:\n    traceback.print_exc()", False),
        ("libc.pthread_create(ctypes.byref(one), None, libc.abort, None)\ntime.sleep(60)", False),
        ("signal.raise_signal(signal.SIGABRT)", False),
        ("signal.raise_signal(signal.SIGSEGV)", False),
        ("faulthandler.disable()\ndel held", False),
    ],
)
def test_a_script_that_aborts_while_its_python_ends_was_done(
    tmp_path: Path, code: str, was_done: bool
) -> None:
    script = script_of(tmp_path, PLANS[4], PLANS[4])
    log = JobFolder(tmp_path / "job").rank_log(4)
    with log.open("ab") as output:
        completed = subprocess.run(
            [sys.executable, "-c", ABORTS + code],
            env={**os.environ, **script._environment()},
            stdout=output,
            stderr=output,
        )
    assert completed.returncode in (-signal.SIGABRT, -signal.SIGSEGV), log.read_text()
    assert script.aborted_at_exit(completed.returncode) is was_done, log.read_text()


@pytest.mark.parametrize(
    ("log_touches", "is_staged", "idle_at"),
    [
        ([], False, 12),
        ([(4, 0)], False, 16),
        ([(4, 5)], False, 16),
        ([(4, 1), (8, 2), (16, 3), (24, 4)], False, 36),
        ([(30, 0)], False, 12),
        ([], True, None),
    ],
)
def test_after_a_stop_processes_that_only_wait_for_each_other_are_idle(
    tmp_path: Path, log_touches: list[tuple[int, int]], is_staged: bool, idle_at: int | None
) -> None:
    script = script_of(tmp_path, PLANS[2], *PLANS)
    script._launch = replace(script._launch, is_staged=is_staged)
    logs = [JobFolder(tmp_path / "job").rank_log(rank) for rank in range(6)]
    for log in logs:
        log.touch()
    idle_s = None
    for now in range(0, 40, 2):
        for second, rank in log_touches:
            if second == now:
                os.utime(logs[rank], (now, now))
        if idle_s is None and script._all_are_idle(now):
            idle_s = now
    assert idle_s == idle_at


def curves_of(folder: JobFolder) -> dict[str, dict[int, float]]:
    """Return the values of each curve by their steps."""
    update, _ = read_history(folder.history)
    assert not update.problems
    return {
        name: {
            int(step): value
            for step, value in zip(update.steps, values, strict=True)
            if value == value
        }
        for name, values in update.metrics.items()
    }


def test_the_history_has_each_number_at_its_step_when_it_comes_late_or_gets_another_name(
    tmp_path: Path,
) -> None:
    reports = reports_of(tmp_path)
    folder = JobFolder(tmp_path / "job")
    folder.rank_log(0).write_text("Epoch 1 loss: 9\n")
    reports.update()
    (folder.output / "train.csv").write_text(
        "step,loss\n" + "".join(f"{n},{n}\n" for n in range(9))
    )
    reports.update()
    (folder.output / "val.csv").write_text("step,loss\n4,0.5\n")
    (folder.output / "more.csv").write_text("step,accuracy\n2,0.25\n7,0.75\n")
    reports.update()
    reports.close(ended_well=True)
    curves = curves_of(folder)
    assert curves == {
        "train/loss": {step: float(step) for step in range(9)},
        "val/loss": {4: 0.5},
        "accuracy": {2: 0.25, 7: 0.75},
    }
    status = last_status(folder)
    assert status is not None
    assert status.metrics == {"train/loss": 8.0, "val/loss": 0.5, "accuracy": 0.75}


def test_a_log_that_grows_faster_than_it_is_read_is_read_to_its_end(tmp_path: Path) -> None:
    reports = reports_of(tmp_path)
    folder = JobFolder(tmp_path / "job")
    with folder.rank_log(0).open("w") as log:
        for step in (1, 2, 3):
            log.write(f"step {step} loss {step / 10}\n" + "x" * 5_000_000 + "\n")
    reports.close(ended_well=True)
    assert curves_of(folder) == {"loss": {1: 0.1, 2: 0.2, 3: 0.3}}


def test_the_size_of_what_was_not_read_of_a_log_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(script_rank, "_REST_S", 0.0)
    reports = reports_of(tmp_path)
    folder = JobFolder(tmp_path / "job")
    folder.rank_log(0).write_text("step 1 loss 1\n" + ("x" * 1_000 + "\n") * 20_000)
    reports.close(ended_well=True)
    status = last_status(folder)
    assert status is not None
    assert [alarm.message for alarm in status.alarms] == [
        "The last 12.0 MB of the log were not read for curves: it is too long."
    ]


@pytest.mark.parametrize(
    ("text", "has_variables"),
    [
        # nanoGPT, OpenNMT-py: for one process and for several
        ('ddp = int(os.environ.get("RANK", -1)) != -1\nrank = os.environ["RANK"]\n', False),
        ('if "WORLD_SIZE" in os.environ:\n    init_process_group("nccl")\n', False),
        ("print(1)\n", False),
        ("from accelerate import Accelerator\n", False),
        # The examples of PyTorch, for torchrun
        ('dist.init_process_group("gloo")\n', True),
        ("local_rank = int(os.environ['LOCAL_RANK'])\n", True),
    ],
)
def test_one_process_is_one_of_torchruns_only_if_its_program_cannot_do_without(
    tmp_path: Path, text: str, has_variables: bool
) -> None:
    script = script_of(tmp_path, PLANS[4], PLANS[4])
    (tmp_path / "version/train.py").write_text(text)
    script._copy()
    assert ("RANK" in script._environment()) is has_variables


@pytest.mark.parametrize(
    ("changes", "folder", "argument"),
    [
        ({"entry": "src/train.py", "folder": "src"}, "src", "1 two"),
        ({"entry": "-m package.train", "folder": "data"}, "data", "1 two"),
        ({"entry": "package/train.py"}, "", "it's"),
        ({"entry": "package/task/train.py"}, "", "x"),
        ({"entry": "src/train.py"}, "", "a b"),
    ],
)
def test_a_program_runs_in_its_folder_and_the_log_says_what_ran(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], changes: Any, folder: str, argument: str
) -> None:
    plan = replace(PLANS[4], rank=0)
    script = script_of(tmp_path, plan, plan, arguments=["--name", argument], **changes)
    code = "import os, sys\nprint(os.getcwd(), sys.argv[1:])\n"
    for name in ("src/train.py", "package/train.py", "data/x.txt", "package/__init__.py"):
        path = tmp_path / "version" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(code if name.endswith("train.py") else "")
    for name in ("package/train.py", "package/task/train.py"):
        path = tmp_path / "version" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"import package\n{code}")
    assert script.run() == (0, False)
    command, surroundings, output = capfd.readouterr().out.splitlines()
    work = JobFolder(tmp_path / "job").work(1, "cpu01")
    assert output == f"{work / folder} {['--name', argument]}"
    assert command.startswith("── ")
    assert shlex.split(command[3:])[-2:] == ["--name", argument]
    assert surroundings.startswith(f"── in {work / folder} with ")


def test_the_log_says_which_variables_a_script_gets_and_keeps_secrets(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OF_THE_NODE", "value of the node")
    monkeypatch.setenv("HF_TOKEN", "value of the job")
    monkeypatch.setenv(SECRET_VARIABLE, "value of the run")
    plans = [replace(PLANS[4], rank=rank, local_rank=rank) for rank in (0, 1)]
    script = script_of(tmp_path, plans[0], *plans, environment={"HF_TOKEN": "value of the job"})
    (tmp_path / "version/train.py").write_text("import os\nprint(dict(os.environ))\n")
    assert script.run() == (0, False)
    _, surroundings, output = capfd.readouterr().out.splitlines()
    variables = ast.literal_eval(output)
    logged_variables = dict(re.findall(r"(\w+)=([^\s;]*)", surroundings))
    assert {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "RINGMASTER_OUTPUT"} <= set(
        logged_variables
    )
    assert logged_variables.items() <= variables.items()
    assert surroundings.endswith("; from the job's settings HF_TOKEN")
    assert variables["HF_TOKEN"] == "value of the job"
    assert "value of" not in surroundings
    assert SECRET_VARIABLE not in variables


@pytest.mark.parametrize(
    ("patterns", "text", "message"),
    [
        (["loss: {loss}"], "loss: 0.5\nloss: 0.25\n", ""),
        (["loss: {loss}", "f1: {f1}"], "loss: 0.5\nf1: 0.25\n", ""),
        (
            ["loss: {loss}", "f1: {f1}"],
            "loss: 0.5\n",
            "No line of the log has a number at “f1: {f1}”. "
            "The curves are from other lines or files.",
        ),
        ([], "loading\n", ""),
        (["los: {loss}"], "loss: 0.5\n", "No line of the log has a number at “los: {loss}”."),
        (["l {l}", "a {a}"], "", "No line of the log has a number at “l {l}”, “a {a}”."),
        (
            ["los: {loss}"],
            '{"step": 1, "loss": 0.5}\n',
            "No line of the log has a number at “los: {loss}”. "
            "The curves are from other lines or files.",
        ),
    ],
)
def test_patterns_that_find_nothing_are_a_warning(
    tmp_path: Path, patterns: list[str], text: str, message: str
) -> None:
    reports = reports_of(tmp_path, log_numbers=patterns)
    JobFolder(tmp_path / "job").rank_log(0).write_text(text)
    reports.close(ended_well=True)
    status = last_status(JobFolder(tmp_path / "job"))
    assert status is not None
    assert [(alarm.kind, alarm.message) for alarm in status.alarms] == (
        [(UNMATCHED, message)] if message else []
    )


def test_epochs_of_a_resumed_run_count_the_steps_of_those_before(tmp_path: Path) -> None:
    folder = JobFolder(tmp_path / "job")
    reports = reports_of(tmp_path, log_numbers=["step {step} epoch {epoch} loss {loss}"])
    lines = [f"step {step} epoch {step // 100} loss {1 / step}\n" for step in (100, 200, 300)]
    folder.rank_log(0).write_text("".join(lines))
    reports.close(ended_well=True)
    resumed_reports = reports_of(tmp_path, "last.pt", log_numbers=["stp {step} loss {loss}"])
    (folder.output / "results.csv").write_text("epoch,val_loss\n4,0.2\n5,0.1\n")
    resumed_reports.close(ended_well=True)
    assert curves_of(folder) == {
        "loss": {step: pytest.approx(1 / step) for step in (100, 200, 300)},
        "val_loss": {400: 0.2, 500: 0.1},
    }


def test_a_run_between_whose_numbers_were_not_found_leaves_a_gap(tmp_path: Path) -> None:
    folder, pattern = JobFolder(tmp_path / "job"), "epoch {epoch} loss {loss}"
    runs = [("", pattern, range(1, 5)), ("a", "ep {epoch} loss {loss}", range(5, 11))]
    for resume_from, run_pattern, epochs in (*runs, ("a", pattern, range(11, 14))):
        reports = reports_of(tmp_path, resume_from, log_numbers=[run_pattern])
        with folder.rank_log(0).open("a") as log:
            log.writelines(f"epoch {epoch} loss {epoch}\n" for epoch in epochs)
        reports.close(ended_well=True)
    steps = (*range(1, 5), *range(11, 14))
    assert curves_of(folder) == {"loss": {step: float(step) for step in steps}}


def test_the_warning_goes_when_a_line_matches_after_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(script_rank, "_UNMATCHED_NS", 0)
    reports, folder = (
        reports_of(tmp_path, log_numbers=["loss: {loss}"]),
        JobFolder(tmp_path / "job"),
    )
    reports.update()
    assert list(reports._reporter._alarms) == [UNMATCHED]
    folder.rank_log(0).write_text("loss: 0.5\n")
    reports.close(ended_well=True)
    status = last_status(folder)
    assert status is not None
    assert not status.alarms


def test_a_curve_that_becomes_nan_is_a_warning(tmp_path: Path) -> None:
    reports = reports_of(tmp_path)
    folder, log = JobFolder(tmp_path / "job"), JobFolder(tmp_path / "job").rank_log(0)
    values = (("loss", 1.0), ("loss", math.nan), ("grad_norm", math.nan), ("val_loss", math.nan))
    with log.open("a") as file:
        for step, (name, value) in enumerate(values, 1):
            file.write(f"{json.dumps({'step': step, name: value})}\n")
    reports.close(ended_well=True)
    status = last_status(folder)
    assert status is not None
    assert [(alarm.kind, alarm.step) for alarm in status.alarms] == [(BAD_CURVE, 4)]
    assert status.alarms[0].message == "The script wrote NaN for loss, val_loss."
