"""Paint a row of the rack: as a line of a table, or small as part of a wall of nodes.

A GPU is readable in grey: ours is plain with a solid bar, another user's hatched, a free one
outlined, one with a problem framed thickly, one that is gone dotted. Cells come from a pixmap
cache: painting 512 of them with hatches would take longer than a frame.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QPainter, QPainterPath, QPen, QPixmap

from widgets.common import formats, theme
from widgets.common.painting import fill_round, paint_text, text_width
from widgets.common.state_badge import GpuUse, paint_gpu_cell, paint_hatch
from widgets.common.theme import R_CELL, R_CONTROL, RACK_ROW_H, S2, S3
from widgets.nodes.row.node_names import elide_names, strip_domain
from widgets.nodes.row.node_row import Condition, GpuCell, NodeRow

DENSE_ROW_H, WALL_ROW_H, HEAD_H = 34, 41, 28
PAD = 12
DIMMED = 0.28
_CELL_H, _CELL_GAP, _CELL_MOST_W = 23, 4, 140
_FIGURE_FROM_W, _HEAT_FROM_W = 34, 58
_NAME_LEAST_W, _NAME_MOST_W, _NAME_SHARE = 132, 240, 0.22
_BLOCK_GAP, _METER_W, _NETWORK_W, _BEAT_W = 24, 74, 52, 54
_METER_H = 4
_NETWORK_FROM_W = 860
_WALL_CELL_GAP, _WALL_CELL_MOST_W, _WALL_NAME_MOST_W = 3, 28, 116
_BAR_H = 4


@dataclass(frozen=True)
class RackColumns:
    """The columns of the table, in pixels from its left edge."""

    width: float
    name_w: float
    cells: int
    cells_x: float
    cell_w: float
    meters_x: float
    meter_w: float
    network: bool
    tall: bool
    names: Mapping[str, str]
    """The text for each node."""

    @property
    def row_h(self) -> int:
        return RACK_ROW_H if self.tall else DENSE_ROW_H

    def cell_x(self, index: int) -> float:
        return self.cells_x + index * (self.cell_w + _CELL_GAP)

    def cell_rect(self, index: int, row: QRectF) -> QRectF:
        top = row.top() + (23 if self.tall else 6)
        return QRectF(row.left() + self.cell_x(index), top, self.cell_w, _CELL_H)

    def cell_at(self, x: float) -> int | None:
        """The GPU whose column is at `x` from the left edge."""
        for index in range(self.cells):
            if 0 <= x - self.cell_x(index) < self.cell_w:
                return index
        return None


def plan(rows: Sequence[NodeRow], width: float, *, tall: bool) -> RackColumns:
    """The columns for these rows; a name longer than its column ends in "…"."""
    titles = [row.title for row in rows]
    names = [text_width(title, "strong") for title in strip_domain(titles)]
    most = min(_NAME_MOST_W, max(_NAME_LEAST_W, width * _NAME_SHARE))
    name_w = min(max([_NAME_LEAST_W, *names]), most)
    cells = max((len(row.gpus) for row in rows), default=0)
    network = width >= _NETWORK_FROM_W
    beat_w = _BEAT_W + S3
    fixed = beat_w + (_NETWORK_W + S3 if network else 0)
    meter_w = float(_METER_W)
    # Whole pixels: a cell's pixmap between two pixels is blurred.
    cells_x = float(PAD + round(name_w) + S3)
    room = width - PAD - cells_x - fixed - 2 * (meter_w + S3) - _BLOCK_GAP
    cell_w = 0.0
    if cells:
        cell_w = min(_CELL_MOST_W, (room - (cells - 1) * _CELL_GAP) / cells)
        cell_w = max(6.0, float(int(cell_w)))
    left_over = room - cells * (cell_w + _CELL_GAP)
    # The meters take what narrow cells leave free, so that the row has no gap.
    meter_w += max(0.0, min(left_over / 2, 220.0 if cells else 400.0))
    meters_x = width - PAD - fixed - 2 * (meter_w + S3)
    shown = dict(zip((row.name for row in rows), elide_names(titles, name_w, "strong"), strict=True))
    return RackColumns(
        width, name_w, cells, cells_x, cell_w, meters_x, meter_w, network, tall, shown
    )


def paint_head(painter: QPainter, columns: RackColumns) -> None:
    """Paint the captions of the columns."""
    word = "GPU " if columns.cell_w >= _FIGURE_FROM_W + 8 else ""
    for index in range(columns.cells):
        where = QRectF(columns.cell_x(index), 0, columns.cell_w, HEAD_H)
        paint_text(painter, where, f"{word}{index}", "tiny", "text3", center=True)
    meter = QRectF(columns.meters_x, 0, columns.meter_w, HEAD_H)
    paint_text(painter, meter, "Processor", "tiny", "text3")
    paint_text(painter, meter.translated(columns.meter_w + S3, 0), "Memory", "tiny", "text3")
    right = columns.width - PAD
    if columns.network:
        network = QRectF(right - _BEAT_W - S3 - _NETWORK_W, 0, _NETWORK_W, HEAD_H)
        paint_text(painter, network, "Gbit/s", "tiny", "text3", right=True)
    beat = QRectF(right - _BEAT_W, 0, _BEAT_W, HEAD_H)
    paint_text(painter, beat, "Heartbeat", "tiny", "text3", right=True)


def paint_row(painter: QPainter, rect: QRectF, row: NodeRow, columns: RackColumns) -> None:
    """Paint one line of the table, without its background."""
    name = QRectF(rect.left() + PAD, rect.top() + 9, columns.name_w, 18)
    line = name.translated(0, 18)
    if not columns.tall:
        name = QRectF(name.left(), rect.top() + 3, name.width(), 15)
        line = name.translated(0, 14)
    title = columns.names.get(row.name, row.title)
    is_notable = row.condition is not Condition.WELL or row.subtitle_color == "live"
    if columns.tall or is_notable:
        role: theme.Role = "small_strong" if is_notable and columns.tall else "small"
        paint_text(painter, line, row.subtitle, role, row.subtitle_color)
    else:
        name = QRectF(name.left(), rect.top(), name.width(), rect.height())
        room = columns.name_w - text_width(title, "strong") - S2
        if room >= text_width(row.subtitle, "small"):
            paint_text(painter, name, row.subtitle, "small", "text3", right=True)
    paint_text(painter, name, title, "strong", row.condition.color_role)
    if columns.tall:
        _paint_owners(painter, rect, row, columns)
    for place, cell in enumerate(row.gpus):
        where = columns.cell_rect(place, rect)
        _paint_cell(painter, where, cell)
    _paint_figures(painter, rect, row, columns)


def _paint_owners(painter: QPainter, rect: QRectF, row: NodeRow, columns: RackColumns) -> None:
    for first, last in runs(row.gpus):
        cell = row.gpus[first]
        if cell.owner and cell.use in ("ours", "other"):
            left, right = columns.cell_x(first), columns.cell_x(last) + columns.cell_w
            where = QRectF(rect.left() + left + 1, rect.top() + 6, right - left, 16)
            paint_text(
                painter, where, cell.owner, "tiny", "live" if cell.use == "ours" else "text2"
            )


def _paint_figures(painter: QPainter, rect: QRectF, row: NodeRow, columns: RackColumns) -> None:
    left, right = rect.left() + columns.meters_x, rect.left() + columns.width - PAD
    if row.notice:
        where = QRectF(left, rect.top(), right - left, rect.height())
        paint_text(painter, where, row.notice, "small", row.condition.color_role)
        return
    middle = rect.center().y()
    for share in (row.processor, row.memory):
        if share is not None:
            if columns.tall:
                text = QRectF(left, middle - 17, columns.meter_w, 16)
                bar = QRectF(left, middle + 5, columns.meter_w, _METER_H)
            else:
                text = QRectF(left, rect.top(), 40, rect.height())
                bar = QRectF(left + 42, middle - 2, columns.meter_w - 42, _METER_H)
            paint_text(painter, text, formats.percent(share), "small", "text2")
            _paint_meter(painter, bar, share)
        left += columns.meter_w + S3
    if columns.network and row.network_bytes_per_s is not None:
        figure = f"{row.network_bytes_per_s * 8 / 1e9:.1f}"
        where = QRectF(right - _BEAT_W - S3 - _NETWORK_W, rect.top(), _NETWORK_W, rect.height())
        paint_text(painter, where, figure, "small", "text2", right=True)
    if row.heartbeat:
        where = QRectF(right - _BEAT_W, rect.top(), _BEAT_W, rect.height())
        paint_text(painter, where, row.heartbeat, "small", "text3", right=True)


def paint_background(painter: QPainter, rect: QRectF, row: NodeRow, *, hover: bool) -> None:
    """Paint the tint of a problem, or of the row under the pointer."""
    t = theme.current()
    family = row.condition.family
    if row.condition.is_notable:
        fill_round(painter, rect, t.tint(family), R_CONTROL)
        if t.high_contrast or hover:
            painter.setPen(QPen(t.fill(family), 1))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawRoundedRect(rect.adjusted(0.5, 0.5, -0.5, -0.5), R_CONTROL, R_CONTROL)
    elif hover:
        fill_round(painter, rect, t.q("hover"), R_CONTROL)


@dataclass(frozen=True)
class WallPlan:
    """The common layout of a wall's nodes: width of a name, the names, number of cells."""

    name_w: float
    cells: int
    names: Mapping[str, str]


