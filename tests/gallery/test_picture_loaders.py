"""The loaders of picture files: by class, and with boxes in the forms of COCO, VOC and ICDAR."""

from __future__ import annotations

import io
import json
import re
import struct
import unicodedata
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy
import pytest
import torch
from PIL import Image

from backend.records.library.preview import note_messages
from backend.services.library.dataset_listing import SPLITS
from backend.training.user_code import UserCodeError, load_loader
from tests.gallery.datasets import GALLERY, Datasets, files, open_data

Content = dict[str, bytes | str]


def picture(
    mode: str = "RGB", size: tuple[int, int] = (20, 10), colour: Any = None, form: str = "PNG",
    **options: Any,
) -> bytes:  # fmt: skip
    buffer = io.BytesIO()
    Image.new(mode, size, 0 if colour is None else colour).save(buffer, form, **options)
    return buffer.getvalue()


def by_class(*classes: str, per_class: int = 5, folder: str = "") -> Content:
    return {
        f"{folder}{name}/{number}.png": picture(colour=(number, index * 50, 0))
        for index, name in enumerate(classes)
        for number in range(per_class)
    }


def notes_of(datasets: Datasets) -> list[str]:
    return list(note_messages(datasets.training.reading_notes))


def names_of(data: Any) -> list[str]:
    return sorted(data.classes[int(label)] for _, label in data)


@pytest.mark.parametrize("parent", ["", "flowers/", "a/b/flowers/"])
def test_without_sets_a_share_of_each_class_is_for_validation(tmp_path: Path, parent: str) -> None:
    folder = files(tmp_path / "d", **by_class("rose", "tulip", "aster", folder=parent))
    datasets = open_data("image-folder", folder, tmp_path, side=8)
    assert datasets.training.classes == ["aster", "rose", "tulip"]
    assert names_of(datasets.validation) == ["aster", "rose", "tulip"]
    assert len(datasets.training) == 12
    assert datasets.training[0][0].shape == (3, 8, 8)
    larger_split = open_data("image-folder", folder, tmp_path, side=8, validation_share=0.4)
    assert len(larger_split.validation) == 6


@pytest.mark.parametrize(
    ("training", "validation"),
    [("train", "val"), ("Train", "Validation"), ("training", "valid"), ("train2017", "val2017"),
     ("train", "test"), ("data/train", "data/testing")],
)  # fmt: skip
def test_folders_of_the_usual_names_are_the_sets(
    tmp_path: Path, training: str, validation: str
) -> None:
    content = by_class("a", "b", folder=f"{training}/")
    content |= by_class("a", "b", per_class=2, folder=f"{validation}/")
    content["logo.png"] = picture()
    datasets = open_data("image-folder", files(tmp_path / "d", **content), tmp_path)
    assert (len(datasets.training), len(datasets.validation)) == (10, 4)


def test_a_test_folder_next_to_one_for_validation_is_in_neither_set(tmp_path: Path) -> None:
    content = by_class("a", "b", folder="train/") | by_class("a", "b", folder="val/", per_class=2)
    content |= by_class("a", "b", folder="test/", per_class=3)
    datasets = open_data("image-folder", files(tmp_path / "d", **content), tmp_path)
    assert (len(datasets.training), len(datasets.validation)) == (10, 4)


def test_a_test_folder_without_classes_is_not_used(tmp_path: Path) -> None:
    content = by_class("a", "b", folder="train/") | {"test/1.png": picture()}
    datasets = open_data("image-folder", files(tmp_path / "d", **content), tmp_path)
    assert (len(datasets.training), len(datasets.validation)) == (8, 2)


FOOD = by_class("pie", "sushi", folder="food/images/")
CUB = {f"CUB/{name}": data for name, data in by_class("1.owl", "2.gull", folder="images/").items()}
CUB_NAMES = [name.removeprefix("CUB/images/") for name in CUB]


@pytest.mark.parametrize(
    ("content", "lists"),
    [
        (FOOD, {
            "food/meta/train.txt": "".join(f"{c}/{n}\n" for c in ("pie", "sushi") for n in "024"),
            "food/meta/test.txt": "pie/1\npie/3\nsushi/1\nsushi/3\n",
        }),
        (CUB, {
            "CUB/images.txt": "".join(f"{n} {name}\n" for n, name in enumerate(CUB_NAMES, 1)),
            "CUB/train_test_split.txt": "".join(
                f"{n} {n % 5 % 2}\n" for n in range(1, len(CUB_NAMES) + 1)),
            "CUB/image_class_labels.txt": "".join(
                f"{n} {name[0]}\n" for n, name in enumerate(CUB_NAMES, 1)),
        }),
    ],
)  # fmt: skip
def test_lists_are_the_sets_of_pictures_by_class(
    tmp_path: Path, content: Content, lists: Content
) -> None:
    datasets = open_data("image-folder", files(tmp_path / "d", **content, **lists), tmp_path)
    numbers = [{Path(path).stem for path, _ in data.samples} for data in datasets]
    in_training = {"0", "2", "4"} if content is FOOD else {"0", "2"}
    assert numbers == [in_training, {*"01234"} - in_training]
    assert "Read as lists of the sets" in str(notes_of(datasets))


def test_pictures_in_no_list_are_left_out_and_counted(tmp_path: Path) -> None:
    lists = {"train.txt": "pie/0.png\nsushi/0.png\npie/1.png 0\n", "val.txt": "sushi/1.png\n"}
    datasets = open_data("image-folder", files(tmp_path / "d", **FOOD, **lists), tmp_path)
    assert [len(data) for data in datasets] == [3, 1]
    assert "no list of a set has them: 6 pictures" in str(notes_of(datasets))


@pytest.mark.parametrize(
    ("pictures", "masks", "end"),
    [("images", "masks", "_mask"), ("train", "train_masks", ""), ("train", "trainannot", ""),
     ("JPEGImages", "SegmentationClass", ""), ("img", "labels", ""),
     ("images", "annotations/trimaps", ""), ("images", "labels", "_L"), ("images", "masks", "_gt"),
     ("raw", "masks", "-1_object"), ("x/originals", "x/labels", ".label"),
     ("images/train", "masks/train", ""), ("img/a/b", "gt/a/b", "_color"),
     ("train/images", "train/masks", "_mask")],
)  # fmt: skip
def test_masks_in_a_folder_of_their_own_are_no_class(
    tmp_path: Path, pictures: str, masks: str, end: str
) -> None:
    content = {f"{pictures}/s {n}.jpg": picture() for n in range(3)}
    content |= {f"{masks}/s {n}{end}.png": picture() for n in range(3)}
    with pytest.raises(UserCodeError, match=r"3 of the pictures are masks of others .+ no loader"):
        open_data("image-folder", files(tmp_path / "d", **content), tmp_path)


