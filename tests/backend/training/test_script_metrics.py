"""Curves come from what programs write anyway, whenever and in whatever pieces they write it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tensorboardX import SummaryWriter

from backend.training.script_metrics import Point, ScriptMetrics


def write_events(folder: Path) -> None:
    with SummaryWriter(str(folder / "tb")) as writer:
        for step in (1, 2):
            writer.add_scalar("loss/train", step / 2, step)


def write_state(folder: Path) -> None:
    entries = [
        {"step": 1, "epoch": 0.5, "loss": 0.5, "grad_norm": 2},
        {"step": 2, "epoch": 1.0, "eval_loss": 0.25},
    ]
    (folder / "trainer_state.json").write_text(json.dumps({"max_steps": 9, "log_history": entries}))


@pytest.fixture
def job_folder(tmp_path: Path) -> Path:
    (tmp_path / "output/tensorboard").mkdir(parents=True)
    (tmp_path / "rank-0.log").write_text("earlier\n")
    return tmp_path


def metrics_of(job_folder: Path) -> ScriptMetrics:
    output = job_folder / "output"
    return ScriptMetrics(job_folder / "rank-0.log", 8, [output], output / "tensorboard")


def lines(*texts: str, name: str = "log.jsonl") -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        (folder / name).write_text("\n".join(texts) + "\n")

    return write


@pytest.mark.parametrize(
    ("write", "points"),
    [
        (
            lines('{"step": 3, "loss": 0.4}', '{"step": 4, "loss": 0.3, "total_steps": 9}'),
            [Point(3, 0, {"loss": 0.4}), Point(4, 0, {"loss": 0.3}, 9)],
        ),
        (  # MMEngine
            lines('{"lr": 0.1, "loss": 2, "epoch": 1, "iter": 10}', name="log.json"),
            [Point(10, 1, {"lr": 0.1, "loss": 2.0})],
        ),
        (  # Lightning: a row for training, another for validation
            lines("epoch,step,train_loss,val_loss", "0,9,0.5,", "0,9,,0.25", name="metrics.csv"),
            [Point(9, 1, {"train_loss": 0.5, "val_loss": 0.25})],
        ),
        (  # Ultralytics
            lines("  epoch,  time, train/box_loss", "1, 3.5, 1.25", "2, 7, 1", name="results.csv"),
            [Point(1, 1, {"train/box_loss": 1.25}), Point(2, 2, {"train/box_loss": 1.0})],
        ),
        (
            write_state,
            [Point(1, 1, {"loss": 0.5, "grad_norm": 2.0}, 9), Point(2, 1, {"eval_loss": 0.25}, 9)],
        ),
        (  # A count of epochs from 0 without steps
            lines('{"epoch": 0, "loss": 2}', '{"epoch": 1, "loss": 1, "epochs": 5}'),
            [Point(1, 1, {"loss": 2.0}), Point(2, 2, {"loss": 1.0}, 5, 5)],
        ),
        (write_events, [Point(1, 0, {"loss/train": 0.5}), Point(2, 0, {"loss/train": 1.0})]),
        (lines('{"loss": 1}', "[1]", "{", '{"step": "x", "loss": 1}'), []),
        (lambda folder: folder.joinpath("a.jsonl").write_bytes(b"\xff\xfe\n{\n"), []),
        (lines('{"step": 1, "done": true, "name": "x"}'), []),
        (lines('{"step": -1, "loss": 1}', '{"step": 1e400, "loss": 1}'), []),
    ],
)
def test_values_that_a_program_writes_are_its_curve(
    job_folder: Path, write: Callable[[Path], object], points: Sequence[Point]
) -> None:
    metrics = metrics_of(job_folder)
    write(job_folder / "output")
    assert metrics.poll() == list(points)
    assert metrics.poll() == []


def test_lines_on_stdout_count_from_the_beginning_of_the_run(job_folder: Path) -> None:
    metrics = metrics_of(job_folder)
    with (job_folder / "rank-0.log").open("a") as log:
        log.write('Epoch 1\n{"step": 1, "loss": 0.5}\nloss 3\n')
    assert metrics.poll() == [Point(1, 0, {"loss": 0.5})]


@pytest.mark.parametrize(
    ("patterns", "text", "points"),
    [
        (  # PyTorch's example mnist
            ["Epoch: {epoch}", "Loss: {loss/x}"],
            "Train Epoch: 1 [0/60000 (0%)]\tLoss: 2.5\nTrain Epoch: 2 [640/60000 (1%)]\tLoss: 2\n",
            [Point(1, 1, {"loss/x": 2.5}), Point(2, 2, {"loss/x": 2.0})],
        ),
        (
            ["Epoch {epoch}/{epochs} … acc={accuracy}"],
            "Epoch 0/5 in 3 s: acc=.5\n\x1b[32mEpoch 1/5\x1b[0m in 3 s: acc=.75\n",
            [Point(1, 1, {"accuracy": 0.5}, 0, 5), Point(2, 2, {"accuracy": 0.75}, 0, 5)],
        ),
        (  # The step in a line of its own
            ["step {step}", "loss  {train/loss}", "val {val}"],
            "step 10\nloss 1e-1\nval nan0\nval 3\nstep 20\n  LOSS   -0.2\n",
            [
                Point(10, 0, {"train/loss": 0.1, "val": 3.0}),
                Point(20, 0, {"train/loss": -0.2}),
            ],
        ),
        (
            ["loss={loss}"],
            "9/9 [loss=3]\r10/9 [loss=2]\r",
            [Point(1, 0, {"loss": 3.0}), Point(2, 0, {"loss": 2.0})],
        ),
        (["loss={loss}"], "loss=" + "1" * 5000 + "\nloss=\nloss=x\nless=3\n", []),
        (["(a+)+{x}"], "a" * 1900 + "\n(a+)+ 1\n", [Point(1, 0, {"x": 1.0})]),
    ],
)
def test_a_marked_number_of_the_log_is_a_curve(
    job_folder: Path, patterns: list[str], text: str, points: Sequence[Point]
) -> None:
    metrics = metrics_of(job_folder)
    with (job_folder / "rank-0.log").open("a") as log:
        log.write(text)
    metrics.poll()
    metrics.use_patterns(patterns)
    assert metrics.poll() == list(points)
    assert metrics.poll() == []


@pytest.mark.parametrize(
    "write",
    [
        lines('{"step": 3, "loss": 0.4}'),
        lines("epoch,step,train_loss", "0,9,0.5", name="metrics.csv"),
        write_state,
        write_events,
        lambda folder: [write_state(make_folder(folder, f"checkpoint-{n}")) for n in (1, 2)],
        lambda folder: lines('{"step": 3, "loss": 1}', name="log.json")(make_folder(folder, "a")),
    ],
)
def test_values_of_an_earlier_run_are_ignored(
    job_folder: Path, write: Callable[[Path], object]
) -> None:
    write(job_folder / "output")
    metrics = metrics_of(job_folder)
    assert metrics.poll() == []
    write_state(make_folder(job_folder / "output", "checkpoint-4"))
    with (make_folder(job_folder / "output", "new") / "metrics.csv").open("w") as file:
        file.write("step,new\n4,1\n")
    assert Point(4, 0, {"new": 1.0}) in metrics.poll()


def test_the_history_in_each_checkpoint_counts_once(job_folder: Path) -> None:
    metrics = metrics_of(job_folder)
    for number in (1, 2):
        write_state(make_folder(job_folder / "output", f"checkpoint-{number}"))
    write_state(job_folder / "output")
    assert [point.step for point in metrics.poll()] == [1, 2]
    assert metrics.poll() == []


def make_folder(folder: Path, name: str) -> Path:
    path = folder / name
    path.mkdir(parents=True, exist_ok=True)
    return path


def test_a_count_that_begins_again_goes_on(job_folder: Path) -> None:
    texts = [json.dumps({"step": step, "loss": 1}) for step in (1, 2, 3, 1, 2)]
    metrics = metrics_of(job_folder)
    lines(*texts)(job_folder / "output")
    assert [point.step for point in metrics.poll()] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("texts", "steps"),
    [
        (['{"step": 4, "a": 1}', '{"epoch": 1, "b": 1}', '{"step": 5, "a": 1}'], [4, 5]),
        (['{"step": 9, "a": 1}', '{"step": 1, "b": 1}', '{"step": 10, "a": 1}'], [9, 10]),
        (['{"step": 9, "a": 1}', '{"step": 9, "b": 1}', '{"step": 8, "b": 1}'], [9, 17]),
        (['{"iter": 1, "a": 1}', '{"iter": 2, "a": 1}', '{"iter": 1, "a": 1}'], [1, 2, 3]),
        (['{"epoch": 1, "a": 1}', '{"epoch": 2, "b": 1}', '{"epoch": 3, "a": 1}'], [1, 2, 3]),
        (  # MMEngine
            ['{"step": 9, "a": 1, "t": 1}', '{"step": 1, "b": 1, "t": 1}', '{"step": 10, "a": 1}'],
            [9, 10],
        ),
        (['{"epoch": 2, "b": 1}', '{"step": 1, "a": 1}', '{"step": 7, "a": 1}'], [2, 7]),
    ],
)
def test_separately_counted_metrics_share_the_steps(
    job_folder: Path, texts: Sequence[str], steps: Sequence[int]
) -> None:
    metrics = metrics_of(job_folder)
    lines(*texts)(job_folder / "output")
    assert [point.step for point in metrics.poll()] == steps


@pytest.mark.parametrize(
    ("name", "old_text", "new_text", "steps"),
    [
        ("log.jsonl", '{"step": 7, "a": 1}\n' * 2, '{"step": 6, "a": 2}\n', [6, 7]),
        ("log.jsonl", '{"step": 7, "a": 1}\n', '{"step": 7, "a": 1}\n{"step": 8, "a": 2}\n', [8]),
        ("log.json", '{"iter": 7, "a": 1}\n', "", []),
        ("results.csv", "epoch,a\n1,2\n2,2\n", "epoch,b\n2,3\n", [2]),
        ("results.csv", "epoch,a\n1,2\n", "epoch,a\n1,2\n2,3\n", [2]),
        ("metrics.csv", "step,a\n8,2\n", "step,a\n8,2\n", []),
    ],
)
def test_a_rewritten_file_is_read_from_its_start(
    job_folder: Path, name: str, old_text: str, new_text: str, steps: Sequence[int]
) -> None:
    metrics, path = metrics_of(job_folder), job_folder / "output" / name
    path.write_text(old_text)
    metrics.poll()
    path.write_text(new_text)
    assert [point.step for point in metrics.poll()] == steps


def test_our_own_files_in_the_output_are_not_read(job_folder: Path) -> None:
    metrics = metrics_of(job_folder)
    write_events(job_folder / "output/tensorboard")
    assert metrics.poll() == []


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    values=st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=20),
    cuts=st.lists(st.integers(0, 2000), max_size=6),
)
def test_the_points_do_not_depend_on_the_pieces_in_which_a_file_grows(
    job_folder: Path, values: list[float], cuts: list[int]
) -> None:
    content = "".join(
        json.dumps({"step": step, "loss": value, "word": "ü"}, ensure_ascii=False) + "\n"
        for step, value in enumerate(values)
    ).encode()
    path = job_folder / "output/log.jsonl"
    path.write_bytes(b"")
    metrics = metrics_of(job_folder)
    points: list[Point] = []
    for cut in (*sorted(cuts), len(content)):
        path.write_bytes(content[:cut])
        points += metrics.poll()
    assert [(point.step, point.metrics["loss"]) for point in points] == list(enumerate(values))


@pytest.mark.parametrize(
    ("name", "text", "curves"),
    [
        # Each is what a program of that library wrote, cut short.
        ("log.txt", '{"train_loss": 2, "ap": [0.5, 0.25], "epoch": 0}\n', {"ap/1": {1: 0.25}}),
        ("metrics.json", '{"iteration": 19, "total_loss": 2.5}\n', {"total_loss": {19: 2.5}}),
        ("summary.csv", "epoch,train_loss,eval_top1\n0,2,50\n1,1,75\n", {"eval_top1": {2: 75.0}}),
        ("a.tsv", "Epoch\tLoss\n1\t2.5\n2\t2\n", {"Loss": {1: 2.5, 2: 2.0}}),
        ("b.csv", "Epoche;epoch;Verlust\nx;1;0,5\n", {"Verlust": {1: 0.5}}),
        ("c", "# step loss\n10 0.5\n20 0.25\n", {"loss": {10: 0.5, 20: 0.25}}),
        ("d.csv", "# run 7\n#\nstep,loss\n1,0.9\n", {"loss": {1: 0.9}}),
        ("e.csv", "Run of Monday, seed 1\n\nstep,loss\n1,0.9\n", {"loss": {1: 0.9}}),
        ("f.tsv", "# host a\tb\nepoch\tloss\n1\t\n2\t3\n", {"loss": {2: 3.0}}),
        (
            "g.csv",
            'step,loss,seen\n500,0.9,"750,000"\n"1,000",0.8,"1,500,000"\n',
            {"loss": {500: 0.9, 1000: 0.8}, "seen": {500: 750_000.0, 1000: 1_500_000.0}},
        ),
        ("h.csv", 'epoch,loss\n1,"0,5"\n', {"loss": {1: 0.5}}),
        (
            "i.csv",
            "step;loss\n1;1.200,5\n2;1,200.5\n3;0,5\n",
            {"loss": {1: 1200.5, 2: 1200.5, 3: 0.5}},
        ),
        (
            "j.csv",
            "step [-],loss [a.u.],acc (%)\n1,0.9,50.25%\n",
            {"loss [a.u.]": {1: 0.9}, "acc (%)": {1: 50.25}},
        ),
        ("l.txt", "%step loss\n1 0.5\n", {"loss": {1: 0.5}}),
        ("m.txt", "step|loss\n1|0.5\n", {"loss": {1: 0.5}}),
        ("n.md", "| Step | Loss |\n|---:|---:|\n| 1 | 0.5 |\n", {"Loss": {1: 0.5}}),
        ("o.csv", "Steps,Loss\n1,0.5 a.u.\n", {"Loss": {1: 0.5}}),
        ("p.csv", "step;loss\n1.000;2\n2.000;0,5\n", {"loss": {1000: 2.0, 2000: 0.5}}),
        ("q.csv", "step;loss\n1;1,000\n2;0,998\n", {"loss": {1: 1.0, 2: 0.998}}),
        ("r.csv", "step;loss\n1;1.000\n2;0.998\n", {"loss": {1: 1.0, 2: 0.998}}),
        ("s.csv", "step,seen,loss\n1,1.5k,−0.5\n", {"seen": {1: 1500.0}, "loss": {1: -0.5}}),
        ("t.csv", "time/total_timesteps,ep_rew\n2048,21.5\n", {"ep_rew": {2048: 21.5}}),
        (
            "u.csv",
            '"Lauf";"7"\n"Epoche";"Verlust"\n"[-]";"[-]"\n"1";"0,5"\n',
            {"Verlust": {1: 0.5}},
        ),
        (
            "v.md",
            "# Run\n\nRate 0.1, 8 epochs.\n\n| Epoch | Loss | Note |\n|--|--|--|\n"
            "| 1 | **0.5** |  |\n| 2 | 0.4 | drop |\n",
            {"Loss": {1: 0.5, 2: 0.4}},
        ),
        ("w.csv", "Schritt;Verlust\n1.000;0,5\n", {"Verlust": {1000: 0.5}}),
        (
            "history.json",
            '{"config": {"lr": 1, "sizes": [9, 9]}, "history": {"val_loss": [3, 2], "acc": [1]}}',
            {"val_loss": {1: 3.0, 2: 2.0}},
        ),
        (
            "h2.json",
            '{"epoch": [1, 2, 3], "loss": [3, 2, 1], "test": [9]}',
            {"loss": {1: 3.0, 2: 2.0, 3: 1.0}},
        ),
        (
            "evals.json",
            '{"train": {"rmse": [5, 4, 3]}, "eval": {"rmse": [7, 6, 5], "mae": [2, 1]}}',
            {"train/rmse": {1: 5.0, 2: 4.0, 3: 3.0}, "eval/rmse": {1: 7.0, 2: 6.0, 3: 5.0}},
        ),
        (
            "pandas.csv",
            ",train,train,val\n,loss,acc,loss\nepoch,,,\n1,0.9,0.5,1.1\n2,0.8,0.6,1.0\n",
            {"train/loss": {1: 0.9, 2: 0.8}, "train/acc": {2: 0.6}, "val/loss": {2: 1.0}},
        ),
        (
            "excel.csv",
            ";train;;val\nEpoche;loss;acc;loss\n1;0,9;0,5;1,1\n",
            {"train/loss": {1: 0.9}, "train/acc": {1: 0.5}, "val/loss": {1: 1.1}},
        ),
        ("epochs.json", '{"epoch_1": {"loss": 2}, "epoch_2": {"loss": 1}}', {"loss": {1: 2, 2: 1}}),
        ("by-number.json", '{"0": {"loss": 2}, "1": {"loss": 1}}', {"loss": {1: 2, 2: 1}}),
        (
            "frame.json",
            '{"epoch": {"0": 5, "1": 6}, "loss": {"0": 2, "1": 1}}',
            {"loss": {5: 2, 6: 1}},
        ),
        (
            "history.yaml",
            "run: a\nhistory:\n- epoch: 1\n  val: {loss: 2}\n- epoch: 2\n  val: {loss: 1}\n",
            {"val/loss": {1: 2, 2: 1}},
        ),
        ("names.csv", "Training Step,Loss\n10,0.9\n", {"Loss": {10: 0.9}}),
        ("camel.jsonl", '{"globalStep": 10, "trainLoss": 0.9}\n{}\n', {"trainLoss": {10: 0.9}}),
        ("dll.json", 'DLLL {"step": [0, 10], "data": {"loss": 2}}\n', {"loss": {10: 2}}),
        (
            "long.csv",
            "run,epoch,phase,metric,value\na,1,train,loss,0.9\na,1,train,dice,0.5\n"
            "a,1,val,loss,1.1\na,2,train,loss,0.8\n",
            {"train/loss": {1: 0.9, 2: 0.8}, "dice": {1: 0.5}, "val/loss": {1: 1.1}},
        ),
        ("long.jsonl", '{"step": 3, "name": "loss", "value": 2}\n{}\n', {"loss": {3: 2.0}}),
        ("k.csv", "Epoch (no.),time [s],loss\n1,7,0.5\n", {"loss": {1: 0.5}}),
        ("history.json", '{"epoch": [1, 2], "loss": [3, 2]}', {"loss": {1: 3.0, 2: 2.0}}),
        (
            "state",
            '{"best": 1, "log":\n [{"step": 5, "val": {"loss": 3}}]}',
            {"val/loss": {5: 3.0}},
        ),
        (
            "d.csv",
            "step,a\n1,2\nstep,a,b\n2,3,4\n",
            {"a": {1: 2.0, 2: 3.0}, "b": {2: 4.0}},
        ),
        ("e.jsonl", '\ufeff{"Global Step": 3, "loss": "0.5"}\n{}\n', {"loss": {3: 0.5}}),
        ("f.log", 'starting\n{"step": 1, "loss": 2}\n{"step": 2, "loss": 1}\n', {"loss": {2: 1.0}}),
        (
            "g.json",
            '{"train": [{"epoch": 1, "loss": 2}], "val": [{"epoch": 1, "loss": 3}]}',
            {"train/loss": {1: 2.0}, "val/loss": {1: 3.0}},
        ),
        (
            "h.jsonl",
            '{"mode": "train", "iter": 5, "loss": 2}\n{"mode": "val", "iter": 5, "loss": 3}\n',
            {"train/loss": {5: 2.0}, "val/loss": {5: 3.0}},
        ),
        (
            "mlruns/0/4f2a/metrics/val/loss",
            "1700000000000 0.9 1\n1700000001000 0.8 2\n",
            {"val/loss": {1: 0.9, 2: 0.8}},
        ),
        ("val_loss.txt", "9.5e-01\n8.5e-01\n", {"val_loss": {1: 0.95, 2: 0.85}}),
        ("loss.csv", "10,0.9\n20,0.8\n", {"loss": {10: 0.9, 20: 0.8}}),
        ("history.csv", ",loss,acc\n0,0.9,0.5\n1,0.8,0.6\n", {"loss": {1: 0.9, 2: 0.8}}),
        ("losses.csv", "loss\n0.9\n0.8\n", {"loss": {1: 0.9, 2: 0.8}}),
        ("log.csv", "acc;loss\n0,5;0,9\n0,6;0,8\n", {"loss": {1: 0.9, 2: 0.8}}),
        ("summary.json", '{"_step": 2, "loss": 0.5, "_runtime": 9}', {"loss": {2: 0.5}}),
        (
            "cv.csv",
            "fold,epoch,loss\n0,1,0.9\n0,2,0.8\n1,1,0.7\n1,2,0.6\n",
            {"fold 0/loss": {1: 0.9, 2: 0.8}, "fold 1/loss": {1: 0.7, 2: 0.6}},
        ),
    ],
)
def test_a_file_is_read_by_its_content_and_not_by_its_name(
    job_folder: Path, name: str, text: str, curves: dict[str, dict[int, float]]
) -> None:
    metrics = metrics_of(job_folder)
    path = job_folder / "output" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    curves_found = curves_of(metrics.poll())
    assert all(
        curves_found[tag][step] == value for tag in curves for step, value in curves[tag].items()
    )
    assert metrics.poll() == []


def test_vectors_of_numpy_are_curves(job_folder: Path) -> None:
    metrics = metrics_of(job_folder)
    output = job_folder / "output"
    numpy.save(output / "train_loss.npy", numpy.array([0.9, 0.8]))
    numpy.savez(output / "history.npz", val_loss=[1.0, 0.5], val_acc=[0.25, 0.75], name="x")
    numpy.save(output / "weights.npy", numpy.ones(3))
    numpy.savez_compressed(output / "samples.npz", loss=numpy.zeros(7_000_000))
    (output / "broken.npz").write_bytes(b"PK\3\4")
    assert curves_of(metrics.poll()) == {
        "train_loss": {1: 0.9, 2: 0.8},
        "val_loss": {1: 1.0, 2: 0.5},
        "val_acc": {1: 0.25, 2: 0.75},
    }


@pytest.mark.parametrize(
    ("text", "losses"),
    [
        # It resumes, with another column, without a header, or with missing values.
        ("epoch,loss\n1,9\n2,8\n3,7\nepoch,loss,norm\n3,6,1\n4,5,1\n", {1: 9, 2: 8, 3: 6, 4: 5}),
        ("epoch,loss\n1,9\n2,8\n3,7\n2,6\n3,5\n", {1: 9, 2: 6, 3: 5}),
        ("epoch,loss,acc\n1,9,-\n2,8,1\n3,7,-\n2,6,-\n3,5,1\n", {1: 9, 2: 6, 3: 5}),
        ("step,epoch,loss\n10,1,9\n20,2,8\n10,1,7\n20,2,6\n30,3,5\n",
         {10: 9, 20: 8, 30: 7, 40: 6, 50: 5}),
        # It begins again, or counts within each epoch.
        ("epoch,loss\n1,9\n2,8\n1,7\n2,6\n", {1: 9, 2: 8, 3: 7, 4: 6}),
        ("epoch,loss\n1,9\n2,8\nepoch,loss\n1,7\n2,6\n", {1: 9, 2: 8, 3: 7, 4: 6}),
        ("epoch,step,loss\n1,1,9\n1,5,8\n2,3,7\n2,5,6\n", {1: 9, 5: 8, 8: 7, 10: 6}),
    ],
)  # fmt: skip
def test_a_count_that_goes_back_is_made_again_and_from_its_start_continues(
    job_folder: Path, text: str, losses: dict[int, float]
) -> None:
    metrics = metrics_of(job_folder)
    (job_folder / "output/log.csv").write_text(text)
    assert curves_of(metrics.poll())["loss"] == losses


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("settings.json", '{"layers": [64, 64], "betas": [0.9, 0.999]}'),
        ("metrics.csv", "id,width,height\n1,20,30\n"),
        ("results.csv", "1,2\n3,4\n"),
        ("predictions.csv", ",label,score\n0,cat,0.9\n1,dog,0.8\n"),
        ("metrics/count.txt", "3\n4\n"),
        ("labels.txt", "0\n1\n"),
        ("log.json", '{"epochs": 3, "lr": 0.1}\n{"name": "x"}\n'),
        ("folds.json", '{"fold_0": {"loss": 2}, "fold_1": {"loss": 1}}'),
        ("summary.json", 'DLLL {"step": [], "data": {"loss": 2}}\n{}\n'),
        ("log.jsonl", "Epoch, the first one\n"),
        ("trainer_state.json", '{"log_history": '),
        ("text", "step by step\nthe loss fell\n"),
    ],
)
def test_a_file_without_a_step_or_an_epoch_has_no_curves(
    job_folder: Path, name: str, text: str
) -> None:
    metrics = metrics_of(job_folder)
    path = job_folder / "output" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    assert metrics.poll() == []


def curves_of(points: Sequence[Point]) -> dict[str, dict[int, float]]:
    curves: dict[str, dict[int, float]] = {}
    for point in points:
        for name, value in point.metrics.items():
            curves.setdefault(name, {})[point.step] = value
    return curves


def csv_with(folder: Path, name: str, *rows: str) -> None:
    (make_folder(folder, str(Path(name).parent)) / Path(name).name).write_text(
        "\n".join(rows) + "\n"
    )


def test_two_files_with_one_tag_are_two_curves_named_by_their_files(job_folder: Path) -> None:
    metrics, output = metrics_of(job_folder), job_folder / "output"
    csv_with(output, "run/train/metrics.csv", "step,loss,acc", "1,0.5,1", "2,0.25,2")
    assert curves_of(metrics.poll()) == {"loss": {1: 0.5, 2: 0.25}, "acc": {1: 1.0, 2: 2.0}}
    csv_with(output, "run/val/metrics.csv", "step,loss", "2,0.75")
    assert curves_of(metrics.poll()) == {
        "train/loss": {1: 0.5, 2: 0.25},
        "val/loss": {2: 0.75},
        "acc": {1: 1.0, 2: 2.0},
    }
    csv_with(output, "run/train/metrics.csv", "step,loss,acc", "1,0.5,1", "2,0.25,2", "3,0.1,3")
    assert metrics.poll() == [Point(3, 0, {"train/loss": 0.1, "acc": 3.0})]


@pytest.mark.parametrize("position", ['"epoch": {}, ', ""])
def test_a_file_for_each_epoch_is_a_point_of_one_curve(job_folder: Path, position: str) -> None:
    metrics = metrics_of(job_folder)
    for epoch in (0, 1, 9):
        text = f'{{{position.format(epoch)}"loss": {1 / (epoch + 1)}}}'
        (job_folder / f"output/metrics_epoch_{epoch}.json").write_text(text)
    assert curves_of(metrics.poll()) == {"loss": {1: 1.0, 2: 0.5, 10: 0.1}}


def test_two_files_that_say_the_same_are_one_curve(job_folder: Path) -> None:
    metrics, output = metrics_of(job_folder), job_folder / "output"
    csv_with(output, "metrics.csv", "step,loss", "1,0.123456", "2,0.234567")
    lines('{"step": 2, "loss": 0.23457}', name="scalars.json")(output)
    assert curves_of(metrics.poll()) == {"loss": {1: 0.123456, 2: 0.234567}}


def test_a_copy_of_a_file_in_which_rows_share_a_step_is_no_other_curve(job_folder: Path) -> None:
    """Read rows as of MMEngine: validation is counted in epochs, and has times, too."""
    rows = ('{"step": 20, "time/data": 1}', '{"step": 1, "error": 3, "time/data": 2}')
    metrics = metrics_of(job_folder)
    for name in ("scalars.json", "20260101.json"):
        lines(*rows, name=name)(job_folder / "output")
    assert set(curves_of(metrics.poll())) == {"error", "time/data"}


def test_two_writers_of_tensorboard_are_two_curves(job_folder: Path) -> None:
    metrics = metrics_of(job_folder)
    for name, value in (("train", 1.0), ("val", 2.0)):
        with SummaryWriter(str(job_folder / "output" / name)) as writer:
            writer.add_scalar("loss", value, 7)
            writer.add_histogram("weights", [1.0, 2.0], 7)
    assert curves_of(metrics.poll()) == {"train/loss": {7: 1.0}, "val/loss": {7: 2.0}}


def test_each_tag_of_tensorboard_has_the_steps_of_its_own(job_folder: Path) -> None:
    metrics = metrics_of(job_folder)
    with SummaryWriter(str(job_folder / "output/validation")) as writer:
        for epoch in (0, 1):
            writer.add_scalar("epoch_loss", 1.0 - epoch / 2, epoch)
            writer.add_scalar("loss_vs_iterations", 1.0 - epoch / 2, 60 * (epoch + 1))
    assert curves_of(metrics.poll()) == {
        "epoch_loss": {0: 1.0, 1: 0.5},
        "loss_vs_iterations": {60: 1.0, 120: 0.5},
    }


def test_a_value_that_is_read_late_is_drawn_at_its_step(job_folder: Path) -> None:
    metrics, output = metrics_of(job_folder), job_folder / "output"
    csv_with(output, "a.csv", "step,loss", *(f"{step},{step}" for step in range(1, 101)))
    assert len(metrics.poll()) == 100
    csv_with(output, "b.csv", "step,val", "50,0.5")
    points = metrics.poll()
    assert points[0] == Point(50, 0, {"loss": 50.0, "val": 0.5})
    assert [point.step for point in points] == [*range(50, 101)]


def test_an_epoch_beside_steps_counts_at_its_last_step(job_folder: Path) -> None:
    metrics, output = metrics_of(job_folder), job_folder / "output"
    csv_with(output, "a.csv", "epoch,step,loss", "1,10,1", "1,20,2", "2,30,3", "2,40,4", "3,50,5")
    csv_with(output, "b.csv", "epoch,val", "1,0.5", "2,0.25")
    assert curves_of(metrics.poll())["val"] == {20: 0.5, 40: 0.25}


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=40
)
@given(
    columns=st.lists(st.sets(st.sampled_from("abcd"), min_size=1), min_size=1, max_size=12),
    polls=st.sets(st.integers(0, 11)),
    by_rename=st.booleans(),
)
def test_a_table_that_is_written_again_with_more_columns_keeps_all_its_values(
    job_folder: Path, columns: list[set[str]], polls: set[int], by_rename: bool
) -> None:
    """Read a table as of Lightning's CSVLogger, at any time."""
    path = job_folder / "output/metrics.csv"
    path.unlink(missing_ok=True)
    metrics = metrics_of(job_folder)
    names: list[str] = []
    rows: list[str] = []
    values: list[dict[str, float]] = []
    curves_found: dict[str, dict[int, float]] = {}
    for index, columns_of_row in enumerate(columns):
        names += sorted(columns_of_row - {*names})
        values.append({name: index + ord(name) / 1000 for name in columns_of_row})
        rows = [
            ",".join([*(str(row.get(name, "")) for name in names), str(step)])
            for step, row in enumerate(values)
        ]
        target = path.with_suffix(".part") if by_rename else path
        target.write_text("\n".join([",".join([*names, "step"]), *rows]) + "\n")
        target.rename(path)
        if index in polls or index == len(columns) - 1:
            for name, curve in curves_of(metrics.poll()).items():
                curves_found.setdefault(name, {}).update(curve)
    assert curves_found == {
        name: {step: row[name] for step, row in enumerate(values) if name in row} for name in names
    }


