"""The tab Layers of a model: the table, the graph, the search, and the requests for them."""

import pytest
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QWheelEvent
from PySide6.QtWidgets import QApplication, QTableView

from backend.records.library.item import Combination, Kind, LibraryItem
from backend.records.library.layers import GraphEdge, GraphNode, Layer, LayerGraph, ModelLayers
from backend.records.library.variance import DepthVariance, LayerVariance
from tests.windows import (
    find_button,
    find_only,
    finish_timers,
    open_tab,
    show_widget,
    visible_texts,
)
from widgets.common import formats
from widgets.common.buttons import SegmentedControl, UnderlinedTabs
from widgets.common.panes import PageStack
from widgets.library.layer_graph import LayerGraphView, kind_color
from widgets.library.layers_view import LayersView, short_count
from widgets.library.library_page import LibraryPage
from widgets.library.trial_pages import Trial

LAYERS = ModelLayers(
    1,
    (
        Layer("stem", "Conv2d", (1, 4, 8, 8), 40, 2304, 1024, False),
        Layer("act", "ReLU", (1, 4, 8, 8), 0, 0, 1024, False, ("stem",)),
        Layer("head", "Linear", (1, 10), 2570, 2560, 40, True, ("act",)),
        Layer("never", "Linear", None, 6, 0, 0, True),
    ),
)


def layer_chain(count):
    """A graph of layers below each other, with a line from each to the next."""
    nodes = [GraphNode(f"layer{n}", 110, 40 + 70 * n) for n in range(count)]
    edges = [
        GraphEdge((110, y + 22, 110, y + 30, 110, y + 40, 110, y + 44, *(110, y + 48) * 3))
        for y in (node.y for node in nodes[:-1])
    ]
    layers = [Layer(node.name, "Conv2d", (1, 4), 4, 4, 4, True) for node in nodes]
    return LayerGraph(220, 70 * count, tuple(nodes), tuple(edges)), layers


@pytest.fixture
def view(qtbot):
    view = show_widget(qtbot, LayersView(), 1000, 700)
    view.show_layers(LAYERS)
    return view


def column_texts(view, column=0):
    model = view._model
    return [model.index(row, column).data() for row in range(model.rowCount())]


def test_the_table_has_every_layer_in_the_order_in_which_they_ran(view, qtmodeltester):
    qtmodeltester.check(view._model)
    assert column_texts(view) == ["stem", "act", "head", "never"]
    assert column_texts(view, 2) == ["1 × 4 × 8 × 8", "1 × 4 × 8 × 8", "1 × 10", "not run"]
    assert column_texts(view, 4) == ["frozen", "–", "trained", "trained"]


def test_a_click_on_a_column_sorts_and_a_third_brings_the_order_back(view):
    header = find_only(QTableView, view).horizontalHeader()
    header.setSortIndicator(3, Qt.SortOrder.DescendingOrder)
    assert column_texts(view) == ["head", "stem", "never", "act"]
    header.setSortIndicator(3, Qt.SortOrder.AscendingOrder)
    assert column_texts(view) == ["act", "never", "stem", "head"]
    header.setSortIndicator(-1, Qt.SortOrder.AscendingOrder)
    assert column_texts(view) == ["stem", "act", "head", "never"]


def test_memory_and_shapes_are_those_of_the_chosen_batch_size(view):
    view.batch.setValue(1000)
    assert column_texts(view, 2)[0] == formats.shape((1000, 4, 8, 8))
    assert LAYERS.of_batch(1000).activation_bytes == 1000 * LAYERS.activation_bytes
    assert view._layers is LAYERS, "nothing was computed again"


def test_the_search_keeps_matching_layers_in_the_table_and_marks_them_in_the_graph(view, qtbot):
    graph, _ = layer_chain(2)
    nodes = tuple(
        GraphNode(name, *position)
        for name, position in zip(("stem", "head"), ((110, 40), (110, 900)), strict=True)
    )
    view.show_graph(LayerGraph(220, 960, nodes, graph.edges[:1]))
    find_only(SegmentedControl, view).choose("graph")
    view._show_page("graph")
    view.search.setText("LINEAR")
    finish_timers(view.search)
    assert column_texts(view) == ["head", "never"]
    assert "2 of 4" in visible_texts(view)
    assert [node.layer.name for node in view.graph._marked_nodes] == ["head"]
    center = view.graph.mapToScene(view.graph.viewport().rect().center())
    assert abs(center.y() - 900) < view.graph.viewport().height() / view.graph.zoom / 2
    view.search.clear()
    assert column_texts(view) == ["stem", "act", "head", "never"]
    assert view.graph._marked_nodes == []