@pytest.mark.parametrize(("first", "second", "end"), [
    ("with_mask", "without_mask", ""), ("without_mask", "with_mask", "-with-mask"),
    ("real", "fake", "_fake"), ("gloves", "masks", "_L"), ("images", "photos", "_L"),
    ("train/cat", "train/labels", ""),
])  # fmt: skip
def test_names_that_pair_make_no_masks_of_classes(first: str, second: str, end: str) -> None:
    names = [f"{first}/{n}.png" for n in range(3)] + [f"{second}/{n}{end}.png" for n in range(3)]
    assert SPLITS.masks_of(names) == []


@pytest.mark.parametrize("names", [("with_mask", "without_mask"), ("masks", "gloves"),
                                   ("cat", "labels")])  # fmt: skip
def test_classes_named_like_masks_stay_classes(tmp_path: Path, names: tuple[str, str]) -> None:
    datasets = open_data("image-folder", files(tmp_path / "d", **by_class(*names)), tmp_path)
    assert datasets.training.classes == sorted(names)
    assert sum(map(len, datasets)) == 10


@pytest.mark.parametrize(
    ("names", "classes"),
    [
        (["cat.0.jpg", "cat.1.jpg", "dog.0.jpg", "dog.1.jpg"], ["cat", "dog"]),
        (["x/red fox_1.jpg", "x/red fox_2.jpg", "x/elk (1).jpg", "x/elk (2).jpg"],
         ["elk", "red fox"]),
        (["train/a1.png", "train/a2.png", "train/b1.png", "train/b2.png", *["test/1.png"] * 9],
         ["a", "b"]),
        (["IMG_1.jpg", "IMG_2.jpg"], []),
        (["1.jpg", "2.jpg", "3.jpg"], []),
        (["rose.jpg", "tulip.jpg"], []),
        (["train_1.jpg", "train_2.jpg", "test_1.jpg", "test_2.jpg"], []),
        (["a1.png", "a2.png", "b1.png", "b2.png", *(f"{n}.png" for n in range(5))], []),
    ],
)  # fmt: skip
def test_classes_in_names_are_words_before_a_number(names: list[str], classes: list[str]) -> None:
    assert SPLITS.classes_in_names(names) == classes


def test_lists_of_darknet_are_the_sets_of_boxes(tmp_path: Path) -> None:
    lists = {"train.txt": "".join(f"data/images/{n}.png\n" for n in (1, 2, 4, 5)),
             "val.txt": "data/images/3.png\ndata/images/6.png\n"}  # fmt: skip
    datasets = open_data("yolo", files(tmp_path / "d", **yolo(BOXES), **lists), tmp_path)
    assert sorted(sample.path for sample in datasets.validation.samples) == [
        "images/3.png", "images/6.png"]  # fmt: skip


def test_a_class_of_one_set_only_counts_in_both(tmp_path: Path) -> None:
    content = by_class("a", "c", folder="train/") | by_class("b", "c", folder="val/")
    datasets = open_data("image-folder", files(tmp_path / "d", **content), tmp_path)
    assert datasets.training.classes == datasets.validation.classes == ["a", "b", "c"]
    assert set(names_of(datasets.training)) == {"a", "c"}


def test_a_class_without_pictures_is_named_and_no_class(tmp_path: Path) -> None:
    folder = files(tmp_path / "d", **by_class("a", "b"), **{"c/notes.txt": "later"})
    (folder / "d").mkdir()
    datasets = open_data("image-folder", folder, tmp_path)
    assert notes_of(datasets) == ["No class, because they have no picture: 2 folders (c, d)."]
    assert datasets.training.classes == ["a", "b"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"a.csv": b"1,2"}, "pictures must be in a folder for each class, but none has one"),
        (
            {"train/1.png": picture(), "test/2.png": picture(), "labels.csv": b"1,a"},
            "the folders test and train are sets: put the pictures into a folder for each class",
        ),
        (
            {"cars_train/1.png": picture(), "cars_test/2.png": picture()},
            "the folders cars_test and cars_train are sets",
        ),
        ({"1.png": picture(), "2.png": picture()}, "but none has one"),
        (by_class("rose"), "but none has one"),
        (by_class("rose") | {"1.png": picture()}, "but only “rose” has one"),
        (by_class("rose", folder="train/"), "but only “rose” has one"),
        ({f"train/{name}.{n}.png": picture() for name in ("cat", "dog") for n in range(3)}
         | {"test1/1.png": picture()}, "begin with cat, dog; if these are their classes, put"),
    ],
)  # fmt: skip
def test_pictures_outside_class_folders_are_one_sentence(
    tmp_path: Path, content: Content, message: str
) -> None:
    with pytest.raises(UserCodeError, match=message):
        open_data("image-folder", files(tmp_path / "d", **content), tmp_path)


def deep_grey() -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(numpy.full((10, 20), 32896, numpy.uint16)).save(buffer, "PNG")
    return buffer.getvalue()


def deep_colour() -> bytes:
    """A PNG of 16 bits in each of three channels, which Pillow reads and does not write."""
    rows = b"".join(b"\0" + struct.pack(">3H", 65535, 32896, 0) * 20 for _ in range(10))
    chunks = [(b"IHDR", struct.pack(">IIBBBBB", 20, 10, 16, 2, 0, 0, 0)),
              (b"IDAT", zlib.compress(rows)), (b"IEND", b"")]  # fmt: skip
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in chunks
    )


def with_palette() -> bytes:
    image = Image.new("P", (20, 10), 1)
    image.putpalette([255, 0, 0, 0, 0, 255])
    buffer = io.BytesIO()
    image.save(buffer, "PNG", transparency=1)
    return buffer.getvalue()


WHITE, GREY = (1, 1, 1), (0.502, 0.502, 0.502)
MODES: dict[str, tuple[bytes, tuple[float, float, float]]] = {
    "RGB": (picture(colour=(255, 0, 51)), (1, 0, 0.2)),
    "grey": (picture("L", colour=128), GREY),
    "one bit": (picture("1", colour=1), WHITE),
    "16 bits of grey": (deep_grey(), GREY),
    "16 bits of colour": (deep_colour(), (1, 0.502, 0)),
    "32-bit TIFF": (picture("F", colour=0.502, form="TIFF"), GREY),
    "transparent RGBA": (picture("RGBA", colour=(255, 0, 0, 0)), WHITE),
    "half transparent": (picture("RGBA", colour=(255, 0, 0, 128)), (1, 0.498, 0.498)),
    "grey with transparency": (picture("LA", colour=(0, 0)), WHITE),
    "palette": (picture("P", colour=0), (0, 0, 0)),
    "palette with transparency": (with_palette(), WHITE),
    "RGB with a transparent colour": (
        picture(colour=(1, 2, 3), transparency=(1, 2, 3)), WHITE),
    "CMYK": (picture("CMYK", colour=(0, 255, 255, 0), form="JPEG", quality=100), (1, 0, 0)),
    "GIF": (picture("P", colour=0, form="GIF"), (0, 0, 0)),
    "WebP": (picture(colour=(255, 255, 255), form="WEBP"), WHITE),
}  # fmt: skip


