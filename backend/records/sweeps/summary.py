"""A sweep as one row of a list, from the summaries of its jobs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from backend.records.jobs.state import JobState
from backend.records.jobs.summary import LIVE_GROUP, JobSummary, SweepCount
from backend.records.sweeps.spec import ROW_SEPARATOR, TAG, sweep_title

MIN_JOBS = 2
"""A single job is not a sweep, and needs no row above it."""
MAX_UNFOLDED_JOBS = 3
"""Sweeps of so few jobs are unfolded by default; a longer one would hide the next job on a small
screen."""
_LETTER_FIRST = re.compile(r"\W*[^\W\d]")
_LOUDEST_FIRST = (
    JobState.TRAINING,
    JobState.EVALUATING,
    JobState.SAVING,
    JobState.SETUP,
    JobState.STARTING,
    JobState.STOPPING,
    JobState.QUEUED,
    JobState.PAUSED,
    JobState.CREATED,
    JobState.ERROR,
    JobState.LOST,
    JobState.INTERRUPTED,
    JobState.FINISHED,
)
"""The first of these states that a job of a sweep has is the state of the sweep: running, waiting,
then failed. So a sweep is finished when all its jobs are."""


@dataclass(frozen=True)
class FoldState:
    """The sweeps that the user folded (True) or unfolded, by tag.

    Attributes:
        stored_folds: The folds that are stored.
        search_folds: The folds of the current search, in which hits unfold their sweep.
    """

    stored_folds: Mapping[str, bool] = field(default_factory=dict)
    search_folds: Mapping[str, bool] = field(default_factory=dict)


def sweep_summary(tag: str, jobs: Sequence[JobSummary]) -> JobSummary:
    """Return the row for these jobs, at least one.

    Its progress is the mean of the jobs, its times are the first start and the last end, and its
    best metric is the best of all jobs if one metric rates them all.
    """
    jobs = sorted(jobs, key=lambda summary: (summary.created_s, summary.id))
    states = [job.state for job in jobs]
    state = min(states, key=_LOUDEST_FIRST.index)
    live_jobs = [job for job in jobs if job.group == LIVE_GROUP]
    queued_count = sum(state.is_queued for state in states)
    best_job = _best_job(jobs)
    started_s = min((job.started_s for job in jobs if job.started_s), default=0.0)
    shared_tokens = shared_token_count([job.name for job in jobs])
    return JobSummary(
        id=tag,
        name=sweep_title(tag, [job.name for job in jobs]),
        state=state,
        progress=sum(_progress(job) for job in jobs) / len(jobs),
        best_metric=None if best_job is None else best_job.best_metric,
        nodes=tuple(dict.fromkeys(node for job in jobs for node in job.nodes)),
        world_size=sum(job.world_size for job in live_jobs),
        uses_gpus=any(job.uses_gpus for job in live_jobs),
        created_s=jobs[0].created_s,
        started_s=started_s,
        ended_s=0.0 if live_jobs or queued_count else max(job.ended_s for job in jobs),
        earlier_gpu_s=_total(_gpu_s_at(job, started_s) for job in jobs if job.run),
        energy_j=_total(job.energy_j for job in jobs if job.run),
        run=max(job.run for job in jobs),
        user=", ".join(dict.fromkeys(job.user for job in jobs if job.user)),
        tags=_common_tags(jobs),
        eta_s=_eta_s(live_jobs) if live_jobs and not queued_count else None,
        best_mode="" if best_job is None else best_job.best_mode,
        sweep=SweepCount(
            ids=tuple(job.id for job in jobs),
            live=len(live_jobs),
            queued=queued_count,
            finished=states.count(JobState.FINISHED),
            stopped=states.count(JobState.INTERRUPTED),
            failed=states.count(JobState.ERROR) + states.count(JobState.LOST),
            common=shared_tokens,
            drafts=states.count(JobState.CREATED),
            best_job="" if best_job is None else job_label(best_job.name, shared_tokens),
        ),
    )


def _gpu_s_at(summary: JobSummary, started_s: float) -> float | None:
    """Return a job's GPU seconds, without those of a running job since ``started_s``."""
    if not summary.uses_gpus:
        return 0.0
    if summary.group != LIVE_GROUP or summary.earlier_gpu_s is None:
        return summary.gpu_s(0.0)
    return summary.earlier_gpu_s - summary.world_size * (summary.started_s - started_s)


def _total(values: Iterable[float | None]) -> float | None:
    """Return the sum; None if one value is not known."""
    all_values = list(values)
    known_values = [value for value in all_values if value is not None]
    return sum(known_values) if all_values and len(known_values) == len(all_values) else None


def _progress(summary: JobSummary) -> float:
    return 1.0 if summary.state is JobState.FINISHED else summary.progress or 0.0


def _best_job(jobs: Sequence[JobSummary]) -> JobSummary | None:
    rated_jobs = [(job.best_metric, job) for job in jobs if job.best_metric is not None]
    if len({(metric[0], job.best_mode) for metric, job in rated_jobs}) != 1:
        return None
    # NaN is better than no value, and worse than every number.
    numbers = [(metric[1], job) for metric, job in rated_jobs if metric[1] == metric[1]]
    if not numbers or not numbers[0][1].best_mode:
        return None
    sign = -1.0 if numbers[0][1].best_mode == "max" else 1.0
    return min(numbers, key=lambda pair: sign * pair[0])[1]


def shared_token_count(names: Sequence[str]) -> int:
    """Return with how many words all names begin that may be left out.

    What remains of each name is not empty and does not begin with a bare number: of ``digits 1``
    and ``digits 2`` nothing is left out.
    """
    tokens_by_name = [name.split() for name in names]
    columns = list(zip(*tokens_by_name))
    count = next((n for n, column in enumerate(columns) if len(set(column)) > 1), len(columns))
    while count and not all(_is_readable(tokens[count:]) for tokens in tokens_by_name):
        count -= 1
    return count


def job_label(name: str, shared_tokens: int) -> str:
    """Return a job's name without the words that all names have: ``lr=0.1``."""
    return " ".join(name.split()[shared_tokens:]).lstrip(f" {ROW_SEPARATOR}") or name


def _is_readable(tokens: Sequence[str]) -> bool:
    return bool(tokens) and _LETTER_FIRST.match(tokens[0]) is not None


def _common_tags(jobs: Sequence[JobSummary]) -> tuple[str, ...]:
    common_tags = set.intersection(*(set(job.tags) for job in jobs))
    return tuple(tag for tag in jobs[0].tags if tag in common_tags and not tag.startswith(TAG))


def _eta_s(live_jobs: Sequence[JobSummary]) -> float | None:
    etas = [job.eta_s for job in live_jobs]
    return max((eta for eta in etas if eta is not None), default=None) if None not in etas else None
