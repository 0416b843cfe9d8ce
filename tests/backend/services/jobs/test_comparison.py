"""Jobs side by side: only what differs, the best named, all curves in one table."""

from __future__ import annotations

import csv
import gc
import io
import json
import math
import weakref
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from backend.base.errors import BackendError
from backend.cli.main import run
from backend.records.base.layout import DataRoot
from backend.records.jobs.comparison import ComparedRow, RowKind, RunFigures, compare
from backend.records.jobs.config import CheckpointPolicy, Optimizer
from backend.records.jobs.history import Block, HistoryUpdate, encode
from backend.records.jobs.placement import Placement
from backend.records.jobs.state import JobState
from backend.records.jobs.status import RunStatus
from backend.records.jobs.view import JobView, RunUpdate
from backend.services.context.container import Services, open_services
from tests.fakes import trained
from tests.job_views import replace_fields
from widgets.plots.curve_data import CurveData, XAxis
from widgets.plots.run_curves import RunCurves


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "root"


@pytest.fixture
def services(root: Path, tmp_path: Path) -> Iterator[Services]:
    container = open_services(root, tmp_path / "here" / "c.sqlite")
    yield container
    container.close()


def falling_losses(count: int, end: float = 0.3) -> list[float]:
    return [float(np.float32(end + 2 * math.exp(-step / 8))) for step in range(count)]


def row(rows: tuple[ComparedRow, ...], key: str) -> ComparedRow:
    return {r.key: r for r in rows}[key]


def test_s3_two_runs_that_differ_in_the_rate_differ_in_one_row(
    services: Services, root: Path
) -> None:
    a = trained.job(root, "slow", falling_losses(30), [0.7, 0.8, 0.85])
    b = trained.job(root, "fast", falling_losses(20), [0.8, 0.9], optimizer=Optimizer("sgd", 0.02))
    comparison = services.comparison.compare([a, b])
    assert [(r.label, r.values) for r in comparison.differing] == [
        ("Learning rate", ("0.01", "0.02"))
    ]
    assert len(comparison.equal) > 20
    best = row(comparison.results, "validation/accuracy")
    assert (best.label, best.values) == ("Best validation accuracy", (0.85, 0.9))
    assert best.best == (False, True)
    last = row(comparison.results, "last validation/accuracy")
    assert (last.label, last.values) == ("Last validation accuracy", (0.85, 0.9))
    assert row(comparison.results, "epochs_done").values == ("3", "2 of 3")


def test_gpu_hours_and_energy_are_compared_where_they_are_known() -> None:
    gpus = (Placement("gpu1", gpus=("GPU-a", "GPU-b")),)
    times = {"started_at": "2026-11-21T08:00:00Z", "updated_at": "2026-11-21T09:00:00Z", "run": 1}
    on_gpus = replace_fields(trained_view(placement=gpus), energy_j=1.8e6, **times)
    unknown = replace_fields(trained_view(placement=gpus), earlier_gpu_s=None, **times)
    on_processors = replace_fields(trained_view(), **times)
    figures = RunFigures()
    comparison = compare([(on_gpus, figures), (unknown, figures), (on_processors, figures)])
    assert row(comparison.results, "gpu_hours").values == (2.0, None, None)
    assert row(comparison.results, "energy_kwh").values == (0.5, None, None)
    without = compare([(on_processors, figures), (on_processors, figures)])
    assert not {"gpu_hours", "energy_kwh"} & {r.key for r in without.results}


@pytest.mark.parametrize(
    ("state", "epoch", "epochs_done"),
    [
        (JobState.FINISHED, 4, "4"),
        (JobState.FINISHED, 3, "3 of 4"),
        (JobState.FINISHED, 0, "0 of 4"),
        (JobState.TRAINING, 4, "3 of 4"),
        (JobState.INTERRUPTED, 1, "0 of 4"),
    ],
)
def test_the_newest_epoch_of_a_script_is_done_when_the_script_finished(
    state: JobState, epoch: int, epochs_done: str
) -> None:
    view = trained_view(epochs=0, script="s")
    view = replace_fields(view, state=state, run=1, epoch=epoch, epochs=4)
    comparison = compare([(view, RunFigures())])
    assert row(comparison.results, "epochs_done").values == (epochs_done,)


