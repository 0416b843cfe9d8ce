"""Parallel coordinates by pointer and by keys; what is chosen, lifted, opened, said."""

from __future__ import annotations

from dataclasses import replace

import pytest
from PySide6.QtCore import QEvent, QPoint, QPointF, Qt
from PySide6.QtGui import QMouseEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from backend.records.jobs.comparison import ComparedUpdate, RunFigures
from backend.records.jobs.history import HistoryUpdate
from backend.records.sweeps.parallel_coordinates import parallel_plot
from tests.widgets.compare.sweep_samples import sweep
from tests.widgets.compare.test_compare_page import process_events
from tests.windows import add_widget, show_widget
from widgets.common import formats
from widgets.compare.compare_page import ComparePage
from widgets.compare.parallel_picture import ParallelPicture
from widgets.compare.parallel_plot import ParallelPlot

LEFT_BUTTON = Qt.MouseButton.LeftButton


@pytest.fixture
def plot(qtbot):
    plot = add_widget(qtbot, ParallelPlot(), 900, 320)
    plot.show_coordinates(parallel_plot(sweep()))
    plot.show()
    return plot


@pytest.fixture
def page(qtbot, theme_manager):
    page = show_widget(qtbot, ComparePage(), 1200, 900)
    yield page
    page.deleteLater()
    QApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)


def compare_jobs(page, *jobs):
    page.set_jobs(tuple(view.id for view in jobs))
    for view in jobs:
        page.show_update(ComparedUpdate(view, HistoryUpdate(drop_from=0), RunFigures()))
    process_events()


def drag_brush(plot, axis, low, high):
    x = round(plot.picture.axis_x(axis))
    start, end = (QPoint(x, round(plot.picture.y_of(share))) for share in (low, high))
    QTest.mousePress(plot, LEFT_BUTTON, pos=start)
    QTest.mouseMove(plot, (start + end) / 2)
    move_pointer(plot, end)
    QTest.mouseRelease(plot, LEFT_BUTTON, pos=end)


def move_pointer(plot, position):
    event = QMouseEvent(
        QEvent.Type.MouseMove,
        QPointF(position),
        plot.mapToGlobal(QPointF(position)),
        Qt.MouseButton.NoButton,
        LEFT_BUTTON if plot._is_pressed else Qt.MouseButton.NoButton,
        Qt.KeyboardModifier.NoModifier,
    )
    QApplication.sendEvent(plot, event)


def selected_names(plot):
    return {line.name for line in plot._coordinates.lines if line.job_id in plot.selected_jobs}


def line_point(plot, name, axis=0):
    (line,) = (ln for ln in plot._coordinates.lines if ln.name == name)
    points = plot.picture.points_of(line)
    return ((points[axis] + points[axis + 1]) / 2).toPoint(), line.job_id


def test_brushes_choose_jobs_that_pass_all_of_them_and_escape_removes_them(plot):
    drag_brush(plot, 0, -0.1, 0.3)
    assert selected_names(plot) == {f"digits batch=16 lr={rate}" for rate in (0.01, 0.03, 0.1)}
    drag_brush(plot, 1, 0.9, 1.1)
    assert selected_names(plot) == {"digits batch=16 lr=0.1"}
    assert plot.accessibleDescription().startswith("1 of 6 jobs are in the selected ranges.")
    QTest.keyClick(plot, Qt.Key.Key_Escape)
    assert plot.brushes == {}
    assert len(selected_names(plot)) == 6


def test_a_click_on_an_axis_takes_its_brush_away_and_no_other(plot):
    plot.set_brush(0, 0.0, 0.4)
    plot.set_brush(1, 0.0, 0.4)
    QTest.mouseClick(plot, LEFT_BUTTON, pos=QPoint(round(plot.picture.axis_x(0)), 100))
    assert list(plot.brushes) == [1]


def test_the_line_under_the_pointer_is_described_and_a_click_opens_it(plot, qtbot):
    point, job_id = line_point(plot, "digits batch=32 lr=0.03")
    with qtbot.waitSignal(plot.job_hovered) as hovered:
        move_pointer(plot, point)
    assert hovered.args == [job_id] == [plot.current_job]
    assert plot.accessibleDescription().startswith(
        "digits batch=32 lr=0.03, Batch size, per process 32, Learning rate 0.03, Best validation"
    )
    with qtbot.waitSignal(plot.job_opened) as signal:
        QTest.mouseClick(plot, LEFT_BUTTON, pos=point)
    assert signal.args == [job_id]


def test_a_greyed_line_is_not_hit(plot):
    point, _ = line_point(plot, "digits batch=32 lr=0.03")
    plot.set_brush(0, 0.0, 0.1)
    move_pointer(plot, point)
    assert plot.current_job == ""


def test_arrows_walk_from_the_best_down_and_enter_opens(plot, qtbot):
    ranked = [line.job_id for line in plot._coordinates.ranked()]
    for number in (0, 1, 2):
        QTest.keyClick(plot, Qt.Key.Key_Down)
        assert plot.current_job == ranked[number]
    QTest.keyClick(plot, Qt.Key.Key_Up)
    assert plot.current_job == ranked[1]
    with qtbot.waitSignal(plot.job_opened) as signal:
        QTest.keyClick(plot, Qt.Key.Key_Return)
    assert signal.args == [ranked[1]]


def test_an_update_of_a_job_keeps_the_brushes(plot):
    plot.set_brush(1, 0.0, 0.4)
    first_view, *other_views = sweep()
    plot.show_coordinates(
        parallel_plot(
            [replace(first_view, best_metric=("validation/accuracy", 0.99)), *other_views]
        )
    )
    assert list(plot.brushes) == [1]


