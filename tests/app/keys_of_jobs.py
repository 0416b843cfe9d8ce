"""The keys of the place Jobs and of its table."""

from __future__ import annotations

import pytest
from PySide6.QtWidgets import QApplication

from backend.node.system import process_identity
from backend.records.base.atomic_files import replace_json
from backend.records.jobs.state import JobState
from tests.app.key_desk import presses
from tests.app.keyboard_window import answer_file_dialog, rows
from tests.app.used_data_root import FALLING, QUEUED_NAMES
from tests.fakes import trained
from tests.pictures import lab
from tests.windows import find_only
from widgets.common.labels import Label
from widgets.jobs.actions import job_actions
from widgets.jobs.checkpoints.export_dialog import ExportDialog
from widgets.jobs.detail.job_tabs import JobTabs
from widgets.jobs.list.job_list_model import JobColumn


def _step(step):
    def check(desk, press):
        view = desk.queue(QUEUED_NAMES[1])
        press()
        name = QUEUED_NAMES[1 + step]
        desk.wait(lambda: view.currentIndex().data() == name)
        desk.wait(lambda: desk.jobs.open_id == desk.ids[name])

    return check


presses("Next job", "Jobs")(_step(1))
presses("Previous job", "Jobs")(_step(-1))


@presses("Go to the open job", "Jobs")
def _(desk, press):
    detail = desk.open("slow")
    desk.jobs.list.view.setFocus()
    press()
    assert detail.isAncestorOf(desk.hands.focus())


@presses("Back to the list", "Jobs")
def _(desk, press):
    detail = desk.open("slow")
    detail.setFocus()
    press()
    assert desk.hands.focus() is desk.jobs.list.view


@presses("Earlier in the queue", "Jobs")
def _(desk, press):
    desk.queue()
    press()
    desk.wait(lambda: desk.order() == [QUEUED_NAMES[0], QUEUED_NAMES[2], QUEUED_NAMES[1]])
    desk.press("Alt+Down")
    desk.wait(lambda: desk.order() == list(QUEUED_NAMES))


@presses("Later in the queue", "Jobs")
def _(desk, press):
    desk.queue(QUEUED_NAMES[1])
    press()
    desk.wait(lambda: desk.order() == [QUEUED_NAMES[0], QUEUED_NAMES[2], QUEUED_NAMES[1]])
    desk.press("Alt+Up")
    desk.wait(lambda: desk.order() == list(QUEUED_NAMES))


def _trash(desk, press):
    """It asks, with the bytes; a no leaves all as it is."""
    job_ids = []
    desk.jobs.job_actions.add_handler(job_actions.TRASH_ALL, job_ids.append)
    press()
    desk.wait(lambda: QApplication.activeModalWidget() is not None)
    assert job_ids == [(desk.ids["fast"],)]
    desk.press("Esc")
    assert desk.jobs.model.summary(desk.ids["fast"]) is not None


@presses("Move to the trash", "Jobs")
def _(desk, press):
    desk.open("fast")
    desk.jobs.list.view.setFocus()
    _trash(desk, press)


@presses("Stop the open job", "Jobs")
def _(desk, press):
    detail = desk.open("slow")
    job_ids = []
    detail.job_actions.add_handler(job_actions.STOP, job_ids.append)
    press()
    assert job_ids == [desk.ids["slow"]]
    desk.wait(lambda: desk.jobs.model.summary(desk.ids["slow"]).state is JobState.FINISHED)


@presses("Rename the open job", "Jobs")
def _(desk, press):
    detail = desk.open("slow")
    press()
    assert detail.header._name._is_editing()
    desk.press("Esc")
    assert not detail.header._name._is_editing()


@presses("Clone the open job", "Jobs")
def _(desk, press):
    desk.open("slow")
    press()
    desk.wait(lambda: desk.window.page_key == "new-job")
    assert "slow" in desk.program.form.draft().raw["name"]


@presses("Export its newest checkpoint", "Jobs")
def _(desk, press):
    detail = desk.open("slow")
    detail.show_checkpoints(desk.ids["slow"], lab.checkpoints())
    press()
    desk.wait(lambda: isinstance(QApplication.activeModalWidget(), ExportDialog))


@presses("Show its log", "Jobs")
def _(desk, press):
    detail = desk.open("slow")
    press()
    assert detail.log.isVisible()


@presses("Select the job, to compare or tag", "Jobs")
def _(desk, press):
    desk.queue(QUEUED_NAMES[1])
    press()
    assert desk.jobs.model.ticked_ids() == (desk.ids[QUEUED_NAMES[1]],)
    assert desk.jobs.list.selection_bar.isVisible()
    press()
    assert desk.jobs.model.ticked_ids() == ()


def _tick_with(step):
    def check(desk, press):
        view = desk.queue(QUEUED_NAMES[1])
        press()
        ticked_ids = {desk.ids[name] for name in (QUEUED_NAMES[1], QUEUED_NAMES[1 + step])}
        assert set(desk.jobs.model.ticked_ids()) == ticked_ids
        assert view.currentIndex().data() == QUEUED_NAMES[1 + step]

    return check


