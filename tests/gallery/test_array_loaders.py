"""The loaders of CIFAR, IDX files and NumPy arrays, on files as they are downloaded and damaged."""

from __future__ import annotations

import gzip
import io
import os
import pickle
import struct
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from backend.training.user_code import UserCodeError
from tests.gallery.datasets import files, open_data

Content = dict[str, bytes]
RANDOM = numpy.random.default_rng(1)


def pixels(count: int) -> numpy.ndarray:
    return RANDOM.integers(0, 256, (count, 3072), numpy.uint8)


def python_file(**content: Any) -> bytes:
    """Pickle as Python 2 did: keys and texts are bytes."""
    return pickle.dumps({key.encode(): value for key, value in content.items()}, protocol=2)


def cifar_10_python(count: int = 3) -> Content:
    names = [f"data_batch_{number}" for number in range(1, 6)] + ["test_batch"]
    contents = {
        name: python_file(data=pixels(count), labels=[n % 10 for n in range(count)])
        for name in names
    }
    contents["batches.meta"] = python_file(label_names=[f"class {n}".encode() for n in range(10)])
    return {f"cifar-10-batches-py/{name}": content for name, content in contents.items()}


def cifar_10_binary(count: int = 3) -> Content:
    names = [f"data_batch_{number}.bin" for number in range(1, 6)] + ["test_batch.bin"]
    rows = numpy.concatenate([numpy.arange(count)[:, None] % 10, pixels(count)], 1)
    contents = dict.fromkeys(names, rows.astype(numpy.uint8).tobytes())
    contents["batches.meta.txt"] = b"".join(b"class_%d\n" % n for n in range(10)) + b"\n"
    return {f"cifar-10-batches-bin/{name}": content for name, content in contents.items()}


def cifar_100_python() -> Content:
    python_content = python_file(
        data=pixels(4), fine_labels=[0, 99, 5, 7], coarse_labels=[0, 19, 1, 2]
    )
    names = {
        f"{kind}_label_names": [b"%s %d" % (kind.encode(), n) for n in range(count)]
        for kind, count in (("fine", 100), ("coarse", 20))
    }
    contents = {"train": python_content, "test": python_content, "meta": python_file(**names)}
    return {f"cifar-100-python/{name}": content for name, content in contents.items()}


def cifar_100_binary() -> Content:
    labels = numpy.array([[0, 0], [19, 99], [1, 5], [2, 7]])
    binary_content = numpy.concatenate([labels, pixels(4)], 1).astype(numpy.uint8).tobytes()
    contents = {"train.bin": binary_content, "test.bin": binary_content}
    for kind, count in (("fine", 100), ("coarse", 20)):
        contents[f"{kind}_label_names.txt"] = b"".join(b"%d\n" % n for n in range(count))
    return {f"cifar-100-binary/{name}": content for name, content in contents.items()}


def archive(content: Content) -> Content:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, data in content.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return {"cifar.tar.gz": buffer.getvalue()}


@pytest.mark.parametrize("is_archive", [False, True])
@pytest.mark.parametrize("make", [cifar_10_python, cifar_10_binary])
def test_cifar_10_is_read_in_every_form(
    tmp_path: Path, make: Callable[[], Content], is_archive: bool
) -> None:
    content = archive(make()) if is_archive else make()
    datasets = open_data("cifar-10", files(tmp_path / "d", **content), tmp_path)
    assert (len(datasets.training), len(datasets.validation)) == (15, 3)
    picture, label = datasets.training[4]
    assert (picture.shape, int(label)) == ((3, 32, 32), 1)
    assert 0 <= picture.min() < 0.1 < 0.9 < picture.max() <= 1
    assert datasets.training.classes[1].replace("_", " ") == "class 1"


@pytest.mark.parametrize("is_archive", [False, True])
@pytest.mark.parametrize("make", [cifar_100_python, cifar_100_binary])
@pytest.mark.parametrize(("labels", "second", "count"), [("fine", 99, 100), ("coarse", 19, 20)])
def test_cifar_100_is_read_in_every_form(
    tmp_path: Path,
    make: Callable[[], Content],
    is_archive: bool,
    labels: str,
    second: int,
    count: int,
) -> None:
    content = archive(make()) if is_archive else make()
    datasets = open_data("cifar-100", files(tmp_path / "d", **content), tmp_path, labels=labels)
    assert [int(label) for _, label in datasets.validation][1] == second
    assert len(datasets.training.classes) == count


