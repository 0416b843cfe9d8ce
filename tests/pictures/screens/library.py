"""Datasets, Models, Loaders: with a preview, empty, at work, refused, huge."""

from __future__ import annotations

import base64
import csv
import gzip
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
from PySide6.QtCore import QBuffer, QIODevice
from PySide6.QtGui import QImage

from backend.records.library.item import Combination, Kind, LibraryItem, VersionChanges
from backend.records.library.layers import (
    NODE_H,
    GraphEdge,
    GraphNode,
    Layer,
    LayerGraph,
    ModelLayers,
)
from backend.records.library.preview import (
    ChannelStatistics,
    ClassCount,
    Histogram,
    LayerRow,
    ModelCheck,
    PageSample,
    Preview,
    SampleError,
    SamplePage,
    SamplePart,
    SamplePreview,
    ShapeCount,
    rare_class_warning,
)
from backend.records.library.scan import BrokenSample, DatasetScan, SplitScan
from backend.records.library.variance import DepthVariance, LayerVariance
from backend.training.tools.histogram import ChannelSpread
from tests.pictures import lab
from tests.pictures.gallery import BOTH_THEMES, EVERY, LARGE, SMALL, SMALLEST, screen
from tests.pictures.stage import Stage
from widgets.library.library_page import LibraryPage
from widgets.library.page_texts import PAGE_TEXTS
from widgets.library.scan_view import ScanView
from widgets.library.trial_pages import Trial

_DIGITS = Path(__file__).parents[3] / "resources/gallery/digits"
_SAMPLE_COUNT = 96
_SIDE, _MAX_VALUE = 8, 16
_SIZES = {
    "coco": (19.3e9, 118_287), "coco-val": (0.8e9, 5_000), "cells-2026": (12.0e9, 8_412),
    "plankton": (4.6e9, 30_336), "road-scenes": (11.6e9, 2_975), "speech-small": (6.3e9, 28_539),
    "textures": (0.6e9, 5_640), "digits-odd": (0.5e6, 899), "digits": (1.1e6, 1_797),
}  # fmt: skip
_WARNINGS = {"plankton": "1 class has 3 images", "speech-small": "14 NaN samples"}


def item(kind: Kind, name: str, version: int = 1, size: float = 1.1e6, files: int = 4):
    details = {"warning": _WARNINGS[name]} if name in _WARNINGS else {}
    created_at = lab.ago((9 - version) * lab.DAY)
    return LibraryItem(
        kind, name, version, "ab" * 32, int(size), files, created_at, details=details
    )


def datasets() -> tuple[LibraryItem, ...]:
    newest = [item(Kind.DATASET, name, 2, *size) for name, size in _SIZES.items()]
    return (*newest, item(Kind.DATASET, "digits", 1, 1.0e6, 1_700))


