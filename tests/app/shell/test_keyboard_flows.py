"""What the user does in the window, with a keyboard alone: no test here knows where to click."""

from __future__ import annotations

from datetime import datetime

import numpy as np
import pytest
from PySide6.QtWidgets import QApplication

from app.notifications.notification_rules import Notice
from backend.node.system import process_cleanup
from backend.records.base.layout import run_tag
from backend.records.jobs.state import JobState
from tests.app.keyboard_window import (
    choose,
    go,
    hands,
    ids,
    ids_and_program,
    open_job,
    program,
    rows,
    table,
)
from tests.app.used_data_root import (
    FAULT_LINE,
    NEEDLES,
    QUEUED_NAMES,
    SWEEP_NAME,
    SWEPT,
    rows_of_all,
)
from tests.widgets.nodes import samples
from tests.windows import find_only
from widgets.jobs.list.job_list_model import JobColumn
from widgets.jobs.placement.placement_picker import PlacementPicker

__all__ = ["hands", "ids", "ids_and_program", "program", "table"]


# The table


def place_by_name(row):
    """A sweep stands where its first job would."""
    return "digits batch" if row == SWEEP_NAME else row.casefold()


def test_a_column_orders_the_table_and_orders_it_the_other_way_round(hands, table):
    hands.press("Home")
    hands.press("Right")
    hands.press("O")
    hands.wait(lambda: rows(table) == sorted(rows(table), key=place_by_name))
    hands.press("O")
    hands.wait(lambda: rows(table) == sorted(rows(table), key=place_by_name, reverse=True))
    hands.press("O")
    hands.wait(lambda: table.order[0] == "")


def test_columns_are_chosen(hands, table):
    assert not table.isColumnHidden(JobColumn.TAGS)
    for is_hidden in (True, False):
        hands.press("C")
        choose(hands, "Tags")
        assert table.isColumnHidden(JobColumn.TAGS) is is_hidden


def test_the_table_is_searched_and_filtered(hands, table, program):
    hands.press("Ctrl+F")
    hands.write("batch=16")
    hands.wait(lambda: len(rows(table)) == 1 + SWEPT / 2)
    hands.press("Esc")
    hands.wait(lambda: len(rows(table)) == rows_of_all(program.jobs.job_count))
    hands.tab_to("Filter by tag")
    hands.press("Space")
    hands.tab_to("Tag")
    hands.wait(lambda: program.jobs.table.filter_panel._tag.count() > 1)
    hands.press("Down", times=program.jobs.table.filter_panel._tag.findData("quick"))
    hands.wait(lambda: rows(table) == ["fast"])
    hands.tab_to("Filter by tag", back=True)
    hands.press("Space")


def test_a_name_is_changed_where_it_stands(hands, table, program, ids):
    number = rows(table).index("slow")
    hands.press("Ctrl+Home")
    hands.press("Down", times=number)
    hands.press("F2")
    hands.press("Ctrl+A")
    hands.write("slower")
    hands.press("Return")
    hands.wait(lambda: "slower" in rows(table))
    assert program._services.jobs.queries.show(ids["slow"]).name == "slower"
    assert hands.focus() is table
    hands.press("F2")
    hands.press("Ctrl+A")
    hands.write("slow")
    hands.press("Return")
    hands.wait(lambda: "slow" in rows(table))


def test_several_rows_are_chosen_and_compared(hands, table, program, ids):
    row_numbers = sorted(rows(table).index(name) for name in ("fast", "slow"))
    hands.press("Ctrl+Home")
    hands.press("Ctrl+Down", times=row_numbers[0])
    hands.press("Space")
    hands.press("Ctrl+Down", times=row_numbers[1] - row_numbers[0])
    hands.press("Space")
    assert set(table.selected_ids()) == {ids["fast"], ids["slow"]}
    hands.tab_to("Compare")
    hands.press("Space")
    assert program.window.page_key == "compare"
    assert set(program._pages.compare.ids) == {ids["fast"], ids["slow"]}


