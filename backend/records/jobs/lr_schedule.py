"""The learning rate of every step, as one pure function.

The form draws this curve before the start and the training loop sets exactly these values, so that
the plot and the run are equal.
"""

from __future__ import annotations

import math

from backend.records.jobs.config import JobConfig


def learning_rate(
    job: JobConfig, steps_per_epoch: int, step: int, lr_factor: float | None = None
) -> float:
    """Return the learning rate of the ``step``-th optimizer step of the job, counted from 0.

    ``lr_factor`` is that of the run, by default the job's own: see `Launch.lr_factor`.

    Warm-up rises linearly from one worker's rate to the scaled rate, as in Goyal et al. 2017
    (arXiv 1706.02677, section 2.2); without scaling it rises from 0. Then the schedule begins:
    cosine by step, as in Loshchilov and Hutter 2017 (arXiv 1608.03983, equation 5, without
    restarts); step and exponential by whole epochs of the job.
    """
    schedule = job.schedule
    base = job.optimizer.lr
    factor = job.lr_factor if lr_factor is None else lr_factor
    peak = base * factor
    warmup_steps = schedule.warmup_epochs * steps_per_epoch
    if step < warmup_steps:
        start = base if factor > 1 else 0.0
        return start + (peak - start) * min(1.0, (step + 1) / warmup_steps)
    if schedule.name == "cosine":
        span = max(1.0, job.epochs * steps_per_epoch - warmup_steps)
        lowest = float(schedule.setting("eta_min"))
        share = min(1.0, (step - warmup_steps) / span)
        return lowest + (peak - lowest) * 0.5 * (1 + math.cos(math.pi * share))
    epoch = step // steps_per_epoch
    if schedule.name == "step":
        return peak * float(schedule.setting("gamma")) ** (
            epoch // int(schedule.setting("step_size"))
        )
    if schedule.name == "exponential":
        return peak * float(schedule.setting("gamma")) ** epoch
    return peak
