"""The arguments in the help that programs print, as they were recorded."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.records.jobs.script_help import ScriptArgument, ScriptHelp, read_help

RECORDED = Path(__file__).parents[3] / "data/script_help"
SHELL = """usage: train.sh [options]
  -d DIR     the folder of the data
  --lr RATE  the rate (default 0.1)
  --amp      half precision
"""


def read(name: str) -> dict[str, ScriptArgument]:
    return {
        argument.head: argument
        for argument in read_help((RECORDED / f"{name}.txt").read_text("utf-8"))
    }


def short(arguments: dict[str, ScriptArgument]) -> list[tuple[str, str, str]]:
    """Each argument: head, kind or choices, default."""
    return [
        (argument.head, "|".join(argument.choices) or argument.kind, argument.default)
        for argument in arguments.values()
    ]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "argparse",
            [
                ("--arch", "text", "resnet18"),
                ("--workers", "whole", "4"),
                ("--batch-size", "whole", "256"),
                ("--lr", "text", ""),
                ("--opt", "sgd|adam|lion", ""),
                ("--momentum", "text", ""),
                ("--layers", "text", "64 64"),
                ("--amp", "flag", ""),
                ("--no-ema", "flag", ""),
                ("--evaluate", "flag", ""),
                ("--fp16", "True|False", "False"),
                ("--a-very-long-option-that-has-its-help-below", "number", "0.0001"),
                ("--log-every", "text", ""),
            ],
        ),
        (
            "click",
            [
                ("--lr", "number", "0.1"),
                ("--batch-size", "whole", "32"),
                ("--opt", "sgd|adam", "sgd"),
                ("--amp", "flag", ""),
                ("--no-ema", "flag", ""),
                ("--warmup", "whole", "5"),
                ("--out", "text", ""),
                ("--dry-run", "flag", ""),
                ("--tag", "text", ""),
            ],
        ),
        (
            "typer",
            [
                ("--lr", "number", "0.1"),
                ("--batch-size", "whole", "32"),
                ("--opt", "sgd|adam", "sgd"),
                ("--amp", "flag", ""),
                ("--no-ema", "flag", ""),
                ("--seed", "whole", "1"),
                ("--out", "text", ""),
            ],
        ),
        (
            "hydra",
            [
                ("model=", "mlp|resnet", ""),
                ("optim=", "adam|sgd", ""),
                ("model.width=", "whole", "64"),
                ("model.dropout=", "number", "0.1"),
                ("optim.lr=", "number", "0.1"),
                ("optim.momentum=", "number", "0.9"),
                ("epochs=", "whole", "10"),
                ("batch_size=", "whole", "32"),
                ("amp=", "true|false", "false"),
                ("data=", "text", ""),
                ("note=", "text", "it's: here"),
                ("layers=", "text", "[64,64]"),
            ],
        ),
        (
            "jsonargparse",
            [
                ("--config", "text", ""),
                ("--print_config", "text", ""),
                ("--lr", "number", "0.1"),
                ("--epochs", "whole", "3"),
                ("--opt", "sgd|adam", "sgd"),
                ("--amp", "true|false", "False"),
            ],
        ),
        (
            "tyro",
            [
                ("--data", "text", ""),
                ("--lr", "number", "0.1"),
                ("--epochs", "whole", "3"),
                ("--opt", "sgd|adam", "sgd"),
                ("--amp", "flag", ""),
            ],
        ),
    ],
)
def test_the_arguments_of_a_program_are_read_from_its_help(name, expected) -> None:
    assert short(read(name)) == expected


@pytest.mark.parametrize(
    ("name", "other_name"), [("argparse-wide", "argparse"), ("typer-wide", "typer")]
)
def test_the_width_of_a_terminal_changes_nothing(name: str, other_name: str) -> None:
    assert read(name) == read(other_name)


def test_an_older_typer_has_other_words_for_the_same() -> None:
    assert short(read("typer-0.12")) == short(read("typer"))


def test_an_argument_has_its_help_and_its_other_names() -> None:
    arguments = read("argparse")
    assert (arguments["--lr"].name, arguments["--lr"].aliases) == ("lr", ("--learning-rate",))
    assert arguments["--batch-size"].aliases == ("-b",)
    assert arguments["--batch-size"].help_text.endswith("help text that is wrapped in any terminal")
    assert read("hydra")["optim.lr="].name == "optim.lr"


def test_a_usage_written_by_hand_is_read() -> None:
    arguments = read_help(SHELL)
    assert [(argument.head, argument.kind, argument.default) for argument in arguments] == [
        ("-d", "text", ""),
        ("--lr", "number", "0.1"),
        ("--amp", "flag", ""),
    ]


@pytest.mark.parametrize(
    ("help_text", "default"),
    [
        ("(default: 0.1)", "0.1"),
        ("[default: a, b; required]", "a, b"),
        ("(default: 'a (b)')", "a (b)"),
        ("the rate, default is 3, of all", "3"),
        ("folder (default: ./data)", "./data"),
        ("sizes [default: [64, 64]]", "[64, 64]"),
        ("(type: int | None, default: null)", ""),
        ("uses the default of PyTorch", ""),
        ("by default it trains", ""),
        ("(default 7)", "7"),
    ],
)
def test_a_default_is_read_as_programs_write_it(help_text: str, default: str) -> None:
    (arguments,) = read_help(f"options:\n  --x X  {help_text}\n")
    assert arguments.default == default


LINES = st.lists(
    st.text(max_size=20)
    | st.sampled_from(
        [
            "options:",
            "  --x {a,b}  help (default: a)",
            "  -b, --bs N",
            "│ *  --lr  FLOAT  [default: 1] │",
            "╭─ Options ─╮",
            "== Config ==",
            "a:",
            "- 1",
            "  b: 2",
            "m: x, y",
            "      more of [default:",
        ]
    ),
    max_size=12,
)


@given(lines=LINES)
def test_any_text_gives_arguments_that_can_be_written(lines: list[str]) -> None:
    arguments = read_help("\n".join(lines))
    assert len({argument.name for argument in arguments}) == len(arguments)
    for argument in arguments:
        assert argument.name
        assert not any(sign.isspace() for sign in argument.head)
        assert argument.kind != "choice" or len(argument.choices) > 1
    script_help = ScriptHelp(arguments)
    assert [
        argument.head for argument in ScriptHelp.from_dict(script_help.to_dict()).arguments
    ] == [argument.head for argument in arguments]


@pytest.mark.parametrize("sign", [" ", "-", "[", "{a,", "│", "--x ", "(default: ", "a: ", "\n"])
def test_a_megabyte_of_anything_is_read_at_once(sign: str) -> None:
    """A program prints what it likes; no text takes more than its length."""
    read_help("options:\n  " + sign * (1_000_000 // len(sign)))
    read_help(f"options:\n  --x  {sign}\n" * 20_000)
