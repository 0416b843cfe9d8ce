"""The command line as its user meets it: words in, one document or one sentence out."""

from __future__ import annotations

import getpass
import json
import subprocess
import sys
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tomli_w

from backend.cli.main import run
from backend.node.system.start_supervisor import CODE_ROOT
from backend.records.base.atomic_files import read_json
from backend.records.base.layout import DataRoot
from backend.records.base.program_name import COMMAND
from backend.records.jobs.state import JobState
from backend.records.nodes.reading import Finding
from backend.services.context.container import Services
from backend.services.nodes.service import NodeService
from tests.fakes import trained
from tests.integration.conftest import is_training, leftovers
from tests.integration.tiny import ALONE, ENDLESS, raw_job
from tests.waiting import LIMIT_S, wait_for

VIEW = {
    "id": str,
    "name": str,
    "state": str,
    "run": int,
    "epoch": int,
    "epochs": int,
    "step": int,
    "total_steps": int,
    "world_size": int,
    "metrics": dict,
    "message": str,
    "error": type(None),
}


class Cli:
    """Runs main.py in this process, or as one of its own."""

    def __init__(self, root: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.common = [
            *("--data-root", str(root / "data")),
            *("--catalogue", str(root / "desktop" / "catalogue.sqlite")),
        ]
        self._capsys = capsys

    def __call__(self, *args: str | Path) -> tuple[int, str, str]:
        self._capsys.readouterr()
        code = run([*self.common, *map(str, args)], no_window)
        out, err = self._capsys.readouterr()
        return code, out, err

    def json(self, *args: str | Path) -> Any:
        code, out, err = self(*args, "--json")
        assert (code, err) == (0, ""), (out, err)
        return json.loads(out)

    def error(self, *args: str | Path) -> str:
        """Return the message of a refusal, the same for people and for scripts."""
        code, out, err = self(*args, "--json")
        assert (code, err) == (1, "")
        error = json.loads(out)["error"]
        assert set(error) == {"sentence", "remedy"}
        code, out, err = self(*args)
        assert (code, out) == (1, "")
        assert error["sentence"] in err
        return str(error["sentence"])

    def process(self, *args: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "main.py", *self.common, *args],
            cwd=CODE_ROOT,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )


def no_window(data_root: Path, catalogue: Path | None, demo_workers: int | None) -> int:
    raise AssertionError("no window was asked for")


