"""Jobs of a sweep, with plausible results."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from backend.records.jobs.config import Optimizer
from backend.records.jobs.state import JobState
from backend.records.jobs.status import RunStatus
from backend.records.jobs.view import JobView
from backend.records.sweeps.spec import Sweep, expand
from backend.records.sweeps.values import Axis, ValueRange
from tests.fakes.trained import CONFIG

TAG = "sweep:digits-k3pf"
ACCURACY = "validation/accuracy"
GRID = (Axis("batch_size", (16, 32)), Axis("optimizer.lr", (0.01, 0.03, 0.1)))


def sweep(count: int = 6) -> tuple[JobView, ...]:
    """A grid of 6, or a draw of as many as were asked for."""
    return tuple(_views(count))


def _views(count: int) -> Iterator[JobView]:
    base = {**CONFIG.to_dict(), "name": "digits"}
    random_axes = (
        Axis("batch_size", (16, 32, 64, 128)),
        Axis("optimizer.lr", span=ValueRange(1e-4, 0.3, 0, "log")),
        Axis("optimizer.momentum", (0.0, 0.5, 0.9)),
        Axis("schedule.warmup_epochs", span=ValueRange(0.0, 3.0)),
        Axis("schedule.name", ("constant", "cosine", "exponential")),
    )
    # A sweep makes no more than 200: more come of several.
    for part in range(-(-count // 200)):
        job_count = min(count - 200 * part, 200)
        jobs = expand(
            Sweep(
                base, GRID if count == 6 else random_axes, None if count == 6 else job_count, part
            )
        )
        for number, job in enumerate(jobs.jobs, 200 * part):
            values = dict(job.values)
            rate = values["optimizer.lr"]
            settings = {"momentum": values.get("optimizer.momentum", 0.9)}
            config = replace(
                CONFIG,
                name=job.name,
                batch_size=values["batch_size"],
                optimizer=Optimizer("sgd", rate, settings),
                schedule=replace(
                    CONFIG.schedule,
                    name=values.get("schedule.name", "cosine"),
                    warmup_epochs=values.get("schedule.warmup_epochs", 1.0),
                ),
            )
            accuracy = 0.95 - 0.05 * abs(math.log10(rate / 0.03)) - 0.0004 * values["batch_size"]
            accuracy -= 0.02 * (number * 7 % 11) / 11
            yield JobView(
                f"s{number}",
                job.name,
                config,
                f"2026-11-21T07:{number // 60:02}:{number % 60:02}Z",
                RunStatus(JobState.FINISHED, run=1),
                best_metric=(ACCURACY, accuracy),
                tags=(TAG,),
            )