@pytest.mark.parametrize("mode", MODES)
def test_a_picture_of_any_mode_becomes_colour_or_grey(tmp_path: Path, mode: str) -> None:
    content, colour = MODES[mode]
    folder = files(tmp_path / "d", **{"a/1.png": content, "b/2.png": content})
    datasets = open_data("image-folder", folder, tmp_path, side=8)
    sample = datasets.training[0][0]
    assert sample.dtype == torch.float32
    assert sample[:, 4, 4].tolist() == pytest.approx(colour, abs=0.02)
    grey = open_data("image-folder", folder, tmp_path, side=8, channels=1).training[0][0]
    assert grey.shape == (1, 8, 8)
    red, green, blue = colour
    assert float(grey[0, 4, 4]) == pytest.approx(
        0.299 * red + 0.587 * green + 0.114 * blue, abs=0.02
    )


@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_picture_is_turned_as_its_exif_says(tmp_path: Path, orientation: int) -> None:
    """The upper left corner is bright once the picture is upright."""
    upright_picture = numpy.zeros((32, 32), numpy.uint8)
    upright_picture[:16, :16] = 255
    image = Image.fromarray(upright_picture)
    undo_operations = {2: "FLIP_LEFT_RIGHT", 3: "ROTATE_180", 4: "FLIP_TOP_BOTTOM", 5: "TRANSPOSE",
            6: "ROTATE_90", 7: "TRANSVERSE", 8: "ROTATE_270"}  # fmt: skip
    if orientation in undo_operations:
        image = image.transpose(Image.Transpose[undo_operations[orientation]])
    exif = Image.Exif()
    exif[0x0112] = orientation
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=95, exif=exif)
    folder = files(tmp_path / "d", **{"a/1.jpg": buffer.getvalue(), "b/2.jpg": buffer.getvalue()})
    sample = open_data("image-folder", folder, tmp_path, side=16, channels=1).training[0][0][0]
    assert sample[:6, :6].min() > 0.9
    assert max(sample[10:].max(), sample[:, 10:].max()) < 0.1


NOISE = numpy.random.default_rng(1).integers(0, 256, (64, 64, 3), numpy.uint8)


def noise(form: str) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(NOISE).save(buffer, form)
    return buffer.getvalue()


DAMAGED_PICTURES = {
    "empty": b"",
    "text": b"this is no picture",
    "JPEG cut off": noise("JPEG")[:-900],
    "PNG cut off": noise("PNG")[:-900],
    "PNG with a changed byte": noise("PNG")[:60] + b"?" + noise("PNG")[61:],
    "GIF cut off": noise("GIF")[:-900],
    "WebP cut off": noise("WEBP")[:-900],
    "TIFF cut off": noise("TIFF")[:-9000],
    "a head alone": noise("PNG")[:20],
    "zeros": bytes(100),
}


@pytest.mark.parametrize("damage", DAMAGED_PICTURES)
def test_a_damaged_picture_is_named_or_skipped(tmp_path: Path, damage: str) -> None:
    content = by_class("a", "b", folder="train/") | by_class("a", "b", folder="val/")
    folder = files(tmp_path / "d", **content, **{"train/a/bad.jpg": DAMAGED_PICTURES[damage]})
    stop = GALLERY.write("image-folder", {}, tmp_path / "stop")
    assert stop.card.settings["bad_pictures"].default == "stop"
    data = load_loader(tmp_path / "stop").training(folder)
    with pytest.raises(
        UserCodeError, match=r"a/bad\.jpg cannot be read \(.+\): remove or replace it, or set bad_"
    ):
        [data.item(index) for index in range(len(data))]
    datasets = open_data("image-folder", folder, tmp_path, bad_pictures="skip")
    assert len([datasets.training[index] for index in range(len(datasets.training))]) == 10


def test_a_large_jpeg_is_read_as_exactly_as_a_small_one(tmp_path: Path) -> None:
    ramp = numpy.linspace(0, 255, 2000).astype(numpy.uint8)[None].repeat(1000, 0)
    buffer = io.BytesIO()
    Image.fromarray(ramp).save(buffer, "JPEG", quality=95)
    folder = files(tmp_path / "d", **{"a/1.jpg": buffer.getvalue(), "b/2.jpg": buffer.getvalue()})
    sample = open_data("image-folder", folder, tmp_path, side=16, channels=1).training[0][0][0]
    assert sample[8].tolist() == pytest.approx(numpy.linspace(0.266, 0.734, 16), abs=0.02)


# --- boxes ----------------------------------------------------------------------------------------

BOXES: list[tuple[str, str, tuple[float, float, float, float]]] = [
    ("1.png", "cat", (2, 3, 10, 8)),
    ("1.png", "dog", (0, 0, 20, 10)),
    ("2.png", "dog", (15, 5, 20, 10)),
]
"""Picture, class, and left, top, right and bottom in a picture of 20 × 10."""
Boxes = list[tuple[str, str, tuple[float, float, float, float]]]


def coco(boxes: Boxes, pictures: int = 6, folder: str = "images/", **image: Any) -> Content:
    names = sorted({name for _, name, _ in boxes})
    ids = {name: 3 * index + 7 for index, name in enumerate(names)}
    images = [
        {"id": n * 11, "file_name": f"{n}.png", "width": 20, "height": 10, **image}
        for n in range(1, pictures + 1)
    ]
    notes = [
        {"image_id": int(file[:-4]) * 11, "category_id": ids[name], "id": index,
         "bbox": [x1, y1, x2 - x1, y2 - y1], "iscrowd": 0}
        for index, (file, name, (x1, y1, x2, y2)) in enumerate(boxes)
    ]  # fmt: skip
    content = {
        "images": images,
        "annotations": notes,
        "categories": [{"id": number, "name": name} for name, number in ids.items()],
    }
    return {"annotations/instances.json": json.dumps(content)} | {
        f"{folder}{n}.png": picture() for n in range(1, pictures + 1)
    }


def voc(boxes: Boxes, pictures: int = 6, size: bool = True) -> Content:
    content: Content = {}
    for n in range(1, pictures + 1):
        objects = "".join(
            f"<object><name>{name}</name><bndbox><xmin>{x1 + 1}</xmin><ymin>{y1 + 1}</ymin>"
            f"<xmax>{x2}</xmax><ymax>{y2}</ymax></bndbox></object>"
            for file, name, (x1, y1, x2, y2) in boxes
            if file == f"{n}.png"
        )
        size_element = "<size><width>20</width><height>10</height></size>" if size else ""
        content[f"Annotations/{n}.xml"] = (
            f"<annotation><filename>{n}.png</filename>{size_element}{objects}</annotation>"
        )
        content[f"JPEGImages/{n}.png"] = picture()
    return content


