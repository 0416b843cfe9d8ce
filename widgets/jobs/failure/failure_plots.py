"""Two plots: the curve that shows the cause, and the loss up to the failure."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QBoxLayout, QSizePolicy, QVBoxLayout, QWidget

from backend.records.jobs.checkpoint import Checkpoint
from backend.records.jobs.metric_names import VALIDATION
from backend.records.jobs.view import JobView
from widgets.common.cards import Card
from widgets.common.labels import Label
from widgets.common.layout import col, row
from widgets.common.theme import CARD_PADDING, HEADED_CARD, S2, S3
from widgets.jobs.failure.failure_causes import CauseCurves
from widgets.plots.annotations import VerticalMarker
from widgets.plots.axis_marks import AxisMark, MarkKind
from widgets.plots.curve_data import XAxis
from widgets.plots.curve_panel import CurvePanel
from widgets.plots.image_export import PictureButton
from widgets.plots.run_curves import RunCurves

_MIN_H, _MAX_H = 176, 420
"""The height of a plot; in a tall window the plot takes the unused height of the page."""
_TITLE_H = 32
_MARKER_MARGIN = 0.35
"""The share of the plot kept free to the right of the marker, for its label."""
_PEER_W, _LINE_W = 1.2, 2.2


class FailurePlots(QWidget):
    """Creates plots only when there is something to plot: most jobs do not fail.

    Signals:
        saved: A file name, and the bytes to save.
    """

    saved = Signal(str, object)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._shown_curves: CauseCurves | None = None
        self._cause: CurvePanel | None = None
        self._loss: CurvePanel | None = None
        self._cause_title, self._loss_title = (
            Label("", "strong", elide="middle"),
            Label("", "strong"),
        )
        self._cause_box = self._make_box(self._cause_title, "Cause", lambda: self._cause)
        self._loss_box = self._make_box(self._loss_title, "Loss", lambda: self._loss)
        self._cause_card = Card(self._cause_box, margins=HEADED_CARD)
        self._loss_card = Card(self._loss_box, margins=HEADED_CARD)
        self._box = row((self._cause_card, 1), (self._loss_card, 1), gap=S3)
        self.setLayout(self._box)
        for card in (self._cause_card, self._loss_card):
            card.hide()

    def _make_box(
        self, title: Label, plot_name: str, get_plot: Callable[[], CurvePanel | None]
    ) -> QVBoxLayout:
        picture_button = PictureButton(plot_name, lambda: _existing_plot(get_plot()))
        picture_button.saved.connect(self.saved)
        return col(row((title, 1), picture_button), gap=S2)

    @property
    def cause(self) -> CurvePanel | None:
        """Return the plot of the cause, None if no curve shows the cause."""
        return self._cause if not self._cause_card.isHidden() else None

    @property
    def loss(self) -> CurvePanel | None:
        return self._loss if not self._loss_card.isHidden() else None

    def set_narrow(self, is_narrow: bool) -> None:
        """Set whether the plots are below each other."""
        direction = (
            QBoxLayout.Direction.TopToBottom if is_narrow else QBoxLayout.Direction.LeftToRight
        )
        self._box.setDirection(direction)
        self._fit_height()

    def show_cause(self, curves: CauseCurves | None) -> None:
        """Show the curves of the cause; None hides their plot."""
        self._cause_card.setVisible(curves is not None)
        self._fit_height()
        if curves is None:
            return
        if self._cause is not None:
            self._cause_box.removeWidget(self._cause)
            self._cause.hide()
            self._cause.deleteLater()
        panel = CurvePanel(
            curves.title,
            axis=curves.axis,
            value_text=curves.value_text,
            scale=curves.scale,
            end_names=False,
        )
        self._cause = panel
        self._cause_title.setText(curves.title)
        _add_plot(panel, self._cause_box)
        is_single = len(curves.curves) == 1
        with panel.batch_redraws():
            for number, (name, data, is_main) in enumerate(curves.curves):
                panel.set_curve(
                    str(number),
                    name,
                    data,
                    0 if is_main else "line_strong",
                    smooth=False,
                    with_label=is_main,
                    width=_LINE_W if is_main else _PEER_W,
                    fill=is_single and is_main,
                )
            panel.set_fixed_x(curves.x0, curves.x1)
            panel.set_marks(vertical_markers=curves.markers, thresholds=curves.thresholds)

    def show_loss(self, view: JobView, run: RunCurves, checkpoints: Iterable[Checkpoint]) -> None:
        """Show the loss from the first step to the failure, not smoothed further."""
        data = run.get("loss")
        has_points = data is not None and len(data) > 1
        self._loss_card.setVisible(has_points)
        self._fit_height()
        if data is None or not has_points:
            return
        if self._loss is None:
            self._loss = CurvePanel("Loss", axis=XAxis.STEP, end_names=False)
            self._loss_title.setText("Loss")
            _add_plot(self._loss, self._loss_box)
        panel = self._loss
        validation = run.get(f"{VALIDATION}loss")
        with panel.batch_redraws():
            panel.clear()
            panel.set_smoothing(data.smoothing)
            panel.set_curve("loss", "train", data, 0)
            if validation is not None:
                panel.set_curve("validation", "validation", validation, 1, smooth=False)
            end = max(view.step, float(data.steps[-1]))
            panel.set_fixed_x(0.0, end * (1 + _MARKER_MARGIN))
            panel.fit()
            marks = [
                AxisMark(checkpoint.step, MarkKind.CHECKPOINT, f"checkpoint {checkpoint.name}")
                for checkpoint in checkpoints
            ]
            panel.set_marks(vertical_markers=[VerticalMarker(end, "failed here")], axis_marks=marks)

    def _fit_height(self) -> None:
        """Limit the height to the plots; hide the widget without plots."""
        visible_count = sum(not card.isHidden() for card in (self._cause_card, self._loss_card))
        rows = visible_count if self._box.direction() is QBoxLayout.Direction.TopToBottom else 1
        card_h = 2 * CARD_PADDING + _TITLE_H + S2 + _MAX_H
        self.setMaximumHeight(rows * card_h + (rows - 1) * S3 if visible_count else 0)
        self.setVisible(visible_count > 0)


def _add_plot(panel: CurvePanel, box: QVBoxLayout) -> None:
    """Add a plot that grows from the minimum height, whatever its size hint."""
    panel.setMinimumHeight(_MIN_H)
    panel.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Ignored)
    box.addWidget(panel, 1)
    # The layout shows it later: until then the card would have only its title.
    panel.show()


def _existing_plot(plot: CurvePanel | None) -> CurvePanel:
    """Return the plot; its card is visible only with its plot."""
    assert plot is not None
    return plot
