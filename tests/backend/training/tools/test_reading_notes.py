"""Notes of a loader in a preview, a scan, a trial and a preflight check."""

from __future__ import annotations

import base64
import io
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from backend.records.library.preview import ReadingNote, note_messages
from backend.services.preflight import names
from backend.services.preflight.checks import judge
from backend.services.preflight.context import JobPreflight
from backend.training.tools import thumbnails
from backend.training.tools.check_model import check_model
from backend.training.tools.preview import preview
from backend.training.tools.scan import scan
from backend.training.tools.thumbnails import leaves_of, target_text

LOADER = """
import torch

class UserDataset(torch.utils.data.Dataset):
    classes = ["a", "b", "c"]
    reading_notes = {notes}
    def __init__(self, folder): pass
    def __len__(self): return 8
    def __getitem__(self, index): return torch.ones(3) * index, {target}
"""
MODEL = """
import torch

class UserModel(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(3, 2)
    def forward(self, data): return self.layer(data)
    def loss(self, output, target): return torch.nn.functional.cross_entropy(output, target)
"""
NOTES = [{"reason": "Left out", "count": 5, "names": ["a.png", "b.png", "c.png"], "item": "box"}]
NOTE = "Left out: 5 boxes (a.png, b.png, c.png and 2 more)."


@pytest.fixture
def request_of(tmp_path: Path) -> Any:
    def write(notes: object, target: str = "index % 2") -> dict[str, Any]:
        for name, text in (("loader", LOADER.format(notes=notes, target=target)), ("model", MODEL)):
            (tmp_path / name).mkdir()
            file = "bks_dataset.py" if name == "loader" else "bks_model.py"
            (tmp_path / name / file).write_text(text)
        return {name: str(tmp_path / name) for name in ("loader", "model")} | {
            "dataset": str(tmp_path)
        }

    return write


@pytest.mark.parametrize("tool", [preview, scan, check_model])
def test_what_a_loader_left_out_is_said_by_each_tool(request_of: Any, tool: Any) -> None:
    assert NOTE in tool(request_of(NOTES), lambda *_: None)["warnings"]


def test_notes_that_are_no_notes_are_named_and_end_nothing(request_of: Any) -> None:
    warnings = preview(request_of(3), lambda *_: None)["warnings"]
    assert warnings[0] == "UserDataset.reading_notes cannot be shown: it is no list."


def test_a_trial_names_the_classes_that_the_output_has_no_place_for(request_of: Any) -> None:
    warnings = check_model(request_of([]), lambda *_: None)["warnings"]
    assert warnings == [
        "The dataset has 3 classes, but the model's output is for 2: c cannot be predicted."
    ]


def test_pictures_without_a_box_are_counted_over_the_set(request_of: Any) -> None:
    target = '{"boxes": torch.ones(index % 2, 4), "labels": torch.ones(index % 2)}'
    warnings = preview(request_of([], target), lambda *_: None)["warnings"]
    assert warnings[0].startswith("4 of 8 samples have no box")


def test_what_was_said_of_the_data_is_a_warning_of_the_preflight_check() -> None:
    job = JobPreflight("", "", data_notes=(NOTE,))
    findings = [finding for finding in judge(job)[0] if finding.check == names.DATA]
    assert [(finding.message, finding.blocks) for finding in findings] == [(NOTE, False)]


@given(st.lists(st.text(min_size=1), max_size=6), st.sampled_from(["file", "box", "class"]))
def test_a_note_counts_all_and_names_at_most_three(items: list[str], item: str) -> None:
    note = ReadingNote.from_names("Left out", items, item)
    message = note.message
    assert message.startswith(f"Left out: {len(items)} {item}")
    assert (f" and {len(items) - 3} more)." in message) is (len(items) > 3)
    assert "\n" not in message
    assert len(message) < 400
    assert note_messages([{**note.to_dict()}])[0].partition(" (")[0] == message.partition(" (")[0]


def test_columns_have_their_names_and_units_in_the_statistics(request_of: Any) -> None:
    request = request_of([])
    code = Path(request["loader"]) / "bks_dataset.py"
    columns = 'value_columns = {"data": [("age", 40.0, 10.0), ("cm", 0, 1), ("kg", 70, 2)]}'
    code.write_text(code.read_text().replace("    classes =", f"    {columns}\n    classes ="))
    statistics = preview(request, lambda *_: None)["statistics"]
    assert [statistic["name"] for statistic in statistics] == ["age", "cm", "kg"]
    assert [statistic["low"] for statistic in statistics] == [40, 0, 70]
    assert [statistic["high"] for statistic in statistics] == [110, 7, 84]


@pytest.mark.parametrize("columns", ["3", "{'data': 3}", "{'data': [('a', 'b', 'c')]}", "{1: []}"])
def test_columns_of_another_form_change_nothing(request_of: Any, columns: str) -> None:
    request = request_of([])
    code = Path(request["loader"]) / "bks_dataset.py"
    text = code.read_text().replace("    classes", f"    value_columns = {columns}\n    classes")
    code.write_text(text)
    assert [statistic["name"] for statistic in preview(request, lambda *_: None)["statistics"]] == [
        ""
    ] * 3


def test_boxes_have_the_colour_and_the_name_of_their_class() -> None:
    target = {
        "boxes": torch.tensor([[1.0, 1, 8, 8], [10, 10, 18, 18], [20, 20, 28, 28]]),
        "labels": torch.tensor([1, 0, 1]),
    }
    (part, *_) = thumbnails.display_parts(leaves_of((torch.zeros(3, 32, 32), target)))
    image = Image.open(io.BytesIO(base64.b64decode(part.png))).convert("RGB")
    colours = [image.getpixel((offset, offset)) for offset in (1, 10, 20)]
    assert colours[0] == colours[2] != colours[1]
    assert target_text(target, ["ball", "crate"]) == "3 boxes: crate 2, ball 1"
