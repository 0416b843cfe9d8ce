"""Several values for a field of the form: how they are given, shown, counted and queued."""

from __future__ import annotations

from itertools import product

import pytest
from PySide6.QtCore import QEvent, QPoint, QPointF, Qt
from PySide6.QtGui import QContextMenuEvent, QEnterEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QLabel, QMenu, QStackedWidget, QWidget

from backend.records.base.validation import ConfigError
from backend.records.jobs.job_file import parse_job
from backend.records.jobs.view import JobCheck
from backend.records.library.item import Kind
from backend.records.nodes.reading import NodeState, Presence
from backend.records.sweeps.search import Search
from backend.records.sweeps.values import Axis, ValueRange
from tests.widgets.jobs.form.test_job_form import DIGITS, item, reading
from tests.windows import (
    all_fields,
    find_button,
    find_line,
    find_only,
    finish_timers,
    job_fields,
    setting_field,
    shows_text,
    side_of,
    start_buttons,
    visible_texts,
)
from widgets.common.buttons import Switch
from widgets.common.fields import ErrorLine, Field, LineEdit
from widgets.common.theme import TARGET_MIN
from widgets.jobs.form.form_layout import Details
from widgets.jobs.form.form_sections import FormSections
from widgets.jobs.form.form_side import FormFoot
from widgets.jobs.form.job_fields import JobDraft
from widgets.jobs.form.job_form import JobForm
from widgets.jobs.form.multi_value_editor import MultiValueEditor
from widgets.jobs.form.swept_fields import MultiValueButton

RATE, BATCH = Axis("optimizer.lr", (0.01, 0.03, 0.1)), Axis("batch_size", (16, 32))
CHECK = JobCheck(
    jobs=6,
    global_batch=32,
    learning_rate=0.02,
    steps_per_epoch=40,
    rates=(0.1, 0.2),
)

VALUES = "Values, separated by commas"


@pytest.fixture
def form(qtbot):
    form = JobForm()
    qtbot.addWidget(form)
    form.resize(1200, 800)
    form.show()
    fill(form)
    yield form
    form.deleteLater()
    QApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)


def fill(form):
    models = (item(Kind.MODEL), item(Kind.MODEL, 2))
    form.show_choices(models, (item(Kind.DATASET),), (item(Kind.LOADER),))
    form.show_nodes((NodeState("this-computer", Presence.ONLINE, reading()),))
    form.show_draft(JobDraft(DIGITS))


def swept(form):
    return job_fields(form).swept_fields


def open_editor(form, path):
    swept(form).open(path)
    return swept(form).popover


def test_a_right_click_at_a_field_offers_several_values(form, monkeypatch):
    menus = []
    monkeypatch.setattr(QMenu, "popup", lambda menu, _position: menus.append(menu))
    field = setting_field(form, "optimizer.lr")
    field.control.setFocus()
    event = QContextMenuEvent(QContextMenuEvent.Reason.Keyboard, QPoint(3, 3), QPoint(3, 3))
    QApplication.sendEvent(field.control, event)
    (menu,) = menus
    (act,) = [item for item in menu.actions() if item.text() == "Several values…"]
    act.trigger()
    assert swept(form).popover.isVisible()
    assert "0.05" in visible_texts(swept(form).popover)
    assert not [item for item in swept(form).menu("epochs").actions() if item.text() == "One value"]
    with pytest.raises(KeyError):
        swept(form).menu("name")


def test_each_field_that_can_take_several_values_has_a_button_that_says_so(form):
    buttons = {item.accessibleName(): item for item in form.findChildren(MultiValueButton)}
    assert "Several values of Learning rate" in buttons
    assert "Several values of Name" not in buttons
    fields = all_fields(form)
    assert len(buttons) >= len(fields) - 3, "but name and start from"
    button = buttons["Several values of Batch size"]
    assert button.isVisible()
    assert button.toolTip() == "Several values: one job per value"
    QTest.mouseClick(button, Qt.MouseButton.LeftButton)
    assert "32" in visible_texts(swept(form).popover)


def button_of(form, field):
    return next(item for item in form.findChildren(MultiValueButton) if item._field is field)


def test_the_button_of_a_field_is_large_enough_and_no_tab_stop_of_its_own(form):
    field = setting_field(form, "batch_size")
    button = button_of(form, field)
    assert min(button.width(), button.height()) >= TARGET_MIN
    form.activateWindow()
    field.control.setFocus()
    QTest.keyClick(field.control, Qt.Key.Key_Tab)
    assert QApplication.focusWidget() is setting_field(form, "optimizer.name").control


