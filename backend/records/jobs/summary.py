"""A job as one row of a list: only what is shown, sorted, filtered and searched.

A window holds a summary of every job, and the whole `JobView` of the few that are open or running:
of 100,000 jobs, a summary takes about 1 kB each, a view 6 kB and eight times the work.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from sys import intern
from typing import Any, NamedTuple, Optional

from backend.records.base.timestamps import seconds
from backend.records.jobs import arguments
from backend.records.jobs.metric_names import usual_mode
from backend.records.jobs.schedulers import SCHEDULERS
from backend.records.jobs.script import command_line, is_session
from backend.records.jobs.settings import NOTES, SETTINGS, default_value
from backend.records.jobs.state import JobState
from backend.records.jobs.view import JobView, gpu_seconds

LIVE_GROUP, WAITING_GROUP, ENDED_GROUP = 0, 1, 2


class SweepCount(NamedTuple):
    """Number of jobs of a sweep by state.

    Attributes:
        ids: Of all its jobs, in the order of their creation.
        queued: Jobs in the queue; ``drafts`` are in no queue.
        stopped: Jobs that can be resumed; ``failed`` includes lost jobs.
        common: The number of words with which the names of all jobs begin.
        best_job: The words that distinguish the job with the best metric, "" for none.
    """

    ids: tuple[str, ...]
    live: int = 0
    queued: int = 0
    finished: int = 0
    stopped: int = 0
    failed: int = 0
    common: int = 0
    best_job: str = ""
    drafts: int = 0


class JobSummary(NamedTuple):
    """A job at one moment, or all jobs of a sweep together (`sweep_summary`).

    Times are seconds since 1970 in UTC, 0.0 if there is none.
    """

    id: str
    name: str
    state: JobState
    progress: Optional[float] = 0.0  # noqa: UP045
    """None if a script has named no total."""
    best_metric: Optional[tuple[str, float]] = None  # noqa: UP045 - read at run time by 3.9
    nodes: tuple[str, ...] = ()
    world_size: int = 0
    uses_gpus: bool = False
    created_s: float = 0.0
    started_s: float = 0.0
    ended_s: float = 0.0
    earlier_s: float = 0.0
    """Duration of all runs before the newest one; ``started_s`` is the start of the newest run."""
    earlier_gpu_s: Optional[float] = 0.0  # noqa: UP045
    """The same, each times its GPUs; None if that was not recorded."""
    energy_j: Optional[float] = None  # noqa: UP045
    run: int = 0
    user: str = ""
    notes: str = ""
    tags: tuple[str, ...] = ()
    reason: str = ""
    """The cause of a failure, a stop or missing contact; "" if all is normal."""
    contact_warning: str = ""
    eta_s: Optional[float] = None  # noqa: UP045
    pins: tuple[tuple[str, str], ...] = ()
    """References: the key in the job file ("model"), and ``NAME@VERSION``."""
    text: str = ""
    """Text for the search, case folded."""
    settings: str = ""
    """Settings of the job file as text for the search, shared by jobs with equal settings."""
    arguments: str = ""
    """The arguments of a script in one line."""
    best_mode: str = ""
    """Which values of its best metric are better, ``min`` or ``max``; "" if it is not known."""
    sweep: Optional[SweepCount] = None  # noqa: UP045
    """None for a job; the row of a sweep has the sweep's tag as its id."""

    @property
    def name_and_tags(self) -> str:
        """The name and the tags; of a sweep its own tag, too."""
        sweep_tags = () if self.sweep is None else (self.id,)
        return " ".join((self.name, *sweep_tags, *self.tags))

    @property
    def group(self) -> int:
        """`LIVE_GROUP`, `WAITING_GROUP` (drafts included) or `ENDED_GROUP`."""
        if self.state.is_live:
            return LIVE_GROUP
        is_waiting = self.state is JobState.CREATED or self.state.is_queued
        return WAITING_GROUP if is_waiting else ENDED_GROUP

    @property
    def is_script(self) -> bool:
        return "script" in dict(self.pins)

    @property
    def is_session(self) -> bool:
        return is_session(dict(self.pins).get("script", ""))

    @property
    def state_label(self) -> str:
        return self.state.label_for(is_session=self.is_session)

    @property
    def resumes(self) -> bool:
        """Return whether the job can continue from a checkpoint, as `JobView.resumes`."""
        return "resume_arguments=" in self.settings or not self.is_script

    @property
    def has_scheduler(self) -> bool:
        """Return whether a cluster's scheduler starts the job."""
        return not SCHEDULERS.keys().isdisjoint(self.settings.splitlines())

    def took_s(self, now_s: float) -> float | None:
        """Return the seconds that all its runs took, up to ``now_s``."""
        end = self.ended_s or (now_s if self.state.is_live else 0.0)
        if not self.started_s or not end:
            return None
        return self.earlier_s + max(0.0, end - self.started_s)

    def gpu_s(self, now_s: float) -> float | None:
        """Return the seconds that all its runs took, each times its GPUs, up to ``now_s``."""
        end = self.ended_s or (now_s if self.state.is_live else 0.0)
        gpus = self.world_size if self.uses_gpus else 0
        return gpu_seconds(self.earlier_gpu_s, gpus, self.started_s, end)


