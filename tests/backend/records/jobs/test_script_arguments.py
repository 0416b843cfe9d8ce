"""The arguments of a script as settings, read from their list and written into it."""

from __future__ import annotations

import json
import tomllib
from typing import Any

import pytest
import tomli_w
from hypothesis import assume, given
from hypothesis import strategies as st

from backend.records.jobs.arguments import (
    NO,
    YES,
    named_arguments,
    unnamed_tokens,
    value_of,
    value_problem,
    with_value,
)
from backend.records.jobs.comparison import RunFigures, compare
from backend.records.jobs.flat_settings import default_settings, effective_settings, setting_changes
from backend.records.jobs.job_file import parse_job, with_changes
from backend.records.jobs.settings import label, section, value_at
from backend.records.jobs.state import JobState
from backend.records.jobs.status import RunStatus
from backend.records.jobs.template import describe
from backend.records.jobs.view import JobView
from backend.records.sweeps.parallel_coordinates import parallel_plot
from backend.records.sweeps.search import Search, StoredSearch
from backend.records.sweeps.spec import Sweep, expand, read_sweep, sweep_file, swept_path
from backend.records.sweeps.values import axis_text, parse_axis

BASE: dict[str, Any] = {
    "name": "mine",
    "script": "mine",
    "arguments": ["fit", "--out", "{output}", "--lr", "0.1", "--amp", "--batch-size=32", "data"],
    "placement": [{"node": "a", "processes": 1}],
}
OWN_CONFIG = parse_job(BASE).draft
NAMES = st.sampled_from(["lr", "b", "batch-size", "batch_size", "optim.lr", "model/size", "Amp"])
VALUES = st.text(max_size=6).filter(lambda text: text != NO) | st.sampled_from(
    ["-1", "64 64", "1 -2", "-x", "--", "a=b", "-inf", "--lr", "{output}", "1e-4", YES, "", "-.5"]
)
TOKEN_LISTS = st.lists(
    st.text(max_size=5)
    | VALUES
    | st.sampled_from(
        ["--lr", "-b", "64", "-2", "lr=1", "+optim.lr=2", "--batch-size=3", "--amp", "fit"]
    ),
    max_size=7,
)


@given(tokens=TOKEN_LISTS, name=NAMES, value=VALUES)
def test_a_written_argument_reads_back_and_the_others_stay(tokens, name, value) -> None:
    assume(tokens.count("--") == 0)
    new_tokens = with_value(tokens, name, value)
    # Of several numbers commas become blanks.
    assert value_of(new_tokens, name) in (value, value.replace(",", " "))
    spellings = {name, name.replace("_", "-"), name.replace("-", "_")}
    assert {
        key: value_of_name
        for key, value_of_name in named_arguments(new_tokens).items()
        if key not in spellings
    } == {
        key: value_of_name
        for key, value_of_name in named_arguments(tokens).items()
        if key not in spellings
    }
    assert with_value(new_tokens, name, value) == new_tokens


@given(tokens=TOKEN_LISTS)
def test_every_word_is_listed_once(tokens) -> None:
    """A name that is given twice has its last value; its first stays with the other words."""
    all_tokens = [
        *unnamed_tokens(tokens),
        *(token for pair in named_arguments(tokens).items() for token in pair),
    ]
    for word in tokens:
        assert any(word.endswith(token) for token in all_tokens)


