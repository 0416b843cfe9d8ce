"""Steps of a rank: reported when all ranks' values are known, and checked by their loss.

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
from backend.records.jobs.alarm import BAD_VALIDATION, METRICS_LEFT_OUT, NOT_A_NUMBER, Alarm
from backend.records.jobs.config import JobConfig
from backend.records.jobs.diagnosis import LOSS_DIVERGED, LOSS_NOT_A_NUMBER
from backend.records.jobs.metric_names import VALIDATION, name_of_user_metric
from backend.training.alerts import DivergenceWatch
from backend.training.reporter import Step
from backend.training.step_sync import MOST_LATER, KnownNames, NotFinite, StepResult
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
    """The loss ended the run; every rank raises it after the same step.

    Attributes:
        rank: The one whose loss it is.
        sound_step: Up to this step the weights are good, according to the losses.
    """

    def __init__(self, sentence: str, remedy: str, sound_step: int, rank: int = 0) -> None:
        super().__init__(sentence, remedy)
        self.sound_step = sound_step
        self.rank = rank


class NotANumber(BadLoss):
    """A number is not finite: the loss of ``rank``, the gradient, or one in a checkpoint."""

    cause = LOSS_NOT_A_NUMBER


class Diverged(BadLoss):
    """The loss rose and did not come back."""

    cause = LOSS_DIVERGED


@dataclass
class PendingStep:
    """The data of a step until its result is known."""

    step: int
    epoch: int
    epoch_step: int
    learning_rate: float
    seconds: float
    clipped: bool
    own_metrics: Mapping[str, float] = field(default_factory=dict)
    """Of the strategy."""


class StepRecorder:
    """Completes steps in order.

    Attributes:
        facts: Of the steps whose results are not known yet, oldest first; the loop appends to it.
    """

    def __init__(
        self,
        config: JobConfig,
        train_state: TrainState,
        workers: Rank0Services | None,
        global_batch: int,
    ) -> None:
        self._config = config
        self._train_state = train_state
        self._workers = workers
        self._global_batch = global_batch
        self.facts: deque[PendingStep] = deque()
        self._held: tuple[float, StepResult | None] = (math.nan, None)
        self._divergence = DivergenceWatch()
        self._no_number: Alarm | None = None
        self._left_out = 0
        self._names = {"": KnownNames(), VALIDATION: KnownNames()}

    def commit(self, step_result: StepResult, hold: bool) -> None:
        """Report a step's values, which are now known, and end the job if they are NaN.

        Args:
            hold: It is an epoch's last step, and is kept back until `release`.
        """
        facts = self.facts.popleft()
        fault = step_result.fault
        if self._workers is not None:
            metrics = {"loss": step_result.loss, "learning_rate": facts.learning_rate}
            if facts.clipped:
                metrics["gradient_norm"] = step_result.norm
            metrics["samples_per_second"] = self._global_batch / facts.seconds
            metrics.update(facts.own_metrics)
            own = {name_of_user_metric(name): value for name, value in step_result.metrics.items()}
            metrics.update(self._admitted("", own, facts.step))
            if hold:
                self._train_state.held = metrics
                self._held = facts.seconds, step_result
            else:
                self._train_state.last = metrics
                self._workers.reporter.step(
                    Step(
                        facts.step,
                        facts.epoch,
                        facts.epoch_step,
                        metrics,
                        facts.seconds,
                        step_result.rank_step_ms,
                        step_result.rank_steps,
                    )
                )
        if fault is not None:
            self._report_no_number(facts, fault)
        else:
            self._watch_divergence(facts, step_result.loss)

    def release(self, validation: Mapping[str, float]) -> None:
        """Report the step that was kept back, with the values of the validation."""
        train_state, config = self._train_state, self._config
        held, train_state.held = train_state.held, None
        if held is None and validation:
            # Too few samples were left of the epoch for a step, after a resume with another batch.
            held = train_state.last or {}
        watched = {LOSS, config.checkpoint.best_metric}
        watched |= {config.early_stop.metric} if config.early_stop is not None else set()
        bad = [name for name, value in validation.items() if not math.isfinite(value)]
        if self._workers is not None and (names := [name for name in bad if name in watched]):
            sentence = (
                f"The validation after step {train_state.step} gave NaN for {name_list(names)}."
            )
            self._workers.reporter.alarm(Alarm(BAD_VALIDATION, train_state.step, sentence))
        if self._workers is None or held is None:
            return
        validation = self._admitted(VALIDATION, validation, train_state.step)
        seconds, result = self._held
        self._workers.reporter.step(
            Step(
                train_state.step,
                train_state.epoch,
                train_state.epoch_step,
                {**held, **validation},
                seconds,
                result.rank_step_ms if result is not None else (),
                result.rank_steps if result is not None else (),
            )
        )

    def _admitted(self, kind: str, metrics: Mapping[str, float], step: int) -> Mapping[str, float]:
        """Return the metrics that get a curve: of names that come later, only some."""
        assert self._workers is not None
        known = self._names[kind]
        was_full = known.is_full
        left_out = known.add(metrics)
        if left_out and not was_full:
            sentence = (
                f"The model returned more than {MOST_LATER} new names of metrics after the first "
                f"step; {name_list(left_out)} and later ones are not recorded. Use the same names in "
                "each step and epoch."
            )
            self._workers.reporter.alarm(Alarm(METRICS_LEFT_OUT, step, sentence))
        return {name: value for name, value in metrics.items() if name not in left_out}

    def _report_no_number(self, facts: PendingStep, fault: NotFinite) -> None:
        value = "NaN" if math.isnan(fault.value) else "infinite"
        owner = f" of rank {fault.rank}" if fault.is_of_rank else ""
        sentence = f"The {_LABELS[fault.kind]}{owner} became {value} at step {facts.step}"
        # The next step of L-BFGS would begin at the same point.
        ends = self._config.stop_on_nan or self._config.strategy.has_coordinator
        if self._workers is not None:
            first = self._no_number or Alarm(NOT_A_NUMBER, facts.step, sentence)
            self._no_number = first
            left_out = ""
            if not ends:
                self._left_out += 1
                many = "step was" if self._left_out == 1 else "steps were"
                left_out = f"; {self._left_out} {many} left out"
            self._workers.reporter.alarm(replace(first, message=f"{first.message}{left_out}."))
        if ends:
            self.release({})
            hint = _ROOT_AT_ZERO if fault.kind == "gradient" else _LOWER_RATE
            self.end(f"{sentence} (epoch {facts.epoch}).", fault.rank, hint)

    def end(self, sentence: str, rank: int = 0, hint: str = "") -> NoReturn:
        """End the job because a number is not finite; all ranks call this."""
        remedy = f"{self._last_good('')} {hint or _LOWER_RATE}".strip()
        raise NotANumber(sentence, remedy, self._divergence.sound_step, rank)

    def _watch_divergence(self, facts: PendingStep, loss: float) -> None:
        alarm = self._divergence.see(facts.step, loss)
        if self._workers is not None:
            self._workers.checkpointer.sound_step = self._divergence.sound_step
            if alarm is not None:
                self._workers.reporter.alarm(alarm)
        if alarm is None or not self._config.stop_on_divergence:
            return
        self.release({})
        saved = self._last_good("No checkpoint was saved before the rise.")
        raise Diverged(alarm.message, f"{saved} {_LOWER_RATE}", self._divergence.sound_step)

    def _last_good(self, otherwise: str) -> str:
        """Return where a resume begins, as a sentence."""
        if self._workers is None:
            return otherwise
        self._workers.checkpointer.wait()
        found = self._workers.checkpointer.newest_sound()
        if found is None:
            return otherwise
        return (
            f"Resume continues from the last good checkpoint: epoch {found.epoch}, step "
            f"{found.step}."
        )
