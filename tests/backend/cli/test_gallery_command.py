"""``gallery list``, ``show`` and ``add``, as a user reads them in a terminal."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from backend.cli.main import run

Gallery = Callable[..., tuple[int, str, str]]


@pytest.fixture
def gallery(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Gallery:
    def call(*args: str) -> tuple[int, str, str]:
        """Return the exit code and what was printed to standard output and error."""
        common = ["--data-root", str(tmp_path / "root"), "--catalogue", str(tmp_path / "c.sqlite")]
        code = run([*common, "gallery", *args], lambda *_: 0)
        return code, *capsys.readouterr()

    return call


def test_every_entry_of_the_list_can_be_shown(gallery: Gallery) -> None:
    names = [entry["name"] for entry in json.loads(gallery("list", "--json")[1])]
    list_text = gallery("list")[1]
    assert "alexnet" in names
    for name in names:
        code, text, errors = gallery("show", name)
        assert (code, errors) == (0, "")
        assert f"\n{name} " in list_text
        assert "Source  " in text


def test_show_says_the_figures_and_the_settings(gallery: Gallery) -> None:
    properties, _, settings = gallery("show", "tinynet-a")[1].partition("\n\n")
    values = dict(re.split(r"\s{2,}", line, maxsplit=1) for line in properties.splitlines())
    assert (
        values.items()
        >= {
            "Parameters": "2,045,208",
            "Weights": "8.2 MB (7.8 MiB)",
            "Multiply-adds": "280,879,424",
            "Complexity": "0.421 times AlexNet's",
            "Outputs of layers": "6.4 MB a sample",
        }.items()
    )
    assert "1.54 M parameters" in properties, "the published figure, which does not fit"
    rows = {line.split()[0]: line for line in settings.splitlines()}
    assert "128      a whole number from 32 to 1024" in rows["side"]
    assert rows["batch_norm"].split()[1] == "false"
    assert "sigmoid-star is 4" in rows["activation"]
    assert "no convolutions" in gallery("show", "mlp")[1]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["vgg-19", "--set", "side=8"], "side must be a whole number from 32 to 512, not “8”."),
        (["vgg-19", "--set", "clases=3"], "no setting “clases” (did you mean classes?). To see"),
        (["vgg-19", "--set", "classes=0"], "classes must be a whole number from 2 to 100000"),
        (["vgg-19", "--set", "classes"], "“classes” is no setting. Write it as KEY=VALUE."),
        (["mlp", "--set", "dropout=2"], "dropout must be a number from 0 to 0.9, not “2”."),
        (["alexnet", "--set", "groups=3"], "groups must be 1 or 2, not “3”."),
        (["vgg19"], "The gallery has no “vgg19”. Did you mean “vgg-19”?"),
    ],
)
def test_a_fault_is_one_sentence_and_nothing_is_added(
    gallery: Gallery, tmp_path: Path, args: list[str], message: str
) -> None:
    code, text, errors = gallery("add", *args)
    assert (code, text) == (1, "")
    assert message in errors
    assert errors.count("\n") == 1
    assert not any((tmp_path / "root" / "models").glob("*/v*"))