def icdar(boxes: Boxes, pictures: int = 6, form: str = "quadrilateral") -> Content:
    content: Content = {}
    for n in range(1, pictures + 1):
        lines = []
        for file, text, (x1, y1, x2, y2) in boxes:
            if file == f"{n}.png":
                corners = {
                    "quadrilateral": f"{x1},{y1},{x2},{y1},{x2},{y2},{x1},{y2},{text}, a comma",
                    "commas": f'{x1}, {y1}, {x2}, {y2}, "{text}"',
                    "spaces": f'{x1} {y1} {x2} {y2} "{text}"',
                }[form]
                lines.append(corners)
        content[f"gt_{n}.txt"] = "\ufeff" + "\r\n".join(lines)
        content[f"{n}.png"] = picture()
    return content


def yolo(boxes: Boxes, pictures: int = 6) -> Content:
    classes = sorted({name for _, name, _ in boxes})
    content: Content = {"data.yaml": f"nc: {len(classes)}\nnames: {classes}\n"}
    for n in range(1, pictures + 1):
        content[f"images/{n}.png"] = picture()
        content[f"labels/{n}.txt"] = "".join(
            f"{classes.index(name)} {(x1 + x2) / 40} {(y1 + y2) / 20} {(x2 - x1) / 20} "
            f"{(y2 - y1) / 10}\n"
            for file, name, (x1, y1, x2, y2) in boxes
            if file == f"{n}.png"
        )
    return content


FORMS: dict[str, Callable[[Boxes], Content]] = {
    "coco": coco, "voc": voc, "icdar": icdar, "yolo": yolo,
}  # fmt: skip


def boxes_of(datasets: Datasets) -> list[tuple[str, list[float]]]:
    """Every box with its class, of both sets, sorted."""
    labelled_boxes = []
    for data in datasets:
        for _, target in (data[index] for index in range(len(data))):
            assert target["boxes"].dtype == torch.float32
            assert target["labels"].dtype == torch.int64
            boxes = [[round(edge, 3) for edge in box] for box in target["boxes"].tolist()]
            for box, label in zip(boxes, target["labels"].tolist(), strict=True):
                labelled_boxes.append((data.classes[label], box))
    return sorted(labelled_boxes)


def expected_boxes(boxes: Boxes, form: str, scale: float) -> list[tuple[str, list[float]]]:
    return sorted(
        ("text" if form == "icdar" else name, [round(edge * scale, 3) for edge in box])
        for _, name, box in boxes
    )


@pytest.mark.parametrize("form", FORMS)
def test_boxes_are_read_in_the_pixels_of_the_square_picture(tmp_path: Path, form: str) -> None:
    folder = files(tmp_path / "d", **FORMS[form](BOXES))
    datasets = open_data(form, folder, tmp_path, side=64)
    assert boxes_of(datasets) == expected_boxes(BOXES, form, 64 / 20)
    assert (len(datasets.training), len(datasets.validation)) == (5, 1)
    assert datasets.training.classes == (["text"] if form == "icdar" else ["cat", "dog"])
    items = [datasets.training[index] for index in range(3)]
    pictures, targets = datasets.training.collate(items)
    assert pictures.shape == (3, 3, 64, 64)
    assert [set(target) for target in targets] == [{"boxes", "labels"}] * 3
    path = str(next(folder.rglob("*.png")))
    assert datasets.training.read(path).shape == (3, 64, 64)


@pytest.mark.parametrize("form", ["coco", "voc", "icdar"])
def test_boxes_outside_their_picture_are_clipped_and_empty_ones_left_out(
    tmp_path: Path, form: str
) -> None:
    unclipped_boxes: Boxes = [
        ("1.png", "a", (5, 5, 40, 30)),  # over two edges
        ("1.png", "a", (-9, -9, 4, 4)),
        ("2.png", "b", (30, 20, 40, 30)),  # outside
        ("2.png", "b", (5, 5, 5, 9)),  # no width
        ("3.png", "b", (5, 5, 9, 5)),  # no height
        ("4.png", "a", (-5, -5, 50, 50)),  # around it
    ]
    folder = files(tmp_path / "d", **FORMS[form](unclipped_boxes))
    clipped_boxes: Boxes = [
        ("", "a", (5, 5, 20, 10)),
        ("", "a", (0, 0, 4, 4)),
        ("", "a", (0, 0, 20, 10)),
    ]
    datasets = open_data(form, folder, tmp_path, side=40)
    assert boxes_of(datasets) == expected_boxes(clipped_boxes, form, 2)
    shapes = {tuple(target["boxes"].shape) for data in datasets for _, target in data_of(data)}
    assert shapes == {(0, 4), (1, 4), (2, 4)}


def data_of(data: Any) -> list[Any]:
    return [data[index] for index in range(len(data))]


@pytest.mark.parametrize("form", FORMS)
def test_half_of_the_training_pictures_are_flipped_with_their_boxes(
    tmp_path: Path, form: str
) -> None:
    boxes: Boxes = [(f"{n}.png", "a", (2, 3, 10, 8)) for n in range(1, 7)]
    datasets = open_data(
        form, files(tmp_path / "d", **FORMS[form](boxes)), tmp_path, side=40, augment="flip"
    )
    torch.manual_seed(1)
    flipped_boxes = {tuple(datasets.training[0][1]["boxes"][0].tolist()) for _ in range(30)}
    assert flipped_boxes == {(4, 6, 20, 16), (20, 6, 36, 16)}
    assert datasets.validation[0][1]["boxes"].tolist() == [[4, 6, 20, 16]]


@pytest.mark.parametrize("form", FORMS)
def test_a_missing_picture_is_named_or_skipped(tmp_path: Path, form: str) -> None:
    content = FORMS[form](BOXES)
    name = next(name for name in content if name.endswith("3.png"))
    is_found_by_picture = form in ("icdar", "yolo")
    content[name] = b"" if is_found_by_picture else content[name]
    folder = files(tmp_path / "d", **content)
    if not is_found_by_picture:
        (folder / name).unlink()
    datasets = open_data(form, folder, tmp_path)
    with pytest.raises(ValueError, match=r"3(\.png)? cannot be read .+ or set bad_pictures"):
        [data_of(data) for data in datasets]
    remaining_data = open_data(form, folder, tmp_path, bad_pictures="skip")
    assert sum(len(data_of(data)) for data in remaining_data) == 5


def test_boxes_are_for_the_picture_as_it_was_annotated(tmp_path: Path) -> None:
    """Annotated as stored (20 × 10), although a viewer turns it."""
    exif = Image.Exif()
    exif[0x0112] = 6
    for form, content in (("coco", coco(BOXES)), ("voc", voc(BOXES))):
        turned_content = {
            name: picture(exif=exif) if name.endswith(".png") else data
            for name, data in content.items()
        }
        datasets = open_data(form, files(tmp_path / form, **turned_content), tmp_path, side=40)
        assert boxes_of(datasets) == expected_boxes(BOXES, form, 2)


