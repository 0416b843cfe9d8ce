"""The zip of a model for tables predicts for the rows of a CSV as the loader prepares them."""

from __future__ import annotations

import csv
import importlib.util
import json
import shutil
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch

from backend.records.base import cells
from backend.training.checkpoint_content import input_form
from backend.training.tools import export
from tests.gallery.datasets import files, open_data

ROWS = [f"{n}.5,{('red', 'blue', 'größer')[n % 3]},{n * n},{('good', 'bad')[n % 2]}" for n in
        range(20)]  # fmt: skip
TABLE = "\n".join(["size,colour,mass,kind", *ROWS]) + "\n"


@pytest.fixture(autouse=True)
def cells_are_beside_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cells", cells)


def program(folder: Path, form: object) -> ModuleType:
    """The predict.py of an export, in its folder, with this form of its input."""
    folder.mkdir(exist_ok=True)
    shutil.copy(export._FOLDER / "export_predict.py", folder / "predict.py")
    (folder / "input.json").write_text(json.dumps(form))
    spec = importlib.util.spec_from_file_location("exported_predict", folder / "predict.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("table", "text", "settings"),
    [
        (TABLE, TABLE, {}),
        (TABLE, TABLE, {"scale": "none"}),
        (TABLE, TABLE.replace(",", ";"), {}),
        (TABLE, "mass,size,colour,more\n4,,größer,1\n–,1.5,red,2\n", {"missing": "mean"}),
        (TABLE.partition("\n")[2], "3.5,blue,9,\n", {}),
        (TABLE.replace(",", ";").replace(".", ","), "size;colour;mass\n2,5;red;1\n", {}),
        ("size,y\n1 kg,a\n7 kg,b\n2000 kg,a\n", 'size\n5 kg\n"1,500 kg"\n', {}),
        ("sep=|\nx|y\n1|a\n2|b\n3|a\n", "sep=;\nx;y\n2;a\n3;b\n", {}),
        ("x;y;z\n1;2;a\n2;1;b\n3;3;a\n", "Report;;\nx;y;z\n2;1;a\n", {}),
        ("x,y\n1 sq ft,a\n2 sq ft,b\n3 sq ft,a\n", "x\n2.5 sq ft\n", {}),
        (
            "x,y\n2026-01-02 03:00+02:00,a\n2026-01-02 03:00Z,b\n2026-01-03 04:00,a\n",
            "x\n2026-01-02T03:00-07\n",
            {},
        ),
        ("day,y\n2026-01-02,a\n2026-02-03,b\n2026-03-01,a\n", "day\n2026-01-31\n", {}),
        ("day,y\n01.03.2026,a\n13.3.26,b\n14.03.2026,a\n", "day\n2.4.2026\n03.04.69\n", {}),
        (
            "day,y\n1/2/2026 7:30,a\n2/3/2026,b\n3/1/1999 10:20:30.5,a\n",
            "day\n2/12/2026 9:05:07\n2/12/2026\n",
            {"dates": "month first"},
        ),
        ("x,y\n1.5k,a\n2M,b\n800,a\n", "x\n–2k\n(1.768)\n−5\n", {}),
        ("x,y\n1,a\n-999,b\n3,a\n", "x\n-999\n", {"missing": "mean", "missing_marks": "-999"}),
        ("x,y\n1,a\n2,b\n3,a\n", "x,größe\n2,ä\n".encode("cp1252"), {}),
        ("x,y\n1,a\n2,b\n3,a\n", "x,名前\n2,はい\n".encode("cp932"), {}),
    ],
)
def test_the_program_prepares_rows_as_the_loader_does(
    tmp_path: Path, table: str, text: str | bytes, settings: dict[str, str]
) -> None:
    dataset = open_data("table", files(tmp_path / "d", **{"t.csv": table}), tmp_path, **settings)
    path = files(tmp_path, **{"new.csv": text}) / "new.csv"
    form = input_form(torch.stack([data for data, _ in dataset.training]), dataset.training)
    samples = program(tmp_path / "zip", form).samples_in(path)
    expected = dataset.training.read_all(str(path))
    assert len(samples) == len(expected) >= 1
    assert samples[0][0] == f"{path}, row 1"
    torch.testing.assert_close(torch.stack([data for _, data in samples]), expected)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("new.csv", "x\n男\n".encode("gbk"), "csv, line 2 is in an unknown encoding"),
        ("new.csv", "size,mass\n1,2\n", "has not one column “colour”; it needs size, colour, mass"),
        ("new.csv", "size,size,colour,mass\n1,1,red,2\n", "has not one column “size”"),
        ("new.csv", "", "has not one column “size”"),
        ("new.csv", "size,colour,mass\n1,red\n", "row 1 has 2 cells, not 3"),
        ("new.csv", "size,colour,mass\n1,red,much\n", "“much” in “mass” is not one of its numbers"),
        ("raw.npy", "1 2 3", "raw.npy is no CSV file. The model needs one with size, colour, mass"),
    ],
)
def test_a_file_that_the_program_cannot_prepare_is_one_sentence(
    tmp_path: Path, name: str, text: str | bytes, message: str
) -> None:
    dataset = open_data("table", files(tmp_path / "d", **{"t.csv": TABLE}), tmp_path)
    form = input_form(torch.zeros(1, 5), dataset.training)
    with pytest.raises(SystemExit, match=message):
        program(tmp_path / "zip", form).samples_in(files(tmp_path, **{name: text}) / name)


def test_a_tensor_of_other_values_than_in_training_is_noted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    module = program(tmp_path, {"shape": [2], "dtype": "float32", "low": 0.0, "high": 1.0})
    for name, values in (("near.pt", [0.0, 1.5]), ("far.pt", [0.0, 255.0])):
        torch.save(torch.tensor(values), tmp_path / name)
        module.samples_in(tmp_path / name)
    message = capsys.readouterr().err
    assert "far.pt has values from 0 to 255" in message
    assert "near.pt" not in message


class _Dataset:
    table_preparation: object = {csv: 1}


def test_a_preparation_that_json_does_not_hold_is_not_stored() -> None:
    form = input_form(torch.zeros(1, 2), _Dataset())
    assert form is not None
    assert "preparation" not in form