def test_without_a_graph_the_reason_stands_in_its_place(view):
    find_only(SegmentedControl, view).choose("graph")
    view._show_page("graph")
    assert find_only(PageStack, view).currentWidget() is view._no_graph
    view.show_graph("Graphviz could not lay the graph out.")
    assert find_only(PageStack, view).currentWidget() is view._no_graph
    view.show_graph(layer_chain(1)[0])
    assert find_only(PageStack, view).currentWidget() is view.graph


def test_the_wheel_and_the_keys_zoom_and_fit_shows_everything(qtbot):
    view = show_widget(qtbot, LayerGraphView(), 600, 400)
    view.show_graph(*layer_chain(50))
    assert view.zoom == 1.0
    center = QPointF(view.viewport().rect().center())
    wheel = QWheelEvent(
        *(center, view.mapToGlobal(center), QPoint(), QPoint(0, 240)),
        *(Qt.MouseButton.NoButton, Qt.KeyboardModifier.NoModifier),
        *(Qt.ScrollPhase.NoScrollPhase, False),
    )
    QApplication.sendEvent(view.viewport(), wheel)
    assert view.zoom == pytest.approx(1.25**2)
    qtbot.keyClicks(view, "-")
    assert view.zoom == pytest.approx(1.25)
    qtbot.keyClicks(view, "0")
    visible_rect = view.mapToScene(view.viewport().rect()).boundingRect()
    assert visible_rect.contains(view.scene().itemsBoundingRect())


def test_kinds_have_colours_of_their_own():
    kinds = ("Conv2d", "Linear", "BatchNorm2d", "MaxPool2d", "LSTM", "Embedding", "Mine")
    assert len({kind_color(kind).name() for kind in kinds}) == len(kinds)


def test_large_numbers_are_short():
    assert [short_count(n) for n in (0, 12, 259_435_008)] == ["–", "12", f"259{formats.GAP}M"]


MODEL = LibraryItem(Kind.MODEL, "net", 1, "ab" * 32, 1000, 3, "2026-11-20T14:02:00+00:00")


def test_the_partners_of_a_model_stand_together(qtbot):
    page = show_widget(qtbot, LibraryPage(Kind.MODEL), 1400, 800)
    page.show_items((MODEL,))
    find_only(UnderlinedTabs, page.detail).choose("layers")
    open_tab(page.detail, "layers")
    finish_timers(page)
    button = find_button(page.detail, "Show layers")
    assert button.isVisible()
    assert button.geometry().right() < page.detail.width() / 2


def test_layers_are_requested_once_both_partners_are_known(qtbot):
    page = show_widget(qtbot, LibraryPage(Kind.MODEL), 1200, 800)
    detail = page.detail
    page.show_items((MODEL,))
    detail.show_companions(("digits",), ("digits",))
    find_only(UnderlinedTabs, detail).choose("layers")
    with qtbot.assertNotEmitted(detail.layers_requested):
        open_tab(detail, "layers")
    with qtbot.waitSignal(detail.layers_requested) as requested:
        detail.show_companions(("digits",), ("digits",), (Combination("digits", "digits", "net"),))
    assert requested.args == [Trial("digits", "digits", "net@1")]
    detail.show_layers(Trial("digits", "digits", "net@1"), LAYERS)
    assert column_texts(detail.results.layers)[0] == "stem"
    detail.show_layers(Trial("digits", "digits", "other@1"), ModelLayers(1))
    assert column_texts(detail.results.layers)[0] == "stem", "of another model"


def variances(*values):
    rows = (LayerVariance(f"layer{n}", "Linear", *value) for n, value in enumerate(values))
    return DepthVariance(tuple(rows))


@pytest.mark.parametrize(
    "values",
    [
        (),
        ((0.5, 0.5),),
        ((0.5, None), (0.25, 1e-300), (None, 0.0)),
        tuple((0.5, 16.0**-n) for n in range(60)),
        tuple((None, None) for _ in range(3)),
        tuple((float(n), float(n)) for n in range(2000)),
    ],
)
def test_any_variances_are_a_plot_and_a_sentence(view, values):
    variance = variances(*values)
    find_only(SegmentedControl, view).choose("variance")
    view._show_page("variance")
    view.show_variance(variance)
    view.grab()
    assert view.variance.summary.text() == variance.judge()[1]
    assert tuple(view.variance.panel.curves) == ("Activations", "Gradients")
    assert not view.search.isVisible()
    rows, title = view.variance.panel.readout(1)
    if values and values[0] != (None, None):
        assert title.startswith("layer 1 · layer0 · Linear")
        assert rows[0][0] == "Activations"
