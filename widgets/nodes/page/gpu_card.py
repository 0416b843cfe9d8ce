"""A card for one GPU on a node's page, and meters for the rest of the node."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QFontMetrics, QPainter, QPaintEvent, QPolygonF
from PySide6.QtWidgets import QSizePolicy, QWidget

from backend.records.nodes.reading import Gpu, HealthFinding
from widgets.common import formats, theme
from widgets.common.cards import Card
from widgets.common.labels import IconLabel, Label
from widgets.common.layout import STRETCH, row
from widgets.common.painting import paint_text, round_pen
from widgets.common.theme import ICON_SMALL, S1, S2
from widgets.nodes.row.node_row import gpu_cell, upper_first
from widgets.plots.growable_array import Floats
from widgets.plots.sparkline import Sparkline

HISTORY_READINGS = 300
"""Ten minutes of readings, with a reading every two seconds."""
_SPARK_H = 30
_MARGINS = (14, 9, 14, 9)


class ShareHistory(QWidget):
    """A share over the last readings, newest at the right; None is a gap."""

    def __init__(self, title: str, curve: int = 0, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._values: deque[float | None] = deque(maxlen=HISTORY_READINGS)
        self._curve = curve
        self.setMinimumHeight(72)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        self.setAccessibleName(title)

    def append(self, share: float | None) -> None:
        self._values.append(share)
        self.update()

    def clear(self) -> None:
        self._values.clear()
        self.update()

    def paintEvent(self, _event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        t = theme.current()
        plot = QRectF(0, 6, self.width() - 40, self.height() - 12)
        for share, text in ((0.0, "0"), (0.5, "50 %"), (1.0, "100 %")):
            y = plot.bottom() - share * plot.height()
            painter.setPen(t.q("grid"))
            painter.drawLine(int(plot.left()), int(y), int(plot.right()), int(y))
            label = QRectF(plot.right() + 4, y - 8, 36, 16)
            paint_text(painter, label, text, "tiny", "text3")
        step = plot.width() / (HISTORY_READINGS - 1)
        segment = QPolygonF()
        offset = HISTORY_READINGS - len(self._values)
        for index, value in enumerate([*self._values, None]):
            if value is not None:
                height = plot.height() * min(max(value, 0.0), 1.0)
                segment.append(plot.bottomLeft() + QPointF((offset + index) * step, -height))
            elif segment.size():
                self._draw_segment(painter, segment, plot)
                segment = QPolygonF()

    def _draw_segment(self, painter: QPainter, segment: QPolygonF, plot: QRectF) -> None:
        t = theme.current()
        area = QPolygonF(segment)
        area.append(QPointF(segment.at(segment.size() - 1).x(), plot.bottom()))
        area.append(QPointF(segment.at(0).x(), plot.bottom()))
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(t.curve(self._curve, 0.12))
        painter.drawPolygon(area)
        painter.setPen(round_pen(t.curve(self._curve), 2.0))
        painter.drawPolyline(segment)


class Meter(Card):
    """A share with its figure, text and history."""

    def __init__(self, title: str, curve: int = 0) -> None:
        self._figure = Label("–", "number")
        self._detail = Label("", "small", "text2", elide="right")
        self._history = ShareHistory(title, curve)
        head = row(Label(title, "strong"), STRETCH, self._figure)
        super().__init__(head, (self._history, 1), self._detail, gap=S2)

    def show_share(self, share: float | None, detail: str) -> None:
        self._figure.setText("–" if share is None else formats.percent(share))
        self._detail.setText(detail)
        self._history.append(share)

    def clear(self) -> None:
        """Clear for another node."""
        self._history.clear()


class GpuCard(Card):
    """One GPU: use, memory, temperature, power, and its user."""

    def __init__(self) -> None:
        self._name = Label("", "strong", elide="right")
        self._temperature = Label("", "strong")
        self._use = Label("", "small_strong")
        self._memory = Label("", "small", "text2", elide="right")
        self._power = Label("", "small", "text2")
        self._spark = Sparkline("Use of the GPU", height=_SPARK_H)
        self._problem_icon = IconLabel("warning-fill", "warn", ICON_SMALL)
        self._reason = Label("", "small_strong", "warn", elide="right")
        self._holder = Label("", "small", "text2", elide="right")
        # As high with a large figure as without, so that all cards of a page are alike.
        self._temperature.setMinimumHeight(QFontMetrics(theme.font("heading")).height())
        self._user = Label("", "small", "text2")
        super().__init__(
            row((self._name, 1), self._temperature),
            row(self._use, (self._memory, 1), self._power, gap=S1),
            self._spark,
            row((self._holder, 1), self._user, gap=5),
            row(self._problem_icon, (self._reason, 1), gap=5),
            gap=5,
            margins=_MARGINS,
        )

    def show_gpu(
        self,
        gpu: Gpu,
        use: Floats,
        jobs: Mapping[str, str],
        finding: HealthFinding | None = None,
        ranks: Mapping[tuple[str, str], int] | None = None,
    ) -> None:
        """Show a new reading, the recent use in percent (newest last), and the problem, if any.

        Args:
            jobs: Names of jobs by their id.
            ranks: Ranks by the id of a job and the UUID of a GPU.
        """
        reason = finding.description if finding is not None else ""
        cell = gpu_cell(gpu, jobs, reason)
        self.set_edge("warn" if reason else "")
        layout = self.layout()
        if layout is not None:
            # The margins compensate for a thicker edge.
            extra_px = int(bool(reason))
            layout.setContentsMargins(*(margin - extra_px for margin in _MARGINS))
        self._name.setText(f"GPU {gpu.index} · {gpu.name}")
        self._name.set_color_role("warn" if reason else "text")
        self._temperature.setText(
            "–" if gpu.temperature_c is None else formats.temperature(gpu.temperature_c)
        )
        self._temperature.set_role("heading" if reason else "strong")
        self._temperature.set_color_role("warn" if reason else "text")
        self._use.setText("–" if gpu.use_percent is None else f"{gpu.use_percent}{formats.GAP}%")
        self._memory.setText(f"use · {cell.memory}" if cell.memory != formats.NONE else "use")
        self._power.setText("" if gpu.power_w is None else f"{gpu.power_w:.0f}{formats.GAP}W")
        self._spark.set_values(use, "warn" if reason else "live")
        self._reason.setText(upper_first(reason))
        for label in (self._problem_icon, self._reason):
            label.setVisible(bool(reason))
        run_process = next((process for process in gpu.compute_processes if process.run_tag), None)
        job, user = (
            (run_process.run_tag.partition("/")[0], run_process.user)
            if run_process is not None
            else ("", "")
        )
        rank_number = (ranks or {}).get((job, gpu.uuid))
        rank_text = f"rank {rank_number}" if rank_number is not None else ""
        job_text = " · ".join(label for label in (rank_text, cell.owner) if label)
        holder = {"free": "free", "ours": job_text}.get(cell.use, f"in use by {cell.owner}")
        holder = ", ".join(label for label in (holder, cell.display) if label)
        self._holder.setText(holder)
        self._user.setText(user)
        self._holder.set_color_role("text3" if cell.use == "free" else "text2")
        self.setAccessibleName(
            ", ".join(label for label in (cell.description, rank_text, user) if label)
        )