def test_the_button_of_a_field_is_seen_only_while_that_is_pointed_at_or_has_the_focus(form):
    form.activateWindow()
    setting_field(form, "name").control.setFocus()
    buttons = form.findChildren(MultiValueButton)
    assert not [item.accessibleName() for item in buttons if item.is_highlighted()]
    field = setting_field(form, "batch_size")
    field.control.setFocus()
    assert [item for item in buttons if item.is_highlighted()] == [button_of(form, field)]
    hovered_field = setting_field(form, "epochs")
    QApplication.sendEvent(hovered_field, QEnterEvent(*[QPointF(3, 3)] * 3))
    assert button_of(form, hovered_field).is_highlighted()
    QApplication.sendEvent(hovered_field, QEvent(QEvent.Type.Leave))
    assert not button_of(form, hovered_field).is_highlighted()


PATHS = ("model", "loader", "epochs", "batch_size", "optimizer.lr", "strategy.name", "precision")


def test_the_button_is_level_with_its_control_and_nothing_moves_when_it_lights(form):
    def field_geometries(page):
        return [field.geometry() for field in page.findChildren(Field)]

    for path, width in product(PATHS, (1200, 900)):
        form.resize(width, 800)
        QApplication.processEvents()
        field = setting_field(form, path)
        page = field.parentWidget()
        control = field.control.geometry().translated(field.pos())
        button_geometry = button_of(form, field).geometry()
        assert button_of(form, field).parentWidget() is page
        assert button_geometry.center().y() == control.center().y()
        inside = not isinstance(field.control, Switch)
        assert (button_geometry.right() <= control.right()) is inside
        assert (button_geometry.left() > control.right()) is not inside
        if not inside:
            continue
        geometries, margins = (
            field_geometries(page),
            field.control.textMargins() if path == "epochs" else None,
        )
        QApplication.sendEvent(field, QEnterEvent(*[QPointF(3, 3)] * 3))
        QApplication.processEvents()
        assert field_geometries(page) == geometries
        QApplication.sendEvent(field, QEvent(QEvent.Type.Leave))
        assert margins is None or field.control.textMargins() == margins


@pytest.mark.parametrize("path", ["name", "checkpoint.best_metric", "optimizer.lr", "seed"])
def test_a_text_that_does_not_fit_ends_in_an_ellipsis_while_nothing_is_typed(form, path):
    for details in form.findChildren(Details):
        details.open()
    QApplication.processEvents()
    line = setting_field(form, path).control
    other_control = setting_field(form, "epochs").control
    form.activateWindow()
    other_control.setFocus()
    line.setText("m" * 80)
    cut = line.grab().toImage()
    line.setText("m" * 90)
    assert line.grab().toImage() == cut, "its beginning, and an ellipsis"
    line.setFocus()
    assert line.grab().toImage() != cut
    line.setText("m")
    whole_image = line.grab().toImage()
    other_control.setFocus()
    assert line.grab().toImage() != whole_image, "only the frame"


def test_an_error_begins_below_its_field_or_as_near_as_it_fits(form):
    for path in ("name", *PATHS[:3], "optimizer.lr", "strategy.lr_scaling", "schedule.name"):
        message = "It must be a number."
        form.show_check(JobCheck(errors=(ConfigError(path, f"{path}: {message}"),)))
        QApplication.processEvents()
        field = setting_field(form, path)
        (line,) = [
            item for item in find_only(FormSections, form).findChildren(ErrorLine) if item.text()
        ]
        line_x = line.contentsRect().left() + line.mapTo(form, QPoint()).x()
        field_x = field.mapTo(form, QPoint()).x()
        spare = line.contentsRect().width() - line.fontMetrics().horizontalAdvance(line.text())
        assert line_x == field_x or (line_x < field_x and spare <= 3)
        assert QLabel.text(line) == line.text()
        assert line.mapTo(form, QPoint()).y() >= field.mapTo(form, QPoint(0, field.height())).y()


def test_several_values_of_a_hidden_field_open_its_section(form):
    field = setting_field(form, "optimizer.momentum")
    assert not field.isVisible()
    form.show_draft(JobDraft(DIGITS, (Axis("optimizer.momentum", (0.0, 0.9)),)))
    assert field.isVisible()
    combo = setting_field(form, "optimizer.name").control
    assert combo.display_text() == "SGD, momentum 0, 0.9"


