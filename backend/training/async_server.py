"""The servers of an asynchronous job. Rank 0 also decides what every worker does.

Each worker has a thread at each server, which answers one message at a time: pushes are applied in
the order in which the threads get the lock. Rank 0's main thread leads through the epochs. To save
or to stop, it pauses the workers: none gets its answer before all live ones have asked, so there is
one state of all servers.
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from backend.base.errors import BackendError
from backend.base.log import swallowed
from backend.records.base.layout import JobFolder
from backend.records.jobs.config import JobConfig
from backend.records.jobs.heartbeat import Phase, RankHeartbeat
from backend.records.jobs.launch import Launch
from backend.records.jobs.lr_schedule import learning_rate
from backend.records.jobs.state import JobState
from backend.training.checkpoint import NotSaved, fit_weights, load_checkpoint, write_out
from backend.training.checkpoint import load_weights as read_weights
from backend.training.checkpoint_content import content, put_buffers
from backend.training.data import TrainingOrder, ValidationOrder
from backend.training.evaluation import mean_of
from backend.training.loop import load_optimizer, make_optimizer
from backend.training.parameter_server import ParameterServer, shards
from backend.training.step_recorder import PendingStep, StepRecorder
from backend.training.step_sync import StepResult
from backend.training.strategies.channel import Channel, PeerLost
from backend.training.strategies.rendezvous import Rendezvous
from backend.training.subject import open_subject, require_same, traits
from backend.training.train_state import Batch, Outcome, Rank0Services, TrainState

QUORUM = 0.75
"""Chilimbi et al., "Project Adam" (OSDI 2014), section 3.2.2: an epoch ends when 75 % of the
replicas are done."""
_PIECES = 10
"""Of one worker's share of an epoch, with the policy “portion”."""
_LOOK_S = 0.1
_WAIT_S = 5.0
"""A worker without a task asks again: its guard sees that it is not hung."""


class WorkersLost(BackendError):
    """No worker is left. Each has said why in its own record, so this is an echo."""


class _Shard:
    """A server's part of the parameters, and its channel to each worker."""

    def __init__(self, config: JobConfig, meeting: Rendezvous, model: torch.nn.Module) -> None:
        self.model = model
        self.optimizer = make_optimizer(config.optimizer, model)
        trained = _trained(model)
        if config.strategy.servers > len(trained):
            raise BackendError(
                f"The job has {config.strategy.servers} servers, but the model has only "
                f"{len(trained)} trainable parameters (tensors) to share among them.",
                "Set fewer servers; one is enough for most models.",
            )
        self.shards = [
            [trained[place] for place in one] for one in shards(trained, config.strategy.servers)
        ]
        self.parameters = self.shards[meeting.rank]
        self.server = ParameterServer(self.parameters, self.optimizer, config.strategy)
        self.lock = threading.Lock()
        self._meeting = meeting
        self.workers = range(config.strategy.servers, meeting.world_size)
        self.channels: dict[int, Channel] = {}

    def connect(self) -> None:
        for worker in self.workers:
            self.channels[worker] = Channel(self._meeting, worker, self._meeting.rank)

    def apply(self, worker: int, message: Any, gradients: Sequence[torch.Tensor]) -> None:
        unused = set(message["unused"])
        given = [None if n in unused else one for n, one in enumerate(gradients)]
        self.server.push(worker, given, message["rate"])