def test_unchosen_lines_are_grey_and_the_best_is_green(plot, theme_manager):
    plot.resize(900, 320)
    best_point, _ = line_point(plot, "digits batch=16 lr=0.03")
    grey_point, _ = line_point(plot, "digits batch=32 lr=0.1")

    def colour(point):
        return plot.grab().toImage().pixelColor(point)

    assert colour(best_point).green() > colour(best_point).red() + 40
    assert colour(grey_point).blue() > colour(grey_point).red() + 40
    plot.set_brush(0, 0.0, 0.3)
    grey_colour = colour(grey_point)
    assert abs(grey_colour.blue() - grey_colour.red()) < 20


def test_the_pointer_repaints_no_line(plot, monkeypatch):
    plot.show_coordinates(parallel_plot(sweep(500)))
    paint_calls = []
    paint = ParallelPicture.paint_background
    monkeypatch.setattr(
        ParallelPicture, "paint_background", lambda *args: (paint_calls.append("all"), paint(*args))
    )
    plot.set_brush(1, 0.1, 0.5)
    plot.repaint()
    assert paint_calls == ["all"]
    plot.highlight_job(plot._coordinates.lines[3].job_id)
    plot.repaint()
    assert paint_calls == ["all"]


def test_a_job_of_a_sweep_brings_its_sweep_and_the_best_row_is_first_and_says_so(page):
    jobs = sweep()
    compare_jobs(page, jobs[4])
    assert not page.parallel.isVisible()
    page.show_siblings(tuple(reversed(jobs)))
    card = page.parallel
    assert card.isVisible()
    assert card.choice.currentText() == "Sweep digits"
    assert [line.job_id for line in card.coordinates.lines] == [view.id for view in jobs]
    rows = card._model
    assert rows.data(rows.index(0, 0)) == "digits batch=16 lr=0.03"
    assert rows.data(rows.index(0, 3)).endswith("best")
    assert rows.data(rows.index(0, 0), Qt.ItemDataRole.AccessibleTextRole).endswith(", best")
    assert not rows.data(rows.index(1, 3)).endswith("best")
    assert card.summary.text().startswith("Best: digits batch=16 lr=0.03, validation accuracy 0.9")


def test_jobs_of_no_sweep_are_drawn_as_they_are_compared(page):
    jobs = [replace(view, tags=()) for view in sweep()[:3]]
    compare_jobs(page, *jobs)
    assert [line.job_id for line in page.parallel.coordinates.lines] == [view.id for view in jobs]
    assert not page.parallel.choice.isVisible()
    page.set_jobs((jobs[0].id,))
    process_events()
    assert not page.parallel.isVisible()


def test_jobs_without_differences_are_not_drawn_on_a_single_axis(page):
    (first_view, *_) = sweep()
    equal_view = replace(first_view, id="twin", tags=(), best_metric=("validation/accuracy", 0.5))
    compare_jobs(page, replace(first_view, tags=()), equal_view)
    assert not page.parallel.isVisible()


def test_the_name_of_a_job_gets_the_room_that_its_values_leave(page):
    jobs = sweep(60)
    page.show_siblings(jobs)
    compare_jobs(page, jobs[0])
    header = page.parallel.table.horizontalHeader()
    full_widths, value_widths = page.parallel._column_widths

    def widths(window_w):
        page.resize(window_w, 900)
        return [header.sectionSize(column) for column in range(header.count())]

    name_w, *column_widths = widths(1400)
    assert name_w > max(column_widths)
    assert column_widths == full_widths
    name_w, *column_widths = widths(900)
    assert name_w > max(column_widths)
    assert all(
        min_w <= width <= max_w
        for min_w, width, max_w in zip(value_widths, column_widths, full_widths, strict=True)
    )
    assert sum(value_widths) < sum(column_widths) < sum(full_widths)
    page.parallel.setMaximumWidth(500)
    equal_widths = widths(600)
    assert max(equal_widths) - min(equal_widths) <= 1, (
        "where all have little room, all have the same"
    )


def test_a_value_is_written_as_the_sentence_below_writes_it(page):
    jobs = sweep()
    page.show_siblings(jobs)
    compare_jobs(page, jobs[0])
    (best_line,) = page.parallel.coordinates.best
    assert best_line.texts[-1] == formats.metric(best_line.value)
    assert best_line.texts[-1] in page.parallel.summary.text()


def test_brushes_leave_the_chosen_rows_in_the_table(page, qtbot):
    jobs = sweep()
    page.show_siblings(jobs)
    compare_jobs(page, jobs[0])
    card = page.parallel
    card.plot.set_brush(0, 0.9, 1.0)
    assert card._model.rowCount() == 3
    assert (
        card.summary.text() == "The best job is outside the selected ranges. 3 of 6 jobs selected."
    )
    assert card.clear_button.isVisible()
    card.clear_button.click()
    assert card._model.rowCount() == 6
    with qtbot.waitSignal(page.job_opened) as signal:
        card.table.activated.emit(card._model.index(0, 0))
    assert signal.args == [card.coordinates.ranked()[0].job_id]


def test_a_sweep_without_a_result_says_so(page):
    jobs = tuple(replace(view, best_metric=None) for view in sweep())
    page.show_siblings(jobs)
    compare_jobs(page, jobs[0])
    assert page.parallel.summary.text().startswith(
        "No best job: none of these jobs has a checkpoint yet."
    )