def test_the_menu_of_a_row_is_that_of_the_row_and_not_of_the_one_below(hands, table, ids):
    number = rows(table).index("fast")
    hands.press("Ctrl+Home")
    hands.press("Down", times=number)
    hands.press("Shift+F10")
    choose(hands, "Rename")
    assert hands.focus().text() == "fast"
    hands.press("Esc")


# The queue


def order(program):
    """Of those that wait, as their rows stand."""
    model = program.jobs.model
    positions = model.queue_numbers()
    shown_ids = model.ids(range(model.rowCount()))
    return [model.summary(job_id).name for job_id in shown_ids if job_id in positions]


def test_the_queue_is_put_in_another_order_and_left(hands, program, ids):
    view = program.jobs.list.view
    hands.wait(lambda: order(program) == list(QUEUED_NAMES))
    assert hands.focus() is view
    hands.press("Home")
    while view.currentIndex().data() != QUEUED_NAMES[2]:
        previous_row = view.currentIndex().row()
        hands.press("Down")
        assert view.currentIndex().row() == previous_row + 1, "the end of the list"
    hands.press("Alt+Up")
    hands.wait(lambda: order(program) == [QUEUED_NAMES[0], QUEUED_NAMES[2], QUEUED_NAMES[1]])
    assert view.currentIndex().data() == QUEUED_NAMES[2]
    hands.press("Alt+Down")
    hands.wait(lambda: order(program) == list(QUEUED_NAMES))
    hands.press("Shift+F10")
    choose(hands, "Remove from queue")
    hands.wait(lambda: order(program) == list(QUEUED_NAMES[:2]))
    hands.wait(lambda: program.jobs.model.summary(ids[QUEUED_NAMES[2]]).state is JobState.CREATED)


# The curves


def test_a_curve_is_read_zoomed_panned_and_fitted(hands, program, ids):
    open_job(hands, program, "slow")
    curves = program.jobs.detail.curves
    hands.wait(lambda: curves.curve("loss") is not None and len(curves.curve("loss")) == 30)
    plot = hands.tab_to("Loss")
    full_range = plot.x_range()
    hands.press("Home")
    assert plot.accessibleDescription().startswith("step 1 ")
    assert "train, smoothed 2.00" in plot.accessibleDescription().replace("\u2009", "")
    hands.press("End")
    assert plot.accessibleDescription().startswith("step 30 ")
    hands.press("Left", times=3)
    pointed_step = plot.pointer_x
    assert full_range[0] < pointed_step < 30
    hands.press("+", times=2)
    zoomed_range = plot.x_range()
    assert zoomed_range[1] - zoomed_range[0] < 0.5 * (full_range[1] - full_range[0])
    assert zoomed_range[0] < pointed_step < zoomed_range[1]
    hands.press("Shift+Left")
    assert plot.x_range()[0] < zoomed_range[0]
    assert plot.x_range()[1] - plot.x_range()[0] == pytest.approx(zoomed_range[1] - zoomed_range[0])
    hands.press("-", times=4)
    assert plot.x_range() == pytest.approx(full_range)
    hands.press("+")
    hands.press("F")
    assert plot.is_fitted
    hands.press("L")
    assert plot.log_y
    hands.press("L")
    assert not plot.log_y
    hands.press("Shift+L")
    assert plot.log_x
    assert plot.x_range()[0] == 0, "the first step"
    hands.press("Home")
    assert plot.accessibleDescription().startswith("step 1 ")
    hands.press("Right", times=3)
    assert plot.pointer_x > 0
    hands.press("Shift+L")
    assert not plot.log_x
    smoothing = plot.smoothing
    hands.press("S")
    hands.press("Right", times=5)
    assert plot.smoothing == pytest.approx(smoothing + 0.05)
    hands.press("Left", times=5)


# Compare, and a sweep