@dataclass(frozen=True)
class JobListing:
    """Changes to all jobs since the previous listing.

    Attributes:
        views: Running and waiting jobs, and changed jobs.
        summaries: Summaries of the other new jobs.
        removed_ids: Ids of removed jobs.
        total: The number of all jobs.
        reapable_ids: Ids of jobs whose run is over and recorded no end.
    """

    views: tuple[JobView, ...] = ()
    summaries: tuple[JobSummary, ...] = ()
    removed_ids: tuple[str, ...] = ()
    total: int = 0
    reapable_ids: tuple[str, ...] = ()


@dataclass(frozen=True)
class JobQuery:
    """Filter and order of a list of jobs.

    Attributes:
        text: Each word must occur in the text for the search, or be true (``lr<0.1``).
        group: `LIVE_GROUP`, `WAITING_GROUP`, `ENDED_GROUP`, or None for all.
        tag, user, node: "" for any.
        metric: Only jobs with this best metric; "" for any.
        low, high: The range of that metric, both ends included.
        order: A key of the index, or "" for the default order: live jobs first, then the queue,
            then ended jobs, newest first.
    """

    text: str = ""
    group: int | None = None
    tag: str = ""
    user: str = ""
    node: str = ""
    metric: str = ""
    low: float | None = None
    high: float | None = None
    order: str = ""
    descending: bool = False

    @property
    def is_search(self) -> bool:
        """True if the query selects jobs by their properties, not by their state."""
        return bool(self.text) or self.is_narrow

    @property
    def is_narrow(self) -> bool:
        """True if the filter menu restricts the list."""
        numbers = (self.low, self.high)
        return bool(self.tag or self.user or self.node or self.metric) or numbers != (None, None)


@dataclass(frozen=True)
class JobChoices:
    """The choices of the filter menu: each by name, sorted."""

    tags: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()


def summary_of(view: JobView) -> JobSummary:
    """Return the summary of a job from its view."""
    config = view.config
    return make_summary(
        config.to_dict(),
        view.status.metrics,
        id=view.id,
        name=view.name,
        state=view.state,
        progress=view.progress,
        best_metric=view.best_metric,
        nodes=view.nodes,
        world_size=view.process_count,
        uses_gpus=config.uses_gpus,
        created_s=seconds(view.created),
        started_s=seconds(view.status.started_at),
        ended_s=seconds(view.status.ended_at),
        earlier_s=view.status.earlier_s,
        earlier_gpu_s=view.status.earlier_gpu_s,
        energy_j=view.status.total_energy_j,
        run=view.run,
        user=view.user,
        notes=view.notes,
        tags=view.tags,
        reason=_reason(view),
        contact_warning=view.contact_warning,
        eta_s=view.status.eta_s,
        pins=tuple((key, pin.reference) for key, pin in view.pins.items()),
    )


