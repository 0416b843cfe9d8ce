"""A sweep in the queue: named jobs, all of them or a given number, and the way back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import tomli_w

from backend.base.errors import BackendError
from backend.base.progress import Progress
from backend.cli.main import run
from backend.node.run.run_start import claim
from backend.records.base.atomic_files import replace_json
from backend.records.base.local_files import Files
from backend.records.jobs.state import JobState
from backend.records.jobs.status import RunExit, RunStatus
from backend.records.library.item import Kind
from backend.records.sweeps.search import Search
from backend.records.sweeps.spec import Sweep, sweep_of, sweep_title
from backend.records.sweeps.values import Axis
from backend.services.context.container import Services, open_services
from backend.services.queue.service import QueueService
from backend.services.sweeps.service import IncompleteSweep
from backend.services.tools import tool_process
from backend.services.tools.tool_process import ToolError
from tests.integration.tiny import raw_job, write_sources

RATE = Axis("optimizer.lr", (0.01, 0.03, 0.1))
BATCH = Axis("batch_size", (8, 16))
SIX = [f"tiny batch={batch} lr={rate}" for batch in (8, 16) for rate in (0.01, 0.03, 0.1)]


@pytest.fixture
def paths(tmp_path: Path) -> tuple[Path, Path]:
    return tmp_path / "root", tmp_path / "here" / "c.sqlite"


@pytest.fixture
def services(
    paths: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Services]:
    def measure(*_: object, **__: object) -> None:
        raise ToolError("not now")

    # Nothing is measured in a process with torch, and what waits is not started.
    monkeypatch.setattr(tool_process, "count_samples", measure)
    monkeypatch.setattr(QueueService, "ensure_keeper", lambda self: None)
    container = open_services(*paths)
    model, loader, dataset = write_sources(tmp_path / "sources")
    for kind, source in ((Kind.MODEL, model), (Kind.LOADER, loader), (Kind.DATASET, dataset)):
        container.library.import_item(kind, source, "tiny")
    container.queue.pause()
    yield container
    container.close()


class CancelledAt(Progress):
    """The user cancels when this is being done."""

    def __init__(self, label: str) -> None:
        super().__init__()
        self.label, self.heard = label, []

    def report(self, done: float, total: float, label: str) -> None:
        self.heard.append((done, total, label))
        if label == self.label:
            self.cancel()


def waiting_names(services: Services) -> list[str]:
    return [slot.entry.name for slot in services.queue.read().jobs]


def test_a_sweep_keeps_the_typed_name_and_is_numbered_only_if_there_is_one_of_it(
    services: Services,
) -> None:
    def queued(name: str) -> str:
        sweep = services.sweeps.queue(Sweep({**raw_job(1), "name": name}, (RATE,)))
        names = [view.name for view in sweep.jobs]
        title = sweep_title(sweep.tag, names)
        assert names == [f"{title} lr={rate}" for rate in (0.01, 0.03, 0.1)]
        return title

    assert [queued(name) for name in ("shapes", "shapes", "shapes 2", "shapes")] == [
        *("shapes", "shapes (2)", "shapes 2", "shapes (3)")
    ]
    for view in services.jobs.queries.list():
        if view.name.startswith("shapes (2)"):
            services.queue.dequeue(view.id)
            services.jobs.remove(view.id)
    assert queued("shapes") == "shapes (2)", "it is free again"


def test_s10_a_grid_of_two_by_three_makes_six_named_jobs_in_the_queue(services: Services) -> None:
    progress = CancelledAt("")
    sweep = services.sweeps.queue(Sweep(raw_job(1), (BATCH, RATE)), progress)
    assert [view.name for view in sweep.jobs] == SIX == waiting_names(services)
    assert {view.state for view in sweep.jobs} == {JobState.QUEUED}
    assert {sweep_of(view.tags) for view in services.jobs.queries.list()} == {sweep.tag}
    assert [(v.config.batch_size, v.config.optimizer.lr) for v in sweep.jobs] == [
        (batch, rate) for batch in BATCH.values for rate in RATE.values
    ]
    assert progress.heard[0] == (0, 12, "Making job 1 of 6")
    assert progress.heard[-1] == (12, 12, "Queued 6 jobs")


def test_two_sweeps_of_one_job_are_two_sweeps(services: Services) -> None:
    sweep = Sweep(raw_job(1), (BATCH,))
    assert services.sweeps.queue(sweep).tag != services.sweeps.queue(sweep).tag


def test_one_impossible_job_prevents_the_whole_sweep(services: Services) -> None:
    with pytest.raises(BackendError, match=r"loader: There is no loader “other”"):
        services.sweeps.queue(Sweep(raw_job(1), (RATE, Axis("loader", ("tiny", "other")))))
    with pytest.raises(BackendError, match=r"optimizer\.lr: “-1” must be above 0\."):
        services.sweeps.queue(Sweep(raw_job(1), (Axis("optimizer.lr", (0.1, -1)),)))
    assert services.jobs.queries.list() == ()


def test_the_form_gets_the_first_job_and_the_faults_of_all_jobs(services: Services) -> None:
    check = services.sweeps.check(Sweep(raw_job(2), (BATCH, RATE)))
    assert (check.jobs, check.global_batch, check.may_start) == (6, 16, True)
    assert check.learning_rate == pytest.approx(0.02)
    bad = services.sweeps.check(Sweep(raw_job(2), (Axis("batch_size", (8, 0)),)))
    assert [error.path for error in bad.errors] == ["batch_size"]
    assert not bad.may_start


def test_a_cancelled_sweep_counts_its_jobs_and_can_be_cancelled_as_a_whole(
    services: Services,
) -> None:
    sweep = Sweep(raw_job(1), (BATCH, RATE))
    with pytest.raises(BackendError, match="nothing was changed"):
        services.sweeps.queue(sweep, _cancelled())
    with pytest.raises(
        IncompleteSweep, match=r"Cancelled: 6 of 6 jobs were made, 2 of them are queued\."
    ) as cancelled:
        services.sweeps.queue(sweep, CancelledAt("Queueing job 2 of 6"))
    assert waiting_names(services) == SIX[:2]
    assert cancelled.value.tag in cancelled.value.remedy
    cancelled_sweep = services.sweeps.cancel(cancelled.value.tag)
    assert len(cancelled_sweep.removed_jobs) == 6
    assert cancelled_sweep.remaining_jobs == ()
    assert services.jobs.queries.list() == ()
    assert len(list((services.data_root.trash / "jobs").iterdir())) == 6
    with pytest.raises(BackendError, match="There is no job of the sweep “tiny-"):
        services.sweeps.cancel(cancelled.value.tag)


def _cancelled() -> Progress:
    progress = Progress()
    progress.cancel()
    return progress


def test_a_job_that_ran_stays_when_its_sweep_is_cancelled(services: Services) -> None:
    sweep = services.sweeps.queue(Sweep(raw_job(1), (BATCH,)))
    ran = sweep.jobs[0].id
    services.queue.dequeue(ran)
    folder = services.data_root.job(ran)

    folder.attempt(1).path.mkdir(parents=True)
    replace_json(folder.attempt(1).exit, RunExit(1, JobState.INTERRUPTED, "").to_dict())
    cancelled_sweep = services.sweeps.cancel(sweep.tag)
    assert [view.id for view in cancelled_sweep.remaining_jobs] == [ran]
    assert [view.id for view in services.jobs.queries.list()] == [ran]


def test_a_clone_of_a_job_of_a_sweep_belongs_to_no_sweep(services: Services) -> None:
    base = raw_job(1, tags=["night"])
    sweep = services.sweeps.queue(Sweep(base, (BATCH,)))
    assert services.jobs.clone(sweep.jobs[0].id)["tags"] == ["night"]
    assert services.sweeps.base_job_file(sweep.jobs[0].id)["name"] == SIX[0].split(" lr")[0]


def run_command(paths: tuple[Path, Path], *arguments: str) -> int:
    root, catalogue = paths
    argv = ["job", "sweep", *arguments, "--data-root", str(root), "--catalogue", str(catalogue)]
    return run(argv, lambda *_: 0)


def test_the_command_line_queues_a_sweep_around_a_job_and_takes_it_back(
    services: Services, paths: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    job = services.jobs.create(raw_job(1))
    arguments = [job.id, "--set", "batch_size=8,16", "--set", "lr=0.01,0.03,0.1"]
    assert run_command(paths, *arguments, "--dry-run", "--json") == 0
    planned = json.loads(capsys.readouterr().out)
    assert [j["name"] for j in planned["jobs"]] == SIX
    assert planned["jobs"][0]["values"] == {"batch_size": 8, "optimizer.lr": 0.01}
    assert waiting_names(services) == []
    assert run_command(paths, *arguments, "--json") == 0
    printed = json.loads(capsys.readouterr().out)
    assert [j["name"] for j in printed["jobs"]] == SIX == waiting_names(services)
    assert run_command(paths, "--cancel", printed["sweep"]) == 0
    assert capsys.readouterr().out.startswith("Moved 6 jobs of tiny-")
    assert [view.id for view in services.jobs.queries.list()] == [job.id]


def test_a_sweep_file_draws_at_random_and_the_command_line_may_change_it(
    services: Services, paths: tuple[Path, Path], tmp_path: Path, capsys
) -> None:
    table = {"random": 3, "seed": 5, "axes": {"lr": {"from": 1e-3, "to": 0.1, "scale": "log"}}}
    path = tmp_path / "sweep.toml"
    path.write_text(tomli_w.dumps({**raw_job(1), "sweep": table}))
    assert run_command(paths, str(path), "--dry-run", "--json") == 0
    first = json.loads(capsys.readouterr().out)["jobs"]
    assert run_command(paths, str(path), "--dry-run", "--json", "--random", "5") == 0
    jobs = json.loads(capsys.readouterr().out)["jobs"]
    assert (len(first), len(jobs)) == (3, 5)
    assert jobs[:3] == first
    assert all(1e-3 <= j["values"]["optimizer.lr"] <= 0.1 for j in jobs)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "A sweep needs a job file or a job."),
        (["tiny", "--set", "lr"], "--set lr: has no “=”."),
        (["tiny", "--set", "lr=0.1", "--set", "optimizer.lr=0.2"], "optimizer.lr: is named twice."),
        (["tiny", "--set", "rate=0.1"], "rate: is not a setting of a job."),
        (["tiny", "--set", "lr="], "optimizer.lr: has no values;"),
        (["tiny"], "No field has several values; name at least one."),
        (["tiny", "--set", "seed=1..201:201"], "seed: has 201 steps; it must have 2 to 200."),
        (["--cancel", "none-abcd"], "There is no job of the sweep “none-abcd”."),
        (["tiny", "--set", "lr=0.1,1", "--goal", ""], "sweep.search.goal: names no metric,"),
        (["tiny", "--set", "lr=0.1,1", "--search", ""], "sweep.search.sampler: “” must be one of"),
    ],
)
def test_an_invalid_sweep_is_refused_in_a_sentence(
    services: Services, paths: tuple[Path, Path], capsys, arguments, message
) -> None:
    services.jobs.create(raw_job(1))
    assert run_command(paths, *arguments) == 1
    assert message in capsys.readouterr().err
    assert len(services.jobs.queries.list()) == 1


@pytest.mark.parametrize(
    ("goal", "better", "is_known"),
    [
        ("VAL_LOSS", "", True),
        ("training/loss", "", True),
        ("Validation loss", "", True),
        ("validation/acc", "", False),
        ("los", "lower", False),
    ],
)
def test_a_goal_that_finished_jobs_do_not_report_is_refused_with_those_that_exist(
    services: Services, goal: str, better: str, is_known: bool
) -> None:
    folder = services.data_root.job(services.jobs.create(raw_job(1)).id)
    assert claim(folder, 1, Files())
    metrics = {"loss": 0.5, "validation/loss": 0.7}
    status = RunStatus(JobState.FINISHED, run=1, metrics=metrics)
    replace_json(folder.status, status.to_dict())
    replace_json(folder.attempt(1).exit, RunExit(1, JobState.FINISHED, "").to_dict())
    sweep = Sweep(raw_job(1), (RATE,), search=Search(goal, better))
    messages = [error.message for error in services.sweeps.expand(sweep).errors]
    known = f"sweep.search.goal: “{goal}” is no metric of these jobs; they report loss, validation"
    assert [message.startswith(known) for message in messages] == [True] * (not is_known)


@pytest.mark.parametrize(
    ("axes", "message"),
    [
        # The value says which jobs are meant.
        ((Axis("optimizer.lr", (0.1, -1)),), "optimizer.lr: “-1” must be above 0."),
        ((Axis("loader", ("tiny", "other")),), "loader: There is no loader “other”"),
        # An error of another setting than those that differ names the job.
        (
            (Axis("strategy.name", ("allreduce", "downpour")),),
            "This is in the job “tiny strategy=downpour”.",
        ),
        (
            (Axis("strategy.name", ("allreduce", "downpour", "dcasgd")), RATE),
            "This is in the jobs “",
        ),
    ],
)
def test_an_error_of_some_jobs_says_of_which(
    services: Services, axes: tuple[Axis, ...], message: str
) -> None:
    expansion = services.sweeps.expand(Sweep(raw_job(1), axes))
    messages = [error.message for error in expansion.errors]
    assert any(message in text for text in messages), messages


def test_an_error_of_all_jobs_names_none(services: Services) -> None:
    expansion = services.sweeps.expand(Sweep({**raw_job(1), "epochs": 0}, (RATE,)))
    (error,) = expansion.errors
    assert error.message.startswith("epochs: must be between 1 and ")
    assert "This is in" not in error.message


def test_a_sweep_that_fails_half_way_names_the_job(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    create, made = services.jobs.create, []

    def fail_at_the_third(raw, progress=None, replay_of=""):
        if len(made) == 2:
            raise BackendError("The disk is full.")
        made.append(raw["name"])
        return create(raw)

    monkeypatch.setattr(services.jobs, "create", fail_at_the_third)
    with pytest.raises(IncompleteSweep) as caught:
        services.sweeps.queue(Sweep(raw_job(1), (BATCH, RATE)))
    third = services.sweeps.expand(Sweep(raw_job(1), (BATCH, RATE))).jobs[2].name
    assert caught.value.message.startswith(f"{third}: The disk is full: 2 of 6 jobs were made")


def test_a_search_is_planned_queued_with_the_lowest_rank_and_listed(
    paths: tuple[Path, Path],
    services: Services,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "tiny.toml"
    path.write_text(tomli_w.dumps({**raw_job(1), "name": "tiny <script>"}))
    common = ["--data-root", str(paths[0]), "--catalogue", str(paths[1])]

    def call(*arguments: str) -> tuple[int, str]:
        code = run([*arguments, *common], lambda *_: 0)
        output = capsys.readouterr()
        return code, output.out + output.err

    sweep = [
        "job",
        "sweep",
        str(path),
        "--set",
        "lr=1e-4..0.1:log",
        "--goal",
        "validation/accuracy",
    ]
    code, text = call(*sweep, "--trials", "2", "--dry-run")
    assert code == 0
    assert "Goal: validation/accuracy, higher is better. Sampler: TPE. Give up: worse than" in text
    assert "tiny <script> trial 2" in text
    assert "2 jobs; nothing was created." in text
    code, text = call(*sweep, "--trials", "2", "--search", "bo", "--dry-run")
    assert code != 0
    assert text.splitlines() == [
        "sweep.search.sampler: “bo” must be one of tpe, cma-es, random, grid."
    ]

    services.queue.enqueue(services.jobs.create(raw_job(1, name="of a user")).id, priority=-1)
    code, text = call(*sweep, "--trials", "2", "--at-once", "2")
    assert code == 0, text
    user_job = services.jobs.create(raw_job(1, name="user"))
    services.queue.enqueue(user_job.id)
    entries = [job.entry for job in services.queue.read().jobs]
    assert entries[0].job_id == user_job.id, "real work goes first"
    trials = [entry for entry in entries if "trial" in entry.name]
    assert [(e.name, e.at_once, e.priority) for e in trials] == [
        ("tiny <script> trial 1", 2, -1),
        ("tiny <script> trial 2", 2, -1),
    ]
    tag = trials[0].sweep
    assert call("job", "trials", tag)[1].startswith("No trial has begun yet.")
    code, text = call("job", "trials", "other")
    assert code != 0
    assert "There is no search “other”." in text
