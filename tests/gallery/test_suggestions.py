"""Suggested loaders read the data, with the suggested settings and the stated sizes."""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backend.cli.commands._library import _suggestion_text
from backend.records.library.gallery import Suggestion
from backend.records.library.item import FileEntry, Kind
from backend.services.library.dataset_misfits import misfit_message
from backend.services.library.dataset_shapes import recognize_shape
from tests.gallery import test_array_loaders as arrays
from tests.gallery import test_picture_loaders as pictures
from tests.gallery import test_picture_tables as picture_tables
from tests.gallery import test_table_loader as tables
from tests.gallery.datasets import GALLERY, files, open_data

Content = Mapping[str, bytes | str]


def listing_of(
    content: Content,
) -> tuple[list[FileEntry], Callable[[str, int], bytes]]:
    file_content = {
        name: data.encode() if isinstance(data, str) else data for name, data in content.items()
    }
    entries = [FileEntry(name, len(file_content[name])) for name in sorted(file_content)]
    return entries, lambda path, limit_bytes: file_content[path][:limit_bytes]


def suggest_loader(content: Content) -> Suggestion | None:
    return recognize_shape(*listing_of(content))


def zip_content(content: Content) -> Content:
    return {f"{name}.gz": gzip.compress(data, mtime=0) for name, data in content.items()}  # type: ignore[arg-type]


GREY = {f"{name}/{n}.png": pictures.picture("L", (28, 28)) for name in "012" for n in range(5)}
PHOTOS = {
    f"{name}/{n}.jpg": pictures.picture("RGB", (300, 200), form="JPEG")
    for name in "ab"
    for n in range(5)
}
EMNIST = {f"emnist-letters-{name}": data for name, data in arrays.mnist([1, 26, 1, 26]).items()}
SQUARE = {
    "train-images-idx3-ubyte": arrays.idx(numpy.zeros((4, 28, 28), numpy.uint8)),
    "train-labels-idx1-ubyte": arrays.idx(numpy.array([1, 2, 1, 2], numpy.uint8)),
}
READ_ME = {"README.md": "1, 2, 3"}

