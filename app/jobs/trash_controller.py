"""Move jobs to the trash and restore them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from PySide6.QtCore import Signal, Slot
from PySide6.QtWidgets import QWidget

from app.jobs.bulk_controller import BulkResult, JobName, run_each
from app.jobs.owner_question import OwnerQuestion
from app.runtime.background import Runner
from app.runtime.controller import DialogController
from backend.records.jobs.view import JobView
from backend.services.context.container import Services
from widgets.common import formats
from widgets.jobs.actions.job_actions import TRASH, TRASH_ALL
from widgets.jobs.actions.job_questions import TrashQuestion
from widgets.jobs.page.jobs_page import JobsPage

_QUEUE = "many jobs"


class TrashController(DialogController[TrashQuestion]):
    """Serve the head of the open job, which does not confirm, and the bulk move, which does.

    Signals:
        undoable: A message about moved jobs, and the tag by which `undo` restores them.
    """

    undoable = Signal(str, str)

    def __init__(self, services: Services, runner: Runner, page: JobsPage, window: QWidget) -> None:
        super().__init__(runner, window)
        self._jobs = services.jobs
        self._page = page
        self._removed_views: dict[str, tuple[JobView, ...]] = {}
        """Views by tag; only of the last move, because a toast undoes only recent actions."""
        self._undo_number = 0
        self._owner_question = OwnerQuestion(runner, window)
        page.job_actions.add_handler(TRASH_ALL, self._ask_bulk)
        page.job_actions.add_handler(TRASH, self._move_job)

    def _ask_bulk(self, ids: tuple[str, ...]) -> None:
        summaries = map(self._page.model.summary, ids)
        jobs = [(s.id, s.name) for s in summaries if s is not None]
        names = [name for _, name in jobs]
        dialog = TrashQuestion(names, partial(self._move_jobs, jobs), self._window)
        self.open(dialog)

        def read_size() -> int:
            return sum(self._jobs.size_bytes(job_id) for job_id, _ in jobs)

        self.serve_dialog(dialog, _QUEUE, read_size, dialog.show_size)

    def _move_job(self, job_id: str) -> None:
        summary = self._page.model.summary(job_id)
        self._move_jobs([(job_id, summary.name if summary is not None else job_id)])

    def _move_jobs(self, jobs: Sequence[JobName]) -> None:
        summaries = [self._page.model.summary(job_id) for job_id, _ in jobs]
        self._owner_question.ask(summaries, "Remove", partial(self._move_for, jobs))

    def _move_for(self, jobs: Sequence[JobName], reason: str) -> None:
        def move(job_id: str) -> tuple[JobView, int]:
            size_bytes = self._jobs.size_bytes(job_id)
            return self._jobs.remove(job_id, reason), size_bytes

        def remove_from_page(outcome: tuple[JobView, int]) -> None:
            self._page.remove_job(outcome[0].id)

        run_each(self._runner, _QUEUE, jobs, move, remove_from_page, self._report_moved)

    def _report_moved(self, result: BulkResult[tuple[JobView, int]]) -> None:
        views = tuple(view for view, _ in result.outcomes)
        if not views:
            self._runner.notify(result.message("Moved {jobs} to the trash."))
            return
        size = formats.disk(sum(size_bytes for _, size_bytes in result.outcomes))
        self._undo_number += 1
        tag = f"trash {self._undo_number}"
        self._removed_views = {tag: views}
        self.undoable.emit(result.message(f"Moved {{jobs}} to the trash, {size}."), tag)

    @Slot(str)
    def undo(self, tag: str) -> None:
        """Restore the jobs of the toast with this tag."""
        views = self._removed_views.pop(tag, ())
        jobs = [(view.id, view.name) for view in views]
        queued_ids = {view.id for view in views if view.state.is_queued}

        def report(result: BulkResult[JobView]) -> None:
            restored_ids = [view.id for view in result.outcomes]
            if len(restored_ids) == 1:
                self._page.open_job(restored_ids[0])
            queued_count = sum(job_id in queued_ids for job_id in restored_ids)
            hint = (
                f" {formats.count(queued_count)} that were queued must be queued again."
                if queued_count
                else ""
            )
            self._runner.notify(result.message("Moved {jobs} out of the trash." + hint))

        if jobs:
            run_each(self._runner, _QUEUE, jobs, self._jobs.restore, self._page.show_view, report)
