"""Rank 0 of a job with a server or a coordinator, which leads the workers through the epochs.

Each worker has a thread here, which answers one message at a time: the worker requests work, and
gets a task or its share of the validation. A subclass trains; the main thread makes epochs,
validations, checkpoints and the end.
"""

from __future__ import annotations

import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import torch

from backend.base.errors import BackendError
from backend.base.log import swallowed
from backend.records.base.number_format import name_list
from backend.records.jobs.heartbeat import Phase, RankHeartbeat
from backend.records.jobs.launch import Launch
from backend.records.jobs.status import NOT_TRAINED, Alarm
from backend.training.checkpoint_content import restore_buffers, training_states
from backend.training.data import ValidationOrder
from backend.training.evaluation import BatchValues, answers_of, average_values
from backend.training.lbfgs import Lbfgs
from backend.training.optimizer import load_optimizer, served_parameters
from backend.training.parameter_server import sent_parameters
from backend.training.portion_queue import PortionQueue
from backend.training.run_progress import RunProgress
from backend.training.step_recorder import PendingStep
from backend.training.step_sync import StepResult
from backend.training.strategies.base import optimized_names
from backend.training.strategies.channel import Channel, PeerLost
from backend.training.strategies.rendezvous import Rendezvous
from backend.training.subject import collect_traits, open_subject, require_same_traits
from backend.training.train_state import Batch, Outcome, Rank0Services, TrainState

POLL_S = 0.1
_WAIT_S = 5.0
"""Interval in which a worker without a task asks again, so that its guard sees that it lives."""


class WorkersLost(BackendError):
    """All workers are lost. Each has recorded its own reason, so this error is an echo."""


