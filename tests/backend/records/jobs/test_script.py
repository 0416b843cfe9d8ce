"""A job with a script: its settings, its arguments and its entry."""

from __future__ import annotations

import shlex
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.records.jobs.job_file import parse_job
from backend.records.jobs.script import (
    PLACEHOLDERS,
    command_line,
    entry_args,
    fill_placeholders,
    is_entry,
    unknown_placeholders,
    usual_entry,
)

JOB: dict[str, Any] = {
    "name": "mine",
    "script": "mine",
    "arguments": ["--out", "{output}"],
    "placement": [{"node": "a", "processes": 2}, {"node": "b", "processes": 3}],
}
VALUES = {name: f"<{name}>" for name in PLACEHOLDERS}


def error_messages(**changed: Any) -> dict[str, str]:
    return {error.path: error.message for error in parse_job({**JOB, **changed}).errors}


def test_a_job_with_a_script_comes_back_as_it_was_written() -> None:
    config = parse_job({**JOB, "dataset": "digits", "stop_signal": "SIGINT"}).config
    assert config is not None
    assert parse_job(config.to_dict()).config == config
    assert set(config.to_dict()) == {*JOB, "dataset", "stop_signal", "seed"}
    assert config.world_size == 5


def test_a_node_with_one_process_gives_it_all_its_gpus() -> None:
    placement = [{"node": "a", "gpus": ["GPU-1", "GPU-2"]}, {"node": "b", "gpus": ["GPU-3"]}]
    config = parse_job({**JOB, "placement": placement, "processes_per": "node"}).config
    assert config is not None
    assert config.world_size == 2


@pytest.mark.parametrize(
    ("changed", "field", "word"),
    [
        ({"epochs": 3}, "epochs", "cannot be used with a script"),
        ({"model": "net"}, "model", "cannot be used with a script"),
        ({"strategy": {"name": "ddp"}}, "strategy", "cannot be used with a script"),
        ({"arguments": "--lr 1"}, "arguments", "list of text values"),
        ({"arguments": ["{data}"]}, "arguments", "“{data}” is not one"),
        ({"resume_arguments": ["{out}"]}, "arguments", "{output}, {seed}"),
        ({"entry": "../train.py"}, "entry", "in the script's folder"),
        ({"entry": "/bin/sh"}, "entry", "in the script's folder"),
        ({"entry": "-c print(1)"}, "entry", "-m and a module"),
        ({"processes_per": "core"}, "processes_per", "node"),
        ({"stop_signal": "SIGKILL"}, "stop_signal", "SIGTERM"),
    ],
)
def test_a_setting_that_a_script_cannot_have_is_a_fault_of_its_field(
    changed: dict[str, Any], field: str, word: str
) -> None:
    errors = error_messages(**changed)
    assert list(errors) == [field]
    assert word in errors[field]


@pytest.mark.parametrize("key", ["entry", "arguments", "python", "stop_signal", "processes_per"])
def test_settings_of_scripts_need_a_script(key: str) -> None:
    assert parse_job({"name": "x", key: "node"}).errors
    assert f"{key}: needs a script." in [error.message for error in parse_job({key: ""}).errors]


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("{dataset}/train", "<dataset>/train"),
        ("--seed={seed}", "--seed=<seed>"),
        ("{{seed}}", "{seed}"),
        ('{"a": {"b": 1}}', '{"a": {"b": 1}}'),
        ("{nodes}x{processes}x{gpus}", "<nodes>x<processes>x<gpus>"),
        ("{", "{"),
        ("{}", "{}"),
    ],
)
def test_a_placeholder_is_replaced_and_other_braces_stay(argument: str, value: str) -> None:
    assert fill_placeholders([argument], VALUES) == [value]


@given(st.lists(st.text()))
def test_arguments_without_unknown_placeholders_can_be_filled(arguments: list[str]) -> None:
    if not list(unknown_placeholders(arguments)):
        assert len(fill_placeholders(arguments, VALUES)) == len(arguments)


@given(st.lists(st.text()))
def test_words_in_a_line_are_read_as_they_were(tokens: list[str]) -> None:
    assert shlex.split(command_line(tokens)) == tokens


@pytest.mark.parametrize(
    ("entry", "tokens"),
    [
        ("train.py", ["train.py"]),
        ("-m package.module", ["-m", "package.module"]),
        ("sub dir/a b.py", ["sub dir/a b.py"]),
        ("-m  a", ["-m", "a"]),
    ],
)
def test_an_entry_is_a_file_or_a_module(entry: str, tokens: list[str]) -> None:
    assert is_entry(entry)
    assert entry_args(entry) == tokens


@pytest.mark.parametrize(
    ("files", "entry"),
    [
        (["train.py", "main.py"], "train.py"),
        (["main.py", "model.py"], "main.py"),
        (["mnist.py", "README.md"], "mnist.py"),
        (["a.py", "b.py"], ""),
        (["a.py", "setup.py"], "a.py"),
        (["go.sh", "pkg/x.py"], "go.sh"),
        (["src/train.py", "src/model.py"], "src/train.py"),
        (["setup.py", "gcn/__init__.py", "gcn/train.py", "gcn/utils.py"], "-m gcn.train"),
        (["setup.py", "gcn/__init__.py", "gcn/__main__.py"], "-m gcn"),
        (["conftest.py", "noxfile.py"], ""),
        (["a/train.py", "b/train.py"], ""),
        (["setup.py"], ""),
        ([], ""),
    ],
)
def test_the_usual_entry_is_the_one_file_that_can_be_meant(files: list[str], entry: str) -> None:
    assert usual_entry(files) == entry