SHAPES: dict[str, tuple[Content, str, str]] = {
    "CIFAR-10, python": (arrays.cifar_10_python(20), "cifar-10", "5 training files and 1 for"),
    "CIFAR-10, binary": (arrays.cifar_10_binary(20), "cifar-10", "5 training files and 1 for"),
    "CIFAR-10, archive": (arrays.archive(arrays.cifar_10_python(20)), "cifar-10", "cifar.tar.gz"),
    "CIFAR-100, python": (arrays.cifar_100_python(), "cifar-100", "1 training file and 1 for"),
    "CIFAR-100, binary": (arrays.cifar_100_binary(), "cifar-100", "1 training file and 1 for"),
    "CIFAR-100, archive": (arrays.archive(arrays.cifar_100_binary()), "cifar-100", "the archive"),
    "MNIST": (SQUARE, "idx", "4 pictures of 28 × 28 pixels"),
    "MNIST, gzipped": (zip_content(SQUARE), "idx", "4 pictures of 28 × 28 pixels"),
    "EMNIST": (EMNIST, "idx", "4 pictures of 28 × 20 pixels"),
    "pictures by class": (PHOTOS, "image-folder", r"10 pictures in 2 classes \(a, b\)\.$"),
    "grey pictures by class": (GREY, "image-folder", r"15 pictures in 3 classes \(0, 1, 2\)"),
    "in a folder": (pictures.by_class("a", "b", folder="a/b/"), "image-folder", "2 classes"),
    "pictures with sets": (
        pictures.by_class("a", "b", folder="train/") | pictures.by_class("a", "b", folder="val/"),
        "image-folder", "20 pictures in 2 classes .* folders for training and validation",
    ),
    "pictures and notes": (PHOTOS | READ_ME, "image-folder", "2 classes"),
    "CSV": (READ_ME | {"iris.csv": tables.flowers()}, "table",
            r"iris.csv with 3 columns; predicted is colour\.$"),
    "CSV, semicolons": ({"iris.csv": tables.flowers(";", ",")}, "table", "with 3 columns"),
    "CSV, gzipped": ({"iris.csv.gz": tables.TABLES["gzip"]}, "table", "3 col"),
    "text of Excel": (
        {"a.txt": tables.flowers("\t").encode("utf-16")}, "table", "a.txt with 3 columns"),
    "CSV with texts": ({"a.csv": "a,b,c\n1,x,no\n2,y,yes\n3,z,no\n"}, "table", "3 columns"),
    "CSV of pandas": ({"a.csv": tables.TABLES["index of pandas"]}, "table", "4 columns"),
    "CSV with gaps": ({"a.csv": tables.GAPS}, "table", "some values missing, which become"),
    "arrays": (arrays.npz(x=arrays.NUMBERS, y=arrays.LABELS), "arrays", "data.npz"),
    "arrays of pictures": (arrays.npy(x=arrays.PICTURES, y=arrays.LABELS), "arrays", "x.npy"),
    "arrays, channels last": (
        arrays.npz(x=numpy.zeros((10, 8, 8, 3)), y=arrays.LABELS), "arrays", "data.npz"),
    "COCO": (pictures.coco(pictures.BOXES), "coco", "instances.json and 6 pictures"),
    "VOC": (pictures.voc(pictures.BOXES), "voc", "6 XML files with objects and 6 pictures"),
    "YOLO": (pictures.yolo(pictures.BOXES), "yolo", "2 text files with boxes as shares"),
    "a class named train": (
        {f"{name}/x/{n}.png": pictures.picture(size=(28, 28)) for name in ("bus", "car", "train")
         for n in range(5)}, "image-folder", r"15 pictures in 3 classes \(bus, car, train\)\.$"),
    "pictures of no class": (
        PHOTOS | {"1.jpg": PHOTOS["a/1.jpg"]}, "image-folder",
        r"Left out, because they are in no folder of a class: 1 picture \(1\.jpg\)\.$"),
    "a table of Windows": (
        {"t.csv": "Größe;y\n".encode("cp1252") + b"1,5;a\n2,5;b\n" * 5}, "table",
        r"1 column \(Größe\)"),
    "a table with ids": (
        {"t.csv": "id,x,y\n" + "".join(f"P{n}-a,{n},{'ab'[n % 2]}\n" for n in range(12))}, "table",
        r"Nearly each row has another text; leave_out omits a column of names: 1 column \(id\)"),
    "a table with Y and y": (
        {"t.csv": "f,x,c\n" + "".join(f"{'Yy'[n % 2]},{n},{('no', 'No', 'yes')[n % 3]}\n"
                                      for n in range(12))},
        "table", r"only capitals or blanks differ: 1 text \(Y and y in f\)\.$"),
    "a table with a logo": (
        {"logo.png": pictures.picture(), "iris.csv": tables.flowers()}, "table", "3 columns"),
    "folds": ({"fold1.csv": tables.flowers(), "sample2.csv": tables.flowers()}, "table", "3 col"),
    "a competition": (
        {"train.csv": "Id,y2,x\n" + "".join(f"{n},{n % 3},{n * n}\n" for n in range(12)),
         "test.csv": "Id,x\n12,5\n13,7\n"}, "table",
        r"is y2\. Predicted, because test.csv lacks it.+ count the rows: 1 column \(Id\)"),
    "a competition in camel case": (
        {"train.csv": tables.flowers(), "sampleSubmission.csv": "id,label\n1,0\n"}, "table",
        r": train\.csv with .+ are samples of answers: 1 file \(sampleSubmission\.csv\)\.$"),
    "pictures and many columns": (
        {**PHOTOS, "labels.csv": "file,label,b\n" + "".join(
            f"{name},{'xyz'[n % 3]},{n}\n" for n, name in enumerate(PHOTOS))},
        "picture-table", "predicted is label"),
    "a pair of UCI": (
        {"a.tra": "1,2,0\n3,4,1\n" * 6, "a.tes": "1,2,0\n3,4,1\n"}, "table", "a.tes, a.tra with 3"),
    "a table of Excel": (
        {"t.csv": "sep=;\r\nReport;;\r\n\r\na;b;y\r\n" + "1,5;2 sq ft;a\r\n2,5;3 sq ft;b\r\n" * 5},
        "table", r"titles above the table: 1 row \(Report\)\. .+ in sq.ft: 1 column \(b\)"),
    "pictures of other suffixes": (
        {name.replace(".jpg", ".jfif"): data for name, data in PHOTOS.items()}
        | {"a/1.xyz": b"x", "a/._1.jpg": b"x", "b/1.json": b"x", "b/2.xyz": b"x"}, "image-folder",
        r"10 pictures .+ no picture has their suffix \(\.xyz\): 2 files \(a/1\.xyz, b/2\.xyz\)\.$"),
    "pictures with masks": (
        PHOTOS | {name.replace(".jpg", "_mask.png"): data for name, data in PHOTOS.items()},
        "image-folder", r"10 pictures .+ masks of pictures beside them: 10 pictures"),
    "pictures and labels": (
        picture_tables.kaggle(), "picture-table",
        r"labels\.csv and 14 pictures; predicted is breed\. .+ 1 row \(zzz\)\. .+ has them: 3 p"),
    "pictures, labels and a long line": (
        picture_tables.kaggle() | {"about.txt": "a " + "x" * 200_000}, "picture-table", "labels"),
    "pictures, labels and a file of columns": (
        picture_tables.one_hot(), "picture-table", "predicted is healthy, rust, scab"),
    "folders and a table of them": (
        PHOTOS | {"list.csv": "file,kind,sharp\n" + "".join(
            f"{name},{name[0]},{n % 3}\n" for n, name in enumerate(PHOTOS))},
        "image-folder", "10 pictures in 2 classes"),
    "ICDAR": (pictures.icdar(pictures.BOXES), "icdar", "6 text files with regions"),
    "ICDAR 2013": (pictures.icdar(pictures.BOXES, form="spaces"), "icdar", "6 text files"),
}  # fmt: skip


