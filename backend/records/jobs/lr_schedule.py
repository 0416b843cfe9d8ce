"""The learning rate of every step, as one pure function.

The form draws this curve before the start and the training loop sets exactly these values, so that
the plot and the run are equal.
"""

from __future__ import annotations

import math

from backend.records.jobs.config import JobConfig, Schedule


def learning_rate(
    job: JobConfig,
    steps_per_epoch: int,
    step: int,
    lr_factor: float | None = None,
    plateaus: int = 0,
) -> float:
    """Return the learning rate of an optimizer step of the job.

    Warm-up rises linearly from one worker's rate to the scaled rate, as in Goyal et al. 2017
    (arXiv 1706.02677, section 2.2); without scaling it rises from 0. Then the schedule begins.
    Cosine is by step, as in Loshchilov and Hutter 2017 (arXiv 1608.03983, equation 5), and its
    first cycle begins after the warm-up. One cycle follows Smith and Topin 2017 (arXiv 1708.07120)
    in the form of PyTorch's OneCycleLR; polynomial is that of DeepLab (arXiv 1606.00915, section
    4.1). Step, milestones and exponential are by whole epochs of the job.

    Args:
        step: The step, from 0.
        lr_factor: The factor of the run, by default the job's own: see `Launch.lr_factor`.
        plateaus: How often the judged metric has stopped to improve, for the schedule "plateau".
    """
    schedule = job.schedule
    base = job.optimizer.lr
    factor = job.lr_factor if lr_factor is None else lr_factor
    peak = base * factor
    warmup_steps = schedule.warmup_epochs * steps_per_epoch
    if step < warmup_steps:
        start = base if factor > 1 else 0.0
        return start + (peak - start) * min(1.0, (step + 1) / warmup_steps)
    step_count = max(1.0, job.epochs * steps_per_epoch - warmup_steps)
    share = min(1.0, (step - warmup_steps) / step_count)
    if schedule.name == "cosine":
        return _cosine(peak, float(schedule.setting("eta_min")), share)
    if schedule.name == "cosine-restarts":
        position = (step - warmup_steps) / steps_per_epoch
        floor = float(schedule.setting("eta_min"))
        return _cosine(peak, floor, _cycle_share(schedule, position))
    if schedule.name == "polynomial":
        floor = float(schedule.setting("eta_min"))
        return floor + (peak - floor) * math.pow(1 - share, float(schedule.setting("power")))
    if schedule.name == "one-cycle":
        return _one_cycle(schedule, peak, step, job.epochs * steps_per_epoch)
    epoch = step // steps_per_epoch
    if schedule.name == "step":
        drop_count = epoch // int(schedule.setting("step_size"))
    elif schedule.name == "milestones":
        drop_count = sum(epoch >= milestone for milestone in schedule.setting("milestones"))
    elif schedule.name in ("exponential", "plateau"):
        drop_count = epoch if schedule.name == "exponential" else plateaus
    else:
        return peak
    return peak * float(schedule.setting("gamma") ** drop_count)


def _cosine(start_rate: float, end_rate: float, share: float) -> float:
    """Return the value at a share of the way from ``start_rate`` to ``end_rate``."""
    return end_rate + (start_rate - end_rate) * 0.5 * (1 + math.cos(math.pi * share))


def _cycle_share(schedule: Schedule, epochs: float) -> float:
    """Return the share of its cycle that has passed after so many epochs of cycles."""
    length, factor = int(schedule.setting("t_0")), int(schedule.setting("t_mult"))
    while epochs >= length:
        epochs -= length
        length *= factor
    return epochs / length


def _one_cycle(schedule: Schedule, peak: float, step: int, step_count: int) -> float:
    start_rate = peak / float(schedule.setting("div_factor"))
    end_rate = start_rate / float(schedule.setting("final_div_factor"))
    top = float(schedule.setting("pct_start")) * step_count - 1
    if step < top:
        return _cosine(start_rate, peak, step / top)
    return _cosine(peak, end_rate, min(1.0, (step - top) / max(1.0, step_count - 1 - top)))
