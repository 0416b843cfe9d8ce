"""A sweep becomes named jobs: how many, in which order, each another one, always the same."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backend.records.jobs.job_file import parse_job
from backend.records.sweeps.spec import (
    MAX_JOBS,
    Sweep,
    combination_count,
    expand,
    read_sweep,
    sweep_name,
    sweep_of,
    sweep_title,
    swept_path,
)
from backend.records.sweeps.values import (
    Axis,
    ValueRange,
    axis_text,
    field_kind,
    parse_axis,
    read_value,
    typed_value,
    value_text,
)

DIGITS: dict[str, Any] = {
    "name": "digits",
    "model": "digits",
    "dataset": "digits",
    "loader": "digits",
    "epochs": 2,
    "batch_size": 32,
    "optimizer": {"name": "sgd", "lr": 0.05, "momentum": 0.9},
    "placement": [{"node": "this-computer", "processes": 1}],
}
RATE = Axis("optimizer.lr", (0.01, 0.03, 0.1))
BATCH = Axis("batch_size", (16, 32))
rates = st.lists(st.floats(1e-9, 1e3, allow_nan=False), min_size=1, max_size=5, unique=True)
batches = st.lists(st.integers(1, 9999), min_size=1, max_size=5, unique=True)
seeds = st.lists(st.integers(0, 2**40), min_size=1, max_size=4, unique=True)


def error_messages(sweep: Sweep) -> list[str]:
    return [error.message for error in expand(sweep).errors]


def test_s10_two_by_three_makes_six_jobs_with_their_values_in_their_names() -> None:
    expansion = expand(Sweep(DIGITS, (BATCH, RATE)), "sweep:digits-k3pf")
    assert expansion.errors == ()
    assert [job.name for job in expansion.jobs] == [
        "digits batch=16 lr=0.01",
        "digits batch=16 lr=0.03",
        "digits batch=16 lr=0.1",
        "digits batch=32 lr=0.01",
        "digits batch=32 lr=0.03",
        "digits batch=32 lr=0.1",
    ]
    config = parse_job(expansion.jobs[2].raw).config
    assert config is not None
    assert (config.name, config.batch_size, config.optimizer.lr) == (
        expansion.jobs[2].name,
        16,
        0.1,
    )
    assert config.optimizer.settings == {"momentum": 0.9}
    assert (sweep_of(config.tags), sweep_name(config.tags[0])) == (
        "sweep:digits-k3pf",
        "digits-k3pf",
    )
    assert DIGITS["optimizer"]["lr"] == 0.05, "the base is left as it was"


@settings(max_examples=30)
@given(rates, batches, seeds)
def test_a_grid_has_every_combination_once_in_the_order_of_its_axes(a, b, c) -> None:
    axes = (Axis("optimizer.lr", tuple(a)), Axis("batch_size", tuple(b)), Axis("seed", tuple(c)))
    expansion = expand(Sweep(DIGITS, axes))
    assert expansion.errors == ()
    assert [tuple(v for _, v in job.values) for job in expansion.jobs] == [
        (x, y, z) for x in a for y in b for z in c
    ]
    assert len({job.name for job in expansion.jobs}) == len(a) * len(b) * len(c)
    for job in expansion.jobs:
        config = parse_job(job.raw).config
        assert config is not None
        assert (config.optimizer.lr, config.batch_size, config.seed) == tuple(
            value for _, value in job.values
        )


@settings(max_examples=20)
@given(st.integers(1, MAX_JOBS), st.integers(0, 2**63 - 1), st.sampled_from(["linear", "log"]))
def test_a_draw_is_the_same_for_the_same_seed_and_stays_within_its_range(
    count: int, seed: int, scale: str
) -> None:
    axes = (
        Axis("optimizer.lr", span=ValueRange(1e-4, 0.1, 0, scale)),
        Axis("seed", span=ValueRange(0, 9999)),
    )
    sweep = Sweep(DIGITS, axes, draws=count, seed=seed)
    expansion = expand(sweep)
    assert expansion == expand(sweep)
    assert len({job.name for job in expansion.jobs}) == len(expansion.jobs) == count
    for job in expansion.jobs:
        values = dict(job.values)
        assert 1e-4 <= values["optimizer.lr"] <= 0.1
        assert isinstance(values["seed"], int)
        assert 0 <= values["seed"] <= 9999
    if count > 20:
        assert expansion != expand(Sweep(DIGITS, axes, draws=count, seed=seed + 1))


@settings(max_examples=40)
@given(rates, batches, st.integers(0, 999), st.data())
def test_a_draw_of_listed_values_takes_no_combination_twice(a, b, seed, data) -> None:
    axes = (Axis("optimizer.lr", tuple(a)), Axis("batch_size", tuple(b)))
    count = data.draw(st.integers(1, len(a) * len(b)))
    jobs = expand(Sweep(DIGITS, axes, count, seed)).jobs
    assert len({job.values for job in jobs}) == len(jobs) == count
    assert {v for job in jobs for v in job.values} <= {
        *(("optimizer.lr", value) for value in a),
        *(("batch_size", value) for value in b),
    }


@given(
    st.floats(1e-6, 1e6),
    st.floats(1.1, 1e6),
    st.integers(2, 50),
    st.sampled_from(["linear", "log"]),
)
def test_a_range_has_its_ends_and_as_many_steps_as_were_asked_for(
    low, factor, steps, scale
) -> None:
    points = Axis("optimizer.lr", span=ValueRange(low, low * factor, steps, scale)).points()
    assert len(points) == steps
    assert list(points) == sorted(set(points))
    assert (points[0], points[-1]) == (low, low * factor)


@given(rates)
def test_the_text_of_values_reads_back_as_the_values(values) -> None:
    axis = Axis("optimizer.lr", tuple(values))
    assert parse_axis("optimizer.lr", axis_text(axis)) == axis


@pytest.mark.parametrize(
    ("path", "text", "shown_text"),
    [
        ("optimizer.lr", " 0.01,0.03 , 1e-1", "0.01, 0.03, 0.1"),
        ("optimizer.lr", "1e-4..1e-1:4:log", "0.0001, 0.001, 0.01, 0.1"),
        ("optimizer.lr", "0.1 – 0.3 : 3", "0.1, 0.2, 0.3"),
        ("optimizer.lr", "0.1..0.3", "0.1 to 0.3"),
        ("batch_size", "16..128:4:log", "16, 32, 64, 128"),
        ("batch_size", "1..4:4", "1, 2, 3, 4"),
        ("optimizer.betas", "0.9, 0.999; 0.8, 0.99", "0.9,0.999; 0.8,0.99"),
        ("optimizer.name", "sgd, adam", "sgd, adam"),
        ("continue_unsaved", "on, off", "yes, no"),
        ("stop_on_divergence", "on, off", "yes, no"),
        ("optimizer.weight_decay", "0,0005; 0,01", "0.0005, 0.01"),
        ("optimizer.weight_decay", "0, 5", "0, 5"),
        ("optimizer.lr", "1e-3,5e-4", "0.001, 0.0005"),
        ("optimizer.lr", "0.5,1", "0.5, 1"),
        ("optimizer.lr", "0,1..0,3:3", "0.1, 0.2, 0.3"),
        ("batch_size", "16,32", "16, 32"),
        ("batch_size", "16.0, 1e3", "16, 1000"),
        ("strategy.servers", "1,2", "1, 2"),
        ("strategy.lambda", "0.5; 2", "0.5, 2"),
        ("strategy.cut", "a, b; c, d", "a,b; c,d"),
    ],
)
def test_values_are_typed_as_a_list_or_as_a_range(path: str, text: str, shown_text: str) -> None:
    assert axis_text(parse_axis(path, text)) == shown_text


@pytest.mark.parametrize(
    ("path", "text", "message"),
    [
        ("optimizer.lr", "", "optimizer.lr: has no values; use 0.01, 0.03, 0.1 or"),
        ("optimizer.lr", "0.1,,0.2", "optimizer.lr: has an empty value next to a comma"),
        ("optimizer.lr", "0.1, 0.10", "optimizer.lr: names 0.1 twice."),
        ("optimizer.lr", "0.3..0.1:3", "goes from 0.3 to 0.1; the first must be the lower one."),
        ("optimizer.lr", "0..0.1:3:log", "is logarithmic and begins at 0"),
        ("optimizer.lr", "0.1..0.2:1", "has 1 steps; it must have 2 to 200."),
        ("optimizer.lr", "0.1..0.2:3:cubic", "has the scale “cubic”; it must be linear or log."),
        ("optimizer.lr", "1..1e999:3", "needs two numbers as the ends of its range."),
        ("batch_size", "1.2..1.8:2", "contains no whole number between 1.2 and 1.8."),
        (
            "optimizer.weight_decay",
            "0,0005",
            "“0,0005” could be one number or two. Write 0.0005 for one, or “0; 5” for two.",
        ),
        ("optimizer.lr", "1,10", "Write 1.10 for one, or “1; 10” for two."),
        ("optimizer.lr", "0,01, 0,1", "“0,01” could be one number or two."),
        ("optimizer.momentum", "0,9", "Write 0.9 for one, or “0; 9” for two."),
        ("batch_size", "1,024", "Write 1024 for one, or “1; 24” for two."),
        ("strategy.lambda", "0,04", "Write 0.04 for one"),
        (
            "optimizer.lr",
            "0,1e-4..0.1:log",
            "“0,1e-4..0.1” could be a range, or a value and a range; write 0.1e-4..0.1 for the",
        ),
        ("arguments.lr", "0,1e-4..0.1:log", "write 0.1e-4..0.1 for the range, which"),
        ("optimizer.lr", "1..2,5", "write 1..2.5 for the range"),
        ("optimizer.lr", "1e-4...1e-1:4", "has three dots; a range has two, as in 1..4."),
        ("arguments.lr", "0...5", "has three dots; a range has two"),
        ("optimizer.lr", "1e-4:1e-1:4", "is not a number; write a range as 1e-4..0.1:4."),
        ("batch_size", "16..17:5", "batch_size: has 5 steps, and only 2 whole numbers for them."),
        ("batch_size", "16-64", "16-64 is not a number; write a range as"),
    ],
)
def test_a_text_that_gives_no_values_is_refused_in_one_sentence(path, text, message) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        parse_axis(path, text)
    assert str(caught.value).startswith(f"{path}: ")
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("text", "base_value", "message"),
    [
        ("1e-4:1e-1:4", "0.1", "“1e-4:1e-1:4” is neither a value nor a range; a range has two"),
        ("0.1 0.2 0.3", 0.1, "“0.1 0.2 0.3” is neither a value nor a range"),
        ("16-64", 32, "“16-64” is neither a value nor a range"),
        ("0.1, 0.2 to 0.3", 0.1, "“0.2 to 0.3” is neither a value nor a range"),
        ("0,1;0,10", "0.1", "0.1 and 0.10 are one number, so that two jobs would be equal"),
        ("0.1, 1e-1", 0.5, "0.1 and 1e-1 are one number"),
        ("64, 064", "32", "64 and 064 are one number"),
        ("64, 64.0", 64, "64 and 64.0 are one number"),
    ],
)
def test_values_of_an_argument_that_are_no_numbers_or_equal_ones_are_refused(
    text, base_value, message
) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        parse_axis("arguments.lr", text, base_value)
    assert str(caught.value).startswith(f"arguments.lr: {message}")


@pytest.mark.parametrize(
    ("text", "base_value", "values"),
    [
        ("resnet:18, resnet:34", "resnet:50", ("resnet:18", "resnet:34")),
        ("16:9, 4:3", "16:9", ("16:9", "4:3")),
        ("2026-01, 2026-02", None, ("2026-01", "2026-02")),
        ("v1.1, v1.10", "v1", ("v1.1", "v1.10")),
        ("-1, -2", "1", ("-1", "-2")),
        ("1e-3, 1e-4", "1e-2", ("1e-3", "1e-4")),
    ],
)
def test_texts_with_signs_of_a_range_are_values_of_an_argument(text, base_value, values) -> None:
    assert parse_axis("arguments.lr", text, base_value).points() == values


@pytest.mark.parametrize(
    ("axes", "draws", "expected_messages"),
    [
        ((), None, ["No field has several values; name at least one."]),
        ((Axis("optimizer.lr"),), None, ["optimizer.lr: has no values; use 0.01"]),
        ((Axis("optimizer.lr", (0.1, 0)),), None, ["optimizer.lr: “0” must be above 0."]),
        (
            (Axis("batch_size", (16, "many", 0.5)),),
            None,
            [
                "batch_size: “many” must be a whole number, not text.",
                "batch_size: “0.5” must be a whole number, not 0.5.",
            ],
        ),
        ((Axis("epoch", (1, 2)),), None, ["epoch: is not a setting of a job. Did you mean"]),
        ((Axis("name", ("a", "b")),), None, ["name: distinguishes the jobs of a sweep"]),
        ((BATCH, BATCH), None, ["batch_size: is named twice."]),
        ((Axis("optimizer", (1,)), RATE), None, ["optimizer: is a table, and a part of it"]),
        (
            (Axis("seed", tuple(range(67))), RATE),
            None,
            ["seed: With its 67 values the sweep has 201 jobs; the limit is 200."],
        ),
        ((Axis("optimizer.lr", span=ValueRange(0.1, 1)),), None, ["is a range without steps"]),
        ((RATE, BATCH), 7, ["batch_size: 7 jobs were requested, but these values give only 6"]),
        ((Axis("epochs", span=ValueRange(1, 3)),), 4, ["epochs: 4 jobs were requested"]),
        ((RATE,), 0, ["sweep.random: must be 1 to 200, not 0."]),
        ((RATE,), 201, ["sweep.random: must be 1 to 200, not 201."]),
    ],
)
def test_a_sweep_that_cannot_be_is_refused_and_its_field_is_named(
    axes, draws, expected_messages
) -> None:
    messages = error_messages(Sweep(DIGITS, axes, draws))
    unique = list(dict.fromkeys(messages))
    assert len(messages) == len(unique), "each is listed once, however many jobs have it"
    assert len(messages) >= len(expected_messages)
    for expected in expected_messages:
        assert any(expected in text for text in messages), messages


def test_200_jobs_are_no_job_too_many() -> None:
    axes = (Axis("seed", tuple(range(100))), BATCH)
    assert len(expand(Sweep(DIGITS, axes)).jobs) == MAX_JOBS


def test_a_long_name_gives_way_to_the_values_that_distinguish_the_jobs() -> None:
    expansion = expand(Sweep({**DIGITS, "name": "ü" * 127}, (RATE,)))
    assert expansion.errors == ()
    assert {len(job.name.encode()) <= 255 for job in expansion.jobs} == {True}
    assert [job.name.rpartition(" ")[2] for job in expansion.jobs] == [
        "lr=0.01",
        "lr=0.03",
        "lr=0.1",
    ]


def test_fields_of_one_word_are_distinguished_by_their_paths() -> None:
    axes = (Axis("optimizer.lr_decay", (0.1,)), Axis("environment.lr_decay", ("a", "b")))
    base = {**DIGITS, "optimizer": {"name": "adagrad", "lr": 0.1}}
    assert [job.name for job in expand(Sweep(base, axes)).jobs] == [
        "digits optimizer.lr_decay=0.1 environment.lr_decay=a",
        "digits optimizer.lr_decay=0.1 environment.lr_decay=b",
    ]


def test_a_job_swept_again_belongs_to_the_new_sweep_alone() -> None:
    base = {**DIGITS, "tags": ["night", "sweep:old-aaaa"]}
    (job, *_) = expand(Sweep(base, (RATE,)), "sweep:new-bbbb").jobs
    assert job.raw["tags"] == ["night", "sweep:new-bbbb"]


def test_a_field_may_be_called_by_its_last_word() -> None:
    assert swept_path("lr", DIGITS) == "optimizer.lr"
    assert swept_path("batch_size", DIGITS) == "batch_size"
    assert swept_path("environment.SIZE", DIGITS) == "environment.SIZE"
    with pytest.raises(
        ValueError, match=r"optimizer\.lrr: is not a setting of a job\. Did you mean"
    ):
        swept_path("optimizer.lrr", DIGITS)
    with pytest.raises(ValueError, match="best_metricc: is not a setting"):
        swept_path("best_metricc", DIGITS)


def test_a_sweep_file_is_a_job_file_with_a_table_more() -> None:
    table = {
        "random": 5,
        "seed": 7,
        "axes": {
            "lr": {"from": 1e-4, "to": 0.1, "scale": "log"},
            "optimizer": {"momentum": [0.0, 0.9]},
            "batch_size": "16, 32",
        },
    }
    sweep, errors = read_sweep({**DIGITS, "sweep": table})
    assert errors == ()
    assert sweep == Sweep(
        DIGITS,
        (
            Axis("optimizer.lr", span=ValueRange(1e-4, 0.1, 0, "log")),
            Axis("optimizer.momentum", (0.0, 0.9)),
            BATCH,
        ),
        5,
        7,
    )


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (None, "sweep: is missing; it lists the fields and their values."),
        ({}, "sweep.axes: names no field."),
        ({"axes": {"lrr": [1]}}, "lrr: is not a setting of a job."),
        ({"axes": {"lr": {"from": 1, "until": 2}}}, "a range has from, to, steps and scale"),
        ({"axes": {"lr": {"from": 1, "to": "2"}}}, "a range needs numbers as from, to and steps."),
        ({"axes": {"lr": [1]}, "random": "few"}, "sweep.random: must be a whole number, not text."),
        ({"axes": {"lr": [1]}, "sead": 2}, "sweep.sead: is not a setting of a sweep."),
    ],
)
def test_the_error_of_an_invalid_sweep_file_says_where(table, message) -> None:
    raw = DIGITS if table is None else {**DIGITS, "sweep": table}
    sweep, errors = read_sweep(raw)
    assert sweep is None
    assert any(message in error.message for error in errors), errors


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.1 + 0.2, "0.30000000000000004"),
        (1e-05, "1e-05"),
        (math.pi, "3.141592653589793"),
        (True, "yes"),
        ([{"node": "a", "processes": 2}, {"node": "b", "gpus": ["x"]}], "a×2,b×1"),
    ],
)
def test_no_digit_of_a_value_is_lost_in_a_name(value: object, text: str) -> None:
    assert value_text(value) == text


@given(st.sampled_from(["flag", "pair", "texts", "whole", "number", "text"]), st.text())
def test_reading_a_value_never_raises(kind: str, text: str) -> None:
    read_value(kind, text)


@pytest.mark.parametrize(
    ("path", "typed_text", "value"),
    [
        ("optimizer.lr", "12", 12),
        ("optimizer.lr", "5e-2", 0.05),
        ("optimizer.lr", "0,05", 0.05),
        ("optimizer.lr", " 1 000,5 ", 1000.5),
        ("optimizer.lr", "x", "x"),
        ("optimizer.betas", "0.9, 0.999", [0.9, 0.999]),
        ("log_numbers", "loss: {loss}, acc {acc}", ["loss: {loss}", "acc {acc}"]),
        ("log_numbers", '["a {a}, b {b}", "c {c}"]', ["a {a}, b {b}", "c {c}"]),
        ("log_numbers", "[ep {epoch}] {loss}", ["[ep {epoch}] {loss}"]),
        ("log_numbers", "[{loss}]", ["[{loss}]"]),
        ("log_numbers", "['a {a}, b {b}', 'c']", ["a {a}, b {b}", "c"]),
        ("freeze", "'a', 'b'", ["a", "b"]),
        ("freeze", '"a,b","c"', ["a,b", "c"]),
        ("freeze", '["a", ]', ["a"]),
        ("freeze", "[]", []),
        ("freeze", "a]", ["a]"]),
        ("optimizer.betas", "[0.9, 0.999]", [0.9, 0.999]),
        ("schedule.milestones", "[20, 40]", [20, 40]),
        ("slurm.options", '["--mem=32G"]', ["--mem=32G"]),
        ("epochs", "16.0", 16),
        ("epochs", "2.5", 2.5),
        ("epochs", "1.000", "1.000"),
        ("epochs", "1,000", "1,000"),
        ("optimizer.lr", "1.000", 1.0),
        ("strategy.cut", "features, head", ["features", "head"]),
    ],
)
def test_a_single_value_is_read_like_one_of_a_sweep(path, typed_text, value) -> None:
    assert read_value(field_kind(path), typed_text) == value


@pytest.mark.parametrize(
    ("path", "typed_text", "example"),
    [
        ("freeze", '["a"', '["a", "b"]'),
        ("freeze", '"a"]', '["a", "b"]'),
        ("freeze", '"a', '["a", "b"]'),
        ("freeze", "['a' 'b']", '["a", "b"]'),
        ("freeze", "[a, b]", '["a", "b"]'),
        ("freeze", '["a", 1', '["a", "b"]'),
        ("optimizer.betas", "[0.9, 0.99", "[0.9, 0.99]"),
        ("optimizer.betas", "0.9, 0.99]", "[0.9, 0.99]"),
        ("schedule.milestones", "[20 40]", "[1, 2]"),
    ],
)
def test_a_list_that_is_not_complete_is_refused_and_never_divided(path, typed_text, example):
    message = f"{path}: {typed_text} is not a complete list; write {example}."
    for parse in (typed_value, parse_axis):
        with pytest.raises(ValueError, match=re.escape(message)):
            parse(path, typed_text)
    assert read_value(field_kind(path), typed_text) == typed_text


@pytest.mark.parametrize(
    ("path", "typed_text", "values"),
    [
        ("optimizer.name", "['sgd','adam']", ("sgd", "adam")),
        ("optimizer.name", "'sgd', 'adam'", ("sgd", "adam")),
        ("optimizer.lr", "[0.1, 1e-2]", (0.1, 0.01)),
        ("batch_size", "[16,32]", (16, 32)),
        ("compile", "[true, false]", (True, False)),
        ("arguments.loss", '["l1, l2", "mse"]', ("l1, l2", "mse")),
        ("arguments.size", "[64,64]; [32,32]", ("[64,64]", "[32,32]")),
        ("model", '["a;b"]', ("a;b",)),
        ("optimizer.betas", "[[0.9, 0.99], [0.8, 0.9]]", ([0.9, 0.99], [0.8, 0.9])),
        ("optimizer.betas", "[0.9, 0.99]", ([0.9, 0.99],)),
        ("freeze", "[]", ([],)),
    ],
)
def test_values_in_brackets_are_those_of_a_job_file(path, typed_text, values) -> None:
    assert parse_axis(path, typed_text).values == values


@pytest.mark.parametrize(
    ("path", "typed_text"),
    [
        ("optimizer.name", '["sgd"'),
        ("optimizer.lr", "[0.1, 0.01"),
        ("batch_size", "16, 32]"),
        ("compile", "[yes, no]"),
        ("arguments.lr", "['0.1', 0.2"),
    ],
)
def test_a_broken_list_of_values_is_refused(path, typed_text) -> None:
    with pytest.raises(ValueError, match="is not a complete list; write"):
        parse_axis(path, typed_text)


SGD = {**DIGITS, "optimizer": {"name": "sgd", "lr": 0.1, "momentum": 0.9}}
OPTIMIZERS = Axis("optimizer.name", ("sgd", "adam"))


@pytest.mark.parametrize(
    ("base", "axes", "optimizers"),
    [
        (SGD, (OPTIMIZERS,), [SGD["optimizer"], {"name": "adam", "lr": 0.1}]),
        (
            DIGITS,
            (OPTIMIZERS, Axis("optimizer.momentum", (0.5, 0.9))),
            [
                {**DIGITS["optimizer"], "name": "sgd", "momentum": 0.5},
                {**DIGITS["optimizer"], "name": "sgd", "momentum": 0.9},
                {"name": "adam", "lr": DIGITS["optimizer"]["lr"]},
            ],
        ),
        (
            SGD,
            (Axis("optimizer.amsgrad", (True,)), OPTIMIZERS),
            [SGD["optimizer"], {"name": "adam", "lr": 0.1, "amsgrad": True}],
        ),
    ],
)
def test_settings_of_some_optimizers_are_set_for_those(base, axes, optimizers) -> None:
    expansion = expand(Sweep(base, axes))
    assert expansion.errors == ()
    assert [job.raw["optimizer"] for job in expansion.jobs] == optimizers
    assert len(expansion.jobs) == combination_count(axes)
    drawn_expansion = expand(Sweep(base, axes, draws=len(optimizers)))
    assert sorted(job.name for job in drawn_expansion.jobs) == sorted(
        job.name for job in expansion.jobs
    )


def test_a_setting_that_no_optimizer_of_the_sweep_has_is_named() -> None:
    axes = (OPTIMIZERS, Axis("optimizer.rho", (0.5, 0.9)))
    assert error_messages(Sweep(DIGITS, axes))[0].startswith("optimizer.rho: ")


@pytest.mark.parametrize(
    ("policy", "axes", "modes"),
    [
        ({"best_metric": "validation/accuracy", "best_mode": "max"}, (), ["max", "min", "max"]),
        ({"best_metric": "validation/x", "best_mode": "min"}, (), ["max", "min", "max"]),
        ({"best_mode": "max"}, (), ["max", "max", "max"]),
        ({}, (), ["max", "min", "max"]),
        ({}, (Axis("checkpoint.best_mode", ("min",)),), ["min", "min", "min"]),
        ({"best_metric": "loss", "best_mode": "max"}, (), ["max", "max", "max"]),
    ],
)
def test_the_direction_of_another_metric_is_not_taken(policy, axes, modes) -> None:
    metrics = Axis("checkpoint.best_metric", ("validation/accuracy", "loss", "kappa"))
    expansion = expand(Sweep({**DIGITS, "checkpoint": policy}, (*axes, metrics)))
    jobs = [parse_job(job.raw).config for job in expansion.jobs]
    assert [job.checkpoint.best_mode for job in jobs] == modes


@pytest.mark.parametrize(
    ("names", "title"),
    [
        (["shapes 2 lr=0.01", "shapes 2 lr=0.05"], "shapes 2"),
        (["shapes 2 (2) lr=0.1 batch=8", "shapes 2 (2) lr=0.1 batch=16"], "shapes 2 (2)"),
        (["digits, 2 workers seed=1"], "digits, 2 workers"),
        (
            ["Whole network · split, admm seed=1", "Whole network · whole seed=1"],
            "Whole network",
        ),
        (["a b seed=1", "a seed=1"], "a"),
        (["lr=0.1", "lr=0.2"], "shapes-2-zxym"),
        (["renamed", "shapes lr=0.2"], "shapes-2-zxym"),
        (["größe größe lr=1", "größe größe lr=2"], "größe größe"),
    ],
)
def test_the_name_of_a_sweep_is_that_of_its_jobs_without_values(names, title) -> None:
    assert sweep_title("sweep:shapes-2-zxym", names) == title