@pytest.fixture
def cli(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Cli:
    return Cli(tmp_path, capsys)


@pytest.fixture
def filled_cli(workplace: Path, capsys: pytest.CaptureFixture[str]) -> Cli:
    return Cli(workplace, capsys)


def job_file(folder: Path, **changes: Any) -> Path:
    path = folder / "job.toml"
    path.write_text(tomli_w.dumps(raw_job(1, **{"batch_size": 16, **ALONE, **changes})))
    return path


def has_shape(view: dict[str, Any], **expected_fields: Any) -> None:
    assert {key: type(view[key]) for key in VIEW} == VIEW
    assert {key: view[key] for key in expected_fields} == expected_fields


def test_an_import_lists_files_that_it_left_out(cli: Cli, tmp_path: Path) -> None:
    folder = tmp_path / "pictures"
    folder.mkdir()
    for name in ("a.csv", "._a.csv", ".DS_Store"):
        (folder / name).write_text("x")
    item = cli.json("dataset", "import", folder, "--name", "pictures")
    assert item["facts"] == {"left_out": 2, "left_out_names": [".DS_Store", "._a.csv"]}
    _, out, _ = cli("dataset", "import", folder, "--name", "pictures")
    imported_line, omitted_line, misfit_line = out.splitlines()
    assert imported_line == "Imported dataset pictures@2: 1 file, 1 B."
    assert omitted_line.startswith("Left out, as files of systems")
    assert omitted_line.endswith(": 2 files (.DS_Store, ._a.csv).")
    assert misfit_line.startswith("No loader of the gallery fits these files (1 .csv): a.csv is no")
    assert misfit_line.endswith(f"To import a loader: {COMMAND} loader import PATH")


def test_an_import_names_the_loader_that_fits_the_data(cli: Cli, tmp_path: Path) -> None:
    folder = tmp_path / "iris"
    folder.mkdir()
    (folder / "iris.csv").write_text("a;b;kind\n1,5;2;x\n3;;y\n5;6;x\n7;8;y\n")
    _, out, _ = cli("dataset", "import", folder, "--name", "iris")
    assert out.splitlines()[1:] == [
        "This looks like a table: iris.csv with 3 columns, some values missing, which become the "
        "mean of their column; predicted is kind. Read as numbers with a decimal comma: "
        "1 column (a). "
        f"To use its loader: {COMMAND} gallery add table --set missing=mean"
    ]
    suggestion = cli.json("dataset", "import", folder, "--name", "iris")["suggestion"]
    assert suggestion["entry"] == "table"
    assert suggestion["facts"] == {"features": 2, "classes": 2}
    assert cli.json("loader", "import", "resources/gallery/digits/loader", "--name", "digits")[
        "kind"
    ]


def test_a_folder_with_all_three_is_imported_by_one_command(cli: Cli, tmp_path: Path) -> None:
    folder = tmp_path / "plankton"
    for path in ("net/bks_model.py", "reader/bks_dataset.py", "pictures/a.png", "README.md"):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text("x")
    code, out, _ = cli("project", "import", folder, "--name", "plankton")
    assert (code, out.splitlines()) == (
        0,
        [
            "Imported dataset plankton@1: 1 file, 1 B.",
            "Imported loader plankton@1: 1 file, 1 B.",
            "Imported model plankton@1: 1 file, 1 B.",
            "Not imported: README.md.",
        ],
    )
    second_import = cli.json("project", "import", folder, "--name", "plankton")
    assert [(item["kind"], item["version"]) for item in second_import] == [
        ("dataset", 1),
        ("loader", 1),
        ("model", 1),
    ]
    assert cli.error("project", "import", folder / "net", "--name", "net") == (
        f"No model with its loader was found in {folder / 'net'}."
    )


def test_the_log_of_a_progress_bar_is_what_a_terminal_shows(cli: Cli, tmp_path: Path) -> None:
    job_id = trained.job(tmp_path / "data", "bars", [1.0])
    log = DataRoot(tmp_path / "data").job(job_id).rank_log(0)
    log.parent.mkdir(parents=True, exist_ok=True)
    bar = "".join(f"\r\x1b[32m{number:6d}/20000 |█████|\x1b[0m" for number in range(20_001))
    log.write_text(f"begins\r\n{bar}\nnext\n{bar}\r", newline="")
    expected_log = "begins\n 20000/20000 |█████|\nnext\n 20000/20000 |█████|"
    assert cli("job", "log", job_id, "--rank", "0") == (0, expected_log, "")
    assert cli.json("job", "log", job_id, "--rank", "0") == {"rank": 0, "text": expected_log}


def test_s20_a_job_from_import_to_export_in_documents(filled_cli: Cli, tmp_path: Path) -> None:
    cli = filled_cli
    for kind in ("model", "loader", "dataset"):
        cli.json(kind, "import", tmp_path / "sources" / kind, "--name", "tiny")
        item, _ = cli.json(kind, "list")
        assert item.keys() >= {"name", "version", "sha256", "bytes", "files", "created"}
        assert cli.json(kind, "show", "tiny@2") == item
    gate_file = tmp_path / "go"
    pausing = {"PAUSE_S": "0.1", "PAUSED_UNTIL": str(gate_file)}
    created_job = cli.json("job", "create", job_file(tmp_path, environment=pausing))
    has_shape(created_job, state="CREATED", run=0, epochs=4, world_size=1, step=0)
    job_id = created_job["id"]
    started = cli.json("job", "start", job_id)
    has_shape(started, run=1, id=job_id)
    assert JobState(started["state"]).is_live
    status = tmp_path / "data" / "jobs" / job_id / "status.json"
    wait_for(lambda: read_json(status)["step"] > 0, "the first step")
    stopped = cli.json("job", "stop", job_id, "--wait")
    has_shape(stopped, state="INTERRUPTED", run=1, total_steps=128)
    gate_file.touch()
    finished = cli.json("job", "resume", job_id, "--wait")
    has_shape(finished, state="FINISHED", run=2, step=128, epoch=4)
    assert cli.json("job", "wait", job_id) == finished
    assert cli.json("job", "list") == [finished]
    history = cli.json("job", "history", job_id)
    assert history["step"] == list(range(1, 129))
    assert history["epoch"] == list(np.repeat(range(1, 5), 32))
    assert all(len(values) == 128 for values in history["metrics"].values())
    assert history["metrics"]["validation/accuracy"][:31] == [None] * 31
    assert history["metrics"]["validation/accuracy"][31] > 0
    checkpoints = cli.json("job", "checkpoints", job_id)
    keys = {"name", "epoch", "step", "bytes", "sha256", "path", "is_latest", "is_best"}
    assert all(record.keys() >= keys for record in checkpoints)
    assert sum(record["is_latest"] for record in checkpoints) == 1
    assert sum(record["is_best"] for record in checkpoints) == 1
    second_run, first_run = cli.json("job", "runs", job_id)
    assert (second_run["number"], second_run["state"], first_run["number"]) == (2, "FINISHED", 1)
    assert first_run["message"].startswith(f"Stopped by {getpass.getuser()}. Saved at epoch ")
    assert (first_run["first_step"], second_run["last_step"]) == (1, 128)
    log = cli.json("job", "log", job_id, "--rank", "0")["text"]
    assert "run 1, rank 0" in log
    assert "run 2, rank 0" in log
    output = tmp_path / "tiny.zip"
    export_args = ("--checkpoint", "best", "--format", "zip", "--output", str(output))
    assert cli.json("job", "export", job_id, *export_args)["path"] == str(output)
    assert "exists already" in cli.error("job", "export", job_id, *export_args)
    code, out, _ = cli("job", "clone", job_id)
    assert code == 0
    assert tomllib.loads(out) == cli.json("job", "clone", job_id)
    removed_job = cli.json("job", "remove", job_id)
    assert removed_job["id"] == job_id
    assert cli.json("job", "list") == []
    assert cli.json("job", "restore", job_id)["id"] == job_id
    assert cli.json("job", "log", job_id, "--rank", "0")["text"] == log
    assert "There is no job" in cli.error("job", "restore", job_id)


def test_text_for_people_has_tables_and_sentences(filled_cli: Cli, tmp_path: Path) -> None:
    code, out, err = filled_cli("job", "list")
    assert (code, out) == (0, "")
    assert "no jobs yet" in err
    job_id = filled_cli.json("job", "create", job_file(tmp_path))["id"]
    code, out, _ = filled_cli("job", "list")
    assert out.splitlines()[0].split() == ["ID", "STATE", "PROGRESS", "NAME", "MESSAGE"]
    assert job_id in out
    code, out, _ = filled_cli("job", "show", job_id)
    assert "tiny@1" in out
    code, out, _ = filled_cli("model", "list")
    assert "tiny" in out
    code, out, err = filled_cli("job", "checkpoints", job_id)
    assert (code, out) == (0, "")


BAD_CONFIGS: list[tuple[str, dict[str, Any] | None, str]] = [
    ("name missing", {"name": None}, "name: is missing"),
    ("name of the wrong type", {"name": 3}, "name: must be text"),
    ("model missing", {"model": None}, "model: is missing"),
    ("model unknown", {"model": "nothing"}, "nothing"),
    ("model version unknown", {"model": "tiny@9"}, "tiny"),
    ("version that is none", {"model": "tiny@x"}, "NAME@VERSION"),
    ("dataset unknown", {"dataset": "nothing"}, "dataset: "),
    ("loader unknown", {"loader": "nothing"}, "loader: "),
    ("validation unknown", {"validation_dataset": "nothing"}, "validation_dataset: "),
    ("weights unknown", {"start_from": "nowhere.pt"}, "start_from: "),
    ("epochs out of range", {"epochs": 0}, "epochs: must be between 1 and"),
    ("epochs no number", {"epochs": "many"}, "epochs: must be a whole number"),
    ("batch out of range", {"batch_size": -1}, "batch_size: must be between 1 and"),
    ("batch larger than the dataset", {"batch_size": 300}, "the dataset has 512"),
    ("optimizer unknown", {"optimizer": {"name": "sgdd", "lr": 1.0}}, "optimizer.name"),
    ("rate not above 0", {"optimizer": {"name": "sgd", "lr": 0.0}}, "optimizer.lr"),
    ("schedule unknown", {"schedule": {"name": "cosin"}}, "schedule.name"),
    ("unknown key", {"epoch": 3}, "epoch: is not a setting of a job. Did you mean “epochs”?"),
    ("wrong node", {"placement": [{"node": "that-computer", "processes": 1}]}, "no node"),
    ("no such GPU", {"placement": [{"node": "this-computer", "gpus": ["GPU-0"]}]}, "no GPU"),
    (
        "more processes than slots",
        {"placement": [{"node": "this-computer", "processes": 4096}]},
        "at most",
    ),
    (
        "CPU and GPU mixed",
        {
            "placement": [
                {"node": "this-computer", "processes": 1},
                {"node": "b", "gpus": ["GPU-1"]},
            ]
        },
        "mixes GPUs and CPUs",
    ),
    ("no placement", {"placement": []}, "placement: needs at least one node"),
]


@pytest.mark.parametrize(
    ("changes", "message"),
    [case[1:] for case in BAD_CONFIGS],
    ids=[case[0] for case in BAD_CONFIGS],
)
def test_f51_a_fault_of_a_job_file_is_one_sentence_and_nothing_is_made(
    filled_cli: Cli, tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    raw = {key: value for key, value in (raw_job() | changes).items() if value is not None}
    path = tmp_path / "job.toml"
    path.write_text(tomli_w.dumps(raw))
    assert message in filled_cli.error("job", "create", path)
    assert filled_cli.json("job", "list") == []
    assert not list((tmp_path / "data" / "jobs").glob("*"))


def test_f51_one_error_names_all_faults(filled_cli: Cli, tmp_path: Path) -> None:
    path = job_file(tmp_path, epochs=0, model="nothing", batch_size="x", flavour=1)
    message = filled_cli.error("job", "create", path)
    for name in ("epochs", "model", "batch_size", "flavour"):
        assert f"{name}: " in message


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (b'name = "x"\nmodel = \n', "line 2"),
        (b'name = "x"\n\n[optimizer\n', "line 3"),
        (b'name = "x"\nname = "y"\n', "line 2"),
        (b'name = "x', "line 1"),
        (b'name = "x"\nnotes = "\xff"\n', "line 2"),
        (b'[[placement]]\nnode = "a"\n[placement]\n', "line 3"),
    ],
)
def test_f51_a_syntax_error_names_its_line(
    cli: Cli, tmp_path: Path, content: bytes, line: str
) -> None:
    path = tmp_path / "job.toml"
    path.write_bytes(content)
    assert f"{path}, {line}:" in cli.error("job", "create", path)