@pytest.mark.parametrize("shape", SHAPES)
def test_the_suggested_loader_reads_the_data_and_the_facts_are_true(
    tmp_path: Path, shape: str
) -> None:
    content, entry, detail = SHAPES[shape]
    suggestion = suggest_loader(content)
    assert suggestion is not None
    assert suggestion.entry == entry
    assert suggestion.message.startswith(f"This looks like {suggestion.title}: ")
    assert re.search(detail, suggestion.message), suggestion.message
    datasets = open_data(entry, files(tmp_path / "d", **content), tmp_path, **suggestion.settings)
    data, _ = datasets.training[0]
    assert len(datasets.validation)
    data_sizes = {"features": data.numel()}
    if hasattr(datasets.training, "classes"):
        data_sizes["classes"] = len(datasets.training.classes)
    if data.ndim == 3:
        data_sizes["channels"] = len(data)
        data_sizes["side"] = data.shape[1] if data.shape[1] == data.shape[2] else 0
    assert suggestion.data_sizes.items() <= data_sizes.items()
    boxes = {form: {"channels", "side"} for form in ("voc", "yolo")}
    arrays = {"channels"} if data.ndim == 3 else {"features"}
    expected_keys = {"arrays": arrays, "table": {"classes", "features"}, **boxes}
    if shape != "EMNIST":
        assert (
            expected_keys.get(entry, {"classes", "channels", "side"})
            <= suggestion.data_sizes.keys()
        )


@pytest.mark.parametrize("form", tables.ENCODINGS)
def test_the_encoding_is_that_of_the_loader(form: str) -> None:
    table, message, _ = tables.ENCODINGS[form]
    suggestion = suggest_loader({"t.csv": table})
    assert suggestion is not None
    assert message in suggestion.message


@pytest.mark.parametrize(
    "content",
    [
        {},
        READ_ME,
        {"bks_dataset.py": "import torch"},
        {"1.png": pictures.picture(), "2.png": pictures.picture()},
        {"rose/1.png": pictures.picture(), "rose/2.png": pictures.picture()},
        {"1.png": pictures.picture(), "2.png": pictures.picture(), "a.csv": "f,y\nx,a\nz,b\n"},
        {"1.png": pictures.picture(), "a.txt": "f,y\nx,a\nz,b\nx,a\nz,b\n"},
        {"1.png": pictures.picture(), "test.csv": "file\n1.png\n"},
        {"images/1.png": pictures.picture(), "masks/1.png": pictures.picture()},
        {"a.xml": "<annotations><image/>", "images/1.png": pictures.picture()},
        {"train_images/1.png": pictures.picture(), "test_images/2.png": pictures.picture()},
        {"data_batch_1": "", "test_batch": ""},
        {"notes.xml": "<html/>", "1.png": pictures.picture()},
        {"train-images-idx3-ubyte": "no", "train-labels-idx1-ubyte": "no"},
        {"a.tar.gz": gzip.compress(b"cifar", mtime=0)},
        {"sound.wav": b"RIFF"},
        {"a.csv": ""},
        {"a.csv": "column\n1\n2\n"},
        {"x.npy": b"\x93NUMPY"},
        {f"sample{n}.npy": array for n, array in enumerate(arrays.npy(x=arrays.NUMBERS).values())},
    ],
)
def test_nothing_is_suggested_for_other_files(content: Content) -> None:
    assert suggest_loader(content) is None


