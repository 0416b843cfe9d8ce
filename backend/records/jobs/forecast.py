"""Forecast of a job before it starts: its duration and its disk usage.

Duration comes only from a similar job, never from a guess: the pace of a run depends on the model,
the data, the batch and the machines. What is not known is left open.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from backend.base.room import DiskSpace
from backend.records.base.timestamps import seconds
from backend.records.jobs.config import JobConfig
from backend.records.jobs.state import JobState
from backend.records.jobs.view import JobForecast, JobView
from backend.records.library.item import Pin

_MIN_KEPT = 2
"""The newest may be damaged; training keeps at least two, whatever the settings say."""
_PER_PARAMETER = {"sgd": 0, "adam": 2, "adamw": 2, "adagrad": 1, "adadelta": 2, "rmsprop": 1}
"""Numbers that PyTorch's optimizer keeps for each parameter, without those of its options."""


@dataclass(frozen=True)
class SimilarJob:
    """A similar job that has run.

    ``pace_s`` is the time from one step to the next, ``overhead_s`` the rest of its run: starting
    the processes, reading the model, the last checkpoint.
    """

    name: str
    pace_s: float
    overhead_s: float = 0.0
    step_j: float | None = None
    """Energy of its GPUs per step, the rest of its runs included; None if it is not known."""


def similar_jobs(
    config: JobConfig, pins: Mapping[str, Pin], jobs: Iterable[JobView]
) -> tuple[JobView, ...]:
    """Return the jobs whose pace applies to the new one, the best match first."""
    candidates = [view for view in jobs if view.step and _is_similar(config, pins, view)]
    return tuple(sorted(candidates, key=lambda view: -_similarity(config, pins, view)))


def similar_job_of(view: JobView, pace_s: float | None) -> SimilarJob | None:
    """Return the job as a `SimilarJob`, or None if its pace is not known."""
    if pace_s is None or not math.isfinite(pace_s) or pace_s <= 0:
        return None
    run_s = seconds(view.status.ended_at) - seconds(view.status.started_at)
    is_whole = view.state is JobState.FINISHED and view.run == 1 and bool(view.status.started_at)
    around_s = max(0.0, run_s - view.step * pace_s) if is_whole else 0.0
    energy_j = view.status.total_energy_j
    step_j = energy_j / view.step if energy_j is not None and view.step else None
    return SimilarJob(view.name, pace_s, around_s, step_j)


def _is_similar(config: JobConfig, pins: Mapping[str, Pin], view: JobView) -> bool:
    other_config = view.config
    required_keys = (
        *("batch_size", "world_size", "workers", "global_batch_size"),
        *("uses_gpus", "precision"),
    )
    return all(getattr(config, key) == getattr(other_config, key) for key in required_keys) and all(
        key in pins and key in view.pins and pins[key].name == view.pins[key].name
        for key in ("model", "dataset", "loader")
    )


def _similarity(config: JobConfig, pins: Mapping[str, Pin], view: JobView) -> int:
    """Rate how much else is equal; what affects the pace most counts most."""
    other_config = view.config
    return (
        8 * (config.placement == other_config.placement)
        + 4 * (pins["model"].sha256 == view.pins["model"].sha256)
        + 2 * (config.loader_workers == other_config.loader_workers)
        + (config.optimizer.name == other_config.optimizer.name)
    )


def checkpoints_kept(
    config: JobConfig, steps_per_epoch: int | None, lasts_s: float | None, *, writing_count: int = 0
) -> int:
    """Return the largest number of checkpoints on the disk at the end, or during a write."""
    policy = config.checkpoint
    kept_count = max(_MIN_KEPT, policy.keep_latest + policy.keep_best)
    written_count = checkpoints_written(config, steps_per_epoch, lasts_s)
    return int(min(kept_count + writing_count, written_count))


def checkpoints_written(
    config: JobConfig, steps_per_epoch: int | None, lasts_s: float | None
) -> float:
    """Return the number of checkpoints of a whole job; infinity if it is not known."""
    policy = config.checkpoint
    written_count = math.inf
    if policy.every_epochs is not None:
        written_count = math.ceil(config.epochs / policy.every_epochs)
    elif policy.every_steps is not None and steps_per_epoch is not None:
        written_count = math.ceil(config.epochs * steps_per_epoch / policy.every_steps)
    elif policy.every_minutes is not None and lasts_s is not None:
        written_count = math.ceil(lasts_s / 60 / policy.every_minutes)
    return max(written_count, 1)


def checkpoint_bytes(parameter_bytes: int, config: JobConfig) -> int:
    """Estimate the size of a checkpoint of a model with so many bytes of parameters."""
    optimizer = config.optimizer
    numbers = 1 + (config.ema is not None) + config.strategy.is_adaptive
    numbers += _optimizer_numbers(config)
    settings = optimizer.settings
    numbers += sum(
        bool(settings.get(key)) for key in ("momentum", "amsgrad", "centered") if key in settings
    )
    return numbers * parameter_bytes


def _optimizer_numbers(config: JobConfig) -> int:
    """Return the numbers that the optimizer keeps for each parameter, without its options."""
    if config.strategy.has_coordinator:
        # A step and a difference of gradients for each entry of the history.
        return 2 * int(config.strategy.setting("history"))
    return _PER_PARAMETER[config.optimizer.name]


def parameter_memory_bytes(parameter_bytes: int, config: JobConfig) -> int:
    """Estimate the memory of a process for weights, gradients and the state of the optimizer."""
    whole_bytes = parameter_bytes + checkpoint_bytes(parameter_bytes, config)
    return whole_bytes // (config.world_size if config.strategy.name == "fsdp" else 1)


def forecast(
    config: JobConfig,
    steps_per_epoch: int | None,
    similar_job: SimilarJob | None,
    size_bytes: int | None,
    disk_space: DiskSpace | None = None,
) -> JobForecast:
    """Return the whole forecast; what is not known is None."""
    steps = None if steps_per_epoch is None else steps_per_epoch * config.epochs
    lasts_s = (
        None
        if steps is None or similar_job is None
        else steps * similar_job.pace_s + similar_job.overhead_s
    )
    step_j = None if similar_job is None else similar_job.step_j
    return JobForecast(
        total_steps=steps,
        lasts_s=lasts_s,
        pace_source="" if similar_job is None else similar_job.name,
        pace_s=None if similar_job is None else similar_job.pace_s,
        checkpoint_bytes=size_bytes,
        checkpoints_kept=checkpoints_kept(config, steps_per_epoch, lasts_s),
        free_bytes=None if disk_space is None else disk_space.free_bytes,
        free_files=None if disk_space is None else disk_space.free_files,
        gpu_s=lasts_s * config.world_size if lasts_s is not None and config.uses_gpus else None,
        energy_j=None if steps is None or step_j is None else steps * step_j,
    )
