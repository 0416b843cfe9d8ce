"""One act on several jobs: each is done or refused for itself, and in the end all of it is told."""

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
    """What came of it, in the order in which it came."""

    total: int
    outcomes: list[T] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)

    def sentence(self, words: str) -> str:
        """``words`` with ``3 jobs`` or ``1 of 3 jobs`` in it, and why the first was refused."""
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
    """Do ``act`` with the id of each, one after the other; ``show`` each, ``then`` tell of all."""
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
