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
"""Ten minutes of readings at one per two seconds."""
_SPARK_H = 30
_MARGINS = (14, 9, 14, 9)


class History(QWidget):
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
        piece = QPolygonF()
        first = HISTORY_READINGS - len(self._values)
        for index, value in enumerate([*self._values, None]):
            if value is not None:
                height = plot.height() * min(max(value, 0.0), 1.0)
                piece.append(plot.bottomLeft() + QPointF((first + index) * step, -height))
            elif piece.size():
                self._draw(painter, piece, plot)
                piece = QPolygonF()

    def _draw(self, painter: QPainter, piece: QPolygonF, plot: QRectF) -> None:
        t = theme.current()
        area = QPolygonF(piece)
        area.append(QPointF(piece.at(piece.size() - 1).x(), plot.bottom()))
        area.append(QPointF(piece.at(0).x(), plot.bottom()))
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(t.curve(self._curve, 0.12))
        painter.drawPolygon(area)
        painter.setPen(round_pen(t.curve(self._curve), 2.0))
        painter.drawPolyline(piece)


class Meter(Card):
    """A share with its figure, text and history."""

    def __init__(self, title: str, curve: int = 0) -> None:
        self._figure = Label("–", "number")
        self._words = Label("", "small", "text2", elide="right")
        self._history = History(title, curve)
        head = row(Label(title, "strong"), STRETCH, self._figure)
        super().__init__(head, (self._history, 1), self._words, gap=S2)

    def show_share(self, share: float | None, words: str) -> None:
        self._figure.setText("–" if share is None else formats.percent(share))
        self._words.setText(words)
        self._history.append(share)

    def clear(self) -> None:
        """Clear for another node."""
        self._history.clear()


class GpuCard(Card):
    """One GPU: use, memory, temperature, power, and its user."""

    def __init__(self) -> None:
        self._name = Label("", "strong", elide="right")
        self._heat = Label("", "strong")
        self._use = Label("", "small_strong")
        self._words = Label("", "small", "text2", elide="right")
        self._power = Label("", "small", "text2")
        self._spark = Sparkline("Use of the GPU", height=_SPARK_H)
        self._mark = IconLabel("warning-fill", "warn", ICON_SMALL)
        self._reason = Label("", "small_strong", "warn", elide="right")
        self._who = Label("", "small", "text2", elide="right")
        # As high with a large figure as without, so that all cards of a page are alike.
        self._heat.setMinimumHeight(QFontMetrics(theme.font("heading")).height())
        self._owner = Label("", "small", "text2")
        super().__init__(
            row((self._name, 1), self._heat),
            row(self._use, (self._words, 1), self._power, gap=S1),
            self._spark,
            row((self._who, 1), self._owner, gap=5),
            row(self._mark, (self._reason, 1), gap=5),
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
        """Take a new reading, the recent use in percent (newest last), and the problem, if any.

        Args:
            jobs: Names of jobs by their id.
            ranks: By the id of a job and the UUID of a GPU.
        """
        reason = finding.description if finding is not None else ""
        cell = gpu_cell(gpu, jobs, reason)
        self.set_edge("warn" if reason else "")
        layout = self.layout()
        if layout is not None:
            # The margins compensate for a thicker edge.
            thick = int(bool(reason))
            layout.setContentsMargins(*(margin - thick for margin in _MARGINS))
        self._name.setText(f"GPU {gpu.index} · {gpu.name}")
        self._name.set_color_role("warn" if reason else "text")
        self._heat.setText(
            "–" if gpu.temperature_c is None else formats.temperature(gpu.temperature_c)
        )
        self._heat.set_role("heading" if reason else "strong")
        self._heat.set_color_role("warn" if reason else "text")
        self._use.setText("–" if gpu.use_percent is None else f"{gpu.use_percent}{formats.GAP}%")
        self._words.setText(f"use · {cell.memory}" if cell.memory != formats.NONE else "use")
        self._power.setText("" if gpu.power_w is None else f"{gpu.power_w:.0f}{formats.GAP}W")
        self._spark.set_values(use, "warn" if reason else "live")
        self._reason.setText(upper_first(reason))
        for part in (self._mark, self._reason):
            part.setVisible(bool(reason))
        run = next((one for one in gpu.compute_processes if one.run_tag), None)
        job, user = (run.run_tag.partition("/")[0], run.user) if run is not None else ("", "")
        number = (ranks or {}).get((job, gpu.uuid))
        rank = f"rank {number}" if number is not None else ""
        ours = " · ".join(part for part in (rank, cell.owner) if part)
        who = {"free": "free", "ours": ours}.get(cell.use, f"in use by {cell.owner}")
        who = ", ".join(part for part in (who, cell.display) if part)
        self._who.setText(who)
        self._owner.setText(user)
        self._who.set_color_role("text3" if cell.use == "free" else "text2")
        self.setAccessibleName(", ".join(part for part in (cell.description, rank, user) if part))
