"""A scan of a dataset: what it finds among all samples, and what it must not report."""

from __future__ import annotations

import contextlib
import io
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy
import numpy.typing
import pytest
from PIL import Image, ImageDraw, ImageEnhance, ImageOps

from backend.records.library.scan import DatasetScan
from backend.training.tools import fingerprints
from backend.training.tools import protocol as tool_protocol
from backend.training.tools import scan as scan_module
from backend.training.tools.scan import scan

Bands = numpy.typing.NDArray[numpy.uint32]
Array = numpy.typing.NDArray[Any]

GALLERY = Path(__file__).parents[4] / "resources/gallery/digits"

LOADER = """
import time, numpy, torch

def picture(seed, side=32):
    coarse = numpy.random.default_rng(seed).random((6, 6))
    return numpy.kron(coarse, numpy.ones((side // 4, side // 4)))[:side, :side][None]

class UserDataset(torch.utils.data.Dataset):
    def __init__(self, folder): self.folder = folder
    def __len__(self): return {length}
    def __getitem__(self, index):
        {item}
"""
VALIDATION = """
class UserValDataset(UserDataset):
    def __len__(self): return {length}
    def __getitem__(self, index):
        {item}
"""


class Scans:
    def __init__(self, folder: Path, report: tool_protocol.Report) -> None:
        self.folder = folder
        self.report = report

    def read(
        self, item: str, validation: str = "", length: int = 20, **request: object
    ) -> DatasetScan:
        """The scan of a loader with these bodies of ``__getitem__``."""
        source = LOADER.format(item=item, length=length)
        if validation:
            source += VALIDATION.format(item=validation, length=length)
        (self.folder / "bks_dataset.py").write_text(source)
        return self.read_folder(self.folder, self.folder, **request)

    def read_folder(self, loader: Path, dataset: Path, **request: object) -> DatasetScan:
        full_request = {"loader": str(loader), "dataset": str(dataset), **request}
        raw = scan(full_request, self.report)
        result = DatasetScan.from_dict(raw)
        assert result.to_dict() == raw
        return result


@pytest.fixture
def scans(tmp_path: Path) -> Iterator[Scans]:
    with contextlib.closing(tool_protocol.Report(tmp_path / "progress")) as report:
        yield Scans(tmp_path, report)


def messages(result: DatasetScan) -> list[str]:
    return [finding.message for finding in result.findings()]


def test_s08_the_digits_are_read_whole_and_have_no_findings(scans: Scans) -> None:
    result = scans.read_folder(GALLERY / "loader", GALLERY / "dataset")
    assert (result.samples, result.examined_count) == (1438, 1438)
    assert result.validation is not None
    assert result.validation.samples == 359
    assert sum(result.classes.values()) == 1438
    assert result.findings() == ()
    # Of 8 × 8 pixels a perceptual hash would find likeness everywhere.
    assert not result.compares_pictures


def test_s08_equal_samples_of_a_split_are_duplicates(scans: Scans) -> None:
    result = scans.read("return torch.full((3,), float(index % 18)), index % 2")
    assert result.duplicates == ((0, 18), (1, 19))
    assert result.duplicate_count == 2
    (finding,) = result.findings()
    assert finding.message == "2 training samples are equal to earlier ones."
    assert finding.groups[0] == (("training", 0), ("training", 18))


def test_targets_do_not_make_samples_different(scans: Scans) -> None:
    result = scans.read("return torch.full((3,), float(index % 19)), index % 2")
    assert result.duplicates == ((0, 19),)


def test_a_set_of_equal_samples_has_one_pair_for_each(scans: Scans) -> None:
    result = scans.read("return torch.zeros(1, 32, 32), index % 2", length=1500)
    assert result.duplicate_count == 1499
    assert len(result.duplicates) == 1000
    assert result.near_duplicate_count == 0


def test_s08_samples_of_both_splits_leak(scans: Scans) -> None:
    result = scans.read(
        "return f'text {index}', index % 2",
        "return f'text {index + 18}', index % 2",
    )
    assert (result.leaks, result.leak_count) == (((18, 0), (19, 1)), 2)
    assert messages(result) == [
        "2 validation samples are in the training set, too, so the validation metrics are too good."
    ]
    assert result.findings()[0].groups[0] == (("training", 18), ("validation", 0))


