"""Lay the graph of a model's layers out with Graphviz, in a process that has a time limit.

The wheels of ``pygraphviz`` contain Graphviz. A graph with very many edges may take minutes, and
Graphviz cannot be interrupted.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from backend.base.errors import BackendError
from backend.node.system.start_supervisor import own_environment
from backend.records.library.layers import NODE_H, NODE_W, Layer, LayerGraph, graph_layers

_LIMIT_S = 30.0
_POINTS_PER_INCH = 72.0
_MAX_LAYERS = 5000
_TABLE_REMEDY = "Use the table."


def lay_out(layers: Sequence[Layer]) -> LayerGraph:
    """Return the positions of the layers with connections.

    Raises:
        BackendError: The graph is too large, or Graphviz failed or is missing.
    """
    drawn_layers = graph_layers(layers)
    if len(drawn_layers) > _MAX_LAYERS:
        raise BackendError(
            f"A graph of {len(drawn_layers)} layers is too large to draw.", _TABLE_REMEDY
        )
    drawn_names = {layer.name for layer in drawn_layers}
    edges = [
        (name, layer.name) for layer in drawn_layers for name in layer.inputs if name in drawn_names
    ]
    request = json.dumps({"nodes": [layer.name for layer in drawn_layers], "edges": edges})
    try:
        completed_process = subprocess.run(
            [sys.executable, "-m", "backend.services.tools.graph_layout"],
            input=request.encode(),
            capture_output=True,
            env=own_environment(),
            timeout=_LIMIT_S,
            check=True,
        )
        return LayerGraph.from_dict(json.loads(completed_process.stdout))
    except subprocess.TimeoutExpired as error:
        raise BackendError(
            f"Graphviz did not lay {len(drawn_layers)} layers out within {_LIMIT_S:.0f} s.",
            _TABLE_REMEDY,
        ) from error
    except (OSError, ValueError, subprocess.CalledProcessError) as error:
        raise BackendError(
            "Graphviz could not lay the graph out.",
            f"Install it with {sys.executable} -m pip install pygraphviz. {_TABLE_REMEDY}",
        ) from error


def _layout(nodes: Sequence[str], edges: Sequence[Sequence[str]]) -> dict[str, Any]:
    """Return a `LayerGraph` as JSON."""
    import pygraphviz

    # Numbers instead of names: a name may be a keyword of Graphviz.
    numbers = {name: str(index) for index, name in enumerate(nodes)}
    graph = pygraphviz.AGraph(directed=True)
    graph.graph_attr.update(nodesep="0.3", ranksep="0.35")
    size = {"width": NODE_W / _POINTS_PER_INCH, "height": NODE_H / _POINTS_PER_INCH}
    graph.node_attr.update(shape="box", fixedsize="true", label="", **size)
    graph.add_nodes_from(numbers.values())
    graph.add_edges_from((numbers[source], numbers[target]) for source, target in edges)
    graph.layout("dot")
    _, _, width, height = map(float, graph.graph_attr["bb"].split(","))
    points = [_point(graph.get_node(numbers[name]).attr["pos"], height) for name in nodes]
    return {
        "width": width,
        "height": height,
        "nodes": [
            {"name": name, "x": x, "y": y} for name, (x, y) in zip(nodes, points, strict=True)
        ],
        "edges": [{"points": _curve(edge.attr["pos"], height)} for edge in graph.edges()],
    }


def _point(text: str, height: float) -> tuple[float, float]:
    x, y = map(float, text.split(","))
    return x, height - y


def _curve(text: str, height: float) -> list[float]:
    """Return the points of an edge; its text begins with the tip of its arrow: ``e,x,y x,y …``."""
    end, *points = text.split()
    coordinates = [value for point in points for value in _point(point, height)]
    tip = _point(end.removeprefix("e,"), height)
    # The curve ends at the start of the arrow; a straight line leads to the tip.
    return [*coordinates, *coordinates[-2:], *tip, *tip]


if __name__ == "__main__":
    request = json.load(sys.stdin)
    json.dump(_layout(request["nodes"], request["edges"]), sys.stdout)
