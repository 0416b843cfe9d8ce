"""Training loop: epochs, steps, evaluations and checkpoints, the same on every rank.

Every decision for all ranks (a stop, a checkpoint by time, an early end, a loss that is NaN) comes
from values that are equal on every rank: the sync vector that was reduced with the gradients, or
sums over all ranks. No rank acts on local knowledge.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch

from backend.records.base.number_format import name_list
from backend.records.jobs.config import JobConfig
from backend.records.jobs.heartbeat import Phase, RankHeartbeat
from backend.records.jobs.launch import Launch
from backend.records.jobs.lr_schedule import learning_rate
from backend.records.jobs.state import JobState
from backend.training import user_code
from backend.training.batch_norm import synchronize_norms
from backend.training.checkpoint_content import (
    freeze,
    frozen_names,
    input_form,
    random_state,
    rank_buffers,
    restore_buffers,
    restore_random_state,
    training_states,
)
from backend.training.data import (
    TrainingOrder,
    ValidationOrder,
    make_loader,
    mixed_seed,
    seed_everything,
)
from backend.training.evaluation import Evaluation, precision, set_precision
from backend.training.finite import BufferWatch
from backend.training.fixed_samples import AnswerReader
from backend.training.lazy_dynamo import compile_model
from backend.training.optimizer import (
    WeightAverage,
    grouped_parameters,
    load_optimizer,
    make_optimizer,
    parameters_by_name,
    set_rate,
    trained_parameters,
)
from backend.training.run_progress import RunProgress
from backend.training.step_recorder import PendingStep
from backend.training.step_sync import StepResult, StepSync, mean_metrics
from backend.training.step_times import CpuWait, RankStep
from backend.training.strategies.allreduce import AveragedGradients
from backend.training.strategies.base import (
    ForwardPass,
    Strategy,
    optimized_names,
    trainable_parameters,
)
from backend.training.strategies.local_steps import LocalSteps, Periods
from backend.training.subject import Subject, collect_traits, open_subject, require_same_traits
from backend.training.train_state import Batch, Outcome, Rank0Services, TrainState

LOSS_LIMIT_S = 60.0
"""Longest training without a checkpoint before a validation, in case the validation fails."""


@dataclass
class Trainer:
    """One rank's training, from an open strategy to the last checkpoint."""

    launch: Launch
    strategy: Strategy
    device: torch.device
    beat: RankHeartbeat
    rank0_services: Rank0Services | None
    batch: Batch = field(default_factory=Batch)

    def __post_init__(self) -> None:
        self._progress = RunProgress(self.launch, self.beat, self.rank0_services, self._gather)

    @property
    def config(self) -> JobConfig:
        return self.launch.config

    @property
    def train_state(self) -> TrainState:
        return self._progress.state

    def run(self) -> Outcome:
        self._set_up()
        outcome = self._train()
        # No phase follows: Horovod's shutdown also waits for the others.
        self._progress.finish_writing()
        # The loaders' workers end with their iterators; in torch's atexit each may take 5 s.
        del self._loader, self._evaluation
        return outcome

    # --- set-up ---------------------------------------------------------------------------------

    def _set_up(self) -> None:
        config = self.config
        self.beat.beat(Phase.SETUP)
        set_precision(self.device, config.precision)
        subject = open_subject(self.launch, self.device, self.strategy.rank, self.beat)
        self._model = subject.model
        own_traits, *other_traits = self._gather(collect_traits(subject, self.launch, self.device))
        for other_rank, rank_traits in enumerate(other_traits, 1):
            require_same_traits(own_traits, rank_traits, other_rank, self.launch)
        self._make_loaders(subject)
        self._state_shapes = user_code.state_shapes(self._model)
        self._optimizer = make_optimizer(config, self._model, trained_parameters(self._model))
        self._scaler = torch.amp.GradScaler(self.device.type, enabled=config.precision == "float16")
        self._is_adopted = False
        # The names of all parameters trained until now, and the names that were reported.
        self._trained_names = dict.fromkeys(optimized_names(self._model, self._optimizer))
        self._reported_names: set[str] = set()
        # Parameters that the model wants to train, and that the ranks have not agreed on.
        self._thawed_parameters: list[torch.nn.Parameter] = []
        self._step_times = RankStep()
        self._cpu_wait = CpuWait(torch.get_num_threads())
        self._rank_state: dict[str, Any] | None = None
        self._averaged_state: dict[str, Any] | None = None
        self._saved_periods: dict[str, Any] | None = None
        self._user_dataset = subject.training.user_dataset
        self._input_form: dict[str, Any] | None = None
        self._saved_random: dict[str, Any] | None = None
        self._progress.open(subject, self._restore)
        self._share_model()
        self.beat.beat(Phase.SETUP)
        evaluation_batch_s = self._rehearse_validation()
        self._order.seek(
            self.train_state.epoch, self.train_state.position, self.train_state.done_spans
        )
        self._progress.plan(
            remaining_steps=self._order.remaining_steps,
            steps_per_epoch=self._order.steps_per_epoch,
            evaluation_batches=self._evaluation.max_batch_count if self._evaluation else 0,
            evaluation_batch_s=evaluation_batch_s,
            step_samples=self._order.global_batch,
        )

    def _make_loaders(self, subject: Subject) -> None:
        config, strategy = self.config, self.strategy
        training, validation, is_split = subject.training, subject.validation, strategy.is_split
        shard = (0, 1) if is_split else (strategy.rank, strategy.world_size)
        sizes = len(training), config.batch_size
        self._order = TrainingOrder(
            *sizes, *shard, config.seed, config.accumulate, training.weights()
        )
        on_gpu = self.device.type == "cuda"
        self._loader = make_loader(training, self._order, config.loader_workers, on_gpu, is_split)
        self._evaluation: Evaluation | None = None
        if validation is not None:
            order = ValidationOrder(len(validation), config.batch_size, *shard)
            self._evaluation = Evaluation(
                make_loader(validation, order, config.loader_workers, on_gpu, is_split),
                *(order, strategy, self.device, self.beat, self.batch, config.precision),
                AnswerReader(order, len(validation)) if config.follow_samples else None,
            )

    def _share_model(self) -> None:
        """Make the model the same on all ranks, and prepare its passes."""
        config = self.config
        self.beat.beat(Phase.WAITING_FOR_OTHERS)
        self.strategy.share_model(self._model)
        self._optimizer = self.strategy.shard(
            self._model, self._optimizer, partial(make_optimizer, config, self._model)
        )
        self._weight_average: WeightAverage | None = None
        if config.ema is not None:
            self._weight_average = WeightAverage(self._model, config.ema)
            if self._averaged_state is not None:
                self._weight_average.load(self._averaged_state)
                self._averaged_state = None
        self._periods: Periods | None = None
        if isinstance(self.strategy, LocalSteps):
            self._periods = Periods(config.strategy, self.strategy, self._saved_periods)
        if config.strategy.settings.get("sync_batch_norm") and isinstance(
            self.strategy, AveragedGradients
        ):
            synchronize_norms(self._model, self.strategy)
        if config.compile:
            compile_model(self._model)
        self._buffers = BufferWatch(
            self._model, self.device, may_restore=not self.config.stop_on_nan
        )
        self._forward_pass = ForwardPass(self._model)
        self._forward = self.strategy.parallel(self._forward_pass)

    def _rehearse_validation(self) -> float | None:
        """Try the validation before the first step: after an epoch its errors would cost hours.

        Return the seconds of one of its batches.
        """
        batch_s = None
        if self._evaluation is not None:
            saved_random = random_state(self.device)
            batch_s = self._evaluation.rehearse(self._model)
            restore_random_state(saved_random, self.device)
        if self.launch.steps_limit:
            self._evaluation = None
        return batch_s

    def _restore(self, state: dict[str, Any]) -> None:
        if "optimized" in state:
            # Older checkpoints have the parameters in the model's order.
            self._trained_names = {}
            self._optimize(state["optimized"])
        load_optimizer(self._optimizer, state["optimizer"], self.config)
        if state["scaler"]:
            self._scaler.load_state_dict(state["scaler"])
        if "trained" in state:
            self._averaged_state = state["model"]
        self._saved_periods = state.get("periods")
        self.strategy.load_own_state(state.get("strategy", {}))
        ranks = state["ranks"]
        is_same_size = len(ranks) == self.strategy.world_size
        rank_state = ranks[self.strategy.rank if is_same_size else 0]
        if "frozen" in rank_state:
            freeze(self._model, rank_state["frozen"])
        if is_same_size:
            self._rank_state = rank_state
        else:
            # Another number of ranks: they continue with new random numbers.
            seed_everything(
                mixed_seed(
                    self.config.seed,
                    self.strategy.rank,
                    self.strategy.world_size,
                    self.train_state.step,
                )
            )

    # --- training ------------------------------------------------------------------------------

    def _train(self) -> Outcome:
        stop = self._any_rank(self._progress.stop_is_requested)
        if self._rank_state is not None:
            restore_random_state(self._rank_state["random"], self.device)
            restore_buffers(self._model, self._rank_state["buffers"])
        return self._progress.make_epochs(self._epoch, self._save, stop)

    def _epoch(self) -> bool:
        """Train the rest of the current epoch; return True if the ranks agreed to stop in it."""
        train_state, config = self.train_state, self.config
        self._order.seek(train_state.epoch, train_state.position, train_state.done_spans)
        self._model.train()
        self._progress.begin_epoch(self._evaluation is not None)
        steps = min(
            self._order.remaining_steps, self.launch.steps_limit or self._order.remaining_steps
        )
        # The schedule's step from the position, which is valid for any number of ranks.
        schedule_step = (train_state.epoch - 1) * self._order.steps_per_epoch
        schedule_step += train_state.position // self._order.global_batch
        commit = self._progress.step_recorder.commit
        batches: Iterator[Any] = iter(self._loader)
        started_s = time.perf_counter()
        for number in range(steps):
            rate = learning_rate(
                config,
                self._order.steps_per_epoch,
                schedule_step + number,
                self.launch.lr_factor,
                train_state.plateaus,
            )
            is_last = number == steps - 1
            step_results = self._step(batches, rate, started_s, is_last=is_last)
            started_s = time.perf_counter()
            train_state.epoch_step += 1
            train_state.position += self._order.global_batch
            train_state.step += 1
            if is_last:
                step_results += self._read_results(True)
            stop = save = False
            for step_result in step_results:
                stop |= step_result.stop
                save |= step_result.save
                commit(step_result, hold=is_last and step_result is step_results[-1])
            step_interval = config.checkpoint.every_steps
            if step_interval is not None and train_state.step % step_interval == 0:
                save = True
            if stop or (save and not is_last):
                for step_result in self._read_results(True):
                    commit(step_result, hold=False)
            if stop:
                return True
            if save and not is_last:
                self._save("policy")
                self._progress.report(JobState.TRAINING)
                started_s = time.perf_counter()
            elif save:
                self._save_at_end = True
        del batches
        return self._end_epoch()

    _save_at_end = False

    def _load_batch(self, batches: Iterator[Any]) -> tuple[Any, Any]:
        self.beat.beat(Phase.LOADING_DATA)
        self.batch.stage = "loader"
        batch: tuple[Any, Any] = user_code.split_batch(next(batches))
        self.beat.beat(Phase.COMPUTING)
        return batch

    def _compute_loss(self, data: Any, target: Any) -> tuple[torch.Tensor, dict[str, float]]:
        """Return loss and metrics of a batch."""
        if self.device.type == "cuda":
            data = user_code.to_device(data, self.device)
            target = user_code.to_device(target, self.device)
        self.batch.data, self.batch.target, self.batch.stage = data, target, "forward"
        with precision(self.device, self.config.precision):
            loss = self._forward(data, target)
        output = self._forward_pass.output
        if output is None:
            return loss, {}
        return loss, user_code.compute_metrics(self._model, output, target)

    def _make_passes(
        self, batch: tuple[Any, Any], batches: Iterator[Any]
    ) -> tuple[torch.Tensor, torch.Tensor, dict[str, float], float]:
        """Make all passes of a step but the backward pass of the last batch.

        Returns:
            The loss of the last batch as its share of the step's, the mean loss, the mean metrics,
            and the seconds in which later batches were loaded.
        """
        pass_count, loading_s = self.config.accumulate, 0.0
        losses: list[torch.Tensor] = []
        metrics: list[dict[str, float]] = []
        while True:
            loss, batch_metrics = self._compute_loss(*batch)
            if not self._is_adopted:
                self._adopt(batch_metrics)
            if pass_count == 1:
                return loss, loss, batch_metrics, 0.0
            losses.append(loss.detach())
            metrics.append(batch_metrics)
            loss = loss / pass_count
            if len(losses) == pass_count:
                return loss, torch.stack(losses).mean(), mean_metrics(metrics), loading_s
            self.batch.stage = "backward"
            self.strategy.backward(self._scaler.scale(loss), is_last=False)
            start_s = time.perf_counter()
            batch = self._load_batch(batches)
            loading_s += time.perf_counter() - start_s

    def _step(
        self, batches: Iterator[Any], rate: float, started_s: float, *, is_last: bool
    ) -> list[StepResult]:
        """Make one optimizer step; return the known results of this and earlier ones."""
        batch = self._load_batch(batches)
        loaded_s = time.perf_counter()
        self._cpu_wait.begin_step()
        config, strategy = self.config, self.strategy
        strategy.zero()
        for parameter in self._thawed_parameters:
            parameter.grad = None
        self._buffers.save()
        last_loss, loss, metrics, later_loading_s = self._make_passes(batch, batches)
        has_new_parameters = self._has_new_parameters()
        self._step_sync.fill(
            stop=self._progress.stop_is_requested,
            save=self._progress.is_due,
            loss=loss,
            metrics=metrics,
            times=self._step_times,
            wants_parameters=has_new_parameters,
            has_nan_buffer=self._buffers.has_nan(),
        )
        self.batch.stage = "backward"
        strategy.backward(self._scaler.scale(last_loss))
        computed_s = time.perf_counter()
        cpu_wait_ms = self._cpu_wait.end_step()
        self.beat.beat(Phase.WAITING_FOR_OTHERS)
        strategy.reduce()
        if self._step_sync.read_parameter_request():
            self._add_parameters()
        self.beat.beat(Phase.COMPUTING)
        reduced_s = time.perf_counter()
        self._scaler.unscale_(self._optimizer)
        self._step_sync.take_vector(self._clip(), self._is_scaled())
        step_results = self._read_results(not config.stop_on_nan)
        # After a loss or a gradient that is NaN the weights would stay NaN.
        if any(step_result.not_finite is not None for step_result in step_results):
            self._buffers.restore()
            self._scaler.update()
        else:
            set_rate(self._optimizer, rate)
            strategy.step(self._update)
            if self._weight_average is not None:
                self._weight_average.update(self.train_state.step)
        ended_s = time.perf_counter()
        averaging_s = self._end_step(is_last)
        # On a GPU these are times of the CPU, which waits in `reduce` and `_read_results`.
        self._step_times = RankStep(
            (loaded_s - started_s + later_loading_s) * 1e3,
            (computed_s - loaded_s - later_loading_s + ended_s - reduced_s) * 1e3,
            (reduced_s - computed_s + averaging_s) * 1e3,
            cpu_wait_ms,
        )
        train_state = self.train_state
        self._progress.step_recorder.pending_steps.append(
            PendingStep(
                train_state.step + 1,
                train_state.epoch,
                train_state.epoch_step + 1,
                rate,
                ended_s - started_s + averaging_s,
                config.gradient_norm is not None,
                strategy.figures(),
            )
        )
        return step_results

    def _end_step(self, is_last: bool) -> float:
        """Average the ranks if a period of local SGD is over; return the seconds of it."""
        if self._periods is None:
            return 0.0
        start_s = time.perf_counter()
        self.beat.beat(Phase.WAITING_FOR_OTHERS)
        self._periods.end_step(self.train_state.epoch_step + 1, self._optimizer, is_last=is_last)
        self.beat.beat(Phase.COMPUTING)
        return time.perf_counter() - start_s

    def _update(self) -> None:
        self._scaler.step(self._optimizer)
        self._scaler.update()

    def _clip(self) -> torch.Tensor:
        """Return the norm of the reduced gradient, and clip it as torch's clip_grad_norm_ does."""
        limit = self.config.gradient_norm
        norm = self.strategy.gradient_norm()
        if limit is not None:
            self.strategy.scale_gradients((limit / (norm + 1e-6)).clamp(max=1.0))
        return norm

    def _is_scaled(self) -> torch.Tensor | None:
        """Return whether the scaler may lower its scale after a gradient that is not finite."""
        scale = self._scaler._scale if self._scaler.is_enabled() else None
        return scale > 1 if scale is not None else None

    def _adopt(self, metrics: dict[str, float]) -> None:
        """After the first loss: agree on metric names, and lay out sync vector and buckets."""
        user_code.require_same_state(self._model, self._state_shapes)
        self._input_form = input_form(self.batch.data, self._user_dataset)
        rank_names = self._gather((list(metrics), list(trainable_parameters(self._model))))
        size = self.strategy.world_size
        measured_ranks = [size - 1] if self.strategy.is_split else range(size)
        names = (name for names, _ in rank_names for name in names)
        self._step_sync = StepSync(names, self.strategy.rank, size, measured_ranks)
        self._optimize(name for _, names in rank_names for name in names)
        self._set_layout()
        self._is_adopted = True

    def _set_layout(self, *, keeps_values: bool = False) -> None:
        """Lay out sync vector and buckets, for the agreed metrics and parameters."""
        vector = self.strategy.adopt(self._model, self._step_sync.size, self._trained_names)
        self._step_sync.use_vector(vector, keeps_values=keeps_values)
        self._known_ids = {
            id(parameter)
            for parameter in trainable_parameters(self._model, self._trained_names).values()
        }
        self._parameter_count = len(all_parameters(self._model))
        if self._weight_average is not None:
            self._weight_average.use_model(self._model)
        if self._periods is not None:
            self._periods.use_model(self._model, self._trained_names)

    def _optimize(self, names: Iterable[str]) -> None:
        """Optimize these parameters, too, and those that replaced other parameters."""
        self._trained_names |= dict.fromkeys(names)
        previous_optimizer = self._optimizer
        parameters = parameters_by_name(self._model, self._trained_names)
        if list(map(id, parameters)) != list(map(id, grouped_parameters(previous_optimizer))):
            self._optimizer = make_optimizer(self.config, self._model, parameters)
            for parameter in parameters:
                if parameter in previous_optimizer.state:
                    self._optimizer.state[parameter] = previous_optimizer.state[parameter]

    def _has_new_parameters(self) -> bool:
        """Return whether the model has new parameters to train."""
        parameters = all_parameters(self._model)
        self._thawed_parameters = [
            p for p in parameters if p.requires_grad and id(p) not in self._known_ids
        ]
        return bool(self._thawed_parameters) or len(parameters) != self._parameter_count

    def _add_parameters(self) -> None:
        """Agree on the new parameters to train, and average their gradients.

        Raises:
            UserCodeError: A parameter has a new name, so that no checkpoint could be resumed.
        """
        user_code.require_same_state(self._model, self._state_shapes)
        own_names = [
            n
            for n, parameter in trainable_parameters(self._model).items()
            if id(parameter) not in self._known_ids
        ]
        names = dict.fromkeys(name for names in self._gather(own_names) for name in names)
        self.strategy.average_thawed(parameters_by_name(self._model, names))
        self._optimize(names)
        self._set_layout(keeps_values=True)
        if self.rank0_services is not None and names and not names.keys() <= self._reported_names:
            self._reported_names |= names.keys()
            step = self.train_state.step + 1
            sys.stdout.write(
                f"From step {step} on these are trained, too: {name_list(list(names))}\n"
            )

    def _complete(self, result: StepResult) -> StepResult:
        """Exchange the metrics of a step in which a rank had a new metric."""
        rank_metrics = self._gather(dict(result.rank_metrics))
        if self._step_sync.add_metrics(name for metrics in rank_metrics for name in metrics):
            self._set_layout()
        return replace(result, metrics=self._step_sync.mean_metrics(rank_metrics))

    def _read_results(self, is_last: bool) -> list[StepResult]:
        results = self._step_sync.read_results(is_last) if self._is_adopted else []
        return [result if result.is_complete else self._complete(result) for result in results]

    # --- the end of an epoch -------------------------------------------------------------------

    def _end_epoch(self) -> bool:
        values: dict[str, float] = {}
        if self._evaluation is not None:
            if self._saves_before_validation():
                self._save("policy")
            if self.rank0_services is not None:
                self.rank0_services.reporter.begin_evaluation()
            started_s = time.perf_counter()
            self.strategy.share_buffers(self._model)
            # A stop inside the validation is resumed at its beginning, and a loader may draw random
            # numbers for each sample: the checkpoint needs the states from before.
            self._saved_random = random_state(self.device)
            on_batch = (
                self.rank0_services.reporter.add_evaluated_batches
                if self.rank0_services is not None
                else None
            )
            with (
                self._weight_average.apply() if self._weight_average is not None else nullcontext()
            ):
                result = self._evaluation.run(
                    self._model, lambda: self._progress.stop_is_requested, on_batch
                )
            if result is None:
                return True
            self._saved_random = None
            # Adapters that are merged for the evaluation are in the checkpoint by themselves.
            self._model.train()
            values = result
            if self.rank0_services is not None:
                self.rank0_services.reporter.end_evaluation(time.perf_counter() - started_s)
            self._progress.record_samples(self._evaluation.sample_answers)
        is_due, self._save_at_end = self._save_at_end, False
        self._progress.end_epoch(values, is_due, self._save)
        return False

    def _saves_before_validation(self) -> bool:
        """Return whether a failed validation would cost much, as the last checkpoint is old."""
        return self._any_rank(self._progress.is_unsaved_for(LOSS_LIMIT_S))

    # --- stopping and saving -------------------------------------------------------------------

    def _any_rank(self, value: bool) -> bool:
        """Return whether ``value`` is true on any rank; all ranks call this."""
        return any(self._gather(value))

    def _save(self, reason: str, metrics: dict[str, float] | None = None) -> None:
        """Save a checkpoint. Every rank contributes its random state; rank 0 writes."""
        has_failed = self._progress.begin_save()
        random_states = self._saved_random or random_state(self.device)
        user_code.require_same_state(self._model, self._state_shapes)
        if self._periods is not None:
            self._periods.equalize(self._optimizer)
        buffers = rank_buffers(self._model, self.strategy, self._gather)
        rank_state = {
            "random": random_states,
            "buffers": buffers,
            "frozen": frozen_names(self._model),
        }
        ranks, failures = zip(*self._gather((rank_state, has_failed)), strict=True)
        states = training_states(
            *self.strategy.full_state(self._model, self._optimizer),
            optimized_names(self._model, self._optimizer),
            self._scaler,
            self._weight_average,
        )
        if self._input_form is not None:
            states["input"] = self._input_form
        if self._periods is not None:
            states["periods"] = self._periods.state()
        if own_state := self.strategy.own_state():
            states["strategy"] = own_state
        self._progress.save(states, ranks, metrics or {}, reason, has_failed=failures[0])

    def _gather(self, value: Any) -> list[Any]:
        """Collect a value of every rank; the guard sees that this rank waits."""
        _, phase = self.beat.read()
        self.beat.beat(Phase.WAITING_FOR_OTHERS)
        values = self.strategy.gather(value)
        self.beat.beat(phase)
        return values


def all_parameters(model: torch.nn.Module) -> list[torch.nn.Parameter]:
    """Return all parameters, shared parameters several times.

    Made for each step: 4 times as fast as ``model.parameters()``.
    """
    parameters: list[torch.nn.Parameter | None] = []
    modules: list[torch.nn.Module | None] = [model]
    module_ids = set()
    while modules:
        module = modules.pop()
        if module is not None and id(module) not in module_ids:
            module_ids.add(id(module))
            parameters += module._parameters.values()
            modules += module._modules.values()
    return [parameter for parameter in parameters if parameter is not None]