@pytest.mark.parametrize(
    ("tokens", "name", "value", "expected"),
    [
        (["--lr", "0.1"], "lr", "0.2", ["--lr", "0.2"]),
        (["--lr=0.1", "x"], "lr", 0.2, ["--lr=0.2", "x"]),
        (["-b", "32", "data"], "b", 64, ["-b", "64", "data"]),
        (["+optim.lr=0.1", "a=b"], "optim.lr", 1e-5, ["+optim.lr=1e-05", "a=b"]),
        (["model=mlp"], "epochs", 3, ["model=mlp", "epochs=3"]),
        ([], "trainer.epochs", "3", ["trainer.epochs=3"]),
        (["fit", "--x", "1"], "trainer.epochs", "3", ["fit", "--x", "1", "--trainer.epochs", "3"]),
        ([], "b", "3", ["-b", "3"]),
        (["--x", "--", "data"], "lr", "3", ["--x", "--lr", "3", "--", "data"]),
        (["--batch-size", "3"], "batch_size", 4, ["--batch-size", "4"]),
        (["--lr", "1", "--lr", "2"], "lr", "3", ["--lr", "1", "--lr", "3"]),
        (["--offset", "-1"], "offset", "-2", ["--offset", "-2"]),
        (["--note", "x"], "note", "-y z", ["--note", "-y z"]),
        (["--note", "x"], "note", "-y", ["--note=-y"]),
        ([], "amp", "yes", ["--amp"]),
        (["--amp", "--x"], "amp", False, ["--x"]),
        (["--amp", "--x"], "amp", True, ["--amp", "--x"]),
        (["--amp", "true"], "amp", "no", ["--amp", "no"]),
        (["--lr", "1", "x"], "lr", None, ["x"]),
        (["--layers", "64", "64"], "layers", "32", ["--layers", "32"]),
        (["--layers", "64"], "layers", "128 128", ["--layers", "128", "128"]),
        (["--layers", "6", "4", "x"], "layers", None, ["x"]),
        (["--layers", "x", "4"], "layers", 3, ["--layers=3", "4"]),
        (["--betas", "0.9", "-1e-3", "--x"], "betas", "1 2", ["--betas", "1", "2", "--x"]),
        (["--note", "x"], "note", "64 x", ["--note", "64 x"]),
        (["--a=1", "--b=2"], "lr", "3", ["--a=1", "--b=2", "--lr=3"]),
        (["--a=1", "--b=2"], "amp", "yes", ["--a=1", "--b=2", "--amp"]),
        (["--a=1", "--amp"], "lr", "3", ["--a=1", "--amp", "--lr", "3"]),
        (["--x"], "lr", "no", ["--x"]),
    ],
)
def test_a_value_takes_the_place_that_it_has_in_the_list(tokens, name, value, expected) -> None:
    assert with_value(tokens, name, value) == expected


def test_a_sweep_over_arguments_makes_one_job_for_each_value() -> None:
    axes = (parse_axis("arguments.lr", "0.1, 1e-3"), parse_axis("arguments.amp", "yes,no"))
    expansion = expand(Sweep(BASE, axes))
    assert not expansion.errors
    assert [job.name for job in expansion.jobs] == [
        "mine lr=0.1 amp=yes",
        "mine lr=0.1 amp=no",
        "mine lr=1e-3 amp=yes",
        "mine lr=1e-3 amp=no",
    ]
    last = ["fit", "--out", "{output}", "--lr", "1e-3", "--batch-size=32", "data"]
    assert expansion.jobs[-1].raw["arguments"] == last
    assert BASE["arguments"][4] == "0.1"


@pytest.mark.parametrize(
    ("typed_text", "shown_text"),
    [
        ("1e-4..1e-1:4:log", "0.0001, 0.001, 0.01, 0.1"),
        ("8..32:4", "8, 16, 24, 32"),
        ("../a, ../b", "../a, ../b"),
        ("64,64; 32", "64,64; 32"),
        ("sgd,adam", "sgd, adam"),
        ("1,2", "1, 2"),
    ],
)
def test_values_of_an_argument_are_typed_as_those_of_a_setting(
    typed_text: str, shown_text: str
) -> None:
    axis = parse_axis("arguments.x", typed_text)
    assert axis_text(axis) == shown_text
    assert parse_axis("arguments.x", shown_text).points() == tuple(
        map(str, shown_text.split("; "))
    ) or (axis_text(parse_axis("arguments.x", shown_text)) == shown_text)