def test_a_range_needs_no_steps_where_jobs_are_drawn_at_random(form):
    form.show_draft(JobDraft(DIGITS, (RATE,), 5, 2))
    popover = open_editor(form, "optimizer.momentum")
    find_button(popover, "From – to").click()
    find_line(popover, "From").setText("0.1")
    find_line(popover, "To").setText("0.9")
    assert find_line(popover, "How many values").text() == ""
    assert find_button(popover, "Use").isEnabled()
    find_button(popover, "Use").click()
    axis = Axis("optimizer.momentum", span=ValueRange(0.1, 0.9, 0))
    assert form.draft().axes == (RATE, axis)
    assert form.draft().draws == 5
    assert shows_text(
        find_only(FormSections, form).sweep,
        "Values of a range without steps are drawn from anywhere between its ends.",
    )


def test_values_with_commas_stand_in_the_field_and_in_the_draft(form, qtbot):
    popover = open_editor(form, "optimizer.lr")
    find_line(popover, VALUES).setText("0.01, 0.03,0.1")
    assert find_button(popover, "Use 3 values").text() == "Use 3 values"
    with qtbot.waitSignal(job_fields(form).changed):
        QTest.keyClick(find_line(popover, VALUES), Qt.Key.Key_Return)
    control = setting_field(form, "optimizer.lr").visible_control
    assert isinstance(control, LineEdit)
    assert control.text() == "0.01, 0.03, 0.1"
    draft = form.draft()
    assert draft.axes == (RATE,)
    assert draft.raw["optimizer"] == {**DIGITS["optimizer"], "lr": 0.01}
    assert parse_job(draft.raw).errors == ()


def test_a_range_is_given_by_its_ends_and_how_many(form):
    popover = open_editor(form, "optimizer.lr")
    find_button(popover, "From – to").click()
    for line, text in (
        (find_line(popover, "From"), "1e-4"),
        (find_line(popover, "To"), "0.1"),
        (find_line(popover, "How many values"), "4"),
    ):
        line.setText(text)
    find_button(popover, "Equal factors").click()
    assert "0.0001, 0.001, 0.01, 0.1" in visible_texts(popover)
    find_button(popover, "Use 4 values").click()
    assert form.draft().axes == (Axis("optimizer.lr", span=ValueRange(1e-4, 0.1, 4, "log")),)
    editor = open_editor(form, "optimizer.lr")
    assert find_only(QStackedWidget, editor).currentIndex() == 1
    assert "0.0001" in visible_texts(editor)


def test_choices_and_switches_are_ticked(form):
    popover = open_editor(form, "optimizer.name")
    find_button(popover, "Adam").click()
    assert "sgd, adam" in visible_texts(popover)
    find_button(popover, "Use 2 values").click()
    flag = open_editor(form, "stop_on_nan")
    find_button(flag, "Off").click()
    find_button(flag, "Use 2 values").click()
    assert form.draft().axes == (
        Axis("optimizer.name", ("sgd", "adam")),
        Axis("stop_on_nan", (True, False)),
    )


INVALID_VALUES = {
    "": "Has no values; use 0.01, 0.03, 0.1 or 0.01..0.1:3.",
    "0.1": "Choose at least two values.",
    "0.1,": "Has an empty value next to a comma; use 0.01, 0.03, 0.1 or 0.01..0.1:3.",
    "0.1, 0.1": "Names 0.1 twice.",
    "0.050.01, 0.05, 0.1": "0.050.01 is not a number.",
    "0.1, x": "X is not a number.",
    "0.1, 0,2, 1e-": "1e- is not a number.",
}


def test_the_popover_names_invalid_values_and_refuses_to_use_them(form):
    popover = open_editor(form, "optimizer.lr")
    for text, message in INVALID_VALUES.items():
        find_line(popover, VALUES).setText(text)
        assert message in visible_texts(popover)
        assert not find_button(popover, "Use").isEnabled()
        QTest.keyClick(find_line(popover, VALUES), Qt.Key.Key_Return)
        assert popover.isVisible()
        assert form.draft().axes == ()


@pytest.mark.parametrize("path", ["optimizer.lr", "epochs", "batch_size", "seed"])
def test_typing_replaces_the_old_value_and_the_focus_returns_to_the_field(form, qtbot, path):
    form.activateWindow()
    popover = open_editor(form, path)
    qtbot.waitUntil(find_line(popover, VALUES).hasFocus)
    QTest.keyClicks(find_line(popover, VALUES), "1, 2")
    assert popover.axis().values == (1, 2)
    QTest.keyClick(find_line(popover, VALUES), Qt.Key.Key_Return)
    field = setting_field(form, path)
    assert field.visible_control.hasFocus()
    popover = open_editor(form, path)
    qtbot.waitUntil(find_line(popover, VALUES).hasFocus)
    QTest.keyClicks(find_line(popover, VALUES), "3, 4, 5")
    QTest.keyClick(find_line(popover, VALUES), Qt.Key.Key_Return)
    assert [axis.values for axis in form.draft().axes] == [(3, 4, 5)]
    popover = open_editor(form, path)
    QTest.keyClick(popover, Qt.Key.Key_Escape)
    assert field.visible_control.hasFocus()


