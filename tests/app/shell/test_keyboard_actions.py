"""What the user does to jobs, with a keyboard alone: several at once, the queue, things to keep."""

from __future__ import annotations

import pytest

from backend.node.system import process_identity
from backend.records.base.atomic_files import replace_json
from backend.records.base.layout import DataRoot
from backend.records.jobs.state import JobState
from tests.app.keyboard_window import (
    answer_file_dialog,
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
from tests.app.used_data_root import FALLING, QUEUED_NAMES
from tests.fakes import trained
from tests.windows import find_button, find_only, visible_window
from widgets.common.labels import Label
from widgets.jobs.actions.job_questions import TrashQuestion
from widgets.jobs.form.form_sections import FormSections
from widgets.jobs.form.form_side import FormSide

__all__ = ["hands", "ids", "ids_and_program", "program", "table"]


@pytest.fixture
def data_root(program) -> DataRoot:
    return program._services.data_root


def choose_rows(hands, table, names):
    """In the table, one by one."""
    hands.wait(lambda: set(names) <= set(rows(table)))
    row_numbers = sorted(rows(table).index(name) for name in names)
    hands.press("Ctrl+Home")
    current_row = 0
    for row_number in row_numbers:
        hands.press("Ctrl+Down", times=row_number - current_row)
        hands.press("Space")
        current_row = row_number
    assert len(table.selected_ids()) == len(names)


def unused_names(program, *names):
    """Names that no job has, also when a test is tried again."""
    return tuple(f"{name} {program.jobs.job_count}" for name in names)


def tags_of(program, job_id):
    return program._services.jobs.queries.show(job_id).tags


def toast_text(program):
    return find_only(Label, program.window.toast).text()


# Several


def test_several_jobs_are_tagged_and_the_tag_is_taken_away(hands, table, program, ids):
    names = ("fast", "slow")
    for field, expected in (("Tags to add", True), ("Tags to remove", False)):
        choose_rows(hands, table, names)
        hands.tab_to("Tag")
        hands.press("Space")
        hands.tab_to(field)
        hands.write("kept")
        hands.press("Return")
        for name in names:
            hands.wait(
                lambda name=name, is_there=expected: (
                    ("kept" in tags_of(program, ids[name])) is is_there
                )
            )
        table.clearSelection()
        table.setFocus()
    assert tags_of(program, ids["fast"]) == ("quick",), "the others stay"


def test_several_jobs_are_stopped(hands, table, program, data_root):
    names = unused_names(program, "first that runs", "second that runs")
    folders = [
        data_root.job(trained.job(data_root.path, name, FALLING[:10], state=JobState.TRAINING))
        for name in names
    ]
    for folder in folders:
        replace_json(folder.attempt(1).supervisor, process_identity.own_process().to_dict())
    choose_rows(hands, table, names)
    hands.tab_to("Stop 2")
    hands.press("Space")
    for folder in folders:
        hands.wait(folder.stop_request.exists)
    # Their supervisor has seen it.
    for folder in folders:
        record = {"run": 1, "state": "INTERRUPTED", "message": "", "leftovers": []}
        replace_json(folder.attempt(1).exit, record)
    hands.wait(lambda: not program._job_controllers.poller.live_views())


def test_several_jobs_without_a_checkpoint_are_exported_and_the_refusal_is_said(
    hands, table, program, tmp_path
):
    choose_rows(hands, table, ("fast", "slow"))
    hands.tab_to("Export")
    _answer = answer_file_dialog(tmp_path)
    hands.press("Space")
    hands.wait(lambda: toast_text(program).startswith("Exported 0 of 2 jobs."))
    assert "no checkpoint" in toast_text(program)


def test_several_jobs_are_moved_to_the_trash_on_request(hands, table, data_root, program):
    names = unused_names(program, "first to go", "second to go")
    trashed_ids = [trained.job(data_root.path, name, FALLING[:10]) for name in names]
    choose_rows(hands, table, names)
    hands.press("Del")
    # Not before it is known how much goes along.
    hands.wait(lambda: find_button(visible_window(TrashQuestion), "Move to trash").isEnabled())
    hands.tab_to("Move to trash")
    assert all(data_root.job(job_id).path.exists() for job_id in trashed_ids), "only asked"
    hands.press("Space")
    hands.wait(lambda: not set(names) & set(rows(table)))
    assert not any(data_root.job(job_id).path.exists() for job_id in trashed_ids)
    assert set(trashed_ids) <= {path.name for path in (data_root.trash / "jobs").iterdir()}
    hands.wait(lambda: toast_text(program).startswith("Moved 2 jobs to the trash, "))


# The queue


def test_a_job_is_queued_and_gets_a_priority_and_an_hour_and_the_queue_goes_on_and_pauses(
    hands, program, ids
):
    services = program._services
    raw = services.jobs.clone(ids[QUEUED_NAMES[0]])
    (name_of_last,) = unused_names(program, "last in line")
    last_id = services.jobs.create({**raw, "name": name_of_last, "tags": []}).id
    program._job_controllers.poller.poll_list()
    hands.wait(lambda: program.jobs.model.summary(last_id) is not None)
    open_job(hands, program, name_of_last)
    hands.wait(lambda: program.jobs.open_id == last_id and program.jobs.open_view is not None)
    hands.tab_to("Queue")
    hands.press("Space")
    queue_numbers = program.jobs.model.queue_numbers
    hands.wait(
        lambda: (
            last_id in queue_numbers()
            and queue_numbers()[last_id] == len(queue_numbers()) > len(QUEUED_NAMES)
        )
    )

    # Nothing of it may start here when the queue goes on.
    for name, job_id in [*((name, ids[name]) for name in QUEUED_NAMES), (name_of_last, last_id)]:
        open_job(hands, program, name)
        hands.wait(
            lambda job_id=job_id: (
                program.jobs.open_id == job_id and program.jobs.detail._queued_job is not None
            )
        )
        hands.tab_to("More")
        hands.press("Space")
        choose(hands, "Priority and time…")
        hands.tab_to("Priority")
        hands.press("Ctrl+A")
        hands.write("5" if job_id == last_id else "0")
        hands.tab_to("Not before")
        hands.write("2099-01-01 10:00")
        hands.press("Return")
        hands.wait(
            lambda job_id=job_id: program.jobs.model.queued_job(job_id).entry.not_before.startswith(
                "20"
            )
        )
    hands.wait(
        lambda: queue_numbers()[last_id] < min(queue_numbers()[ids[name]] for name in QUEUED_NAMES)
    )
    assert program.jobs.model.queued_job(last_id).entry.priority == 5

    program.jobs.setFocus()
    for title, is_paused in (("Resume", False), ("Pause", True)):
        hands.tab_to(title)
        hands.press("Space")
        hands.wait(
            lambda is_paused=is_paused: program.jobs.list.queue_strip._is_paused is is_paused
        )
        assert services.queue.read().pause_message.startswith("The queue is paused") is is_paused
    assert last_id in {p.entry.job_id for p in services.queue.read().jobs}


# To keep


def test_a_plot_is_saved_as_a_picture_and_the_curves_of_several_jobs_as_a_table(
    hands, program, ids, table, tmp_path
):
    choose_rows(hands, table, ("fast", "slow"))
    hands.tab_to("Save CSV")
    _answer = answer_file_dialog(tmp_path / "curves.csv")
    hands.press("Space")
    hands.wait((tmp_path / "curves.csv").exists)
    assert len((tmp_path / "curves.csv").read_text().splitlines()) > len(FALLING)
    program.jobs.show_list()
    program.jobs.setFocus()
    open_job(hands, program, "slow")
    curves = program.jobs.detail.curves
    hands.wait(lambda: curves.curve("loss") is not None and len(curves.curve("loss")) == 30)
    hands.tab_to("Save the plot Accu")
    hands.press("Space")
    _answer = answer_file_dialog(tmp_path / "accuracy.png")
    choose(hands, "This plot as PNG…")
    hands.wait((tmp_path / "accuracy.png").exists)
    assert (tmp_path / "accuracy.png").read_bytes().startswith(b"\x89PNG")


def test_notes_and_tags_are_written(hands, program, ids):
    open_job(hands, program, "slow")
    hands.wait(lambda: program.jobs.open_id == ids["slow"] and program.jobs.open_view is not None)
    tabs = program.jobs.detail
    while not tabs.notes.isVisible():
        hands.press("]")
    hands.tab_to("Tags")
    hands.write("steady, small")
    hands.tab_to("Notes")
    hands.press("Ctrl+A")
    hands.write("What it was for.")
    hands.wait(lambda: program._services.jobs.queries.show(ids["slow"]).notes == "What it was for.")
    assert tags_of(program, ids["slow"]) == ("steady", "small")


# A new job


def fill_in_basics(hands, name):
    """What every job needs."""
    assert hands.name() == "Name"
    hands.press("Ctrl+A")
    hands.write(name)
    for control in ("Model", "Dataset", "Loader"):
        box = hands.tab_to(control)
        hands.press("Home")
        while "digits" not in box.currentText():
            previous_index = box.currentIndex()
            hands.press("Down")
            assert box.currentIndex() != previous_index, f"{control}: there is no digits"


def test_settings_are_kept_as_a_template_and_a_job_begins_with_it(hands, program):
    go(hands, program, "Ctrl+N", "new-job")
    fill_in_basics(hands, "by template")
    hands.tab_to("Epochs")
    hands.press("Ctrl+A")
    hands.write("77")
    hands.tab_to("Save as", back=True)
    hands.press("Space")
    choose(hands, "Template…")
    hands.tab_to("Name of the template")
    hands.press("Ctrl+A")
    hands.write("long one")
    hands.press("Return")
    hands.wait(lambda: [t.name for t in program._services.templates.list()] == ["long one"])
    go(hands, program, "Ctrl+1", "jobs")
    go(hands, program, "Ctrl+N", "new-job")
    hands.press("Ctrl+A")
    hands.write("another")
    hands.tab_to("Epochs")
    hands.press("Ctrl+A")
    hands.write("3")
    templates = find_only(FormSections, program.form).templates
    hands.wait(lambda: "long one" in [button.text() for button in templates._buttons])
    hands.tab_to("long one", back=True)
    hands.press("Space")
    hands.wait(lambda: program.form.draft().raw["epochs"] == 77)


def test_a_sweep_is_queued(hands, program):
    go(hands, program, "Ctrl+N", "new-job")
    (name,) = unused_names(program, "swept by hand")
    fill_in_basics(hands, name)
    hands.tab_to("Learning rate")
    hands.press("Shift+F10")
    choose(hands, "Several values…")
    hands.press("Ctrl+A")
    hands.write("0.1, 0.2")
    hands.press("Return")
    # A sweep can only be queued, so the one button says so.
    start = find_only(FormSide, program.form).start_buttons.start
    hands.wait(lambda: start.isEnabled() and start.text() == "Queue 2 jobs")
    hands.tab_until(start)
    hands.press("Space")
    hands.wait(lambda: program.window.page_key == "jobs")
    model = program.jobs.model

    def queued_summaries():
        """Of those in the queue the ones that the list knows."""
        summaries = (model.summary(job_id) for job_id in model.queue_numbers())
        return [s for s in summaries if s is not None and name in s.name]

    hands.wait(lambda: len(queued_summaries()) == 2)