def trained_view(**settings: object) -> JobView:
    config = replace(trained.CONFIG, **settings)  # type: ignore[arg-type]
    return JobView("a", "a", config, "", RunStatus(JobState.FINISHED, earlier_gpu_s=0.0))


def test_s3_the_best_and_the_last_value_stand_below_each_other_and_only_the_best_is_marked(
    services: Services, root: Path
) -> None:
    a = trained.job(root, "a", falling_losses(30), [0.7, 0.95, 0.8])
    b = trained.job(root, "b", falling_losses(20), [0.8, 0.9])
    rows = services.comparison.compare([a, b]).results
    metrics = {r.label: (r.values, r.best) for r in rows if r.kind is RowKind.METRIC}
    assert metrics["Best validation accuracy"] == ((0.95, 0.9), (True, False))
    assert metrics["Last validation accuracy"] == ((0.8, 0.9), (False, False))
    labels = list(metrics)
    best = labels.index("Best validation accuracy")
    assert labels[best + 1] == "Last validation accuracy"
    assert [label for label in labels if label.startswith("Last")] == [
        *("Last validation accuracy", "Last training loss")
    ]
    assert not any(any(marks) for label, (_, marks) in metrics.items() if label.startswith("Last"))


def test_a_metric_without_a_common_direction_has_its_last_value_and_no_best(
    services: Services, root: Path
) -> None:
    lower = CheckpointPolicy(best_metric="validation/accuracy", best_mode="min")
    a = trained.job(root, "a", falling_losses(30), [0.7, 0.95, 0.8])
    b = trained.job(root, "b", falling_losses(20), [0.8, 0.9], checkpoint=lower)
    rows = services.comparison.compare([a, b]).results
    metrics = {r.label: (r.values, r.best) for r in rows if r.kind is RowKind.METRIC}
    assert metrics["Last validation accuracy"] == ((0.8, 0.9), (False, False))
    assert "Best validation accuracy" not in metrics


def test_an_omitted_setting_has_its_default(services: Services, root: Path) -> None:
    a = trained.job(root, "a", optimizer=Optimizer("sgd", 0.01))
    b = trained.job(root, "b", optimizer=Optimizer("sgd", 0.01, {"momentum": 0.0}))
    c = trained.job(root, "c", optimizer=Optimizer("adam", 0.01))
    assert services.comparison.compare([a, b]).differing == ()
    differing = {r.label: r.values for r in services.comparison.compare([a, c]).differing}
    assert differing["Optimizer"] == ("sgd", "adam")
    assert differing["Momentum"] == ("0.0", None)


def test_the_nodes_of_jobs_are_compared_and_their_names_are_not(
    services: Services, root: Path
) -> None:
    a = trained.job(root, "a", notes="first try", tags=("x",))
    b = trained.job(root, "b", placement=(Placement("gpu1", gpus=("GPU-1", "GPU-2")),))
    comparison = services.comparison.compare([a, b])
    assert [(r.label, r.values) for r in comparison.differing] == [
        ("Nodes", ("this computer × 2", "gpu1 × 2"))
    ]


def test_a_pause_between_two_runs_is_no_time_spent_training(services: Services, root: Path) -> None:
    a = trained.job(root, "a", falling_losses(20), step_s=2.0)
    b = trained.job(root, "b", falling_losses(20), step_s=2.0)
    history = DataRoot(root).job(b).history
    trained.write_steps(history, 21, falling_losses(10), run=2, step_s=2.0, late_s=86_400)
    comparison = services.comparison.compare([a, b])
    seconds = row(comparison.results, "epoch_seconds")
    assert seconds.kind is RowKind.SECONDS
    assert seconds.values == (pytest.approx(20.0), pytest.approx(20.0))