@pytest.mark.parametrize(
    ("text", "curves"),
    [
        ("Epoch 1/3 loss: 0.5 val_acc: 0.9\nEpoch 2/3 loss: 0.25\n", {"loss": {1: 0.5, 2: 0.25}}),
        ("step 0: train loss 4.2, val loss 4.3\n", {"train_loss": {0: 4.2}, "val_loss": {0: 4.3}}),
        ("iter 10: loss 4.2, time 33.30ms, mfu 1.1%\n", {"loss": {10: 4.2}}),
        ("Epoch: 0001 loss_train: 1.9 time: 0.01s\n", {"loss_train": {1: 1.9}}),
        (
            "Train Epoch: 1 [10/50 (20%)]\tLoss: 0.5\nTrain Epoch: 1 [20/50 (40%)]\tLoss: 0.25\n",
            {"Loss": {1: 0.5, 2: 0.25}},
        ),
        ("| epoch 1 | 10/ 29 batches | lr 4.00 | ms/batch 25.1 | loss 5.3\n", {"lr": {1: 4.0}}),
        (
            "Epoch [1/2], Step [10/20], Loss: 1\nEpoch [2/2], Step [10/20], Loss: 2\n",
            {"Loss": {20: 2}},
        ),
        (
            "Epoch 1/5\n12/12 [====] - 1s 12ms/step - loss: 0.5 - accuracy: 0.8\n",
            {"accuracy": {1: 0.8}},
        ),
        (
            "{'loss': '0.5', 'epoch': 0.1}\n{'loss': 0.25, 'epoch': 0.2}\n",
            {"loss": {1: 0.5, 2: 0.25}},
        ),
        ("2026-01-01 12:00:00 INFO epoch=4 step=100 loss=1.5e-3\n", {"loss": {100: 0.0015}}),
        (
            "Saving model_epoch_3.pt: 5\nTraining 10 epochs, batch size 32\nFile 3 of 10: 5.2\n",
            {},
        ),
        (
            # The line at the end of an epoch has its means.
            "| epoch 001: 10 / 20 loss=8, num_updates=10\n"
            "| epoch 001: 20 / 20 loss=7, num_updates=20\n"
            "| train | epoch 001 | loss 7.5 | wps 9.5 | num_updates 20 |\n",
            {"loss": {10: 8, 20: 7}, "wps": {20: 9.5}},
        ),
        ("Epoch 5: loss improved from 0.31 to 0.3\n", {}),
        ("Namespace(lr=0.004, epochs=1, batch_size=32)\n", {}),
        ("Epoch 1 loss: 0.5\n" + '{"step": 7, "loss": 2}\n', {"loss": {7: 2.0}}),
    ],
)
def test_lines_of_the_log_are_curves_if_the_script_writes_no_other_numbers(
    job_folder: Path, text: str, curves: dict[str, dict[int, float]]
) -> None:
    metrics = metrics_of(job_folder)
    with (job_folder / "rank-0.log").open("a") as log:
        log.write(text)
    curves_found = curves_of(metrics.poll(is_over=True))
    assert bool(curves_found) == bool(curves)
    assert all(
        curves_found[name].get(step) == curves[name][step]
        for name in curves
        for step in curves[name]
    )
    assert set(curves_found) == set(curves) or '"step"' not in text


