"""Run one action on several jobs: each succeeds or fails by itself; one report at the end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Generic, TypeVar

from app.runtime.background import Runner
from backend.base.errors import BackendError
from widgets.common import formats

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
