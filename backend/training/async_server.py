"""Servers of an asynchronous job. Rank 0 also assigns the work of every worker.

Each worker has a thread at each server, which answers one message at a time: pushes are applied in
the order in which the threads get the lock. To save or to stop, rank 0 pauses the workers: no
worker gets its answer before all live workers have asked, so there is one state of all servers.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import compress
from typing import Any

import torch

from backend.base.errors import BackendError
from backend.base.log import swallowed
from backend.records.jobs.config import JobConfig
from backend.records.jobs.heartbeat import Phase, RankHeartbeat
from backend.records.jobs.launch import Launch
from backend.records.jobs.lr_schedule import learning_rate
from backend.records.jobs.metric_names import PUSH_WINDOW, PUSHES_PER_SECOND
from backend.records.jobs.state import JobState
from backend.training.data import TrainingOrder, spans
from backend.training.leader import POLL_S, Leader, report_thawed
from backend.training.optimizer import make_optimizer, served_parameters, trained_parameters
from backend.training.parameter_server import ParameterServer, sent_parameters, shard_indices
from backend.training.step_recorder import PendingStep
from backend.training.step_sync import StepResult
from backend.training.step_times import RankStep
from backend.training.strategies.base import fill_tensors
from backend.training.strategies.channel import Channel, PeerLost
from backend.training.strategies.rendezvous import Rendezvous
from backend.training.subject import open_subject
from backend.training.train_state import Batch, Outcome, Rank0Services

QUORUM = 0.75
"""Chilimbi et al., "Project Adam" (OSDI 2014), section 3.2.2: an epoch ends when 75 % of the
replicas are done."""
_PORTION_COUNT = 10
"""Number of portions in a worker's share of an epoch, with the policy “portion”."""


class PushRate:
    """Rate of pushes and samples per second, over the last `PUSH_WINDOW` pushes of an epoch.

    The time from one push to the next is no measure: several workers often push at once.
    """

    def __init__(self, start_s: float) -> None:
        self._arrivals = deque([(start_s, 0)], maxlen=PUSH_WINDOW + 1)

    def add(self, now_s: float, samples: int) -> dict[str, float]:
        """Record a push of ``samples``; return the values of its curves."""
        self._arrivals.append((now_s, self._arrivals[-1][1] + samples))
        start_s, earlier_samples = self._arrivals[0]
        span_s = max(now_s - start_s, 1e-9)
        return {
            PUSHES_PER_SECOND: (len(self._arrivals) - 1) / span_s,
            "samples_per_second": (self._arrivals[-1][1] - earlier_samples) / span_s,
        }


class _ServedShard:
    """The shard of a server: the part of the parameters that it updates, and their optimizer."""

    def __init__(self, config: JobConfig, rendezvous: Rendezvous, model: torch.nn.Module) -> None:
        self.model = model
        self._config = config
        parameters = served_parameters(model)
        self.optimizer = make_optimizer(config, model, parameters)
        count = len(trained_parameters(model))
        for parameter in parameters[count:]:
            # Adagrad begins with a state, which is of the size of the parameter.
            self.optimizer.state.pop(parameter, None)
        if config.strategy.servers > count:
            raise BackendError(
                f"The job has {config.strategy.servers} servers, but the model has only "
                f"{count} trainable parameters (tensors) to share among them.",
                "Set fewer servers; one is enough for most models.",
            )
        self.shards = [
            [parameters[index] for index in indices]
            for indices in shard_indices(parameters, config.strategy.servers)
        ]
        self.parameters = self.shards[rendezvous.rank]
        self.server = ParameterServer(self.parameters, self.optimizer, config.strategy)
        self.lock = threading.Lock()

    def apply(self, worker: int, message: Any, gradients: Sequence[torch.Tensor]) -> None:
        """Apply a push, if its worker counts it at all servers."""
        if not message["counts"]:
            return
        gradient_iterator = iter(gradients)
        all_gradients = [
            next(gradient_iterator) if is_sent else None for is_sent in message["sent"]
        ]
        for index in compress(range(len(all_gradients)), message["sent"]):
            if not self.server.trained_flags[index]:
                self._thaw(index)
        self.server.push(worker, all_gradients, message["rate"], does_fetch=message["fetch"])

    def _thaw(self, index: int) -> None:
        parameter = self.parameters[index]
        self.server.thaw(index)
        if parameter not in self.optimizer.state:
            new_optimizer = make_optimizer(self._config, self.model, [parameter])
            self.optimizer.state.update(new_optimizer.state)
        report_thawed(self.model, [parameter])

    @property
    def trained(self) -> bytes:
        return bytes(self.server.trained_flags)


