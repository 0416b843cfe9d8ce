"""The layers of a model: as a table that can be sorted, as a graph, and their variances."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from PySide6.QtCore import Qt, Signal, Slot
from PySide6.QtWidgets import QTableView, QWidget

from backend.records.jobs.settings import name_and_unit
from backend.records.library.layer_graph import LayerGraph
from backend.records.library.layers import Layer, ModelLayers
from backend.records.library.variance import DepthVariance
from widgets.common import formats
from widgets.common.buttons import Button, SegmentedControl
from widgets.common.cards import Card, EmptyState
from widgets.common.fields import SearchField, SpinBox
from widgets.common.key_value_row import KeyValue, KeyValueRow
from widgets.common.labels import Label
from widgets.common.layout import SLACK, STRETCH, col, row
from widgets.common.page_stack import PageStack
from widgets.common.record_table_model import RowTableModel, TableColumn
from widgets.common.theme import CARD_PADDING, S2, S3
from widgets.common.view_style import TableHeightLimit, ColumnHider, style_view, share_column_width
from widgets.library.layer_graph import LayerGraphView
from widgets.library.variance_view import VarianceView

_PAGES = (("table", "Table"), ("graph", "Graph"), ("variance", "Variance"))
_BATCH_SIZE = name_and_unit("batch_size")[0]
_MOST_BATCH = 1_000_000

_COLUMNS = (
    TableColumn[Layer]("Layer", lambda one: one.name, lambda one: one.name),
    TableColumn[Layer]("Kind", lambda one: one.kind),
    TableColumn[Layer]("Output", lambda one: output_words(one), lambda one: output_words(one)),
    TableColumn[Layer](
        "Parameters",
        lambda one: _figure(one.parameters),
        lambda one: f"{_figure(one.parameters)}, {trained_words(one)}",
        is_figure=True,
    ),
    TableColumn[Layer]("Trained", lambda one: trained_words(one)),
    TableColumn[Layer](
        "Multiply-adds",
        lambda one: short_count(one.multiply_adds or 0),
        lambda one: _figure(one.multiply_adds),
        is_figure=True,
    ),
    TableColumn[Layer]("Memory", lambda one: formats.memory(one.activation_bytes), is_figure=True),
)
_ORDERS: tuple[Callable[[Layer], Any], ...] = (
    lambda one: one.name,
    lambda one: one.kind,
    lambda one: one.output_shape or (),
    lambda one: one.parameters,
    lambda one: trained_words(one),
    lambda one: one.multiply_adds or 0,
    lambda one: one.activation_bytes,
)
_OUTPUT_COLUMN, _TRAINED_COLUMN, _WORK_COLUMN, _MEMORY_COLUMN = 2, 4, 5, 6


def output_words(layer: Layer) -> str:
    """Return ``1 × 32 × 8 × 8``, or that the layer did not run."""
    return "not run" if layer.output_shape is None else formats.shape(layer.output_shape)


def trained_words(layer: Layer) -> str:
    if not layer.parameters:
        return formats.NONE
    return "trained" if layer.trained else "frozen"


def short_count(value: int) -> str:
    """Return ``259 M``: three digits of a large number."""
    for each, unit in ((10**12, "T"), (10**9, "G"), (10**6, "M"), (10**3, "k")):
        if value >= each:
            return f"{formats.metric(value / each)}{formats.GAP}{unit}"
    return formats.count(value) if value else formats.NONE


def _figure(value: int | None) -> str:
    return formats.count(value) if value else formats.NONE


class LayerModel(RowTableModel[Layer]):
    """A model that is sorted by a column, or in the order of the forward pass."""

    def __init__(self) -> None:
        super().__init__(_COLUMNS)
        self._all: tuple[Layer, ...] = ()
        self._order = (-1, Qt.SortOrder.AscendingOrder)

    def show_layers(self, layers: tuple[Layer, ...]) -> None:
        self._all = layers
        self.sort(*self._order)

    def sort(self, column: int, order: Qt.SortOrder = Qt.SortOrder.AscendingOrder) -> None:
        self._order = column, order
        falls = order == Qt.SortOrder.DescendingOrder
        shown = sorted(self._all, key=_ORDERS[column], reverse=falls) if column >= 0 else self._all
        self.set_records(shown)


class LayersView(QWidget):
    """The tab Layers of a model.

    Signals:
        variance_requested: Measure the variances by depth; answer with `show_variance`.

    Attributes:
        search, batch: Which layers are listed, for which batch size.
        graph, variance: Their picture, and the variances by depth.
    """

    variance_requested = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._shown = ModelLayers(1)
        self._facts = KeyValueRow()
        self._warnings = Label("", "body", "warn", wrap=True)
        self._as = SegmentedControl(_PAGES, name="Shown as")
        self._as.set_tip("variance", "Why does it not train?")
        self._as.key_chosen.connect(self._choose)
        self.search = SearchField("Layer or kind")
        self.search.searched.connect(self._search)
        self.search.returnPressed.connect(self._next)
        self._matches = Label("", "small", "text2")
        self._fit = Button("Fit", icon="arrows-out", tip="Show the whole graph")
        self.batch = SpinBox(1, minimum=1, maximum=_MOST_BATCH, name=_BATCH_SIZE)
        self.batch.valueChanged.connect(self._show)
        self._model = LayerModel()
        table = self._table = QTableView()
        table.setModel(self._model)
        style_view(table, "Layers")
        share_column_width(table, 0)
        table.setTextElideMode(Qt.TextElideMode.ElideMiddle)
        table.horizontalHeader().setSortIndicator(-1, Qt.SortOrder.AscendingOrder)
        table.horizontalHeader().setSortIndicatorClearable(True)
        table.setSortingEnabled(True)
        # A tool tip of the graph has the rest.
        ColumnHider(table, (_TRAINED_COLUMN, _MEMORY_COLUMN, _OUTPUT_COLUMN, _WORK_COLUMN))
        card = Card((table, 1))
        TableHeightLimit(table, card, 2 * CARD_PADDING)
        rows = QWidget()
        rows.setLayout(col((card, 1), SLACK, gap=0))
        self.graph = LayerGraphView()
        self._fit.clicked.connect(self.graph.fit)
        self._no_graph = EmptyState("tree-structure", "")
        self._pages = PageStack()
        self.variance = VarianceView()
        self.no_variance = EmptyState("chart-line", "")
        self.no_variance.pressed.connect(self._measure)
        self._of_variance: QWidget | None = None
        self._has_graph = False
        for page in (rows, self.graph, self._no_graph, self.variance, self.no_variance):
            self._pages.addWidget(page)
        batch_label = Label(_BATCH_SIZE, "small", "text2")
        self._of_layers = (self.search, self._matches, batch_label, self.batch)
        tools = row(
            *(self._as, (self.search, 3), self._matches, self._fit, STRETCH),
            *(batch_label, self.batch),
            gap=S2,
        )
        self._choose("table")
        self.setLayout(col(Card(self._facts, self._warnings), tools, (self._pages, 1), gap=S3))

    def show_layers(self, layers: ModelLayers) -> None:
        """Show the layers, and that their graph is being made."""
        self._shown = layers
        self._has_graph, self._of_variance = False, None
        self._no_graph.show_message("tree-structure", "Laying the graph out…")
        self._show()
        self._choose(self._as.key())

    def show_graph(self, graph: LayerGraph | str) -> None:
        """Show the graph, or why there is none."""
        self._has_graph = isinstance(graph, LayerGraph)
        if isinstance(graph, LayerGraph):
            self.graph.show_graph(graph, self._shown.of_batch(self.batch.value()).layers)
            self._search(self.search.text())
        else:
            self._no_graph.show_message("tree-structure", "No graph", graph)
        self._choose(self._as.key())

    def show_variance(self, found: DepthVariance | str) -> None:
        """Show the variances, or why there are none."""
        if isinstance(found, DepthVariance):
            self.variance.show_variance(found)
            self._of_variance = self.variance
        else:
            self.no_variance.show_message("chart-line", "No variances", found, button="Try again")
        self._choose(self._as.key())

    @Slot()
    def _measure(self) -> None:
        self._of_variance = self.no_variance
        self.no_variance.show_message("chart-line", "Running a step of one batch…")
        self.variance_requested.emit()

    @Slot()
    def _show(self) -> None:
        """Show what depends on the batch size, too."""
        shown = self._shown.of_batch(self.batch.value())
        trained = sum(one.parameters for one in shown.layers if one.trained)
        facts = [
            KeyValue("Layers", formats.count(len(shown.layers))),
            KeyValue("Parameters", formats.count(shown.parameters)),
        ]
        if trained != shown.parameters:
            facts.append(KeyValue("In trained layers", formats.count(trained)))
        if shown.multiply_adds is not None:
            facts.append(KeyValue("Multiply-adds a sample", short_count(shown.multiply_adds)))
        facts.append(KeyValue("Memory of all outputs", formats.memory(shown.activation_bytes)))
        self._facts.set_items(facts)
        self._warnings.setText(" ".join(shown.warnings))
        self._warnings.setVisible(bool(shown.warnings))
        self.graph.show_layers(shown.layers)
        self._search(self.search.text())

    @Slot(str)
    def _choose(self, key: str) -> None:
        is_graph, is_variance = key == "graph", key == "variance"
        self._fit.setVisible(is_graph)
        for part in self._of_layers:
            part.setVisible(not is_variance)
        if not is_variance:
            self._pages.setCurrentIndex((1 if self._has_graph else 2) if is_graph else 0)
            return
        if self._of_variance is None:
            self._measure()
        self._pages.setCurrentWidget(self._of_variance or self.no_variance)

    @Slot(str)
    def _search(self, text: str) -> None:
        """Show the layers whose name or kind has the text; the graph marks them."""
        wanted = text.strip().casefold()
        shown = self._shown.of_batch(self.batch.value()).layers
        found = tuple(
            one for one in shown if wanted in one.name.casefold() or wanted in one.kind.casefold()
        )
        self._model.show_layers(found)
        self._matches.setText(formats.count_of(len(found), len(shown)) if wanted else "")
        self.graph.mark([one.name for one in found] if wanted else [])

    @Slot()
    def _next(self) -> None:
        self.graph.centre_next()