def test_the_first_pixels_are_red_row_by_row(tmp_path: Path) -> None:
    content = cifar_10_binary()
    record = bytes([7]) + bytes(range(32)) + bytes(3040)
    content["cifar-10-batches-bin/test_batch.bin"] = record
    datasets = open_data("cifar-10", files(tmp_path / "d", **content), tmp_path)
    picture, label = datasets.validation[0]
    assert int(label) == 7
    assert (picture[0, 0] * 255).tolist() == pytest.approx(range(32))


def test_a_file_that_python_2_wrote_is_read(tmp_path: Path) -> None:
    """As the files on the page of CIFAR: texts and the type of the array are bytes."""
    python_2 = (
        b"\x80\x02}q\x00(U\x04dataq\x01cnumpy.core.multiarray\n_reconstruct\nq\x02"
        b"cnumpy\nndarray\nq\x03K\x00\x85U\x01b\x87Rq\x04(K\x01K\x01M\x00\x0c\x86cnumpy\ndtype\n"
        b"q\x05U\x02u1K\x00K\x01\x87Rq\x06(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
        b"\x89T\x00\x0c\x00\x00" + bytes(range(256)) * 12 + b"tbU\x06labels](K\x06eu."
    )
    content = {**cifar_10_python(), "cifar-10-batches-py/test_batch": python_2}
    datasets = open_data("cifar-10", files(tmp_path / "d", **content), tmp_path)
    picture, label = datasets.validation[0]
    assert int(label) == 6
    assert (picture[1].reshape(-1)[:4] * 255).tolist() == pytest.approx([0, 1, 2, 3])


class _Runs:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, ("touch /tmp/ringmaster-test-was-run",)


@pytest.mark.parametrize(
    "pickle_bytes",
    [
        pickle.dumps(_Runs(), protocol=2),
        pickle.dumps({b"data": pixels(1), b"labels": _Runs()}, protocol=2),
        b"cbuiltins\neval\n(S'1'\ntR.",
        b"cos\nsystem\n(S'true'\ntR.",
        b"cnumpy.testing\nextbuild\n.",
        b"c_codecs\nlookup\n(S'utf-8'\ntR.",
        pickle.dumps(numpy.array([_Runs()], object), protocol=2),
    ],
)
def test_a_pickle_that_would_run_code_is_refused(tmp_path: Path, pickle_bytes: bytes) -> None:
    content = {**cifar_10_python(), "cifar-10-batches-py/data_batch_2": pickle_bytes}
    with pytest.raises(UserCodeError, match="data_batch_2 cannot be read: it holds"):
        open_data("cifar-10", files(tmp_path / "d", **content), tmp_path)
    assert not Path("/tmp/ringmaster-test-was-run").exists()


@pytest.mark.parametrize(
    ("entry", "name", "content", "message"),
    [
        ("cifar-10", "data_batch_3", b"", "data_batch_3 cannot be read"),
        ("cifar-10", "data_batch_3", cifar_10_python()["cifar-10-batches-py/data_batch_3"][:-900],
         "data_batch_3 cannot be read"),
        ("cifar-10", "data_batch_3", pickle.dumps([1]), "data_batch_3 is not in CIFAR's form"),
        ("cifar-10", "data_batch_3", python_file(data=pixels(2)), "has no data or no labels"),
        ("cifar-10", "data_batch_3", python_file(data=pixels(2), labels=[1]), "has 1 labels"),
        ("cifar-10", "data_batch_3", python_file(data=pixels(1), labels=[10]), "up to 10, but 10"),
        ("cifar-10", "data_batch_3", None, "no file data_batch_3 or data_batch_3.bin"),
        ("cifar-100", "data_batch_3", None, "no file train or train.bin"),
    ],
)  # fmt: skip
def test_a_damaged_cifar_is_named(
    tmp_path: Path, entry: str, name: str, content: bytes | None, message: str
) -> None:
    all_files = {**cifar_10_python(), f"cifar-10-batches-py/{name}": content}
    remaining_files = {key: data for key, data in all_files.items() if data is not None}
    with pytest.raises(UserCodeError, match=message):
        open_data(entry, files(tmp_path / "d", **remaining_files), tmp_path)


