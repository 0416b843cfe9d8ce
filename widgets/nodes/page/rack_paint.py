"""Paint a row of the rack: as a line of a table, or small as part of a wall of nodes.

A GPU is readable in grey: ours is plain with a solid bar, another user's is hatched, a free GPU
outlined, a GPU with a problem framed thickly, a missing GPU dotted. Cells come from a pixmap
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
_CELL_H, _CELL_GAP, _CELL_MAX_W = 23, 4, 140
_FIGURE_MIN_W, _TEMPERATURE_MIN_W = 34, 58
_NAME_MIN_W, _NAME_MAX_W, _NAME_SHARE = 132, 240, 0.22
_BLOCK_GAP, _METER_W, _NETWORK_W, _HEARTBEAT_W = 24, 74, 52, 54
_METER_H = 4
_NETWORK_MIN_W = 860
_WALL_CELL_GAP, _WALL_CELL_MAX_W, _WALL_NAME_MAX_W = 3, 28, 116
_BAR_H = 4


@dataclass(frozen=True)
class RackColumns:
    """The columns of the table, in pixels from its left edge."""

    width: float
    name_w: float
    cell_count: int
    cells_x: float
    cell_w: float
    meters_x: float
    meter_w: float
    has_network: bool
    is_tall: bool
    names: Mapping[str, str]
    """The text for each node."""

    @property
    def row_h(self) -> int:
        return RACK_ROW_H if self.is_tall else DENSE_ROW_H

    def cell_x(self, index: int) -> float:
        return self.cells_x + index * (self.cell_w + _CELL_GAP)

    def cell_rect(self, index: int, row: QRectF) -> QRectF:
        top = row.top() + (23 if self.is_tall else 6)
        return QRectF(row.left() + self.cell_x(index), top, self.cell_w, _CELL_H)

    def cell_at(self, x: float) -> int | None:
        """The GPU whose column is at `x` from the left edge."""
        for index in range(self.cell_count):
            if 0 <= x - self.cell_x(index) < self.cell_w:
                return index
        return None


def plan_columns(rows: Sequence[NodeRow], width: float, *, is_tall: bool) -> RackColumns:
    """Return the columns for these rows; a name longer than its column ends in "…"."""
    titles = [row.title for row in rows]
    name_widths = [text_width(title, "strong") for title in strip_domain(titles)]
    max_name_w = min(_NAME_MAX_W, max(_NAME_MIN_W, width * _NAME_SHARE))
    name_w = min(max([_NAME_MIN_W, *name_widths]), max_name_w)
    cell_count = max((len(row.gpus) for row in rows), default=0)
    has_network = width >= _NETWORK_MIN_W
    heartbeat_w = _HEARTBEAT_W + S3
    fixed_w = heartbeat_w + (_NETWORK_W + S3 if has_network else 0)
    meter_w = float(_METER_W)
    # Whole pixels: a cell's pixmap between two pixels is blurred.
    cells_x = float(PAD + round(name_w) + S3)
    free_w = width - PAD - cells_x - fixed_w - 2 * (meter_w + S3) - _BLOCK_GAP
    cell_w = 0.0
    if cell_count:
        cell_w = min(_CELL_MAX_W, (free_w - (cell_count - 1) * _CELL_GAP) / cell_count)
        cell_w = max(6.0, float(int(cell_w)))
    spare_w = free_w - cell_count * (cell_w + _CELL_GAP)
    # The meters take what narrow cells leave free, so that the row has no gap.
    meter_w += max(0.0, min(spare_w / 2, 220.0 if cell_count else 400.0))
    meters_x = width - PAD - fixed_w - 2 * (meter_w + S3)
    names = dict(
        zip((row.name for row in rows), elide_names(titles, name_w, "strong"), strict=True)
    )
    return RackColumns(
        width, name_w, cell_count, cells_x, cell_w, meters_x, meter_w, has_network, is_tall, names
    )


def paint_head(painter: QPainter, columns: RackColumns) -> None:
    """Paint the captions of the columns."""
    prefix = "GPU " if columns.cell_w >= _FIGURE_MIN_W + 8 else ""
    for index in range(columns.cell_count):
        cell = QRectF(columns.cell_x(index), 0, columns.cell_w, HEAD_H)
        paint_text(painter, cell, f"{prefix}{index}", "tiny", "text3", center=True)
    meter = QRectF(columns.meters_x, 0, columns.meter_w, HEAD_H)
    paint_text(painter, meter, "Processor", "tiny", "text3")
    paint_text(painter, meter.translated(columns.meter_w + S3, 0), "Memory", "tiny", "text3")
    right_x = columns.width - PAD
    if columns.has_network:
        network = QRectF(right_x - _HEARTBEAT_W - S3 - _NETWORK_W, 0, _NETWORK_W, HEAD_H)
        paint_text(painter, network, "Gbit/s", "tiny", "text3", right=True)
    heartbeat = QRectF(right_x - _HEARTBEAT_W, 0, _HEARTBEAT_W, HEAD_H)
    paint_text(painter, heartbeat, "Heartbeat", "tiny", "text3", right=True)


def paint_row(painter: QPainter, rect: QRectF, row: NodeRow, columns: RackColumns) -> None:
    """Paint one line of the table, without its background."""
    name_rect = QRectF(rect.left() + PAD, rect.top() + 9, columns.name_w, 18)
    subtitle_rect = name_rect.translated(0, 18)
    if not columns.is_tall:
        name_rect = QRectF(name_rect.left(), rect.top() + 3, name_rect.width(), 15)
        subtitle_rect = name_rect.translated(0, 14)
    title = columns.names.get(row.name, row.title)
    is_notable = row.condition is not Condition.WELL or row.subtitle_color == "live"
    if columns.is_tall or is_notable:
        role: theme.Role = "small_strong" if is_notable and columns.is_tall else "small"
        paint_text(painter, subtitle_rect, row.subtitle, role, row.subtitle_color)
    else:
        name_rect = QRectF(name_rect.left(), rect.top(), name_rect.width(), rect.height())
        free_w = columns.name_w - text_width(title, "strong") - S2
        if free_w >= text_width(row.subtitle, "small"):
            paint_text(painter, name_rect, row.subtitle, "small", "text3", right=True)
    paint_text(painter, name_rect, title, "strong", row.condition.color_role)
    if columns.is_tall:
        _paint_owners(painter, rect, row, columns)
    for index, cell in enumerate(row.gpus):
        cell_rect = columns.cell_rect(index, rect)
        _paint_cell(painter, cell_rect, cell)
    _paint_figures(painter, rect, row, columns)


def _paint_owners(painter: QPainter, rect: QRectF, row: NodeRow, columns: RackColumns) -> None:
    for start, end in owner_spans(row.gpus):
        cell = row.gpus[start]
        if cell.owner and cell.use in ("ours", "other"):
            left_x, right_x = columns.cell_x(start), columns.cell_x(end) + columns.cell_w
            owner_rect = QRectF(rect.left() + left_x + 1, rect.top() + 6, right_x - left_x, 16)
            paint_text(
                painter, owner_rect, cell.owner, "tiny", "live" if cell.use == "ours" else "text2"
            )


def _paint_figures(painter: QPainter, rect: QRectF, row: NodeRow, columns: RackColumns) -> None:
    left_x, right_x = rect.left() + columns.meters_x, rect.left() + columns.width - PAD
    if row.notice:
        text_rect = QRectF(left_x, rect.top(), right_x - left_x, rect.height())
        paint_text(painter, text_rect, row.notice, "small", row.condition.color_role)
        return
    center_y = rect.center().y()
    for share in (row.processor, row.memory):
        if share is not None:
            if columns.is_tall:
                text = QRectF(left_x, center_y - 17, columns.meter_w, 16)
                bar = QRectF(left_x, center_y + 5, columns.meter_w, _METER_H)
            else:
                text = QRectF(left_x, rect.top(), 40, rect.height())
                bar = QRectF(left_x + 42, center_y - 2, columns.meter_w - 42, _METER_H)
            paint_text(painter, text, formats.percent(share), "small", "text2")
            _paint_meter(painter, bar, share)
        left_x += columns.meter_w + S3
    if columns.has_network and row.network_bytes_per_s is not None:
        figure = f"{row.network_bytes_per_s * 8 / 1e9:.1f}"
        text_rect = QRectF(
            right_x - _HEARTBEAT_W - S3 - _NETWORK_W, rect.top(), _NETWORK_W, rect.height()
        )
        paint_text(painter, text_rect, figure, "small", "text2", right=True)
    if row.heartbeat:
        text_rect = QRectF(right_x - _HEARTBEAT_W, rect.top(), _HEARTBEAT_W, rect.height())
        paint_text(painter, text_rect, row.heartbeat, "small", "text3", right=True)


def paint_background(painter: QPainter, rect: QRectF, row: NodeRow, *, is_hovered: bool) -> None:
    """Paint the tint of a problem, or of the row under the pointer."""
    t = theme.current()
    family = row.condition.family
    if row.condition.is_notable:
        fill_round(painter, rect, t.tint(family), R_CONTROL)
        if t.high_contrast or is_hovered:
            painter.setPen(QPen(t.fill(family), 1))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawRoundedRect(rect.adjusted(0.5, 0.5, -0.5, -0.5), R_CONTROL, R_CONTROL)
    elif is_hovered:
        fill_round(painter, rect, t.q("hover"), R_CONTROL)


@dataclass(frozen=True)
class WallLayout:
    """The common layout of a wall's nodes: width of a name, the names, number of cells."""

    name_w: float
    cell_count: int
    names: Mapping[str, str]