def test_text_in_a_log_file_counts_if_the_script_prints_nothing(job_folder: Path) -> None:
    log = job_folder / "output/train.log"
    log.write_text("Epoch 1 loss: 9\n")
    metrics = metrics_of(job_folder)
    with log.open("a") as file:
        file.write("INFO Epoch 1 loss: 0.5\nINFO Epoch 2 loss: 0.25\n")
    (job_folder / "output/notes.txt").write_text("Epoch 7 accuracy 0.9\n")
    assert metrics.poll() == [Point(1, 1, {"loss": 0.5}), Point(2, 2, {"loss": 0.25})]
    with (job_folder / "rank-0.log").open("a") as printed:
        printed.write("Epoch 1 loss: 5\nEpoch 2 loss: 4\n")
    assert curves_of(metrics.poll()) == {"loss": {1: 5.0, 2: 4.0}}


def test_a_section_for_each_epoch_is_read_and_a_file_of_windows_1252(job_folder: Path) -> None:
    metrics = metrics_of(job_folder)
    sections = "[run]\nlr = 0.1\n\n[epoch_1]\nloss = 0.5\n\n[epoch_2]\nloss = 0.25\n"
    (job_folder / "output/metrics.ini").write_text(sections)
    assert curves_of(metrics.poll())["loss"] == {1: 0.5, 2: 0.25}
    (job_folder / "output/a.csv").write_bytes("Epoche;Güte\n1;0,5\n".encode("cp1252"))
    assert curves_of(metrics.poll()) == {"Güte": {1: 0.5}}