@pytest.mark.parametrize("blocks_per_write", [1, 2, 4])
def test_the_time_of_all_epochs_is_the_training_time(
    services: Services, root: Path, blocks_per_write: int
) -> None:
    a = trained.job(root, "a", state=JobState.TRAINING, epochs=8)
    history = DataRoot(root).job(a).history
    cursor: object = None
    for epoch in range(8):
        # Steps of two epochs are two blocks, also if both are written at once.
        time_s = 10 * (epoch // blocks_per_write + 1) * blocks_per_write
        steps = epoch * 10 + 1
        stamp = f"2026-11-21T07:{time_s // 60:02}:{time_s % 60:02}Z"
        block = Block("TRAINING", 1, epoch + 1, 10, steps, stamp, {"loss": [1.0] * 10})
        with history.open("ab") as file:
            file.write(encode(block))
        update = services.comparison.poll(a, cursor)
        cursor = update.cursor
    table = compare([(update.view, update.figures)])
    assert update.figures == services.comparison.poll(a).figures
    values = [row(table.results, key).values[0] for key in ("epoch_seconds", "seconds")]
    assert values == pytest.approx([10, 80])


def test_a_poll_says_how_the_previous_run_ended(services: Services, root: Path) -> None:
    a = trained.job(root, "a", falling_losses(20), state=JobState.INTERRUPTED)
    trained.write_steps(DataRoot(root).job(a).history, 21, falling_losses(10), run=2)
    starts = services.jobs.queries.poll(a).history.run_starts
    assert [(start.run, start.previous_state) for start in starts] == [
        (1, None),
        (2, JobState.INTERRUPTED),
    ]


def test_the_best_value_of_a_resumed_run_is_not_a_dropped_one(
    services: Services, root: Path
) -> None:
    a = trained.job(root, "a", falling_losses(20), [0.7, 0.95])
    history = DataRoot(root).job(a).history
    first = services.comparison.poll(a)
    assert first.figures.metrics["validation/accuracy"].highest == 0.95
    assert services.comparison.poll(a, first.cursor).history.steps == ()
    trained.write_steps(history, 11, falling_losses(10, 0.5), [0.8], run=2)
    later = services.comparison.poll(a, first.cursor)
    assert later.figures.metrics["validation/accuracy"].highest == 0.8
    assert len(later.history.steps) == 20
    assert later.history.drop_from == 0


def test_polls_of_a_growing_run_add_up_to_one_poll_of_the_whole(
    services: Services, root: Path
) -> None:
    a = trained.job(root, "a", falling_losses(10), [0.7], state=JobState.TRAINING)
    update = services.comparison.poll(a)
    assert list(update.history.epochs_done) == [step / 10 for step in range(1, 11)]
    history = DataRoot(root).job(a).history
    for first in (11, 21):
        trained.write_steps(history, first, falling_losses(10, first), [0.8 + first / 1000])
        update = services.comparison.poll(a, update.cursor)
        assert len(update.history.steps) == 10
    assert update.figures == services.comparison.poll(a).figures


def test_without_a_history_there_are_settings_and_no_results(
    services: Services, root: Path
) -> None:
    ids = [trained.job(root, name, state=JobState.CREATED) for name in "ab"]
    comparison = services.comparison.compare(ids)
    assert row(comparison.results, "epochs_done").values == ("0", "0")
    assert row(comparison.results, "epoch_seconds").values == (None, None)
    assert not any(r.kind is RowKind.METRIC for r in comparison.results)


@pytest.mark.parametrize("count", [1, 9])
def test_fewer_than_two_and_more_than_eight_are_refused(
    services: Services, root: Path, count: int
) -> None:
    ids = [trained.job(root, str(number)) for number in range(count)]
    with pytest.raises(BackendError, match=f"2 to 8 jobs can be compared, and {count} "):
        services.comparison.compare(ids)
    with pytest.raises(BackendError, match="There is no job “gone”"):
        services.comparison.compare(["gone", ids[0]])


# One table of all scalars


def read_csv(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(path.read_text(encoding="utf-8"))))