presses("Select it and the one above", "Jobs")(_tick_with(-1))
presses("Select it and the one below", "Jobs")(_tick_with(1))


@presses("Previous tab", "Jobs")
def _(desk, press):
    detail = desk.open("slow")
    detail.tabs.choose("ranks")
    press()
    assert find_only(JobTabs, detail).key() == "curves"


@presses("Next tab", "Jobs")
def _(desk, press):
    detail = desk.open("slow")
    press()
    assert find_only(JobTabs, detail).key() == "ranks"


def _logarithmic(axis, plots_of):
    def is_log(plots):
        return [getattr(plot, axis) for plot in plots]

    def check(desk, press):
        plots = plots_of(desk)
        flags = is_log(plots)
        press()
        assert is_log(plots) == [not f for f in flags]
        press()
        assert is_log(plots) == flags

    return check


def _plots_of_job(desk):
    return [desk.plot()]


def _compared_plots(desk):
    return list(desk.compared().plots.panels().values())


for _axis in ("y", "x"):
    _label = f"Toggle logarithmic {_axis}"
    presses(_label, "Jobs")(_logarithmic(f"log_{_axis}", _plots_of_job))
    presses(_label, "Compare")(_logarithmic(f"log_{_axis}", _compared_plots))


@presses("Focus the smoothing slider", "Jobs")
def _(desk, press):
    plot = desk.plot()
    smoothing = plot.smoothing
    press()
    desk.press("Right", times=5)
    assert plot.smoothing == pytest.approx(smoothing + 0.05)
    desk.press("Left", times=5)


@presses("Fit the curves", "Jobs")
def _(desk, press):
    plot = desk.plot()
    desk.press("+")
    assert not plot.is_fitted
    press()
    assert plot.is_fitted


# The table


TABLE = "All jobs, as a table"


@presses("Select a row, to compare or tag", TABLE)
def _(desk, press):
    view = desk.table()
    desk.on_row(view, "slow")
    view.clearSelection()
    press()
    assert view.selected_ids() == (desk.ids["slow"],)
    press()
    assert view.selected_ids() == ()


@presses("Open the job", TABLE)
def _(desk, press):
    desk.on_row(desk.table(), "slow")
    press()
    desk.wait(lambda: desk.jobs.open_id == desk.ids["slow"] and desk.jobs.detail.isVisible())


@presses("Edit the cell, or the name", TABLE)
def _(desk, press):
    desk.on_row(desk.table(), "slow")
    press()
    assert desk.hands.focus().text() == "slow"
    desk.press("Esc")


@presses("Sort by this column", TABLE)
def _(desk, press):
    view = desk.table()
    desk.on_row(view, "slow")
    press()
    assert view.order[0] == JobColumn.NAME.key
    press()
    press()


@presses("Choose the columns", TABLE)
def _(desk, press):
    desk.table()
    press()
    assert "Tags" in [action.text() for action in desk.hands.focus().actions()]


@presses("Move to the trash", TABLE)
def _(desk, press):
    desk.on_row(desk.table(), "fast")
    _trash(desk, press)


@presses("Stop the selected jobs, or that of the row", TABLE)
def _(desk, press):
    data_root = desk.program._services.data_root
    name = f"runs {desk.jobs.job_count}"
    folder = data_root.job(trained.job(data_root.path, name, FALLING[:10], state=JobState.TRAINING))
    replace_json(folder.attempt(1).supervisor, process_identity.own_process().to_dict())
    desk.wait(lambda: desk.jobs.model.summary(folder.path.name) is not None)
    view = desk.table()
    desk.on_row(view, name)
    view.clearSelection()
    press()
    desk.wait(folder.stop_request.exists)
    # Its supervisor has seen it.
    record = {"run": 1, "state": "INTERRUPTED", "message": "", "leftovers": []}
    replace_json(folder.attempt(1).exit, record)
    desk.wait(lambda: not desk.program._job_controllers.poller.live_views())


@presses("Clone the selected jobs", TABLE)
def _(desk, press):
    view = desk.table()
    jobs = {desk.ids[name] for name in QUEUED_NAMES[:2]}
    view.select_jobs(jobs)
    press()
    drafts = {f"{name} (copy)" for name in QUEUED_NAMES[:2]}
    desk.wait(lambda: drafts <= set(rows(view)))


@presses("Export their newest checkpoints", TABLE)
def _(desk, press):
    """They have none, and each says so."""
    desk.table().select_jobs((desk.ids["fast"], desk.ids["slow"]))
    _answer = answer_file_dialog(desk.folder)
    press()
    label = find_only(Label, desk.window.toast)
    desk.wait(lambda: label.text().startswith("Exported 0 of 2 jobs."))
    assert "no checkpoint" in label.text()


@presses("The log of the job in the row", TABLE)
def _(desk, press):
    desk.on_row(desk.table(), "slow")
    press()
    desk.wait(lambda: desk.jobs.open_id == desk.ids["slow"] and desk.jobs.detail.log.isVisible())
