"""Search for the learning rate: short training whose rate grows exponentially.

After L. N. Smith, *Cyclical Learning Rates for Training Neural Networks* (arXiv 1506.01186, section
3.3).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch

from backend.records.jobs.heartbeat import RankHeartbeat
from backend.records.jobs.launch import Launch
from backend.records.jobs.rate_search import RateSearch, RateStep
from backend.training import user_code
from backend.training.data import TrainingOrder, make_loader
from backend.training.evaluation import precision
from backend.training.optimizer import make_optimizer, set_rate, trained_parameters
from backend.training.subject import open_subject

STEP_COUNT = 100
FIRST_RATE, LAST_RATE = 1e-6, 10.0
_SMOOTHING = 0.9
_MIN_STEPS = 10
_DIVERGENCE_FACTOR = 4.0
"""Factor between the smooth loss and the lowest loss at which the search ends."""


def find_rate(launch: Launch, on_step: Callable[[int], None] = lambda step: None) -> RateSearch:
    """Make the steps in this process, on the CPU, with the job's batch size and optimizer."""
    config = launch.config
    device = torch.device("cpu")
    subject = open_subject(launch, device, 0, RankHeartbeat.inherited())
    model = subject.model
    parameters = trained_parameters(model)
    optimizer = make_optimizer(config, model, parameters)
    size = min(config.batch_size, len(subject.training))
    order = TrainingOrder(
        len(subject.training), size, 0, 1, config.seed, weights=subject.training.weights()
    )
    batches = _endless_batches(
        order, make_loader(subject.training, order, config.loader_workers, on_gpu=False)
    )
    model.train()
    steps: list[RateStep] = []
    mean_loss, lowest_loss = 0.0, math.inf
    for step in range(STEP_COUNT):
        on_step(step + 1)
        rate = FIRST_RATE * (LAST_RATE / FIRST_RATE) ** (step / (STEP_COUNT - 1))
        data, target = user_code.split_batch(next(batches))
        optimizer.zero_grad()
        # Half precision needs a GPU; the rate is found with 32 bits.
        with precision(device, config.precision if config.precision == "bfloat16" else "float32"):
            output = user_code.compute_output(model, data)
            loss = user_code.compute_loss(model, output, target)
        value = float(loss.detach())
        mean_loss = _SMOOTHING * mean_loss + (1 - _SMOOTHING) * value
        smooth_loss = mean_loss / (1 - _SMOOTHING ** (step + 1))
        steps.append(RateStep(rate, value, smooth_loss))
        has_diverged = step >= _MIN_STEPS and smooth_loss > _DIVERGENCE_FACTOR * lowest_loss
        if has_diverged or not math.isfinite(smooth_loss):
            break
        lowest_loss = min(lowest_loss, smooth_loss)
        torch.autograd.backward(loss)
        if config.gradient_norm is not None:
            torch.nn.utils.clip_grad_norm_(parameters, config.gradient_norm)
        set_rate(optimizer, rate)
        optimizer.step()
    finite_steps = [step for step in steps if step.loss is not None and math.isfinite(step.loss)]
    return RateSearch(tuple(map(_without_infinity, steps)), propose_rate(finite_steps))


def _endless_batches(order: TrainingOrder, batches: Any) -> Iterator[Any]:
    epoch = 0
    while True:
        epoch += 1
        order.seek(epoch, 0)
        yield from batches


def _without_infinity(step: RateStep) -> RateStep:
    loss, smooth_loss = (
        value if value is not None and math.isfinite(value) else None
        for value in (step.loss, step.smooth_loss)
    )
    return replace(step, loss=loss, smooth_loss=smooth_loss)


def propose_rate(steps: Sequence[RateStep]) -> float | None:
    """Return a tenth of the rate with the lowest smooth loss, rounded to one digit.

    At the lowest loss itself the rate is about to diverge. The tenth is the rule that fastai calls
    "minimum". None if the loss never falls below that of the first steps, whose rates are too small
    to change it.
    """
    losses = [step.smooth_loss for step in steps if step.smooth_loss is not None]
    first_losses, later_losses = losses[:_MIN_STEPS], losses[_MIN_STEPS:]
    if not later_losses or min(later_losses) >= min(first_losses):
        return None
    lowest_index = losses.index(min(later_losses), _MIN_STEPS)
    return float(f"{steps[lowest_index].rate / 10:.0e}")
