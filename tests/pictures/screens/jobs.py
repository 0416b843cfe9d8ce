"""The place Jobs: its list, its table, its first start, and what happens to them."""

from __future__ import annotations

from dataclasses import replace

from PySide6.QtWidgets import QMenu

from backend.records.jobs.state import JobState
from backend.records.nodes.reading import Finding
from backend.records.queue.entry import Cause, Queue, WaitReason
from tests.job_views import replace_fields
from tests.pictures import lab
from tests.pictures.gallery import EVERY, LARGE_SMALL, screen
from tests.pictures.stage import Stage
from tests.widgets.jobs.jobs_rig import show_jobs
from tests.widgets.nodes import samples
from widgets.jobs.list.job_list_model import JobColumn
from widgets.jobs.page.jobs_page import JobsPage


def open_job(stage: Stage, view=lab.LIVE, views=lab.JOBS, tab: str = "", **options):
    """The place Jobs with one job open, its curves and checkpoints there."""
    page = stage.jobs
    show_jobs(page, views)
    page.show_queue(lab.queue(), is_immediate=True)
    page.open_job(view.id)
    if view.run:
        page.show_update(lab.history(view, **options))
        page.detail.show_checkpoints(view.id, lab.checkpoints(view))
    if tab:
        page.detail.tabs.choose(tab)
    return page


def table(stage: Stage, views=lab.JOBS) -> JobsPage:
    page = open_job(stage, views=views)
    page.show_table()
    page.table.view.clearSelection()
    page.table.view.setCurrentIndex(page.table.model.index(0, 1))
    return page


screen("jobs", EVERY)(open_job)


@screen("jobs-reading")
def jobs_reading(stage: Stage) -> None:
    page = stage.jobs
    page.begin_reading()
    page._loading_timer.timeout.emit()
    page._loading_timer.stop()
    page._update_page()


@screen("jobs-unreadable")
def jobs_unreadable(stage: Stage) -> None:
    message = "No news since 14:02: /lab/ring does not answer."
    stage.jobs.show_error(message)
    stage.window.side_bar.show_error(message)


# After the example, with a dataset imported already.
screen("jobs-own-next", EVERY)(
    lambda stage: open_job(stage).onboarding_strip.show_steps(frozenset({"data"}), is_visible=True)
)


@screen("job-opening")
def job_opening(stage: Stage) -> None:
    """The job that was chosen is read from a slow share."""
    page = open_job(stage, lab.FINISHED)
    page._views.clear()
    page.open_job(lab.LIVE.id)


@screen("jobs-no-match")
def jobs_no_match(stage: Stage) -> None:
    page = open_job(stage)
    page.list.search.setText("resnt")
    page.list.search._send_text()


screen("jobs-huge")(lambda stage: open_job(stage, views=lab.many_jobs()))


@screen("jobs-long-names")
def jobs_long_names(stage: Stage) -> None:
    stage.show_cluster(
        tuple(replace(lab.LIVE, id=f"l{n}", name=lab.LONG_NAME) for n in range(5)),
        samples.cluster(12, lab.LONG_NODE),
    )
    open_job(stage, lab.LONG_JOBS[0], lab.LONG_JOBS)


@screen("jobs-nothing-runs")
def jobs_nothing_runs(stage: Stage) -> None:
    stage.show_cluster((), lab.nodes())
    ended_views = tuple(view for view in lab.JOBS if not view.state.is_live)
    stage.window.side_bar.show_queue(lab.queue())
    open_job(stage, lab.FINISHED, ended_views)


@screen("queue")
def queue(stage: Stage) -> None:
    views, waiting_queue = lab.long_queue()
    page = open_job(stage, views[2], views)
    page.show_queue(waiting_queue, is_immediate=True)


@screen("queue-paused")
def queue_paused(stage: Stage) -> None:
    views, waiting_queue = lab.long_queue()
    page = open_job(stage, views[1], views)
    reason = WaitReason(Cause.PAUSED, "The queue is paused by mai.")
    paused_jobs = (replace(job, wait_reason=reason, starts_in_s=None) for job in waiting_queue.jobs)
    page.show_queue(Queue(tuple(paused_jobs), reason.message), is_immediate=True)