def test_a_count_from_0_in_each_epoch_loses_no_step(job_folder: Path) -> None:
    metrics = metrics_of(job_folder)
    rows = "epoch,step,loss\n1,0,9\n1,10,8\n2,0,7\n2,10,6\n"
    (job_folder / "output/a.csv").write_text(rows)
    assert curves_of(metrics.poll()) == {"loss": {0: 9.0, 10: 8.0, 20: 7.0, 30: 6.0}}


def test_numbers_of_a_file_take_the_place_of_those_of_the_log(job_folder: Path) -> None:
    metrics = metrics_of(job_folder)
    with (job_folder / "rank-0.log").open("a") as log:
        log.write("Epoch 1 loss: 0.5\nEpoch 2 loss: 0.25\n")
    assert [point.step for point in metrics.poll()] == [1, 2]
    csv_with(job_folder / "output", "metrics.csv", "step,loss", "500,0.125")
    assert metrics.poll() == [Point(500, 0, {"loss": 0.125}, is_restart=True)]


@pytest.mark.parametrize(
    "text",
    [
        "RESUME {'true_step': 4, 'name': 11000}",
        "step 500 | loss 0.3\nstep 500 | val loss 0.4",
        "Epoch 1/9 loss: 0.2 acc: 0.5\nEpoch 1/9 loss: 0.1 acc: 0.6",
        "Epoch 3 - loss: 9\nEpoch 4 - loss: 8",
    ],
)
@pytest.mark.parametrize("is_first", [True, False])
def test_text_beside_other_numbers_changes_no_point(
    job_folder: Path, text: str, is_first: bool
) -> None:
    metrics = metrics_of(job_folder)
    points: list[Point] = []
    rows = [json.dumps({"step": step, "loss": step / 8}) for step in (4, 500, 501)]
    for line in (text, *rows) if is_first else (*rows, text, json.dumps({"step": 502, "loss": 1})):
        with (job_folder / "rank-0.log").open("a") as log:
            log.write(f"{line}\n")
        points += metrics.poll()
    while any(point.is_restart for point in points[1:]):
        del points[0]
    last_points = [] if is_first else [Point(502, 0, {"loss": 1.0})]
    shown_points = [Point(point.step, point.epoch, point.metrics) for point in points]
    assert (
        shown_points == [Point(step, 0, {"loss": step / 8}) for step in (4, 500, 501)] + last_points
    )
