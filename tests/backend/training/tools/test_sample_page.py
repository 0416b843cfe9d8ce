"""Pages of samples, and targets drawn over their pictures."""

from __future__ import annotations

import base64
import contextlib
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy
import numpy.typing
import pytest
import torch
from PySide6.QtGui import QImage

from backend.records.library.preview import SamplePage, SamplePart
from backend.training.tools import protocol as tool_protocol
from backend.training.tools import sample_page
from backend.training.tools.sample_page import page
from backend.training.tools.thumbnails import display_parts, leaves_of, target_text
from tests.waiting import LIMIT_S

LOADER = """
import signal, torch

class UserDataset(torch.utils.data.Dataset):
    classes = ["cat", "dog", "fox"]
    def __init__(self, folder): pass
    def __len__(self): return 40
    def __getitem__(self, index):
        if index == 7: raise ValueError("torn file")
        if index == 30: signal.raise_signal(signal.SIGALRM)
        return torch.full((3,), float(index)), index % 3

class UserValDataset(UserDataset):
    pass
"""


class Pages:
    def __init__(self, folder: Path, report: tool_protocol.Report) -> None:
        (folder / "bks_dataset.py").write_text(LOADER)
        self._request = {"loader": str(folder), "dataset": str(folder)}
        self._report = report

    def read(self, **request: object) -> SamplePage:
        raw = page({**self._request, "budget_s": LIMIT_S, **request}, self._report)
        assert SamplePage.from_dict(raw).to_dict() == raw
        return SamplePage.from_dict(raw)


@pytest.fixture
def pages(tmp_path: Path) -> Iterator[Pages]:
    with contextlib.closing(tool_protocol.Report(tmp_path / "progress")) as report:
        yield Pages(tmp_path, report)


def numbers(result: SamplePage) -> list[int]:
    return [sample.sample.index for sample in result.samples]


def test_s08_a_page_has_the_next_samples_by_number(pages: Pages) -> None:
    result = pages.read(split="training", start=10, count=5)
    assert (numbers(result), result.end, result.total) == ([10, 11, 12, 13, 14], 15, 40)
    assert result.samples[0].sample.target == "dog"


def test_s08_a_page_of_a_class_continues_where_the_last_one_ended(pages: Pages) -> None:
    first = pages.read(split="training", start=0, count=3, of_class="fox")
    assert numbers(first) == [2, 5, 8][: len(numbers(first))]
    second = pages.read(split="training", start=first.end, count=3, of_class="fox")
    assert numbers(second)[0] == numbers(first)[-1] + 3


def test_a_broken_sample_is_on_its_page_with_its_error(pages: Pages) -> None:
    result = pages.read(split="training", start=6, count=3)
    assert numbers(result) == [6, 8]
    assert [error.index for error in result.errors] == [7]
    assert "torn file" in result.errors[0].message


def test_the_last_page_ends_with_the_set(pages: Pages) -> None:
    result = pages.read(split="validation", start=38, count=48)
    assert (numbers(result), result.end) == ([38, 39], 40)


def test_a_page_ends_after_its_time_behind_the_sample_that_hangs(
    pages: Pages, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The time is over in that sample, and not before on a slow computer.
    ticks = iter((0.0, 0.0, 0.0, 60.0))
    clock = SimpleNamespace(monotonic=lambda: next(ticks), perf_counter=lambda: 0.0)
    monkeypatch.setattr(sample_page, "time", clock)
    result = pages.read(split="training", start=29, count=5, budget_s=60.0)
    assert (numbers(result), result.end) == ([29], 31)
    assert result.errors[0].index == 30


def test_samples_of_both_splits_are_side_by_side(pages: Pages) -> None:
    result = pages.read(places=[["training", 3], ["validation", 5], ["training", 9]])
    assert [(sample.split, sample.sample.index) for sample in result.samples] == [
        ("training", 3),
        ("validation", 5),
        ("training", 9),
    ]


def pixels(part: SamplePart) -> numpy.typing.NDArray[Any]:
    image = QImage.fromData(base64.b64decode(part.png)).convertToFormat(QImage.Format.Format_RGB888)
    rows = numpy.frombuffer(image.constBits(), numpy.uint8).reshape(image.height(), -1)
    return rows[:, : 3 * image.width()].reshape(image.height(), image.width(), 3).copy()


def draw_overlay(picture: object, target: object) -> numpy.typing.NDArray[Any]:
    return pixels(display_parts(leaves_of((picture, target)))[0])


GREY = torch.full((3, 40, 60), 0.5)


def find_colored(image: numpy.typing.NDArray[Any]) -> numpy.typing.NDArray[Any]:
    return numpy.asarray(numpy.ptp(image.astype(int), axis=2) > 0)


def test_s08_boxes_are_outlined_over_their_picture() -> None:
    boxes = torch.tensor([[10.0, 5.0, 30.0, 20.0], [-5.0, -5.0, 999.0, 999.0]])
    outlined = find_colored(draw_overlay(GREY, {"boxes": boxes, "labels": torch.tensor([1, 2])}))
    assert outlined[5, 10:31].all()
    assert outlined[5:21, 30].all()
    assert outlined[0].all()
    assert outlined[:, 59].all()
    assert not outlined[6:20, 11:30].any()


def test_s08_a_target_with_boxes_is_named_by_their_number() -> None:
    assert target_text({"boxes": torch.zeros(3, 4), "labels": torch.zeros(3)}, []) == "3 boxes"
    assert target_text({"boxes": torch.zeros(1, 4)}, []) == "1 box"
    assert target_text({"boxes": "none", "x": 1}, []) == "boxes: none, x: 1"


def test_s08_masks_of_objects_are_tinted() -> None:
    masks = torch.zeros(2, 40, 60, dtype=torch.uint8)
    masks[0, :10], masks[1, 30:] = 1, 1
    image = draw_overlay(GREY, {"boxes": torch.zeros(0, 4), "masks": masks})
    assert find_colored(image)[:10].all()
    assert not find_colored(image)[10:30].any()
    assert (image[0, 0] != image[39, 0]).any()


def test_s08_the_class_of_each_pixel_is_tinted_but_not_the_background() -> None:
    classes = torch.zeros(40, 60, dtype=torch.int64)
    classes[:, :20], classes[:, 50:] = 3, 255
    tinted = find_colored(draw_overlay(GREY[:1], classes))
    assert tinted[:, :20].all()
    assert not tinted[:, 20:].any()


def test_boxes_of_a_large_picture_are_where_they_are_in_its_thumbnail() -> None:
    boxes = torch.tensor([[100.0, 200.0, 300.0, 400.0]])
    tinted = find_colored(draw_overlay(torch.zeros(3, 480, 960), {"boxes": boxes}))
    assert tinted.shape == (48, 96)
    assert tinted[20, 10:31].all()
    assert tinted.sum() == 2 * 21 + 2 * 19


@pytest.mark.parametrize(
    "target",
    [
        7,
        torch.zeros(40, 60),
        {"boxes": torch.zeros(3, 5)},
        {"boxes": torch.full((1, 4), float("nan"))},
        {"masks": torch.zeros(2, 8, 8)},
        {"boxes": "none"},
    ],
    ids=["class", "depth", "no boxes", "nan", "another size", "text"],
)
def test_other_targets_leave_the_picture_as_it_is(target: object) -> None:
    assert not find_colored(draw_overlay(GREY, target)).any()