REVIEWS = '{"text": "a", "stars": 1}\n{"text": "b", "stars": 2}\n'
MISFITS: dict[str, tuple[Content, str]] = {
    "nothing": ({}, r"a dataset without files: it reads pictures .+ or import a loader of your"),
    "sounds": (
        {f"{n}.wav": b"RIFF" for n in range(3)} | READ_ME,
        r"\(3 \.wav, 1 \.md\): it reads .+COCO, VOC, YOLO.+ import a loader of your own"),
    "JSON lines": ({"a.jsonl": REVIEWS}, r"\(1 \.jsonl\): convert JSON lines to CSV .+ label"),
    "JSON lines named JSON": ({"a.json": REVIEWS}, r"\(1 \.json\): convert JSON lines to CSV"),
    "one JSON": ({"a.json": '{"a":\n {"b": 1}}'}, r"\(1 \.json\): it reads"),
    "texts by class": (
        {f"train/{name}/{n}.txt": "a fine film" for name in ("neg", "pos") for n in range(4)},
        r"\(8 \.txt\): texts in a folder for each class \(neg, pos\) are free text, which needs"),
    "targets in a file of their own": (
        {f"{part}/{name}_{part}.txt": "1 2\n" for part in ("train", "test") for name in "Xy"},
        r"\(4 \.txt\): .+ \(X_test\.txt, y_test\.txt, y_train\.txt\); join them to one CSV"),
    "a table of one column": (
        {"a.csv": "x\n1\n2\n"}, r"\(1 \.csv\): a\.csv is no complete table; write a row"),
    "pictures with masks": (
        {f"{folder}{n}{end}.png": pictures.picture() for n in range(3)
         for folder, end in (("images/", ""), ("labels/", "_L"))},
        r"\(6 \.png\): 3 of the pictures are masks of others \(labels/0_L\.png, .+ reads masks;"),
    "a table of boxes": (
        {"i/1.png": pictures.picture(), "i/2.png": pictures.picture(),
         "t.csv": "f,class,x1,y1,x2,y2\n1.png,a,1,1,2,2\n2.png,b,1,1,2,2\n"},
        r"\(2 \.png, 1 \.csv\): t\.csv has boxes, .+ COCO, VOC and YOLO; convert it, or set"),
    "classes in names and an answer": (
        {f"train/{name}.{n}.png": pictures.picture() for name in ("cat", "dog") for n in range(3)}
        | {"test1/1.png": pictures.picture(), "sampleSubmission.csv": "id,label\n1,0\n"},
        r"\(7 \.png, 1 \.csv\): sampleSubmission\.csv has no labels; .+ begin with cat, dog; if"),
    "a table without suffix": (
        {"SMSSpam": "ham\tHello\n" * 5, "readme": "x"},
        r"\(2 without suffix\): SMSSpam has no suffix; give a table \.csv, \.tsv or \.txt"),
    "pictures of no class": (
        {"1.png": pictures.picture(), "2.png": pictures.picture(), "VERSION": "1"},
        r"\(2 \.png, 1 without suffix\): put the pictures into a folder for each class"),
}  # fmt: skip


@pytest.mark.parametrize("data", MISFITS)
def test_data_that_no_loader_fits_is_named_with_what_to_do(data: str) -> None:
    content, message = MISFITS[data]
    assert suggest_loader(content) is None
    misfit = misfit_message(*listing_of(content))
    assert re.match(f"No loader of the gallery fits .*{message}", misfit), misfit
    assert misfit.endswith(".")
    assert len(re.findall(r"\.( |$)", misfit)) == 1, "one sentence"


def date_table(*columns: str) -> str:
    return "when,x,y\n" + "".join(f"{n + 1:02}/03/2024,{columns[n % 2]}\n" for n in range(9))