def test_f51_a_path_without_a_job_file_is_an_error(cli: Cli, tmp_path: Path) -> None:
    assert "No such file" in cli.error("job", "create", tmp_path / "none.toml")
    assert "Is a directory" in cli.error("job", "create", tmp_path)
    huge_file = tmp_path / "huge.toml"
    huge_file.write_bytes(b"#" * 2_000_000)
    assert "larger than" in cli.error("job", "create", huge_file)


@pytest.mark.parametrize(
    "args",
    [
        ("job", "show", "nothing"),
        ("job", "start", "nothing"),
        ("job", "wait", ".."),
        ("job", "log", "nothing", "--rank", "3"),
        ("model", "show", "nothing"),
        ("dataset", "remove", "nothing"),
        ("node", "check", "nothing"),
    ],
)
def test_an_unknown_name_is_one_sentence(cli: Cli, args: Sequence[str]) -> None:
    assert args[2] in cli.error(*args)


def test_a_failed_job_makes_wait_fail_and_names_the_cause(filled_cli: Cli, tmp_path: Path) -> None:
    sources = tmp_path / "sources" / "model"
    model = (sources / "bks_model.py").read_text()
    broken_model = model.replace("return self.layer(data)", "raise ValueError('no such layer')")
    (sources / "bks_model.py").write_text(broken_model)
    filled_cli.json("model", "import", sources, "--name", "broken")
    job_id = filled_cli.json("job", "create", job_file(tmp_path, model="broken"))["id"]
    code, out, err = filled_cli("job", "start", job_id, "--wait", "--json")
    view = json.loads(out)
    assert (code, err, view["state"]) == (1, "", "ERROR")
    keys = {"rank", "node", "sentence", "traceback", "cause", "remedy", "evidence"}
    keys |= {"says_remedy", "sound_step", "retry"}
    assert set(view["error"]) == keys
    assert view["error"]["cause"] == "user_code"
    assert "import it as a new version" in view["error"]["remedy"]
    evidence = view["error"]["evidence"][-1]
    folder = next(tmp_path.rglob(f"jobs/{job_id}/logs"))
    log = (folder / evidence["file"]).read_text().splitlines()
    assert "no such layer" in log[evidence["line"] - 1] == evidence["text"]
    assert "no such layer" in view["error"]["sentence"]
    assert "bks_model.py" in view["error"]["traceback"]
    code, out, _ = filled_cli("job", "wait", job_id)
    assert code == 1
    assert "no such layer" in out


