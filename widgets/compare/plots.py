"""The plots of Compare: one metric each, a curve per job, all on one x axis."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from PySide6.QtCore import QSize, Qt, QTimer, Signal, Slot
from PySide6.QtWidgets import QGridLayout, QMenu, QWidget

from backend.records.jobs.metric_names import metric_label
from widgets.common import theme
from widgets.common.buttons import Button, IconButton
from widgets.common.cards import Card
from widgets.common.labels import Label, escape_ampersands
from widgets.common.layout import STRETCH, row
from widgets.common.theme import CARD_PADDING, HEADED_CARD, S2, S3
from widgets.plots.cursor_readout import HoverLink
from widgets.plots.curve_data import XAxis
from widgets.plots.curve_panel import CurvePanel
from widgets.plots.image_export import PictureButton
from widgets.plots.run_curves import RunCurves, is_sparse

_PLOT_H, _PLOT_MIN_H = 300, 200
_LOSS = "loss"
_INITIAL_PLOTS, _MAX_PLOTS = 2, 8
_TITLE_CHARS = 36
MAX_SMOOTHING = 0.99


@dataclass(frozen=True)
class PlottedRun:
    """A job and its curves, as the plots draw it."""

    key: str
    name: str
    colour: int
    curves: RunCurves


class _ComparePanel(CurvePanel):
    def sizeHint(self) -> QSize:
        return QSize(400, _PLOT_H)

    def minimumSizeHint(self) -> QSize:
        return QSize(200, _PLOT_MIN_H)


class _Plot(Card):
    """A plot with its metric as title; the user can choose another metric.

    Signals:
        changed: The user chose another metric.
        removal_requested: The user closed the plot.
    """

    changed = Signal()
    removal_requested = Signal()

    def __init__(self, link: HoverLink) -> None:
        self.metric_name = ""
        self.is_user_choice = False
        self._metrics: tuple[str, ...] = ()
        self.drawn_curves: dict[str, tuple[object, ...]] = {}
        self.panel = _ComparePanel("", link=link, several_runs=True)
        self.panel.set_empty_text("None of these jobs has this metric")
        self._metric_button = Button("", kind="quiet", icon="caret-down")
        self._metric_button.setFont(theme.font("strong"))
        self._metric_button.setLayoutDirection(Qt.LayoutDirection.RightToLeft)
        self._menu = QMenu(self._metric_button)
        self._metric_button.setMenu(self._menu)
        self.pictures = PictureButton("", lambda: self.panel)
        self.remove_button = IconButton("x", "Remove this plot")
        self._smoothing_label = Label("smoothed", "small", "text3")
        head = row(
            self._metric_button,
            self._smoothing_label,
            STRETCH,
            self.pictures,
            self.remove_button,
            gap=S2,
        )
        # The text of a quiet button is inset from its edge: the card's padding begins there.
        margins = (CARD_PADDING - S2, *HEADED_CARD[1:])
        super().__init__(head, (self.panel, 1), gap=S2, margins=margins)
        self.remove_button.clicked.connect(self.removal_requested)

    def show_smoothing(self, weight: float) -> None:
        """Show whether the values at the ends are smoothed; the table has the measured values."""
        self._smoothing_label.setVisible(weight > 0 and not is_sparse(self.metric_name))

    def set_metrics(self, metrics: Iterable[str]) -> None:
        """Set the metrics to choose from."""
        names = tuple(metrics)
        if names == self._metrics:
            return
        self._metrics = names
        self._menu.clear()
        for name in names:
            self._menu.addAction(
                escape_ampersands(_metric_title(name)), partial(self._choose, name)
            )

    def show_metric(self, metric: str) -> None:
        if metric != self.metric_name:
            self.metric_name = metric
            self.panel.clear()
            self.drawn_curves.clear()
            self.panel.title = _metric_title(metric)
            self.panel.setAccessibleName(self.panel.title)
            self.pictures.set_tip(f"Save the plot {self.panel.title}")
            title = self.panel.title
            button_text = title if len(title) <= _TITLE_CHARS else f"{title[: _TITLE_CHARS - 1]}…"
            self._metric_button.setText(button_text)
            self._metric_button.set_tip(f"{title}: choose what this plot shows")
            self.panel.fit()

    def _choose(self, metric: str) -> None:
        self.is_user_choice = True
        self.show_metric(metric)
        self.changed.emit()


def _metric_title(metric: str) -> str:
    """Return the title of a metric, with training or validation."""
    label = metric_label(metric)
    return label[:1].upper() + label[1:]


class ComparePlots(QWidget):
    """Two plots, or as many as the user adds.

    Signals:
        save_requested: A file name, and the bytes to save.
    """

    save_requested = Signal(str, object)

    def __init__(self, smoothing: float, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._link = HoverLink(self)
        self._runs: dict[str, PlottedRun] = {}
        self._rated_metrics: tuple[str, ...] = ()
        self.axis = XAxis.EPOCH
        self._smoothing = smoothing
        self._log_x = self._log_y = False
        self._plots: list[_Plot] = []
        self._grid = QGridLayout(self)
        self._grid.setContentsMargins(0, 0, 0, 0)
        self._grid.setSpacing(S3)
        self._has_plots = False

    def prepare(self) -> None:
        """Create the first two plots, one at a time, before there are curves to draw.

        Not created earlier, because a window without comparison does not need the plots.
        """
        if not self._plots:
            self._add_empty_plot()
            QTimer.singleShot(0, self._create_plots)

    # -- input

    def show_runs(self, runs: Sequence[PlottedRun], rated_metrics: Sequence[str]) -> None:
        """Show these jobs in their colours.

        Args:
            rated_metrics: The metrics that choose the best checkpoint of these jobs.
        """
        if runs:
            self._create_plots()
        self._runs = {run.key: run for run in runs}
        self._rated_metrics = tuple(rated_metrics)
        self.refresh()

    @Slot()
    def refresh(self) -> None:
        """Draw the present content of the curves."""
        self._choose_metrics(self._metric_names())
        for plot in self._plots:
            self._draw_plot(plot)

    def highlight_job(self, key: str) -> None:
        """Draw one job's curves as usual and all other curves faint; "" draws all as usual."""
        for plot in self._plots:
            plot.panel.highlight(key)

    # -- display settings

    def set_axis(self, axis: XAxis) -> None:
        self.axis = axis
        for plot in self._plots:
            plot.panel.set_axis(axis)

    def set_smoothing(self, weight: float) -> None:
        self._smoothing = min(weight, MAX_SMOOTHING)
        for plot in self._plots:
            plot.panel.set_smoothing(self._smoothing)
            plot.show_smoothing(self._smoothing)

    def set_log_y(self, is_log: bool) -> None:
        self._log_y = is_log
        for plot in self._plots:
            plot.panel.set_log_y(is_log)

    def set_log_x(self, is_log: bool) -> None:
        self._log_x = is_log
        for plot in self._plots:
            plot.panel.set_log_x(is_log)

    @Slot()
    def fit(self) -> None:
        for plot in self._plots:
            plot.panel.fit()

    @Slot()
    def add_plot(self) -> None:
        """Add a plot of a metric that is not shown yet."""
        if len(self._plots) < _MAX_PLOTS:
            plot = self._add_empty_plot()
            shown_metrics = {p.metric_name for p in self._plots}
            unused_metrics = [name for name in self._metric_names() if name not in shown_metrics]
            plot.is_user_choice = True
            plot.show_metric(unused_metrics[0] if unused_metrics else self._plots[0].metric_name)
            self.refresh()

    def panels(self) -> Mapping[str, CurvePanel]:
        """Return the plots by their metrics."""
        return {plot.metric_name: plot.panel for plot in self._plots}

    # -- internals

    def _metric_names(self) -> list[str]:
        names = dict.fromkeys(name for run in self._runs.values() for name in run.curves.names())
        # First the metric of the best checkpoint, then loss, the user's, the built-in metrics.
        preferred_names = [
            name for name in (*self._rated_metrics, "validation/loss", _LOSS) if name in names
        ]
        sorted_names = sorted(names, key=lambda name: (is_sparse(name), name))
        return list(dict.fromkeys((*preferred_names, *sorted_names)))

    def _choose_metrics(self, metrics: Sequence[str]) -> None:
        """Show the metric of the best checkpoint and the training loss until the user chooses."""
        first_metric = next((name for name in metrics if name != _LOSS), "")
        default_metrics = [first_metric or _LOSS, _LOSS if _LOSS in metrics or not metrics else ""]
        for plot, metric in zip(self._plots, default_metrics, strict=False):
            if not plot.is_user_choice and metric:
                plot.show_metric(metric)

    def _draw_plot(self, plot: _Plot) -> None:
        panel = plot.panel
        plot.set_metrics(self._metric_names())
        plot.show_smoothing(self._smoothing)
        with panel.batch_redraws():
            for key in tuple(plot.drawn_curves):
                if key not in self._runs or self._runs[key].curves.get(plot.metric_name) is None:
                    panel.remove_curve(key)
                    plot.drawn_curves.pop(key, None)
            smooth = not is_sparse(plot.metric_name)
            for run in self._runs.values():
                data = run.curves.get(plot.metric_name)
                drawn_key = (run.name, run.colour, data)
                if data is not None and plot.drawn_curves.get(run.key) != drawn_key:
                    plot.drawn_curves[run.key] = drawn_key
                    panel.set_curve(run.key, run.name, data, run.colour, smooth=smooth)

    @Slot()
    def _create_plots(self) -> None:
        if not self._has_plots:
            self._has_plots = True
            while len(self._plots) < _INITIAL_PLOTS:
                self._add_empty_plot()

    def _add_empty_plot(self) -> _Plot:
        plot = _Plot(self._link)
        plot.panel.set_axis(self.axis)
        plot.panel.set_smoothing(self._smoothing)
        plot.panel.set_log_x(self._log_x)
        plot.panel.set_log_y(self._log_y)
        plot.panel.x_range_changed.connect(self._follow_range)
        plot.panel.fit_requested.connect(self.fit)
        plot.changed.connect(self.refresh)
        plot.removal_requested.connect(self._remove_plot)
        plot.pictures.saved.connect(self.save_requested)
        self._plots.append(plot)
        self._lay_out()
        return plot

    @Slot()
    def _remove_plot(self) -> None:
        plot = self.sender()
        if isinstance(plot, _Plot) and len(self._plots) > 1:
            self._plots.remove(plot)
            plot.hide()
            plot.deleteLater()
            self._lay_out()

    @Slot(float, float)
    def _follow_range(self, x0: float, x1: float) -> None:
        """Show the same x range in all plots."""
        for plot in self._plots:
            if plot.panel is not self.sender():
                plot.panel.set_x_range(x0, x1)

    def _lay_out(self) -> None:
        while self._grid.takeAt(0) is not None:
            pass
        columns = min(len(self._plots), 2)
        for index, plot in enumerate(self._plots):
            self._grid.addWidget(plot, index // columns, index % columns)
            plot.remove_button.setVisible(len(self._plots) > 1)
        for column in range(2):
            self._grid.setColumnStretch(column, 1 if column < columns else 0)