@pytest.mark.parametrize("form", ["coco", "voc"])
@pytest.mark.parametrize("orientation", [5, 6, 7, 8])
def test_boxes_that_fit_only_the_turned_picture_are_for_the_turned_pictures(
    tmp_path: Path, form: str, orientation: int
) -> None:
    """Label Studio states the stored size (20 × 10) beside boxes on the turned picture."""
    exif = Image.Exif()
    exif[0x0112] = orientation
    boxes: Boxes = [("1.png", "a", (2, 3, 8, 18)), *[(f"{n}.png", "a", (1, 1, 6, 9)) for n in "23"]]
    content = FORMS[form](boxes)
    for name in content:
        if name.endswith(".png"):
            content[name] = picture(exif=exif)
    datasets = open_data(form, files(tmp_path / "d", **content), tmp_path, side=40)
    assert boxes_of(datasets) == expected_boxes(boxes, form, 2)
    assert "the picture turned by its EXIF" in str(datasets.training.reading_notes)


FILE_SPELLINGS = (lambda name: unicodedata.normalize("NFC", name), quote)
PATH_SPELLINGS = (
    lambda name: f"/data/local-files/?d=project/{quote(name)}",
    lambda name: f"C:\\data\\{name}",
    lambda name: f"/data/upload/1/0f3a9b21-{name}",
)


@pytest.mark.parametrize(
    ("form", "spell"),
    [(form, spell) for form in FORMS for spell in FILE_SPELLINGS]
    + [(form, spell) for form in ("coco", "voc") for spell in PATH_SPELLINGS],
)
def test_pictures_are_found_by_names_that_label_studio_and_macs_write(
    tmp_path: Path, form: str, spell: Callable[[str], str]
) -> None:
    """A file with boxes is named like the picture, or has its name inside."""
    stem = unicodedata.normalize("NFD", "Köln am Rhein")
    name = spell(f"{stem}.png")
    content: Content = {}
    for path, data in FORMS[form](BOXES).items():
        if path.endswith("1.png"):
            path = path.replace("1.png", f"{stem}.png")
        elif form in ("icdar", "yolo"):
            path = re.sub(r"(?<=[/_])1(?=\.txt)", name.removesuffix(".png"), path)
        elif isinstance(data, str):
            data = data.replace('"1.png"', json.dumps(name)).replace(">1.png<", f">{name}<")
        content[path] = data
    datasets = open_data(form, files(tmp_path / "d", **content), tmp_path, side=64)
    assert boxes_of(datasets) == expected_boxes(BOXES, form, 64 / 20)


@pytest.mark.parametrize("form", ["commas", "spaces"])
def test_regions_of_2013_have_two_corners(tmp_path: Path, form: str) -> None:
    content = icdar([("1.png", "cat", (2, 3, 10, 8)), ("2.png", "###", (0, 0, 5, 5))], form=form)
    datasets = open_data("icdar", files(tmp_path / "d", **content), tmp_path, side=40)
    assert boxes_of(datasets) == [("text", [4, 6, 20, 16])]


def test_folders_and_lists_are_the_sets_of_boxes(tmp_path: Path) -> None:
    content = coco(BOXES, folder="train2017/")
    content["annotations/instances_train2017.json"] = content.pop("annotations/instances.json")
    val_content = coco(BOXES, pictures=2, folder="val2017/")
    content |= {name: data for name, data in val_content.items() if name.startswith("val")}
    content["annotations/instances_val2017.json"] = val_content["annotations/instances.json"]
    content["annotations/captions_val2017.json"] = '{"annotations": []}'
    datasets = open_data("coco", files(tmp_path / "coco", **content), tmp_path)
    assert (len(datasets.training), len(datasets.validation)) == (6, 2)
    assert {sample.path[:3] for sample in datasets.validation.samples} == {"val"}

    marked = voc(BOXES)
    name = next(name for name, text in marked.items() if "<object>" in str(text))
    marked[name] = str(marked[name]).replace("</name>", "</name><difficult>1</difficult>", 1)
    datasets = open_data("voc", files(tmp_path / "marked", **marked), tmp_path)
    marks = [
        target["difficult"]
        for data in datasets
        for _, target in map(data.__getitem__, range(len(data)))
    ]
    assert sum(int(mark.sum()) for mark in marks) == 1

    lists = {"ImageSets/Main/train.txt": "1\n2\n", "ImageSets/Main/val.txt": "3 1\n",
             "ImageSets/Main/cat_train.txt": "5 1\n"}  # fmt: skip
    datasets = open_data("voc", files(tmp_path / "voc", **voc(BOXES), **lists), tmp_path)
    assert (len(datasets.training), len(datasets.validation)) == (2, 1)

    content = {
        f"ch4_{part}_{'gt' if name.endswith('.txt') else 'images'}/{name}": data
        for part, count in (("training", 4), ("test", 2))
        for name, data in icdar(BOXES, count).items()
    }
    datasets = open_data("icdar", files(tmp_path / "icdar", **content), tmp_path)
    assert (len(datasets.training), len(datasets.validation)) == (4, 2)


@pytest.mark.parametrize(
    ("change", "count"),
    [
        (lambda file: file["annotations"][0].update(category_id=55), 1),
        (lambda file: file["annotations"][0].update(image_id=999), 1),
        (lambda file: file["annotations"][0].update(image_id=999, iscrowd=1), 1),
        (lambda file: file["annotations"][0].update(category_id=55, bbox=[]), 1),
        (lambda file: file["annotations"][0].update(category_id=None), 1),
        (lambda file: file["annotations"][0].update(image_id="011"), 1),
        (lambda file: file["categories"].pop(), 2),
        (lambda file: file["images"].pop(0), 2),
    ],
)
def test_annotations_without_an_image_or_category_are_skipped_on_request(
    tmp_path: Path, change: Callable[[Any], Any], count: int
) -> None:
    content = coco(BOXES)
    file = json.loads(content["annotations/instances.json"])
    change(file)
    folder = files(tmp_path / "d", **{**content, "annotations/instances.json": json.dumps(file)})
    with pytest.raises(UserCodeError, match=r"annotation \d+ is .+, which is not in .+ or set bad"):
        open_data("coco", folder, tmp_path)
    notes = open_data("coco", folder, tmp_path, bad_pictures="skip").training.reading_notes
    reason = "Left out, because their image or category is not in the file"
    (skipped,) = [note for note in notes if note["reason"] == reason]
    assert skipped["count"] == count


