"""A number that the user marks in a line is found in all lines like it."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.records.jobs.log_numbers import (
    invalid_pattern,
    is_name,
    number_spans,
    numbers_of,
    pattern_for,
)
from backend.training.log_lines import LineReader

LINES = (
    "loss: 0.5",
    "Train Epoch: 1 [640/60000 (1%)]\tLoss: 2.130201",
    "Epoch [3/10], Step [100/938], Loss: 0.1234",
    "epoch=3 acc 0.93 lr 1e-3",
    "0.5 loss",
    "100/938 [00:10<00:00, 9.3it/s, loss=-0.5]",
    "Test set: Average loss: 0.0571, Accuracy: 9815/10000 (98%)",
    "Epoch: [0][ 10/5005]\tTime  0.5 ( 0.7)\tLoss 6.9 (7.0)",
    "{'loss': 0.5, 'epoch': 0.1}",
    " * Acc@1 12.3 Acc@5 40.1",
    "Verlust: 3 (größer)",
)


@pytest.mark.parametrize("line", LINES)
def test_the_pattern_of_each_number_finds_it_in_its_line(line: str) -> None:
    spans = number_spans(line)
    assert spans
    for start, end in spans:
        pattern = pattern_for(line, start, end, "x")
        assert not invalid_pattern([pattern])
        assert numbers_of([pattern], line) == {"x": float(line[start:end])}


@pytest.mark.parametrize("line", [candidate for candidate in LINES if "oss" in candidate])
def test_the_pattern_of_a_loss_finds_the_next_one(line: str) -> None:
    start, end = (
        next(span for span in number_spans(line) if re.search(r"oss\W+$", line[: span[0]] or line))
        if not line.startswith("0.5")
        else (0, 3)
    )
    pattern = pattern_for(line, start, end, "loss")
    changed_line = line[:start] + "17.25e-3" + line[end:]
    assert numbers_of([pattern], changed_line) == {"loss": 0.01725}


@pytest.mark.parametrize(
    ("pattern", "is_right"),
    [
        ("loss: {loss}", True),
        ("Epoch {epoch}/{epochs} … acc={accuracy}", True),
        ("Step … {step}/", True),
        ("{loss}", False),
        ("{a} {b}", False),
        ("loss", False),
        ("…", False),
        ("", False),
        ("loss {0}", False),
    ],
)
def test_a_pattern_has_a_name_and_text_next_to_it(pattern: str, is_right: bool) -> None:
    assert bool(invalid_pattern([pattern])) != is_right


@given(st.text(min_size=1, max_size=60), st.text(max_size=300))
def test_no_text_of_a_user_is_an_expression(text: str, line: str) -> None:
    pattern = f"a{text}{{x}}"
    if not invalid_pattern([pattern]):
        numbers_of([pattern], line)
    for start, end in number_spans(line):
        pattern_for(line, start, end, "x")


def test_no_pattern_takes_endless_time() -> None:
    for pattern in ("a…a…a…a…a…{x}b", "a{x}…a{y}…a{z}b", "1{x}1{y}1"):
        for line in ("a" * 2000, "1" * 2000, "a1" * 1000):
            numbers_of([pattern], line)


@pytest.mark.parametrize(
    ("name", "is_right"),
    [
        ("loss", True),
        ("train/loss", True),
        ("_a.b-1", True),
        ("1a", False),
        ("a b", False),
        ("", False),
    ],
)
def test_a_name_is_that_of_a_curve(name: str, is_right: bool) -> None:
    assert is_name(name) == is_right


@pytest.mark.parametrize(
    ("line", "numbers"),
    [
        (
            "Epoch 0/3 | train loss: 1.8 | samples: 12,500 | 1.2s",
            {"epoch": 0, "epochs": 3, "train_loss": 1.8, "samples": 12_500},
        ),
        (
            "step 1,000/3,000 (x) loss -1.5 acc 60.5%",
            {"step": 1000, "total_steps": 3000, "loss": -1.5, "acc": 60.5},
        ),
        ("Step 1_000: loss=2.5", {"step": 1000, "loss": 2.5}),
        (
            "step 10,000 of 30,000 loss: 1,200.25",
            {"step": 1e4, "total_steps": 3e4, "loss": 1200.25},
        ),
        ("Epoch 2, loss: 0,25, acc: 0,875", {"epoch": 2, "loss": 0.25, "acc": 0.875}),
        ("Epoch 1 loss: 0.5,acc: 0.3", {"epoch": 1, "loss": 0.5, "acc": 0.3}),
        ("Epoch 1 gpus: 0,1 loss=1", {"epoch": 1, "loss": 1}),
        ("Epoch 1 loss: 0.1,0.2", {"epoch": 1, "loss": 0.1}),
        ("Epoch 3 tokens: 1,234,567 loss 3.2", {"epoch": 3, "tokens": 1_234_567, "loss": 3.2}),
        ("step 12 000/50 000 loss 1.5", {"step": 12_000, "total_steps": 50_000, "loss": 1.5}),
        ("step 12 345 loss: 1.5", {"step": 12_345, "loss": 1.5}),
        ("Step 12\u202f500: loss=1,5", {"step": 12_500, "loss": 1.5}),
        ("step 1'000 loss 0.5", {"step": 1000, "loss": 0.5}),
        ("step 5 100 0.25 loss 0.5", {"step": 5, "loss": 0.5}),
        ("Iter 1.5k/10k | loss 0.3", {"step": 1500, "total_steps": 10_000, "loss": 0.3}),
        ("epoch 3 loss 1,5 acc 0,9", {"epoch": 3, "loss": 1.5, "acc": 0.9}),
        ("Epoch 4 | loss 1.234.567,5", {"epoch": 4, "loss": 1_234_567.5}),
        ("Step: 2,000 | Loss: 1,234", {"step": 2000, "Loss": 1.234}),
        ("Step: 2,000 | err: 1,234 lr: 0.5", {"step": 2000, "err": 1234, "lr": 0.5}),
        ("Step: 2,000 | seen: 1,234 lr: 0,5", {"step": 2000, "seen": 1.234, "lr": 0.5}),
        ("Epoch 2: loss −0.5 lr 1e−3", {"epoch": 2, "loss": -0.5, "lr": 0.001}),
        ("epoch 1 tokens/s 1,234.5", {"epoch": 1, "tokens/s": 1234.5}),
        ("epoch 1 throughput: 12.3k samples/s", {"epoch": 1, "throughput": 12_300}),
        ("Epoche 3/10 Übrig: 0,5", {"epoch": 3, "epochs": 10, "Übrig": 0.5}),
        ("étape 12/100 perte: 0,5", {"step": 12, "total_steps": 100, "perte": 0.5}),
        (
            "Epoch 1, batch 12/100, loss: 0.5",
            {"epoch": 1, "step": 12, "loss": 0.5},
        ),
        (
            "Durchlauf 1/4 – Schritt 1.250/5.000: Verlust = 1,7143, Rate = 0,88E-04",
            {"epoch": 1, "epochs": 4, "step": 1250, "Verlust": 1.7143, "Rate": 0.88e-4},
        ),
        ("step 1.000: loss = 0.85", {"step": 1000, "loss": 0.85}),
        ("epoch 1.250: loss 0.5", {"epoch": 1.25, "is_within_epoch": 1, "loss": 0.5}),
        ("epoch 1.250: loss 0,5", {"epoch": 1250, "loss": 0.5}),
        (
            "global_step=1024, episodic_return=[23.5], sizes=[2, 3]",
            {"step": 1024, "episodic_return": 23.5},
        ),
        ("Episode 12: reward 3.5", {"step": 12, "reward": 3.5}),
        ("iter 10: loss 3.8, time 890.00ms, mfu 3.6%", {"step": 10, "loss": 3.8, "mfu": 3.6}),
        (
            "| epoch 002 | loss 7.8 | num_updates 626 | gnorm 2.5 |",
            {"epoch": 2, "step": 626, "loss": 7.8, "gnorm": 2.5},
        ),
        (
            "[10]\ttrain-rmse:0.85\teval-rmse:0.87",
            {"step": 10, "train-rmse": 0.85, "eval-rmse": 0.87},
        ),
        (
            "10:\tlearn: 0.63\tbest: 0.64 (9)\ttotal: 90ms",
            {"step": 10, "learn": 0.63, "best": 0.64},
        ),
        ("Epoca 1 di 5 (passo 1'250) – perdita: 2.500", {"epoch": 1, "step": 1250, "perdita": 2.5}),
        (
            "第 1/4 轮：训练损失：2.3，准确率：45.5%",
            {"epoch": 1, "epochs": 4, "训练损失": 2.3, "准确率": 45.5},
        ),
        ("num_epoch: 3", {}),
        ("epoch 2 dice [0.5, 0.25], sizes [2, 3]", {"epoch": 2, "dice/0": 0.5, "dice/1": 0.25}),
        (
            "Ep. 1 : Up. 500 : Cost 9.1 * 1,402,331 after 1,402,331 : gNorm 1.8",
            {"epoch": 1, "step": 500, "Cost": 9.1, "gNorm": 1.8},
        ),
        ("epoch 1 took 1.25 minutes", {}),
        ("[12:30:01] loss: 0.5", {"loss": 0.5}),
    ],
)
def test_a_number_of_a_line_is_read_as_people_write_it(
    line: str, numbers: dict[str, float]
) -> None:
    assert LineReader().read(line) == numbers


@pytest.mark.parametrize(
    "line",
    [
        "step 1,000/3,000 (x) samples: 12,500 | 2 s",
        "step 1 000/3 000 (x) samples: 12 500 | 2 s",
        "step 1k/3k (x) samples: 12.5k | 2 s",
        "step 1'000/3'000 (x) samples: 12'500 | 2 s",
    ],
)
def test_a_pattern_finds_digits_in_groups(line: str) -> None:
    patterns = ["step {step}/{total_steps} (", "samples: {samples} |"]
    assert numbers_of(patterns, line) == {"step": 1000, "total_steps": 3000, "samples": 12_500}


@pytest.mark.parametrize(
    ("line", "values"),
    [
        ("  ↳ val  loss 1.3  acc 53.3% (best 53.3% @ ep 1)", {"val/loss": 1.3, "val/acc": 53.3}),
        ("   validation — perte : 1,7 ; exactitude : 60,2 %",
         {"validation/perte": 1.7, "validation/exactitude": 60.2}),
        ("Prüfung: Verlust 2,0 (bisher bester 1,9)", {"prüfung/Verlust": 2.0}),
        ("Test set: Average loss: 0.0571, Accuracy: 9815/10000", {"test/Average_loss": 0.0571}),
        ("[eval] loss=0.5", {"eval/loss": 0.5}),
        ("val loss 0.5", {"val_loss": 0.5}),
        ("data/val/1.jpg: loss 0.5", {"loss": 0.5}),
        ("test_fit.py: loss 0.5", {"loss": 0.5}),
    ],
)  # fmt: skip
def test_values_of_the_validation_are_not_those_of_the_training(
    line: str, values: dict[str, float]
) -> None:
    reader = LineReader()
    reader.position = {"epoch": 7}
    assert reader.read(line) == {"epoch": 7, **values}
