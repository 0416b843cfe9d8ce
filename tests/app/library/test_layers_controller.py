"""The tab Layers asks the service, and shows its answer, its graph, or why there is none."""

import pytest

from app.library.layers_controller import LayersController
from backend.base.errors import BackendError
from backend.records.library.item import Kind, LibraryItem
from backend.records.library.layers import GraphNode, Layer, LayerGraph, ModelLayers
from backend.records.library.variance import DepthVariance, LayerVariance
from tests.windows import find_by_name, find_only
from widgets.common.buttons import SegmentedControl
from widgets.common.fields import ComboBox
from widgets.common.panes import PageStack
from widgets.library.library_page import LibraryPage
from widgets.library.trial_pages import PreviewBanner, Trial

TRIAL = Trial("digits", "digits", "net@1")
VARIANCE = DepthVariance(tuple(LayerVariance(f"l{n}", "Linear", 1, 16.0**n) for n in range(9)))
LAYERS = ModelLayers(1, (Layer("head", "Linear", (1, 10), 650, 640, 40, True),))


class Inspection:
    """In place of the service. What is an error is raised."""

    def __init__(self):
        self.model_layers = LAYERS
        self.layer_graph = LayerGraph(220, 80, (GraphNode("head", 110, 40),))
        self.variances = VARIANCE
        self.requests = []

    def layers(self, *args, progress):
        self.requests.append(args)
        return self._answer(self.model_layers)

    def variance(self, *args, progress):
        self.requests.append(args)
        return self._answer(self.variances)

    def graph(self, layers):
        assert layers is self.model_layers
        return self._answer(self.layer_graph)

    def _answer(self, answer):
        if isinstance(answer, BackendError):
            raise answer
        return answer


@pytest.fixture
def page(qtbot):
    page = LibraryPage(Kind.MODEL)
    qtbot.addWidget(page)
    created = "2026-11-20T14:02:00+00:00"
    page.show_items((LibraryItem(Kind.MODEL, "net", 1, "ab" * 32, 1000, 3, created),))
    return page


@pytest.fixture
def detail(page):
    return page.detail


@pytest.fixture
def service(page, immediately):
    service = Inspection()
    service.controller = LayersController(service, immediately, page.detail)
    return service


def test_the_layers_and_their_graph_reach_the_tab(service, detail):
    detail.layers_requested.emit(TRIAL)
    assert service.requests == [("net@1", "digits", "digits")]
    view = detail.results.layers
    assert view._model.rows == LAYERS.layers
    assert list(view.graph._nodes) == ["head"]


def test_layers_without_a_graph_are_shown_with_the_reason(service, detail):
    service.layer_graph = BackendError("Graphviz could not lay the graph out.", "Use the table.")
    detail.layers_requested.emit(TRIAL)
    view = detail.results.layers
    assert view._model.rows == LAYERS.layers
    find_only(SegmentedControl, view).choose("graph")
    view._show_page("graph")
    assert find_only(PageStack, view).currentWidget() is view._no_graph


def test_a_model_that_cannot_be_read_is_a_sentence_above_the_tab(service, detail):
    service.model_layers = BackendError("The model's forward returns nothing (None).")
    detail.layers_requested.emit(TRIAL)
    assert (
        "returns nothing"
        in find_only(PreviewBanner, detail)._headline.text()
        + find_only(PreviewBanner, detail)._text.text()
    )


@pytest.fixture
def layers_view(service, detail):
    """The tab with layers, and a dataset and a loader chosen."""
    detail.show_companions(("digits",), ("digits",))
    for box in (
        find_by_name(ComboBox, detail, "Dataset"),
        find_by_name(ComboBox, detail, "Loader"),
    ):
        box.choose("digits")
    detail.layers_requested.emit(TRIAL)
    service.requests.clear()
    return detail.results.layers


def choose(view, key):
    find_only(SegmentedControl, view).choose(key)
    view._show_page(key)


def test_variances_are_measured_once_when_their_page_is_opened(service, layers_view):
    for key in ("variance", "table", "variance"):
        choose(layers_view, key)
    assert service.requests == [("net@1", "digits", "digits")]
    assert find_only(PageStack, layers_view).currentWidget() is layers_view.variance
    assert "shrinks about 16 times a layer" in layers_view.variance.summary.text()


def test_variances_that_cannot_be_measured_are_a_sentence_and_another_try(service, layers_view):
    service.variances = BackendError("The model's loss raised ValueError: no.", "Change it.")
    choose(layers_view, "variance")
    assert find_only(PageStack, layers_view).currentWidget() is layers_view.no_variance
    assert "no. Change it." in layers_view.no_variance.accessibleName()
    service.variances = VARIANCE
    layers_view.no_variance.pressed.emit()
    assert find_only(PageStack, layers_view).currentWidget() is layers_view.variance


def test_variances_of_another_trial_are_not_shown(service, layers_view, detail):
    choose(layers_view, "variance")
    previous_text = layers_view.variance.summary.text()
    other_trial = Trial("others", "digits", "net@1")
    detail.show_variance(other_trial, DepthVariance())
    assert layers_view.variance.summary.text() == previous_text
