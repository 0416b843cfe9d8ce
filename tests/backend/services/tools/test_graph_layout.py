"""The graph of a model's layers as Graphviz lays it out."""

from __future__ import annotations

import sys

import pytest

from backend.base.errors import BackendError
from backend.records.library.layers import NODE_H, NODE_W, Layer, graph_layers
from backend.services.tools import graph_layout
from tests.waiting import LIMIT_S


def layer(name: str, *inputs: str, ran: bool = True) -> Layer:
    return Layer(name, "Linear", (1, 4) if ran else None, 20, 16, 16, True, inputs)


def test_layers_stand_below_those_they_read_and_none_covers_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(graph_layout, "_LIMIT_S", LIMIT_S)
    rows = [
        *(layer("node"), layer("graph", "node"), layer('a"b', "node")),
        *(layer("end", "graph", 'a"b', "node"), layer("never", ran=False)),
    ]
    layout = graph_layout.lay_out(rows)
    positions = {node.name: (node.x, node.y) for node in layout.nodes}
    assert list(positions) == ["node", "graph", 'a"b', "end"]
    assert positions["node"][1] < positions["graph"][1] == positions['a"b'][1] < positions["end"][1]
    assert abs(positions["graph"][0] - positions['a"b'][0]) >= NODE_W
    assert len(layout.edges) == 5
    for x, y in positions.values():
        assert NODE_W / 2 <= x <= layout.width - NODE_W / 2
        assert NODE_H / 2 <= y <= layout.height - NODE_H / 2
    for edge in layout.edges:
        assert len(edge.points) % 6 == 2, "one point, then three for each curve"


def test_a_model_of_one_layer_is_a_graph_of_one_node() -> None:
    assert [
        graph_layer.name for graph_layer in graph_layers([layer("only"), layer("never", ran=False)])
    ] == ["only"]


def test_a_layout_without_end_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graph_layout, "_LIMIT_S", 0.01)
    with pytest.raises(BackendError, match="did not lay 1 layers out within"):
        graph_layout.lay_out([layer("a")])


def test_without_graphviz_the_sentence_names_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(BackendError) as caught:
        graph_layout.lay_out([layer("a")])
    assert "pip install pygraphviz" in caught.value.remedy