def test_escape_changes_nothing(form):
    popover = open_editor(form, "optimizer.lr")
    find_line(popover, VALUES).setText("1, 2")
    QTest.keyClick(popover, Qt.Key.Key_Escape)
    assert swept(form).popover is None
    popover = open_editor(form, "optimizer.lr")
    find_line(popover, VALUES).setText("1, 2")
    QTest.mouseClick(form.childAt(5, 5), Qt.MouseButton.LeftButton)
    assert swept(form).popover is None
    assert form.draft().axes == ()


def test_one_value_restores_the_earlier_value(form):
    swept(form).show_axis(RATE)
    popover = open_editor(form, "optimizer.lr")
    item = [
        b
        for b in popover.findChildren(type(find_button(popover, "Use 3 values")))
        if b.text() == "One value"
    ]
    item[0].click()
    assert form.draft().axes == ()
    assert form.draft().raw["optimizer"]["lr"] == 0.05
    assert setting_field(form, "optimizer.lr").control.isVisible()


def test_another_job_in_the_form_has_its_own_values_alone(form):
    form.show_draft(JobDraft(DIGITS, (RATE, BATCH)))
    assert form.draft().axes == (BATCH, RATE), "in the order of the fields"
    form.show_draft(JobDraft(DIGITS))
    assert form.draft() == JobDraft({**form.draft().raw})


def test_another_optimizer_has_no_values_for_a_removed_setting(form):
    swept(form).show_axis(Axis("optimizer.momentum", (0.0, 0.9)))
    form.show_draft(JobDraft(form.draft().raw, form.draft().axes))
    setting_field(form, "optimizer.name").control.choose("adagrad")
    assert form.draft().axes == ()


def test_s10_the_result_and_the_button_count_the_jobs_and_start_queues_them(form, qtbot):
    form.show_draft(JobDraft(DIGITS, (RATE, BATCH)))
    form.show_check(CHECK)
    assert side_of(form).result.text() == "Ready to queue 6 jobs"
    assert (
        start_buttons(form).start.text()
        == find_only(FormFoot, form).start_buttons.start.text()
        == "Queue 6 jobs"
    )
    assert not start_buttons(form).queue.isVisible()
    assert not find_button(form, "Save draft").isEnabled()
    with (
        qtbot.waitSignal(form.queue_requested) as request,
        qtbot.assertNotEmitted(form.start_requested),
    ):
        start_buttons(form).start.click()
    assert request.args[0].axes == (BATCH, RATE)
    form.set_busy("Making job 3 of 6…")
    assert start_buttons(form).start.text() == "Making job 3 of 6…"
    with qtbot.waitSignal(form.start_cancelled):
        start_buttons(form).queue.click()


def test_a_fault_of_a_value_stands_at_its_field_with_a_red_edge(form):
    form.show_draft(JobDraft(DIGITS, (Axis("optimizer.lr", (0.1, 0)),)))
    message = "optimizer.lr: “0” must be above 0."
    form.show_check(JobCheck(errors=(ConfigError("optimizer.lr", message),), jobs=2))
    field = setting_field(form, "optimizer.lr")
    assert field.error() == "Learning rate “0” must be above 0."
    assert field.visible_control.property("bad") == "true"
    assert start_buttons(form).start.text() == "1 problem to fix"


def test_a_half_made_sweep_is_reported_and_can_be_taken_back(form, qtbot):
    form.show_incomplete_sweep(
        ("Cancelled: 3 of 6 jobs were made, 0 of them are queued."), "sweep:digits-k3pf"
    )
    assert start_buttons(form).cancel.isVisible()
    finish_timers(form)
    assert side_of(form).refusal.isVisible(), "it is not forgotten with the next change"
    with qtbot.waitSignal(form.cancel_jobs_requested) as request:
        start_buttons(form).cancel.click()
    assert request.args == ["sweep:digits-k3pf"]
    form.show_error("")
    assert not start_buttons(form).cancel.isVisible()


