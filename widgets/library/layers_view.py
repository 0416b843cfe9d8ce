"""The layers of a model: as a table that can be sorted, as a graph, and their variances."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from PySide6.QtCore import Qt, Signal, Slot
from PySide6.QtWidgets import QTableView, QWidget

from backend.records.jobs.settings import name_and_unit
from backend.records.library.layers import Layer, LayerGraph, ModelLayers
from backend.records.library.variance import DepthVariance
from widgets.common import formats
from widgets.common.buttons import Button, SegmentedControl
from widgets.common.cards import Card, EmptyState
from widgets.common.fields import SearchField, SpinBox
from widgets.common.key_value_row import KeyValue, KeyValueRow
from widgets.common.labels import Label
from widgets.common.layout import SLACK, STRETCH, col, row
from widgets.common.panes import PageStack
from widgets.common.record_table_model import RowTableModel, TableColumn
from widgets.common.theme import CARD_PADDING, HEADED_CARD, S1, S2, S3
from widgets.common.view_style import ColumnHider, TableHeightLimit, share_column_width, style_view
from widgets.library.layer_graph import LayerGraphView
from widgets.plots.curve_data import CurveData
from widgets.plots.curve_panel import CurvePanel
from widgets.plots.image_export import PictureButton

_PAGES = (("table", "Table"), ("graph", "Graph"), ("variance", "Variance"))
_BATCH_SIZE = name_and_unit("batch_size")[0]
_MAX_BATCH = 1_000_000

_COLUMNS = (
    TableColumn[Layer]("Layer", lambda layer: layer.name, lambda layer: layer.name),
    TableColumn[Layer]("Kind", lambda layer: layer.kind),
    TableColumn[Layer](
        "Output", lambda layer: output_text(layer), lambda layer: output_text(layer)
    ),
    TableColumn[Layer](
        "Parameters",
        lambda layer: _count_text(layer.parameters),
        lambda layer: f"{_count_text(layer.parameters)}, {trained_text(layer)}",
        is_figure=True,
    ),
    TableColumn[Layer]("Trained", lambda layer: trained_text(layer)),
    TableColumn[Layer](
        "Multiply-adds",
        lambda layer: short_count(layer.multiply_adds or 0),
        lambda layer: _count_text(layer.multiply_adds),
        is_figure=True,
    ),
    TableColumn[Layer](
        "Memory", lambda layer: formats.memory(layer.activation_bytes), is_figure=True
    ),
)
_ORDERS: tuple[Callable[[Layer], Any], ...] = (
    lambda layer: layer.name,
    lambda layer: layer.kind,
    lambda layer: layer.output_shape or (),
    lambda layer: layer.parameters,
    lambda layer: trained_text(layer),
    lambda layer: layer.multiply_adds or 0,
    lambda layer: layer.activation_bytes,
)
_OUTPUT_COLUMN, _TRAINED_COLUMN, _WORK_COLUMN, _MEMORY_COLUMN = 2, 4, 5, 6


def output_text(layer: Layer) -> str:
    """Return ``1 × 32 × 8 × 8``, or that the layer did not run."""
    return "not run" if layer.output_shape is None else formats.shape(layer.output_shape)


def trained_text(layer: Layer) -> str:
    if not layer.parameters:
        return formats.NONE
    return "trained" if layer.is_trained else "frozen"


def short_count(value: int) -> str:
    """Return ``259 M``: three digits of a large number."""
    for factor, unit in ((10**12, "T"), (10**9, "G"), (10**6, "M"), (10**3, "k")):
        if value >= factor:
            return f"{formats.metric(value / factor)}{formats.GAP}{unit}"
    return formats.count(value) if value else formats.NONE


def _count_text(value: int | None) -> str:
    return formats.count(value) if value else formats.NONE


class LayerModel(RowTableModel[Layer]):
    """A model that is sorted by a column, or in the order of the forward pass."""

    def __init__(self) -> None:
        super().__init__(_COLUMNS)
        self._layers: tuple[Layer, ...] = ()
        self._order = (-1, Qt.SortOrder.AscendingOrder)

    def show_layers(self, layers: tuple[Layer, ...]) -> None:
        self._layers = layers
        self.sort(*self._order)

    def sort(self, column: int, order: Qt.SortOrder = Qt.SortOrder.AscendingOrder) -> None:
        self._order = column, order
        is_descending = order == Qt.SortOrder.DescendingOrder
        layers = (
            sorted(self._layers, key=_ORDERS[column], reverse=is_descending)
            if column >= 0
            else self._layers
        )
        self.set_records(layers)


class LayersView(QWidget):
    """The tab Layers of a model.

    Signals:
        variance_requested: Measure the variances by depth; answer with `show_variance`.

    Attributes:
        search, batch: The search of layers, and the batch size.
        graph, variance: The graph of the layers, and the variances by depth.
    """

    variance_requested = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._layers = ModelLayers(1)
        self._details = KeyValueRow()
        self._warnings = Label("", "body", "warn", wrap=True)
        self._page_picker = SegmentedControl(_PAGES, name="Shown as")
        self._page_picker.set_tip("variance", "Why does it not train?")
        self._page_picker.key_chosen.connect(self._show_page)
        self.search = SearchField("Layer or kind")
        self.search.searched.connect(self._search_layers)
        self._match_label = Label("", "small", "text2")
        self._fit_button = Button("Fit", icon="arrows-out", tip="Show the whole graph")
        self.batch = SpinBox(1, minimum=1, maximum=_MAX_BATCH, name=_BATCH_SIZE)
        self.batch.valueChanged.connect(self._refresh)
        self._model = LayerModel()
        table = self._table = QTableView()
        table.setModel(self._model)
        style_view(table, "Layers")
        share_column_width(table, 0)
        table.setTextElideMode(Qt.TextElideMode.ElideMiddle)
        table.horizontalHeader().setSortIndicator(-1, Qt.SortOrder.AscendingOrder)
        table.horizontalHeader().setSortIndicatorClearable(True)
        table.setSortingEnabled(True)
        # A tool tip of the graph has the hidden values.
        ColumnHider(table, (_TRAINED_COLUMN, _MEMORY_COLUMN, _OUTPUT_COLUMN, _WORK_COLUMN))
        card = Card((table, 1))
        TableHeightLimit(table, card, 2 * CARD_PADDING)
        rows = QWidget()
        rows.setLayout(col((card, 1), SLACK, gap=0))
        self.graph = LayerGraphView()
        self.search.returnPressed.connect(self.graph.center_next)
        self._fit_button.clicked.connect(self.graph.fit)
        self._no_graph = EmptyState("tree-structure", "")
        self._pages = PageStack()
        self.variance = VarianceView()
        self.no_variance = EmptyState("chart-line", "")
        self.no_variance.pressed.connect(self._measure_variance)
        self._variance_page: QWidget | None = None
        self._has_graph = False
        for page in (rows, self.graph, self._no_graph, self.variance, self.no_variance):
            self._pages.addWidget(page)
        batch_label = Label(_BATCH_SIZE, "small", "text2")
        self._layer_controls = (self.search, self._match_label, batch_label, self.batch)
        tools = row(
            *(self._page_picker, (self.search, 3), self._match_label, self._fit_button, STRETCH),
            *(batch_label, self.batch),
            gap=S2,
        )
        self._show_page("table")
        self.setLayout(col(Card(self._details, self._warnings), tools, (self._pages, 1), gap=S3))

    def show_layers(self, layers: ModelLayers) -> None:
        """Show the layers while their graph is being made."""
        self._layers = layers
        self._has_graph, self._variance_page = False, None
        self._no_graph.show_message("tree-structure", "Laying the graph out…")
        self._refresh()
        self._show_page(self._page_picker.key())

    def show_graph(self, graph: LayerGraph | str) -> None:
        """Show the graph, or the reason why there is no graph."""
        self._has_graph = isinstance(graph, LayerGraph)
        if isinstance(graph, LayerGraph):
            self.graph.show_graph(graph, self._layers.of_batch(self.batch.value()).layers)
            self._search_layers(self.search.text())
        else:
            self._no_graph.show_message("tree-structure", "No graph", graph)
        self._show_page(self._page_picker.key())

    def show_variance(self, variance: DepthVariance | str) -> None:
        """Show the variances, or the reason why there are no variances."""
        if isinstance(variance, DepthVariance):
            self.variance.show_variance(variance)
            self._variance_page = self.variance
        else:
            self.no_variance.show_message(
                "chart-line", "No variances", variance, button="Try again"
            )
        self._show_page(self._page_picker.key())

    @Slot()
    def _measure_variance(self) -> None:
        self._variance_page = self.no_variance
        self.no_variance.show_message("chart-line", "Running a step of one batch…")
        self.variance_requested.emit()

    @Slot()
    def _refresh(self) -> None:
        """Show the layers and figures for the selected batch size."""
        layers = self._layers.of_batch(self.batch.value())
        trained_parameters = sum(layer.parameters for layer in layers.layers if layer.is_trained)
        details = [
            KeyValue("Layers", formats.count(len(layers.layers))),
            KeyValue("Parameters", formats.count(layers.parameters)),
        ]
        if trained_parameters != layers.parameters:
            details.append(KeyValue("In trained layers", formats.count(trained_parameters)))
        if layers.multiply_adds is not None:
            details.append(KeyValue("Multiply-adds a sample", short_count(layers.multiply_adds)))
        details.append(KeyValue("Memory of all outputs", formats.memory(layers.activation_bytes)))
        self._details.set_items(details)
        self._warnings.setText(" ".join(layers.warnings))
        self._warnings.setVisible(bool(layers.warnings))
        self.graph.show_layers(layers.layers)
        self._search_layers(self.search.text())

    @Slot(str)
    def _show_page(self, key: str) -> None:
        is_graph, is_variance = key == "graph", key == "variance"
        self._fit_button.setVisible(is_graph)
        for control in self._layer_controls:
            control.setVisible(not is_variance)
        if not is_variance:
            self._pages.setCurrentIndex((1 if self._has_graph else 2) if is_graph else 0)
            return
        if self._variance_page is None:
            self._measure_variance()
        self._pages.setCurrentWidget(self._variance_page or self.no_variance)

    @Slot(str)
    def _search_layers(self, text: str) -> None:
        """Show the layers whose name or kind has the text; the graph marks them."""
        query = text.strip().casefold()
        layers = self._layers.of_batch(self.batch.value()).layers
        matches = tuple(
            layer
            for layer in layers
            if query in layer.name.casefold() or query in layer.kind.casefold()
        )
        self._model.show_layers(matches)
        self._match_label.setText(formats.count_of(len(matches), len(layers)) if query else "")
        self.graph.mark_layers([layer.name for layer in matches] if query else [])


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
