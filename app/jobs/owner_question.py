"""Ask for a reason before the job of another user is stopped or removed."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from app.runtime.controller import DialogController
from backend.records.base.account import user_name
from backend.records.jobs.summary import JobSummary
from widgets.common import formats
from widgets.common.dialog import Question
from widgets.jobs.actions.job_questions import reason_question


class OwnerQuestion(DialogController[Question]):
    """Ask over the window; the user's own jobs need no question."""

    def ask(
        self, jobs: Iterable[JobSummary | None], verb: str, action: Callable[[str], object]
    ) -> None:
        """Call ``action`` with the reason, "" for none."""
        foreign_jobs = [
            job for job in jobs if job is not None and job.user not in ("", user_name())
        ]
        if not foreign_jobs:
            action("")
            return
        owners = formats.join_names(list(dict.fromkeys(job.user for job in foreign_jobs)))
        names = [job.name for job in foreign_jobs]
        self.open(reason_question(verb, names, owners, action, self._window))