def plan_wall(rows: Sequence[NodeRow]) -> WallLayout:
    """Return the same layout for every node, so that cells align."""
    titles = [row.title for row in rows]
    widths = [text_width(title, "small_strong") for title in strip_domain(titles)]
    name_w = float(min(max(widths, default=0), _WALL_NAME_MAX_W))
    names = elide_names(titles, name_w, "small_strong")
    cell_count = max((len(row.gpus) for row in rows), default=0)
    return WallLayout(name_w, cell_count, dict(zip((row.name for row in rows), names, strict=True)))


def paint_wall_row(painter: QPainter, rect: QRectF, row: NodeRow, wall: WallLayout) -> None:
    """Paint one node of a wall: name and cells, and any problem above the cells."""
    is_notable = row.condition is not Condition.WELL or row.subtitle_color == "live"
    area = rect.adjusted(S2, 0, -S2, 0)
    cells_x = float(int(area.left() + wall.name_w + S2))
    name_rect = QRectF(area.left(), rect.top(), wall.name_w, rect.height())
    top, height = float(int(rect.center().y() - 10)), 21.0
    if is_notable:
        name_rect = QRectF(area.left(), rect.top() + 3, wall.name_w, 17)
        top, height = rect.top() + 20, 17.0
        text_rect = QRectF(cells_x, rect.top() + 3, area.right() - cells_x, 16)
        text = row.subtitle if not row.notice else row.notice
        paint_text(painter, text_rect, text, "tiny", row.subtitle_color)
    role: theme.Role = "small_strong" if is_notable else "small"
    color_role = row.condition.color_role if is_notable else "text2"
    paint_text(painter, name_rect, wall.names.get(row.name, row.title), role, color_role)
    count = max(wall.cell_count, 1)
    width = (area.right() - cells_x - (count - 1) * _WALL_CELL_GAP) / count
    width = max(3.0, min(float(int(width)), _WALL_CELL_MAX_W))
    if not row.gpus and row.processor is not None:
        _paint_meter(
            painter,
            QRectF(cells_x, rect.center().y() - 2, area.right() - cells_x, 4),
            row.processor,
        )
    width_px, height_px, theme_key, ratio = (
        int(width),
        int(height),
        _theme_key(),
        _pixel_ratio(painter),
    )
    for index, cell in enumerate(row.gpus):
        share = 1.0 if cell.use_percent is None else cell.use_percent / 100
        bar_px = round(height_px * share) if cell.use == "ours" and not cell.problem else 0
        pixmap = _wall_cell(
            cell.use, bool(cell.problem), width_px, height_px, bar_px, theme_key, ratio
        )
        painter.drawPixmap(QPointF(cells_x + index * (width + _WALL_CELL_GAP), top), pixmap)


