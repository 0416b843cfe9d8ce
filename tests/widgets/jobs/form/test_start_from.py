"""What a job starts from: typed as ever, or chosen from a list that waits for nothing."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtTest import QTest

from tests.job_views import replace_fields
from tests.pictures import lab
from tests.widgets.jobs.form.test_job_form import DIGITS
from widgets.common.formats import checkpoint
from widgets.common.theme_manager import unstyled
from widgets.jobs.form.job_fields import JobDraft
from widgets.jobs.form.job_form import JobForm

OWN_WEIGHTS = "Model’s own weights, if it has any"
RANDOM_WEIGHTS = "Nothing: random weights"
FILE = "Weights file…"
JOB = lab.LIVE
BEST, NEWEST = (
    next(one for one in lab.checkpoints() if one.is_best),
    next(one for one in lab.checkpoints() if one.is_latest),
)
pytestmark = pytest.mark.usefixtures("theme_manager")


@pytest.fixture
def form(qtbot, qapp):
    with unstyled(qapp):
        form = JobForm()
    qtbot.addWidget(form)
    form.resize(1200, 800)
    form.show()
    form.activateWindow()
    form.show_draft(JobDraft(DIGITS))
    return form


@pytest.fixture
def field(form):
    form.start_from.setFocus()
    return form.start_from


def open_choice(field):
    """The list, opened by key."""
    QTest.keyClick(field, Qt.Key.Key_Down)
    return field.popover


def texts(choice):
    return [choice_row.text for choice_row in choice.rows.rows]


def current(choice):
    return choice.rows.rows[choice.table.currentIndex().row()].text


def press(choice, *keys):
    for key in keys:
        QTest.keyClick(choice.search, key)


def draft_value(form):
    return form.draft().raw.get("start_from")


@pytest.mark.parametrize("text", ["20261120-aa/best", "/home/anna/weights.pt", "nothing"])
def test_typed_text_reaches_the_job_file_unchanged(form, field, qtbot, text):
    with qtbot.waitSignal(form.check_requested):
        QTest.keyClicks(field, text)
    assert draft_value(form) == text
    field.clear()
    assert draft_value(form) is None


@pytest.mark.parametrize(
    ("value", "label"),
    [
        ("20261120-aa/best", "20261120-aa/best"),
        ("/home/anna/weights.pt", "weights.pt"),
        ("tiny@1/weights.pt", "weights.pt of tiny @ 1"),
        ("nothing", "nothing"),
    ],
)
def test_a_value_of_a_job_file_stays_unchanged_and_is_shown_short(form, value, label):
    form.show_draft(JobDraft({**DIGITS, "start_from": value}))
    assert form.start_from.text() == label
    assert draft_value(form) == value
    form.start_from.set_label(value, "digits 3, best")
    assert (form.start_from.text(), draft_value(form)) == ("digits 3, best", value)
    assert value in form.start_from.toolTip()
    form.start_from.set_label("of another draft", "late name")
    assert form.start_from.text() == "digits 3, best"


def test_the_list_is_open_before_any_job_is_known(form, field, qtbot):
    with qtbot.waitSignal(field.searched) as search:
        choice = open_choice(field)
    assert search.args == [""]
    assert texts(choice) == [OWN_WEIGHTS, RANDOM_WEIGHTS, FILE, "Reading…"]
    assert choice.search.hasFocus()
    field.show_jobs(lab.JOBS)
    ran = [view.name for view in lab.JOBS if view.run]
    assert texts(choice)[3:] == ran
    assert lab.QUEUED.name not in ran, "what never ran has no checkpoint"
    press(choice, Qt.Key.Key_Escape)
    assert field.popover is None
    assert field.hasFocus()
    assert draft_value(form) is None
    field.show_jobs(lab.JOBS)
    field.show_checkpoints(JOB.id, lab.checkpoints())
    field.show_error("Too late.")


def test_new_jobs_in_the_list_keep_the_current_row(field):
    choice = open_choice(field)
    press(choice, Qt.Key.Key_Down)
    assert current(choice) == RANDOM_WEIGHTS
    field.show_jobs(lab.JOBS)
    assert current(choice) == RANDOM_WEIGHTS


def test_a_click_opens_it_below_the_field_and_a_click_beside_it_closes_it(form, field):
    QTest.mouseClick(field, Qt.MouseButton.LeftButton)
    choice = field.popover
    field_bottom = field.mapTo(form, QPoint(0, field.height())).y()
    assert choice.y() >= field_bottom
    assert form.rect().contains(choice.geometry())
    field.show_jobs(lab.JOBS)
    view = choice.table
    min_width = view.fontMetrics().horizontalAdvance(OWN_WEIGHTS)
    assert min_width < view.columnWidth(0), "what can be chosen is read without a tool tip"
    QTest.mouseClick(form.childAt(5, 5), Qt.MouseButton.LeftButton)
    assert field.popover is None


def test_a_checkpoint_of_a_job_is_found_and_chosen_by_keys_alone(form, field, qtbot):
    choice = open_choice(field)
    with qtbot.waitSignal(field.searched) as search:
        QTest.keyClicks(choice.search, "retina")
        assert choice.search.text() == "retina"
    assert search.args == ["retina"]
    field.show_jobs((JOB,))
    assert current(choice) == JOB.name
    assert choice.search.accessibleDescription().startswith(f"{JOB.name}, Training, ")
    with qtbot.waitSignal(field.checkpoints_requested) as request:
        press(choice, Qt.Key.Key_Return)
    assert request.args == [JOB.id]
    assert texts(choice) == ["Back to all jobs", "Reading…"]
    field.show_checkpoints("another job", lab.checkpoints())
    assert texts(choice)[1:] == ["Reading…"]
    field.show_checkpoints(JOB.id, lab.checkpoints())
    assert current(choice) == checkpoint(NEWEST.name)
    assert choice.rows.rows[1].remark.replace("\xa0", " ") == "latest · validation loss 0.368"
    with qtbot.waitSignal(form.check_requested) as check:
        QTest.keyClicks(choice.search, "best")
        press(choice, Qt.Key.Key_Return)
    assert check.args[0].raw["start_from"] == f"{JOB.id}/{BEST.name}"
    assert field.text() == f"{JOB.name}, {checkpoint(BEST.name)}"
    assert field.hasFocus()


def test_escape_leads_from_the_checkpoints_back_to_the_jobs(field):
    choice = open_choice(field)
    field.show_jobs((JOB,))
    choice._choose_row(choice.rows.index(3, 0))
    field.show_checkpoints(JOB.id, ())
    assert texts(choice) == ["Back to all jobs", "No checkpoint yet."]
    press(choice, Qt.Key.Key_Escape)
    assert texts(choice) == [OWN_WEIGHTS, RANDOM_WEIGHTS, FILE, JOB.name]
    press(choice, Qt.Key.Key_Down, Qt.Key.Key_PageDown)
    assert current(choice) == JOB.name
    press(choice, Qt.Key.Key_Down)
    assert current(choice) == OWN_WEIGHTS, "after the last comes the first"
    press(choice, Qt.Key.Key_Up, Qt.Key.Key_PageUp)
    assert current(choice) == OWN_WEIGHTS


@pytest.mark.parametrize(("steps", "value"), [(0, None), (1, "nothing")])
def test_the_models_own_weights_and_nothing_can_be_chosen(form, field, steps, value):
    form.show_draft(JobDraft({**DIGITS, "start_from": "20261120-aa/best"}))
    choice = open_choice(field)
    press(choice, *[Qt.Key.Key_Down] * steps, Qt.Key.Key_Return)
    assert draft_value(form) == value


def test_enter_uses_a_path_typed_into_the_search(form, field):
    choice = open_choice(field)
    field.show_jobs(lab.JOBS)
    QTest.keyClicks(choice.search, "/home/anna/w.pt")
    press(choice, Qt.Key.Key_Return)
    assert draft_value(form) == "/home/anna/w.pt"


def test_enter_takes_no_search_for_a_file_while_its_answer_is_on_the_way(form, field):
    choice = open_choice(field)
    field.show_jobs(lab.JOBS)
    QTest.keyClicks(choice.search, "unet")
    press(choice, Qt.Key.Key_Return)
    assert field.popover is choice
    assert texts(choice) == ["Reading…"]
    field.show_jobs(())
    assert texts(choice) == ["Use “unet”"]
    press(choice, Qt.Key.Key_Return)
    assert draft_value(form) == "unet"


def test_a_file_is_asked_for_and_shown_by_its_name(form, field, qtbot):
    choice = open_choice(field)
    with qtbot.waitSignal(field.file_requested):
        press(choice, Qt.Key.Key_Down, Qt.Key.Key_Down, Qt.Key.Key_Return)
    assert field.popover is None
    field.choose("/home/anna/imagenet.pt")
    assert (field.text(), draft_value(form)) == ("imagenet.pt", "/home/anna/imagenet.pt")


def test_the_list_shows_a_read_error(field):
    choice = open_choice(field)
    field.show_error("The data root is gone.")
    assert texts(choice) == [OWN_WEIGHTS, RANDOM_WEIGHTS, FILE, "The data root is gone."]
    field.show_jobs((replace_fields(JOB, run=2),))
    assert texts(choice)[3:] == [JOB.name]
