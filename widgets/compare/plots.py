"""The plots of Compare: one metric each, a curve per job, all on one x axis."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from PySide6.QtCore import QSize, Qt, QTimer, Signal, Slot
from PySide6.QtWidgets import QGridLayout, QMenu, QWidget

from backend.records.jobs.metric_labels import metric_label
from widgets.common import theme
from widgets.common.buttons import Button, IconButton
from widgets.common.cards import Card
from widgets.common.labels import Label, escape_ampersands
from widgets.common.layout import STRETCH, row
from widgets.common.theme import CARD_PADDING, HEADED_CARD, S2, S3
from widgets.plots.curve_data import XAxis
from widgets.plots.curve_panel import CurvePanel
from widgets.plots.export_menu import PictureButton
from widgets.plots.linked_cursor import HoverLink
from widgets.plots.run_curves import RunCurves, is_sparse

_PLOT_H, _PLOT_LEAST_H = 300, 200
_LOSS = "loss"
_FIRST_PLOTS, _MOST_PLOTS = 2, 8
_LONGEST = 36
MOST_SMOOTHING = 0.99


@dataclass(frozen=True)
class ShownRun:
    """A job and its curves, as the plots draw it."""

    key: str
    name: str
    colour: int
    curves: RunCurves


class _Panel(CurvePanel):
    def sizeHint(self) -> QSize:
        return QSize(400, _PLOT_H)

    def minimumSizeHint(self) -> QSize:
        return QSize(200, _PLOT_LEAST_H)


class _Plot(Card):
    """A plot with its metric as title; the user can choose another metric.

    Signals:
        changed: The user chose another metric.
        removed: The user closed the plot.
    """

    changed = Signal()
    removed = Signal()

    def __init__(self, link: HoverLink) -> None:
        self.shows = ""
        self.is_chosen = False
        self._offered: tuple[str, ...] = ()
        self.drawn: dict[str, tuple[object, ...]] = {}
        self.panel = _Panel("", link=link, several_runs=True)
        self.panel.set_empty_text("None of these jobs has this metric")
        self._choice = Button("", kind="quiet", icon="caret-down")
        self._choice.setFont(theme.font("strong"))
        self._choice.setLayoutDirection(Qt.LayoutDirection.RightToLeft)
        self._menu = QMenu(self._choice)
        self._choice.setMenu(self._menu)
        self.pictures = PictureButton("", lambda: self.panel)
        self.remove = IconButton("x", "Remove this plot")
        self._smoothed = Label("smoothed", "small", "text3")
        head = row(self._choice, self._smoothed, STRETCH, self.pictures, self.remove, gap=S2)
        # The text of a quiet button is inset from its edge: the card's padding begins there.
        margins = (CARD_PADDING - S2, *HEADED_CARD[1:])
        super().__init__(head, (self.panel, 1), gap=S2, margins=margins)
        self.remove.clicked.connect(self.removed)

    def say_smoothed(self, weight: float) -> None:
        """Say whether the values at the ends are smoothed; the table has the measured ones."""
        self._smoothed.setVisible(weight > 0 and not is_sparse(self.shows))

    def offer(self, metrics: Iterable[str]) -> None:
        """Set the metrics to choose from."""
        known = tuple(metrics)
        if known == self._offered:
            return
        self._offered = known
        self._menu.clear()
        for name in known:
            self._menu.addAction(escape_ampersands(_title(name)), partial(self._choose, name))

    def show_metric(self, metric: str) -> None:
        if metric != self.shows:
            self.shows = metric
            self.panel.clear()
            self.drawn.clear()
            self.panel.title = _title(metric)
            self.panel.setAccessibleName(self.panel.title)
            self.pictures.set_tip(f"Save the plot {self.panel.title}")
            title = self.panel.title
            short = title if len(title) <= _LONGEST else f"{title[: _LONGEST - 1]}…"
            self._choice.setText(short)
            self._choice.set_tip(f"{title}: choose what this plot shows")
            self.panel.fit()

    def _choose(self, metric: str) -> None:
        self.is_chosen = True
        self.show_metric(metric)
        self.changed.emit()


def _title(metric: str) -> str:
    """Return the title of a metric, which says whether it is of training or validation."""
    words = metric_label(metric)
    return words[:1].upper() + words[1:]


class ComparePlots(QWidget):
    """Two plots, or as many as the user adds.

    Signals:
        save_requested: A file name, and the bytes to save.
    """

    save_requested = Signal(str, object)

    def __init__(self, smoothing: float, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._link = HoverLink(self)
        self._runs: dict[str, ShownRun] = {}
        self._judged: tuple[str, ...] = ()
        self._axis = XAxis.EPOCH
        self._smoothing = smoothing
        self._log_x = self._log_y = False
        self._plots: list[_Plot] = []
        self._grid = QGridLayout(self)
        self._grid.setContentsMargins(0, 0, 0, 0)
        self._grid.setSpacing(S3)
        self._has_begun = False

    def prepare(self) -> None:
        """Create the first two plots, one at a time, before there are curves to draw.

        Not created earlier: a window that compares nothing does not need them.
        """
        if not self._plots:
            self._add()
            QTimer.singleShot(0, self._begin)

    # -- input

    def show_runs(self, runs: Sequence[ShownRun], judged: Sequence[str]) -> None:
        """Show these jobs in their colours.

        Args:
            judged: The metrics that choose the best checkpoint of these jobs.
        """
        if runs:
            self._begin()
        self._runs = {run.key: run for run in runs}
        self._judged = tuple(judged)
        self.refresh()

    @Slot()
    def refresh(self) -> None:
        """Draw what the curves hold now."""
        self._choose_by_itself(self._metrics())
        for plot in self._plots:
            self._draw(plot)

    def lift(self, key: str) -> None:
        """Draw one job's curves as usual and the others faint; "" draws all as usual."""
        for plot in self._plots:
            plot.panel.highlight(key)

    # -- display settings

    @property
    def axis(self) -> XAxis:
        return self._axis

    def set_axis(self, axis: XAxis) -> None:
        self._axis = axis
        for plot in self._plots:
            plot.panel.set_axis(axis)

    def set_smoothing(self, weight: float) -> None:
        self._smoothing = min(weight, MOST_SMOOTHING)
        for plot in self._plots:
            plot.panel.set_smoothing(self._smoothing)
            plot.say_smoothed(self._smoothing)

    def set_log_y(self, on: bool) -> None:
        self._log_y = on
        for plot in self._plots:
            plot.panel.set_log_y(on)

    def set_log_x(self, on: bool) -> None:
        self._log_x = on
        for plot in self._plots:
            plot.panel.set_log_x(on)

    @Slot()
    def fit(self) -> None:
        for plot in self._plots:
            plot.panel.fit()

    @Slot()
    def add(self) -> None:
        """Add a plot of a metric that is not shown yet."""
        if len(self._plots) < _MOST_PLOTS:
            plot = self._add()
            shown = {each.shows for each in self._plots}
            free = [name for name in self._metrics() if name not in shown]
            plot.is_chosen = True
            plot.show_metric(free[0] if free else self._plots[0].shows)
            self.refresh()

    def panels(self) -> Mapping[str, CurvePanel]:
        """Return the plots by their metrics."""
        return {plot.shows: plot.panel for plot in self._plots}

    # -- internals

    def _metrics(self) -> list[str]:
        known = dict.fromkeys(name for run in self._runs.values() for name in run.curves.names())
        # First the metric of the best checkpoint, then loss, the user's metrics, the built-in ones.
        first = [name for name in (*self._judged, "validation/loss", _LOSS) if name in known]
        rest = sorted(known, key=lambda name: (is_sparse(name), name))
        return list(dict.fromkeys((*first, *rest)))

    def _choose_by_itself(self, metrics: Sequence[str]) -> None:
        """Until the user chooses, show the metric of the best checkpoint and the training loss."""
        first = next((name for name in metrics if name != _LOSS), "")
        wanted = [first or _LOSS, _LOSS if _LOSS in metrics or not metrics else ""]
        for plot, metric in zip(self._plots, wanted, strict=False):
            if not plot.is_chosen and metric:
                plot.show_metric(metric)

    def _draw(self, plot: _Plot) -> None:
        panel = plot.panel
        plot.offer(self._metrics())
        plot.say_smoothed(self._smoothing)
        with panel.batch_redraws():
            for key in tuple(plot.drawn):
                if key not in self._runs or self._runs[key].curves.get(plot.shows) is None:
                    panel.remove_curve(key)
                    plot.drawn.pop(key, None)
            smooth = not is_sparse(plot.shows)
            for run in self._runs.values():
                data = run.curves.get(plot.shows)
                wanted = (run.name, run.colour, data)
                if data is not None and plot.drawn.get(run.key) != wanted:
                    plot.drawn[run.key] = wanted
                    panel.set_curve(run.key, run.name, data, run.colour, smooth=smooth)

    @Slot()
    def _begin(self) -> None:
        if not self._has_begun:
            self._has_begun = True
            while len(self._plots) < _FIRST_PLOTS:
                self._add()

    def _add(self) -> _Plot:
        plot = _Plot(self._link)
        plot.panel.set_axis(self._axis)
        plot.panel.set_smoothing(self._smoothing)
        plot.panel.set_log_x(self._log_x)
        plot.panel.set_log_y(self._log_y)
        plot.panel.x_range_changed.connect(self._follow)
        plot.panel.fit_requested.connect(self.fit)
        plot.changed.connect(self.refresh)
        plot.removed.connect(self._remove)
        plot.pictures.saved.connect(self.save_requested)
        self._plots.append(plot)
        self._lay_out()
        return plot

    @Slot()
    def _remove(self) -> None:
        plot = self.sender()
        if isinstance(plot, _Plot) and len(self._plots) > 1:
            self._plots.remove(plot)
            plot.hide()
            plot.deleteLater()
            self._lay_out()

    @Slot(float, float)
    def _follow(self, x0: float, x1: float) -> None:
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
            plot.remove.setVisible(len(self._plots) > 1)
        for column in range(2):
            self._grid.setColumnStretch(column, 1 if column < columns else 0)