def owner_spans(cells: Sequence[GpuCell]) -> list[tuple[int, int]]:
    """Return neighbours with the same owner, as the first and the last index."""
    spans: list[tuple[int, int]] = []
    for index, cell in enumerate(cells):
        span_cell = cells[spans[-1][0]] if spans else None
        if span_cell is not None and (span_cell.owner, span_cell.use) == (cell.owner, cell.use):
            spans[-1] = (spans[-1][0], index)
        else:
            spans.append((index, index))
    return spans


def _paint_meter(painter: QPainter, rect: QRectF, share: float) -> None:
    t = theme.current()
    radius = rect.height() / 2
    fill_round(painter, rect, t.q("sunken"), radius)
    bar = QRectF(rect)
    bar.setWidth(max(rect.height(), rect.width() * min(max(share, 0.0), 1.0)))
    fill_round(painter, bar, t.q("text3"), radius)


def _paint_cell(painter: QPainter, rect: QRectF, cell: GpuCell) -> None:
    """Paint a cell with its figures: use at the left, temperature at the right."""
    share = (cell.use_percent or 0) / 100
    bar_px = round(rect.width() * min(share, 1.0)) if cell.use in ("ours", "other") else 0
    pixmap = _figure_cell(
        cell.use,
        bool(cell.problem),
        int(rect.width()),
        int(rect.height()),
        bar_px,
        _theme_key(),
        _pixel_ratio(painter),
    )
    painter.drawPixmap(rect.topLeft(), pixmap)
    if cell.use in ("gone", "unknown") or rect.width() < _FIGURE_MIN_W:
        return
    is_busy = cell.use != "free"
    is_wide = rect.width() >= _TEMPERATURE_MIN_W
    margin = 6 if is_wide else 2
    area = rect.adjusted(margin, 0, -margin, -3 if is_busy else 0)
    if (is_busy or cell.problem) and cell.use_percent is not None:
        color_role = "warn" if cell.problem else "text"
        figure = use_figure(cell.use_percent, area.width())
        paint_text(painter, area, figure, "small_strong", color_role, center=not is_wide)
    if cell.temperature_c is not None and (is_wide or not (is_busy or cell.problem)):
        role: theme.Role = "small_strong" if cell.problem else "tiny"
        color_role = "warn" if cell.problem else "text2" if is_busy else "text3"
        temperature = formats.degrees(cell.temperature_c)
        paint_text(painter, area, temperature, role, color_role, right=is_wide, center=not is_wide)