def test_jobs_are_added_to_the_comparison_and_taken_out(hands, program, ids):
    page = program._pages.compare
    program._job_controllers.compare._set_jobs(())
    go(hands, program, "Ctrl+2", "compare")
    for name in ("slow", "fast"):
        hands.tab_to("Add a job" if name == "slow" else "Add job")
        hands.press("Space")
        hands.write(name)
        hands.press("Return")
        hands.wait(lambda name=name: ids[name] in page.ids)
        # The first one takes away what was typed.
        hands.press("Esc", "Esc")
        hands.wait(lambda: QApplication.activeModalWidget() is None)
    assert page.ids == (ids["slow"], ids["fast"])
    hands.wait(lambda: len(page.table._heads) == 2)
    hands.tab_to("fast")

    def highlighted_keys():
        return [panel.curves.highlighted_key for panel in page.plots.panels().values()]

    # One whose points come now is lifted when they are there.
    hands.wait(lambda: highlighted_keys() == [ids["fast"]] * 2)
    # The heads are made again when rows come; a new one has the focus once it is shown.
    hands.wait(lambda: hands.name().startswith("fast"))
    hands.press("Del")
    hands.wait(lambda: page.ids == (ids["slow"],))
    hands.wait(lambda: hands.name().startswith("slow"))


def test_a_sweep_is_brushed_and_the_best_remaining_job_is_opened(hands, program, ids):
    page = program._pages.compare
    program._job_controllers.compare._set_jobs(())
    open_job(hands, program, "digits batch=16 lr=0.1")
    job_id = ids["digits batch=16 lr=0.1"]
    hands.wait(lambda: program.jobs.open_id == job_id and program.jobs.open_view is not None)
    hands.tab_to("More")
    hands.press("Space")
    choose(hands, "Compare")
    hands.wait(lambda: page.parallel.isVisible())
    plot = page.parallel.plot
    hands.wait(lambda: len(plot._coordinates.lines) == 6)
    assert hands.tab_to("Parallel coordinates of 6 jobs") is plot
    hands.press("Right")
    assert plot.accessibleDescription().endswith("Keys select a range of Learning rate.")
    hands.press("Shift+Down", times=17)
    assert {line.name for line in plot._coordinates.lines if line.job_id in plot.selected_jobs} == {
        "digits batch=16 lr=0.01",
        "digits batch=32 lr=0.01",
    }
    hands.press("Shift+Up", times=17)
    assert plot.brushes == {}
    hands.press("Ctrl+Up", times=15)
    assert len(plot.selected_jobs) == 2
    hands.press("Left")
    hands.press("Ctrl+Up")
    assert len(plot.selected_jobs) == 1
    hands.press("Del")
    assert len(plot.selected_jobs) == 2
    hands.press("Down", "Return")
    assert program.window.page_key == "jobs"
    assert "lr=0.1" in program.jobs.model.summary(program.jobs.open_id).name


# A new job


def test_gpus_are_chosen_by_space_and_arrows(hands, program):
    program._node_controller.stop()
    nodes = (samples.state("gpu01"), samples.state("gpu02", "few"))
    try:
        go(hands, program, "Ctrl+N", "new-job")
        program.form.show_nodes(nodes)
        hands.tab_to("GPUs of gpu01")
        hands.press("Space", "Right", "Right", "Space")
        hands.press("Down")
        assert hands.name() == "GPUs of gpu02"
        hands.press("A")
        selected_gpus = {p["node"]: p.get("gpus") for p in program.form.draft().raw["placement"]}
        assert selected_gpus["gpu01"] == ["GPU-0", "GPU-2"]
        assert selected_gpus["gpu02"] == [f"GPU-{number}" for number in range(6)]
    finally:
        program._node_controller.start()
        hands.wait(
            lambda: list(find_only(PlacementPicker, program.form)._rows) == ["this-computer"]
        )