@dataclass
class ShardServer:
    """Server besides rank 0: applies pushes, and hands its state to rank 0."""

    launch: Launch
    rendezvous: Rendezvous
    beat: RankHeartbeat
    batch: Batch = field(default_factory=Batch)

    def run(self) -> Outcome:
        self.beat.beat(Phase.WAITING_FOR_OTHERS)
        rank = self.rendezvous.rank
        workers = range(self.launch.config.strategy.servers, self.rendezvous.world_size)
        channels = [
            (worker, Channel(self.rendezvous, worker, rank, keepalive=True)) for worker in workers
        ]
        head = Channel(self.rendezvous, rank, 0, keepalive=True)
        self.beat.beat(Phase.SETUP)
        subject = open_subject(self.launch, torch.device("cpu"), 0, self.beat)
        self.beat.beat(Phase.WAITING_FOR_OTHERS)
        shard = self._shard = _ServedShard(self.launch.config, self.rendezvous, subject.model)
        threads = [
            threading.Thread(target=self._serve, args=args, daemon=True) for args in channels
        ]
        state, values = head.receive(shard.parameters)
        _restore_state(shard, state, values)
        for thread in threads:
            thread.start()
        while True:
            self.beat.beat(Phase.WAITING_FOR_OTHERS)
            message, _ = head.receive()
            if message["kind"] == "end":
                return Outcome.FINISHED if message["finished"] else Outcome.INTERRUPTED
            if message["kind"] == "state":
                with shard.lock:
                    state = {"state": _optimizer_state(shard), "sent": shard.trained}
                    head.send(state, sent_parameters(shard.parameters, state))

    def _serve(self, worker: int, channel: Channel) -> None:
        shard = self._shard
        try:
            while True:
                message, gradients = channel.receive(partial(sent_parameters, shard.parameters))
                with shard.lock:
                    if message["kind"] == "push":
                        shard.apply(worker, message, gradients)
                    values = shard.server.pull(worker) if message.get("fetch", True) else []
                    sent_content = shard.trained if values else b""
                channel.send({"sent": sent_content}, values)
        except PeerLost as error:
            # Rank 0 has the same worker and reports it.
            swallowed(error)
            shard.server.release(worker)


def _optimizer_state(shard: _ServedShard) -> dict[int, Any]:
    state: dict[int, Any] = shard.optimizer.state_dict()["state"]
    return state


def _restore_state(
    shard: _ServedShard, state: dict[int, Any], values: Sequence[torch.Tensor]
) -> None:
    full_state = shard.optimizer.state_dict()
    shard.optimizer.load_state_dict({**full_state, "state": state})
    fill_tensors(shard.parameters, values)