def number(text: str) -> float:
    return float(text) if text else math.nan


@pytest.mark.parametrize("smoothing", [0.0, 0.6])
def test_s4_the_table_drawn_again_is_the_screen(
    services: Services, root: Path, tmp_path: Path, smoothing: float
) -> None:
    losses = falling_losses(30)
    losses[7], losses[8] = math.nan, math.inf
    ids = [
        trained.job(root, "a, “b”, c", losses, [0.7, 0.8, 0.85]),
        trained.job(root, "b", falling_losses(15), [0.75]),
    ]
    path = services.comparison.write_csv(ids, tmp_path / "all.csv")
    rows = read_csv(path)
    assert {r["name"] for r in rows} == {"a, “b”, c", "b"}
    assert len(rows) == 45
    for job_id in ids:
        run_curves = RunCurves()
        run_curves.append(services.jobs.queries.poll(job_id).history)
        for metric in ("loss", "validation/accuracy"):
            job_rows = [r for r in rows if r["job"] == job_id]
            if metric != "loss":
                job_rows = [r for r in job_rows if r[metric]]
            redrawn = CurveData(smoothing)
            redrawn.extend(
                [number(r["step"]) for r in job_rows],
                [number(r[metric]) for r in job_rows],
                [number(r["epochs done"]) for r in job_rows],
                [number(r["time"]) for r in job_rows],
            )
            screen = run_curves.get(metric)
            assert screen is not None
            screen.set_smoothing(smoothing)
            first = next(r for r in rows if r["job"] == job_id)
            redrawn.set_time_origin(number(first["time"]) - number(first["seconds"]))
            for axis in XAxis:
                full_range = screen.x_range(axis)
                assert full_range is not None
                columns = [
                    d.columns(axis, *full_range, 400, is_smoothed=True) for d in (screen, redrawn)
                ]
                np.testing.assert_array_equal(columns[0][0], columns[1][0])
                np.testing.assert_array_equal(columns[0][1], columns[1][1])


def test_a_metric_called_like_a_column_has_a_column_of_its_own_and_none_is_a_formula(
    services: Services, root: Path, tmp_path: Path
) -> None:
    a = trained.job(root, "=1+1", falling_losses(2))
    stamp = "2026-11-21T08:30:00Z"
    block = Block("TRAINING", 1, 1, 3, 3, stamp, {"time": [7.0], "=1+1": [8.0], "run": [9.0]})
    with DataRoot(root).job(a).history.open("ab") as file:
        file.write(encode(block))
    last = read_csv(services.comparison.write_csv([a], tmp_path / "a.csv"))[-1]
    assert (last["name"], last["run"], last["step"]) == ("'=1+1", "1", "3")
    assert (last["user/time"], last["'=1+1"], last["user/run"]) == ("7", "8", "9")


def test_the_table_says_which_run_made_a_step(
    services: Services, root: Path, tmp_path: Path
) -> None:
    a = trained.job(root, "a", falling_losses(20))
    trained.write_steps(DataRoot(root).job(a).history, 11, falling_losses(10), run=2)
    rows = read_csv(services.comparison.write_csv([a], tmp_path / "a.csv"))
    assert [r["run"] for r in rows] == ["1"] * 10 + ["2"] * 10


