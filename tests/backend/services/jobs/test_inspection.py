"""Inspection of a model by the window and the command line: processes, limits and the cache."""

from __future__ import annotations

import json
import runpy
from collections.abc import Iterator
from pathlib import Path

import pytest

from backend.base.errors import BackendError
from backend.cli.main import run
from backend.records.jobs.checkpoint import Checkpoint
from backend.records.library.item import PARTS, Kind
from backend.services.context.container import Services, open_services
from backend.services.jobs import inspection
from backend.services.tools.tool_process import ToolError
from backend.training.checkpoint import write_checkpoint
from tests.fakes import trained

GALLERY = Path(__file__).parents[4] / "resources/gallery/digits"


@pytest.fixture
def services(tmp_path: Path) -> Iterator[Services]:
    container = open_services(tmp_path / "root", tmp_path / "c.sqlite")
    for kind in PARTS:
        container.library.import_item(kind, GALLERY / kind.value, "digits")
    yield container
    container.close()


def import_model(services: Services, folder: Path, forward: str) -> None:
    """Import a version of the model whose forward begins with this line."""
    source = (GALLERY / "model/bks_model.py").read_text()
    line = "        return self.classify("
    source = source.replace(line, f"        {forward}\n{line}", 1)
    (folder / "bks_model.py").write_text(source)
    services.library.import_item(Kind.MODEL, folder / "bks_model.py", "digits")