def test_a_whole_job_is_made_started_stopped_and_resumed(hands, program):
    go(hands, program, "Ctrl+N", "new-job")
    assert hands.name() == "Name"
    hands.press("Ctrl+A")
    hands.write("by hand")
    for control in ("Model", "Dataset", "Loader"):
        box = hands.tab_to(control)
        hands.press("Home")
        while "digits" not in (box.currentText()):
            previous_index = box.currentIndex()
            hands.press("Down")
            assert box.currentIndex() != previous_index, f"{control}: there is no digits"
    hands.tab_to("Processes on this computer")
    hands.press("Ctrl+A")
    hands.write("1")
    hands.tab_to("Epochs")
    hands.press("Ctrl+A")
    hands.write("400")
    hands.wait(lambda: program.form._may_start)
    hands.press("Ctrl+Return")
    hands.wait(lambda: program.window.page_key == "jobs")
    view = program.jobs.open_view
    assert view.name == "by hand"
    assert (view.config.world_size, view.config.epochs) == (1, 400)
    try:
        hands.wait(lambda: program.jobs.open_view.step > 0)
        hands.press("Ctrl+.")
        hands.wait(lambda: program.jobs.open_view.state is JobState.INTERRUPTED)
        stopped_at = program.jobs.open_view.step
        header = program.jobs.detail.header
        hands.wait(lambda: header.main_button.text() == "Resume" and header.main_button.isEnabled())
        hands.tab_to("Resume")
        hands.press("Space")
        curve = program.jobs.detail.curves.curve
        hands.wait(lambda: curve("loss") is not None and len(curve("loss")) > stopped_at)
        steps = curve("loss").steps
        assert np.array_equal(steps, np.arange(1, len(steps) + 1)), "the curve has a gap"
        assert program.jobs.open_view.run == 2
        hands.press("Ctrl+.")
        hands.wait(lambda: program.jobs.open_view.state is JobState.INTERRUPTED)
    finally:
        for run in (1, 2):
            process_cleanup.end_tagged(run_tag(view.id, run), 0.0)


def test_a_field_takes_several_values(hands, program):
    go(hands, program, "Ctrl+N", "new-job")
    hands.tab_to("Learning rate")
    hands.press("Shift+F10")
    choose(hands, "Several values…")
    hands.press("Ctrl+A")
    hands.write("0.1, 0.2")
    hands.press("Return")
    (axis,) = program.form._fields.swept_fields.axes()
    assert axis.points() == (0.1, 0.2)
    program.form._fields.swept_fields.clear()


# Notices, and logs


def test_a_notification_is_read_and_its_place_opened(hands, program, ids):
    notice = Notice("Failed: failed", "Why.", datetime.now().astimezone(), job_id=ids["failed"])
    program.frame.notice_rules.notified.emit(notice)
    hands.tab_to("1 new notification")
    hands.press("Space")
    hands.press("Down")
    assert hands.focus().currentIndex().data() == "Failed: failed"
    hands.press("Return")
    assert program.window.page_key == "jobs"
    assert program.jobs.open_id == ids["failed"]


def test_a_log_is_searched_followed_and_led_to_its_first_error(hands, program, ids):
    open_job(hands, program, "failed")
    hands.wait(lambda: program.jobs.open_id == ids["failed"])
    hands.press("Ctrl+L")
    log = program.jobs.detail.log
    hands.wait(lambda: log.view.line_count > FAULT_LINE)
    hands.write("a needle")
    hands.press("Return")
    hands.wait(lambda: log._match_lines == tuple(number - 1 for number in NEEDLES))
    first = log._current_match
    hands.press("Return")
    assert log._current_match == (first + 1) % 3
    hands.press("Shift+Return")
    assert log._current_match == first
    hands.tab_to("Next match")
    hands.press("Space")
    assert log._current_match == (first + 1) % 3
    hands.tab_to("First error")
    hands.press("Space")
    hands.wait(lambda: log.view.marked_line == FAULT_LINE - 1)
    assert hands.tab_to("Log") is log.view
    hands.press("PgUp")
    assert not log.view.is_following
    hands.press("End")
    assert log.view.is_following
    hands.press("Esc")
    assert hands.focus() is program.jobs.list.view