BROKEN: list[tuple[str, Content, str]] = [
    ("coco", {"a.csv": "1"}, "no JSON file with images, annotations and categories"),
    ("coco", {"a.json": "{"}, "a.json is no JSON"),
    ("coco", {"a.json": "[]"}, "no JSON file with images"),
    ("coco", {"a.json": '{"images": [{}], "annotations": [], "categories": []}'},
     "a.json is not in COCO's form: KeyError"),
    ("coco", {"a.json": json.dumps({"images": [], "categories": [], "annotations": [
        {"image_id": 3, "category_id": 1, "bbox": [1, 1, 1, 1]}]})},
     "annotation without an id is for image 3, which is not in “images”; add it"),
    ("coco", {"a.json": json.dumps({"images": [{"id": 3, "file_name": "a"}], "categories": [],
        "annotations": [{"image_id": 3, "category_id": 1, "bbox": [1, 1, 1, 1]}]})},
     "a.json: annotation without an id is of category 1, which is not in “categories”"),
    ("coco", {"a.json": json.dumps({"images": [{"id": 3, "file_name": "a"}],
        "categories": [{"id": 1, "name": "b"}],
        "annotations": [{"image_id": 3, "category_id": 1, "bbox": ["x", 1, 1, 1]}]})},
     r"a.json: the box of annotation without an id has not four numbers: \[\"x\", 1, 1, 1\]"),
    *(("coco", {"a.json": json.dumps({"images": [{"id": 3, "file_name": "a"}],
        "categories": [{"id": 1, "name": "b"}],
        "annotations": [{"id": 7, "image_id": 3, "category_id": 1, "bbox": box}]})},
     "a.json: the box of annotation 7 has not four numbers: ")
      for box in (["10,5", 1, 1, 1], [1, None, 1, 1], [1, 1, 1, float("nan")], "1,2x",
                  {"x": 1, "y": 1, "w": 1, "h": 1})),
    ("voc", {"a.csv": "1"}, "no XML file with an <annotation>"),
    ("voc", {"a.xml": "<annotations/>"}, "a.xml cannot be read: it has CVAT's form; export the"),
    ("voc", {"a.xml": "<annotation>"}, "a.xml cannot be read: no element found"),
    ("voc", {"a.xml": "<annotation><object><name>a</name></object></annotation>"},
     "a.xml cannot be read: <bndbox/xmin> is missing"),
    ("voc", {"a.xml": voc(BOXES)["Annotations/1.xml"].replace("<xmin>3", "<xmin>x")},  # type: ignore[arg-type]
     "a.xml cannot be read: could not convert string to float"),
    ("voc", {"a.xml": "<html></html>"}, "no XML file with an <annotation>"),
    ("icdar", {"a.csv": "1"}, "no text file with regions that is named like a picture"),
    ("icdar", {"a.png": picture(), "gt_a.txt": "1,2,3\n"}, "gt_a.txt, line 1 is no region"),
    ("icdar", {"a.png": picture(), "a.txt": "1,2,3,4,x\n\nhello"}, "line 3 is no region: “hello”"),
]  # fmt: skip


@pytest.mark.parametrize(("form", "content", "message"), BROKEN)
def test_a_broken_description_of_boxes_is_one_sentence(
    tmp_path: Path, form: str, content: Content, message: str
) -> None:
    with pytest.raises(UserCodeError, match=message):
        open_data(form, files(tmp_path / "d", **content), tmp_path)


def as_texts(value: Any) -> Any:
    """The same JSON, with a text for each number."""
    if isinstance(value, dict):
        return {key: as_texts(inner_value) for key, inner_value in value.items()}
    if isinstance(value, list):
        return [as_texts(inner_value) for inner_value in value]
    return str(value) if type(value) in (int, float) else value


@pytest.mark.parametrize("part", ["annotations", "images", "categories"])
def test_numbers_of_coco_may_be_texts(tmp_path: Path, part: str) -> None:
    content = coco(BOXES)
    file = json.loads(content["annotations/instances.json"])
    file[part] = as_texts(file[part])
    for annotation in file["annotations"]:
        annotation["iscrowd"] = 0
    folder = files(tmp_path / "d", **{**content, "annotations/instances.json": json.dumps(file)})
    datasets = open_data("coco", folder, tmp_path, side=40)
    assert boxes_of(datasets) == expected_boxes(BOXES, "coco", 2)
    assert datasets.training.classes == ["cat", "dog"]


NAMES_IN_YAML: dict[str, tuple[str, list[str]]] = {
    "commas in quotes": ("names: ['hex nut, M8', \"bolt's\"]\n", ["hex nut, M8", "bolt's"]),
    "quoted lines": (
        "names:\n  - \"hex nut, M8\" # steel\n\n  # small\n  - 'it''s: x'\nval: a\n",
        ["hex nut, M8", "it's: x"]),
    "numbered in braces": ('names: {0: "hex nut, M8", 1: bolt}\n', ["hex nut, M8", "bolt"]),
    "as in JSON": ('names: {"0":"a,b","1":"c}"}\n', ["a,b", "c}"]),
    "escaped": ('names:\n- "a \\"b\\" #1"\n- "M\\xFCtter"\n', ['a "b" #1', "Mütter"]),
    "comments in brackets": (
        "names: [ # two\n  a,\n  'b # c', # last\n]\nabout: x, y\n", ["a", "b # c"]),
    "brackets in quotes": ('names: ["a]b", don\'t]\n', ["a]b", "don't"]),
    "numbers out of order": ("names:\n  1: bolt\n  0: 'nut: M8'\nval: a\n", ["nut: M8", "bolt"]),
    "a longer file": ("names:\n  0: C#\n  1: a b\nload: |\n  - x\n  2: y\n", ["C#", "a b"]),
}  # fmt: skip


@pytest.mark.parametrize("form", NAMES_IN_YAML)
def test_names_of_classes_keep_what_is_in_quotes(tmp_path: Path, form: str) -> None:
    text, names = NAMES_IN_YAML[form]
    content = yolo([("1.png", "a", (2, 3, 10, 8)), ("2.png", "b", (2, 3, 10, 8))])
    for count, notes in ((2, []), (3, ["Names 2 classes, although its nc is 3: 1 file (d.yaml)."])):
        content["d.yaml"] = f"nc: {count}\n{text}"
        content.pop("data.yaml", None)
        datasets = open_data("yolo", files(tmp_path / f"{count}", **content), tmp_path, side=40)
        assert boxes_of(datasets) == sorted((name, [4, 6, 20, 16]) for name in names)
        assert notes_of(datasets)[:-1] == notes


YOLO_NAMES = {
    "list": {"data.yaml": "nc: 2\nnames: ['ball', \"crate\"]\n"},
    "list of lines": {"data.yaml": "names:\n- ball\n- crate # wood\ntrain: images\n"},
    "numbers": {"data.yaml": "names:\n  0: ball\n  1: crate\nval: images\n"},
    "numbers in a line": {"data.yml": 'names: {0: ball, 1: "crate"}\n'},
    "a text file": {"classes.txt": "ball\ncrate\n"},
    "of Darknet": {"obj.names": "ball\ncrate\n"},
}


@pytest.mark.parametrize("names_form", YOLO_NAMES)
def test_the_classes_of_yolo_have_names(tmp_path: Path, names_form: str) -> None:
    content = yolo([("1.png", "a", (2, 3, 10, 8)), ("2.png", "b", (2, 3, 10, 8))])
    del content["data.yaml"]
    datasets = open_data(
        "yolo", files(tmp_path / "d", **content, **YOLO_NAMES[names_form]), tmp_path
    )
    assert datasets.training.classes == ["ball", "crate"]
    assert notes_of(datasets)[-1].startswith("Without a box: ")