@cache
def digits() -> tuple[SamplePreview, ...]:
    """The first digits of the gallery, as the preview makes pictures of them."""
    samples = []
    with gzip.open(_DIGITS / "dataset/digits.csv.gz", "rt") as lines:
        for index, row in enumerate(csv.reader(lines)):
            if index == _SAMPLE_COUNT:
                break
            grey = bytes(int(value) * 255 // _MAX_VALUE for value in row[: _SIDE * _SIDE])
            image = QImage(grey, _SIDE, _SIDE, _SIDE, QImage.Format.Format_Grayscale8)
            buffer = QBuffer()
            buffer.open(QIODevice.OpenModeFlag.WriteOnly)
            image.save(buffer, "PNG")
            png = base64.b64encode(bytes(buffer.data().data())).decode()
            part = SamplePart("data", (1, _SIDE, _SIDE), "float32", "image", png=png)
            target = SamplePart("target", (), "int64", "values", values=(float(row[-1]),))
            samples.append(SamplePreview(index * 18, (part, target), row[-1], 0.8, row[-1]))
    return tuple(samples)


def _channel_statistics(
    path: str, number: int, values: Sequence[float], **fields: int
) -> ChannelStatistics:
    """The statistics of some numbers, as the preview makes them."""
    spread = ChannelSpread()
    spread.add(np.asarray(values, np.float64))
    return replace(spread.result(path, number), **fields)


@cache
def _ink() -> ChannelStatistics:
    """Of the digits' own grey."""
    with gzip.open(_DIGITS / "dataset/digits.csv.gz", "rt") as lines:
        grey = [int(value) / _MAX_VALUE for row in csv.reader(lines) for value in row[:-1]]
    return _channel_statistics("data", 0, grey)


def preview(*, classes: int = 10, warnings: tuple[str, ...] = ()) -> Preview:
    counts = (178, 212, 197, 203, 181, 202, 181, 219, 31, 193)
    return Preview(
        "training",
        "UserDataset",
        1797,
        1797,
        digits()[:49],
        digits()[49:],
        classes=tuple(ClassCount(str(n), counts[n % 10]) for n in range(classes)),
        statistics=(_ink(),),
        item_time_ms=0.8,
        warnings=warnings,
    )


def rare_preview() -> Preview:
    """Of one class there are hardly any samples."""
    common_preview = preview()
    return replace(common_preview, warnings=(rare_class_warning(common_preview.classes),))


def _datasets(stage: Stage, name: str = "digits", leaks: int = 0) -> LibraryPage:
    page = stage.library(Kind.DATASET)
    page.detail.show_companions((), ("digits", "coco-boxes"), (Combination("digits", "digits"),))
    leak_details = {"leaks": leaks} if leaks else {}
    page.show_items(
        tuple(
            replace(dataset_item, details={**dataset_item.details, **leak_details})
            if dataset_item.name == name
            else dataset_item
            for dataset_item in datasets()
        )
    )
    page.show_item(name)
    page.detail.show_jobs({"digits@2": 6})
    return page


@screen("dataset", EVERY)
def dataset(stage: Stage) -> None:
    _datasets(stage).detail.show_preview(Trial("digits@2", "digits"), rare_preview())


# No loader has read it yet.
def show_plankton(stage: Stage) -> LibraryPage:
    return _datasets(stage, "plankton")


screen("dataset-which-loader", EVERY)(show_plankton)


@screen("dataset-several-findings")
def dataset_several_findings(stage: Stage) -> None:
    """More is found than one line has room for."""
    warning = "The data contains NaN or infinite values (14 NaN), first in item 12."
    rare = rare_preview()
    _datasets(stage).detail.show_preview(
        Trial("digits@2", "digits"), replace(rare, warnings=(*rare.warnings, warning))
    )


screen("dataset-classes-100")(
    lambda stage: _datasets(stage).detail.show_preview(
        Trial("digits@2", "digits"), preview(classes=100)
    )
)


@screen("dataset-one-class")
def dataset_one_class(stage: Stage) -> None:
    page = _datasets(stage)
    page.detail.show_preview(Trial("digits@2", "digits"), preview())
    page.detail.results.samples.show_class("8")


@screen("dataset-long-classes")
def dataset_long_classes(stage: Stage) -> None:
    """Names that have no room below a column, and one of them chosen."""
    names = ("copepod, calanoid", "diatom chain", "echinoderm larva", "fish egg", "jellyfish",
             "a class with a name that nobody would have guessed", "unknown")  # fmt: skip
    named_preview = replace(
        preview(),
        classes=tuple(ClassCount(name, 4100 - 630 * n) for n, name in enumerate(names)),
        class_samples=tuple(
            replace(sample, of_class=names[2], target=names[2]) for sample in digits()
        ),
    )
    page = _datasets(stage, "plankton")
    page.detail.show_preview(Trial("plankton@2", "digits"), named_preview)
    page.detail.results.samples.show_class(names[2])


_WINE_COLUMNS = (
    "alcohol", "malic acid", "ash", "alcalinity of ash", "magnesium", "total phenols", "flavanoids",
    "nonflavanoid phenols", "proanthocyanins", "color intensity", "hue", "proline",
    "od280/od315 of diluted wines",
)  # fmt: skip


def _columns(stage: Stage) -> LibraryPage:
    """A table: each sample a row, each column with a spread of its own."""
    chance = np.random.default_rng(5)
    rows = chance.gamma(2.0, [1, 4, 0.3, 20, 2, 7, 1, 3, 0.1, 5, 1, 60, 8], (48, 13))
    scaled_rows = (rows - rows.mean(0)) / rows.std(0)
    samples = tuple(
        SamplePreview(9 * n, (SamplePart("data", (13,), "float32", "values",
                                  values=tuple(row.tolist()), names=_WINE_COLUMNS,
                                  scaled_values=tuple(scaled_rows[n].tolist())),
                       SamplePart("target", (), "float32", "values", values=(row[3],))),
               f"{row[3]:.4g}", 0.02)
        for n, row in enumerate(rows)
    )  # fmt: skip
    columns = [
        replace(_channel_statistics("data", n, chance.gamma(2.0, 1 + n, 500)), name=name)
        for n, name in enumerate(_WINE_COLUMNS)
    ]
    table_preview = Preview(
        "training", "UserDataset", 506, 506, samples, item_time_ms=0.02,
        shapes=(ShapeCount("data", (13,), "float32", 506),
                ShapeCount("target", (), "float32", 506)),
        statistics=(*columns, _channel_statistics("target", 0, chance.normal(22, 9, 506))),
    )  # fmt: skip
    page = _datasets(stage)
    page.detail.show_preview(Trial("digits@2", "digits"), table_preview)
    return page


screen("dataset-columns")(_columns)


@screen("dataset-statistics", EVERY)
def dataset_statistics(stage: Stage) -> None:
    page = _columns(stage)
    page.detail._tabs.choose("statistics")
    page.detail._show_tab("statistics")


@screen("dataset-no-numbers")
def dataset_no_numbers(stage: Stage) -> None:
    """Nothing but text: samples can be read, and there is no statistic of them."""
    texts = ("The quick brown fox", "jumps over", "the lazy dog and much more text than fits here")
    samples = tuple(
        SamplePreview(n, (SamplePart("data", None, "str", "text", text=texts[n % 3]),))
        for n in range(9)
    )
    page = _datasets(stage)
    page.detail.show_preview(Trial("digits@2", "digits"), Preview("training", "U", 9, 9, samples))
    page.detail._tabs.choose("statistics")
    page.detail._show_tab("statistics")


@screen("dataset-no-pictures")
def dataset_no_pictures(stage: Stage) -> None:
    """Waves; one channel holds values that are no numbers, another nothing else."""
    time = np.linspace(0, 30, 256)
    samples = tuple(
        SamplePreview(n, (SamplePart("data.sound", (2, 16_000), "float32", "wave",
                        values=tuple((np.sin(time * (1 + n / 9)) * np.exp(-time / 20)).tolist())),
                   SamplePart("data.a name that is long", (1024,), "float32", "wave",
                              values=(0.5, 0.6))),
               "a class with a long name", 12.4)
        for n in range(40)
    )  # fmt: skip
    waves = Preview("training", "UserDataset", 40, 40, samples, item_time_ms=12.4, statistics=(
        _channel_statistics("data.sound", 0, np.sin(time).tolist(), nan_count=14),
        ChannelStatistics("data.sound", 1, None, None, None, None, nan_count=40),
    ))  # fmt: skip
    _datasets(stage).detail.show_preview(Trial("digits@2", "digits"), waves)


@screen("dataset-tables")
def dataset_tables(stage: Stage) -> None:
    """Tables, texts and single numbers side by side, and constant values."""
    chance = np.random.default_rng(6)
    kinds = (
        SamplePart("data", (8, 12), "float32", "table",
             rows=tuple(tuple(row) for row in chance.normal(0, 1, (8, 12)).tolist())),
        SamplePart("data", None, "str", "text", text="The quick brown fox jumps over the lazy dog"),
        SamplePart("data", (), "float64", "values", values=(0.25,)),
    )  # fmt: skip
    samples = tuple(SamplePreview(n * 2953, (kinds[n % 3],), "", 0.1) for n in range(30))
    constant_statistics = ChannelStatistics("data", 0, 0.5, 0.0, 0.5, 0.5,
                              histogram=Histogram(0.5, 1e-12, (90,)))  # fmt: skip
    table_preview = Preview(
        "training", "UserDataset", 90_000, 90, samples, statistics=(constant_statistics,)
    )
    _datasets(stage).detail.show_preview(Trial("digits@2", "digits"), table_preview)


def _scan(stage: Stage, leaks: int = 0) -> ScanView:
    page = _datasets(stage, leaks=leaks)
    page.detail.show_preview(Trial("digits@2", "digits"), rare_preview())
    page.detail._tabs.choose("scan")
    page.detail._show_tab("scan")
    return page.detail.results.scan


screen("dataset-scan-before")(lambda stage: _scan(stage))
screen("dataset-scan-running")(
    lambda stage: _scan(stage).show_progress(0.41, "Reading training samples")
)
screen("dataset-scan-failed")(
    lambda stage: _scan(stage).show_error(
        "UserDataset() raised FileNotFoundError: no file train.csv (bks_dataset.py, line 12).",
        "Check that the dataset contains the files that this loader reads.",
    )
)


@screen("dataset-scan", EVERY, BOTH_THEMES)
def dataset_scan(stage: Stage) -> None:
    """Leaks are selected: each pair is a sample of training and one of validation."""
    view = _scan(stage, 31)
    broken = (
        "UserDataset, item 7, raised OSError: cannot identify image file (bks_dataset.py, line 9)."
    )
    leaks = tuple((18 * n, n) for n in range(31))
    view.show_scan(
        DatasetScan(
            1438, 1438, broken_samples=(BrokenSample(7, broken),), broken_count=3, leaks=leaks,
            leak_count=31, duplicates=((4, 90), (5, 91)), duplicate_count=2, not_finite=14,
            not_finite_samples=tuple(range(14)), validation=SplitScan(359, 359), seconds=4.2,
            sample_time_ms=0.8, shifts=(
                "The classes have other shares in validation than in training (31\u00a0% apart).",
            ), warnings=rare_preview().warnings,
        )
    )  # fmt: skip
    number = next(
        n for n, finding in enumerate(view.model.rows) if finding.message.startswith("31 ")
    )
    view._table.selectRow(number)
    sample_keys = view._sample_keys()
    by_split = {"training": digits(), "validation": tuple(digits())}
    samples = [
        PageSample(split, replace(by_split[split][n // 2], index=index))
        for n, (split, index) in enumerate(sample_keys)
    ]
    view.show_samples(sample_keys, SamplePage(tuple(samples)))


@screen("dataset-page-of-samples")
def dataset_page_of_samples(stage: Stage) -> None:
    page = _datasets(stage)
    page.detail.show_preview(Trial("digits@2", "digits"), preview())
    view = page.detail.results.samples
    view._show_next_page()
    samples = tuple(
        PageSample("training", replace(sample, index=n)) for n, sample in enumerate(digits()[:47])
    )
    error = SampleError("UserDataset, item 47, raised ValueError: torn file.", index=47)
    view.show_page(view._page_request(), SamplePage(samples, 48, 1797, (error,)))


@screen("dataset-unreadable")
def dataset_unreadable(stage: Stage) -> None:
    """Each item raised, so there is nothing to show but the reason."""
    error = SampleError("UserDataset, item 0, raised KeyError: 'label' (bks_dataset.py, line 8).")
    broken_preview = Preview(
        "training", "UserDataset", 5000, 5000, error_count=5000, errors=(error,)
    )
    _datasets(stage).detail.show_preview(Trial("digits@2", "digits"), broken_preview)


screen("dataset-reading")(
    lambda stage: _datasets(stage).detail.show_trial_progress(0.4, "Sample 720 of 1 797")
)
screen("dataset-refused")(
    lambda stage: _datasets(stage).detail.show_trial_error(
        "The loader stopped at item 1000: there is no file train/1000.png.",
        "Import the dataset again with all its files.",
    )
)
screen("datasets-empty", (LARGE, SMALL, SMALLEST))(
    lambda stage: stage.library(Kind.DATASET).show_items(())
)


@screen("dataset-versions")
def dataset_versions(stage: Stage) -> None:
    page = _datasets(stage)
    page.detail.end_trial()
    page.detail._tabs.choose("versions")
    page.detail._show_tab("versions")


LAYERS = tuple(
    LayerRow(f"backbone.layer{n // 6}.{n % 6}.conv", "Conv2d", 36_864 * (1 + n // 6),
             f"[16, {64 << n // 6}, {56 >> n // 6}, {56 >> n // 6}]")
    for n in range(24)
)  # fmt: skip
CHECK = ModelCheck(25_557_032, 25_557_032, 102_228_128, layers=LAYERS, loss=4.71,
                   batch="[16, 3, 800, 1333] float32", output_shape="[16, 91, 100]",
                   forward_ms=41.0, backward_ms=88.0)  # fmt: skip


def _models(stage: Stage, tab: str) -> LibraryPage:
    page = stage.library(Kind.MODEL)
    combinations = (Combination("coco", "coco-boxes", "retinanet-r50"),)
    page.detail.show_companions(("coco",), ("coco-boxes",), combinations)
    names = ("retinanet-r50", "unet-cells", "vit-s16", "deeplab", "speech-ctc", "gan-textures")
    page.show_items(tuple(item(Kind.MODEL, name, v, 22_100) for name in names for v in (1, 2, 3)))
    page.show_item("retinanet-r50")
    page.detail._tabs.choose(tab)
    page.detail._show_tab(tab)
    return page


def _source(page: LibraryPage, reference: str, folder: str, name: str) -> None:
    page.detail.show_files(reference, (name, "blocks.py", "heads/__init__.py", "heads/box.py"))
    text = (_DIGITS / folder / name).read_text(encoding="utf-8")
    page.detail.show_text(reference, name, text)


screen("model", EVERY)(
    lambda stage: _models(stage, "check").detail.show_check(
        Trial("coco", "coco-boxes", "retinanet-r50@3"), CHECK
    )
)


def _layers() -> tuple[ModelLayers, LayerGraph]:
    """A network of five blocks with a bypass each, one of them frozen, and its graph."""
    rows = [Layer("stem.conv", "Conv2d", (1, 64, 112, 112), 9_408, 118_013_952, 3_211_264, False)]
    nodes = [GraphNode("stem.conv", 200, 40)]
    edges: list[GraphEdge] = []

    def add(
        name: str, kind: str, parameters: int, x: float, *inputs: str, step: float = 70
    ) -> None:
        y = nodes[-1].y + step
        nodes_by_name = {node.name: node for node in nodes}
        rows.append(Layer(name, kind, (1, 256, 56, 56), parameters, parameters * 3136,
                          3_211_264, parameters > 10_000, inputs))  # fmt: skip
        for source in inputs:
            top, bottom = nodes_by_name[source].y + NODE_H / 2, y - NODE_H / 2
            bend = (nodes_by_name[source].x, top + 30, x, bottom - 30, x, bottom - 9)
            edges.append(
                GraphEdge(
                    (nodes_by_name[source].x, top, *bend, x, bottom - 9, x, bottom, x, bottom)
                )
            )
        nodes.append(GraphNode(name, x, y))

    for n in range(5):
        block_input = rows[-1].name
        add(f"backbone.layer{n}.0.conv", "Conv2d", 73_728 * (n > 0) + 9_000, 110, block_input)
        add(f"backbone.layer{n}.0.norm", "BatchNorm2d", 512, 110, rows[-1].name)
        add(f"backbone.layer{n}.0.downsample", "Conv2d", 16_384, 330, block_input, step=0)
        add(f"backbone.layer{n}.relu", "ReLU", 0, 200, rows[-2].name, rows[-1].name)
    add("head", "Linear", 2_048_000, 200, rows[-1].name)
    rows.append(Layer("auxiliary", "Linear", None, 512_000, 0, 0, True))
    return ModelLayers(1, tuple(rows)), LayerGraph(
        430, nodes[-1].y + 40, tuple(nodes), tuple(edges)
    )


def _shown_layers(stage: Stage) -> LibraryPage:
    page = _models(stage, "layers")
    trial = Trial("coco", "coco-boxes", "retinanet-r50@3")
    layers, graph = _layers()
    page.detail.show_layers(trial, layers)
    page.detail.show_layer_graph(trial, graph)
    return page


screen("model-layers", EVERY)(_shown_layers)


@screen("model-layer-graph", EVERY, BOTH_THEMES)
def model_layer_graph(stage: Stage) -> None:
    view = _shown_layers(stage).detail.results.layers
    view._page_picker.choose("graph")
    view._show_page("graph")
    view.search.setText("downsample")
    view.search._send_text()


def _variance(stage: Stage, variance: DepthVariance | str) -> None:
    detail = _shown_layers(stage).detail
    trial = Trial("coco", "coco-boxes", "retinanet-r50@3")
    detail.results.layers._page_picker.choose("variance")
    detail.results.layers._show_page("variance")
    assert detail.trial == trial
    detail.show_variance(trial, variance)


def _variances(shrink: float, sigmoids: int) -> DepthVariance:
    """Twelve layers and a head, whose variances change by a factor a layer."""
    chance = np.random.default_rng(3)
    noise = chance.lognormal(0, 0.2, (13, 2))
    rows = [
        LayerVariance(f"features.{2 * n}", "Conv2d", 0.9 * noise[n, 0] / shrink**n,
                      1e-6 * noise[n, 1] / shrink ** (11 - n))
        for n in range(12)
    ]  # fmt: skip
    rows.append(LayerVariance("head", "Linear", rows[-1].activation, 3.6e-4))
    return DepthVariance(tuple(rows), sigmoids)


screen("model-variance", EVERY)(lambda stage: _variance(stage, _variances(17.0, 12)))


@screen("model-variance-well")
def model_variance_well(stage: Stage) -> None:
    _variance(stage, _variances(1.1, 0))
    stage.settle()
    panel = stage.library(Kind.MODEL).detail.results.layers.variance.panel
    panel.setFocus()
    panel.move_pointer(5)


@screen("model-variance-frozen")
def model_variance_frozen(stage: Stage) -> None:
    variance = _variances(1.1, 0)
    rows = tuple(replace(layer, gradient=None) for layer in variance.layers)
    note = "There are no gradients: The model's loss does not depend on any parameter."
    _variance(stage, DepthVariance(rows, 0, (note,)))


screen("model-variance-failed")(
    lambda stage: _variance(stage, "The model's loss raised ValueError: no target. Change it.")
)
screen("model-no-layers")(lambda stage: _models(stage, "layers").detail.end_trial())
screen("model-source")(
    lambda stage: _source(_models(stage, "source"), "retinanet-r50@3", "model", "bks_model.py")
)


@screen("model-versions")
def model_versions(stage: Stage) -> None:
    versions = _models(stage, "versions").detail.versions
    texts = ("Dropout(0.2)", "Dropout(0.3)")
    lines = f"""\
--- retinanet-r50@2/bks_model.py
+++ retinanet-r50@3/bks_model.py
@@ -16,4 +16,5 @@
             nn.ReLU(),
             nn.MaxPool2d(2),
-            nn.{texts[0]},
+            nn.{texts[1]},
+            nn.Flatten(),
         )"""
    names = ("bks_model.py", "blocks.py", "heads/box.py", "heads/mask.py")
    versions.show_changes(
        VersionChanges("retinanet-r50@2", "retinanet-r50@3", ("heads/mask.py",), (), names, lines)
    )


screen("model-refused")(
    lambda stage: _models(stage, "check").detail.show_trial_error(
        "The step backward failed: the loss has no gradient.",
        "Is the loss computed from the model's output?",
    )
)
screen("models-empty")(lambda stage: stage.library(Kind.MODEL).show_items(()))


def _loaders(stage: Stage, tab: str) -> LibraryPage:
    page = stage.library(Kind.LOADER)
    page.detail.show_companions(("digits", "coco"), (), (Combination("digits", "digits"),))
    names = ("digits", "coco-boxes", "cells-masks", "plankton", "speech", "textures")
    page.show_items(tuple(item(Kind.LOADER, name, 1, 4_200, 2) for name in names))
    page.show_item("digits")
    page.detail._tabs.choose(tab)
    page.detail._show_tab(tab)
    return page


screen("loader", EVERY)(
    lambda stage: _loaders(stage, "samples").detail.show_preview(
        Trial("digits", "digits@1"), preview()
    )
)
screen("loader-source")(
    lambda stage: _source(_loaders(stage, "source"), "digits@1", "loader", "bks_dataset.py")
)
screen("loaders-empty")(lambda stage: stage.library(Kind.LOADER).show_items(()))


def _states_of(kind: Kind) -> None:
    """Each of the three places while it is read, when it cannot be read, and with thousands."""
    texts = PAGE_TEXTS[kind]
    page_name = texts.title.lower()

    @screen(f"{page_name}-reading")
    def reading(stage: Stage) -> None:
        stage.library(kind)._show_reading()

    @screen(f"{page_name}-unreadable", (LARGE, SMALL, SMALLEST))
    def unreadable(stage: Stage) -> None:
        stage.library(kind).show_error(
            f"/lab/ring/{page_name} does not answer: stale file handle.", "Mount the share again."
        )

    @screen(f"{page_name}-huge")
    def huge(stage: Stage) -> None:
        page = stage.library(kind)
        page.show_items(tuple(item(kind, f"{lab.LONG_NAME}{n}") for n in range(2000)))


for _kind in Kind:
    _states_of(_kind)