@pytest.mark.parametrize(
    ("text", "base_value", "is_whole"),
    [
        ("1..4", "2", True),
        ("1..4", None, True),
        ("1..4", "{seed}", True),
        ("1..4", "0.5", False),
        ("1..4", "2.0", False),
        ("1e1..1e3:log", "64", True),
        ("1.0..4.0", "2", False),
        ("1..4.5", None, False),
        ("1e-4..1:log", None, False),
        ("0..1:5", None, False),
        ("0..4:5", "0", True),
        ({"from": 1, "to": 4}, "2", True),
        ({"from": 1, "to": 4}, "0.5", False),
        ({"from": 1.0, "to": 4}, "2", False),
    ],
)
def test_a_range_of_an_argument_with_whole_ends_is_whole_unless_the_job_has_a_fraction(
    text: str | dict[str, float], base_value: str | None, is_whole: bool
) -> None:
    arguments = [] if base_value is None else ["--x", base_value]
    table = {"search": {"goal": "loss"}, "axes": {"arguments.x": text}}
    sweep, errors = read_sweep({**BASE, "arguments": arguments, "sweep": table})
    assert not errors
    assert sweep is not None
    [axis] = sweep.axes
    assert axis.is_whole is is_whole
    assert isinstance(axis.value_at(0.3), int) is is_whole
    stored = StoredSearch("sweep:a", "n", 1, Search("loss"), sweep.axes, ())
    assert StoredSearch.from_dict(json.loads(json.dumps(stored.to_dict()))) == stored
    assert read_sweep(tomllib.loads(tomli_w.dumps(sweep_file(sweep)))) == (sweep, ())


@pytest.mark.parametrize(
    ("text", "base_value", "values"),
    [
        ("0,1;0,5", None, ("0.1", "0.5")),
        ("0,1; 1,5", "0.9", ("0.1", "1.5")),
        ("64,64; 32", "64", ("64,64", "32")),
        ("0,1; 0,2", "0,1", ("0,1", "0,2")),
        ("0,1; 2,3", None, ("0,1", "2,3")),
        ("0,1; sgd", None, ("0,1", "sgd")),
        ("0,1,2; 3", None, ("0,1,2", "3")),
        ("../data..old, a/b..c", None, ("../data..old", "a/b..c")),
        ("main..dev, a..b", "v1..v2", ("main..dev", "a..b")),
    ],
)
def test_a_comma_in_an_argument_is_decimal_if_the_job_or_a_zero_says_so(
    text: str, base_value: str | None, values: tuple[str, ...]
) -> None:
    assert parse_axis("arguments.x", text, base_value).values == values


@pytest.mark.parametrize(
    "text",
    ["abc..def", "0.01..0.1..1", "0, 1e-4..0.1:log", "1..4, 8", "0.1..x; 2", "1e-4–much"],
)
@pytest.mark.parametrize("base_value", [None, "0.1", "2"])
def test_a_range_that_is_none_is_no_text(text: str, base_value: str | None) -> None:
    with pytest.raises(ValueError, match=r"^arguments\.x: “[^”]+” is neither a value nor a range;"):
        parse_axis("arguments.x", text, base_value)


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("lr", "arguments.lr"),
        ("batch-size", "arguments.batch-size"),
        ("arguments.new", "arguments.new"),
        ("seed", "seed"),
        ("entry", "entry"),
        ("arguments", "arguments"),
    ],
)
def test_an_argument_may_be_called_by_its_name_alone(text: str, path: str) -> None:
    assert swept_path(text, BASE) == path


@pytest.mark.parametrize("text", ["momentum", "optimizer.lr", "arguments.", "arguments.a b", "new"])
def test_a_name_that_is_no_argument_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a setting of a job"):
        swept_path(text, BASE)


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("LR", ("0.5", "0.2"), "is “lr” in the arguments of the job."),
        ("Weight-Decay", ("0", "1"), "is “weight_decay” in the arguments of the job."),
        ("amp", ("ja", "nein"), "has no value in the arguments of the job: use yes and no."),
        ("amp", ("yes", "no"), ""),
        ("amp", (True, False), ""),
        ("B", ("1", "2"), ""),
        ("opt", ("adam", "sgd"), ""),
        ("seed", ("1", "2"), ""),
    ],
)
def test_a_value_that_the_option_of_the_job_cannot_have_is_refused(name, values, message) -> None:
    tokens = ["--lr", "0.1", "--weight_decay", "0", "-b", "3", "--amp", "--opt=adam"]
    assert value_problem(tokens, name, values) == message