def test_samples_without_known_content_are_not_compared(scans: Scans) -> None:
    """The text of an object contains its address, which a later object may have, too."""
    result = scans.read("return object(), index % 2", "return object(), index % 2")
    assert (result.duplicate_count, result.leak_count) == (0, 0)
    warning = "20 of 20 samples are not compared with others, because the content of a part is not "
    assert result.warnings[0] == f"{warning}known: data is an object."


LONG = {
    "columns": "{f'c{n}': float(n == 39) * index for n in range(40)}",
    "numbers": "[0.0] * 39 + [float(index)]",
    "whole numbers": "[0] * 5000 + [index]",
    "rows": "[[0.0, float(n == 39) * index] for n in range(40)]",
    "tensors": "tuple(torch.full((2, 2), float(n == 39) * index) for n in range(40))",
    "words": "['a'] * 39 + [str(index)]",
    "deep": "{'a': {'b': [{'c': (0.0, {'d': [0] * 33 + [index]})}]}}",
    "last pixel": "numpy.pad(numpy.full((1, 1), float(index)), ((63, 0), (63, 0)))",
    "second picture": "[torch.zeros(1, 32, 32), torch.full((1, 32, 32), float(index))]",
    "empty parts": "[[], {}, (), None, index]",
    "words in an array": "numpy.array(['a'] * 39 + [str(index)])",
    "dates": "numpy.datetime64('2026-01-01') + index",
}


@pytest.mark.parametrize("data", LONG.values(), ids=LONG)
def test_samples_are_equal_if_all_of_their_inputs_are(scans: Scans, data: str) -> None:
    def item_code(number: str) -> str:
        return f"index = {number}; return {data}, 0"

    result = scans.read(item_code("index % 19 + 1"), item_code("index + 19"))
    assert (result.duplicates, result.leaks) == (((0, 19),), ((18, 0),))
    assert result.near_duplicate_count == 0
    assert not any("compared" in warning for warning in result.warnings)


@pytest.mark.parametrize(("second", "pair_count"), [("index % 19", 1), ("100 + index", 0)])
def test_samples_of_several_pictures_are_alike_if_all_pictures_are(
    scans: Scans, second: str, pair_count: int
) -> None:
    noisy_code = "(picture({}) * 0.9 + 0.001 * torch.rand(1, 32, 32).numpy())"
    result = scans.read(
        f"return [{noisy_code.format('index % 19')}, {noisy_code.format(second)}], 0"
    )
    assert result.near_duplicate_count == pair_count


@pytest.mark.parametrize("value", ["nan", "inf"])
@pytest.mark.parametrize(
    "data",
    [
        "{f'c{n}': bad if n == 39 else 0.0 for n in range(40)}, 0",
        "[0.0] * 39 + [bad], 0",
        "[torch.zeros(2)] * 99 + [torch.full((2,), bad)], 0",
        "torch.zeros(2), {f'c{n}': bad if n == 39 else 0.0 for n in range(40)}",
        "torch.zeros(2), torch.full((1, 20, 20), bad)",
        "{f'c{n}': bad if n == 999 else 0.0 for n in range(1000)}, 0",
    ],
)
def test_an_infinite_value_is_found_in_every_part(scans: Scans, data: str, value: str) -> None:
    result = scans.read(f"bad = float('{value}') if index == 7 else 0.0; return {data}")
    assert (result.not_finite, result.not_finite_samples) == (1, (7,))


def test_s08_similar_pictures_are_found_within_and_between_the_sets(scans: Scans) -> None:
    noisy_code = "return (picture({}) * 0.9 + 0.001 * torch.rand(1, 32, 32).numpy()), index % 2"
    result = scans.read(noisy_code.format("index % 19"), noisy_code.format("18 + index"), length=20)
    assert result.compares_pictures
    assert result.near_duplicates == ((0, 19),)
    assert result.near_leaks == ((18, 0),)
    assert result.validation is not None
    assert (result.duplicate_count, result.leak_count) == (0, 0)
    assert result.validation.near_duplicate_count == 0
    assert messages(result) == [
        "1 validation sample is almost equal to training samples.",
        "1 training sample is almost equal to earlier ones.",
    ]


def test_the_same_picture_in_another_size_and_order_of_channels_is_alike() -> None:
    picture = numpy.random.default_rng(3).random((6, 6))
    small_picture, large_picture = (numpy.kron(picture, numpy.ones((n, n))) for n in (6, 18))
    wide = numpy.repeat(large_picture[:, :, None], 3, axis=2)
    first = fingerprints.perceptual_hash([("data", small_picture)])
    assert first == fingerprints.perceptual_hash([("data", wide)])
    assert first == fingerprints.perceptual_hash([("data", wide.transpose(2, 0, 1))])
    assert any(first)


