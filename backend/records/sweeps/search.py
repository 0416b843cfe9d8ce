"""A search: a sweep whose jobs, the trials, get their values from a sampler, one after the other.

The desktop that makes the search writes ``search.json``. The program that keeps the queue of the
trials' first node writes all other files, with Optuna (`backend.node.queue.search_turn`).

Standard library only and Python 3.9: the nodes import this.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from backend.records.base.schema import KEY, Record
from backend.records.base.validation import ConfigError, sanitize
from backend.records.jobs.metric_names import usual_mode
from backend.records.jobs.schedulers import SCHEDULERS, scheduler_in
from backend.records.jobs.settings import label
from backend.records.sweeps.values import Axis, value_text

TABLE = "sweep.search"
"""The table of a sweep file with these settings."""
TPE, CMA_ES, RANDOM, GRID = "tpe", "cma-es", "random", "grid"
SAMPLERS = {TPE: "TPE", CMA_ES: "CMA-ES", RANDOM: "Random", GRID: "Grid"}
MEDIAN, HALVING, HYPERBAND, NEVER = "median", "halving", "hyperband", "never"
PRUNERS = {
    MEDIAN: "Worse than the median",
    HALVING: "Successive halving",
    HYPERBAND: "Hyperband",
    NEVER: "Never",
}
MODES = {"lower": "min", "higher": "max"}
MAX_TRIALS = 500
MAX_AT_ONCE = 100
PRIORITY = -1
"""Priority of trials in the queue: the jobs of all users that were queued without one go first."""
COMPLETE, PRUNED, FAILED = "complete", "pruned", "failed"
_STATE_LABELS = {COMPLETE: "finished", PRUNED: "given up", FAILED: "failed"}
_RATED_TRIALS = 8
"""Finished trials from which on the importance of a setting is more than chance."""
IMPORTANCE = "--importance"
"""Option of `backend.node.queue.search_turn`."""
_FIXED = frozenset(
    {"model", "dataset", "loader", "validation_dataset", "validation_loader", "script", "python"}
    | {"placement", *SCHEDULERS, "start_from"}
)
"""Settings that decide which files and nodes a queued job has."""


@dataclass(frozen=True)
class Search(Record, label="search"):
    """The settings of a search. ``better`` is "" if the name of the metric says it."""

    metric: str = field(default="validation/loss", metadata={KEY: "goal"})
    better: str = ""
    trials: int = 30
    at_once: int = 1
    sampler: str = TPE
    pruner: str = field(default=MEDIAN, metadata={KEY: "give_up"})

    @property
    def mode(self) -> str:
        """Return ``min`` or ``max``, "" if neither the user nor the metric's name says it."""
        return MODES.get(self.better, "") if self.better else usual_mode(self.metric)

    def errors(self, base: Mapping[str, Any], axes: tuple[Axis, ...]) -> Iterator[ConfigError]:
        """Yield why these axes of a job file cannot be searched so."""

        def error(key: str, message: str) -> ConfigError:
            return ConfigError(f"{TABLE}.{key}", f"{TABLE}.{key}: {message}")

        if not self.metric.strip():
            yield error("goal", "names no metric, such as validation/accuracy.")
        elif not self.mode:
            goal = sanitize(self.metric)
            yield error("better", f"must say which values of {goal} are better: lower or higher.")
        for key, number, limit in (
            ("trials", self.trials, MAX_TRIALS),
            ("at_once", self.at_once, MAX_AT_ONCE),
        ):
            if not 1 <= number <= limit:
                yield error(key, f"must be 1 to {limit}, not {number}.")
        choices = ("sampler", self.sampler, SAMPLERS), ("give_up", self.pruner, PRUNERS)
        for key, choice, known_choices in choices:
            if choice not in known_choices:
                names = ", ".join(known_choices)
                yield error(key, f"“{sanitize(choice)}” must be one of {names}.")
        if self.sampler == CMA_ES and all(axis.points() for axis in axes):
            yield error("sampler", "cma-es needs a setting with a range; use tpe for lists.")
        if (scheduler := scheduler_in(base)) is not None:
            message = f"{scheduler.key}: has a queue of its own; a search needs nodes."
            yield ConfigError(scheduler.key, message)
        if axes and all(axis.has_one_value for axis in axes):
            message = "has only one value; there is nothing to search."
            yield ConfigError(axes[0].path, f"{axes[0].path}: {message}")
        for axis in axes:
            # With the strategy, what starts the processes changes, too.
            if axis.path.partition(".")[0] in _FIXED or axis.path == "strategy.name":
                message = "cannot be searched: it decides which files or nodes a job has."
                yield ConfigError(axis.path, f"{axis.path}: {message}")


