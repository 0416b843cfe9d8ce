"""Previews of a dataset: its content, and each error that it can have."""

from __future__ import annotations

import base64
import contextlib
import itertools
import json
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy
import pytest
from PySide6.QtGui import QImage

from backend.records.base.number_format import GAP, count
from backend.records.library.preview import Preview
from backend.training.tools import preview as preview_module
from backend.training.tools import protocol as tool_protocol
from backend.training.tools import thumbnails
from backend.training.tools.dataset_size import measure
from backend.training.tools.histogram import ChannelSpread
from backend.training.tools.preview import _reading_order, preview, spread_indices
from backend.training.user_code import UserCodeError
from tests.waiting import LIMIT_S

GALLERY = Path(__file__).parents[4] / "resources/gallery/digits"
ANCESTOR = Path(__file__).parents[3] / "data/ancestor"

LOADER = """
import time, torch

class UserDataset(torch.utils.data.Dataset):
    def __init__(self, folder): self.folder = folder
    def __len__(self): return {length}
    def __getitem__(self, index):
        {item}
"""


class Previews:
    def __init__(self, folder: Path, report: tool_protocol.Report) -> None:
        self.folder = folder
        self.report = report

    def read(self, item: str, length: str = "20", **request: object) -> Preview:
        """The preview of a loader whose ``__getitem__`` is ``item``."""
        source = self.folder / "loader"
        source.mkdir(exist_ok=True)
        (source / "bks_dataset.py").write_text(LOADER.format(item=item, length=length))
        return self.read_folder(source, self.folder, **request)

    def read_folder(self, loader: Path, dataset: Path, **request: object) -> Preview:
        full_request = {
            "loader": str(loader),
            "dataset": str(dataset),
            "budget_s": LIMIT_S,
            **request,
        }
        result = preview(full_request, self.report)
        assert Preview.from_dict(result).to_dict() == {**result, "output": ""}
        return Preview.from_dict(result)


@pytest.fixture
def previews(tmp_path: Path) -> Iterator[Previews]:
    with contextlib.closing(tool_protocol.Report(tmp_path / "progress")) as report:
        yield Previews(tmp_path, report)


def test_s08_the_digits_are_seen_as_pictures_in_ten_classes(previews: Previews) -> None:
    result = previews.read_folder(GALLERY / "loader", GALLERY / "dataset", samples=3)
    assert (result.count, result.examined_count, result.is_complete) == (1438, 1438, True)
    assert [sample.index for sample in result.samples] == [0, 479, 958]
    picture, digit = result.samples[0].parts
    assert (picture.display_kind, picture.shape, picture.dtype) == ("image", (1, 8, 8), "float32")
    image = QImage.fromData(base64.b64decode(picture.png))
    assert (image.width(), image.height(), image.isGrayscale()) == (8, 8, True)
    assert result.samples[0].target == digit.text
    assert [entry.name for entry in result.classes] == [str(digit) for digit in range(10)]
    assert sum(entry.count for entry in result.classes) == 1438
    (values,) = result.statistics
    assert (values.low, values.high) == (0.0, 1.0)
    assert (result.errors, result.warnings, result.nan_count) == ((), (), 0)


def test_the_validation_set_has_a_preview_of_its_own(previews: Previews) -> None:
    result = previews.read_folder(
        GALLERY / "loader", GALLERY / "dataset", split="validation", samples=1
    )
    assert (result.class_name, result.count) == ("UserValDataset", 359)


def test_the_two_sets_of_the_digits_share_no_picture(previews: Previews) -> None:
    from backend.training.user_code import open_data

    training, validation = open_data(GALLERY / "loader", GALLERY / "dataset")
    assert validation is not None
    numbers = numpy.concatenate([data.user_dataset.choose(1797) for data in (training, validation)])
    assert sorted(numbers) == list(range(1797))


COLUMNS = {"data": [("Alkohol", 13.0, 0.8), ("Säure = viel", 0.0, 1.0)], "target": [("Note", 0, 1)]}