def has_state(state: JobState) -> Callable[[Any], bool]:
    return lambda view: view.state is state or view.state.is_over


@pytest.mark.parametrize(
    "state",
    [
        "TRAINING",
        *(pytest.param(s, marks=pytest.mark.slow) for s in ("STARTING", "STOPPING", "SAVING")),
    ],
)
def test_f06_m12_a_killed_command_line_changes_nothing(
    filled_cli: Cli, services: Services, tmp_path: Path, state: str
) -> None:
    # "Saving" is met where a checkpoint is made at every step.
    checkpoint_settings = {"every_steps": 1, "keep_latest": 2, "keep_best": 0}
    changes = (
        {"epochs": 100_000, "checkpoint": checkpoint_settings} if state == "SAVING" else ENDLESS
    )
    jobs = services.jobs
    job_id = filled_cli.json("job", "create", job_file(tmp_path, **changes))["id"]
    process = filled_cli.process("job", "start", job_id, "--wait")
    try:
        # What is killed between the claim and the supervisor starts nothing.
        attempt = services.data_root.job(job_id).attempt(1)
        wait_for(attempt.supervisor.exists, "the supervisor")
        if state == "STOPPING":
            jobs.queries.wait(job_id, is_finished=is_training)
            jobs.lifecycle.stop(job_id)
        elif state != "STARTING":
            jobs.queries.wait(job_id, is_finished=has_state(JobState(state)))
    finally:
        process.kill()
        process.wait()
    if state != "STOPPING":
        view = jobs.queries.wait(job_id, is_finished=is_training)
        assert view.state.is_live, view
        assert filled_cli.json("job", "show", job_id)["state"] in {s.value for s in JobState}
        reached = view.step
        view = jobs.queries.wait(job_id, is_finished=lambda v: v.step > reached or v.state.is_over)
        assert view.state.is_live, view
        filled_cli.json("job", "stop", job_id, "--wait")
    view = jobs.queries.wait(job_id)
    assert (view.state, view.run) == (JobState.INTERRUPTED, 1), view
    history = jobs.queries.history(job_id)
    assert list(history.steps) == list(range(1, view.step + 1))
    assert leftovers(view) == []