def unknown_goal(goal: str, names: Iterable[str]) -> str:
    """Return that a goal is not among the metrics of jobs, as a sentence."""
    metrics = ", ".join(sorted(names))
    return f"“{sanitize(goal)}” is no metric of these jobs; they report {sanitize(metrics)}."


@dataclass(frozen=True)
class StoredSearch(Record, label="search", newest_schema=1):
    """``search.json``. ``head`` is the key of the node that keeps it; ``jobs`` are the trials."""

    tag: str
    head: str
    seed: int
    search: Search
    axes: tuple[Axis, ...]
    jobs: tuple[str, ...]
    schema: int = 1


@dataclass(frozen=True)
class SearchProgress(Record, label="progress of a search"):
    """``progress.json``: the trials whose end the sampler does not know yet."""

    open_jobs: tuple[str, ...] = field(default=(), metadata={KEY: "open"})


@dataclass(frozen=True)
class Proposal(Record, label="proposal"):
    """``proposal.json`` of a job: the values that the sampler proposed, and how the trial ended.

    ``number`` counts the trials of the search from 1. ``state`` is "" until the sampler knows the
    end; then ``value`` is the best of the goal, and ``reason`` why the trial was stopped or failed.
    """

    job: str
    number: int
    values: Mapping[str, Any]
    state: str = ""
    value: float | None = None
    reason: str = ""

    @property
    def state_label(self) -> str:
        return _STATE_LABELS.get(self.state, "running")

    @property
    def message(self) -> str:
        """Return the values as a phrase: "Learning rate 0.01, Momentum 0.9"."""
        return ", ".join(
            f"{label(path)} {sanitize(value_text(value))}" for path, value in self.values.items()
        )


@dataclass(frozen=True)
class SearchResult:
    """All trials in their order, and the share of each setting in the differences of the goal."""

    search: Search
    axes: tuple[Axis, ...] = ()
    trials: tuple[Proposal, ...] = ()
    importance: Mapping[str, float] = field(default_factory=dict)
    error: str = ""

    @property
    def progress_message(self) -> str:
        """Return the sampler and the number of trials by state, as a sentence."""
        labels = [trial.state_label for trial in self.trials]
        counts = ", ".join(f"{labels.count(label)} {label}" for label in _STATE_LABELS.values())
        return f"{SAMPLERS.get(self.search.sampler, '')}, {self.search.trials} trials: {counts}."

    @property
    def missing_trials(self) -> int:
        """Return how many more trials must finish before the importance is more than chance."""
        count = sum(trial.state == COMPLETE for trial in self.trials)
        return max(0, max(_RATED_TRIALS, 2 * len(self.axes) + 1) - count)

    @property
    def importance_message(self) -> str:
        """Return the share of each setting, or why there is none, as a sentence."""
        if self.error:
            return ""
        if self.missing_trials:
            return f"Finished trials that the importance still needs: {self.missing_trials}."
        shares = sorted(self.importance.items(), key=lambda item: -item[1])
        texts = ", ".join(f"{label(path)} {share:.0%}" for path, share in shares)
        return f"Importance: {texts}." if texts else "No setting makes a difference to the goal."

    @property
    def best(self) -> Proposal | None:
        rated_trials = [t for t in self.trials if t.value is not None and t.state == COMPLETE]
        sign = -1.0 if self.search.mode == "max" else 1.0
        return min(rated_trials, key=lambda trial: sign * (trial.value or 0.0), default=None)