@pytest.mark.parametrize("cut", [50, 100, 3073])
def test_a_truncated_archive_or_binary_file_is_named(tmp_path: Path, cut: int) -> None:
    content = archive(cifar_10_binary())["cifar.tar.gz"]
    with pytest.raises(UserCodeError, match=r"cifar\.tar\.gz is damaged or cut off"):
        open_data("cifar-10", files(tmp_path / "d", **{"cifar.tar.gz": content[:-cut]}), tmp_path)
    binary = cifar_10_binary()
    binary["cifar-10-batches-bin/data_batch_1.bin"] = bytes(3072 + cut * (cut != 3073))[:-1]
    with pytest.raises(UserCodeError, match=r"data_batch_1\.bin is cut off"):
        open_data("cifar-10", files(tmp_path / "e", **binary), tmp_path)


def idx(array: numpy.ndarray) -> bytes:
    kinds = {"u1": 8, "i1": 9, "i2": 11, "i4": 12, "f4": 13, "f8": 14}
    head = bytes([0, 0, kinds[array.dtype.str[1:]], array.ndim])
    head += struct.pack(f">{array.ndim}I", *array.shape)
    return head + array.astype(array.dtype.newbyteorder(">")).tobytes()


def mnist(digits: list[int], **names: str) -> Content:
    data = RANDOM.integers(0, 256, (len(digits), 28, 20), numpy.uint8)
    return {
        names.get("images", "train-images-idx3-ubyte"): idx(data),
        names.get("labels", "train-labels-idx1-ubyte"): idx(numpy.array(digits, numpy.uint8)),
    }


TESTS = {"images": "t10k-images-idx3-ubyte", "labels": "t10k-labels-idx1-ubyte"}


@pytest.mark.parametrize("zipped", [False, True])
@pytest.mark.parametrize("form", ["{}-{}-idx{}-ubyte", "MNIST/raw/{}-{}.idx{}-ubyte"])
def test_idx_files_are_read_gzipped_or_not(tmp_path: Path, form: str, zipped: bool) -> None:
    def file_names(part: str) -> dict[str, str]:
        return {"images": form.format(part, "images", 3), "labels": form.format(part, "labels", 1)}

    content = mnist([1, 0, 2] * 4, **file_names("train")) | mnist([2, 1], **file_names("t10k"))
    if zipped:
        content = {f"{name}.gz": gzip.compress(data, mtime=0) for name, data in content.items()}
    datasets = open_data("idx", files(tmp_path / "d", **content), tmp_path)
    assert (len(datasets.training), len(datasets.validation)) == (12, 2)
    assert datasets.training[0][0].shape == (1, 28, 20)
    assert [int(label) for _, label in datasets.validation] == [2, 1]
    transposed = open_data("idx", tmp_path / "d", tmp_path, exchange=True)
    assert (datasets.training[0][0][0] == transposed.training[0][0][0].T).all()


@pytest.mark.parametrize(
    ("labels", "classes"),
    [([1, 2, 3] * 4, ["1", "2", "3"]), ([0, 9, 9, 0], ["0", "9"]), ([26, 1], ["1", "26"])],
)
def test_labels_of_idx_files_may_begin_at_1_and_have_gaps(
    tmp_path: Path, labels: list[int], classes: list[str]
) -> None:
    content = mnist(labels) | mnist(labels, **TESTS)
    datasets = open_data("idx", files(tmp_path / "d", **content), tmp_path)
    assert datasets.training.classes == classes
    assert [classes[int(label)] for _, label in datasets.training] == [str(n) for n in labels]