@screen("job-gave-way")
def job_gave_way(stage: Stage) -> None:
    message = "Paused: alice uses GPU 2 on gpu03."
    view = replace_fields(lab.STOPPED, id=lab.QUEUED.id, state=JobState.PAUSED, message=message)
    views = (view, *(job for job in lab.JOBS if job.id not in (view.id, lab.STOPPED.id)))
    page = open_job(stage, view, views)
    reason = WaitReason(Cause.QUIET, "It continues after 5 minutes without other users.")
    (queued_job,) = lab.queue().jobs
    paused_job = replace(
        queued_job,
        entry=replace(queued_job.entry, reason=message),
        wait_reason=reason,
        starts_in_s=None,
    )
    page.show_queue(Queue((paused_job,)), is_immediate=True)


screen("jobs-table", EVERY, ("light",))(table)


@screen("jobs-table-chosen")
def jobs_table_chosen(stage: Stage) -> None:
    from PySide6.QtCore import QItemSelectionModel

    page = table(stage)
    view = page.table.view
    flag = QItemSelectionModel.SelectionFlag
    for row in (3, 6, 8):
        view.selectionModel().select(page.table.model.index(row, 0), flag.Select | flag.Rows)


screen("jobs-ticked", LARGE_SMALL)(
    lambda stage: open_job(stage).list.ticks.add((lab.LIVE.id, lab.STOPPED.id, lab.FINISHED.id))
)


@screen("jobs-table-settings")
def jobs_table_settings(stage: Stage) -> None:
    """Columns of the job file, and a search that compares."""
    page = table(stage)
    column_keys = ("state", "name", "progress", "best", "lr", "batch_size", "optimizer", "seed")
    page.table.view.restore({"columns": list(column_keys), "order": "lr"})
    page.table.search.setText("lr<0.05")
    page.table.search._send_text()


@screen("jobs-row-menu")
def jobs_row_menu(stage: Stage) -> None:
    page = open_job(stage)
    view = page.list.view
    index = page.model.index(page.model.row_of(lab.STOPPED.id), 0)
    point = view.viewport().mapToGlobal(view.visualRect(index).center())
    stage.settle()
    view.menu_requested.emit(index, point)
    stage.overlay = next(menu for menu in page.findChildren(QMenu) if menu.isVisible())


@screen("jobs-table-funnel")
def jobs_table_funnel(stage: Stage) -> None:
    page = table(stage)
    page.table._filter_button.click()
    page.table.filter_panel._high.setText("much")
    page.table.filter_panel._high.editingFinished.emit()


@screen("jobs-table-no-match")
def jobs_table_no_match(stage: Stage) -> None:
    page = table(stage)
    page.table.search.setText("resnt")
    page.table.search._send_text()


@screen("jobs-table-edit")
def jobs_table_edit(stage: Stage) -> None:
    page = table(stage)
    stage.settle()
    page.table.view.edit_cell(4, JobColumn.TAGS)


screen("jobs-table-huge")(lambda stage: table(stage, lab.many_jobs()))
screen("jobs-table-long-names")(lambda stage: table(stage, lab.LONG_JOBS))


LOCAL_READING = samples.reading("this-computer", count=0)
SOUND = (
    Finding("Python", True, "Python 3.12 with PyTorch 2.13."),
    Finding("Open MPI", True, "Open MPI 5.0.11."),
    Finding("Horovod", True, "Horovod 0.28.1 trains on two processes."),
)


def _first_start(stage: Stage) -> JobsPage:
    stage.show_cluster((), (replace(samples.state("this-computer", "free", 0), entry=None),))
    for key in ("jobs", "datasets", "models", "loaders"):
        stage.window.side_bar.set_count(key, 0)
    show_jobs(stage.jobs, ())
    stage.jobs.welcome_page.show_reading(LOCAL_READING)
    return stage.jobs


screen("first-start", EVERY)(lambda stage: _first_start(stage).welcome_page.show_findings(SOUND))
screen("first-start-missing")(
    lambda stage: _first_start(stage).welcome_page.show_findings(
        (
            *SOUND[:2],
            Finding(
                "Horovod",
                False,
                "Horovod is not built: cmake was not found.",
                "Run: apt install cmake g++, then ./installers/run doctor",
            ),
        )
    )
)


@screen("first-start-refused")
def first_start_refused(stage: Stage) -> None:
    page = _first_start(stage)
    page.welcome_page.show_findings(SOUND)
    page.welcome_page.show_error(
        "The example cannot be made: the data root has 0.2 GB left.", "Make room, then try again."
    )


screen("jobs-starting", LARGE_SMALL)(
    lambda stage: open_job(stage, lab.DRAFT).detail.show_starting(lab.DRAFT.id, "Checking 2 nodes…")
)
