"""The layers of a model, in the order in which one forward pass reached them, and their picture.

Standard library only and Python 3.9: the nodes import this.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from backend.records.base.schema import KEY, READ, Record
from backend.records.library.preview import TOOL_RULES


@dataclass(frozen=True)
class Layer:
    """A module without parts, or one that computes itself: with own parameters, or adding up.

    ``output_shape`` is that of its first tensor, None if the forward did not call it.
    ``multiply_adds`` are those of one sample, None if they could not be counted.
    ``activation_bytes`` is the memory of its output for the whole batch.
    """

    name: str
    kind: str
    output_shape: tuple[int, ...] | None
    parameters: int
    multiply_adds: int | None
    activation_bytes: int
    is_trained: bool = field(metadata={KEY: "trained"})
    """Whether a parameter is trained; False without parameters."""
    inputs: tuple[str, ...] = ()
    """The layers whose output it reads."""

    def of_batch(self, old_size: int, new_size: int) -> Layer:
        """Return the layer for a batch of ``new_size`` samples in place of ``old_size``."""
        shape = self.output_shape
        if shape and shape[0] == old_size:
            shape = (new_size, *shape[1:])
        size = round(self.activation_bytes * new_size / old_size)
        return replace(self, output_shape=shape, activation_bytes=size)


@dataclass(frozen=True)
class ModelLayers(Record, label="list of layers", rules=TOOL_RULES):
    """Every layer of a model. A parameter that several layers share is counted once."""

    batch_size: int
    layers: tuple[Layer, ...] = ()
    warnings: tuple[str, ...] = ()
    output: str = field(default="", metadata={READ: str})
    """The end of what the user's code printed."""

    def of_batch(self, batch_size: int) -> ModelLayers:
        """Return the layers for another batch size; shapes and memory grow with it."""
        return replace(
            self,
            batch_size=batch_size,
            layers=tuple(layer.of_batch(self.batch_size, batch_size) for layer in self.layers),
        )

    @property
    def parameters(self) -> int:
        return sum(layer.parameters for layer in self.layers)

    @property
    def multiply_adds(self) -> int | None:
        """Return the sum of all layers for a sample, None if it could not be counted."""
        counts = [layer.multiply_adds for layer in self.layers if layer.multiply_adds is not None]
        return sum(counts) if len(counts) == len(self.layers) else None

    @property
    def activation_bytes(self) -> int:
        return sum(layer.activation_bytes for layer in self.layers)


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