def wall_plan(rows: Sequence[NodeRow]) -> WallPlan:
    """The same layout for every node, so that cells align."""
    titles = [row.title for row in rows]
    widths = [text_width(title, "small_strong") for title in strip_domain(titles)]
    name_w = float(min(max(widths, default=0), _WALL_NAME_MOST_W))
    shown = elide_names(titles, name_w, "small_strong")
    cells = max((len(row.gpus) for row in rows), default=0)
    return WallPlan(name_w, cells, dict(zip((row.name for row in rows), shown, strict=True)))


def paint_wall_row(painter: QPainter, rect: QRectF, row: NodeRow, wall: WallPlan) -> None:
    """Paint one node of a wall: name and cells, and any problem above the cells."""
    is_notable = row.condition is not Condition.WELL or row.subtitle_color == "live"
    inner = rect.adjusted(S2, 0, -S2, 0)
    left = float(int(inner.left() + wall.name_w + S2))
    name = QRectF(inner.left(), rect.top(), wall.name_w, rect.height())
    top, height = float(int(rect.center().y() - 10)), 21.0
    if is_notable:
        name = QRectF(inner.left(), rect.top() + 3, wall.name_w, 17)
        top, height = rect.top() + 20, 17.0
        reason = QRectF(left, rect.top() + 3, inner.right() - left, 16)
        text = row.subtitle if not row.notice else row.notice
        paint_text(painter, reason, text, "tiny", row.subtitle_color)
    role: theme.Role = "small_strong" if is_notable else "small"
    tone = row.condition.color_role if is_notable else "text2"
    paint_text(painter, name, wall.names.get(row.name, row.title), role, tone)
    count = max(wall.cells, 1)
    width = (inner.right() - left - (count - 1) * _WALL_CELL_GAP) / count
    width = max(3.0, min(float(int(width)), _WALL_CELL_MOST_W))
    if not row.gpus and row.processor is not None:
        _paint_meter(
            painter, QRectF(left, rect.center().y() - 2, inner.right() - left, 4), row.processor
        )
    wide, high, dress, ratio = int(width), int(height), _dress(), _ratio(painter)
    for place, cell in enumerate(row.gpus):
        share = 1.0 if cell.use_percent is None else cell.use_percent / 100
        tall = round(high * share) if cell.use == "ours" and not cell.problem else 0
        pixmap = _wall_cell(cell.use, bool(cell.problem), wide, high, tall, dress, ratio)
        painter.drawPixmap(QPointF(left + place * (width + _WALL_CELL_GAP), top), pixmap)