@dataclass
class ShardServer:
    """A server besides rank 0: it applies pushes, and hands its state to rank 0."""

    launch: Launch
    meeting: Rendezvous
    beat: RankHeartbeat
    batch: Batch = field(default_factory=Batch)

    def run(self) -> Outcome:
        subject = open_subject(self.launch, torch.device("cpu"), 0, self.beat)
        self.beat.beat(Phase.WAITING_FOR_OTHERS)
        shard = self._shard = _Shard(self.launch.config, self.meeting, subject.model)
        shard.connect()
        head = Channel(self.meeting, self.meeting.rank, 0)
        threads = [
            threading.Thread(target=self._serve, args=(worker,), daemon=True)
            for worker in shard.workers
        ]
        state, values = head.receive(shard.parameters)
        _take_state(shard, state, values)
        for thread in threads:
            thread.start()
        while True:
            self.beat.beat(Phase.WAITING_FOR_OTHERS)
            message, _ = head.receive()
            if message["kind"] == "end":
                return Outcome.FINISHED if message["finished"] else Outcome.INTERRUPTED
            if message["kind"] == "state":
                with shard.lock:
                    head.send(_optimizer_state(shard), shard.parameters)

    def _serve(self, worker: int) -> None:
        shard = self._shard
        channel = shard.channels[worker]
        try:
            while True:
                message, gradients = channel.receive(shard.parameters)
                with shard.lock:
                    if message["kind"] == "push":
                        shard.apply(worker, message, gradients)
                    wants = message.get("fetch", True)
                    channel.send({}, shard.server.pull(worker) if wants else ())
        except PeerLost as error:
            # Rank 0 has the same worker and reports it.
            swallowed(error)
            shard.server.release(worker)


def _optimizer_state(shard: _Shard) -> dict[int, Any]:
    found: dict[int, Any] = shard.optimizer.state_dict()["state"]
    return found


def _take_state(shard: _Shard, state: dict[int, Any], values: Sequence[torch.Tensor]) -> None:
    whole = shard.optimizer.state_dict()
    shard.optimizer.load_state_dict({**whole, "state": state})
    for parameter, value in zip(shard.parameters, values, strict=True):
        parameter.detach().copy_(value)


