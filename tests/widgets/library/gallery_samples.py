"""Entries of a gallery, with graphs, as the window gets them."""

from __future__ import annotations

from backend.records.library.gallery import Card, CardFigures, CardSetting, GalleryEntry
from backend.records.library.item import Kind
from backend.records.library.layers import (
    NODE_H,
    NODE_W,
    GraphEdge,
    GraphNode,
    Layer,
    LayerGraph,
    ModelLayers,
)

_LAYER_GAP = 26.0
_KINDS = {"c": "Conv2d", "n": "BatchNorm2d", "p": "MaxPool2d", "r": "ReLU", "l": "Linear"}


def _figures(kinds: str, parameters: int, multiply_adds: int, complexity: float) -> CardFigures:
    count = len(kinds)
    layers = tuple(
        Layer(
            *(f"layers.{number}", _KINDS[kind], (1, 64, 28, 28), parameters // count),
            *(multiply_adds // count, 200_704, True, (f"layers.{number - 1}",) if number else ()),
        )
        for number, kind in enumerate(kinds)
    )
    return CardFigures(ModelLayers(1, layers), complexity)


def graph_of(entry: GalleryEntry) -> LayerGraph:
    """Return a graph with the layers of an entry, one below the other."""
    assert entry.figures is not None
    layers = entry.figures.layers.layers
    step = NODE_H + _LAYER_GAP
    positions = [(NODE_W / 2, NODE_H / 2 + step * number) for number in range(len(layers))]
    nodes = tuple(
        GraphNode(layer.name, *position) for layer, position in zip(layers, positions, strict=True)
    )
    edges = tuple(
        GraphEdge((x, y + NODE_H / 2, x, y + 30, x, y + 40, x, y + step - NODE_H / 2))
        for x, y in positions[:-1]
    )
    return LayerGraph(NODE_W, step * len(layers), nodes, edges)


CLASSES = CardSetting("Classes", 10, minimum=2, maximum=100_000)
CHANNELS = CardSetting("Channels of a picture", 3, choices=(1, 3))
_DCN = "Deep convolutional networks for image classification (M.Sc. thesis, 2016), section 4.1"


def model(name: str, title: str, about: str, kinds: str, side: CardSetting, *figures: float):
    settings = {"classes": CLASSES, "channels": CHANNELS, "side": side}
    card = Card(title, about, _DCN, "classification", settings=settings)
    parameters, multiply_adds, complexity = figures
    card_figures = _figures(kinds, int(parameters), int(multiply_adds), complexity)
    return GalleryEntry(Kind.MODEL, name, card, card_figures)


ALEXNET = model(
    *("alexnet", "AlexNet", "Five convolutions and three large linear layers."),
    *("crnpcrnpcrcrcrplrlrl", CardSetting("Side of a picture, pixels", 227, choices=(227,))),
    *(60_965_224, 714_188_480, 1.0),
)
LENET = model(
    *("lenet-5", "LeNet-5", "The first network to try on small pictures."),
    *("cprcprll", CardSetting("Side of a picture, pixels", 28, minimum=16, maximum=256)),
    *(431_080, 2_293_000, 0.0123),
)
VGG = model(
    *("vgg-19", "VGG-19", "Sixteen convolutions of 3 × 3 and three linear layers."),
    *("crcrp" * 2 + "crcrcrcrp" * 3 + "lrlrl",),
    CardSetting("Side of a picture, pixels", 224, choices=(224,)),
    *(143_667_240, 19_632_062_464, 20.2),
)
NDSB = GalleryEntry(
    Kind.MODEL,
    "ndsb-net-1",
    Card(
        "NDSB-Net 1",
        "A deep network for pictures of plankton, which are grey and of many sizes. It was second "
        "in the National Data Science Bowl among the networks of the source.",
        f"{_DCN}, table 4.6, and the report of the winning team, section 3",
        "classification",
        "The source gives two figures for the slope of RReLU, 1/8 and 1/3 to 1/8; the range is "
        "taken in training and its mean in evaluation. The table has no padding: 3 × 3 kernels "
        "keep the side here, because the sides of the table are else not whole. Dropout is 0.5 "
        "before each linear layer, as the text says, not 0.25, as the figure shows.",
        settings={
            "classes": CardSetting("Classes", 121, minimum=2, maximum=100_000),
            "side": CardSetting("Side of a picture, pixels", 48, choices=(48, 64, 95)),
            "activation": CardSetting(
                *("Activation", "rrelu"),
                choices=("relu", "rrelu", "leaky relu", "tanh", "sigmoid", "sigmoid*"),
            ),
            "batch_norm": CardSetting("Batch normalisation", False),
            "dropout": CardSetting("Dropout", 0.5, minimum=0, maximum=0.95),
        },
    ),
    _figures("crcrcrp" * 4 + "lrlrl", 9_410_000, 520_000_000, 0.61),
)
MODELS = (ALEXNET, LENET, NDSB, VGG)
LOADERS = (
    GalleryEntry(
        Kind.LOADER,
        "cifar-10",
        Card(
            "CIFAR-10",
            "The 60,000 pictures of CIFAR-10, from the archive as downloaded or unpacked.",
            "https://www.cs.toronto.edu/~kriz/cifar.html",
            "classification",
            settings={"augment": CardSetting("Augment", "none", choices=("none", "flip"))},
        ),
    ),
    GalleryEntry(
        Kind.LOADER,
        "image-folder",
        Card(
            "Pictures in a folder for each class",
            "Folders train and val, or a split by seed.",
            "the layout of torchvision.datasets.ImageFolder",
            "classification",
            settings={
                "side": CardSetting("Side, pixels", 64, minimum=8, maximum=1024),
                "channels": CHANNELS,
                "share": CardSetting(
                    *("Share for validation", 0.2),
                    minimum=0,
                    maximum=0.9,
                    help="Without a folder val.",
                ),
                "seed": CardSetting("Seed of the split", 1, minimum=0),
                "augment": CardSetting(
                    "Augment", "none", choices=("none", "flip", "flip and crop")
                ),
                "bad_pictures": CardSetting("Bad pictures", "stop", choices=("stop", "skip")),
            },
        ),
    ),
    GalleryEntry(
        Kind.LOADER,
        "table",
        Card(
            "Table",
            "CSV or Parquet: a row for each sample, a column for each feature.",
            "RFC 4180",
            "classification or regression",
            settings={
                "target": CardSetting("Column of the target", "", help="Empty: the last one."),
                "has_header": CardSetting("The first row is a header", True),
            },
        ),
    ),
)