def test_the_layers_of_a_model_are_listed_once_and_kept(
    services: Services, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import_model(services, tmp_path, "print('a line')")
    root, catalogue = str(tmp_path / "root"), str(tmp_path / "c.sqlite")
    line = ["--data-root", root, "--catalogue", catalogue, "--json", "model"]
    names = ["digits", "--dataset", "digits", "--loader", "digits"]
    assert run([*line, "layers", *names, "--batch-size", "2"], lambda *_: 1) == 0
    rows = json.loads(capsys.readouterr().out)
    assert list(rows[0].items())[:7] == [
        ("name", "features.0"),
        ("kind", "Conv2d"),
        ("output_shape", [2, 32, 8, 8]),
        ("parameters", 320),
        ("multiply_adds", 18432),
        ("activation_bytes", 16384),
        ("trained", True),
    ]
    assert run([*line, "check", *names], lambda *_: 1) == 0
    printed = json.loads(capsys.readouterr().out)
    assert sum(row["parameters"] for row in rows) == printed["parameters"]
    cached_layers = services.inspection.layers("digits", "digits", "digits", 2)
    assert "a line" in cached_layers.output


def test_an_answer_is_not_computed_again(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = services.inspection.layers("digits", "digits", "digits")
    monkeypatch.setattr(inspection, "run_tool", None)
    assert services.inspection.layers("digits", "digits", "digits") == first


def test_a_table_has_a_total(
    services: Services, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = ["--data-root", str(tmp_path / "root"), "--catalogue", str(tmp_path / "c.sqlite")]
    names = ["digits", "--dataset", "digits", "--loader", "digits"]
    assert run([*line, "model", "layers", *names], lambda *_: 1) == 0
    *_, total = capsys.readouterr().out.splitlines()
    assert total.split() == ["(total)", "29066", "1208320", "57.4", "kB"]


def test_the_variances_of_a_model_are_measured_once_and_judged(
    services: Services,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    line = ["--data-root", str(tmp_path / "root"), "--catalogue", str(tmp_path / "c.sqlite")]
    arguments = ["model", "variance", "digits", "--dataset", "digits", "--loader", "digits"]
    assert run([*line, *arguments], lambda *_: 1) == 0
    head, first, *_, message = capsys.readouterr().out.splitlines()
    assert head.split() == ["NAME", "KIND", "ACTIVATIONS", "GRADIENTS"]
    assert first.split()[:2] == ["features.0", "Conv2d"]
    assert message.startswith("Variances change about")
    monkeypatch.setattr(inspection, "run_tool", None)
    cached_variance = services.inspection.variance("digits", "digits", "digits")
    assert all(layer.activation and layer.gradient for layer in cached_variance.layers)


@pytest.mark.parametrize(
    ("forward", "message"),
    [
        ("while True: pass", "Reading the layers did not end within"),
        ("torch.ones(10**12)", "This computer has too little memory for it."),
    ],
)
def test_a_forward_without_end_is_ended(
    services: Services,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    forward: str,
    message: str,
) -> None:
    import_model(services, tmp_path, forward)
    if "while" in forward:
        monkeypatch.setattr(inspection, "_LIMIT_S", 1.0)
    with pytest.raises(ToolError, match=message):
        services.inspection.layers("digits", "digits", "digits")


def test_a_batch_of_none_is_refused(services: Services) -> None:
    with pytest.raises(BackendError, match="batch size of 0"):
        services.inspection.layers("digits", "digits", "digits", 0)


@pytest.fixture
def job_id(services: Services) -> str:
    """A job of the digits with two checkpoints."""
    pins = {kind.value: services.library.pin(kind, "digits") for kind in PARTS}
    job_id = trained.job(services.data_root.path, "digits", [1.0] * 20, pins=pins)
    make = runpy.run_path(str(GALLERY / "model/bks_model.py"))["UserModel"]
    for epoch in (1, 2):
        name = f"epoch-{epoch}"
        record = Checkpoint(name, 1, epoch, epoch * 10, 0, 0, "", "", "2026-11-21T07:00:00Z")
        folder = services.data_root.job(job_id).checkpoints
        folder.mkdir(exist_ok=True)
        write_checkpoint(folder, {"format": 1, "model": make().state_dict()}, record)
    return job_id


def test_the_command_line_inspects_and_compares_checkpoints(
    services: Services,
    job_id: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    line = ["--data-root", str(tmp_path / "root"), "--catalogue", str(tmp_path / "c.sqlite")]
    arguments = ["job", "layers", job_id, "--checkpoint", "epoch-2", "--against", "epoch-1"]
    assert run([*line, *arguments, "--sample", "3", "--json"], lambda *_: 1) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["weights"][0]["name"] == "features.0.weight"
    assert printed["weights"][0]["change"]["spread"]["std"] > 0
    assert len(printed["saliency"]) == 2
    monkeypatch.setattr(inspection, "run_tool", None)
    cached_layers = services.inspection.checkpoint(job_id, "epoch-2", "epoch-1", 3)
    assert cached_layers.weights[0].name == "features.0.weight"
    assert run([*line, *arguments, "--sample", "3"], lambda *_: 1) == 0
    assert capsys.readouterr().out.splitlines()[1].split()[:2] == ["features.0.weight", "weight"]


def test_a_damaged_checkpoint_and_a_missing_one_are_refused(
    services: Services, job_id: str
) -> None:
    with pytest.raises(BackendError, match="nothing"):
        services.inspection.checkpoint(job_id, "nothing")
    file = services.data_root.job(job_id).checkpoints / "epoch-1.pt"
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(BackendError, match="cannot be used"):
        services.inspection.checkpoint(job_id, "epoch-1")


def test_the_weights_of_each_checkpoint_are_written_for_tensorboard(
    services: Services, job_id: str
) -> None:
    assert services.inspection.write_events(job_id)
    files = (services.data_root.job(job_id).tensorboard / "weights").iterdir()
    assert sorted(file.suffix for file in files) == [".epoch-1", ".epoch-2", ".graph"]


PROGRAM = """
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("-b", "--batch-size", type=int, default=32, help="(default: 32)")
parser.parse_args()
"""


def test_the_arguments_of_a_script_are_read_in_a_process_of_its_own_and_kept(
    services: Services, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "train.py").write_text(PROGRAM)
    services.library.import_item(Kind.SCRIPT, folder, "mine")
    script_help = services.inspection.script_help({"script": "mine", "arguments": ["--x"]})
    assert [(a.head, a.aliases, a.kind, a.default) for a in script_help.arguments] == [
        ("--batch-size", ("-b",), "whole", "32")
    ]
    monkeypatch.setattr(inspection, "run_tool", None)
    assert services.inspection.script_help({"script": "mine@1", "entry": "train.py"}) == script_help
    for raw, message in (
        ({}, "No script is chosen"),
        ({"script": "mine", "entry": "../train.py"}, "has no such entry"),
        ({"script": "other"}, "other"),
    ):
        with pytest.raises(BackendError, match=message):
            services.inspection.script_help(raw)
