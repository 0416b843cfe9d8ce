"""The contour plot of a search: the goal over two settings, better values stronger."""

from dataclasses import replace

import pytest
from PySide6.QtCore import QSize

from tests.pictures.screens.sweeps import search_result
from widgets.jobs.sweeps.search_result import ContourPlot, SearchView


@pytest.fixture
def view(qtbot, theme_manager):
    view = SearchView()
    qtbot.addWidget(view)
    view.resize(900, 900)
    view.show()
    view.show_result(search_result(27))
    return view


def test_two_settings_make_a_contour_and_other_choices_the_plot_of_the_goal(view):
    contour = view.findChild(ContourPlot)
    cases = [("history", "batch_size", False), ("optimizer.lr", "goal", False)]
    cases += [("batch_size", "batch_size", False), ("optimizer.lr", "batch_size", True)]
    for first, second, is_contour in cases:
        view._axes.choose(first)
        view._second_axes.choose(second)
        assert contour.isVisible() is is_contour
        assert view._plot.isVisible() is not is_contour
    assert contour.accessibleDescription() == "27 trials"


@pytest.mark.parametrize("better", ["higher", "lower"])
def test_the_colour_at_a_trial_is_that_of_its_value(view, better):
    contour, result = view.findChild(ContourPlot), search_result(27)
    contour.show_trials(result, ("optimizer.lr", "batch_size"))
    result = replace(result, search=replace(result.search, better=better))
    contour.show_trials(result, ("optimizer.lr", "batch_size"))
    bands = contour._bands()
    assert bands.size() == QSize(120, 60)
    finished = [point for point in contour._points if point[2].state == "complete"]
    finished.sort(key=lambda point: point[2].value)
    lowest, highest = (
        bands.pixelIndex(round(x * 119), round((1 - y) * 59))
        for x, y, _ in (finished[0], finished[-1])
    )
    assert (highest > lowest) is (better == "higher")


def test_a_search_without_a_finished_trial_has_no_bands(view):
    contour = view.findChild(ContourPlot)
    contour.show_trials(search_result(0), ("optimizer.lr", "batch_size"))
    assert contour._bands().isNull()
    contour.grab()
