"""A scan of a dataset: what it finds among all samples, and what it must not report."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import numpy
import numpy.typing
import pytest

from backend.records.library.scan import DatasetScan
from backend.training.tools import fingerprints
from backend.training.tools import protocol as tool_protocol
from backend.training.tools import scan as scan_module
from backend.training.tools.scan import scan

Bands = numpy.typing.NDArray[numpy.uint32]

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

    def of(
        self, item: str, validation: str = "", length: int = 20, **request: object
    ) -> DatasetScan:
        """The scan of a loader with these bodies of ``__getitem__``."""
        source = LOADER.format(item=item, length=length)
        if validation:
            source += VALIDATION.format(item=validation, length=length)
        (self.folder / "bks_dataset.py").write_text(source)
        return self.at(self.folder, self.folder, **request)

    def at(self, loader: Path, dataset: Path, **request: object) -> DatasetScan:
        asked = {"loader": str(loader), "dataset": str(dataset), **request}
        raw = scan(asked, self.report)
        found = DatasetScan.from_dict(raw)
        assert found.to_dict() == raw
        return found


@pytest.fixture
def scans(tmp_path: Path) -> Iterator[Scans]:
    with contextlib.closing(tool_protocol.Report(tmp_path / "progress")) as report:
        yield Scans(tmp_path, report)


def sentences(found: DatasetScan) -> list[str]:
    return [finding.message for finding in found.findings()]


def test_s08_the_digits_are_read_whole_and_have_no_findings(scans: Scans) -> None:
    found = scans.at(GALLERY / "loader", GALLERY / "dataset")
    assert (found.samples, found.examined) == (1438, 1438)
    assert found.validation is not None
    assert found.validation.samples == 359
    assert sum(found.classes.values()) == 1438
    assert found.findings() == ()
    # Of 8 × 8 pixels a perceptual hash would find likeness everywhere.
    assert not found.compares_pictures


def test_s08_equal_samples_of_a_split_are_duplicates(scans: Scans) -> None:
    found = scans.of("return torch.full((3,), float(index % 18)), index % 2")
    assert found.duplicates == ((0, 18), (1, 19))
    assert found.duplicate_count == 2
    (finding,) = found.findings()
    assert finding.message == "2 training samples are equal to earlier ones."
    assert finding.groups[0] == (("training", 0), ("training", 18))


def test_targets_do_not_make_samples_different(scans: Scans) -> None:
    found = scans.of("return torch.full((3,), float(index % 19)), index % 2")
    assert found.duplicates == ((0, 19),)


def test_a_set_of_equal_samples_has_one_pair_for_each(scans: Scans) -> None:
    found = scans.of("return torch.zeros(1, 32, 32), index % 2", length=1500)
    assert found.duplicate_count == 1499
    assert len(found.duplicates) == 1000
    assert found.near_duplicate_count == 0


def test_s08_samples_of_both_splits_leak(scans: Scans) -> None:
    found = scans.of(
        "return f'text {index}', index % 2",
        "return f'text {index + 18}', index % 2",
    )
    assert (found.leaks, found.leak_count) == (((18, 0), (19, 1)), 2)
    assert sentences(found) == [
        "2 validation samples are in the training set, too, so the validation metrics are too good."
    ]
    assert found.findings()[0].groups[0] == (("training", 18), ("validation", 0))


def test_samples_without_known_content_are_not_compared(scans: Scans) -> None:
    """The text of an object contains its address, which a later object may have, too."""
    found = scans.of("return object(), index % 2", "return object(), index % 2")
    assert (found.duplicate_count, found.leak_count) == (0, 0)
    said = "20 of 20 samples are not compared with others, because the content of a part is not "
    assert found.warnings[0] == f"{said}known: data is an object."


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
    def of(number: str) -> str:
        return f"index = {number}; return {data}, 0"

    found = scans.of(of("index % 19 + 1"), of("index + 19"))
    assert (found.duplicates, found.leaks) == (((0, 19),), ((18, 0),))
    assert found.near_duplicate_count == 0
    assert not any("compared" in one for one in found.warnings)


@pytest.mark.parametrize(("second", "alike"), [("index % 19", 1), ("100 + index", 0)])
def test_samples_of_several_pictures_are_alike_if_all_pictures_are(
    scans: Scans, second: str, alike: int
) -> None:
    noisy = "(picture({}) * 0.9 + 0.001 * torch.rand(1, 32, 32).numpy())"
    found = scans.of(f"return [{noisy.format('index % 19')}, {noisy.format(second)}], 0")
    assert found.near_duplicate_count == alike


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
    found = scans.of(f"bad = float('{value}') if index == 7 else 0.0; return {data}")
    assert (found.not_finite, found.not_finite_samples) == (1, (7,))


def test_s08_similar_pictures_are_found_within_and_between_the_sets(scans: Scans) -> None:
    noisy = "return (picture({}) * 0.9 + 0.001 * torch.rand(1, 32, 32).numpy()), index % 2"
    found = scans.of(noisy.format("index % 19"), noisy.format("18 + index"), length=20)
    assert found.compares_pictures
    assert found.near_duplicates == ((0, 19),)
    assert found.near_leaks == ((18, 0),)
    assert found.validation is not None
    assert (found.duplicate_count, found.leak_count) == (0, 0)
    assert found.validation.near_duplicate_count == 0
    assert sentences(found) == [
        "1 validation sample is almost equal to training samples.",
        "1 training sample is almost equal to earlier ones.",
    ]


def test_the_same_picture_in_another_size_and_order_of_channels_is_alike() -> None:
    picture = numpy.random.default_rng(3).random((6, 6))
    small, large = (numpy.kron(picture, numpy.ones((n, n))) for n in (6, 18))
    wide = numpy.repeat(large[:, :, None], 3, axis=2)
    first = fingerprints.perceptual_hash([("data", small)])
    assert first == fingerprints.perceptual_hash([("data", wide)])
    assert first == fingerprints.perceptual_hash([("data", wide.transpose(2, 0, 1))])
    assert any(first)


def test_pictures_that_differ_along_one_side_are_not_alike() -> None:
    steps = numpy.kron(numpy.arange(9.0) % 2, numpy.ones((27, 3)))
    along, down = (fingerprints.perceptual_hash([("data", one)]) for one in (steps, steps.T))
    assert any(along)
    assert any(down)
    assert along != down


def test_s08_equal_pictures_are_duplicates_and_not_near_duplicates_too(scans: Scans) -> None:
    item = "return picture(index % 19), index % 2"
    found = scans.of(item, item)
    assert found.duplicates == ((0, 19),)
    assert found.leak_count == 20
    assert (found.near_duplicate_count, found.near_leak_count) == (0, 0)


@pytest.mark.parametrize("value", [0.0, 7.0, numpy.nan, numpy.inf])
def test_a_picture_of_one_shade_is_like_no_other(value: float) -> None:
    assert not any(fingerprints.perceptual_hash([("data", numpy.full((1, 20, 20), value))]))


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

    def earliest(late: Bands, among: Bands) -> int:
        for number, one in enumerate(among):
            if sum(int(band).bit_count() for band in one ^ late) <= 3:
                return number
        return -1

    wanted = [(earliest(one, training[:n]), n) for n, one in enumerate(training)]
    between = [(earliest(one, training), n) for n, one in enumerate(validation)]
    within, _, found = fingerprints.similar_pairs(training, validation)
    assert within.index_pairs(999) == tuple(pair for pair in wanted if pair[0] >= 0)
    assert found.index_pairs(999) == tuple(pair for pair in between if pair[0] >= 0)
    assert within.count > 10
    assert found.count > 10


def test_pictures_with_an_equal_border_are_not_alike() -> None:
    """Comparing all of them would be 200 million pairs."""
    random = numpy.random.default_rng(1)
    bands = random.integers(0, 1 << 32, (20_000, 4), dtype=numpy.uint32)
    bands[:, 0] = 0
    within, _, _ = fingerprints.similar_pairs(bands, bands[:0])
    assert within.count == 0


def test_s08_broken_samples_are_listed_with_their_errors(scans: Scans) -> None:
    found = scans.of(
        "return torch.arange(4.)[index % 10 + index % 10 :][0] + index, 1 / (index - 7)"
    )
    assert [one.index for one in found.broken] == [2, 3, 4, 5, 6, 7, 8, 9, *range(12, 20)]
    assert found.broken_count == 16
    assert "item 2" in found.broken[0].message
    first = sentences(found)[0]
    assert first.startswith("16 training samples were not read: UserDataset, item 2,")


def test_a_sample_that_hangs_is_named_and_the_scan_continues(scans: Scans) -> None:
    # Its time is over at once, and the others have all of theirs.
    found = scans.of(
        "import signal\n"
        "        signal.raise_signal(signal.SIGALRM) if index == 3 else None\n"
        "        return torch.rand(2), index % 2",
        sample_s=10,
    )
    assert (found.examined, found.broken_count) == (20, 1)
    assert found.broken[0].index == 3
    assert found.broken[0].message == "Item 3 of UserDataset was not read within 10 s."


def test_too_many_hanging_samples_end_the_reading_of_a_split(
    scans: Scans, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scan_module, "_MOST_HANGING", 2)
    found = scans.of("time.sleep(60)", sample_s=1.1)
    assert (found.examined, found.broken_count) == (2, 2)
    assert sentences(found)[-1] == "Read 2 of 20 samples because 2 samples hang."


def test_a_scan_reports_samples_that_it_had_no_time_to_read(scans: Scans) -> None:
    found = scans.of("return torch.rand(2), index % 2", budget_s=0)
    assert sentences(found) == ["Read 0 of 20 samples in the available time."]


def test_s08_infinite_samples_are_counted_and_named(scans: Scans) -> None:
    found = scans.of(
        "return torch.tensor([float('nan') if index in (4, 9) else 0., index]), index % 2"
    )
    assert (found.not_finite, found.not_finite_samples) == (2, (4, 9))
    (finding,) = found.findings()
    assert finding.message == (
        "2 training samples have NaN or infinite values, so the loss will be NaN too."
    )
    assert finding.groups == ((("training", 4),), (("training", 9),))


def test_s08_a_set_of_one_class_is_flagged(scans: Scans) -> None:
    found = scans.of("return torch.rand(4), 7", "return torch.rand(4), 7")
    one_class = "All 20 samples read are of one class (7); a model cannot learn from that."
    assert sentences(found) == [one_class, f"Validation: {one_class}"]


@pytest.mark.parametrize(
    ("validation", "sentence"),
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
    scans: Scans, validation: str, sentence: str
) -> None:
    found = scans.of("return torch.rand(2), index % 2", validation, length=200)
    assert len(found.shifts) == 1
    assert found.shifts[0].startswith(sentence)


def test_small_sets_of_the_same_distribution_are_not_shifted(scans: Scans) -> None:
    item = "return torch.randn(64), int(torch.randint(10, ()))"
    found = scans.of(item, item, length=20)
    assert found.shifts == ()


def test_a_validation_set_that_cannot_be_opened_costs_only_its_own_results(scans: Scans) -> None:
    found = scans.of("return torch.rand(2), index % 2", "return 0", length=20)
    (scans.folder / "bks_dataset.py").write_text(
        (scans.folder / "bks_dataset.py")
        .read_text()
        .replace("(UserDataset):", "(UserDataset):\n    def __init__(self, folder): 1 / 0")
    )
    found = scans.at(scans.folder, scans.folder)
    assert (found.samples, found.validation) == (20, None)
    assert sentences(found)[0].startswith("The validation set was not read: UserValDataset()")