@pytest.mark.parametrize(
    ("data", "names", "values"),
    [
        ("torch.tensor([0.5, 1.0])", ("Alkohol", "Säure = viel"), (13.4, 1.0)),
        ("torch.tensor([float('nan'), 0.0])", ("Alkohol", "Säure = viel"), (None, 0.0)),
        # Not those columns: as they are.
        ("torch.tensor([0.5, 1.0, 2.0])", (), (0.5, 1.0, 2.0)),
    ],
)
def test_samples_of_a_table_have_the_names_and_units_of_its_file(
    previews: Previews, data: str, names: tuple[str, ...], values: tuple[float | None, ...]
) -> None:
    item = f"return {data}, torch.tensor([3.0 + index])\n    value_columns = {COLUMNS}"
    result = previews.read(item, samples=1)
    features, target = result.samples[0].parts
    assert (features.display_kind, features.names) == ("values", names)
    assert [v if v is None else round(v, 6) for v in features.values] == list(values)
    assert bool(features.scaled_values) is bool(names)
    assert (target.names, target.values) == (("Note",), (3.0,))


def test_a_wide_table_has_the_names_of_its_first_columns(previews: Previews) -> None:
    columns = {"data": [(f"c{n}", 100.0, 1.0) for n in range(40)]}
    item = f"return torch.zeros(40), index % 2\n    value_columns = {columns}"
    features = previews.read(item, samples=1).samples[0].parts[0]
    assert features.names[:2] == ("c0", "c1")
    assert set(features.values) == {100.0}
    assert len(features.names) == len(features.values)


def test_statistics_are_those_of_all_values(previews: Previews) -> None:
    result = previews.read("return torch.arange(6.).reshape(1, 6) * index + 1e6, index % 3")
    values = numpy.concatenate([numpy.arange(6.0) * index + 1e6 for index in range(20)])
    (statistic,) = result.statistics
    assert statistic.mean == pytest.approx(values.mean(), rel=1e-12)
    assert statistic.std == pytest.approx(values.std(), rel=1e-6)
    assert (statistic.low, statistic.high) == (values.min(), values.max())


def test_each_channel_of_a_colour_picture_has_its_own_statistics(previews: Previews) -> None:
    result = previews.read(
        "return torch.tensor([1., 2., 3.]).reshape(3, 1, 1).expand(3, 16, 16), index % 2"
    )
    assert [(statistic.channel, statistic.mean) for statistic in result.statistics] == [
        (0, 1.0),
        (1, 2.0),
        (2, 3.0),
    ]


def test_s08_a_set_of_one_class_is_flagged(previews: Previews) -> None:
    result = previews.read("return torch.ones(4), 7")
    assert result.warnings == (
        "All 20 samples read are of one class (7); a model cannot learn from that.",
    )


def test_a_set_with_a_class_for_each_sample_is_flagged(previews: Previews) -> None:
    item = "return torch.ones(4), index\n    classes = [str(n) for n in range(20)]"
    assert previews.read(item).warnings == (
        "Each of the 20 samples is the only one of its class; check the column or setting of the "
        "target.",
    )


def test_s08_values_that_are_no_numbers_are_flagged(previews: Previews) -> None:
    result = previews.read(
        "x = torch.ones(4); x[0] = float('nan' if index > 4 else 1)\n"
        "        x[1] = float('inf' if index == 9 else 1); return x, index % 2"
    )
    assert (result.nan_count, result.inf_count) == (15, 1)
    assert result.warnings == (
        "The data contains NaN or infinite values (15 NaN and 1 infinite), first in item 5, so "
        "the loss will be NaN too.",
    )


@pytest.mark.parametrize(
    ("data", "form"),
    [
        ("torch.zeros(3, 20, 30)", "image"),
        ("torch.zeros(20, 30, 3, dtype=torch.uint8)", "image"),
        ("torch.zeros(20, 30)", "image"),
        ("torch.zeros(100)", "wave"),
        ("torch.zeros(2, 500)", "wave"),
        ("torch.zeros(5, 9)", "table"),
        ("torch.zeros(4)", "values"),
        ("torch.zeros(4, dtype=torch.bfloat16)", "values"),
        ("3.5", "values"),
        ("'a sentence'", "text"),
    ],
)
def test_data_is_shown_in_the_form_that_fits_it(previews: Previews, data: str, form: str) -> None:
    result = previews.read(f"return {data}, index % 2")
    assert result.samples[0].parts[0].display_kind == form
    assert not result.errors