def make_summary(
    settings: Mapping[str, Any], metrics: Mapping[str, float | None], **fields: Any
) -> JobSummary:
    """Make a summary with the text for the search.

    Args:
        settings: The job file as plain values; only the names of its variables are searched.
        metrics: The newest value of each.
        fields: The fields of the summary except its text.
    """
    summary = JobSummary(**fields)
    own_texts = [
        summary.id,
        summary.name,
        summary.notes,
        *summary.tags,
        summary.state_label,
        summary.user,
        *summary.nodes,
        *(reference for _, reference in summary.pins),
        *_metrics({**metrics, **(dict([summary.best_metric]) if summary.best_metric else {})}),
    ]
    setting_texts = (pair for pair in _settings(settings) if pair not in _COMMON_TEXTS)
    policy = settings.get("checkpoint")
    return summary._replace(
        text=_folded_text(own_texts),
        settings=_shared_text(_folded_text(setting_texts)),
        arguments=_shared_text(command_line(settings.get(arguments.TABLE, ()))),
        best_mode=_mode_of(summary, policy),
    )


def _mode_of(summary: JobSummary, policy: object) -> str:
    """Return which values of a job's best metric are better; a script may have one of its own."""
    policy = policy if isinstance(policy, Mapping) else {}
    name = summary.best_metric[0] if summary.best_metric is not None else ""
    if name and "best_metric" in policy and policy["best_metric"] != name:
        return usual_mode(name)
    return str(policy.get("best_mode", usual_mode(name)))


def _folded_text(parts: Iterable[str]) -> str:
    return "\n".join(part for part in parts if part).casefold()


@lru_cache(maxsize=8192)
def _shared_text(text: str) -> str:
    return text


_OTHER_FIELDS = frozenset({*NOTES, "placement", "model", "dataset", "loader"})


def _settings(settings: Mapping[str, Any]) -> Iterable[str]:
    for key, value in settings.items():
        if key in _OTHER_FIELDS:
            continue
        if key == "environment":
            # The value of a variable may be a token.
            yield from value
        elif key == arguments.TABLE:
            yield f"{key}={command_line(value)}"
            for name, text in arguments.named_arguments(value).items():
                if "{" not in text:
                    yield f"{arguments.canonical_name(name)}={text}"
        elif isinstance(value, dict):
            yield f"{key}={value['name']}" if "name" in value else key
            for name, option_value in value.items():
                if name != "name":
                    yield _pair(name, option_value)
        else:
            yield _pair(key, value)
    if settings.get("script"):
        # It has none, which is not the default.
        yield "strategy="


def _metrics(metrics: Mapping[str, float | None]) -> Iterable[str]:
    for name, value in metrics.items():
        yield name if value is None else f"{name}={value:.3g}"


@lru_cache(maxsize=4096)
def _text(key: str, value: object, _kind: str) -> str:
    """Format a setting. ``_kind`` keeps 1, 1.0 and True apart, which are equal, in the cache."""
    if isinstance(value, bool):
        return f"{key}={'true' if value else 'false'}"
    return intern(f"{key}={value:g}" if isinstance(value, float) else f"{key}={value}")


def _pair(key: str, value: Any) -> str:
    return (
        f"{key}={value}"
        if isinstance(value, (list, dict))
        else _text(key, value, type(value).__name__)
    )


_STATES_WITH_REASON = (JobState.INTERRUPTED, JobState.PAUSED, JobState.FINISHED)


def _reason(view: JobView) -> str:
    if view.contact_warning:
        return view.contact_warning
    if view.error is not None:
        return view.error.message
    return view.status.message if view.state in _STATES_WITH_REASON else ""


def _defaults() -> Iterable[str]:
    for path in SETTINGS:
        table, _, key = path.rpartition(".")
        if table != "early_stop" and default_value(path) is not None:
            yield from _settings(
                {table: {key: default_value(path)}} if table else {key: default_value(path)}
            )


_COMMON_TEXTS = {"checkpoint", "optimizer", "early_stop", *_defaults()} - SCHEDULERS.keys()
"""Words of nearly every job, which a search for them would find all."""
