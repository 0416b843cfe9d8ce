"""The graph of a model's layers, at the positions of Graphviz: zoomed, dragged, searched."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from PySide6.QtCore import QEvent, QLineF, QPointF, QRectF, Qt, Slot
from PySide6.QtGui import (
    QColor,
    QKeyEvent,
    QPainter,
    QPainterPath,
    QPen,
    QPolygonF,
    QResizeEvent,
    QWheelEvent,
)
from PySide6.QtWidgets import (
    QGraphicsItem,
    QGraphicsScene,
    QGraphicsView,
    QStyleOptionGraphicsItem,
    QWidget,
)

from backend.records.library.layers import NODE_H, NODE_W, GraphEdge, Layer, LayerGraph
from widgets.common import formats, theme
from widgets.common.labels import plain_tip
from widgets.common.painting import fill_round, paint_text
from widgets.common.theme import R_CONTROL, S2, S4

_ZOOM_STEP = 1.25
_MIN_ZOOM, _MAX_ZOOM = 0.005, 3.0
_TEXT_MIN_ZOOM = 0.5
"""Below this scale a text cannot be read and is not painted."""
_BAND_W, _MARK_W, _EDGE_W = 5.0, 3.0, 1.2
_ARROW_W, _ARROW_H = 7.0, 9.0
_EDGE_MARGINS = (-_ARROW_W, -_ARROW_W, _ARROW_W, _ARROW_W)
_KIND_TOKENS = (
    ("conv",),
    ("linear", "dense", "bilinear"),
    ("norm",),
    ("pool", "upsample", "flatten"),
    ("attention", "transformer", "lstm", "gru", "rnn"),
    ("embedding",),
)
"""Words in the kinds of layers; each group has the colour of a curve, all others are grey."""


def kind_color(kind: str) -> QColor:
    """Return the colour of a kind of layer in the present theme."""
    kind_name = kind.casefold()
    groups = (
        n for n, tokens in enumerate(_KIND_TOKENS) if any(token in kind_name for token in tokens)
    )
    number = next(groups, None)
    t = theme.current()
    return t.q("line_strong") if number is None else t.curve(number)


def paint_strip(painter: QPainter, box: QRectF, graph: LayerGraph, layers: Sequence[Layer]) -> None:
    """Paint a graph small, from left to right: each layer is a block in the colour of its kind."""
    kind_by_name = {layer.name: layer.kind for layer in layers}
    length_scale, breadth_scale = (
        box.width() / (graph.height or 1),
        box.height() / (graph.width or 1),
    )
    block_length, block_breadth = max(NODE_H * length_scale, 1.0), NODE_W * breadth_scale
    # Nothing overlaps where many layers share few pixels.
    radius = min(2.0, block_length / 4)
    for node in graph.nodes:
        if node.name in kind_by_name:
            x, y = box.left() + node.y * length_scale, box.top() + node.x * breadth_scale
            block = QRectF(x - block_length / 2, y - block_breadth / 2, block_length, block_breadth)
            fill_round(painter, block, kind_color(kind_by_name[node.name]), radius)


class _Node(QGraphicsItem):
    """A layer: its name, its kind and the shape of its output, in the colour of its kind."""

    def __init__(self, layer: Layer, position: QPointF) -> None:
        super().__init__()
        self.layer = layer
        self.is_marked = False
        self._rect = QRectF(-NODE_W / 2, -NODE_H / 2, NODE_W, NODE_H)
        self.setPos(position)
        self.show_layer(layer)

    def show_layer(self, layer: Layer) -> None:
        self.layer = layer
        lines = (
            f"{layer.name}: {layer.kind}",
            f"Output {formats.shape(layer.output_shape or ())}, "
            f"{formats.memory(layer.activation_bytes)}",
            formats.plural(layer.parameters, "parameter"),
            f"{formats.count(layer.multiply_adds or 0)} multiply-adds a sample",
        )
        self.setToolTip(plain_tip("\n".join(lines)))
        self.update()

    def boundingRect(self) -> QRectF:
        edge = _MARK_W
        return self._rect.adjusted(-edge, -edge, edge, edge)

    def paint(
        self,
        painter: QPainter,
        option: QStyleOptionGraphicsItem,
        widget: QWidget | None = None,
    ) -> None:
        t = theme.current()
        color = kind_color(self.layer.kind)
        if painter.worldTransform().m11() < _TEXT_MIN_ZOOM:
            painter.fillRect(self._rect, t.q("focus") if self.is_marked else color)
            return
        edge = QPen(t.q("focus"), _MARK_W) if self.is_marked else QPen(t.q("line_strong"), 1)
        painter.setPen(edge)
        painter.setBrush(t.q("surface"))
        painter.drawRoundedRect(self._rect, R_CONTROL, R_CONTROL)
        band_rect = QRectF(self._rect.left() + 4, self._rect.top() + 6, _BAND_W, NODE_H - 12)
        fill_round(painter, band_rect, color, _BAND_W / 2)
        text_rect = self._rect.adjusted(4 + _BAND_W + S2, 4, -S2, -4)
        name_rect = text_rect.adjusted(0, 0, 0, -text_rect.height() / 2)
        kind_rect = text_rect.adjusted(0, text_rect.height() / 2, 0, 0)
        paint_text(painter, name_rect, self.layer.name, "small_strong", elide_middle=True)
        shape = (self.layer.output_shape or ())[1:]
        text = f"{self.layer.kind}  {formats.shape(shape)}" if shape else self.layer.kind
        paint_text(painter, kind_rect, text, "tiny", "text2")


class _Edge(QGraphicsItem):
    """A line from a layer to a layer that reads its output, with an arrow at its end."""

    def __init__(self, edge: GraphEdge) -> None:
        super().__init__()
        points = [QPointF(x, y) for x, y in zip(edge.points[::2], edge.points[1::2], strict=True)]
        self._path = QPainterPath(points[0])
        for number in range(1, len(points) - 2, 3):
            self._path.cubicTo(*points[number : number + 3])
        arrow_line = QLineF(points[-3], points[-1])
        arrow_line.setLength(_ARROW_H)
        normal_line = arrow_line.normalVector().unitVector()
        half_width = (normal_line.p2() - normal_line.p1()) * _ARROW_W / 2
        self._arrow = QPolygonF(
            [points[-1] - (arrow_line.p2() - arrow_line.p1()) + half_width, points[-1]]
        )
        self._arrow.append(points[-1] - (arrow_line.p2() - arrow_line.p1()) - half_width)
        self._bounding_rect = self._path.boundingRect().adjusted(*_EDGE_MARGINS)

    def boundingRect(self) -> QRectF:
        return self._bounding_rect

    def paint(
        self, painter: QPainter, option: QStyleOptionGraphicsItem, widget: QWidget | None = None
    ) -> None:
        color = theme.current().q("line_strong")
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.setPen(QPen(color, _EDGE_W))
        painter.drawPath(self._path)
        if painter.worldTransform().m11() >= _TEXT_MIN_ZOOM:
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(color)
            painter.drawPolygon(self._arrow)


class LayerGraphView(QGraphicsView):
    """The graph. The wheel zooms at the pointer, dragging moves, plus, minus and 0 zoom by key."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setScene(QGraphicsScene(self))
        self.setAccessibleName("Graph of the layers")
        self.setFrameShape(QGraphicsView.Shape.NoFrame)
        self.setDragMode(QGraphicsView.DragMode.ScrollHandDrag)
        self.setTransformationAnchor(QGraphicsView.ViewportAnchor.AnchorUnderMouse)
        self.setRenderHint(QPainter.RenderHint.Antialiasing)
        self.setOptimizationFlag(QGraphicsView.OptimizationFlag.DontSavePainterState)
        self._nodes: dict[str, _Node] = {}
        self._marked_nodes: list[_Node] = []
        self._next_index = 0
        self._is_new = False
        self._apply_theme()

    @property
    def zoom(self) -> float:
        return self.transform().m11()

    def show_graph(self, graph: LayerGraph, layers: Sequence[Layer]) -> None:
        """Show another graph from its top, as wide as the view, at most in full size."""
        graphics_scene = self.scene()
        graphics_scene.clear()
        self._marked_nodes = []
        by_name = {layer.name: layer for layer in layers}
        for edge in graph.edges:
            graphics_scene.addItem(_Edge(edge))
        self._nodes = {
            node.name: _Node(by_name[node.name], QPointF(node.x, node.y))
            for node in graph.nodes
            if node.name in by_name
        }
        for node in self._nodes.values():
            graphics_scene.addItem(node)
        graphics_scene.setSceneRect(-S4, -S4, graph.width + 2 * S4, graph.height + 2 * S4)
        self._is_new = True
        self._show_top()

    def show_layers(self, layers: Iterable[Layer]) -> None:
        """Show other figures of the same layers."""
        for layer in layers:
            if layer.name in self._nodes:
                self._nodes[layer.name].show_layer(layer)

    def mark_layers(self, names: Iterable[str]) -> None:
        """Mark layers, and centre the first of them."""
        for node in self._marked_nodes:
            node.is_marked = False
            node.update()
        self._marked_nodes = [self._nodes[name] for name in names if name in self._nodes]
        for node in self._marked_nodes:
            node.is_marked = True
            node.update()
        self._next_index = 0
        self.center_next()

    @Slot()
    def center_next(self) -> None:
        """Centre the next of the marked layers, large enough to be read."""
        if not self._marked_nodes:
            return
        node = self._marked_nodes[self._next_index % len(self._marked_nodes)]
        self._next_index += 1
        if self.zoom < _TEXT_MIN_ZOOM:
            self._zoom_to(1.0)
        self.centerOn(node)

    @Slot()
    def fit(self) -> None:
        """Show the whole graph, at most in full size."""
        self.fitInView(self.sceneRect(), Qt.AspectRatioMode.KeepAspectRatio)
        self._zoom_to(min(self.zoom, 1.0))

    def wheelEvent(self, event: QWheelEvent) -> None:
        wheel_steps = event.angleDelta().y() / 120
        if wheel_steps:
            self._zoom_to(self.zoom * _ZOOM_STEP**wheel_steps)
        event.accept()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Zoom by key; arrows and page keys scroll, as Qt does."""
        factor = {"+": _ZOOM_STEP, "-": 1 / _ZOOM_STEP}.get(event.text())
        if factor is not None:
            self._zoom_to(self.zoom * factor)
        elif event.text() == "0":
            self.fit()
        else:
            super().keyPressEvent(event)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._show_top()

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.StyleChange:
            self._apply_theme()

    def _show_top(self) -> None:
        """Show a new graph from its top, once the view has its size."""
        if self._is_new and self.isVisible():
            self._is_new = False
            self.resetTransform()
            view_w, graph_w = self.viewport().width(), max(self.sceneRect().width(), 1.0)
            self._zoom_to(max(min(1.0, view_w / graph_w), _TEXT_MIN_ZOOM))
            self.centerOn(self.sceneRect().center().x(), 0)

    def _zoom_to(self, zoom: float) -> None:
        factor = min(max(zoom, _MIN_ZOOM), _MAX_ZOOM) / self.zoom
        self.scale(factor, factor)

    def _apply_theme(self) -> None:
        self.setBackgroundBrush(theme.current().q("surface"))
