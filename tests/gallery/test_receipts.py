"""The receipts: the same in any process, their boxes around their text, their sets apart."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from PIL import Image

from backend.training.user_code import UserData, load_loader, split_batch
from tests.gallery.figures import SERVICE
from tests.waiting import LIMIT_S

ROOT = Path(__file__).parents[2]
GALLERY = SERVICE
HASH = """
import hashlib, pathlib, sys
from backend.training.user_code import load_loader
data = load_loader(pathlib.Path(sys.argv[1])).training(pathlib.Path("nothing")).user_dataset
for index in (5, 0):
    picture, target = data[index]
    content = picture.numpy().tobytes() + target["boxes"].numpy().tobytes()
    print(hashlib.sha256(content).hexdigest())
"""


def write_loader(folder: Path, **settings: object) -> Path:
    code_folder = folder / "-".join(["receipts", *map(str, settings.values())])
    GALLERY.write("receipts", {key: str(value) for key, value in settings.items()}, code_folder)
    return code_folder


def open_receipts(folder: Path, **settings: object) -> tuple[UserData, UserData]:
    loader = load_loader(write_loader(folder, **settings))
    return loader.training(folder), loader.validation(folder)


def digest(item: Any) -> str:
    picture, target = item
    return hashlib.sha256(picture.numpy().tobytes() + target["boxes"].numpy().tobytes()).hexdigest()


@pytest.fixture
def small(tmp_path: Path) -> tuple[UserData, UserData]:
    return open_receipts(tmp_path, side=96, lines=8, train=9, validation=4, test=5)


def test_the_sets_have_the_sizes_of_the_source(tmp_path: Path) -> None:
    training, validation = open_receipts(tmp_path)
    assert (len(training), len(validation)) == (532, 47)
    assert len(open_receipts(tmp_path, split="test")[1]) == 47
    assert len(open_receipts(tmp_path, split="all")[1]) == 532 + 47 + 47


def test_a_picture_is_the_same_in_any_process(tmp_path: Path) -> None:
    folder = write_loader(tmp_path, side=64, lines=8)
    hash_lines = subprocess.run(
        [sys.executable, "-c", HASH, str(folder)],
        cwd=ROOT, capture_output=True, text=True, timeout=LIMIT_S, check=True,
    ).stdout  # fmt: skip
    data = load_loader(folder).training(tmp_path)
    assert hash_lines.split() == [digest(data.item(5)), digest(data.item(0))]
    other_data = load_loader(write_loader(tmp_path, side=64, lines=8, seed=2)).training(tmp_path)
    assert digest(other_data.item(5)) not in hash_lines


def test_no_picture_is_in_two_sets(tmp_path: Path) -> None:
    sizes = {"side": 64, "train": 6, "validation": 6, "test": 6}
    training, all_data = open_receipts(tmp_path, **sizes, split="all")
    digests = [digest(all_data.item(number)) for number in range(18)]
    assert len(set(digests)) == 18
    assert digests[:6] == [digest(training.item(number)) for number in range(6)]
    assert [all_data.item(number)[1]["set"] for number in (0, 6, 12)] == [
        "training", "validation", "test",
    ]  # fmt: skip
    for split, first in (("validation", 6), ("test", 12)):
        split_data = open_receipts(tmp_path, **sizes, split=split)[1]
        assert [digest(split_data.item(number)) for number in range(6)] == digests[
            first : first + 6
        ]


@pytest.mark.parametrize(("side", "lines"), [(64, 4), (96, 8), (128, 18), (256, 12), (512, 60)])
def test_each_box_is_in_the_picture_around_dark_text_on_bright_paper(
    tmp_path: Path, side: int, lines: int
) -> None:
    data, _ = open_receipts(tmp_path, side=side, lines=lines, train=20)
    for number in range(20):
        picture, target = data.item(number)
        boxes = target["boxes"]
        assert picture.shape == (3, side, side)
        assert picture.dtype == boxes.dtype == torch.float32
        assert 0 <= picture.min() <= picture.max() <= 1
        assert len(boxes) == len(target["labels"]) >= 7
        assert (boxes >= 0).all()
        assert (boxes <= side).all()
        assert ((boxes[:, 2:] - boxes[:, :2]) >= 1).all()
        x1, y1, x2, y2 = boxes[0].round().int().tolist()
        inside = picture[:, y1:y2, x1:x2].mean(0).numpy()
        assert numpy.percentile(inside, 95) - inside.min() > 0.1


@pytest.mark.parametrize(("side", "lines"), [(96, 8), (128, 6), (512, 18)])
def test_boxes_of_a_picture_hardly_overlap(tmp_path: Path, side: int, lines: int) -> None:
    data, _ = open_receipts(tmp_path, side=side, lines=lines)
    for number in range(9):
        boxes = data.item(number)[1]["boxes"]
        areas = (boxes[:, 2:] - boxes[:, :2]).prod(1)
        low = torch.maximum(boxes[:, None, :2], boxes[:, :2])
        high = torch.minimum(boxes[:, None, 2:], boxes[:, 2:])
        overlap_areas = (high - low).clamp(min=0).prod(2).fill_diagonal_(0)
        assert (overlap_areas <= 0.2 * torch.minimum(areas[:, None], areas)).all()


def test_a_batch_has_pictures_and_a_list_of_targets(small: tuple[UserData, UserData]) -> None:
    data, target = split_batch(small[0].collate([small[0].item(0), small[0].item(1)]))
    assert data.shape == (2, 3, 96, 96)
    assert [set(item) for item in target] == [{"boxes", "labels"}] * 2
    assert small[0].user_dataset.classes == ("text",)


@pytest.mark.parametrize("mode", ["RGB", "L", "RGBA", "CMYK", "1", "P"])
@pytest.mark.parametrize("size", [(300, 100), (100, 300), (7, 5)])
def test_a_scan_of_any_kind_and_size_is_read(
    small: tuple[UserData, UserData], tmp_path: Path, mode: str, size: tuple[int, int]
) -> None:
    path = tmp_path / "scan.tiff"
    Image.new(mode, size).save(path)
    assert small[0].user_dataset.read(str(path)).shape == (3, 96, 96)
