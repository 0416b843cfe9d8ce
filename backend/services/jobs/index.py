"""All jobs in memory, to search, sort and filter 100,000 of them while the user types.

One call at a time, on any thread except the window's: each holds Python's lock for a few
milliseconds at most, so that the window stays responsive. Other threads may read `summaries`
(entries are replaced, never moved) and the arrays of a `JobQueryResult`, which never change.

``tests/benchmarks/jobs.py`` compares this index with SQLite for the same jobs.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from math import inf, nan

import numpy as np
import numpy.typing as npt

from backend.records.jobs import summary_settings
from backend.records.jobs.arguments import TABLE, canonical_name
from backend.records.jobs.state import JobState
from backend.records.jobs.summary import JobChoices, JobQuery, JobSummary
from backend.records.jobs.summary_settings import SettingFilter, parse_filter
from backend.records.sweeps.summary import FoldState
from backend.services.jobs.sweep_grouping import NO_SLOTS, JobSweeps

Numbers = npt.NDArray[np.float64] | npt.NDArray[np.float32]
Slots = npt.NDArray[np.int32]
Mask = npt.NDArray[np.bool_]


_SORT_CHUNK = 8192
"""Number of texts sorted at once: about 5 ms, during which other threads wait."""
_STATE_NUMBERS = {state: number for number, state in enumerate(JobState)}
_QUEUED_NUMBERS = [number for state, number in _STATE_NUMBERS.items() if state.is_queued]
_NUMBERS: Mapping[str, Callable[[JobSummary], float]] = {
    "state": lambda summary: _STATE_NUMBERS[summary.state],
    "progress": lambda summary: summary.progress or 0.0,
    "best": lambda summary: summary.best_metric[1] if summary.best_metric else nan,
    "gpus": lambda summary: summary.world_size if summary.uses_gpus else 0,
    "started": lambda summary: summary.started_s or nan,
    "created": lambda summary: summary.created_s,
    "ended": lambda summary: summary.ended_s,
    "group": lambda summary: summary.group,
    "earlier_gpu_s": lambda summary: (
        nan if summary.earlier_gpu_s is None else summary.earlier_gpu_s
    ),
    "energy": lambda summary: nan if summary.energy_j is None else summary.energy_j,
    **{key: partial(summary_settings.number, key=key) for key in summary_settings.NUMBERS},
}
_FLOAT64_KEYS = frozenset({"best", "started", "created", "ended", *summary_settings.NUMBERS})
"""Half as many bits are enough for the other keys."""
_TEXTS: Mapping[str, Callable[[JobSummary], str]] = {
    "name": lambda summary: summary.name.casefold(),
    "tags": lambda summary: ", ".join(summary.tags).casefold(),
    "nodes": lambda summary: ", ".join(summary.nodes).casefold(),
    "user": lambda summary: summary.user.casefold(),
    "metric": lambda summary: summary.best_metric[0] if summary.best_metric else "",
    **{
        key: partial(summary_settings.setting, key=key)
        for key in (*summary_settings.TEXTS, *summary_settings.PINS, TABLE)
    },
}
_OPERATORS: Mapping[str, Callable[[Numbers, float], Mask]] = {
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
}
_TIME_COLUMNS = ("took", "gpu_hours")
"""Columns that change with time, and are computed from other columns."""
_HARDWARE_COLUMNS = {"energy": "energy", "gpu_hours": "gpus"}
"""Columns of figures that not every computer has, and the key that is 0 or NaN without them."""


@dataclass(frozen=True)
class JobQueryResult:
    """The answer to a query.

    Attributes:
        summaries: The index's own list, by slot.
        order: Slots of the matching jobs, in order; after folding, also of sweeps.
        total_count: Number of all jobs.
        live_count: Number of live jobs.
        waiting_count: Number of waiting jobs.
        match_count: Number of matching jobs.
        sweep_slots: After folding, the slot of a job's sweep by the job's slot, -1 for none.
        empty_columns: Columns of figures that no job has.
    """

    summaries: list[JobSummary]
    order: Slots
    total_count: int = 0
    live_count: int = 0
    waiting_count: int = 0
    match_count: int = 0
    sweep_slots: Slots = field(default_factory=lambda: NO_SLOTS)
    empty_columns: frozenset[str] = frozenset()


@dataclass(frozen=True)
class IndexUpdate:
    """Result of updating the index.

    Attributes:
        changed_slots: Slots whose summary changed.
        order_changed: Whether a list may have other rows, or another order.
        jobs_added_or_removed: Whether a job was added or removed.
    """

    changed_slots: tuple[int, ...] = ()
    order_changed: bool = False
    jobs_added_or_removed: bool = False


class JobIndex:
    """Every job by slot: the number of a job as long as the job exists.

    Attributes:
        summaries: The jobs by slot.
    """

    def __init__(self) -> None:
        self.summaries: list[JobSummary] = []
        self._slots: dict[str, int] = {}
        self._sweeps = JobSweeps(self.summaries)
        self._is_job: Mask = np.zeros(0, bool)
        self._values_by_key: dict[str, Numbers] = {}

    def slot(self, summary_id: str) -> int | None:
        """Return the slot of a job's id or a sweep's tag. May be called from any thread."""
        slot = self._slots.get(summary_id)
        return self._sweeps.slot(summary_id) if slot is None else slot

    def update(
        self, summaries: Iterable[JobSummary], removed_ids: Iterable[str] = ()
    ) -> IndexUpdate:
        """Add or replace these jobs, and remove ``removed_ids``."""
        changed_slots = []
        has_removed = order_changed = False
        for job_id in removed_ids:
            slot = self._slots.pop(job_id, None)
            if slot is not None:
                self._is_job[slot] = False
                self._sweeps.drop(slot)
                has_removed = True
        new_summaries = []
        for summary in summaries:
            slot = self._slots.get(summary.id)
            if slot is None:
                new_summaries.append(summary)
            elif self.summaries[slot] != summary:
                order_changed = order_changed or self.summaries[slot].state is not summary.state
                self._replace(slot, summary)
                changed_slots.append(slot)
        first_slot = len(self.summaries)
        self.summaries.extend(new_summaries)
        for slot, summary in enumerate(new_summaries, first_slot):
            self._slots[summary.id] = slot
            self._sweeps.put(slot, summary)
        sweeps, is_regrouped = self._sweeps.update()
        added_count = len(self.summaries) - first_slot
        if added_count:
            is_job = np.arange(added_count) < len(new_summaries)
            self._is_job = np.concatenate((self._is_job, is_job))
            self._values_by_key.clear()
        jobs_changed = bool(new_summaries) or has_removed
        return IndexUpdate(
            (*changed_slots, *sweeps), order_changed or jobs_changed or is_regrouped, jobs_changed
        )

    def _replace(self, slot: int, summary: JobSummary) -> None:
        previous_summary, self.summaries[slot] = self.summaries[slot], summary
        self._sweeps.put(slot, summary)
        for key, numbers in list(self._values_by_key.items()):
            if key in _NUMBERS:
                numbers[slot] = _NUMBERS[key](summary)
            elif _TEXTS[key](previous_summary) != _TEXTS[key](summary):
                del self._values_by_key[key]

    def find(
        self, query: JobQuery, queue_positions: Mapping[str, int] | None = None
    ) -> JobQueryResult:
        """Return the jobs that match, in the requested order.

        Args:
            query: The filter and the order. Equal jobs keep the list's own order.
            queue_positions: Positions of waiting jobs in the queue, by id.
        """
        groups = self._values("group")
        live_count = int(np.count_nonzero(groups[self._is_job] == 0))
        # Drafts are listed with the waiting jobs, but are not in the queue.
        waiting_count = int(
            np.count_nonzero(np.isin(self._values("state")[self._is_job], _QUEUED_NUMBERS))
        )
        slots = np.flatnonzero(self._match_mask(query))
        keys = self._default_order(slots, queue_positions or {})
        if query.order:
            numbers = self._numbers(query.order)[slots]
            # Jobs without a value come last in both directions.
            numbers = np.where(np.isnan(numbers), inf, -numbers if query.descending else numbers)
            keys = (*keys, numbers)
        if query.order == "best":
            # A loss cannot be compared with an accuracy: jobs of one metric are kept together.
            metrics = self._values("metric")[slots]
            keys = (*keys, np.where(np.isnan(metrics), inf, metrics))
        order = slots[np.lexsort(keys)].astype(np.int32)
        empty_columns = frozenset(
            column
            for column, key in _HARDWARE_COLUMNS.items()
            # NaN is not larger.
            if not np.any(self._values(key)[self._is_job] > 0)
        )
        total_count = len(self._slots)
        return JobQueryResult(
            self.summaries,
            order,
            total_count,
            live_count,
            waiting_count,
            len(order),
            empty_columns=empty_columns,
        )

    def fold(self, result: JobQueryResult, query: JobQuery, folds: FoldState) -> JobQueryResult:
        """Add a row for each sweep, with its jobs below it or folded away."""
        order = self._sweeps.fold(result.order, folds, is_search=query.is_search)
        return replace(result, order=order, sweep_slots=self._sweeps.sweep_slots)

    def sort_names(self) -> None:
        """Sort the names in advance, which takes longer than any other column."""
        self._values("name")

    def choices(self) -> JobChoices:
        """Return the choices for filters."""
        tags: set[str] = set()
        users: set[str] = set()
        nodes: set[str] = set()
        metrics: set[str] = set()
        for summary in self._job_summaries():
            tags.update(summary.tags)
            users.add(summary.user)
            nodes.update(summary.nodes)
            if summary.best_metric:
                metrics.add(summary.best_metric[0])
        return JobChoices(
            tags=_sorted(tags), users=_sorted(users), nodes=_sorted(nodes), metrics=_sorted(metrics)
        )

    def uses(self) -> Mapping[tuple[str, str], int]:
        """Return the number of jobs by the version that they use, and its part in the job."""
        return Counter(pin for summary in self._job_summaries() for pin in summary.pins)

    def find_by_name(self, text: str, limit: int) -> tuple[JobSummary, ...]:
        """Return jobs with every word in `name_and_tags`: matching prefixes first, newest first."""
        tokens = text.casefold().split()
        mask = self._is_job
        for token in tokens:
            # The text is folded already, and contains the name and the tags.
            mask = self._filter_by_token(mask, token)
        mask = self._filter(
            mask, lambda summary: _has_all(tokens, summary.name_and_tags.casefold())
        )
        slots = np.flatnonzero(mask)
        newest_first = slots[np.argsort(-self._values("created")[slots], kind="stable")]
        summaries = [self.summaries[slot] for slot in newest_first.tolist()]
        prefix = " ".join(tokens)
        prefix_matches = [
            summary for summary in summaries if summary.name.casefold().startswith(prefix)
        ]
        other_matches = (
            summary for summary in summaries if not summary.name.casefold().startswith(prefix)
        )
        return tuple(
            prefix_matches[:limit]
            + list(islice(other_matches, max(0, limit - len(prefix_matches))))
        )

    def find_sweeps(self, text: str, limit: int) -> tuple[JobSummary, ...]:
        """Return the rows of sweeps with every word in `name_and_tags`."""
        tokens = text.casefold().split()
        matches = (
            summary
            for summary in self._sweeps.sweep_rows()
            if _has_all(tokens, summary.name_and_tags.casefold())
        )
        return tuple(islice(matches, limit))

    def _job_summaries(self) -> Iterable[JobSummary]:
        summaries = self.summaries
        return (summaries[slot] for slot in self._slots.values())

    def _match_mask(self, query: JobQuery) -> Mask:
        mask = self._is_job.copy()
        if query.group is not None:
            mask &= self._values("group") == query.group
        if query.low is not None or query.high is not None:
            best_values = self._values("best")
            low = -inf if query.low is None else query.low
            high = inf if query.high is None else query.high
            mask &= (best_values >= low) & (best_values <= high)
        for value, predicate in (
            (query.tag, lambda summary: query.tag in summary.tags),
            (query.user, lambda summary: summary.user == query.user),
            (query.node, lambda summary: query.node in summary.nodes),
            (query.metric, lambda summary: (summary.best_metric or ("",))[0] == query.metric),
        ):
            if value:
                mask = self._filter(mask, predicate)
        for token in query.text.casefold().split():
            setting_filter = parse_filter(token)
            search_text = summary_settings.search_key(token)
            mask = (
                self._filter_by_setting(mask, setting_filter)
                if setting_filter
                else self._filter_by_token(mask, search_text)
            )
        return mask

    def _filter_by_setting(self, mask: Mask, setting_filter: SettingFilter) -> Mask:
        """Keep jobs with a setting, or a best metric, on one side of a number."""
        operator, name = _OPERATORS[setting_filter.sign], canonical_name(setting_filter.name)
        # A job without a value has NaN, which is on neither side.
        if name in summary_settings.NUMBERS:
            return mask & operator(self._values(name), setting_filter.value)
        metrics = {setting_filter.name, f"validation/{setting_filter.name}"}
        metric_mask = self._filter(
            mask & operator(self._values("best"), setting_filter.value),
            lambda summary: (
                summary.best_metric is not None and summary.best_metric[0].casefold() in metrics
            ),
        )
        values = np.array(summary_settings.numbers(self.summaries, name), np.float64)
        return metric_mask | (mask & operator(values, setting_filter.value))

    def _filter_by_token(self, mask: Mask, token: str) -> Mask:
        # Without a call for each summary, which is half of the time of a search.
        summaries = self.summaries
        slots = np.flatnonzero(mask)
        is_match = [
            token in (summary := summaries[slot]).text or token in summary.settings
            for slot in slots.tolist()
        ]
        filter_mask = np.zeros_like(mask)
        filter_mask[slots[np.array(is_match, bool)]] = True
        return filter_mask

    def _filter(self, mask: Mask, predicate: Callable[[JobSummary], bool]) -> Mask:
        summaries = self.summaries
        slots = np.flatnonzero(mask)
        is_match = np.fromiter(
            (predicate(summaries[slot]) for slot in slots.tolist()), bool, len(slots)
        )
        filter_mask = np.zeros_like(mask)
        filter_mask[slots[is_match]] = True
        return filter_mask

    def _default_order(
        self, slots: npt.NDArray[np.intp], queue_positions: Mapping[str, int]
    ) -> tuple[Numbers, ...]:
        """Order live jobs by start, then the queue, drafts by creation, ended ones by end."""
        group = self._values("group")[slots]
        started_s = np.where(
            np.isnan(self._values("started")), self._values("created"), self._values("started")
        )
        sort_time_s = np.where(group == 2, self._values("ended")[slots], started_s[slots])
        positions = np.full(len(self.summaries), inf)
        for job_id, position in queue_positions.items():
            slot = self._slots.get(job_id)
            if slot is not None:
                positions[slot] = position
        return (slots.astype(np.float64), -sort_time_s, positions[slots], group)

    def _numbers(self, order: str) -> Numbers:
        if order not in _TIME_COLUMNS:
            return self._values(order)
        now_s = time.time()
        started_s, ended_s = self._values("started"), self._values("ended")
        end_s = np.where(self._values("group") == 0, now_s, np.where(ended_s > 0, ended_s, nan))
        duration_s = np.maximum(end_s - started_s, 0.0)
        if order == "took":
            return duration_s
        gpu_s = self._values("earlier_gpu_s") + self._values("gpus") * duration_s
        return np.where(gpu_s > 0, gpu_s, nan)

    def _values(self, name: str) -> Numbers:
        values = self._values_by_key.get(name)
        if values is None:
            values = self._values_by_key[name] = self._compute_values(name)
        return values

    def _compute_values(self, name: str) -> Numbers:
        if name in summary_settings.NUMBERS:
            return np.array(summary_settings.numbers(self.summaries, name), np.float64)
        if name in _NUMBERS:
            number = _NUMBERS[name]
            count = len(self.summaries)
            if name in _FLOAT64_KEYS:
                return np.fromiter(map(number, self.summaries), np.float64, count)
            return np.fromiter(map(number, self.summaries), np.float32, count)
        if name in summary_settings.TEXTS:
            texts = summary_settings.settings(self.summaries, name)
        else:
            texts = list(map(_TEXTS[name], self.summaries))
        distinct_texts = list(dict.fromkeys(texts))
        sorted_texts: list[str] = []
        for start in range(0, len(distinct_texts), _SORT_CHUNK):
            sorted_texts += sorted(distinct_texts[start : start + _SORT_CHUNK])
        # Runs that are sorted already are only merged.
        sorted_texts.sort()
        ranks = {text: float(rank) for rank, text in enumerate(sorted_texts)}
        # Empty values come last, as with numbers.
        ranks[""] = nan
        return np.fromiter((ranks[text] for text in texts), np.float32, len(texts))


def _sorted(names: set[str]) -> tuple[str, ...]:
    return tuple(sorted(names - {""}, key=str.casefold))


def _has_all(tokens: Sequence[str], text: str) -> bool:
    return all(token in text for token in tokens)