def test_the_table_takes_any_number_of_jobs_and_holds_one_of_them_at_a_time(
    services: Services, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = [trained.job(root, f"job {number}", falling_losses(40), [0.7]) for number in range(4)]
    live_histories = weakref.WeakSet[HistoryUpdate]()
    most_held = 0
    poll = services.jobs.queries.poll

    def read_run(job_id: str) -> RunUpdate:
        nonlocal most_held
        update = poll(job_id)
        # A copy that only the table holds; the polls may keep theirs.
        history = replace(update.history)
        live_histories.add(history)
        gc.collect(1)
        most_held = max(most_held, len(live_histories))
        return replace(update, history=history)

    monkeypatch.setattr(services.jobs.queries, "poll", read_run)
    rows = read_csv(services.comparison.write_csv(ids, tmp_path / "all.csv"))
    assert len(rows) == 4 * 40
    assert list(dict.fromkeys(r["name"] for r in rows)) == [f"job {n}" for n in range(4)]
    assert most_held == 1


def test_a_table_that_cannot_be_finished_leaves_nothing(
    services: Services, root: Path, tmp_path: Path
) -> None:
    a = trained.job(root, "a", falling_losses(5))
    with pytest.raises(BackendError, match="There is no job “gone”"):
        services.comparison.write_csv([a, "gone"], tmp_path / "all.csv")
    assert [path.name for path in tmp_path.glob("*.csv*")] == []
    assert [path.name for path in tmp_path.glob(".all*")] == []


def test_a_name_is_no_formula_of_a_spreadsheet(
    services: Services, root: Path, tmp_path: Path
) -> None:
    a = trained.job(root, "=HYPERLINK(1)", falling_losses(5))
    rows = read_csv(services.comparison.write_csv([a], tmp_path / "a.csv"))
    assert rows[0]["name"] == "'=HYPERLINK(1)"


def test_a_table_is_never_written_over_something_unasked(
    services: Services, root: Path, tmp_path: Path
) -> None:
    a = trained.job(root, "a", falling_losses(5))
    path = tmp_path / "a.csv"
    path.write_text("mine")
    with pytest.raises(BackendError, match="exists already and was not changed"):
        services.comparison.write_csv([a], path)
    assert path.read_text() == "mine"
    services.comparison.write_csv([a], path, overwrite=True)
    assert len(read_csv(path)) == 5
    with pytest.raises(BackendError, match="could not be written"):
        services.comparison.write_csv([a], tmp_path / "nowhere" / "a.csv")


# The command line


def test_job_compare_prints_a_table_and_a_document(
    services: Services, root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trained.job(root, "slow", falling_losses(30), [0.7, 0.8, 0.85])
    trained.job(root, "fast", falling_losses(20), [0.8, 0.9], optimizer=Optimizer("sgd", 0.02))
    common = ["--data-root", str(root), "--catalogue", str(tmp_path / "here" / "c.sqlite")]

    def compare(*arguments: str) -> tuple[int, str, str]:
        code = run([*common, "job", "compare", *arguments], lambda *_: 0)
        return (code, *capsys.readouterr())

    code, out, err = compare("slow", "fast")
    assert code == 0
    lines = [line.split() for line in out.splitlines()]
    assert lines[0] == ["slow", "fast"]
    assert ["Learning", "rate", "0.01", "0.02"] in lines
    assert ["Best", "validation", "accuracy", "0.85", "0.9", "(best)"] in lines
    assert not any(line[:2] == ["Batch", "size,"] for line in lines)
    assert "settings are equal" in err
    assert "Batch size, per process" in compare("slow", "fast", "--all")[1]
    document = json.loads(compare("slow", "fast", "--json")[1])
    assert [r["key"] for r in document["settings"]] == ["optimizer.lr"]
    assert document["results"][0]["best"] == [1]
    path = tmp_path / "all.csv"
    assert compare("slow", "fast", "--csv", str(path))[0] == 0
    assert len(read_csv(path)) == 50
    code, out, err = compare("slow")
    assert (code, out) == (1, "")
    assert "2 to 8 jobs" in err


def test_a_poll_does_not_change_the_record_of_the_previous_one(
    services: Services, root: Path
) -> None:
    a = trained.job(root, "a", falling_losses(10), state=JobState.TRAINING)
    update = services.comparison.poll(a)
    figures = replace(update.figures, metrics=dict(update.figures.metrics))
    trained.write_steps(DataRoot(root).job(a).history, 11, [0.001] * 10)
    services.comparison.poll(a, update.cursor)
    assert update.figures == figures
