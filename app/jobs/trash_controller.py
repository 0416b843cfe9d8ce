"""Move jobs to the trash and restore them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from PySide6.QtCore import QObject, Signal, Slot
from PySide6.QtWidgets import QWidget

from app.jobs.bulk_runner import Done, Named, do_each
from app.runtime.background import Controller, Runner
from backend.base.errors import BackendError
from backend.records.jobs.view import JobView
from backend.services.context.container import Services
from widgets.common import formats
from widgets.common.dialog_holder import DialogHolder
from widgets.jobs.actions.job_actions import TRASH, TRASH_ALL
from widgets.jobs.list.bulk_dialogs import TrashDialog
from widgets.jobs.page.jobs_page import JobsPage

_LANE = "many jobs"


class JobTrash(Controller):
    """Serve the head of the open job, which does not confirm, and the bulk move, which does.

    Signals:
        undoable: Such a sentence, and the tag by which `undo` reverts it.
    """

    undoable = Signal(str, str)

    def __init__(
        self,
        services: Services,
        runner: Runner,
        page: JobsPage,
        window: QWidget,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(runner, window, parent)
        self._jobs = services.jobs
        self._page = page
        self._dialog: DialogHolder[TrashDialog] = DialogHolder()
        self._moved: dict[str, tuple[JobView, ...]] = {}
        """By tag; only the last moves, because a toast undoes only recent actions."""
        self._number = 0
        page.job_actions.add_handler(TRASH_ALL, self._ask)
        page.job_actions.add_handler(TRASH, self._move_one)

    def _ask(self, ids: tuple[str, ...]) -> None:
        lines = map(self._page.model.line, ids)
        jobs = [(line.id, line.name) for line in lines if line is not None]
        dialog = TrashDialog([name for _, name in jobs], self._window)
        dialog.requested.connect(partial(self._move, jobs))
        self._dialog.open(dialog)

        def report(size_bytes: int) -> None:
            if self._dialog.dialog is dialog:
                dialog.show_size(size_bytes)

        def refuse(error: BackendError) -> None:
            if self._dialog.dialog is dialog:
                dialog.show_error(error.with_remedy)

        self._runner.run(
            _LANE, lambda: sum(self._jobs.size_bytes(job_id) for job_id, _ in jobs), report, refuse
        )

    def _move_one(self, job_id: str) -> None:
        line = self._page.model.line(job_id)
        self._move([(job_id, line.name if line is not None else job_id)])

    def _move(self, jobs: Sequence[Named]) -> None:
        def move(job_id: str) -> tuple[JobView, int]:
            size_bytes = self._jobs.size_bytes(job_id)
            return self._jobs.remove(job_id), size_bytes

        def forget(moved: tuple[JobView, int]) -> None:
            self._page.remove_job(moved[0].id)

        do_each(self._runner, _LANE, jobs, move, forget, self._report_moved)

    def _report_moved(self, done: Done[tuple[JobView, int]]) -> None:
        views = tuple(view for view, _ in done.outcomes)
        if not views:
            self._runner.notify(done.sentence("Moved {jobs} to the trash."))
            return
        size = formats.disk(sum(size_bytes for _, size_bytes in done.outcomes))
        self._number += 1
        tag = f"trash {self._number}"
        self._moved = {tag: views}
        self.undoable.emit(done.sentence(f"Moved {{jobs}} to the trash, {size}."), tag)

    @Slot(str)
    def undo(self, tag: str) -> None:
        """Restore the jobs of the toast with this tag."""
        views = self._moved.pop(tag, ())
        jobs = [(view.id, view.name) for view in views]
        waited = {view.id for view in views if view.state.is_queued}

        def report(done: Done[JobView]) -> None:
            back = [view.id for view in done.outcomes]
            if len(back) == 1:
                self._page.open_job(back[0])
            rest = sum(job_id in waited for job_id in back)
            no_more = (
                f" {formats.count(rest)} that were queued must be queued again." if rest else ""
            )
            self._runner.notify(done.sentence("Moved {jobs} out of the trash." + no_more))

        if jobs:
            do_each(self._runner, _LANE, jobs, self._jobs.restore, self._page.show_view, report)
