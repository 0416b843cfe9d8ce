"""Actions on several jobs at once, and edits in the cells of the wide job table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from PySide6.QtCore import QObject, Slot
from PySide6.QtWidgets import QFileDialog, QWidget

from app.jobs.bulk_runner import Done, Named, do_each
from app.jobs.job_controller import JobController
from app.runtime.background import Controller, Runner
from backend.base import log
from backend.base.errors import BackendError
from backend.records.jobs.summary import JobSummary
from backend.records.jobs.view import JobView
from backend.services.context.container import Services
from widgets.common import formats
from widgets.common.dialog_holder import DialogHolder
from widgets.jobs.actions import job_actions as do
from widgets.jobs.list.bulk_dialogs import TagDialog
from widgets.jobs.list.job_list_model import CellEdit
from widgets.jobs.page.jobs_page import JobsPage

_LANE = "many jobs"
_EXPORT = ("latest", "zip")


class BulkController(Controller):
    """Serve the wide job table."""

    def __init__(
        self,
        services: Services,
        runner: Runner,
        page: JobsPage,
        jobs: JobController,
        window: QWidget,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(runner, window, parent)
        self._jobs = services.jobs
        self._queue = services.queue
        self._page = page
        self._controller = jobs
        self._dialog: DialogHolder[TagDialog] = DialogHolder()
        for model in (page.table.model, page.sweep.model):
            model.edited.connect(self._edit)
        page.job_actions.add_handler(do.TAG_ALL, self._ask_tags)
        page.job_actions.add_handler(do.STOP_ALL, self._stop)
        page.job_actions.add_handler(do.EXPORT_ALL, self._ask_folder)
        page.job_actions.add_handler(do.CLONE_ALL, self._clone)

    @Slot(CellEdit)
    def _edit(self, new: CellEdit) -> None:
        self._runner.run(
            f"job {new.job_id}",
            partial(self._jobs.edit, new.job_id, new.column, new.before, new.after),
            self._page.show_view,
            partial(self._not_edited, new.job_id),
        )

    def _not_edited(self, job_id: str, error: BackendError) -> None:
        self._runner.notify(error.with_remedy)
        # Also show what someone changed in the meantime.
        self._runner.run(
            f"job {job_id}",
            partial(self._jobs.queries.show, job_id),
            self._page.show_view,
            log.swallowed,
        )

    # Tags.

    def _ask_tags(self, ids: tuple[str, ...]) -> None:
        lines = self._lines(ids)
        known = dict.fromkeys(tag for line in lines for tag in line.tags)
        dialog = TagDialog([line.name for line in lines], tuple(known), self._window)

        def request(add: tuple[str, ...], remove: tuple[str, ...]) -> None:
            retag = partial(self._jobs.retag, add=add, remove=remove)
            self._each(lines, lambda job_id: retag(job_id), "Tagged", self._page.show_view)

        dialog.requested.connect(request)
        self._dialog.open(dialog)

    # Stop. It saves a checkpoint first, so it needs no confirmation.

    def _stop(self, ids: tuple[str, ...]) -> None:
        """Stop the jobs that run, after those that wait have left the queue.

        Otherwise the end of one would let the next one start.
        """
        lines = self._lines(ids)
        waiting = [line for line in lines if line.state.is_queued]

        def stop(done: Done[JobView]) -> None:
            live = [line for line in lines if line.state.is_live]
            for line in live:
                self._controller.stop(line.id)
            said = [done.sentence("Removed {jobs} from the queue.")] if waiting else []
            if live:
                jobs = formats.plural(len(live), "job")
                said.append(f"Stopping {jobs}; each saves a checkpoint first.")
            self._runner.notify(" ".join(said))

        if waiting:
            dequeue, show = self._queue.dequeue, self._page.show_view
            do_each(self._runner, _LANE, _named(waiting), dequeue, show, stop)
        else:
            stop(Done(0))

    # Clone. One job opens in the form; several become drafts.

    def _clone(self, ids: tuple[str, ...]) -> None:
        if len(ids) == 1:
            self._controller.clone(ids[0])
            return

        def clone(job_id: str) -> JobView:
            return self._jobs.create(self._jobs.clone(job_id))

        def report(done: Done[JobView]) -> None:
            made = [view.id for view in done.outcomes]
            self._page.choose(made)
            drafts = "The drafts are selected." if made else ""
            self._runner.notify(done.sentence(f"Cloned {{jobs}}. {drafts}".strip()))

        jobs = _named(self._lines(ids))
        do_each(self._runner, _LANE, jobs, clone, self._page.show_view, report)

    # Export the newest checkpoint of each job into one folder.

    def _ask_folder(self, ids: tuple[str, ...]) -> None:
        chosen = QFileDialog.getExistingDirectory(
            self._window, f"Export {formats.plural(len(ids), 'job')} into"
        )
        if chosen:
            self.export(ids, Path(chosen))

    def export(self, ids: Sequence[str], folder: Path) -> None:
        """Export the newest checkpoint of each job into ``folder``; overwrite no file."""
        lines = self._lines(ids)
        checkpoint, kind = _EXPORT
        names = {line.id: _file_name(line) for line in lines}

        def export(job_id: str) -> Path:
            target = folder / f"{names[job_id]}.{kind}"
            return self._jobs.export(job_id, checkpoint, kind, target)

        self._each(lines, export, "Exported", lambda _path: None)

    # All actions.

    def _each(
        self,
        lines: Sequence[JobSummary],
        act: Callable[[str], object],
        did: str,
        then: Callable[..., None],
    ) -> None:
        """Run ``act`` for each job in turn and report the outcome at the end."""

        def report(done: Done[object]) -> None:
            self._runner.notify(done.sentence(f"{did} {{jobs}}."))

        do_each(self._runner, _LANE, _named(lines), act, then, report)

    def _lines(self, ids: Sequence[str]) -> list[JobSummary]:
        found = map(self._page.model.line, ids)
        return [line for line in found if line is not None]


def _named(lines: Sequence[JobSummary]) -> list[Named]:
    return [(line.id, line.name) for line in lines]


def _file_name(line: JobSummary) -> str:
    """The job's name as a file name, with its id, because two jobs may have the same name."""
    stem = "".join(c if c.isalnum() or c in " -_" else "-" for c in line.name).strip()
    return f"{stem[:60].strip()} {line.id}".strip()
