"""Jobs to compare, with plausible curves."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np

from backend.records.jobs.comparison import ComparedUpdate, MetricFigures, RunFigures
from backend.records.jobs.config import CheckpointPolicy, Optimizer
from backend.records.jobs.history import HistoryUpdate, RunStart
from backend.records.jobs.placement import Placement
from backend.records.jobs.state import JobState
from backend.records.jobs.status import RunStatus
from backend.records.jobs.view import JobView
from tests.fakes.trained import CONFIG
from tests.job_views import replace_fields

MAP_METRIC = "validation/mAP"
POLICY = CheckpointPolicy(best_metric=MAP_METRIC, best_mode="max")
START_S = 1_700_000_000.0
PER_EPOCH = 100
LONG_PREFIX = "retinanet-resnet50-fpn-coco2017-augmented-mosaic-"
NAME_ENDINGS = (
    ("baseline with a long name", JobState.TRAINING),
    ("lr-0.02-warmup-5-epochs-cosine", JobState.FINISHED),
    ("frozen batch norm in the backbone", JobState.ERROR),
    ("no augmentation at all", JobState.INTERRUPTED),
    ("deformable convolution", JobState.LOST),
    ("six", JobState.FINISHED),
    ("seven of nine", JobState.STOPPING),
    ("last", JobState.FINISHED),
)


@cache
def compared(
    number: int,
    name: str,
    state: JobState = JobState.FINISHED,
    lr: float = 0.04,
    steps: int = 5000,
    nodes: tuple[Placement, ...] = CONFIG.placement,
) -> ComparedUpdate:
    """A job with its whole history."""
    rng = np.random.default_rng(number)
    config = replace(
        CONFIG,
        name=name,
        epochs=50,
        optimizer=Optimizer("sgd", lr),
        checkpoint=POLICY,
        placement=nodes,
    )
    view = JobView(
        f"id{number}",
        name,
        config,
        "2026-11-21T07:00:00Z",
        RunStatus(
            state,
            run=1,
            epoch=steps // PER_EPOCH,
            step=steps,
            total_steps=50 * PER_EPOCH,
            steps_per_epoch=PER_EPOCH,
        ),
    )
    return replace(update_of(view, 1, steps, rng), view=view)


def update_of(
    view: JobView, first_step: int, count: int, rng: np.random.Generator | None = None
) -> ComparedUpdate:
    """Steps of a job, as a read returns them."""
    rng = rng or np.random.default_rng(first_step)
    number = int(view.id[2:])
    steps = np.arange(first_step, first_step + count)
    loss = 0.3 + 0.05 * number + 2.3 * np.exp(-steps / (600 + 150 * number))
    loss += rng.normal(0, 0.03, count)
    ends_epoch = steps % PER_EPOCH == 0
    map_ = np.full(count, np.nan)
    map_[ends_epoch] = (0.37 - 0.01 * number) * (
        1 - np.exp(-steps[ends_epoch] / (900 + 200 * number))
    )
    map_[ends_epoch] += rng.normal(0, 0.003, int(ends_epoch.sum()))
    metrics = {
        "loss": loss,
        "learning_rate": np.full(count, view.config.optimizer.lr),
        MAP_METRIC: map_,
    }
    seconds = steps * (1.4 + 0.14 * number)
    history = HistoryUpdate(
        steps,
        (steps - 1) // PER_EPOCH + 1,
        seconds,
        metrics,
        (RunStart(1, 1),) if first_step == 1 else (),
        0 if first_step == 1 else None,
        (),
        START_S + 3600 * number,
        steps / PER_EPOCH,
    )
    finite_metrics = {name: values[np.isfinite(values)] for name, values in metrics.items()}
    figures = {
        name: MetricFigures(float(v[-1]), float(v.min()), float(v.max()))
        for name, v in finite_metrics.items()
        if len(v) and name != "learning_rate"
    }
    return ComparedUpdate(view, history, RunFigures(figures, float(seconds[-1]), count))


def three_updates() -> tuple[ComparedUpdate, ...]:
    return (
        compared(0, "retinanet-r50 · coco 2x", JobState.TRAINING, 0.04, 3200),
        compared(1, "retinanet-r50 · lr 0.02", JobState.FINISHED, 0.02),
        compared(
            2,
            "retinanet-r50 · frozen bn",
            nodes=(Placement("gpu02", 4), Placement("gpu06", 4)),
        ),
    )


def eight_updates() -> tuple[ComparedUpdate, ...]:
    return tuple(
        compared(n, f"{LONG_PREFIX}{suffix}", state, round(0.01 * (n + 1), 2), 5000 - 400 * n)
        for n, (suffix, state) in enumerate(NAME_ENDINGS)
    )


def draft(number: int = 9) -> ComparedUpdate:
    """A job that never ran."""
    view = replace_fields(
        compared(number, "a draft", steps=PER_EPOCH).view,
        state=JobState.CREATED,
        run=0,
        step=0,
        epoch=0,
        steps_per_epoch=0,
    )
    return ComparedUpdate(view, HistoryUpdate(drop_from=0), RunFigures())
