"""Compare: curves with names over one axis, and a table of how the jobs differ."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PySide6.QtCore import QEvent, QPoint, QPointF, Qt
from PySide6.QtGui import QEnterEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QListView, QWidget

from backend.records.jobs.comparison import ComparedRow, RowKind
from backend.records.jobs.state import JobState
from backend.records.jobs.summary import summary_of
from backend.services.jobs.index import JobIndex
from tests.widgets.compare.compare_samples import (
    MAP_METRIC,
    compared,
    draft,
    eight_updates,
    three_updates,
    update_of,
)
from tests.windows import (
    find_button,
    find_by_name,
    find_only,
    pick,
    show_widget,
    shows_text,
    visible_texts,
)
from widgets.common import formats
from widgets.common.buttons import Button, IconButton, SegmentedControl
from widgets.common.cards import EmptyState
from widgets.common.fields import SearchField, Slider
from widgets.common.labels import Label
from widgets.common.state_badge import StateGlyph
from widgets.compare.compare_page import ComparePage, short_names
from widgets.compare.job_picker import JobPicker
from widgets.compare.plots import _Plot
from widgets.compare.table import _ColumnHead, _ValueCell, row_texts
from widgets.jobs.list.job_list_model import JobRows
from widgets.plots.curve_data import XAxis
from widgets.plots.end_labels import Legend

METRIC = RowKind.METRIC
pytestmark = pytest.mark.usefixtures("theme_manager")


@pytest.fixture
def page(qtbot):
    page = show_widget(qtbot, ComparePage(), 1176, 900)
    yield page
    # Now: each page that lives on would be dressed again for each test after it.
    page.deleteLater()
    QApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)


def process_events():
    """Run the turns in which the plots, then the table, take what was read."""
    for _ in range(3):
        QApplication.processEvents()


def show_updates(page, updates):
    page.set_jobs(tuple(update.view.id for update in updates))
    for update in updates:
        page.show_update(update)
    process_events()


def plots(page):
    return page.plots.panels()


def headers(page):
    """The heads of the columns, in their order; rows that go are deleted later."""
    heads = [head for head in page.table.findChildren(_ColumnHead) if not head.isHidden()]
    heads = [head for head in heads if head.isVisibleTo(page)]
    return sorted(heads, key=lambda head: head.x())


def names_at(panel, x):
    return [name for name, _ in panel.readout(x)[0]]


def test_s3_two_runs_that_differ_in_the_rate_show_one_row_and_two_named_curves(page):
    show_updates(page, [compared(1, "slow", lr=0.01), compared(2, "fast", lr=0.02)])
    texts = page.table.texts()
    assert texts["optimizer.lr"] == ["0.01", "0.02"]
    assert [key for key in texts if "." in key or key in ("placement", "epochs")] == [
        "optimizer.lr"
    ]
    for panel in plots(page).values():
        assert tuple(panel.curves) == ("id1", "id2")
        assert list(dict.fromkeys(names_at(panel, 20))) == ["slow", "fast"]


def test_the_page_plots_the_judged_metric_and_the_loss(page):
    show_updates(page, three_updates())
    assert list(plots(page)) == [MAP_METRIC, "loss"]
    page.plots.add_plot()
    assert list(plots(page)) == [MAP_METRIC, "loss", "learning_rate"]


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9])
@pytest.mark.parametrize("metric", [MAP_METRIC, "loss", "learning_rate"])
def test_a_plot_says_if_the_values_at_its_ends_are_smoothed(page, share, metric):
    show_updates(page, three_updates())
    find_only(Slider, page).set_share(share)
    plot = page.findChildren(_Plot)[0]
    metric_index = [MAP_METRIC, "loss", "learning_rate"].index(metric)
    plot.findChildren(Button)[0].menu().actions()[metric_index].trigger()
    panel = plot.panel
    last_points = [curve.last_point for curve in panel.curves.values()]
    differs = any(point.smoothed != point.raw for point in last_points)
    assert find_only(Label, plot).isVisible() or not differs
    assert find_only(Label, plot).isVisible() is (share > 0 and metric == "loss")


def test_a_metric_chosen_in_the_plot_stays_after_an_update(page):
    show_updates(page, three_updates())
    metrics = page.findChildren(_Plot)[0].findChildren(Button)[0].menu().actions()
    titles = [action.text() for action in metrics]
    assert titles == ["Validation mAP", "Training loss", "Learning rate"]
    metrics[2].trigger()
    page.show_update(update_of(three_updates()[0].view, 3201, 10))
    assert list(plots(page)) == ["learning_rate", "loss"]


def test_a_plot_can_go_but_never_the_last_one(page, qtbot):
    show_updates(page, three_updates())
    first_plot, second_plot = page.findChildren(_Plot)
    assert first_plot.remove_button.isVisible()
    qtbot.mouseClick(first_plot.remove_button, Qt.MouseButton.LeftButton)
    assert list(plots(page)) == ["loss"]
    assert not second_plot.remove_button.isVisible()


def test_other_values_never_read_like_the_best_one():
    row = ComparedRow(
        MAP_METRIC, "Best mAP", (0.36124, 0.36082, None), (True, False, False), METRIC
    )
    assert row_texts(row) == ("0.3612", "0.3608", formats.NONE)
    row = ComparedRow(MAP_METRIC, "Best mAP", (0.361, 0.352, 0.361), (True, False, True), METRIC)
    assert row_texts(row) == ("0.361", "0.352", "0.361"), "two that are the best are alike"
    row = ComparedRow("loss", "Loss", (0.3610000001, 0.361), (False, True), METRIC)
    assert row_texts(row) == ("0.361", "0.361"), "no row of ten digits"


def test_the_best_is_green_and_says_so(page):
    show_updates(page, three_updates())
    texts_of_row = page.table.texts()[MAP_METRIC]
    figures = [update.figures.metrics[MAP_METRIC].highest for update in three_updates()]
    winner = figures.index(max(figures))
    assert [text.endswith(", best") for text in texts_of_row] == [n == winner for n in range(3)]
    assert texts_of_row[winner].startswith(formats.metric(max(figures), 5)), (
        "as many digits as it takes"
    )


def test_a_metric_of_epochs_is_shown_as_it_was_measured(page):
    show_updates(page, three_updates())
    last_value = three_updates()[1].figures.metrics[MAP_METRIC].last
    rows = dict(plots(page)[MAP_METRIC].readout(50.0)[0])
    assert rows["lr 0.02"] == formats.metric(last_value)
    assert page.curves("id1").get("loss").smoothing > 0


def test_a_run_keeps_its_colour_until_it_leaves(page):
    a, b, c = three_updates()
    show_updates(page, [a, b, c])
    assert [page.colour(update.view.id) for update in (a, b, c)] == [0, 1, 2]
    page.set_jobs((b.view.id, c.view.id))
    assert [page.colour(update.view.id) for update in (b, c)] == [1, 2]
    page.set_jobs((b.view.id, c.view.id, a.view.id))
    assert page.colour(a.view.id) == 0
    assert page.colour(b.view.id) == 1


def test_a_live_run_goes_on_growing(page):
    show_updates(page, three_updates())
    view = three_updates()[0].view
    page.show_update(update_of(view, 3201, 100))
    curve = page.curves(view.id).get("loss")
    assert len(curve) == 3300
    assert plots(page)["loss"].readout(32.9)[0][0][0] == "coco 2x"


def test_pointing_at_a_column_lifts_its_curves(page):
    show_updates(page, three_updates())
    # The page finds its final layout first.
    QApplication.processEvents()
    panel = plots(page)["loss"]
    usual_image = panel.grab().toImage()
    text = page.table.texts()["loss"][1]
    cell = find_by_name(_ValueCell, page.table, text)
    position = QPointF(3, 3)
    QApplication.sendEvent(cell, QEnterEvent(position, position, position))
    QApplication.processEvents()
    lifted_image = panel.grab().toImage()
    assert lifted_image != usual_image
    QApplication.sendEvent(page.table, QEvent(QEvent.Type.Leave))
    QApplication.processEvents()
    assert panel.grab().toImage() == usual_image


def test_the_table_keeps_its_rows_while_the_jobs_go_on(page):
    jobs = eight_updates()
    show_updates(page, jobs)
    cells = page.table.findChildren(_ValueCell)
    page.show_update(update_of(jobs[0].view, 5001, 25))
    assert page.table.findChildren(_ValueCell) == cells


def test_the_same_key_shows_and_hides_all_rows(page, qtbot):
    show_updates(page, three_updates())
    find_button(page.table, "Show all").setFocus()
    for is_shown in (True, False):
        qtbot.keyClick(QApplication.focusWidget(), Qt.Key.Key_Space)
        assert ("batch_size" in page.table.texts()) is is_shown


def test_the_head_that_has_the_focus_keeps_it_when_other_rows_come(page, qtbot):
    show_updates(page, three_updates())
    head = headers(page)[1]
    head.setFocus()
    find_button(page.table, "Show all").toggle()
    focus_widget = QApplication.focusWidget()
    assert focus_widget is not head
    assert focus_widget is headers(page)[1]
    with qtbot.waitSignal(page.remove_requested) as signal:
        qtbot.keyClick(focus_widget, Qt.Key.Key_Delete)
    assert signal.args == ["id1"]


def test_the_focus_stays_with_its_job_when_the_jobs_come_in_another_order(page):
    updates = three_updates()
    show_updates(page, updates)
    headers(page)[0].setFocus()
    show_updates(page, updates[::-1])
    assert [head.job_id for head in headers(page) if head.hasFocus()] == ["id0"]


def test_a_head_keeps_the_focus_while_another_window_is_in_front(page, qtbot):
    show_updates(page, three_updates())
    head = headers(page)[1]
    head.setFocus()
    other_window = show_widget(qtbot, QWidget())
    other_window.activateWindow()
    qtbot.waitUntil(other_window.isActiveWindow)
    find_button(page.table, "Show all").toggle()
    assert head is not headers(page)[1], "other rows, so other headers"
    page.activateWindow()
    qtbot.waitUntil(page.isActiveWindow)
    assert headers(page)[1].hasFocus()


@pytest.mark.parametrize("removed_index", [0, 2])
def test_a_removed_job_gives_the_focus_to_the_next_one(page, removed_index):
    updates = three_updates()
    show_updates(page, updates)
    find_only(IconButton, headers(page)[removed_index]).setFocus()
    show_updates(page, [update for index, update in enumerate(updates) if index != removed_index])
    assert [head.job_id for head in headers(page) if head.hasFocus()] == ["id1"]


def test_the_focus_ring_of_a_head_leaves_its_glyph_free(page):
    show_updates(page, three_updates())
    head = headers(page)[1]

    def glyph_image():
        return head.grab(find_only(StateGlyph, head).geometry()).toImage()

    previous_image = glyph_image()
    head.setFocus()
    assert glyph_image() == previous_image


def test_equal_rows_are_counted_and_shown_on_a_click(page, qtbot):
    show_updates(page, three_updates())
    table = page.table
    assert shows_text(table, " equal rows hidden")
    assert "batch_size" not in table.texts()
    qtbot.mouseClick(find_button(table, "Show all"), Qt.MouseButton.LeftButton, pos=QPoint(10, 14))
    assert table.texts()["batch_size"] == ["32", "32", "32"]
    qtbot.mouseClick(find_button(table, "Show all"), Qt.MouseButton.LeftButton, pos=QPoint(10, 14))
    assert "batch_size" not in table.texts()


@pytest.mark.parametrize("key", ["step", "epoch", "time", "clock"])
def test_all_plots_have_one_axis(page, key):
    show_updates(page, three_updates())
    pick(find_only(SegmentedControl, page), key)
    for panel in plots(page).values():
        assert panel.axis is XAxis(key)
    low, high = plots(page)["loss"].x_range()
    ranges = [page.curves(f"id{n}").get("loss").x_range(XAxis(key)) for n in range(3)]
    # What begins with the job begins at 0, though its first step is 1.
    start = min(x_range[0] for x_range in ranges) if key == "clock" else 0.0
    assert low == pytest.approx(start)
    assert high > max(x_range[1] for x_range in ranges)


def test_runs_that_began_at_different_hours_begin_together_in_relative_time(page):
    show_updates(page, three_updates())
    for n in range(3):
        curves = page.curves(f"id{n}")
        assert curves.get("loss").x_range(XAxis.TIME)[0] == pytest.approx(1.4 + 0.14 * n)
        # What is measured after an epoch is at the end of that epoch, not at the beginning.
        assert curves.get(MAP_METRIC).x_range(XAxis.TIME)[0] == pytest.approx(
            100 * (1.4 + 0.14 * n)
        )


def test_zooming_one_plot_zooms_all(page):
    show_updates(page, three_updates())
    a, b = plots(page).values()
    a.set_x_range(5, 10)
    a.x_range_changed.emit(5.0, 10.0)
    assert b.x_range() == (5, 10)
    b.fit_requested.emit()
    assert a.is_fitted


def test_names_that_all_begin_alike_are_shortened():
    assert short_names(["retinanet-r50 · coco 2x", "retinanet-r50 · lr 0.02"]) == (
        "coco 2x",
        "lr 0.02",
    )
    assert short_names(["digits", "digits"]) == ("digits (1)", "digits (2)")
    assert short_names(["digits", "digits 2"]) == ("digits", "digits 2")
    assert short_names(["resnet", "restore"]) == ("resnet", "restore")
    assert short_names(["alone"]) == ("alone",)
    assert short_names([]) == ()
    assert max(map(len, short_names([f"{'x' * 80}{n}y" for n in range(8)]))) <= 28


@pytest.mark.parametrize(
    ("names", "expected_names"),
    [
        (["digits lr=0.01", "digits lr=0.1"], ("lr=0.01", "lr=0.1")),
        (["lr=0.001", "lr=0.01"], ("lr=0.001", "lr=0.01")),
        (["unet 1", "unet 2"], ("unet 1", "unet 2")),
        (["unet v1.10", "unet v1.1"], ("v1.10", "v1.1")),
        (["lr 1e-3", "lr 1e-4"], ("lr 1e-3", "lr 1e-4")),
        (["run 2026-11-28", "run 2026-11-29"], ("run 2026-11-28", "run 2026-11-29")),
        (["net_16x", "net_8x"], ("net_16x", "net_8x")),
        (["a b c", "a b c d"], ("c", "c d")),
        (["mine", "mine (copy)"], ("mine", "mine (copy)")),
        (["s · whole seed=1", "s · split seed=1"], ("whole seed=1", "split seed=1")),
        (["s · 4 parts", "s · 16 parts"], ("s · 4 parts", "s · 16 parts")),
        (["模型 甲", "模型 乙"], ("甲", "乙")),
    ],
)
def test_a_short_name_keeps_its_numbers_and_what_they_count(names, expected_names):
    assert short_names(names) == expected_names


@given(st.lists(st.text("ab ·=_.-1e0", min_size=1, max_size=60), min_size=1, max_size=4))
def test_every_number_of_a_short_name_is_a_number_of_the_name(names):
    number_pattern = re.compile(r"\d[\d.]*")
    for name, short_name in zip(names, short_names(names), strict=True):
        without_count = re.sub(r" \(\d+\)$", "", short_name)
        assert set(number_pattern.findall(without_count)) <= set(number_pattern.findall(name))


def test_an_empty_page_says_what_belongs_here(page, qtbot):
    assert find_only(EmptyState, page).isVisible()
    assert not find_button(page, "Save CSV").isVisible()
    with qtbot.waitSignal(page.rows_requested):
        qtbot.mouseClick(
            find_button(find_only(EmptyState, page), "Add a job"), Qt.MouseButton.LeftButton
        )
    assert isinstance(find_only(JobPicker, page), JobPicker)


def test_a_job_that_never_ran_has_settings_and_no_curve(page):
    show_updates(page, [three_updates()[0], draft()])
    assert "“a draft” has no curve yet." in visible_texts(page)
    assert page.table.texts()[MAP_METRIC][1] == formats.NONE
    assert tuple(plots(page)["loss"].curves) == ("id0",)


def test_one_job_alone_is_shown_and_asks_for_another(page):
    show_updates(page, three_updates()[:1])
    assert "Add another job to see how they differ." in visible_texts(page)
    assert tuple(plots(page)["loss"].curves) == ("id0",)
    assert "best" not in " ".join(page.table.texts()[MAP_METRIC])


def test_a_job_in_the_trash_keeps_its_curves_and_says_so(page):
    show_updates(page, three_updates())
    page.show_read_error("id1", "“lr 0.02” is not in the list of jobs any more.")
    assert shows_text(page, "not in the list")
    assert "id1" in tuple(plots(page)["loss"].curves)[1:]
    page.set_jobs(("id0", "id2"))
    assert not shows_text(page, "not in the list")
    assert tuple(plots(page)["loss"].curves) == ("id0", "id2")


def test_eight_jobs_have_a_legend_and_no_more_can_be_added(page):
    show_updates(page, eight_updates())
    panel = plots(page)["loss"]
    assert find_only(Legend, panel).isVisible()
    assert not find_button(page, "Add job").isEnabled()
    assert len(headers(page)) == 8
    assert "frozen batch norm" in find_only(Label, headers(page)[2]).toolTip()


def test_the_head_of_a_column_opens_its_job_and_lets_it_go(page, qtbot):
    show_updates(page, three_updates())
    head = headers(page)[1]
    with qtbot.waitSignal(page.job_opened) as signal:
        qtbot.mouseClick(head, Qt.MouseButton.LeftButton)
    assert signal.args == ["id1"]
    with qtbot.waitSignal(page.remove_requested) as removal:
        qtbot.mouseClick(find_only(IconButton, head), Qt.MouseButton.LeftButton)
    assert removal.args == ["id1"]


def make_answer(page, *updates):
    """The index of these jobs, without threads."""
    index = JobIndex()
    index.update([summary_of(update.view) for update in updates])

    def answer(query):
        result = index.find(query)
        page.show_rows(
            query, JobRows(result.summaries, result.order, index.slot, result.total_count)
        )

    return answer


def answer_picker(page, *updates):
    page.rows_requested.connect(make_answer(page, *updates))


def test_the_picker_finds_by_name_and_offers_only_other_jobs(page, qtbot):
    answer_picker(page, *eight_updates())
    show_updates(page, eight_updates()[:2])
    page.open_picker()
    picker = find_only(JobPicker, page)
    assert find_only(QListView, picker).model().rowCount() == 6
    find_only(SearchField, picker).setText("deform")
    with qtbot.waitSignal(page.add_requested) as signal:
        QTest.keyClick(find_only(SearchField, picker), Qt.Key.Key_Return)
    assert signal.args == ["id4"]
    page.set_jobs(("id0", "id1", "id4"))
    assert find_only(QListView, picker).model().rowCount() == 0
    assert find_only(EmptyState, picker).isVisible()
    find_only(SearchField, picker).clear()
    assert find_only(QListView, picker).model().rowCount() == 5
    QTest.keyClick(find_only(SearchField, picker), Qt.Key.Key_Down)
    with qtbot.waitSignal(page.add_requested):
        QTest.keyClick(find_only(SearchField, picker), Qt.Key.Key_Return)


def test_an_answer_to_fewer_letters_that_comes_late_takes_no_job(page, qtbot):
    answer, queries, added_ids = make_answer(page, *eight_updates()), [], []
    page.rows_requested.connect(queries.append)
    page.add_requested.connect(added_ids.append)
    show_updates(page, eight_updates()[:2])
    page.open_picker()
    find_only(SearchField, find_only(JobPicker, page)).setText("deform")
    QTest.keyClick(find_only(SearchField, find_only(JobPicker, page)), Qt.Key.Key_Return)
    answer(queries[0])
    assert (queries[0].text, added_ids) == ("", [])
    answer(queries[-1])
    assert added_ids == ["id4"]


def test_eight_jobs_are_the_most_in_the_picker_too(page):
    answer_picker(page, *eight_updates(), draft())
    show_updates(page, eight_updates())
    page.open_picker()
    assert not find_only(QListView, find_only(JobPicker, page)).isEnabled()
    assert "8 of 8" in visible_texts(find_only(JobPicker, page))


def test_a_changed_state_is_shown(page):
    a, b, _ = three_updates()
    show_updates(page, [a, b])
    final_update = update_of(compared(0, a.view.name, JobState.FINISHED, 0.04, 3200).view, 3201, 1)
    page.show_update(final_update)
    process_events()
    assert headers(page)[0].accessibleName().endswith(", Finished.")
