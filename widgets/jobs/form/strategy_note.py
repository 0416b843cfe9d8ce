"""A description of a strategy in three sentences, with a drawing of its ranks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import hypot

from PySide6.QtCore import QPointF, QRectF
from PySide6.QtGui import QPainter, QPaintEvent, QPolygonF
from PySide6.QtWidgets import QWidget

from backend.records.jobs.torch_options import STRATEGIES
from widgets.common import formats, theme
from widgets.common.labels import Label
from widgets.common.layout import STRETCH, col, row
from widgets.common.painting import fill_round, paint_text, round_pen
from widgets.common.theme import R_CELL, S1, S4

_DRAWING_W, _DRAWING_H = 236, 96
_BOX_W, _BOX_H, _CAPTION_W = 70, 24, 70
_GAP, _ARROW_OFFSET = 3, 5
_HEAD = 4.0


@dataclass(frozen=True)
class Sketch:
    """Ranks as boxes, and arrows between them.

    ``boxes``: text, column and row, both from 0 to 1; ``arrows``: from box to box, by number;
    ``server``: the number of the box that holds the parameters.
    """

    boxes: tuple[tuple[str, float, float], ...]
    arrows: tuple[tuple[int, int], ...] = ()
    server: int | None = None
    captions: tuple[tuple[str, float, float], ...] = ()


_RING = Sketch(
    (("rank 0", 0, 0), ("rank 1", 1, 0), ("rank 2", 1, 1), ("rank 3", 0, 1)),
    ((0, 1), (1, 2), (2, 3), (3, 0)),
    captions=(("gradients", 0.5, 0.5),),
)
_WORKERS = (("worker 1", 0, 1), ("worker 2", 0.5, 1), ("worker 3", 1, 1))
_TWO_WAY_ARROWS = ((1, 0), (0, 1), (2, 0), (0, 2), (3, 0), (0, 3))
_CAPTIONS = (("gradients", 0, 0), ("parameters", 1, 0))

_SKETCHES = {
    "downpour": Sketch((("server 0", 0.5, 0), *_WORKERS), _TWO_WAY_ARROWS, 0, _CAPTIONS),
    "dc-asgd": Sketch((("server + λ", 0.5, 0), *_WORKERS), _TWO_WAY_ARROWS, 0, _CAPTIONS),
    "sandblaster": Sketch((("coordinator", 0.5, 0), *_WORKERS), _TWO_WAY_ARROWS, 0, _CAPTIONS),
    "consensus": Sketch(
        (("part 1", 0, 0.5), ("part 2", 0.5, 0.5), ("part 3", 1, 0.5)),
        ((0, 1), (1, 0), (1, 2), (2, 1)),
        captions=(("activations", 0.25, 0), ("multipliers", 0.75, 1)),
    ),
    "alone": Sketch((("rank 0", 0.5, 0.5),)),
}
"""By the name of the strategy; without one it is a ring."""
OPTIONS: Mapping[tuple[str, str], str] = {
    ("compression", "fp16"): "16 bits halve what is sent, which pays on a slow network; a gradient "
    f"above {formats.count(65_504)} overflows.",
    ("compression", "bfloat16"): "16 bits with the range of 32 halve what is sent, which pays on a "
    "slow network; the numbers have 8 bits of precision.",
    (
        "compression",
        "powersgd",
    ): "Matrices of rank 4 in place of large gradients send a small "
    "share, which pays on a very slow network; what they leave out is added to the next step.",
    (
        "shard",
        "optimizer",
    ): "Each process keeps a part of the optimizer's state and sends the "
    "weights that it updates: it pays when Adam's state fills the GPU.",
    ("reduction", "adasum"): "Adasum weighs gradients by how much they agree: it pays with many "
    "processes, and needs no rate scaling.",
    ("reduction", "hierarchical"): "The GPUs of a node average first: it pays with several GPUs on "
    "each of several nodes.",
    (
        "variant",
        "constant",
    ): "A constant lambda has to fit the size of the gradients, which changes during the training.",
    ("variant", "dual-layer"): "The published form of 2017, which fails: it is for comparison.",
    ("variant", "dual-layer-normalised"): "The published form of 2017 with normalised errors, its "
    "equation 9.3 with a constant denominator, which fails: it is for comparison.",
    ("variant", "dual-layer-quotient"): "The published form of 2017 with normalised errors, its "
    "equation 9.3 with the gradient of the whole quotient, which learns with some seeds only: it "
    "is for comparison.",
    ("policy", "quorum"): "An epoch ends when 75 % of the workers are done, and leaves out the "
    "rest: it pays where a node is sometimes very slow.",
    ("policy", "portion"): "Batches are handed out in small portions: it pays where nodes differ "
    "in speed.",
}
"""When a choice other than the default pays, by setting and choice."""


class StrategyView(QWidget):
    """The note of the chosen strategy, and a sentence for each option that is not the default."""

    def __init__(self) -> None:
        super().__init__()
        self._drawing = _Drawing()
        self._lines = tuple(Label("", "small", "text2", wrap=True) for _ in range(4))
        text_column = col(*self._lines, STRETCH, gap=S1)
        self.setLayout(row(self._drawing, (text_column, 1), gap=S4, top=True))

    def show_strategy(self, name: str, choices: Mapping[str, str]) -> None:
        """Show the note of a strategy; ``choices`` has a choice for each setting."""
        note = STRATEGIES.get(name)
        self.setVisible(note is not None)
        if note is None:
            return
        options = " ".join(filter(None, (OPTIONS.get(choice) for choice in choices.items())))
        texts = (note.description, note.advantage, note.costs, options)
        for line, text in zip(self._lines, texts, strict=True):
            line.setText(text)
            line.setVisible(bool(text))
        self._drawing.show_sketch(_SKETCHES.get(name, _RING), note.description)


class _Drawing(QWidget):
    def __init__(self) -> None:
        super().__init__()
        self._sketch = Sketch(())
        self.setFixedSize(_DRAWING_W, _DRAWING_H)
        self.setAccessibleName("Drawing of the strategy")

    def show_sketch(self, sketch: Sketch, description: str) -> None:
        self._sketch = sketch
        self.setAccessibleDescription(description)
        self.update()

    def paintEvent(self, _event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        sketch, t = self._sketch, theme.current()
        for index, (text, column_share, row_share) in enumerate(sketch.boxes):
            is_server = index == sketch.server
            box = self._box(column_share, row_share)
            fill_round(painter, box, t.q("ink") if is_server else t.tint("live"), R_CELL)
            color_role = "on_ink" if is_server else "live"
            paint_text(painter, box, text, "tiny", color_role, center=True)
        for text, column_share, row_share in sketch.captions:
            box = self._box(column_share, row_share, _CAPTION_W)
            paint_text(painter, box, text, "tiny", "text3", center=True)
        for start, end in sketch.arrows:
            is_two_way = (end, start) in sketch.arrows
            self._paint_arrow(painter, start, end, _ARROW_OFFSET if is_two_way else 0)

    def _box(self, column_share: float, row_share: float, width: int = _BOX_W) -> QRectF:
        area = self.rect().adjusted(1, 1, -1, -1)
        x = area.left() + column_share * (area.width() - width)
        return QRectF(x, area.top() + row_share * (area.height() - _BOX_H), width, _BOX_H)

    def _paint_arrow(self, painter: QPainter, start: int, end: int, offset: int) -> None:
        """Paint an arrow from edge to edge, on the right of the line between the centers."""
        start_center, end_center = (
            self._box(*self._sketch.boxes[i][1:]).center() for i in (start, end)
        )
        delta = end_center - start_center
        length = hypot(delta.x(), delta.y())
        direction, normal = delta / length, QPointF(-delta.y(), delta.x()) / length
        # The length of the arrow that is inside a box.
        inset = min(
            (_BOX_W / 2 + _GAP) / max(abs(direction.x()), 1e-9),
            (_BOX_H / 2 + _GAP) / max(abs(direction.y()), 1e-9),
        )
        tail = start_center + direction * inset + normal * offset
        tip = end_center - direction * inset + normal * offset
        colour = theme.current().q("line_strong")
        painter.setPen(round_pen(colour, 1.2))
        painter.setBrush(colour)
        painter.drawLine(tail, tip)
        head_base = tip - direction * 1.5 * _HEAD
        painter.drawPolygon(
            QPolygonF([tip, head_base + normal * _HEAD / 2, head_base - normal * _HEAD / 2])
        )