def test_nested_data_is_shown_part_by_part(previews: Previews) -> None:
    result = previews.read(
        "return {'image': torch.zeros(1, 16, 16), 'more': [torch.zeros(2), 1.0]}, 'cat'"
    )
    paths = [part.path for part in result.samples[0].parts]
    assert paths == ["data.image", "data.more[0]", "data.more[1]", "target"]
    assert result.classes[0].name == "cat"


def test_targets_that_are_no_classes_make_no_histogram(previews: Previews) -> None:
    assert previews.read("return torch.zeros(4), index / 7").classes == ()


def test_f50_an_error_at_item_1000_is_named_and_the_rest_is_shown(previews: Previews) -> None:
    result = previews.read(
        "if index in (1000, 1700): raise OSError('cannot read picture')\n"
        "        return torch.zeros(4), index % 2",
        "2100",
    )
    assert (result.examined_count, result.error_count) == (2100, 2)
    assert [error.index for error in result.errors] == [1000, 1700]
    assert result.errors[0].message == (
        f"UserDataset, item {count(1000)}, raised OSError: cannot read picture "
        "(bks_dataset.py, line 8)."
    )
    assert "bks_dataset.py" in result.errors[0].traceback
    assert len(result.samples) == 48


def test_f50_every_item_fails(previews: Previews) -> None:
    result = previews.read("raise KeyError('label')", "200")
    assert (result.error_count, len(result.errors), result.samples) == (200, 20, ())
    assert [error.index for error in result.errors] == list(range(20))


@pytest.mark.parametrize(("length", "says"), [("0", "has no items"), ("'ten'", "returns a str")])
def test_f50_a_length_that_is_none(previews: Previews, length: str, says: str) -> None:
    with pytest.raises(UserCodeError, match=says):
        previews.read("return 1, 2", length)


def test_f50_unequal_shapes_are_found_even_when_the_first_items_agree(previews: Previews) -> None:
    result = previews.read("return torch.zeros(4 + (index == 13)), index % 2")
    assert len(result.errors) == 1
    assert result.errors[0].message == (
        "Items of UserDataset have different shapes at data, so they cannot form a batch: [4] "
        "and [5]."
    )


def test_unequal_shapes_are_right_where_a_collate_joins_them(
    previews: Previews, tmp_path: Path
) -> None:
    (tmp_path / "rows.txt").write_text(
        "".join(f"{n % 3} {'0.5 ' * (n % 6 + 1)}\n" for n in range(50))
    )
    result = previews.read_folder(ANCESTOR / "loader", tmp_path)
    assert (result.count, result.errors) == (40, ())
    assert len({shape.shape for shape in result.shapes if shape.path == "data"}) == 6


@pytest.mark.parametrize(
    ("item", "says"),
    [
        ("return torch.zeros(4)", "a batch is a pair"),
        ("return torch.zeros(4), object()", "cannot form a batch"),
        ("return None", "returned None for"),
        ("return torch.zeros(4), 1, 2", "batches of 3 parts"),
    ],
)
def test_f50_items_of_the_wrong_type(previews: Previews, item: str, says: str) -> None:
    assert says in previews.read(item).errors[0].message