def test_yolo_in_folders_of_sets_and_outlines_is_read(tmp_path: Path) -> None:
    content = {f"{part}/images/{n}.png": picture() for part in ("train", "valid") for n in range(3)}
    outline = "0 0.1 0.3 0.5 0.3 0.5 0.8 0.2 0.8\n"
    content |= {name.replace("images", "labels")[:-3] + "txt": outline for name in content}
    datasets = open_data("yolo", files(tmp_path / "d", **content), tmp_path, side=40)
    assert (len(datasets.training), len(datasets.validation)) == (3, 3)
    assert boxes_of(datasets) == [("0", [4, 6, 20, 16])] * 6
    assert [note.partition(":")[0] for note in notes_of(datasets)] == [
        "Read as the box around an outline", "Named by their number, because no file names them",
    ]  # fmt: skip


@pytest.mark.parametrize("factor", [0.5, 2, 3])
@pytest.mark.parametrize("form", ["coco", "voc"])
def test_boxes_for_pictures_of_another_size_are_scaled_and_counted(
    tmp_path: Path, form: str, factor: float
) -> None:
    content = FORMS[form](BOXES)
    side, height = round(20 * factor), round(10 * factor)
    content |= {name: picture(size=(side, height)) for name in content if name.endswith(".png")}
    datasets = open_data(form, files(tmp_path / "d", **content), tmp_path, side=40)
    assert boxes_of(datasets) == expected_boxes(BOXES, form, 2)
    assert "Boxes are scaled to pictures of another size than described: " in " ".join(
        note for data in datasets for note in note_messages(data.reading_notes)
    )


@pytest.mark.parametrize("form", ["coco", "voc"])
def test_boxes_from_0_to_1_are_shares_of_the_sides(tmp_path: Path, form: str) -> None:
    first = 1 if form == "voc" else 0
    shares = [
        (n, c, (x / 20 - first, y / 10 - first, r / 20, b / 10)) for n, c, (x, y, r, b) in BOXES
    ]
    datasets = open_data(form, files(tmp_path / "d", **FORMS[form](shares)), tmp_path, side=40)
    assert boxes_of(datasets) == expected_boxes(BOXES, form, 2)
    assert any("read as shares" in note for note in notes_of(datasets))


@pytest.mark.parametrize(
    ("form", "boxes", "message"),
    [
        ("coco", [("1.png", "a", (30, 30, 40, 40))], "no box is inside its picture, first of im"),
        ("voc", [("1.png", "a", (5, 5, 5, 9))], "no box is inside its picture"),
        ("yolo", [("1.png", "a", (30, 30, 30, 30))], r"1\.txt, line 1 is no class with a box"),
        ("icdar", [("1.png", "a", (0, 0.5, 0.5, 0.2))], r"gt_1\.txt, line 1 is no region"),
        ("coco", [], "none of the 5 pictures for training has a box"),
        ("yolo", [], "none of the 5 pictures for training has a box"),
    ],
)
def test_a_set_without_a_usable_box_is_refused(
    tmp_path: Path, form: str, boxes: Boxes, message: str
) -> None:
    folder = files(tmp_path / "d", **FORMS[form](boxes))
    with pytest.raises(UserCodeError, match=message):
        open_data(form, folder, tmp_path, seed=3)


def test_what_a_description_of_boxes_lacks_is_counted(tmp_path: Path) -> None:
    content = coco(BOXES)
    notes = json.loads(content["annotations/instances.json"])
    notes["annotations"][0]["iscrowd"] = 1
    del notes["annotations"][1]["bbox"]
    content["annotations/instances.json"] = json.dumps(notes)
    folder = files(tmp_path / "d", **content, **{"other/7.png": picture()})
    assert notes_of(open_data("coco", folder, tmp_path))[:4] == [
        "Left out, because they are crowds: 1 object (annotation 0).",
        "Left out, because they have no box: 1 object (annotation 1).",
        "Without an object in the dataset: 1 class (cat).",
        "Left out, because no description of boxes is for them: 1 picture (other/7.png).",
    ]


LAYOUTS: dict[str, tuple[list[str], list[str], int]] = {
    "a class": (["bus/front", "car/side", "train/front"], ["bus", "car", "train"], 0),
    "in a folder": (["d/bus/a", "d/car/a", "d/test/a"], ["bus", "car", "test"], 0),
    "flat": (["bus", "car", "train"], ["bus", "car", "train"], 0),
    "two like sets, flat": (["bus", "test", "train"], ["bus", "test", "train"], 0),
    "in sets": (["train/bus", "train/train", "val/bus", "val/train"], ["bus", "train"], 0),
    "sets in classes": (["bus/train", "car/train", "bus/val", "car/val"], ["bus", "car"], 0),
    "sets with one more": (["train/a", "train/b", "val/a", "raw/1"], ["a", "b"], 1),
    "a set and flat pictures": (["train/a", "train/b", "raw"], ["a", "b"], 1),
    "one set": (["train/a", "train/b"], ["a", "b"], 0),
    "sets below": (["a/train/x", "a/train/y", "b/val/x", "b/val/y"], ["x", "y"], 0),
    "numbers": (["train2017/a", "train2017/b", "val2017/a"], ["a", "b"], 0),
}  # fmt: skip


@pytest.mark.parametrize("layout", LAYOUTS)
def test_folders_are_classes_or_sets_as_those_beside_them_are(tmp_path: Path, layout: str) -> None:
    folders, classes, omitted_count = LAYOUTS[layout]
    content = {f"{name}/{n}.png": picture(size=(8, 8)) for name in folders for n in range(2)}
    datasets = open_data("image-folder", files(tmp_path / "d", **content), tmp_path, side=8)
    assert datasets.training.classes == classes
    assert len(datasets.training) + len(datasets.validation) == 2 * (len(folders) - omitted_count)
    notes = [note for note in notes_of(datasets) if "in no folder of a class: 2 pictures" in note]
    assert len(notes) == omitted_count


@pytest.mark.parametrize(
    "suffix", [".jfif", ".jpe", ".JFIF", ".mpo", ".jp2", ".j2k", ".avif", ".dib", ".tga", ".pnm",
               ".apng", ".pcx"]
)  # fmt: skip
def test_each_usual_suffix_is_one_of_a_picture(tmp_path: Path, suffix: str) -> None:
    form = Image.registered_extensions()[suffix.lower()]
    content = {f"{name}/1{suffix}": picture(colour=(9, 99, 200), form=form) for name in "ab"}
    datasets = open_data("image-folder", files(tmp_path / "d", **content), tmp_path, side=8)
    assert len(datasets.training) + len(datasets.validation) == 2
    assert datasets.training[0][0][:, 4, 4].tolist() == pytest.approx((0.03, 0.39, 0.78), abs=0.05)