def test_without_test_files_a_share_of_each_class_is_for_validation(tmp_path: Path) -> None:
    datasets = open_data("idx", files(tmp_path / "d", **mnist([0, 1] * 10)), tmp_path)
    assert sorted(int(label) for _, label in datasets.validation) == [0, 0, 1, 1]
    assert len(datasets.training) == 16
    same_seed = open_data("idx", tmp_path / "d", tmp_path)
    assert (same_seed.validation[3][0] == datasets.validation[3][0]).all()
    other_seed = open_data("idx", tmp_path / "d", tmp_path, seed=2)
    assert any(
        (other_sample[0] != same_sample[0]).any()
        for other_sample, same_sample in zip(
            other_seed.validation, same_seed.validation, strict=True
        )
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda content: content[:-1], "train-images-idx3-ubyte is cut off"),
        (lambda content: content[:10], "train-images-idx3-ubyte is cut off"),
        (
            lambda content: content[:3],
            "train-images-idx3-ubyte is no IDX file: it begins with 000008",
        ),
        (lambda content: b"", "is no IDX file: it begins with nothing"),
        (lambda content: content + b"1", "train-images-idx3-ubyte is too long"),
        (lambda content: b"\1" + content[1:], "is no IDX file: it begins with 01000803"),
        (
            lambda content: content[:2] + b"\7" + content[3:],
            "is no IDX file: it begins with 00000703",
        ),
        (lambda content: gzip.compress(content, mtime=0)[:-9], "is cut off or damaged"),
        (lambda content: content[:4] + b"\xff" * 12 + content[16:], "is cut off"),
        (
            lambda content: idx(numpy.zeros((2, 5, 5), numpy.uint8)),
            "2 training samples have 3 labels",
        ),
        (lambda content: idx(numpy.zeros(3, numpy.uint8)), "no IDX file with samples"),
    ],
)
def test_a_damaged_idx_file_is_named(
    tmp_path: Path, change: Callable[[bytes], bytes], message: str
) -> None:
    content = mnist([1, 2, 3])
    content["train-images-idx3-ubyte"] = change(content["train-images-idx3-ubyte"])
    with pytest.raises(UserCodeError, match=message):
        open_data("idx", files(tmp_path / "d", **content), tmp_path)


def test_idx_files_without_labels_are_one_sentence(tmp_path: Path) -> None:
    content = mnist([1, 2, 3])
    del content["train-labels-idx1-ubyte"]
    with pytest.raises(UserCodeError, match="training samples have no file of labels"):
        open_data("idx", files(tmp_path / "d", **content), tmp_path)


@given(
    shape=st.lists(st.integers(1, 4), min_size=2, max_size=4),
    kind=st.sampled_from(["u1", "i1", "i2", "i4", "f4", "f8"]),
    seed=st.integers(0, 1000),
    cut=st.integers(0, 12),
)
@settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_any_array_is_read_back_from_idx_and_any_part_of_it_is_refused(
    tmp_path: Path, shape: list[int], kind: str, seed: int, cut: int
) -> None:
    array = numpy.random.default_rng(seed).integers(0, 100, [shape[0] + 1, *shape[1:]])
    content = idx(array.astype(kind))
    content = content[: len(content) - cut]
    labels = idx(numpy.arange(len(array), dtype=numpy.uint8))
    folder = files(tmp_path / "d", **{"a-idx": content, "a-labels-idx1": labels})
    if cut:
        with pytest.raises(UserCodeError, match="a-idx"):
            open_data("idx", folder, tmp_path)
        return
    datasets = open_data("idx", folder, tmp_path)
    sample_by_label = {int(label): sample for data in datasets for sample, label in data}
    scale = 255 if kind == "u1" else 1
    for number, sample in sample_by_label.items():
        assert (sample * scale).reshape(-1).tolist() == pytest.approx(array[number].reshape(-1))
    assert len(sample_by_label) == len(array)


def npz(**arrays: numpy.ndarray) -> Content:
    buffer = io.BytesIO()
    numpy.savez_compressed(buffer, **arrays)
    return {"data.npz": buffer.getvalue()}


def npy(**arrays: numpy.ndarray) -> Content:
    content = {}
    for name, array in arrays.items():
        buffer = io.BytesIO()
        numpy.save(buffer, array)
        content[f"{name}.npy"] = buffer.getvalue()
    return content


PICTURES = RANDOM.integers(0, 256, (10, 8, 8), numpy.uint8)
NUMBERS = RANDOM.normal(size=(10, 5))
LABELS = numpy.arange(10) % 2 + 1


@pytest.mark.parametrize("write", [npz, npy])
@pytest.mark.parametrize(
    ("samples", "targets", "shape"),
    [
        ("x", "y", (5,)),
        ("X", "Y", (5,)),
        ("data", "target", (5,)),
        ("features", "labels", (5,)),
        ("x_train", "y_train", (5,)),
        ("train_images", "train_labels", (1, 8, 8)),
        ("images", "labels", (1, 8, 8)),
    ],
)
def test_arrays_are_found_by_their_names(
    tmp_path: Path,
    write: Callable[..., Content],
    samples: str,
    targets: str,
    shape: tuple[int, ...],
) -> None:
    data = PICTURES if "images" in samples else NUMBERS
    content = write(**{samples: data, targets: LABELS})
    datasets = open_data("arrays", files(tmp_path / "d", **content), tmp_path)
    assert (len(datasets.training), len(datasets.validation)) == (8, 2)
    assert datasets.training[0][0].shape == shape
    assert datasets.training.classes == ["1", "2"], "labels from 1"