class Leader(ABC):
    """Rank 0 of a job with workers; subclasses train."""

    def __init__(
        self,
        launch: Launch,
        rendezvous: Rendezvous,
        beat: RankHeartbeat,
        services: Rank0Services,
    ) -> None:
        self.batch = Batch()
        self._launch = launch
        self._config = launch.config
        self._rendezvous = rendezvous
        self._beat = beat
        self._services = services
        self._progress = RunProgress(launch, beat, services)
        self._workers = range(launch.config.strategy.servers, rendezvous.world_size)
        self._channels: dict[int, Channel] = {}
        # Everything below is shared with the workers' threads, under the condition's lock.
        self._condition = threading.Condition()
        self._live_workers: set[int] = set()
        self._idle_workers: set[int] = set()
        self._is_paused = False
        self._is_finished: bool | None = None
        self._validation_queue = PortionQueue(0)
        self._validation_batches: list[list[int]] = []
        self._values: list[tuple[int, BatchValues]] = []
        self._state_requests: set[int] = set()
        self._states: dict[int, Any] = {}
        self._saved_states: dict[int, Any] = {}
        self._buffers: dict[int, dict[str, torch.Tensor]] = {}
        self._step_ms: dict[int, float] = {}
        self._lost_texts: list[str] = []
        self._failure: BaseException | None = None
        self._held_step: tuple[PendingStep, StepResult] | None = None
        other_failure = services.reporter.other_failure
        services.reporter.other_failure = lambda: " ".join(
            [other_failure(), *self._lost_texts]
        ).strip()

    @property
    def _state(self) -> TrainState:
        return self._progress.state

    # --- what a strategy adds ------------------------------------------------------------------

    @abstractmethod
    def _open(self) -> torch.optim.Optimizer | Lbfgs:
        """Prepare to train the model; return the optimizer, whose state is in checkpoints."""

    @property
    @abstractmethod
    def _steps_per_epoch(self) -> int: ...

    @property
    def _epoch_steps(self) -> int:
        """Number of finished steps of the current epoch."""
        return self._state.epoch_step

    @property
    @abstractmethod
    def _step_samples(self) -> int:
        """Number of samples of one step."""

    @abstractmethod
    def _epoch(self) -> bool:
        """Let the workers train on the rest of the epoch; return whether to stop."""

    @abstractmethod
    def _next_task(self, worker: int) -> dict[str, Any] | None:
        """Return a task of training; None without a task at the moment."""

    @abstractmethod
    def _parameters_for(self, worker: int) -> tuple[bytes, list[torch.Tensor]]:
        """Return flags and values of the parameters for a task; empty if the worker has them."""

    @abstractmethod
    def _rank_states(self) -> list[Any]:
        """Return the state of each worker for a checkpoint."""

    def _restore(self, saved_state: dict[str, Any]) -> None:
        """Restore the rest of a checkpoint, after model and `_state`."""
        state = saved_state["optimizer"]
        groups = self._optimizer.state_dict()["param_groups"]
        for group, own_group in zip(state["param_groups"], groups, strict=True):
            # Older checkpoints have only the parameters trained from the start: the first.
            group["params"] = own_group["params"]
        load_optimizer(self._optimizer, state, self._config)

    # --- the job -------------------------------------------------------------------------------

    def run(self) -> Outcome:
        self._set_up()
        outcome = self._progress.make_epochs(lambda: self._epoch() or self._end_epoch(), self._save)
        self._end(outcome)
        return outcome

    def _set_up(self) -> None:
        config = self._config
        # First: a worker that is lost while it loads its data is noticed.
        self._beat.beat(Phase.WAITING_FOR_OTHERS)
        self._connect()
        self._beat.beat(Phase.SETUP)
        subject = open_subject(self._launch, torch.device("cpu"), 0, self._beat)
        self._model = subject.model
        self._traits = collect_traits(subject, self._launch, torch.device("cpu"))
        self._sizes = self._traits[0]
        self._validation = ValidationOrder(self._sizes[1], config.batch_size, 0, 1)
        checkpoints: list[dict[str, Any]] = []
        self._progress.open(subject, checkpoints.append)
        self._parameters = served_parameters(self._model)
        self._optimizer = self._open()
        for checkpoint in checkpoints:
            self._restore(checkpoint)
        steps_per_epoch = self._steps_per_epoch
        self._progress.plan(
            remaining_steps=steps_per_epoch - self._epoch_steps,
            steps_per_epoch=steps_per_epoch,
            evaluation_batches=-(-self._validation.batch_count // config.workers),
            step_samples=self._step_samples,
        )
        self._live_workers = set(self._workers)
        for worker in self._workers:
            threading.Thread(target=self._serve, args=(worker,), daemon=True).start()

    def _connect(self) -> None:
        """Open a channel to each worker."""
        for worker in self._workers:
            self._channels[worker] = Channel(self._rendezvous, worker, 0, keepalive=True)

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure
        if not self._live_workers:
            raise WorkersLost("All workers of the job have ended.")

    def _end_epoch(self) -> bool:
        """Evaluate and save; return whether to stop."""
        if self._state.has_converged:
            return False
        values: dict[str, float] = {}
        if self._sizes[1] and not self._launch.steps_limit:
            evaluated_values = self._evaluate()
            if evaluated_values is None:
                return True
            values = evaluated_values
        self._progress.end_epoch(values, self._is_due(), self._save)
        return False

    def _evaluate(self) -> dict[str, float] | None:
        """Have the workers evaluate the model; None if a stop was requested."""
        reporter = self._services.reporter
        reporter.begin_evaluation()
        started_s = time.perf_counter()
        count = self._validation.batch_count
        with self._condition:
            size = max(1, count // (4 * len(self._live_workers)))
            numbers = list(range(count))
            self._validation_batches = [numbers[n : n + size] for n in range(0, count, size)]
            self._validation_queue = queue = PortionQueue(len(self._validation_batches))
            self._values = []
            self._condition.notify_all()
        while True:
            self._beat.beat(Phase.WAITING_FOR_OTHERS)
            with self._condition:
                self._condition.wait(POLL_S)
                self._check()
                evaluated_count = len(self._values)
                if not queue.is_finished and self._services.watcher.is_requested:
                    self._validation_queue = PortionQueue(0)
                    return None
            reporter.add_evaluated_batches(evaluated_count // max(1, len(self._live_workers)))
            if queue.is_finished:
                break
        reporter.end_evaluation(time.perf_counter() - started_s)
        self._progress.record_samples(answers_of(self._values))
        return average_values(self._values, self._validation)

    def _pause(self) -> None:
        """Wait until every live worker waits for an answer."""
        with self._condition:
            self._is_paused = True
            while not self._live_workers <= self._idle_workers:
                self._beat.beat(Phase.WAITING_FOR_OTHERS)
                self._condition.wait(POLL_S)
                self._check()

    def _resume(self) -> None:
        with self._condition:
            self._is_paused = False
            self._condition.notify_all()

    def _end(self, outcome: Outcome) -> None:
        self._progress.finish_writing()
        with self._condition:
            self._is_finished = outcome is Outcome.FINISHED
            self._condition.notify_all()
            while self._live_workers:
                self._beat.beat(Phase.WAITING_FOR_OTHERS)
                self._condition.wait(POLL_S)

    # --- checkpoints ---------------------------------------------------------------------------

    def _is_due(self) -> bool:
        """Return whether a checkpoint is due by steps or by time."""
        step_interval = self._config.checkpoint.every_steps
        return self._progress.is_due or (
            step_interval is not None
            and self._state.step // step_interval > self._progress.saved_step // step_interval
        )

    def _save(self, reason: str, metrics: dict[str, float] | None = None) -> None:
        has_failed = self._progress.begin_save()
        states = self._rank_states()
        if states:
            restore_buffers(self._model, states[0]["buffers"])
        self._progress.save(
            training_states(
                self._model.state_dict(),
                self._optimizer.state_dict(),
                optimized_names(self._model, self._optimizer),
            ),
            states,
            metrics or {},
            reason,
            has_failed,
        )

    def _gather_workers(self) -> list[Any]:
        """Return the random states and buffers of the live workers, by rank."""
        with self._condition:
            self._states = {}
            self._state_requests = set(self._live_workers)
            self._condition.notify_all()
            while self._state_requests & self._live_workers:
                self._beat.beat(Phase.SAVING)
                self._condition.wait(POLL_S)
                self._check()
            return [self._states[worker] for worker in sorted(self._states)]

    # --- the workers' threads ------------------------------------------------------------------

    def _serve(self, worker: int) -> None:
        channel, sent_tensors = self._channels[worker], partial(sent_parameters, self._parameters)
        try:
            while self._answer(worker, channel, *channel.receive(sent_tensors)):
                pass
        except PeerLost as error:
            swallowed(error)
            self._drop_worker(worker, error.has_ended)
        except BaseException as error:  # noqa: BLE001 - raised by the main thread
            with self._condition:
                self._failure = error
                self._condition.notify_all()

    def _answer(
        self, worker: int, channel: Channel, message: Any, tensors: Sequence[torch.Tensor]
    ) -> bool:
        """Answer one message of a worker; return whether another one follows."""
        with self._condition:
            answer, values = self._reply(worker, channel, message, tensors)
        channel.send(answer, values)
        if answer["kind"] != "end":
            return True
        with self._condition:
            self._live_workers.discard(worker)
            self._condition.notify_all()
        return False

    def _reply(
        self, worker: int, channel: Channel, message: Any, tensors: Sequence[torch.Tensor]
    ) -> tuple[dict[str, Any], list[torch.Tensor]]:
        """Take a message; return the answer and the parameters that go with it."""
        self._process_report(worker, message, tensors)
        answer = self._wait_for_answer(worker, channel, lambda: self._task(worker))
        if answer["kind"] in ("wait", "end"):
            return answer, []
        return self._with_parameters(worker, answer)

    def _with_parameters(
        self, worker: int, answer: dict[str, Any]
    ) -> tuple[dict[str, Any], list[torch.Tensor]]:
        sent_content, values = self._parameters_for(worker)
        return {**answer, "sent": sent_content}, values

    def _wait_for_answer(
        self, worker: int, channel: Channel, make_answer: Callable[[], dict[str, Any] | None]
    ) -> dict[str, Any]:
        """Let a worker wait for the answer of ``make_answer``, and for the end of a pause."""
        deadline_s = time.monotonic() + _WAIT_S
        try:
            while True:
                if worker in self._state_requests:
                    channel.send({"kind": "state"})
                    self._states[worker], _ = channel.receive()
                    self._state_requests.discard(worker)
                    self._condition.notify_all()
                if self._is_finished is not None:
                    return {"kind": "end", "finished": self._is_finished}
                if not self._is_paused:
                    if (answer := make_answer()) is not None:
                        return answer
                    if time.monotonic() > deadline_s:
                        return {"kind": "wait"}
                if worker not in self._idle_workers:
                    self._idle_workers.add(worker)
                    self._condition.notify_all()
                self._condition.wait(POLL_S)
        finally:
            self._idle_workers.discard(worker)

    def _task(self, worker: int) -> dict[str, Any] | None:
        portion = self._validation_queue.take(worker, time.monotonic())
        if portion is not None:
            batches = self._validation_batches[portion]
            buffers = self._shared_buffers()
            return {"kind": "evaluate", "piece": portion, "batches": batches, "buffers": buffers}
        task = self._next_task(worker)
        if task is not None and worker in self._saved_states:
            task["state"] = self._saved_states.pop(worker)
        return task

    def _shared_buffers(self) -> dict[str, torch.Tensor]:
        """Return the buffers with which all workers evaluate: those of the first worker."""
        if self._buffers:
            return self._buffers[min(self._buffers)]
        return dict(self._model.named_buffers())

    def _process_report(self, worker: int, message: Any, tensors: Sequence[torch.Tensor]) -> None:
        """Process the report of a worker at the end of a task."""
        if "traits" in message:
            require_same_traits(self._traits, message["traits"], worker, self._launch)
        if message.get("untrained"):
            self._services.reporter.add_alarm(
                Alarm(
                    NOT_TRAINED,
                    self._state.step,
                    f"The model has replaced or added {name_list(message['untrained'])} since the "
                    f"start; {self._config.strategy.name} does not train that. Use allreduce or "
                    "ddp, or make it in UserModel.__init__ and change its values only.",
                )
            )
        if "buffers" in message:
            self._buffers[worker] = message["buffers"]
        if message["kind"] == "values" and self._validation_queue.finish(
            worker, message["piece"], time.monotonic()
        ):
            self._values += [(n, BatchValues.from_message(v)) for n, v in message["values"]]

    def _commit(self, hold: bool) -> None:
        """Report the last step; with ``hold``, keep it back until the validation has ended."""
        if self._held_step is not None:
            pending_step, result = self._held_step
            self._held_step = None
            self._progress.step_recorder.pending_steps.append(pending_step)
            self._progress.step_recorder.commit(result, hold)

    def _drop_worker(self, worker: int, has_ended: bool) -> None:
        """Continue without a worker; the others get its work."""
        with self._condition:
            self._live_workers.discard(worker)
            self._idle_workers.discard(worker)
            self._state_requests.discard(worker)
            self._buffers.pop(worker, None)
            self._validation_queue.release(worker)
            self._reassign_work(worker)
            plan = self._launch.ranks[worker]
            self._lost_texts.append(
                f"Rank {worker} on {plan.node} {'has ended' if has_ended else 'is lost'}; "
                f"{len(self._live_workers)} of "
                f"{self._config.workers} workers train on."
            )
            self._condition.notify_all()

    @abstractmethod
    def _reassign_work(self, worker: int) -> None:
        """Give the work of a worker that has ended to the others."""


def report_thawed(model: torch.nn.Module, parameters: Iterable[torch.Tensor]) -> None:
    """Write to the log that a model has thawed parameters."""
    thawed_ids = {id(parameter) for parameter in parameters}
    names = [name for name, parameter in model.named_parameters() if id(parameter) in thawed_ids]
    sys.stdout.write(f"From now on these are trained, too: {name_list(names)}\n")