@pytest.fixture
def ticking(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that advances by 0.1 s at each read."""
    ticks = (tick / 10 for tick in itertools.count())
    clock = SimpleNamespace(monotonic=lambda: next(ticks), perf_counter=lambda: next(ticks))
    monkeypatch.setattr(preview_module, "time", clock)


@pytest.mark.usefixtures("ticking")
def test_f50_a_slow_loader_gives_a_partial_preview_that_says_so(previews: Previews) -> None:
    result = previews.read("return torch.zeros(4), index // 500", "1000", budget_s=60.0)
    assert 100 < result.examined_count < 400
    assert not result.is_complete
    counts = [entry.count for entry in result.classes]
    assert len(counts) == 2
    assert min(counts) > result.examined_count / 3, "the read samples lie over the whole set"
    expected_message = f"Read {count(result.examined_count)} of {count(1000)} samples"
    assert result.warnings[0].startswith(expected_message)
    assert result.item_time_ms == pytest.approx(100)


@pytest.mark.parametrize("sampled_count", [13, 24, 35, 48, 60, 200])
def test_f50_a_partial_preview_covers_the_whole_set(
    sampled_count: int,
) -> None:
    order = list(_reading_order(1000, spread_indices(1000, 48)))
    assert sorted(order) == list(range(1000))
    assert sum(index < 500 for index in order[:sampled_count]) == pytest.approx(
        sampled_count / 2, abs=3
    )


def test_f50_an_item_that_never_comes_is_named(
    previews: Previews, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What comes before it takes none of its time, however slow the computer is.
    clock = SimpleNamespace(monotonic=lambda: 0.0, perf_counter=time.monotonic)
    monkeypatch.setattr(preview_module, "time", clock)
    result = previews.read(
        "while True: pass\n        return torch.zeros(4), index % 2", budget_s=2.0
    )
    assert result.errors[0].index == 0
    assert "was not read within" in result.errors[0].message


@pytest.mark.usefixtures("ticking")
def test_f50_a_set_without_an_end_is_bounded(previews: Previews) -> None:
    result = previews.read("return torch.zeros(4), index % 2", "1 << 62", budget_s=60.0)
    assert result.count == 1 << 62
    assert 100 < result.examined_count < 400


def test_a_loader_that_fetches_its_own_data_works_on_an_empty_dataset(
    previews: Previews, tmp_path: Path
) -> None:
    files = tmp_path / "files"
    files.mkdir()
    result = previews.read_folder(ANCESTOR / "fetching_loader", files)
    assert (result.count, result.errors) == (24, ())
    assert [path.name for path in files.iterdir()] == ["fetched.npz"]


def test_the_sizes_of_a_jobs_data(previews: Previews) -> None:
    loader, files = str(GALLERY / "loader"), str(GALLERY / "dataset")
    request = {"loader": loader, "dataset": files, "validation_loader": ""}
    assert measure(request, previews.report) == {"training": 1438, "validation": 359}


def test_a_thumbnail_holds_the_pixels_it_was_made_from() -> None:
    pixels = numpy.random.default_rng(1).integers(0, 256, (5, 7, 3), dtype=numpy.uint8)
    image = QImage.fromData(thumbnails.png(pixels))
    colors = [[image.pixelColor(x, y).getRgb()[:3] for x in range(7)] for y in range(5)]
    assert numpy.array_equal(colors, pixels)


def test_a_large_picture_makes_a_small_thumbnail() -> None:
    encoded_picture = thumbnails.picture(numpy.random.default_rng(1).random((3, 900, 600)), "CHW")
    image = QImage.fromData(base64.b64decode(encoded_picture))
    assert (image.width(), image.height()) == (60, 90)


def test_each_class_has_samples_of_its_own_however_rare_it_is(previews: Previews) -> None:
    result = previews.read("return torch.ones(4), int(index % 400 == 7)", "2000", samples=10)
    rare_samples = [
        sample for sample in (*result.samples, *result.class_samples) if sample.of_class == "1"
    ]
    assert [sample.index for sample in rare_samples] == [7, 407, 807, 1207, 1607]
    assert {sample.target for sample in rare_samples} == {"1"}
    common = [sample for sample in result.class_samples if sample.of_class == "0"]
    assert len(common) == 24
    assert not {sample.index for sample in result.samples} & {
        sample.index for sample in result.class_samples
    }
    assert result.warnings == (
        f"Class 1 is rare: 5 of {count(2000)} samples. "
        f"A model can reach 99{GAP}% accuracy without predicting it.",
    )


def test_each_of_many_classes_keeps_fewer_samples(previews: Previews) -> None:
    result = previews.read("return torch.ones(4), index % 100", "2000", samples=1)
    sample_counts = Counter(sample.of_class for sample in result.class_samples)
    assert len(sample_counts) == 100
    assert set(sample_counts.values()) == {2}


def test_a_short_vector_is_a_row_of_columns_and_a_measured_target_has_a_spread(
    previews: Previews,
) -> None:
    result = previews.read("return torch.tensor([index, 2.5]), torch.tensor(index / 4)", "64")
    first, second, target = result.statistics
    assert [(statistic.path, statistic.channel) for statistic in result.statistics] == [
        ("data", 0),
        ("data", 1),
        ("target", 0),
    ]
    assert (first.low, first.high, second.low, second.high) == (0, 63, 2.5, 2.5)
    assert (target.low, target.high) == (0, 15.75)
    assert result.class_samples == ()
    assert first.histogram is not None
    assert second.histogram is not None
    assert first.histogram.counts == (1,) * 64
    assert sum(second.histogram.counts) == 64


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
def test_a_spread_counts_each_value_where_it_lies(scale: float) -> None:
    chance = numpy.random.default_rng(4)
    values = scale * numpy.concatenate([chance.normal(5, 2, 4000), chance.normal(-9, 0.5, 1000)])
    spread = ChannelSpread()
    for value in values[:500]:
        spread.add(numpy.array([value]))
    spread.add(values[500:])
    histogram = spread.result("data", 0).histogram
    assert histogram is not None
    assert 32 <= len(histogram.counts) <= 65
    edges = histogram.low + histogram.width * numpy.arange(len(histogram.counts) + 1)
    expected_counts, _ = numpy.histogram(values, edges)
    assert histogram.counts == tuple(expected_counts.tolist())


def test_a_spread_bears_any_value_there_is() -> None:
    spread = ChannelSpread()
    for value in (0.0, 5e-324, -1.7e308, 1e299, 1.0, numpy.nan, numpy.inf):
        spread.add(numpy.array([value]))
    statistic = spread.result("data", 0)
    assert statistic.histogram is not None
    assert sum(statistic.histogram.counts) == 4
    assert (statistic.nan_count, statistic.inf_count) == (1, 1)
    assert ChannelSpread().result("data", 0).histogram is None


NAMES = "return torch.ones(2), "


@pytest.mark.parametrize(
    ("target", "classes", "warning"),
    [
        ("f'A caption of picture {index}. ' + 'word ' * 400", 0, ""),
        ("'Ein Bild ' * (index % 7 + 1)", 7, ""),
        ("'cat' if index % 3 else ''", 2, "668 of 2 002 samples have no label."),
        ("'cat' if index % 3 else None", 2, "668 of 2 002 samples have no label."),
        ("'cat' if index % 3 else ' '", 2, "668 of 2 002 samples have no label."),
        ("None", 0, ""),
        ("''", 0, ""),
        ("index", 0, ""),
        ("index // 3", 668, ""),
        ("index % 1002", 0, ""),
        ("index % 1001", 0,
         "The classes are not shown: there are 1 001, and the limit is 1 000."),
        ("index % 5 if index != 77 else torch.ones(3)", 0,
         "The classes are not shown, because some targets are of no class, first that of sample"
         " 77."),
        ("torch.ones(3)", 0, ""),
    ],
)  # fmt: skip
def test_targets_are_classes_where_they_repeat(
    previews: Previews, target: str, classes: int, warning: str
) -> None:
    result = previews.read(NAMES + target, "2002")
    assert len(result.classes) == classes
    label_warnings = [line for line in result.warnings if "label" in line or "not shown" in line]
    assert label_warnings == (
        [warning.replace("1 00", "1\u202f00").replace("2 00", "2\u202f00")] if warning else []
    )
    assert len(json.dumps(result.to_dict())) < 1_000_000
    assert bool(result.class_samples) == bool(classes)
    assert {bool(line.of_class) for line in result.samples} == {bool(classes)}


def test_named_classes_need_not_repeat(previews: Previews) -> None:
    body = "return torch.ones(2), index"
    result = previews.read(body + "\n    classes = [f'class {n}' for n in range(40)]", "40")
    assert [entry.name for entry in result.classes][:2] == ["class 0", "class 1"]
