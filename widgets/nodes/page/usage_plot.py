"""The plot of the ledger: a bar for each month, divided by user, project or node."""

from __future__ import annotations

from PySide6.QtCore import QPointF, QRectF
from PySide6.QtGui import QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from backend.records.jobs.ledger import UsageTable, month_names
from widgets.common import theme
from widgets.common.painting import fill_round, paint_text, text_width
from widgets.common.theme import S1, S2, S3, S4
from widgets.plots import ticks

_HEIGHT, _AXIS_W, _HEAD_H, _TICKS_H = 190, 48, 26, 22
_MAX_BAR_W, _MAX_PARTS = 48, 7
_OTHERS = "others"
_UNITS = ((3600.0, "hours"), (60.0, "minutes"), (1.0, "seconds"))


class UsagePlot(QWidget):
    """Stacked bars of GPU hours, or of node hours if no run had a GPU."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._unit, self._names = "", list[str]()
        self._months: dict[str, dict[str, float]] = {}
        self.setFixedHeight(_HEIGHT)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setAccessibleName("Use by month")

    def show_table(self, table: UsageTable) -> None:
        """Draw the rows by month; the smallest parts are one."""
        has_gpus = any(row.gpu_s for row in table.rows)
        times = {
            (r.keys[0], table.text(r)): r.gpu_s if has_gpus else r.node_s for r in table.months
        }
        sizes = {table.text(row): row.gpu_s if has_gpus else row.node_s for row in table.rows}
        unit_s, unit = next(
            (u for u in _UNITS if max(sizes.values(), default=0.0) >= u[0]), _UNITS[0]
        )
        self._unit = f"{'GPU' if has_gpus else 'Node'} {unit}"
        names = sorted(sizes, key=lambda name: -sizes[name])
        self._names = names if len(names) <= _MAX_PARTS else [*names[: _MAX_PARTS - 1], _OTHERS]
        self._months = {
            month: dict.fromkeys(self._names, 0.0)
            for month in month_names(*sorted(month for month, _ in times))
        }
        for (month, name), seconds in times.items():
            parts = self._months[month]
            parts[name if name in parts else _OTHERS] += seconds / unit_s
        totals = (f"{m}: {sum(parts.values()):.1f}" for m, parts in self._months.items())
        self.setAccessibleDescription(f"{self._unit}. {'; '.join(totals)}")
        self.update()

    def paintEvent(self, _event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        max_total = max((sum(parts.values()) for parts in self._months.values()), default=0.0)
        if not max_total:
            text = "No run is on record in this period." if self._unit else ""
            paint_text(painter, QRectF(self.rect()), text, "small", "text3", center=True)
            return
        width, height = self.width() - _AXIS_W - S4, self.height() - _HEAD_H - _TICKS_H
        area = QRectF(_AXIS_W, _HEAD_H, width, height)
        scale = area.height() / (max_total * 1.05)
        painter.setPen(theme.current().q("grid"))
        for value, text in ticks.linear(0.0, max_total, 4):
            y = area.bottom() - value * scale
            painter.setPen(theme.current().q("grid"))
            painter.drawLine(QPointF(area.left(), y), QPointF(area.right(), y))
            label_box = QRectF(0, y - S2, _AXIS_W - S2, 2 * S2)
            paint_text(painter, label_box, text, "tiny", "text3", right=True)
        self._paint_bars(painter, area, scale)
        self._paint_legend(painter, area)

    def _paint_bars(self, painter: QPainter, area: QRectF, scale: float) -> None:
        slot_w = area.width() / len(self._months)
        bar_w = min(_MAX_BAR_W, slot_w - S2)
        # Of many months only some have room for their name.
        step = int((text_width("2026-12", "tiny") + S2) // slot_w) + 1
        for number, (month, parts) in enumerate(self._months.items()):
            x, y = area.left() + slot_w * (number + 0.5), area.bottom()
            for colour, name in enumerate(self._names):
                part_h = parts[name] * scale
                y -= part_h
                bar = QRectF(x - bar_w / 2, y, bar_w, part_h)
                fill_round(painter, bar, theme.current().curve(colour), 0)
            if number % step == 0:
                label_box = QRectF(x - slot_w * step / 2, area.bottom() + S1, slot_w * step, 2 * S2)
                paint_text(painter, label_box, month, "tiny", "text3", center=True)

    def _paint_legend(self, painter: QPainter, area: QRectF) -> None:
        x = S2 + paint_text(painter, QRectF(S2, 0, 200, 2 * S2), self._unit, "tiny", "text2") + S4
        for colour, name in enumerate(self._names):
            name_w = min(text_width(name, "tiny"), 120)
            if x + S3 + name_w > area.right():
                break
            fill_round(painter, QRectF(x, S1, S2, S2), theme.current().curve(colour), 2)
            label_box = QRectF(x + S3, 0, name_w, 2 * S2)
            paint_text(painter, label_box, name, "tiny", "text2")
            x += S3 + name_w + S3
