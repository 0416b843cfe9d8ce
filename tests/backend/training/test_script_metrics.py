"""Curves come from what programs write anyway, whenever and in whatever pieces they write it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

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
def place(tmp_path: Path) -> Path:
    (tmp_path / "output/tensorboard").mkdir(parents=True)
    (tmp_path / "rank-0.log").write_text("earlier\n")
    return tmp_path


def metrics_of(place: Path) -> ScriptMetrics:
    output = place / "output"
    return ScriptMetrics(place / "rank-0.log", 8, [output], output / "tensorboard")


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
            [Point(9, 1, {"train_loss": 0.5}), Point(9, 1, {"val_loss": 0.25})],
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
    place: Path, write: Callable[[Path], object], points: Sequence[Point]
) -> None:
    metrics = metrics_of(place)
    write(place / "output")
    assert metrics.poll() == list(points)
    assert metrics.poll() == []


def test_lines_on_stdout_count_from_the_beginning_of_the_run(place: Path) -> None:
    metrics = metrics_of(place)
    with (place / "rank-0.log").open("a") as log:
        log.write('Epoch 1\n{"step": 1, "loss": 0.5}\nloss 3\n')
    assert metrics.poll() == [Point(1, 0, {"loss": 0.5})]


@pytest.mark.parametrize(
    ("patterns", "text", "points"),
    [
        (  # PyTorch's example mnist
            ["Epoch: {epoch}", "Loss: {loss}"],
            "Train Epoch: 1 [0/60000 (0%)]\tLoss: 2.5\nTrain Epoch: 2 [640/60000 (1%)]\tLoss: 2\n",
            [Point(1, 1, {"loss": 2.5}), Point(2, 2, {"loss": 2.0})],
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
                Point(10, 0, {"train/loss": 0.1}),
                Point(10, 0, {"val": 3.0}),
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
    place: Path, patterns: list[str], text: str, points: Sequence[Point]
) -> None:
    metrics = metrics_of(place)
    with (place / "rank-0.log").open("a") as log:
        log.write(text)
    assert metrics.poll() == []
    metrics.mark(patterns)
    assert metrics.poll() == list(points)
    assert metrics.poll() == []


@pytest.mark.parametrize(
    "write",
    [
        lines('{"step": 3, "loss": 0.4}'),
        lines("epoch,step,train_loss", "0,9,0.5", name="metrics.csv"),
        write_state,
        write_events,
        lambda folder: [write_state(made(folder, f"checkpoint-{n}")) for n in (1, 2)],
        lambda folder: lines('{"step": 3, "loss": 1}', name="log.json")(made(folder, "a")),
    ],
)
def test_values_of_an_earlier_run_are_ignored(place: Path, write: Callable[[Path], object]) -> None:
    write(place / "output")
    metrics = metrics_of(place)
    assert metrics.poll() == []
    write_state(made(place / "output", "checkpoint-4"))
    with (made(place / "output", "new") / "metrics.csv").open("w") as file:
        file.write("step,loss\n4,1\n")
    assert Point(4, 0, {"loss": 1.0}) in metrics.poll()


def test_the_history_in_each_checkpoint_counts_once(place: Path) -> None:
    metrics = metrics_of(place)
    for number in (1, 2):
        write_state(made(place / "output", f"checkpoint-{number}"))
    write_state(place / "output")
    assert [one.step for one in metrics.poll()] == [1, 2]
    assert metrics.poll() == []


def made(folder: Path, name: str) -> Path:
    path = folder / name
    path.mkdir(parents=True, exist_ok=True)
    return path


def test_a_count_that_begins_again_goes_on(place: Path) -> None:
    texts = [json.dumps({"step": step, "loss": 1}) for step in (1, 2, 3, 1, 2)]
    metrics = metrics_of(place)
    lines(*texts)(place / "output")
    assert [one.step for one in metrics.poll()] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("texts", "steps"),
    [
        (['{"step": 4, "a": 1}', '{"epoch": 1, "b": 1}', '{"step": 5, "a": 1}'], [4, 4, 5]),
        (['{"step": 9, "a": 1}', '{"step": 1, "b": 1}', '{"step": 10, "a": 1}'], [9, 9, 10]),
        (['{"step": 9, "a": 1}', '{"step": 9, "b": 1}', '{"step": 8, "b": 1}'], [9, 9, 17]),
        (['{"iter": 1, "a": 1}', '{"iter": 2, "a": 1}', '{"iter": 1, "a": 1}'], [1, 2, 3]),
        (['{"epoch": 1, "a": 1}', '{"epoch": 2, "b": 1}', '{"epoch": 3, "a": 1}'], [1, 2, 3]),
        (['{"epoch": 2, "b": 1}', '{"step": 1, "a": 1}', '{"step": 7, "a": 1}'], [2, 2, 7]),
    ],
)
def test_separately_counted_metrics_share_the_steps(
    place: Path, texts: Sequence[str], steps: Sequence[int]
) -> None:
    metrics = metrics_of(place)
    lines(*texts)(place / "output")
    assert [one.step for one in metrics.poll()] == steps


@pytest.mark.parametrize(
    ("name", "before", "after", "steps"),
    [
        ("log.jsonl", '{"step": 7, "a": 1}\n' * 2, '{"step": 6, "a": 2}\n', [6]),
        ("log.jsonl", '{"step": 7, "a": 1}\n', '{"step": 7, "a": 1}\n{"step": 8, "a": 2}\n', [8]),
        ("log.json", '{"iter": 7, "a": 1}\n', "", []),
        ("results.csv", "epoch,a\n1,2\n2,2\n", "epoch,b\n2,3\n", [2]),
        ("results.csv", "epoch,a\n1,2\n", "epoch,a\n1,2\n2,3\n", [2]),
        ("metrics.csv", "step,a\n8,2\n", "step,a\n8,2\n", []),
    ],
)
def test_a_rewritten_file_is_read_from_its_start(
    place: Path, name: str, before: str, after: str, steps: Sequence[int]
) -> None:
    metrics, path = metrics_of(place), place / "output" / name
    path.write_text(before)
    metrics.poll()
    path.write_text(after)
    assert [one.step for one in metrics.poll()] == steps


def test_our_own_files_in_the_output_are_not_read(place: Path) -> None:
    metrics = metrics_of(place)
    write_events(place / "output/tensorboard")
    assert metrics.poll() == []


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    values=st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=20),
    cuts=st.lists(st.integers(0, 2000), max_size=6),
)
def test_the_points_do_not_depend_on_the_pieces_in_which_a_file_grows(
    place: Path, values: list[float], cuts: list[int]
) -> None:
    whole = "".join(
        json.dumps({"step": step, "loss": value, "word": "ü"}, ensure_ascii=False) + "\n"
        for step, value in enumerate(values)
    ).encode()
    path = place / "output/log.jsonl"
    path.write_bytes(b"")
    metrics = metrics_of(place)
    found: list[Point] = []
    for cut in (*sorted(cuts), len(whole)):
        path.write_bytes(whole[:cut])
        found += metrics.poll()
    assert [(one.step, one.metrics["loss"]) for one in found] == list(enumerate(values))
