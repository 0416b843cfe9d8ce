"""The picture of a model's layers: where each one stands, and the lines between them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from backend.records.base.schema import Record
from backend.records.library.layers import Layer

NODE_W, NODE_H = 204.0, 44.0
"""The size of each layer, in the units of all places: pixels at 100 %."""


@dataclass(frozen=True)
class GraphNode:
    """A layer by its name, and its centre."""

    name: str
    x: float
    y: float


@dataclass(frozen=True)
class GraphEdge:
    """A line as cubic curves: its first point, then three for each curve, as x, y, x, y …"""

    points: tuple[float, ...]


@dataclass(frozen=True)
class LayerGraph(Record, label="graph of layers"):
    """The first layers are at the top; y grows downwards."""

    width: float = 0.0
    height: float = 0.0
    nodes: tuple[GraphNode, ...] = ()
    edges: tuple[GraphEdge, ...] = ()


def graph_layers(layers: Iterable[Layer]) -> list[Layer]:
    """Return the layers of a graph: those that ran and read others, or are read."""
    all_layers = list(layers)
    read_names = {name for layer in all_layers for name in layer.inputs}
    connected_layers = [
        candidate for candidate in all_layers if candidate.inputs or candidate.name in read_names
    ]
    return connected_layers or [
        candidate for candidate in all_layers if candidate.output_shape is not None
    ]
