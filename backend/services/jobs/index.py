"""All jobs in memory, to search, sort and filter 100,000 of them while the user types.

One call at a time, on any thread except the window's: each holds Python's lock for a few
milliseconds at most, so that the window stays responsive. Other threads may read `lines` (entries
are replaced, never moved) and the arrays of a `JobQueryResult`, which never change.

``tests/benchmarks/jobs.py`` compares it with SQLite for the same jobs.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from math import inf, nan

import numpy as np
import numpy.typing as npt

from backend.records.jobs import summary_settings
from backend.records.jobs.arguments import TABLE, canonical_name
from backend.records.jobs.state import JobState
from backend.records.jobs.summary import JobChoices, JobQuery, JobSummary
from backend.records.jobs.summary_settings import SettingFilter, comparison
from backend.records.sweeps.summary import FoldState
from backend.services.jobs.sweep_grouping import NO_SLOTS, JobSweeps

Numbers = npt.NDArray[np.float64] | npt.NDArray[np.float32]
Slots = npt.NDArray[np.int32]
Mask = npt.NDArray[np.bool_]


def _number_of(key: str) -> Callable[[JobSummary], float]:
    return lambda line: summary_settings.number(line, key)


def _text_of(key: str) -> Callable[[JobSummary], str]:
    return lambda line: summary_settings.setting(line, key)


_RUN = 8192
"""Number of texts sorted at once: about 5 ms, during which other threads wait."""
_STATES = {state: number for number, state in enumerate(JobState)}
_QUEUED = [number for state, number in _STATES.items() if state.is_queued]
_NUMBERS: Mapping[str, Callable[[JobSummary], float]] = {
    "state": lambda line: _STATES[line.state],
    "progress": lambda line: line.progress or 0.0,
    "best": lambda line: line.best_metric[1] if line.best_metric else nan,
    "gpus": lambda line: line.world_size if line.uses_gpus else 0,
    "started": lambda line: line.started_s or nan,
    "created": lambda line: line.created_s,
    "ended": lambda line: line.ended_s,
    "group": lambda line: line.group,
    "earlier_gpu_s": lambda line: nan if line.earlier_gpu_s is None else line.earlier_gpu_s,
    "energy": lambda line: nan if line.energy_j is None else line.energy_j,
    **{key: _number_of(key) for key in summary_settings.NUMBERS},
}
_EXACT = frozenset({"best", "started", "created", "ended", *summary_settings.NUMBERS})
"""Half as many bits are enough for the others."""
_TEXTS: Mapping[str, Callable[[JobSummary], str]] = {
    "name": lambda line: line.name.casefold(),
    "tags": lambda line: ", ".join(line.tags).casefold(),
    "nodes": lambda line: ", ".join(line.nodes).casefold(),
    "user": lambda line: line.user.casefold(),
    "metric": lambda line: line.best_metric[0] if line.best_metric else "",
    **{key: _text_of(key) for key in (*summary_settings.TEXTS, *summary_settings.PINS, TABLE)},
}
_SIDES: Mapping[str, Callable[[Numbers, float], Mask]] = {
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
}
_OF_TIME = ("took", "gpu_hours")
"""They change with time, and are computed from others."""
_OF_HARDWARE = {"energy": "energy", "gpu_hours": "gpus"}
"""Columns of figures that not every computer has, and the key that is 0 or NaN without one."""


@dataclass(frozen=True)
class JobQueryResult:
    """The answer to a query.

    Attributes:
        lines: The index's own list, by slot.
        order: Slots of the jobs that were found, in order; after folding, also of sweeps.
        total: Number of all jobs; ``live`` and ``waiting`` are the numbers of those.
        hits: Number of jobs that were found.
        head_of: After folding, the slot of a job's sweep by the job's slot, -1 for none.
        empty: Columns of figures that no job has.
    """

    summaries: list[JobSummary]
    order: Slots
    total_count: int = 0
    live_count: int = 0
    waiting_count: int = 0
    match_count: int = 0
    sweep_slots: Slots = field(default_factory=lambda: NO_SLOTS)
    empty: frozenset[str] = frozenset()


@dataclass(frozen=True)
class IndexUpdate:
    """Result of updating the index.

    Attributes:
        changed: Slots whose summary changed.
        moved: Whether a list may have other rows, or another order.
        came_or_went: Whether a job was added or removed.
    """

    changed: tuple[int, ...] = ()
    order_changed: bool = False
    jobs_added_or_removed: bool = False


class JobIndex:
    """Every job by slot: a number that it keeps as long as it exists.

    Attributes:
        lines: The jobs by slot.
    """

    def __init__(self) -> None:
        self.summaries: list[JobSummary] = []
        self._slots: dict[str, int] = {}
        self._sweeps = JobSweeps(self.summaries)
        self._there: Mask = np.zeros(0, bool)
        self._keys: dict[str, Numbers] = {}

    def slot(self, line_id: str) -> int | None:
        """Return the slot of a job's id or a sweep's tag. May be called from any thread."""
        slot = self._slots.get(line_id)
        return self._sweeps.slot(line_id) if slot is None else slot

    def update(self, lines: Iterable[JobSummary], gone: Iterable[str] = ()) -> IndexUpdate:
        """Add or replace these jobs, remove those in ``gone``."""
        changed = []
        went = moved = False
        for job_id in gone:
            slot = self._slots.pop(job_id, None)
            if slot is not None:
                self._there[slot] = False
                self._sweeps.drop(slot)
                went = True
        fresh = []
        for line in lines:
            slot = self._slots.get(line.id)
            if slot is None:
                fresh.append(line)
            elif self.summaries[slot] != line:
                moved = moved or self.summaries[slot].state is not line.state
                self._replace(slot, line)
                changed.append(slot)
        first = len(self.summaries)
        self.summaries.extend(fresh)
        for slot, line in enumerate(fresh, first):
            self._slots[line.id] = slot
            self._sweeps.put(slot, line)
        sweeps, regrouped = self._sweeps.update()
        grown = len(self.summaries) - first
        if grown:
            came = np.arange(grown) < len(fresh)
            self._there = np.concatenate((self._there, came))
            self._keys.clear()
        came_or_went = bool(fresh) or went
        return IndexUpdate((*changed, *sweeps), moved or came_or_went or regrouped, came_or_went)

    def _replace(self, slot: int, line: JobSummary) -> None:
        before, self.summaries[slot] = self.summaries[slot], line
        self._sweeps.put(slot, line)
        for key, numbers in list(self._keys.items()):
            if key in _NUMBERS:
                numbers[slot] = _NUMBERS[key](line)
            elif _TEXTS[key](before) != _TEXTS[key](line):
                del self._keys[key]

    def find(self, query: JobQuery, queue_positions: Mapping[str, int] | None = None) -> JobQueryResult:
        """Return the jobs that match, in the requested order.

        Args:
            query: The filter and the order. Equal jobs keep the list's own order.
            places: Positions of waiting jobs in the queue.
        """
        groups = self._key("group")
        live = int(np.count_nonzero(groups[self._there] == 0))
        # Drafts are listed with the waiting jobs, but are not in the queue.
        waiting = int(np.count_nonzero(np.isin(self._key("state")[self._there], _QUEUED)))
        slots = np.flatnonzero(self._matching(query))
        keys = self._own_order(slots, queue_positions or {})
        if query.order:
            numbers = self._numbers(query.order)[slots]
            # Jobs without a value come last in both directions.
            numbers = np.where(np.isnan(numbers), inf, -numbers if query.descending else numbers)
            keys = (*keys, numbers)
        if query.order == "best":
            # A loss cannot be compared with an accuracy: jobs of one metric are kept together.
            metrics = self._key("metric")[slots]
            keys = (*keys, np.where(np.isnan(metrics), inf, metrics))
        order = slots[np.lexsort(keys)].astype(np.int32)
        empty = frozenset(
            column
            for column, key in _OF_HARDWARE.items()
            # NaN is not larger.
            if not np.any(self._key(key)[self._there] > 0)
        )
        total = len(self._slots)
        return JobQueryResult(self.summaries, order, total, live, waiting, len(order), empty=empty)

    def fold(self, result: JobQueryResult, query: JobQuery, folds: FoldState) -> JobQueryResult:
        """Add a row for each sweep, with its jobs below it or folded away."""
        order = self._sweeps.fold(result.order, folds, is_search=query.is_search)
        return replace(result, order=order, sweep_slots=self._sweeps.sweep_slots)

    def sort_names(self) -> None:
        """Sort the names in advance: of all columns that takes longest."""
        self._key("name")

    def choices(self) -> JobChoices:
        """Return the choices for filters."""
        tags: set[str] = set()
        users: set[str] = set()
        nodes: set[str] = set()
        metrics: set[str] = set()
        for line in self._present():
            tags.update(line.tags)
            users.add(line.user)
            nodes.update(line.nodes)
            if line.best_metric:
                metrics.add(line.best_metric[0])
        return JobChoices(
            tags=_sorted(tags), users=_sorted(users), nodes=_sorted(nodes), metrics=_sorted(metrics)
        )

    def uses(self) -> Mapping[tuple[str, str], int]:
        """Return the number of jobs by the version they use, and as what."""
        return Counter(pin for line in self._present() for pin in line.pins)

    def find_by_name(self, text: str, most: int) -> tuple[JobSummary, ...]:
        """Return jobs with every word in `called`: names that begin so first, newest first."""
        wanted = text.casefold().split()
        found = self._there
        for word in wanted:
            # The text is folded already, and contains the name and the tags.
            found = self._with_word(found, word)
        found = self._keep(found, lambda line: _all_in(wanted, line.name_and_tags.casefold()))
        slots = np.flatnonzero(found)
        newest_first = slots[np.argsort(-self._key("created")[slots], kind="stable")]
        lines = [self.summaries[slot] for slot in newest_first.tolist()]
        joined = " ".join(wanted)
        begin = [line for line in lines if line.name.casefold().startswith(joined)]
        others = (line for line in lines if not line.name.casefold().startswith(joined))
        return tuple(begin[:most] + list(islice(others, max(0, most - len(begin)))))

    def find_sweeps(self, text: str, most: int) -> tuple[JobSummary, ...]:
        """Return the rows of sweeps with every word in `called`."""
        wanted = text.casefold().split()
        fitting = (one for one in self._sweeps.summaries() if _all_in(wanted, one.name_and_tags.casefold()))
        return tuple(islice(fitting, most))

    def _present(self) -> Iterable[JobSummary]:
        lines = self.summaries
        return (lines[slot] for slot in self._slots.values())

    def _matching(self, query: JobQuery) -> Mask:
        found = self._there.copy()
        if query.group is not None:
            found &= self._key("group") == query.group
        if query.low is not None or query.high is not None:
            best = self._key("best")
            low = -inf if query.low is None else query.low
            high = inf if query.high is None else query.high
            found &= (best >= low) & (best <= high)
        for wanted, fits in (
            (query.tag, lambda line: query.tag in line.tags),
            (query.user, lambda line: line.user == query.user),
            (query.node, lambda line: query.node in line.nodes),
            (query.metric, lambda line: bool(line.best_metric) and _is_of(line, query.metric)),
        ):
            if wanted:
                found = self._keep(found, fits)
        for word in query.text.casefold().split():
            asked = comparison(word)
            plain = summary_settings.search_key(word)
            found = self._compared(found, asked) if asked else self._with_word(found, plain)
        return found

    def _compared(self, found: Mask, asked: SettingFilter) -> Mask:
        """Keep jobs with a setting, or a best metric, on one side of a number."""
        fits, name = _SIDES[asked.sign], canonical_name(asked.name)
        # A job without a value has NaN, which is on neither side.
        if name in summary_settings.NUMBERS:
            return found & fits(self._key(name), asked.value)
        metrics = {asked.name, f"validation/{asked.name}"}
        rated = self._keep(
            found & fits(self._key("best"), asked.value),
            lambda line: line.best_metric is not None and line.best_metric[0].casefold() in metrics,
        )
        values = np.array(summary_settings.numbers(self.summaries, name), np.float64)
        return rated | (found & fits(values, asked.value))

    def _with_word(self, found: Mask, word: str) -> Mask:
        # Without a call for each summary, which is half of the time of a search.
        lines = self.summaries
        slots = np.flatnonzero(found)
        kept = [
            word in (line := lines[slot]).text or word in line.settings for slot in slots.tolist()
        ]
        after = np.zeros_like(found)
        after[slots[np.array(kept, bool)]] = True
        return after

    def _keep(self, found: Mask, fits: Callable[[JobSummary], bool]) -> Mask:
        lines = self.summaries
        slots = np.flatnonzero(found)
        kept = np.fromiter((fits(lines[slot]) for slot in slots.tolist()), bool, len(slots))
        after = np.zeros_like(found)
        after[slots[kept]] = True
        return after

    def _own_order(
        self, slots: npt.NDArray[np.intp], places: Mapping[str, int]
    ) -> tuple[Numbers, ...]:
        """Order live jobs by start, then the queue, drafts by creation, ended ones by end."""
        group = self._key("group")[slots]
        begun = np.where(np.isnan(self._key("started")), self._key("created"), self._key("started"))
        when = np.where(group == 2, self._key("ended")[slots], begun[slots])
        number = np.full(len(self.summaries), inf)
        for job_id, place in places.items():
            slot = self._slots.get(job_id)
            if slot is not None:
                number[slot] = place
        return (slots.astype(np.float64), -when, number[slots], group)

    def _numbers(self, order: str) -> Numbers:
        if order not in _OF_TIME:
            return self._key(order)
        now = time.time()
        begun, ended = self._key("started"), self._key("ended")
        over = np.where(self._key("group") == 0, now, np.where(ended > 0, ended, nan))
        took = np.maximum(over - begun, 0.0)
        if order == "took":
            return took
        used = self._key("earlier_gpu_s") + self._key("gpus") * took
        return np.where(used > 0, used, nan)

    def _key(self, name: str) -> Numbers:
        known = self._keys.get(name)
        if known is None:
            known = self._keys[name] = self._made(name)
        return known

    def _made(self, name: str) -> Numbers:
        if name in summary_settings.NUMBERS:
            return np.array(summary_settings.numbers(self.summaries, name), np.float64)
        if name in _NUMBERS:
            number = _NUMBERS[name]
            count = len(self.summaries)
            if name in _EXACT:
                return np.fromiter(map(number, self.summaries), np.float64, count)
            return np.fromiter(map(number, self.summaries), np.float32, count)
        if name in summary_settings.TEXTS:
            texts = summary_settings.settings(self.summaries, name)
        else:
            texts = list(map(_TEXTS[name], self.summaries))
        distinct = list(dict.fromkeys(texts))
        merged: list[str] = []
        for first in range(0, len(distinct), _RUN):
            merged += sorted(distinct[first : first + _RUN])
        # Runs that are sorted already are only merged.
        merged.sort()
        ranks = {text: float(rank) for rank, text in enumerate(merged)}
        # Empty values come last, as with numbers.
        ranks[""] = nan
        return np.fromiter((ranks[text] for text in texts), np.float32, len(texts))


def _sorted(names: set[str]) -> tuple[str, ...]:
    return tuple(sorted(names - {""}, key=str.casefold))


def _all_in(words: Sequence[str], text: str) -> bool:
    return all(word in text for word in words)


def _is_of(line: JobSummary, metric: str) -> bool:
    return line.best_metric is not None and line.best_metric[0] == metric
