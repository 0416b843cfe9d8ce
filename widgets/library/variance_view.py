"""The variance of activations and gradients by depth, and what it means for training."""

from __future__ import annotations

import math

from PySide6.QtWidgets import QWidget

from backend.records.library.variance import DepthVariance
from widgets.common.cards import Card
from widgets.common.labels import Label
from widgets.common.layout import col, row
from widgets.common.theme import HEADED_CARD, S1, S2, S3
from widgets.plots.curve_data import CurveData
from widgets.plots.curve_panel import CurvePanel
from widgets.plots.export_menu import PictureButton

_TITLE = "Variance of activations and gradients by depth"
_AXIS = "Layers with weights, from the input to the output. Variance of one batch, before training."


class VarianceView(QWidget):
    """A sentence, and a curve each for activations and gradients."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._variance = DepthVariance()
        self.summary = Label("", "strong", wrap=True, selectable=True)
        self._warnings = Label("", "small", "warn", wrap=True)
        self.panel = CurvePanel(_TITLE, x_text=self._layer_at)
        self.panel.set_log_y(True)
        self.pictures = PictureButton("of the variances", lambda: self.panel)
        plot = Card((self.panel, 1), Label(_AXIS, "small", "text3", wrap=True), gap=S1)
        head = row((self.summary, 1), self.pictures, top=True)
        summary_card = Card(head, self._warnings, gap=S2, margins=HEADED_CARD)
        self.setLayout(col(summary_card, (plot, 1), gap=S3))

    def show_variance(self, variance: DepthVariance) -> None:
        self._variance = variance
        is_healthy, summary = variance.judge()
        self.summary.setText(summary)
        self.summary.set_color_role("text" if is_healthy else "warn")
        self._warnings.setText(" ".join(variance.warnings))
        self._warnings.setVisible(bool(variance.warnings))
        positions = list(range(1, len(variance.layers) + 1))
        with self.panel.batch_redraws():
            for colour, (name, values) in enumerate(
                (
                    ("Activations", [layer.activation for layer in variance.layers]),
                    ("Gradients", [layer.gradient for layer in variance.layers]),
                )
            ):
                data = CurveData()
                data.extend(positions, [math.nan if v is None else v for v in values])
                self.panel.set_curve(name, name, data, colour, smooth=False)
            self.panel.fit()

    def _layer_at(self, position: float) -> str:
        number = round(position)
        if not 1 <= number <= len(self._variance.layers):
            return ""
        layer = self._variance.layers[number - 1]
        return f"layer {number} · {layer.name} · {layer.kind}"