@pytest.mark.parametrize(
    ("content", "open_settings"),
    [
        ({f"i/{n}.jpg": PHOTOS["a/1.jpg"] for n in range(6)}
         | {"t.csv": "f,age,kind\n" + "".join(f"{n}.jpg,{n * n},{n % 3}\n" for n in range(6))},
         {"target": "COLUMN"}),
        ({"t.csv": date_table("1,a", "2,b")}, {"dates": "ORDER"}),
        ({"t.csv": date_table('"1,234",a', '"5,678",b')}, {"dates": "ORDER", "decimal": "SIGN"}),
        ({"t.csv": "".join(f"{'ab'[n % 2]},{n},{n / 7}\n" for n in range(12))},
         {"target": "COLUMN"}),
        ({"t.csv": tables.flowers()}, {}),
        (picture_tables.kaggle(), {}),
    ],
)  # fmt: skip
def test_settings_that_the_files_leave_open_have_a_placeholder_in_the_command(
    content: Content, open_settings: Mapping[str, str]
) -> None:
    suggestion = suggest_loader(content)
    assert suggestion is not None
    assert suggestion.open_settings == open_settings
    card = GALLERY.show(suggestion.entry).card
    for key in open_settings:
        assert key in card.settings
        assert f" --set {key}={open_settings[key]}" in _suggestion_text(suggestion)


_NAMES = st.sampled_from(
    ["train-images-idx3-ubyte", "a.csv", "a.csv.gz", "x.npz", "x.npy", "a/1.png", "b/2.jpg",
     "a.json", "1.xml", "a/gt_1.txt", "c.tar.gz", "test_batch.bin", "train", "meta", "t.parquet"]
)  # fmt: skip
_FIRST_BYTES = st.sampled_from(
    [b"", b"\x1f\x8b", b"\0\0\x08\x03", b"\0\0\x08\x01", b"PK\3\4", b"\x89PNG\r\n\x1a\n", b"{",
     b"\xff\xd8\xff\xe0", b"<annotation", b"1,2,3,4,", b"\x93NUMPY", b"PAR1", b'{"categories":',
     b'"\n', b"a,b\n1,2\n", b"PK\3\4" + b"\0\0\0\0\x08\0" + b"\xff" * 40]
)  # fmt: skip


@given(
    file_parts=st.dictionaries(_NAMES, st.tuples(_FIRST_BYTES, st.binary(max_size=80)), max_size=6)
)
@settings(max_examples=300, deadline=None)
def test_odd_data_never_raises(file_parts: dict[str, tuple[bytes, bytes]]) -> None:
    content = {name: head + tail for name, (head, tail) in file_parts.items()}
    suggest_loader(content)
    misfit_message(*listing_of(content))


def test_files_that_cannot_be_read_are_no_failure() -> None:
    def read(path: str, limit_bytes: int) -> bytes:
        raise PermissionError(path)

    entries = [FileEntry(name, 10) for name in ("a.csv", "train-images-idx3-ubyte", "a/1.png")]
    assert recognize_shape([*entries, FileEntry("b/2.png", 10)], read) is None


@pytest.mark.parametrize("name", ["{}/{}.gif", "{}/idx-{}", "{}/{}.json", "{}/{}.npy", "y/{}{}.npz",
                                  "{}/{}.csv", "{}/{}.xml", "{}/gt_{}.txt"])  # fmt: skip
def test_only_first_bytes_of_a_few_files_are_read(name: str) -> None:
    entries = [FileEntry(name.format(kind, n), 10) for kind in "abc" for n in range(1000)]
    entries += [FileEntry(f"{kind}/{n}.jpg", 10) for kind in "abc" for n in range(1000)]
    requested_bytes: list[int] = []

    def read(path: str, limit_bytes: int) -> bytes:
        requested_bytes.append(limit_bytes)
        return b"\0\0\x08\x03{PK\3\4"

    suggestion = recognize_shape(entries, read)
    assert suggestion is not None
    assert suggestion.entry == "image-folder"
    assert len(requested_bytes) <= 60
    assert max(requested_bytes) <= 1 << 20


def test_each_loader_of_the_gallery_for_data_of_a_shape_is_suggested() -> None:
    entry_names = {entry for _, entry, _ in SHAPES.values()}
    assert entry_names <= {item.name for item in GALLERY.list(Kind.LOADER)}
    assert len(entry_names) == 11