def test_the_foot_of_a_narrow_window_says_why_nothing_was_started_too(form):
    form.show_incomplete_sweep(
        ("Cancelled: 3 of 6 jobs were made, 0 of them are queued."), "sweep:digits-k3pf"
    )
    finish_timers(form)
    assert not find_only(FormFoot, form).refusal.isHidden()
    assert find_only(FormFoot, form).refusal.text().startswith("Cancelled: 3 of 6")
    assert find_only(FormFoot, form).figures.isHidden()
    form.show_error("")
    assert find_only(FormFoot, form).refusal.isHidden()


def test_the_popover_stays_in_the_window(form):
    for path, size in product(
        ("optimizer.lr", "optimizer.name", "epochs"), ((1440, 900), (900, 600))
    ):
        form.resize(*size)
        QApplication.processEvents()
        popover = open_editor(form, path)
        assert form.rect().contains(popover.geometry())
        QTest.keyClick(popover, Qt.Key.Key_Escape)


SEARCH = Search("validation/accuracy", "higher", 40, 3, "cma-es", "hyperband")


def card_of(form):
    return find_only(FormSections, form).sweep


def test_a_range_without_a_number_of_values_is_searched(form):
    popover = open_editor(form, "optimizer.lr")
    find_button(popover, "From – to").click()
    for name, text in (("From", "0.0001"), ("To", "0.1"), ("How many values", "")):
        find_line(popover, name).setText(text)
    find_button(popover, "Equal factors").click()
    find_button(popover, "Use").click()
    draft = form.draft()
    assert draft.axes == (Axis("optimizer.lr", span=ValueRange(0.0001, 0.1, 0, "log")),)
    assert draft.search == Search("validation/loss", "lower")
    assert draft.draws is None
    assert shows_text(card_of(form), "Trials have priority -1, so other jobs go first.")
    find_button(card_of(form), "All combinations").click()
    assert form.draft().search is None, "what the user chooses stays, and the check names the range"


def test_a_search_in_a_file_is_the_same_in_the_form(form):
    form.show_draft(JobDraft(DIGITS, (RATE, BATCH), seed=7, search=SEARCH))
    draft = form.draft()
    assert (draft.search, draft.seed, draft.sweep.search) == (SEARCH, 7, SEARCH)
    form.show_draft(JobDraft(DIGITS, (RATE,)))
    assert form.draft().search is None


@pytest.mark.parametrize(
    ("goal", "better"),
    [("validation/accuracy", "higher"), ("perplexity", "lower"), ("<script>score", "higher")],
)
def test_the_name_of_the_goal_proposes_which_values_are_better(form, goal, better):
    form.show_draft(JobDraft(DIGITS, (RATE,), search=SEARCH))
    line = find_line(card_of(form), "Metric that the search improves")
    line.selectAll()
    QTest.keyClicks(line, goal)
    assert (form.draft().search.metric, form.draft().search.better) == (goal, better)
    find_button(card_of(form), "Lower").click()
    assert form.draft().search.better == "lower"


def test_errors_of_a_search_are_at_their_fields(form):
    form.show_draft(JobDraft(DIGITS, (RATE,), search=SEARCH))
    trials = find_line(card_of(form), "Number of trials")
    trials.setText("many")
    assert form.draft().search.trials == 0
    error = ConfigError("sweep.search.trials", "sweep.search.trials: must be 1 to 500, not 0.")
    form.show_check(JobCheck(errors=(error,)))
    (line,) = [item for item in card_of(form).findChildren(ErrorLine) if item.text()]
    assert line.text() == "Trials must be 1 to 500, not 0."
    form.show_check(JobCheck())
    assert line.text() == ""


@pytest.mark.parametrize(
    ("base_value", "ends", "axis"),
    [
        ("2", ("1", "4"), Axis("arguments.x", span=ValueRange(1, 4, 0, is_whole=True))),
        ("0.5", ("1", "4"), Axis("arguments.x", span=ValueRange(1, 4))),
        ("2", ("1.0", "4"), Axis("arguments.x", span=ValueRange(1, 4))),
        ("2", ("0,5", "4"), Axis("arguments.x", span=ValueRange(0.5, 4))),
    ],
)
def test_a_range_of_an_argument_is_whole_or_not_also_when_it_is_opened_again(
    qtbot, base_value, ends, axis
):
    window = QWidget()
    qtbot.addWidget(window)
    editor = MultiValueEditor(
        "arguments.x", "x", None, base_value, window=window, draws_at_random=True
    )
    editor._low_edit.setText(ends[0])
    editor._high_edit.setText(ends[1])
    find_button(editor, "From – to").click()
    assert editor.axis() == axis
    assert MultiValueEditor("arguments.x", "x", axis, "2", window=window).axis() == axis