def test_arrays_of_keras_are_training_and_validation(tmp_path: Path) -> None:
    content = npz(x_train=PICTURES, y_train=LABELS, x_test=PICTURES[:3], y_test=LABELS[:3])
    datasets = open_data("arrays", files(tmp_path / "d", **content), tmp_path)
    assert (len(datasets.training), len(datasets.validation)) == (10, 3)
    content = npy(**{"x-train": PICTURES, "y-train": LABELS, "x-test": PICTURES[:3]})
    datasets = open_data("arrays", files(tmp_path / "e", **content), tmp_path)
    assert (len(datasets.training), len(datasets.validation)) == (8, 2)


@pytest.mark.parametrize(
    ("targets", "classes"),
    [
        (numpy.array(["b", "a"] * 5), ["a", "b"]),
        (numpy.array([b"b", b"a"] * 5), ["a", "b"]),
        (numpy.eye(2)[[0, 1] * 5], ["0", "1"]),
        (LABELS[:, None], ["1", "2"]),
        (numpy.array([True, False] * 5), ["False", "True"]),
        (NUMBERS, None),
        (NUMBERS[:, 0], None),
    ],
)
def test_targets_are_classes_or_numbers(
    tmp_path: Path, targets: numpy.ndarray, classes: list[str] | None
) -> None:
    datasets = open_data("arrays", files(tmp_path / "d", **npz(x=NUMBERS, y=targets)), tmp_path)
    assert getattr(datasets.training, "classes", None) == classes
    if classes is None:
        assert datasets.training[0][1].shape == (targets.size // 10,)


@pytest.mark.parametrize(
    ("data", "shape"),
    [
        (numpy.zeros((10, 8, 6, 3), numpy.uint8), (3, 8, 6)),
        (numpy.zeros((10, 3, 8, 6), numpy.uint8), (3, 8, 6)),
        (numpy.zeros((10, 8, 6, 1)), (1, 8, 6)),
        (numpy.zeros((10, 8, 6)), (8, 6)),
        (numpy.zeros((10, 8, 6), numpy.uint8), (1, 8, 6)),
        (numpy.zeros((10, 8, 8)), (1, 8, 8)),
        (numpy.zeros(10), ()),
    ],
)
def test_the_channels_of_pictures_come_first(
    tmp_path: Path, data: numpy.ndarray, shape: tuple[int, ...]
) -> None:
    content = npz(x=data, y=LABELS)
    datasets = open_data("arrays", files(tmp_path / "d", **content), tmp_path)
    assert datasets.training[0][0].shape == shape


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (npz(x=NUMBERS), "no arrays named x and y, or data and target: it has data.npz/x"),
        (npz(a=NUMBERS, b=LABELS), "it has data.npz/a, data.npz/b"),
        (npz(x=NUMBERS, y=LABELS[:9]), "there are 10 samples and 9 targets"),
        (npz(x=numpy.array([{}], object), y=LABELS), "data.npz cannot be read: Object arrays"),
        (npz(x=NUMBERS, data=NUMBERS, y=LABELS), "there are two arrays of samples"),
        ({"data.npz": npz(x=NUMBERS)["data.npz"][:-30]}, "data.npz cannot be read"),
        ({"x.npy": b"\x93NUMPY"}, "x.npy cannot be read"),
        ({"x.npy": b""}, "x.npy cannot be read"),
        ({"a.csv": b"1,2"}, "it has no .npz or .npy file"),
    ],
)
def test_arrays_that_cannot_be_used_are_one_sentence(
    tmp_path: Path, content: Content, message: str
) -> None:
    with pytest.raises(UserCodeError, match=message):
        open_data("arrays", files(tmp_path / "d", **content), tmp_path)