def use_figure(percent: int, max_width: float) -> str:
    """Return ``92%``; without the unit if space is short, because half a figure is useless."""
    figure = f"{percent}%"
    return figure if text_width(figure, "small_strong") <= max_width else str(percent)


def _theme_key() -> str:
    """The part of a cache key that depends on theme and units."""
    t = theme.current()
    return f"{t.name}{t.high_contrast}{formats.units().temperature}"


def _pixel_ratio(painter: QPainter) -> float:
    return painter.device().devicePixelRatio()


def _make_pixmap(
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
    use: GpuUse, is_unhealthy: bool, width: int, height: int, bar_px: int, _theme: str, ratio: float
) -> QPixmap:
    def paint(painter: QPainter, rect: QRectF) -> None:
        share = bar_px / height if use == "ours" else 1.0
        paint_gpu_cell(painter, rect, use, is_unhealthy=is_unhealthy, share=share)

    return _make_pixmap(width, height, ratio, paint)


@lru_cache(maxsize=1024)
def _figure_cell(
    use: GpuUse, is_unhealthy: bool, width: int, height: int, bar_px: int, _theme: str, ratio: float
) -> QPixmap:
    def paint(painter: QPainter, rect: QRectF) -> None:
        if use in ("free", "gone", "unknown") and not is_unhealthy:
            paint_gpu_cell(painter, rect, use, radius=R_CELL)
            return
        t = theme.current()
        path = QPainterPath()
        path.addRoundedRect(rect, R_CELL, R_CELL)
        painter.setClipPath(path)
        painter.fillRect(
            rect, t.q("surface") if is_unhealthy else t.tint(_FAMILIES.get(use, "idle"))
        )
        if use == "other" and not is_unhealthy:
            # Faint, because figures are on it. The owner's name identifies it without colour.
            painter.setOpacity(0.22)
            paint_hatch(painter, rect, 1.2, 5.0)
            painter.setOpacity(1.0)
        bar_color = "warn_fill" if is_unhealthy else "live" if use == "ours" else "line_strong"
        painter.fillRect(QRectF(0, height - _BAR_H, bar_px, _BAR_H), t.q(bar_color))
        painter.setClipping(False)
        edge_color = "warn_fill" if is_unhealthy else bar_color if t.high_contrast else ""
        if edge_color:
            painter.setPen(QPen(t.q(edge_color), 2))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawRoundedRect(rect.adjusted(1, 1, -1, -1), R_CELL, R_CELL)

    return _make_pixmap(width, height, ratio, paint)


_FAMILIES = {"ours": "live", "other": "idle"}