class AsyncServer(Leader):
    """Rank 0: the first server, which leads the job."""

    def __init__(
        self,
        launch: Launch,
        rendezvous: Rendezvous,
        beat: RankHeartbeat,
        services: Rank0Services,
    ) -> None:
        super().__init__(launch, rendezvous, beat, services)
        self._portions: deque[tuple[int | None, list[int]]] = deque()
        self._assigned_batches: dict[int, list[int]] = {}
        self._drops_batches = False
        self._waiting_workers: set[int] = set()
        self._rank_steps: dict[int, RankStep] = {}

    def _open(self) -> torch.optim.Optimizer:
        config = self._config
        self._shard = shard = _ServedShard(config, self._rendezvous, self._model)
        self._parameters = shard.parameters
        self._order = TrainingOrder(self._sizes[0], config.batch_size, 0, 1, config.seed)
        return shard.optimizer

    def _connect(self) -> None:
        super()._connect()
        servers = range(1, self._config.strategy.servers)
        self._server_channels = [
            Channel(self._rendezvous, server, 0, keepalive=True) for server in servers
        ]

    def _set_up(self) -> None:
        super()._set_up()
        shard = self._shard
        states = _optimizer_state(shard)
        index_by_id = {id(p): n for n, p in enumerate(served_parameters(self._model))}
        for channel, parameters in zip(self._server_channels, shard.shards[1:], strict=True):
            indices = {index_by_id[id(p)] for p in parameters}
            channel.send({n: state for n, state in states.items() if n in indices}, parameters)

    @property
    def _steps_per_epoch(self) -> int:
        """Number of pushes in an epoch; with a quorum there may be fewer."""
        return self._config.steps_per_epoch(self._sizes[0])

    @property
    def _epoch_steps(self) -> int:
        # Pushes with another batch size count by their samples.
        return self._state.position // self._step_samples

    @property
    def _step_samples(self) -> int:
        return self._config.global_batch_size

    def _restore(self, saved_state: dict[str, Any]) -> None:
        super()._restore(saved_state)
        self._seek_order()
        # A synchronous job takes the first remaining samples of the epoch.
        self._state.done_spans = self._order.done_position_spans()
        if len(saved_state["ranks"]) == self._config.workers:
            self._saved_states = dict(zip(self._workers, saved_state["ranks"], strict=True))

    def _seek_order(self) -> None:
        state = self._state
        self._order.seek(state.epoch, state.position, tuple(state.done_spans))

    def _epoch(self) -> bool:
        self._progress.begin_epoch(bool(self._sizes[1]))
        with self._condition:
            self._seek_order()
            self._batch_positions = self._order.remaining_batches()
            batch_numbers = list(range(len(self._batch_positions)))
            if self._launch.steps_limit:
                batch_numbers = batch_numbers[: self._launch.steps_limit * len(self._live_workers)]
            self._portions = self._deal_batches(batch_numbers)
            self._drops_batches = False
            self._last_push_s = time.perf_counter()
            self._push_rate = PushRate(self._last_push_s)
        self._resume()
        while not self._wait_for_epoch_end():
            stop = self._services.watcher.is_requested
            if not (stop or self._is_due()):
                continue
            self._pause()
            if self._has_batches_left():
                self._commit(hold=False)
                if stop:
                    return True
                self._save("policy")
                self._progress.report(JobState.TRAINING)
            # Otherwise the epoch ends now, with its validation.
            self._resume()
        self._pause()
        self._commit(hold=True)
        return False

    def _has_batches_left(self) -> bool:
        return any(batches for _, batches in self._portions) or any(self._assigned_batches.values())

    def _deal_batches(self, batches: list[int]) -> deque[tuple[int | None, list[int]]]:
        """Deal the batches of an epoch: a shard to each live worker, or in small portions."""
        workers = sorted(self._live_workers)
        if self._config.strategy.setting("policy") == "portion":
            size = max(1, len(batches) // (_PORTION_COUNT * len(workers)))
            portions = [batches[n : n + size] for n in range(0, len(batches), size)]
            return deque((None, portion) for portion in portions)
        return deque((worker, batches[n :: len(workers)]) for n, worker in enumerate(workers))

    def _wait_for_epoch_end(self) -> bool:
        """Wait a moment; return whether all batches of this epoch are finished."""
        self._beat.beat(Phase.WAITING_FOR_OTHERS)
        with self._condition:
            self._condition.wait(POLL_S)
            self._check()
            if self._config.strategy.setting("policy") == "quorum" and not self._drops_batches:
                busy_workers = {
                    worker for worker, _ in self._portions
                } | self._assigned_batches.keys()
                idle_count = len(self._live_workers - busy_workers)
                if idle_count and idle_count >= QUORUM * len(self._live_workers):
                    self._drops_batches = True
                    self._portions.clear()
            return not self._portions and not self._assigned_batches

    def _evaluate(self) -> dict[str, float] | None:
        self._resume()
        values = super()._evaluate()
        self._pause()
        return values

    def _end(self, outcome: Outcome) -> None:
        super()._end(outcome)
        for channel in self._server_channels:
            channel.send({"kind": "end", "finished": outcome is Outcome.FINISHED})

    # --- checkpoints ---------------------------------------------------------------------------

    def _rank_states(self) -> list[Any]:
        """Collect the common state of all servers while the workers are paused."""
        self._gather_servers()
        return self._gather_workers()

    def _gather_servers(self) -> None:
        shard = self._shard
        full_state = shard.optimizer.state_dict()
        for channel, parameters in zip(self._server_channels, shard.shards[1:], strict=True):
            channel.send({"kind": "state"})
            message, values = channel.receive(partial(sent_parameters, parameters))
            full_state["state"] |= message["state"]
            fill_tensors(sent_parameters(parameters, message), values)
        if self._server_channels:
            shard.optimizer.load_state_dict(full_state)

    # --- the workers' threads ------------------------------------------------------------------

    def _answer(
        self, worker: int, channel: Channel, message: Any, tensors: Sequence[torch.Tensor]
    ) -> bool:
        if message["kind"] == "push":
            self._waiting_workers.add(worker)
        return super()._answer(worker, channel, message, tensors)

    def _reply(
        self, worker: int, channel: Channel, message: Any, tensors: Sequence[torch.Tensor]
    ) -> tuple[dict[str, Any], list[torch.Tensor]]:
        self._waiting_workers.discard(worker)
        if message["kind"] != "push":
            return super()._reply(worker, channel, message, tensors)
        self._apply_push(worker, message, tensors)
        self._wait_for_answer(worker, channel, lambda: {"kind": "go"})
        drop = self._drops_batches or self._is_finished is not None
        answer = {"kind": "go", "rate": self._rate(), "drop": drop}
        return self._with_parameters(worker, answer) if message["fetch"] else (answer, [])

    def _parameters_for(self, worker: int) -> tuple[bytes, list[torch.Tensor]]:
        return self._shard.trained, self._shard.server.pull(worker)

    def _next_task(self, worker: int) -> dict[str, Any] | None:
        for portion in self._portions:
            if portion[0] in (None, worker):
                self._portions.remove(portion)
                if not portion[1]:
                    return None
                self._assigned_batches[worker] = list(portion[1])
                return {
                    "kind": "train",
                    "order": (self._order.epoch, self._order.position, self._order.done_spans),
                    "batches": portion[1],
                    "rate": self._rate(),
                }
        return None

    def _process_report(self, worker: int, message: Any, tensors: Sequence[torch.Tensor]) -> None:
        super()._process_report(worker, message, tensors)
        if message["kind"] == "done":
            self._assigned_batches.pop(worker, None)

    def _rate(self) -> float:
        state = self._state
        step = (state.epoch - 1) * self._steps_per_epoch + self._epoch_steps
        return learning_rate(self._config, self._steps_per_epoch, step, plateaus=state.plateaus)

    def _apply_push(self, worker: int, message: Any, gradients: Sequence[torch.Tensor]) -> None:
        """Apply a push, and record it as a step of the job."""
        shard, state = self._shard, self._state
        now_s = time.perf_counter()
        shard.apply(worker, message, gradients)
        self._commit(hold=False)
        self._step_ms[worker] = message["ms"]
        self._rank_steps[worker] = RankStep(*message["parts"])
        state.step += 1
        state.epoch_step += 1
        for number in message["batches"]:
            state.done_spans += spans(self._batch_positions[number])
            state.position += len(self._batch_positions[number])
        batch_numbers = self._assigned_batches.get(worker)
        if batch_numbers is not None:
            del batch_numbers[: len(message["batches"])]
        # Pushes that are on their way come first, so it may be some steps later.
        must_pause = self._services.watcher.is_requested or self._is_due()
        self._is_paused |= must_pause and self._has_batches_left()
        since_last_push_s = now_s - self._last_push_s
        self._last_push_s = now_s
        sample_count = sum(len(self._batch_positions[number]) for number in message["batches"])
        metrics = {
            **shard.server.staleness.metrics(),
            **self._push_rate.add(now_s, sample_count),
            "server queue": float(len(self._waiting_workers)),
        }
        pending_step = PendingStep(
            *(state.step, state.epoch, state.epoch_step, message["rate"], since_last_push_s),
            *(self._config.gradient_norm is not None, metrics),
        )
        self._held_step = pending_step, self._step_result(worker, message)

    def _step_result(self, worker: int, message: Any) -> StepResult:
        ranks, loss = range(self._rendezvous.world_size), message["loss"]
        has_all_parts = self._live_workers <= self._rank_steps.keys()
        return StepResult(
            stop=False,
            save=False,
            loss=loss,
            norm=message["norm"],
            norm_rank=worker,
            has_nan_buffer=message["has_nan_buffer"],
            metrics=message["metrics"],
            losses=tuple(loss if rank == worker else 0.0 for rank in ranks),
            rank_step_ms=tuple(self._step_ms.get(rank, 0.0) for rank in ranks),
            rank_steps=tuple(self._rank_steps.get(rank, RankStep()) for rank in ranks)
            if has_all_parts
            else (),
        )

    def _reassign_work(self, worker: int) -> None:
        """Give the batches of a lost worker to the others, in this epoch or the next."""
        self._rank_steps.pop(worker, None)
        batch_numbers = self._assigned_batches.pop(worker, [])
        portions = [portion for portion in self._portions if portion[0] != worker]
        if self._config.strategy.setting("policy") == "portion" and batch_numbers:
            portions.append((None, batch_numbers))
        self._portions = deque(portions)
        self._shard.server.release(worker)