def runs(cells: Sequence[GpuCell]) -> list[tuple[int, int]]:
    """Neighbours with one owner, as (first, last)."""
    found: list[tuple[int, int]] = []
    for place, cell in enumerate(cells):
        before = cells[found[-1][0]] if found else None
        if before is not None and (before.owner, before.use) == (cell.owner, cell.use):
            found[-1] = (found[-1][0], place)
        else:
            found.append((place, place))
    return found


def _paint_meter(painter: QPainter, rect: QRectF, share: float) -> None:
    t = theme.current()
    radius = rect.height() / 2
    fill_round(painter, rect, t.q("sunken"), radius)
    used = QRectF(rect)
    used.setWidth(max(rect.height(), rect.width() * min(max(share, 0.0), 1.0)))
    fill_round(painter, used, t.q("text3"), radius)


def _paint_cell(painter: QPainter, rect: QRectF, cell: GpuCell) -> None:
    """Paint a cell with its figures: use at the left, temperature at the right."""
    share = (cell.use_percent or 0) / 100
    bar = round(rect.width() * min(share, 1.0)) if cell.use in ("ours", "other") else 0
    pixmap = _figure_cell(
        cell.use,
        bool(cell.problem),
        int(rect.width()),
        int(rect.height()),
        bar,
        _dress(),
        _ratio(painter),
    )
    painter.drawPixmap(rect.topLeft(), pixmap)
    if cell.use in ("gone", "unknown") or rect.width() < _FIGURE_FROM_W:
        return
    busy = cell.use != "free"
    wide = rect.width() >= _HEAT_FROM_W
    side = 6 if wide else 2
    inner = rect.adjusted(side, 0, -side, -3 if busy else 0)
    if (busy or cell.problem) and cell.use_percent is not None:
        tone = "warn" if cell.problem else "text"
        figure = use_figure(cell.use_percent, inner.width())
        paint_text(painter, inner, figure, "small_strong", tone, center=not wide)
    if cell.temperature_c is not None and (wide or not (busy or cell.problem)):
        role: theme.Role = "small_strong" if cell.problem else "tiny"
        tone = "warn" if cell.problem else "text2" if busy else "text3"
        heat = formats.degrees(cell.temperature_c)
        paint_text(painter, inner, heat, role, tone, right=wide, center=not wide)