def test_a_picture_is_tried_by_each_loader_of_pictures(tmp_path: Path) -> None:
    path = tmp_path / "photo.png"
    Image.new("RGB", (50, 40), "white").save(path)
    folders = {
        "cifar-10": (cifar_10_python(), (3, 32, 32)),
        "cifar-100": (cifar_100_python(), (3, 32, 32)),
        "idx": (mnist([1, 2, 3] * 4), (1, 28, 20)),
        "arrays": (npz(x=PICTURES, y=LABELS), (1, 8, 8)),
    }
    for name, (content, shape) in folders.items():
        datasets = open_data(name, files(tmp_path / name, **content), tmp_path)
        assert datasets.validation.read(str(path)).shape == shape


def test_each_sample_of_an_array_in_a_file_is_tried(tmp_path: Path) -> None:
    content = npz(x=NUMBERS, y=LABELS) | npy(three=NUMBERS[:3], single=NUMBERS[1])
    dataset = open_data("arrays", files(tmp_path / "d", **content), tmp_path).training
    counts = [len(dataset.read_all(str(tmp_path / f"d/{n}.npy"))) for n in ("three", "single")]
    assert counts == [3, 1]


@pytest.mark.parametrize("augment", ["crop", "flip and crop"])
def test_only_training_pictures_are_changed(tmp_path: Path, augment: str) -> None:
    content = npz(x_train=PICTURES, y_train=LABELS, x_test=PICTURES, y_test=LABELS)
    datasets = open_data("arrays", files(tmp_path / "d", **content), tmp_path, augment=augment)
    validation_pictures = [datasets.validation[0][0] for _ in range(20)]
    training_pictures = [datasets.training[0][0] for _ in range(20)]
    assert all((picture == validation_pictures[0]).all() for picture in validation_pictures)
    assert any((picture != validation_pictures[0]).any() for picture in training_pictures)
    assert {tuple(picture.shape) for picture in training_pictures} == {(1, 8, 8)}


@pytest.mark.parametrize("dtype", [numpy.int64, numpy.float64, numpy.float16])
@pytest.mark.parametrize("shape", [(-1,), (-1, 1)])
@pytest.mark.parametrize(
    ("targets", "names"),
    [
        ([3, 70, 12, 5, 9, 41, 8, 2, 30, 17], []),  # counts
        (list(range(1900, 1910)), []),  # years
        ([0, 1, 2, 0, 1, 2, 0, 1, 2, 0], ["0", "1", "2"]),
        ([5, 9, 5, 9, 5, 9, 5, 9, 5, 9], ["5", "9"]),
        ([1, 2, 3] * 4, ["1", "2", "3"]),
        ([-1, 1] * 5, ["-1", "1"]),
        ([10, 100] * 5, ["10", "100"]),
        ([n % 100 for n in range(200)], [str(n) for n in range(100)]),
        ([n * 3 % 97 * 2 for n in range(200)], []),  # 97 even numbers
    ],
)
def test_whole_numbers_are_classes_if_they_repeat(
    tmp_path: Path, targets: list[int], names: list[str], shape: tuple[int, ...], dtype: type
) -> None:
    content = npz(x=numpy.zeros((len(targets), 4)), y=numpy.array(targets, dtype).reshape(shape))
    datasets = open_data("arrays", files(tmp_path / "d", **content), tmp_path)
    assert getattr(datasets.training, "classes", []) == names
    reasons = [note["reason"] for note in datasets.training.reading_notes]
    assert ("Whole numbers are read as numbers, because few repeat" in reasons) is (not names)
    is_noted = "Decimals that are whole and repeat are read as classes" in reasons
    assert is_noted is (bool(names) and dtype is not numpy.int64)
    numbers = open_data("arrays", tmp_path / "d", tmp_path, task="numbers")
    assert numbers.training[0][1].shape == (1,)


@pytest.mark.parametrize(
    ("targets", "count"),
    [
        (numpy.array([0.5, 1] * 5), 0),
        (numpy.array([1, numpy.nan] * 5), 0),
        (numpy.array([1, numpy.inf] * 5), 0),
        (numpy.array([[1.0, 2.0]] * 10), 0),
        (numpy.array([f"t{n % 60}" for n in range(180)]), 60),
    ],
)
def test_only_whole_numbers_and_texts_are_classes(
    tmp_path: Path, targets: numpy.ndarray, count: int
) -> None:
    content = npz(x=numpy.zeros((len(targets), 4)), y=targets)
    datasets = open_data("arrays", files(tmp_path / "d", **content), tmp_path)
    assert len(getattr(datasets.training, "classes", [])) == count
