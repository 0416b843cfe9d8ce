"""Steps of a rank, reported when all ranks' values are known, and checked by their loss.

A loss, gradient or buffer that is NaN, or a loss that rose and does not come back, ends the job
here: on every rank after the same step, because all of them get the same values.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NoReturn

from backend.base.errors import BackendError
from backend.records.base.number_format import name_list
from backend.records.jobs.config import JobConfig
from backend.records.jobs.metric_names import VALIDATION, name_of_user_metric
from backend.records.jobs.status import (
    BAD_VALIDATION,
    LOSS_DIVERGED,
    LOSS_NOT_A_NUMBER,
    METRICS_LEFT_OUT,
    NOT_A_NUMBER,
    Alarm,
)
from backend.training.alerts import DivergenceWatch
from backend.training.reporter import Step
from backend.training.step_sync import MAX_LATER_METRICS, MetricNames, NotFinite, StepResult
from backend.training.train_state import Rank0Services, TrainState

LOSS = f"{VALIDATION}loss"
_LABELS = {"loss": "loss", "gradient": "norm of the gradient", "buffer": "content of a buffer"}
_ROOT_AT_ZERO = (
    "Look in the loss for a root, a norm or a logarithm at 0, whose slope is infinite, and resume "
    "with a corrected model; or resume with a lower learning rate."
)
_LOWER_RATE = (
    "Resume the job, or clone it if it has no checkpoint, with a lower learning rate; or clone it "
    "with gradient clipping."
)


class BadLoss(BackendError):
    """The loss ended the run; every rank raises this after the same step.

    Attributes:
        rank: The rank of the loss.
        sound_step: The last step with good weights, according to the losses.
    """

    def __init__(self, message: str, remedy: str, sound_step: int, rank: int = 0) -> None:
        super().__init__(message, remedy)
        self.sound_step = sound_step
        self.rank = rank


class NotANumber(BadLoss):
    """A number is not finite: the loss of ``rank``, the gradient, or a number in a checkpoint."""

    cause = LOSS_NOT_A_NUMBER


class Diverged(BadLoss):
    """The loss rose and did not come back."""

    cause = LOSS_DIVERGED


@dataclass
class PendingStep:
    """Data of a step until its result is known."""

    step: int
    epoch: int
    epoch_step: int
    learning_rate: float
    seconds: float
    is_clipped: bool
    strategy_metrics: Mapping[str, float] = field(default_factory=dict)
    """The figures of the strategy."""


class StepRecorder:
    """Recorder of steps, in order.

    Attributes:
        pending_steps: The steps whose results are not known yet, oldest first; the loop appends.
    """

    def __init__(
        self,
        config: JobConfig,
        train_state: TrainState,
        rank0_services: Rank0Services | None,
        global_batch: int,
    ) -> None:
        self._config = config
        self._train_state = train_state
        self._rank0_services = rank0_services
        self._global_batch = global_batch
        self.pending_steps: deque[PendingStep] = deque()
        self._held_result: tuple[float, StepResult | None] = (math.nan, None)
        self._divergence = DivergenceWatch()
        self._nan_alarm: Alarm | None = None
        self._skipped_steps = 0
        self._known_names = {"": MetricNames(), VALIDATION: MetricNames()}

    def commit(self, step_result: StepResult, hold: bool) -> None:
        """Report a step's values, which are now known, and end the job if they are NaN.

        Args:
            hold: Keep the step back until `release`, as the last step of an epoch.
        """
        pending_step = self.pending_steps.popleft()
        not_finite = step_result.not_finite
        if self._rank0_services is not None:
            metrics = {"loss": step_result.loss, "learning_rate": pending_step.learning_rate}
            if pending_step.is_clipped:
                metrics["gradient_norm"] = step_result.norm
            metrics["samples_per_second"] = self._global_batch / pending_step.seconds
            metrics.update(pending_step.strategy_metrics)
            user_metrics = {
                name_of_user_metric(name): value for name, value in step_result.metrics.items()
            }
            metrics.update(self._admit_metrics("", user_metrics, pending_step.step))
            if hold:
                self._train_state.held_metrics = metrics
                self._held_result = pending_step.seconds, step_result
            else:
                self._train_state.last_metrics = metrics
                self._rank0_services.reporter.add_step(
                    Step(
                        pending_step.step,
                        pending_step.epoch,
                        pending_step.epoch_step,
                        metrics,
                        pending_step.seconds,
                        step_result.rank_step_ms,
                        step_result.rank_steps,
                    )
                )
        if not_finite is not None:
            self._report_not_finite(pending_step, not_finite)
        else:
            self._check_divergence(pending_step, step_result.loss)

    def release(self, validation: Mapping[str, float]) -> None:
        """Report the step that was kept back, with the values of the validation."""
        train_state, config = self._train_state, self._config
        metrics, train_state.held_metrics = train_state.held_metrics, None
        if metrics is None and validation:
            # Too few samples were left of the epoch for a step, after a resume with another batch.
            metrics = train_state.last_metrics or {}
        watched_metrics = {LOSS, config.checkpoint.best_metric}
        watched_metrics |= {config.early_stop.metric} if config.early_stop is not None else set()
        bad_names = [name for name, value in validation.items() if not math.isfinite(value)]
        bad_names = [name for name in bad_names if name in watched_metrics]
        if self._rank0_services is not None and bad_names:
            step = train_state.step
            message = f"The validation after step {step} gave NaN for {name_list(bad_names)}."
            self._rank0_services.reporter.add_alarm(Alarm(BAD_VALIDATION, step, message))
        if self._rank0_services is None or metrics is None:
            return
        validation = self._admit_metrics(VALIDATION, validation, train_state.step)
        seconds, result = self._held_result
        self._rank0_services.reporter.add_step(
            Step(
                train_state.step,
                train_state.epoch,
                train_state.epoch_step,
                {**metrics, **validation},
                seconds,
                result.rank_step_ms if result is not None else (),
                result.rank_steps if result is not None else (),
            )
        )

    def _admit_metrics(
        self, kind: str, metrics: Mapping[str, float], step: int
    ) -> Mapping[str, float]:
        """Return the metrics that get a curve; of later names, only a limited number."""
        assert self._rank0_services is not None
        known_names = self._known_names[kind]
        was_full = known_names.is_full
        excess_names = known_names.add(metrics)
        if excess_names and not was_full:
            message = (
                f"The model returned more than {MAX_LATER_METRICS} new names of metrics after the "
                f"first step; {name_list(excess_names)} and later ones are not recorded. Use the "
                "same names in each step and epoch."
            )
            self._rank0_services.reporter.add_alarm(Alarm(METRICS_LEFT_OUT, step, message))
        return {name: value for name, value in metrics.items() if name not in excess_names}

    def _report_not_finite(self, pending_step: PendingStep, not_finite: NotFinite) -> None:
        value = "NaN" if math.isnan(not_finite.value) else "infinite"
        owner = f" of rank {not_finite.rank}" if not_finite.is_of_rank else ""
        message = (
            f"The {_LABELS[not_finite.kind]}{owner} became {value} at step {pending_step.step}"
        )
        # The next step of L-BFGS would begin at the same point.
        is_fatal = self._config.stop_on_nan or self._config.strategy.has_coordinator
        if self._rank0_services is not None:
            first_alarm = self._nan_alarm or Alarm(NOT_A_NUMBER, pending_step.step, message)
            self._nan_alarm = first_alarm
            skipped_clause = ""
            if not is_fatal:
                self._skipped_steps += 1
                verb_phrase = "step was" if self._skipped_steps == 1 else "steps were"
                skipped_clause = f"; {self._skipped_steps} {verb_phrase} left out"
            self._rank0_services.reporter.add_alarm(
                replace(first_alarm, message=f"{first_alarm.message}{skipped_clause}.")
            )
        if is_fatal:
            self.release({})
            hint = _ROOT_AT_ZERO if not_finite.kind == "gradient" else _LOWER_RATE
            self.fail(f"{message} (epoch {pending_step.epoch}).", not_finite.rank, hint)

    def fail(self, message: str, rank: int = 0, hint: str = "") -> NoReturn:
        """End the job because a number is not finite; all ranks call this."""
        remedy = f"{self._resume_hint('')} {hint or _LOWER_RATE}".strip()
        raise NotANumber(message, remedy, self._divergence.sound_step, rank)

    def _check_divergence(self, pending_step: PendingStep, loss: float) -> None:
        alarm = self._divergence.add(pending_step.step, loss)
        if self._rank0_services is not None:
            self._rank0_services.checkpointer.sound_step = self._divergence.sound_step
            if alarm is not None:
                self._rank0_services.reporter.add_alarm(alarm)
        if alarm is None or not self._config.stop_on_divergence:
            return
        self.release({})
        checkpoint_hint = self._resume_hint("No checkpoint was saved before the rise.")
        raise Diverged(
            alarm.message, f"{checkpoint_hint} {_LOWER_RATE}", self._divergence.sound_step
        )

    def _resume_hint(self, default: str) -> str:
        """Return a hint with the checkpoint at which a resume begins; ``default`` without one."""
        if self._rank0_services is None:
            return default
        self._rank0_services.checkpointer.wait()
        checkpoint = self._rank0_services.checkpointer.newest_sound_checkpoint()
        if checkpoint is None:
            return default
        return (
            f"Resume continues from the last good checkpoint: epoch {checkpoint.epoch}, step "
            f"{checkpoint.step}."
        )