def test_several_numbers_of_an_option_may_have_commas() -> None:
    assert with_value(["--hidden", "64", "64"], "hidden", "32,16") == ["--hidden", "32", "16"]
    assert with_value(["--sizes", "64"], "sizes", "32,16") == ["--sizes", "32,16"]


def test_a_sweep_over_arguments_of_a_job_with_a_model_says_that_it_needs_a_script() -> None:
    raw = {**BASE, "model": "net"}
    del raw["script"]
    expansion = expand(Sweep(raw, (parse_axis("arguments.lr", "1,2"),)))
    assert any("needs a script" in item.message for item in expansion.errors)


def test_a_line_that_cannot_be_split_stays_for_the_check_to_name() -> None:
    expansion = expand(Sweep({**BASE, "arguments": '--x "a'}, (parse_axis("arguments.lr", "1,2"),)))
    assert [item.path for item in expansion.errors] == ["arguments"]
    assert expansion.jobs[0].raw["arguments"] == '--x "a'


def test_a_sweep_file_has_arguments_in_its_axes() -> None:
    table = {"axes": {"arguments": {"lr": [0.1, 0.2], "amp": [True, False]}}}
    sweep, errors = read_sweep({**BASE, "sweep": table})
    assert sweep is not None
    assert not errors
    rates = [value_at(job.raw, "arguments.lr") for job in expand(sweep).jobs]
    assert rates == ["0.1", "0.1", "0.2", "0.2"]


def test_changed_arguments_are_listed_one_by_one() -> None:
    now = {**BASE, "arguments": with_value(BASE["arguments"], "lr", "0.2")}
    assert [(item.label, item.old_text, item.new_text) for item in setting_changes(BASE, now)] == [
        ("lr", "0.1", "0.2")
    ]
    assert section("arguments.lr") == section("arguments") != section("optimizer.lr")
    assert (label("arguments.batch-size"), describe(BASE)) == ("batch-size", "mine")


def test_scripts_are_compared_by_their_arguments_and_have_no_optimizer() -> None:
    views = [
        JobView(rate, rate, config, "", RunStatus(state=JobState.CREATED))
        for rate in ("0.1", "0.01")
        if (config := with_changes(OWN_CONFIG, {"arguments.lr": rate}).config)
    ]
    table = compare([(view, RunFigures()) for view in views])
    assert [(row.label, row.values) for row in table.differing] == [("lr", ("0.1", "0.01"))]
    spellings = {row.key: row.values[0] for row in table.equal}
    assert spellings["arguments"] == "fit data"
    assert spellings["arguments.amp"] == "yes"
    assert "optimizer.name" not in spellings
    assert parallel_plot(views).axes[0].key == "arguments.lr"
    defaults = default_settings(views[0].config)
    assert {
        path for path, value in effective_settings(views[0]).items() if value != defaults.get(path)
    } == {
        "placement",
        "arguments",
        *(f"arguments.{name}" for name in ("out", "lr", "amp", "batch-size")),
    }


@pytest.mark.parametrize(
    ("tokens", "name", "value", "changed"),
    [
        (["--offset", "0.5"], "offset", -1e-5, ["--offset=-1e-05"]),
        (["--offset", "0.5"], "offset", "-0.5", ["--offset", "-0.5"]),
        (["--offset=1"], "offset", "-2E3", ["--offset=-2E3"]),
        ([], "offset", "-1e5", ["--offset=-1e5"]),
        (["--weight_decay", "1", "--weight-decay", "2"], "weight_decay", "3",
         ["--weight_decay", "3", "--weight-decay", "2"]),
        (["--weight_decay", "1", "--weight-decay", "2"], "weight-decay", "3",
         ["--weight_decay", "1", "--weight-decay", "3"]),
        (["--weight-decay=2", "--weight_decay", "1"], "weight-decay", "3",
         ["--weight-decay=3", "--weight_decay", "1"]),
        (["--weight_decay", "1"], "weight-decay", "3", ["--weight_decay", "3"]),
    ],
)  # fmt: skip
def test_a_value_arrives_at_its_own_option(
    tokens: list[str], name: str, value: object, changed: list[str]
) -> None:
    assert with_value(tokens, name, value) == changed
