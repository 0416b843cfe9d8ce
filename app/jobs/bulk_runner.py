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
Named = tuple[str, str]
"""Id and name of a job."""


@dataclass
class Done(Generic[T]):
    """The outcomes, in order of completion."""

    total: int
    outcomes: list[T] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)

    def sentence(self, words: str) -> str:
        """Return ``words`` with ``3 jobs`` or ``1 of 3 jobs`` filled in, and the first refusal."""
        done, jobs = len(self.outcomes), formats.plural(self.total, "job")
        if done != self.total:
            jobs = f"{formats.count(done)} of {jobs}"
        return " ".join([words.format(jobs=jobs), *self.refusals[:1]])


def do_each(
    runner: Runner,
    lane: str,
    jobs: Sequence[Named],
    act: Callable[[str], T],
    show: Callable[[T], None],
    then: Callable[[Done[T]], None],
) -> None:
    """Run ``act`` with each id in turn; ``show`` each outcome, then call ``then`` with all."""
    done: Done[T] = Done(len(jobs))

    def ended() -> None:
        if len(done.outcomes) + len(done.refusals) == done.total:
            then(done)

    def went_well(outcome: T) -> None:
        done.outcomes.append(outcome)
        show(outcome)
        ended()

    def refused(name: str, error: BackendError) -> None:
        done.refusals.append(f"{name}: {error.with_remedy}")
        ended()

    for job_id, name in jobs:
        runner.run(lane, partial(act, job_id), went_well, partial(refused, name))