class AsyncServer:
    """Rank 0: the first server, which leads the job."""

    def __init__(
        self,
        launch: Launch,
        folder: JobFolder,
        meeting: Rendezvous,
        beat: RankHeartbeat,
        services: Rank0Services,
    ) -> None:
        self.batch = Batch()
        self._launch = launch
        self._config = launch.config
        self._folder = folder
        self._meeting = meeting
        self._beat = beat
        self._services = services
        self._state = TrainState()
        # Everything below is shared with the workers' threads, under the condition's lock.
        self._changed = threading.Condition()
        self._live: set[int] = set()
        self._resting: set[int] = set()
        self._is_paused = True
        self._ending: bool | None = None
        self._portions: deque[tuple[int | None, list[int]]] = deque()
        self._given: dict[int, list[int]] = {}
        self._judging: deque[list[int]] = deque()
        self._values: list[tuple[int, dict[str, float]]] = []
        self._drops = False
        self._wanted: set[int] = set()
        self._states: dict[int, Any] = {}
        self._saved_states: dict[int, Any] = {}
        self._buffers: dict[int, dict[str, torch.Tensor]] = {}
        self._times: dict[int, float] = {}
        self._arrivals: deque[float] = deque(maxlen=100)
        self._queue: set[int] = set()
        self._lost_texts: list[str] = []
        self._is_save_due = False
        self._failure: BaseException | None = None
        self._held: tuple[PendingStep, StepResult] | None = None
        others = services.reporter.other_trouble
        services.reporter.other_trouble = lambda: " ".join([others(), *self._lost_texts]).strip()

    # --- the job -------------------------------------------------------------------------------

    def run(self) -> Outcome:
        self._set_up()
        outcome = self._train()
        self._end(outcome)
        return outcome

    def _set_up(self) -> None:
        config, meeting = self._config, self._meeting
        self._beat.beat(Phase.SETUP)
        subject = open_subject(self._launch, torch.device("cpu"), 0, self._beat)
        self._shard = shard = _Shard(config, meeting, subject.model)
        self._traits = traits(subject, self._launch, torch.device("cpu"))
        self._sizes = self._traits[0]
        self._order = TrainingOrder(self._sizes[0], config.batch_size, 0, 1, config.seed)
        self._validation = ValidationOrder(self._sizes[1], config.batch_size, 0, 1)
        self._last_save = time.monotonic()
        if self._launch.resume_from:
            self._restore(Path(self._launch.resume_from))
        elif self._launch.start_from:
            source = Path(self._launch.start_from)
            fit_weights(shard.model, read_weights(source), source.name)
        self._book = StepRecorder(config, self._state, self._services, config.global_batch_size)
        reporter = self._services.reporter
        state, every = self._state, self._steps_per_epoch
        epochs_left = config.epochs - state.epoch + 1
        reporter.plan(
            step=state.step,
            epoch=min(state.epoch, config.epochs),
            total_steps=state.step + max(0, epochs_left * every - state.epoch_step),
            steps_per_epoch=every,
            evaluation_batches=-(-self._validation.batches // config.workers),
        )
        self._beat.beat(Phase.WAITING_FOR_OTHERS)
        shard.connect()
        self._heads = [Channel(meeting, server, 0) for server in range(1, config.strategy.servers)]
        states = _optimizer_state(shard)
        number_of = {id(p): n for n, p in enumerate(_trained(shard.model))}
        for head, parameters in zip(self._heads, shard.shards[1:], strict=True):
            own = {number_of[id(p)] for p in parameters}
            head.send({n: one for n, one in states.items() if n in own}, parameters)
        self._live = set(shard.workers)
        for worker in shard.workers:
            threading.Thread(target=self._serve, args=(worker,), daemon=True).start()

    @property
    def _batches(self) -> int:
        return self._order.steps_per_epoch

    @property
    def _steps_per_epoch(self) -> int:
        """Pushes; with a quorum there may be fewer."""
        return self._config.steps_per_epoch(self._sizes[0])

    def _restore(self, path: Path) -> None:
        saved = load_checkpoint(path)
        fit_weights(self._shard.model, saved["model"], path.name)
        load_optimizer(self._shard.optimizer, saved["optimizer"], self._config.optimizer)
        self._state = state = TrainState(**saved["course"])
        # A synchronous job took the first samples of the epoch.
        if state.position and not state.done:
            state.done = list(range(state.position // self._config.batch_size))
        put_buffers(self._shard.model, saved["ranks"][0]["buffers"])
        if len(saved["ranks"]) == self._config.workers:
            self._saved_states = dict(zip(self._shard.workers, saved["ranks"], strict=True))

    def _train(self) -> Outcome:
        state = self._state
        while state.epoch <= self._config.epochs and not state.ended_early:
            if self._epoch() or self._end_epoch():
                self._tell(JobState.STOPPING, "Saving a checkpoint")
                self._save("stop")
                return Outcome.INTERRUPTED
        return Outcome.FINISHED

    def _epoch(self) -> bool:
        """Let the workers train on the rest of the epoch; return whether to stop."""
        state, config = self._state, self._config
        self._tell(JobState.TRAINING)
        evaluations = config.epochs - state.epoch + 1 if self._sizes[1] else 0
        self._services.reporter.epoch(state.epoch, evaluations)
        with self._changed:
            left = sorted(set(range(self._batches)) - set(state.done))
            if self._launch.steps_limit:
                left = left[: self._launch.steps_limit * len(self._live)]
            self._portions = self._dealt(left)
            self._drops = False
            self._is_paused = False
            self._last_push = time.perf_counter()
            self._changed.notify_all()
        while not self._is_over():
            stop = self._services.watcher.wanted
            minutes = config.checkpoint.every_minutes
            if minutes is not None and time.monotonic() - self._last_save >= minutes * 60:
                self._is_save_due = True
            if not (stop or self._is_save_due):
                continue
            self._pause()
            if self._has_batches_left():
                self._commit(hold=False)
                if stop:
                    return True
                self._save("policy")
                self._tell(JobState.TRAINING)
            # Otherwise the epoch ends now, with its validation.
            self._resume()
        self._pause()
        self._commit(hold=True)
        return False

    def _has_batches_left(self) -> bool:
        return any(batches for _, batches in self._portions) or any(self._given.values())

    def _dealt(self, batches: list[int]) -> deque[tuple[int | None, list[int]]]:
        """Deal the batches of an epoch: to each live worker its shard, or in small pieces."""
        live = sorted(self._live)
        if self._config.strategy.setting("policy") == "portion":
            size = max(1, len(batches) // (_PIECES * len(live)))
            pieces = [batches[n : n + size] for n in range(0, len(batches), size)]
            return deque((None, piece) for piece in pieces)
        return deque((worker, batches[n :: len(live)]) for n, worker in enumerate(live))

    def _is_over(self) -> bool:
        """Wait a moment; return whether this epoch's batches are done."""
        self._beat.beat(Phase.WAITING_FOR_OTHERS)
        with self._changed:
            self._changed.wait(_LOOK_S)
            self._check()
            if self._config.strategy.setting("policy") == "quorum" and not self._drops:
                busy = {worker for worker, _ in self._portions} | self._given.keys()
                done = len(self._live - busy)
                if done and done >= QUORUM * len(self._live):
                    self._drops = True
                    self._portions.clear()
            return not self._portions and not self._given

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure
        if not self._live:
            raise WorkersLost("All workers of the job have ended.")

    def _end_epoch(self) -> bool:
        """Evaluate and save; return whether to stop."""
        state, config = self._state, self._config
        values: dict[str, float] = {}
        if self._sizes[1] and not self._launch.steps_limit:
            found = self._evaluate()
            if found is None:
                return True
            values = found
        measured = {**(state.held or {}), **values}
        self._book.release(values)
        if config.early_stop is not None:
            state.judge(config.early_stop, measured.get(config.early_stop.metric), measured)
        is_over = state.epoch >= config.epochs or state.ended_early
        every = config.checkpoint.every_epochs
        due = self._is_save_due or (every is not None and state.epoch % every == 0)
        state.epoch += 1
        state.epoch_step = state.position = 0
        state.done = []
        if is_over or due:
            self._save("last" if is_over else "policy", measured)
        return False

    def _evaluate(self) -> dict[str, float] | None:
        """Have the workers evaluate the servers' model; None if a stop was requested."""
        reporter = self._services.reporter
        reporter.evaluating()
        began = time.perf_counter()
        count = self._validation.batches
        with self._changed:
            size = max(1, count // (4 * len(self._live)))
            numbers = list(range(count))
            self._judging = deque(numbers[n : n + size] for n in range(0, count, size))
            self._values = []
            self._is_paused = False
            self._changed.notify_all()
        while True:
            self._beat.beat(Phase.WAITING_FOR_OTHERS)
            with self._changed:
                self._changed.wait(_LOOK_S)
                self._check()
                done = len(self._values)
            reporter.evaluating_at(done // max(1, len(self._live)))
            if done == count or self._services.watcher.wanted:
                break
        self._pause()
        if done < count:
            return None
        reporter.evaluated(time.perf_counter() - began)
        return mean_of(self._values, self._validation)

    def _pause(self) -> None:
        """Wait until every live worker waits for an answer."""
        with self._changed:
            self._is_paused = True
            while not self._live <= self._resting:
                self._beat.beat(Phase.WAITING_FOR_OTHERS)
                self._changed.wait(_LOOK_S)
                self._check()

    def _resume(self) -> None:
        with self._changed:
            self._is_paused = False
            self._changed.notify_all()

    def _end(self, outcome: Outcome) -> None:
        self._beat.beat(Phase.SAVING)
        services = self._services
        trouble = write_out(services.checkpointer, self._beat, self._config.stall_limit_s)
        saved = services.checkpointer.saved
        if self._launch.steps_limit and saved is not None and not trouble:
            load_checkpoint(Path(saved.path))
        self._book.release({})
        if trouble:
            raise NotSaved(trouble)
        finished = outcome is Outcome.FINISHED
        with self._changed:
            self._ending = finished
            self._changed.notify_all()
            while self._live:
                self._beat.beat(Phase.WAITING_FOR_OTHERS)
                self._changed.wait(_LOOK_S)
        for head in self._heads:
            head.send({"kind": "end", "finished": finished})

    def _tell(self, state: JobState, message: str = "") -> None:
        self._services.reporter.state(state, message)

    # --- checkpoints ---------------------------------------------------------------------------

    def _save(self, reason: str, measured: dict[str, float] | None = None) -> None:
        """Save the one state that all servers have while the workers are paused."""
        self._beat.beat(Phase.SAVING)
        began = self._last_save = time.monotonic()
        self._is_save_due = False
        self._gather_servers()
        states = self._gather_workers()
        if states:
            put_buffers(self._shard.model, states[0]["buffers"])
        self._tell(JobState.SAVING)
        state = self._state
        between = state.epoch_step == 0
        self._services.checkpointer.save(
            content(
                self._shard.model,
                self._shard.optimizer,
                torch.amp.GradScaler(enabled=False),
                state,
                states,
                measured or {},
                self._launch,
            ),
            epoch=state.epoch - 1 if between else state.epoch,
            step=state.step,
            epoch_step=state.epoch_step,
            metrics=measured or {},
            reason=reason,
        )
        self._services.reporter.saved(time.monotonic() - began)

    def _gather_servers(self) -> None:
        shard = self._shard
        whole = shard.optimizer.state_dict()
        for head, parameters in zip(self._heads, shard.shards[1:], strict=True):
            head.send({"kind": "state"})
            state, values = head.receive(parameters)
            whole["state"] |= state
            for parameter, value in zip(parameters, values, strict=True):
                parameter.detach().copy_(value)
        if self._heads:
            shard.optimizer.load_state_dict(whole)

    def _gather_workers(self) -> list[Any]:
        """Return random state and buffers of each live worker, by rank."""
        with self._changed:
            self._states = {}
            self._wanted = set(self._live)
            self._changed.notify_all()
            while self._wanted & self._live:
                self._beat.beat(Phase.SAVING)
                self._changed.wait(_LOOK_S)
                self._check()
            return [self._states[worker] for worker in sorted(self._states)]

    # --- the workers' threads ------------------------------------------------------------------

    def _serve(self, worker: int) -> None:
        channel = self._shard.channels[worker]
        try:
            while self._answer(worker, channel, *channel.receive(self._shard.parameters)):
                pass
        except PeerLost as error:
            swallowed(error)
            self._lost(worker)
        except BaseException as error:  # noqa: BLE001 - raised by the main thread
            with self._changed:
                self._failure = error
                self._changed.notify_all()

    def _answer(
        self, worker: int, channel: Channel, message: Any, gradients: Sequence[torch.Tensor]
    ) -> bool:
        """Answer one message of a worker; return whether another one follows."""
        values: list[torch.Tensor] = []
        is_push = message["kind"] == "push"
        if is_push:
            self._queue.add(worker)
        with self._changed:
            if is_push:
                self._queue.discard(worker)
                self._take(worker, message, gradients)
                self._hold(worker, channel, lambda: {"kind": "go"})
                drop = self._drops or self._ending is not None
                answer = {"kind": "go", "rate": self._rate(), "drop": drop}
            else:
                self._note(worker, message)
                answer = self._hold(worker, channel, lambda: self._task(worker))
            if answer["kind"] in ("train", "evaluate") or message.get("fetch"):
                values = [value.clone() for value in self._shard.server.pull(worker)]
        channel.send(answer, values)
        if answer["kind"] != "end":
            return True
        with self._changed:
            self._live.discard(worker)
            self._changed.notify_all()
        return False

    def _hold(
        self, worker: int, channel: Channel, ask: Callable[[], dict[str, Any] | None]
    ) -> dict[str, Any]:
        """Let a worker wait for its answer, which ``ask`` gives; not while there is a pause."""
        until = time.monotonic() + _WAIT_S
        self._resting.add(worker)
        self._changed.notify_all()
        try:
            while True:
                if worker in self._wanted:
                    channel.send({"kind": "state"})
                    self._states[worker], _ = channel.receive()
                    self._wanted.discard(worker)
                    self._changed.notify_all()
                if self._ending is not None:
                    return {"kind": "end", "finished": self._ending}
                if not self._is_paused:
                    if (answer := ask()) is not None:
                        return answer
                    if time.monotonic() > until:
                        return {"kind": "wait"}
                self._changed.wait(_LOOK_S)
        finally:
            self._resting.discard(worker)

    def _task(self, worker: int) -> dict[str, Any] | None:
        if self._judging:
            buffers = self._buffers[min(self._buffers)] if self._buffers else {}
            return {"kind": "evaluate", "batches": self._judging.popleft(), "buffers": buffers}
        for portion in self._portions:
            if portion[0] in (None, worker):
                self._portions.remove(portion)
                if not portion[1]:
                    return None
                self._given[worker] = list(portion[1])
                task = {
                    "kind": "train",
                    "epoch": self._state.epoch,
                    "batches": portion[1],
                    "rate": self._rate(),
                }
                if worker in self._saved_states:
                    task["state"] = self._saved_states.pop(worker)
                return task
        return None

    def _note(self, worker: int, message: Any) -> None:
        """Take what a worker says at the end of a task."""
        if "traits" in message:
            require_same(self._traits, message["traits"], worker, self._launch)
        if message["kind"] == "done":
            self._given.pop(worker, None)
            self._buffers[worker] = message["buffers"]
        elif message["kind"] == "values":
            self._values += message["values"]

    def _rate(self) -> float:
        state = self._state
        step = (state.epoch - 1) * self._steps_per_epoch + state.epoch_step
        return learning_rate(self._config, self._steps_per_epoch, step)

    def _take(self, worker: int, message: Any, gradients: Sequence[torch.Tensor]) -> None:
        """Apply a push, and record it as a step of the job."""
        shard, state = self._shard, self._state
        rate = self._rate()
        now = time.perf_counter()
        loss = message["loss"]
        if math.isfinite(loss):
            shard.apply(worker, {**message, "rate": rate}, gradients)
        self._commit(hold=False)
        self._arrivals.append(now)
        self._times[worker] = message["ms"]
        state.step += 1
        state.epoch_step += 1
        state.done += message["batches"]
        state.position = len(state.done) * self._config.batch_size
        given = self._given.get(worker)
        if given is not None:
            del given[: len(message["batches"])]
        every = self._config.checkpoint.every_steps
        if every is not None and state.step % every == 0:
            self._is_save_due = True
            # Those who push meanwhile are waited for, too, so it may be some steps later.
            self._is_paused = self._has_batches_left()
        seconds = now - self._last_push
        self._last_push = now
        span = now - self._arrivals[0]
        live = {
            **shard.server.staleness.metrics(),
            "pushes per second": (len(self._arrivals) - 1) / span if span else 0.0,
            "server queue": float(len(self._queue)),
        }
        size = self._meeting.world_size
        losses = [0.0] * size
        losses[worker] = loss
        pending = PendingStep(
            state.step, state.epoch, state.epoch_step, rate, seconds, "norm" in message, live
        )
        times = tuple(self._times.get(rank, 0.0) for rank in range(size))
        result = StepResult(
            stop=False,
            save=False,
            loss=loss,
            norm=message.get("norm", 0.0),
            metrics=message["metrics"],
            losses=tuple(losses),
            rank_step_ms=times,
        )
        self._held = pending, result

    def _commit(self, hold: bool) -> None:
        """Report the last push; that of an epoch is kept back until the validation is over."""
        if self._held is not None:
            pending, result = self._held
            self._held = None
            self._book.facts.append(pending)
            self._book.commit(result, hold)

    def _lost(self, worker: int) -> None:
        """Continue without a worker; the others get its batches, in this epoch or the next."""
        with self._changed:
            self._live.discard(worker)
            self._resting.discard(worker)
            self._wanted.discard(worker)
            left = self._given.pop(worker, [])
            portions = [one for one in self._portions if one[0] != worker]
            if self._config.strategy.setting("policy") == "portion" and left:
                portions.append((None, left))
            self._portions = deque(portions)
            self._buffers.pop(worker, None)
            self._shard.server.release(worker)
            plan = self._launch.ranks[worker]
            self._lost_texts.append(
                f"Rank {worker} on {plan.node} has ended; {len(self._live)} of "
                f"{self._config.workers} workers train on."
            )
            self._changed.notify_all()


def _trained(model: torch.nn.Module) -> list[torch.nn.Parameter]:
    return [p for p in model.parameters() if p.requires_grad]