def use_figure(percent: int, room: float) -> str:
    """Return ``92%``; without the unit if room is short, because half a figure is useless."""
    whole = f"{percent}%"
    return whole if text_width(whole, "small_strong") <= room else str(percent)


def _dress() -> str:
    """The part of a cache key that depends on theme and units."""
    t = theme.current()
    return f"{t.name}{t.high_contrast}{formats.units().temperature}"


def _ratio(painter: QPainter) -> float:
    return painter.device().devicePixelRatio()


def _picture(
    width: int, height: int, ratio: float, paint: Callable[[QPainter, QRectF], None]
) -> QPixmap:
    pixmap = QPixmap(round(width * ratio), round(height * ratio))
    pixmap.setDevicePixelRatio(ratio)
    pixmap.fill(Qt.GlobalColor.transparent)
    painter = QPainter(pixmap)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    paint(painter, QRectF(0, 0, width, height))
    painter.end()
    return pixmap


@lru_cache(maxsize=512)
def _wall_cell(
    use: GpuUse, unhealthy: bool, width: int, height: int, tall: int, _dress: str, ratio: float
) -> QPixmap:
    def paint(painter: QPainter, rect: QRectF) -> None:
        share = tall / height if use == "ours" else 1.0
        paint_gpu_cell(painter, rect, use, unhealthy=unhealthy, share=share)

    return _picture(width, height, ratio, paint)


@lru_cache(maxsize=1024)
def _figure_cell(
    use: GpuUse, unhealthy: bool, width: int, height: int, bar: int, _dress: str, ratio: float
) -> QPixmap:
    def paint(painter: QPainter, rect: QRectF) -> None:
        if use in ("free", "gone", "unknown") and not unhealthy:
            paint_gpu_cell(painter, rect, use, radius=R_CELL)
            return
        t = theme.current()
        path = QPainterPath()
        path.addRoundedRect(rect, R_CELL, R_CELL)
        painter.setClipPath(path)
        painter.fillRect(rect, t.q("surface") if unhealthy else t.tint(_FAMILIES.get(use, "idle")))
        if use == "other" and not unhealthy:
            # Faint, because figures are on it. The owner's name identifies it without colour.
            painter.setOpacity(0.22)
            paint_hatch(painter, rect, 1.2, 5.0)
            painter.setOpacity(1.0)
        tone = "warn_fill" if unhealthy else "live" if use == "ours" else "line_strong"
        painter.fillRect(QRectF(0, height - _BAR_H, bar, _BAR_H), t.q(tone))
        painter.setClipping(False)
        edge = "warn_fill" if unhealthy else tone if t.high_contrast else ""
        if edge:
            painter.setPen(QPen(t.q(edge), 2))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawRoundedRect(rect.adjusted(1, 1, -1, -1), R_CELL, R_CELL)

    return _picture(width, height, ratio, paint)


_FAMILIES = {"ours": "live", "other": "idle"}