CTRL_C = """
import runpy, signal
from types import SimpleNamespace
from backend.services.jobs import queries

# In the import of numpy, which comes before, an interrupt may become an ImportError.
queries.time = SimpleNamespace(sleep=lambda _: signal.raise_signal(signal.SIGINT))
runpy.run_path("main.py", run_name="__main__")
"""
"""Starts main.py, whose first wait for an update of a run is interrupted."""


def test_ctrl_c_while_waiting_leaves_the_job_alone_and_says_so(
    filled_cli: Cli, services: Services, tmp_path: Path
) -> None:
    job_id = filled_cli.json("job", "create", job_file(tmp_path, **ENDLESS))["id"]
    services.jobs.lifecycle.start(job_id)
    services.jobs.queries.wait(job_id, is_finished=is_training)
    # What a shell starts in its background ignores Ctrl+C, and so do its children.
    command = ["env", "--default-signal=INT", sys.executable, "-c", CTRL_C, *filled_cli.common]
    process = subprocess.run(
        [*command, "job", "wait", job_id],
        cwd=CODE_ROOT,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert (process.returncode, process.stdout) == (1, "")
    assert f"The job {job_id} continues" in process.stderr
    assert services.jobs.queries.show(job_id).state.is_live
    services.jobs.lifecycle.stop(job_id)
    assert services.jobs.queries.wait(job_id).state is JobState.INTERRUPTED


def test_no_subcommand_opens_the_window_on_the_given_places(tmp_path: Path) -> None:
    opened_windows: list[tuple[Path, Path | None, int | None]] = []

    def window(data_root: Path, catalogue: Path | None, workers: int | None) -> int:
        opened_windows.append((data_root, catalogue, workers))
        return 7

    assert run(["--data-root", str(tmp_path)], window) == 7
    assert opened_windows == [(tmp_path, None, None)]


def test_a_reader_that_stops_early_is_no_error(filled_cli: Cli) -> None:
    process = subprocess.run(
        [
            *("bash", "-c", '"$@" | head -c 1', "-", sys.executable, "main.py"),
            *(*filled_cli.common, "dataset", "list", "--json"),
        ],
        cwd=CODE_ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (process.stdout, process.stderr) == ("[", "")


def test_nodes_and_findings_of_the_doctor_are_documents(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    (node,) = cli.json("node", "list")
    assert node.keys() >= {"name", "state", "findings", "gpus", "cpu"}
    assert (node["name"], node["state"]) == ("this-computer", "ONLINE")
    assert node["cpu"]["cores"] >= 1
    finding = Finding("mpirun", False, "There is no mpirun here.", "Install it.")
    monkeypatch.setattr(NodeService, "doctor", lambda _: (finding,))
    code, out, _ = cli("doctor", "--json")
    keys = {"check": "mpirun", "ok": False, "sentence": finding.message, "remedy": finding.remedy}
    assert (code, json.loads(out)) == (1, [keys])
    code, out, _ = cli("doctor")
    assert code == 1
    assert "There is no mpirun here." in out


@pytest.mark.slow
def test_the_check_of_this_healthy_computer_begins_with_the_doctor(cli: Cli) -> None:
    findings = cli.json("doctor")
    assert {finding["check"] for finding in findings} >= {"mpirun", "data root"}
    assert all(finding["ok"] for finding in findings), findings
    (node_check,) = cli.json("node", "check", "this-computer")
    names = [finding["check"] for finding in node_check["findings"]]
    assert names[: len(findings)] == [finding["check"] for finding in findings]


def test_the_library_is_previewed_and_checked_in_documents(filled_cli: Cli) -> None:
    preview = filled_cli.json("dataset", "preview", "tiny", "--loader", "tiny")
    assert preview["count"] == 512
    scan = filled_cli.json("dataset", "scan", "tiny", "--loader", "tiny")
    assert (scan["samples"], scan["not_finite"], scan["broken"]) == (512, 0, [])
    for key in ("duplicates", "near_duplicates", "leaks"):
        assert all(len(pair) == 2 for pair in scan[key])
    check = filled_cli.json("model", "check", "tiny", "--dataset", "tiny", "--loader", "tiny")
    assert check["parameters"] == 10
    report = filled_cli.json("rescan")
    assert (report["datasets"], report["models"], report["loaders"]) == (1, 1, 1)
    assert filled_cli.json("loader", "remove", "tiny")["name"] == "tiny"
    assert filled_cli.json("loader", "list") == []


def test_show_lists_the_settings_that_are_not_the_default(filled_cli: Cli, tmp_path: Path) -> None:
    settings = {"accumulate": 2, "ema": 0.99, "freeze": ["fc."], "precision": "bfloat16"}
    job_id = filled_cli.json("job", "create", job_file(tmp_path, **settings))["id"]
    _, out, _ = filled_cli("job", "show", job_id)
    lines = [" ".join(line.split()) for line in out.splitlines()]
    expected_lines = ["Freeze fc.", "Passes of a step 2", "Precision bfloat16"]
    assert [line for line in lines if line in expected_lines] == expected_lines
    assert "Average of weights, decay 0.99" in lines
    assert not any(line.startswith(("Seed", "Stall limit", "Model tiny tiny")) for line in lines)


def test_a_plan_trains_for_a_moment_and_leaves_nothing(filled_cli: Cli, tmp_path: Path) -> None:
    plan = filled_cli.json("job", "plan", job_file(tmp_path, epochs=100))
    assert plan["step_s"] > 0
    assert plan["measured_steps"] > 0
    assert plan["memory"]["other_bytes"] > 0, "PyTorch itself needs memory"
    assert plan["by_nodes"][0]["lasts_s"] > 0
    assert filled_cli.json("job", "list") == []
    assert list(Path(filled_cli.common[1]).glob("jobs/.canary*")) == []


def test_the_rate_of_a_job_file_is_searched_without_a_job(filled_cli: Cli, tmp_path: Path) -> None:
    search = filled_cli.json("job", "find-rate", job_file(tmp_path))
    assert len(search["steps"]) > 10
    code, out, _ = filled_cli("job", "find-rate", job_file(tmp_path))
    assert (code, out.splitlines()[0].split()) == (0, ["Rate", "Loss", "Smooth"])
    assert filled_cli.json("job", "list") == []
    batch = {"strategy": {"name": "sandblaster"}, "optimizer": {"name": "lbfgs", "lr": 1.0}}
    placement = [{"node": "this-computer", "processes": 2}]
    message = filled_cli.error("job", "find-rate", job_file(tmp_path, placement=placement, **batch))
    assert message == "Sandblaster chooses the length of each step itself."


def test_a_job_is_simulated_with_the_given_staleness(filled_cli: Cli, tmp_path: Path) -> None:
    downpour = {"strategy": {"name": "downpour"}}
    placement = [{"node": "this-computer", "processes": 2}]
    file = job_file(tmp_path, epochs=2, placement=placement, **downpour)
    epochs = filled_cli.json("job", "simulate", file, "--staleness", "2")["epochs"]
    assert [epoch["epoch"] for epoch in epochs] == [1, 2]
    assert (epochs[1]["staleness_mean"], epochs[1]["staleness_max"]) == (2.0, 2)
    code, out, _ = filled_cli("job", "simulate", file, "--staleness", "0")
    assert (code, out.splitlines()[0].split()[:3]) == (0, ["Epoch", "Updates", "Loss"])
    assert filled_cli.json("job", "list") == []
    message = filled_cli.error("job", "simulate", job_file(tmp_path), "--staleness", "2")
    assert message == "The strategy “alone” is synchronous, so it has no staleness."
    batch = {"strategy": {"name": "sandblaster"}, "optimizer": {"name": "lbfgs", "lr": 1.0}}
    file = job_file(tmp_path, placement=placement, **batch)
    message = filled_cli.error("job", "simulate", file, "--staleness", "2")
    assert message == "The strategy “sandblaster” is synchronous, so it has no staleness."


def test_a_seed_that_draws_nothing_is_refused(filled_cli: Cli, tmp_path: Path) -> None:
    axis = ("--set", "optimizer.lr=0.1,0.2", "--seed", "3", "--dry-run")
    message = filled_cli.error("job", "sweep", job_file(tmp_path), *axis)
    assert message == "--seed has no effect: the sweep has all combinations, and draws none."
    assert filled_cli("job", "sweep", job_file(tmp_path), *axis, "--random", "1")[0] == 0


def test_a_sweep_shows_no_value_where_a_setting_does_not_exist(
    filled_cli: Cli, tmp_path: Path
) -> None:
    axes = ("--set", "optimizer.name=sgd,adamw", "--set", "optimizer.momentum=0,0.9")
    code, output, _ = filled_cli("job", "sweep", job_file(tmp_path), "--dry-run", *axes)
    assert code == 0
    values = [line.split()[-2:] for line in output.splitlines()[1:]]
    assert values == [["sgd", "0"], ["sgd", "0.9"], ["optimizer=adamw", "adamw"]]