def test_masks_beside_pictures_are_no_samples_of_the_class(tmp_path: Path) -> None:
    names = ["a (1).png", "a (1)_mask.png", "a (1)_mask_1.png", "2.jpg", "2-seg.png", "x_mask.png"]
    content = {f"{name}/{file}": picture() for name in ("benign", "normal") for file in names}
    datasets = open_data("image-folder", files(tmp_path / "d", **content), tmp_path)
    assert len(datasets.training) + len(datasets.validation) == 6, "x_mask.png has no picture"
    assert notes_of(datasets)[0].startswith(
        "Left out, because they are masks of pictures beside them: 6 pictures (benign/2-seg.png, "
    )


def test_files_with_other_suffixes_in_folders_of_classes_are_counted(tmp_path: Path) -> None:
    content = by_class("a", "b", folder="train/") | {"train/notes.docx": "", "train/a/1.txt": ""}
    content |= {f"train/a/{n}.xyz": "x" for n in range(8)} | {"train/b/x/2.HEIC": "x"}
    content |= dict.fromkeys(["train/a/._1.png", "train/a/.DS_Store", "train/b/Thumbs.db"], "x")
    assert notes_of(open_data("image-folder", files(tmp_path / "d", **content), tmp_path))[0] == (
        "Left out, because no picture has their suffix (.heic, .xyz): 9 files (train/a/0.xyz, "
        "train/a/1.xyz, train/a/2.xyz and 6 more)."
    )


def deep_picture(values: Any, form: str = "PNG") -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(numpy.asarray(values)).save(buffer, form)
    return buffer.getvalue()


LEVELS = numpy.arange(64).reshape(8, 8)
DEEP: dict[str, tuple[bytes, float, str]] = {
    "16 bits": (
        deep_picture((LEVELS * 1040).astype(numpy.uint16)),
        65535,
        "so that 65535 becomes 1",
    ),
    "12 of 16 bits": (
        deep_picture((LEVELS * 64 + 1).astype(numpy.uint16)),
        4095,
        "so that 4095 becomes 1",
    ),
    "8 of 16 bits": (deep_picture((LEVELS + 1).astype(numpy.uint16)), 255, "so that 255 becomes 1"),
    "32 bits": (
        deep_picture((LEVELS * 1000).astype(numpy.int32), "TIFF"),
        65535,
        "65535 becomes 1",
    ),
    "floats to 1": (
        deep_picture((LEVELS / 63).astype(numpy.float32), "TIFF"),
        1,
        "so that 1 becomes 1",
    ),
    "floats to 1.01": (
        deep_picture((LEVELS / 62.4).astype(numpy.float32), "TIFF"),
        1,
        "so that 1 becomes 1",
    ),
    "negative": (deep_picture((LEVELS - 32.0).astype(numpy.float32), "TIFF"), 255, "255 becomes 1"),
}


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("kind", DEEP)
def test_no_level_of_a_deep_picture_is_lost_and_one_range_is_for_all(
    tmp_path: Path, kind: str, channels: int
) -> None:
    content, white, note = DEEP[kind]
    folder = files(tmp_path / "d", **{"a/1.tif": content, "b/2.tif": content, "b/3.tif": content})
    datasets = open_data("image-folder", folder, tmp_path, side=8, channels=channels)
    picture = datasets.training[0][0]
    with Image.open(io.BytesIO(content)) as image:
        values = torch.from_numpy(numpy.asarray(image).astype(numpy.float32))
    torch.testing.assert_close(picture, (values / white).repeat(channels, 1, 1))
    assert len(picture.unique()) == 64
    assert note in notes_of(datasets)[0]
    doubled_white = open_data(
        "image-folder", folder, tmp_path, side=8, channels=1, white=2 * int(white)
    )
    torch.testing.assert_close(2 * doubled_white.training[0][0], picture[:1])
    assert notes_of(doubled_white) == []


def test_a_dark_deep_picture_has_the_range_of_the_bright_ones(tmp_path: Path) -> None:
    content = {f"{name}/{n}.png": DEEP["8 of 16 bits"][0] for name in "ab" for n in range(3)}
    content["a/9.png"] = DEEP["16 bits"][0]
    folder = files(tmp_path / "d", **content)
    datasets = open_data("image-folder", folder, tmp_path, side=8)
    darkest = min(float(picture.max()) for picture, _ in datasets.training)
    assert darkest == pytest.approx(64 / 65535)
    boxes = yolo([(f"{n}.png", "a", (2, 3, 10, 8)) for n in (1, 2, 3)], 3)
    boxes |= {f"images/{n}.png": DEEP["12 of 16 bits"][0] for n in (1, 2, 3)}
    datasets = open_data("yolo", files(tmp_path / "y", **boxes), tmp_path, side=32)
    assert float(datasets.training[0][0].max()) == pytest.approx(4033 / 4095, abs=0.1)


@pytest.mark.parametrize(("count", "share"), [(120, ""), (300, ", of 128 examined")])
def test_deep_pictures_are_counted_whatever_their_names(
    tmp_path: Path, count: int, share: str
) -> None:
    deep, flat = DEEP["16 bits"][0], picture(size=(8, 8))
    forms = [
        ("png", flat),
        ("png", deep),
        ("png", flat),
        ("tif", deep_picture(LEVELS * 1040.0, "TIFF")),
    ]
    content = {
        f"{'ab'[n % 8 // 4]}/{n:03}.{forms[n % 4][0]}": forms[n % 4][1] for n in range(count)
    }
    datasets = open_data("image-folder", files(tmp_path / "d", **content), tmp_path, side=8)
    note = datasets.training.reading_notes[0]
    assert note["reason"] == f"Of more than 8 bits, read so that 65535 becomes 1{share}"
    assert note["count"] == 60 if not share else 50 < note["count"] < 80


def deep_colour_tiff() -> bytes:
    """A TIFF of 20 × 10 pixels with 16 bits in each of three channels."""
    pixels = struct.pack("<3H", 65535, 32896, 0) * 200
    tags = [(256, 20), (257, 10), (258, 122), (259, 1), (262, 2), (273, 128), (277, 3), (278, 10),
            (279, len(pixels))]  # fmt: skip
    entries = b"".join(
        struct.pack("<HHII", tag, 3 if tag == 258 else 4, 3 if tag == 258 else 1, value)
        for tag, value in tags
    )
    head = struct.pack("<2sHIH", b"II", 42, 8, len(tags)) + entries + bytes(4)
    return head + struct.pack("<3H", 16, 16, 16) + pixels


def test_colours_of_16_bits_are_said_to_be_cut(tmp_path: Path) -> None:
    content = {"a/1.png": deep_colour(), "b/1.tif": deep_colour_tiff()}
    datasets = open_data("image-folder", files(tmp_path / "d", **content), tmp_path, side=8)
    assert "Colours of 16 bits, of which 8 are read: 2 pictures" in notes_of(datasets)[0]