def test_pictures_that_differ_along_one_side_are_not_alike() -> None:
    steps = numpy.kron(numpy.arange(9.0) % 2, numpy.ones((27, 3)))
    horizontal_hash, vertical_hash = (
        fingerprints.perceptual_hash([("data", image)]) for image in (steps, steps.T)
    )
    assert any(horizontal_hash)
    assert any(vertical_hash)
    assert horizontal_hash != vertical_hash


def drawing(outline: str, radius: int = 40, side: int = 128, ground: int = 20) -> Image.Image:
    """A bright figure in the middle of an empty ground."""
    image = Image.new("L", (4 * side, 4 * side), ground)
    draw, middle, reach = ImageDraw.Draw(image), 2 * side, 4 * radius
    box = (middle - reach, middle - reach, middle + reach, middle + reach)
    if outline == "circle":
        draw.ellipse(box, fill=230)
    elif outline == "ring":
        draw.ellipse(box, outline=230, width=reach // 3)
    elif outline == "square":
        draw.rectangle(box, fill=230)
    elif outline == "cross":
        draw.line((box[0], middle, box[2], middle), fill=230, width=reach // 2)
        draw.line((middle, box[1], middle, box[3]), fill=230, width=reach // 2)
    else:
        draw.polygon([(middle, box[1]), (box[0], box[3]), (box[2], box[3])], fill=230)
    return image.resize((side, side), Image.Resampling.LANCZOS)


def texture(seed: int, side: int = 160) -> Image.Image:
    """Spots of three sizes, the smallest in colour."""
    random = numpy.random.default_rng(seed)
    layers = []
    for count, channels in ((4, 1), (12, 1), (30, 3)):
        spots = random.random((count, count, channels)) * (255, 255, 255)
        spotted = Image.fromarray(spots.astype("u1"))
        layers.append(numpy.asarray(spotted.resize((side, side), Image.Resampling.BICUBIC), float))
    return Image.fromarray((0.6 * layers[0] + 0.3 * layers[1] + 0.1 * layers[2]).astype("u1"))


def as_jpeg(image: Image.Image) -> Image.Image:
    content = io.BytesIO()
    image.save(content, "JPEG", quality=60)
    return Image.open(content)


def with_noise(image: Image.Image) -> Image.Image:
    noise = numpy.random.default_rng(5).normal(0, 5, numpy.asarray(image).shape)
    return Image.fromarray(numpy.clip(numpy.asarray(image, float) + noise, 0, 255).astype("u1"))


def cropped(image: Image.Image) -> Image.Image:
    """Without one pixel at each side, in the old size."""
    box = (1, 1, image.width - 1, image.height - 1)
    return image.resize(image.size, Image.Resampling.BICUBIC, box)


CHANGES: dict[str, Callable[[Image.Image], Image.Image]] = {
    "jpeg": as_jpeg,
    "half the size": lambda image: image.reduce(2),
    "larger": lambda image: image.resize((300, 300), Image.Resampling.BICUBIC),
    "brighter": lambda image: ImageEnhance.Brightness(image).enhance(1.1),
    "less contrast": lambda image: ImageEnhance.Contrast(image).enhance(0.8),
    "noise": with_noise,
    "cropped": cropped,
    "grey": lambda image: image.convert("L"),
}
ORIGINALS = {"circle": drawing("circle"), "ring": drawing("ring"), "texture": texture(1)}
OTHERS = {
    "circle and square": (drawing("circle", 38), drawing("square", 36)),
    "small circle and small square": (drawing("circle", 14), drawing("square", 13)),
    "circle and ring": (drawing("circle"), drawing("ring")),
    "square and triangle": (drawing("square"), drawing("triangle")),
    "circle and cross": (drawing("circle"), drawing("cross")),
    "square and larger square": (drawing("square", 30), drawing("square", 36)),
    "circle and its negative": (drawing("circle"), ImageOps.invert(drawing("circle"))),
    "texture and its mirror image": (texture(1), ImageOps.mirror(texture(1))),
    "texture and another": (texture(1), texture(2)),
}
PAIRS = {
    **{
        f"{name}, {change_name}": (original, change(original), True)
        for name, original in ORIGINALS.items()
        for change_name, change in CHANGES.items()
    },
    **{name: (first, second, False) for name, (first, second) in OTHERS.items()},
}


def find_pairs(*images: Image.Image, hashes_are_equal: bool = False) -> tuple[tuple[int, ...], ...]:
    """Return the pairs of similar pictures, by a scan's two comparisons."""
    samples = [[("data", numpy.asarray(image))] for image in images]
    hashes = [fingerprints.perceptual_hash(sample) for sample in samples]
    hashes = hashes[:1] * len(hashes) if hashes_are_equal else hashes
    bands = numpy.frombuffer(b"".join(hashes), numpy.uint32).reshape(-1, 4)
    with tempfile.TemporaryFile() as file:
        thumbnails = fingerprints.Thumbnails(file)
        for sample in samples:
            thumbnails.add(fingerprints.thumbnail(sample))
        within_pairs, _, _ = fingerprints.similar_pairs(bands, bands[:0], thumbnails.are_alike)
    return within_pairs.index_pairs(99)


@pytest.mark.parametrize(("first", "second", "is_copy"), PAIRS.values(), ids=PAIRS)
def test_a_changed_copy_is_alike_and_another_picture_is_not(
    first: Image.Image, second: Image.Image, is_copy: bool
) -> None:
    assert find_pairs(first, second) == (((0, 1),) if is_copy else ())


@pytest.mark.parametrize(("first", "second"), OTHERS.values(), ids=OTHERS)
def test_an_equal_hash_alone_makes_no_pair(first: Image.Image, second: Image.Image) -> None:
    """Also where several pictures share the hash: each is paired with its own original."""
    images = (first, second, with_noise(second), with_noise(first))
    assert find_pairs(*images, hashes_are_equal=True) == ((1, 2), (0, 3))


def test_s08_equal_pictures_are_duplicates_and_not_near_duplicates_too(scans: Scans) -> None:
    item = "return picture(index % 19), index % 2"
    result = scans.read(item, item)
    assert result.duplicates == ((0, 19),)
    assert result.leak_count == 20
    assert (result.near_duplicate_count, result.near_leak_count) == (0, 0)


@pytest.mark.parametrize("value", [0.0, 7.0, numpy.nan, numpy.inf])
def test_a_picture_of_one_shade_is_like_no_other(value: float) -> None:
    assert not any(fingerprints.perceptual_hash([("data", numpy.full((1, 20, 20), value))]))


def are_always_alike(first: Array, _second: Array) -> Array:
    return numpy.ones(len(first), bool)


def test_similar_pictures_are_those_that_comparing_all_pairs_finds() -> None:
    random = numpy.random.default_rng(1)
    bands = random.integers(1, 1 << 32, (300, 4), dtype=numpy.uint32)
    for number in range(200, 300):
        bands[number] = bands[number - 200]
        for bit in random.integers(0, 32, number % 5):
            bands[number, bit % 4] ^= numpy.uint32(1 << bit)
    # Of some, all share one band, and the others differ.
    bands[:, 0] = 7
    bands[100:200:2, 1:] = bands[:50, 1:] ^ numpy.uint32(1)
    training, validation = bands[:250], bands[250:]

    def find_earliest(bands: Bands, candidates: Bands) -> int:
        for number, candidate in enumerate(candidates):
            if sum(int(band).bit_count() for band in candidate ^ bands) <= 8:
                return number
        return -1

    expected_within = [
        (find_earliest(picture_bands, training[:n]), n) for n, picture_bands in enumerate(training)
    ]
    expected_between = [
        (find_earliest(picture_bands, training), n) for n, picture_bands in enumerate(validation)
    ]
    within_pairs, _, between_pairs = fingerprints.similar_pairs(
        training, validation, are_always_alike
    )
    assert within_pairs.index_pairs(999) == tuple(pair for pair in expected_within if pair[0] >= 0)
    assert between_pairs.index_pairs(999) == tuple(
        pair for pair in expected_between if pair[0] >= 0
    )
    assert within_pairs.count > 10
    assert between_pairs.count > 10


def test_pictures_with_an_equal_border_are_not_alike() -> None:
    """Comparing all of them would be 200 million pairs."""
    random = numpy.random.default_rng(1)
    bands = random.integers(0, 1 << 32, (20_000, 4), dtype=numpy.uint32)
    bands[:, 0] = 0
    within_pairs, _, _ = fingerprints.similar_pairs(bands, bands[:0], are_always_alike)
    assert within_pairs.count == 0


def test_s08_broken_samples_are_listed_with_their_errors(scans: Scans) -> None:
    result = scans.read(
        "return torch.arange(4.)[index % 10 + index % 10 :][0] + index, 1 / (index - 7)"
    )
    assert [s.index for s in result.broken_samples] == [*range(2, 10), *range(12, 20)]
    assert result.broken_count == 16
    assert "item 2" in result.broken_samples[0].message
    first = messages(result)[0]
    assert first.startswith("16 training samples were not read: UserDataset, item 2,")


def test_a_sample_that_hangs_is_named_and_the_scan_continues(scans: Scans) -> None:
    # Its time is over at once, and the others have all of theirs.
    result = scans.read(
        "import signal\n"
        "        signal.raise_signal(signal.SIGALRM) if index == 3 else None\n"
        "        return torch.rand(2), index % 2",
        sample_s=10,
    )
    assert (result.examined_count, result.broken_count) == (20, 1)
    assert result.broken_samples[0].index == 3
    assert result.broken_samples[0].message == "Item 3 of UserDataset was not read within 10 s."


def test_too_many_hanging_samples_end_the_reading_of_a_split(
    scans: Scans, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scan_module, "_HANGING_LIMIT", 2)
    result = scans.read("time.sleep(60)", sample_s=1.1)
    assert (result.examined_count, result.broken_count) == (2, 2)
    assert messages(result)[-1] == "Read 2 of 20 samples because 2 samples hang."


def test_a_scan_reports_samples_that_it_had_no_time_to_read(scans: Scans) -> None:
    result = scans.read("return torch.rand(2), index % 2", budget_s=0)
    assert messages(result) == ["Read 0 of 20 samples in the available time."]


def test_s08_infinite_samples_are_counted_and_named(scans: Scans) -> None:
    result = scans.read(
        "return torch.tensor([float('nan') if index in (4, 9) else 0., index]), index % 2"
    )
    assert (result.not_finite, result.not_finite_samples) == (2, (4, 9))
    (finding,) = result.findings()
    assert finding.message == (
        "2 training samples have NaN or infinite values, so the loss will be NaN too."
    )
    assert finding.groups == ((("training", 4),), (("training", 9),))


def test_s08_a_set_of_one_class_is_flagged(scans: Scans) -> None:
    result = scans.read("return torch.rand(4), 7", "return torch.rand(4), 7")
    one_class = "All 20 samples read are of one class (7); a model cannot learn from that."
    assert messages(result) == [one_class, f"Validation: {one_class}"]


@pytest.mark.parametrize(
    ("validation", "message"),
    [
        (
            "return torch.rand(2) + 0.5, index % 2",
            "Values of validation differ from training: data[0] has a mean of",
        ),
        (
            "return torch.rand(2) * 4 - 1.5, index % 2",
            "Values of validation differ from training: data[0] has a mean of",
        ),
        (
            "return torch.rand(2), int(index % 10 == 0)",
            "The classes have other shares in validation than in training (40",
        ),
    ],
    ids=["mean", "deviation", "classes"],
)
def test_s08_a_shifted_validation_set_is_flagged(
    scans: Scans, validation: str, message: str
) -> None:
    result = scans.read("return torch.rand(2), index % 2", validation, length=200)
    assert len(result.shifts) == 1
    assert result.shifts[0].startswith(message)


def test_small_sets_of_the_same_distribution_are_not_shifted(scans: Scans) -> None:
    item = "return torch.randn(64), int(torch.randint(10, ()))"
    result = scans.read(item, item, length=20)
    assert result.shifts == ()


def test_a_validation_set_that_cannot_be_opened_costs_only_its_own_results(scans: Scans) -> None:
    result = scans.read("return torch.rand(2), index % 2", "return 0", length=20)
    (scans.folder / "bks_dataset.py").write_text(
        (scans.folder / "bks_dataset.py")
        .read_text()
        .replace("(UserDataset):", "(UserDataset):\n    def __init__(self, folder): 1 / 0")
    )
    result = scans.read_folder(scans.folder, scans.folder)
    assert (result.samples, result.validation) == (20, None)
    assert messages(result)[0].startswith("The validation set was not read: UserValDataset()")
