"""Actions on several jobs at once, and edits in the cells of the wide job table.

Each job of an action succeeds or fails by itself; one report follows at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Generic, TypeVar

from PySide6.QtCore import Slot
from PySide6.QtWidgets import QFileDialog, QWidget

from app.jobs.job_controller import JobController
from app.jobs.owner_question import OwnerQuestion
from app.runtime.background import Runner
from app.runtime.controller import DialogController
from backend.base import log
from backend.base.errors import BackendError
from backend.records.jobs.summary import JobSummary
from backend.records.jobs.view import JobView
from backend.services.context.container import Services
from widgets.common import formats
from widgets.common.dialog import Question
from widgets.jobs.actions import job_actions
from widgets.jobs.actions.job_questions import tag_question
from widgets.jobs.list.job_list_model import CellEdit
from widgets.jobs.page.jobs_page import JobsPage

T = TypeVar("T")
JobName = tuple[str, str]
"""Id and name of a job."""


@dataclass
class BulkResult(Generic[T]):
    """The outcomes, in order of completion."""

    job_count: int
    outcomes: list[T] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def message(self, template: str) -> str:
        """Fill ``3 jobs`` or ``1 of 3 jobs`` into ``template``; append the first error."""
        success_count, jobs = len(self.outcomes), formats.plural(self.job_count, "job")
        if success_count != self.job_count:
            jobs = f"{formats.count(success_count)} of {jobs}"
        return " ".join([template.format(jobs=jobs), *self.errors[:1]])


def run_each(
    runner: Runner,
    queue_name: str,
    jobs: Sequence[JobName],
    action: Callable[[str], T],
    show: Callable[[T], None],
    on_finish: Callable[[BulkResult[T]], None],
) -> None:
    """Run ``action`` with each id in turn; ``show`` each outcome, then call ``on_finish``."""
    result: BulkResult[T] = BulkResult(len(jobs))

    def finish_if_complete() -> None:
        if len(result.outcomes) + len(result.errors) == result.job_count:
            on_finish(result)

    def add_outcome(outcome: T) -> None:
        result.outcomes.append(outcome)
        show(outcome)
        finish_if_complete()

    def add_error(name: str, error: BackendError) -> None:
        result.errors.append(f"{name}: {error.with_remedy}")
        finish_if_complete()

    for job_id, name in jobs:
        runner.run(queue_name, partial(action, job_id), add_outcome, partial(add_error, name))


_QUEUE = "many jobs"
_EXPORT = ("latest", "zip")


class BulkController(DialogController[Question]):
    """Serve the wide job table."""

    def __init__(
        self,
        services: Services,
        runner: Runner,
        page: JobsPage,
        jobs: JobController,
        window: QWidget,
    ) -> None:
        super().__init__(runner, window)
        self._jobs = services.jobs
        self._queue = services.queue
        self._page = page
        self._controller = jobs
        self._owner_question = OwnerQuestion(runner, window)
        for model in (page.table.model, page.sweep.model):
            model.edited.connect(self._edit)
        page.job_actions.add_handler(job_actions.TAG_ALL, self._ask_tags)
        page.job_actions.add_handler(job_actions.STOP_ALL, self._stop)
        page.job_actions.add_handler(job_actions.EXPORT_ALL, self._ask_folder)
        page.job_actions.add_handler(job_actions.CLONE_ALL, self._clone)

    @Slot(CellEdit)
    def _edit(self, edit: CellEdit) -> None:
        self._runner.run(
            f"job {edit.job_id}",
            partial(self._jobs.edit, edit.job_id, edit.column, edit.old_value, edit.new_value),
            self._page.show_view,
            partial(self._handle_edit_error, edit.job_id),
        )

    def _handle_edit_error(self, job_id: str, error: BackendError) -> None:
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
        summaries = self._summaries(ids)
        tags = dict.fromkeys(tag for summary in summaries for tag in summary.tags)

        def change_tags(add: tuple[str, ...], remove: tuple[str, ...]) -> None:
            retag = partial(self._jobs.retag, add=add, remove=remove)
            self._run_each(summaries, lambda job_id: retag(job_id), "Tagged", self._page.show_view)

        names = [summary.name for summary in summaries]
        self.open(tag_question(names, tuple(tags), change_tags, self._window))

    # Stop. It saves a checkpoint first, so it needs no confirmation.

    def _stop(self, ids: tuple[str, ...]) -> None:
        """Stop the jobs that run, after those that wait have left the queue.

        Otherwise the end of one would let the next one start.
        """
        summaries = self._summaries(ids)
        stop = partial(self._stop_for, summaries)
        self._owner_question.ask(summaries, "Stop", stop)

    def _stop_for(self, summaries: Sequence[JobSummary], reason: str) -> None:
        queued_jobs = [summary for summary in summaries if summary.state.is_queued]

        def stop_live(result: BulkResult[JobView]) -> None:
            live_jobs = [summary for summary in summaries if summary.state.is_live]
            for summary in live_jobs:
                self._controller.stop_for(summary.id, reason)
            messages = [result.message("Removed {jobs} from the queue.")] if queued_jobs else []
            if live_jobs:
                jobs = formats.plural(len(live_jobs), "job")
                messages.append(f"Stopping {jobs}; each saves a checkpoint first.")
            self._runner.notify(" ".join(messages))

        if queued_jobs:
            dequeue, show = partial(self._queue.dequeue, reason=reason), self._page.show_view
            run_each(self._runner, _QUEUE, _job_names(queued_jobs), dequeue, show, stop_live)
        else:
            stop_live(BulkResult(0))

    # Clone. One job opens in the form; several become drafts.

    def _clone(self, ids: tuple[str, ...]) -> None:
        if len(ids) == 1:
            self._controller.clone(ids[0])
            return

        def clone(job_id: str) -> JobView:
            return self._jobs.create(self._jobs.clone(job_id))

        def report(result: BulkResult[JobView]) -> None:
            new_ids = [view.id for view in result.outcomes]
            self._page.choose(new_ids)
            drafts = "The drafts are selected." if new_ids else ""
            self._runner.notify(result.message(f"Cloned {{jobs}}. {drafts}".strip()))

        jobs = _job_names(self._summaries(ids))
        run_each(self._runner, _QUEUE, jobs, clone, self._page.show_view, report)

    # Export the newest checkpoint of each job into one folder.

    def _ask_folder(self, ids: tuple[str, ...]) -> None:
        folder = QFileDialog.getExistingDirectory(
            self._window, f"Export {formats.plural(len(ids), 'job')} into"
        )
        if folder:
            self.export(ids, Path(folder))

    def export(self, ids: Sequence[str], folder: Path) -> None:
        """Export the newest checkpoint of each job into ``folder``; overwrite no file."""
        summaries = self._summaries(ids)
        checkpoint, kind = _EXPORT
        names = {summary.id: _file_name(summary) for summary in summaries}

        def export(job_id: str) -> Path:
            target = folder / f"{names[job_id]}.{kind}"
            return self._jobs.export(job_id, checkpoint, kind, target)

        self._run_each(summaries, export, "Exported", lambda _path: None)

    # All actions.

    def _run_each(
        self,
        summaries: Sequence[JobSummary],
        action: Callable[[str], object],
        verb: str,
        show: Callable[..., None],
    ) -> None:
        """Run ``action`` for each job in turn and report the outcome at the end."""

        def report(result: BulkResult[object]) -> None:
            self._runner.notify(result.message(f"{verb} {{jobs}}."))

        run_each(self._runner, _QUEUE, _job_names(summaries), action, show, report)

    def _summaries(self, ids: Sequence[str]) -> list[JobSummary]:
        summaries = map(self._page.model.summary, ids)
        return [summary for summary in summaries if summary is not None]


def _job_names(summaries: Sequence[JobSummary]) -> list[JobName]:
    return [(summary.id, summary.name) for summary in summaries]


def _file_name(summary: JobSummary) -> str:
    """The job's name as a file name, with its id, because two jobs may have the same name."""
    stem = "".join(c if c.isalnum() or c in " -_" else "-" for c in summary.name).strip()
    return f"{stem[:60].strip()} {summary.id}".strip()
