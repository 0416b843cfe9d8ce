"""Worker of a job that rank 0 leads: does the tasks of rank 0, and pushes gradients.

The worker sends requests and a server answers. It requests a task from rank 0, trains on the task's
batches with one push after each `n_push` steps, and requests the next. Parameters come back with
the answer to a push, every `n_fetch` steps; in between the worker applies its pushes to its own
parameters, as in Dean et al. (NIPS 2012), algorithm 7.1. For a coordinator it sums the gradients of
a portion.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import compress
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import Sampler

from backend.base.errors import BackendError
from backend.records.jobs.heartbeat import Phase, RankHeartbeat
from backend.records.jobs.launch import Launch
from backend.training import user_code
from backend.training.checkpoint import load_checkpoint
from backend.training.checkpoint_content import (
    freeze,
    frozen_names,
    random_state,
    restore_buffers,
    restore_random_state,
)
from backend.training.data import (
    BatchIndices,
    TrainingOrder,
    ValidationOrder,
    deal_portions,
    make_loader,
    seed_everything,
)
from backend.training.evaluation import Evaluation, precision, set_precision
from backend.training.finite import BufferWatch, norm_of
from backend.training.fixed_samples import AnswerReader
from backend.training.lazy_dynamo import compile_model
from backend.training.optimizer import served_parameters
from backend.training.parameter_server import sent_parameters, shard_indices, trained_flags
from backend.training.step_sync import mean_metrics
from backend.training.step_times import CpuWait
from backend.training.strategies.base import SingleProcess, fill_tensors, trainable_parameters
from backend.training.strategies.channel import Channel
from backend.training.strategies.rendezvous import Rendezvous
from backend.training.subject import Subject, collect_traits, open_subject
from backend.training.train_state import Batch, Outcome
from backend.training.weights_file import fit_weights, load_weights


class TaskSampler(Sampler[BatchIndices]):
    """The batches of a task; set before each pass."""

    def __init__(self) -> None:
        self.batches: Sequence[BatchIndices] = ()

    def __len__(self) -> int:
        return len(self.batches)

    def __iter__(self) -> Iterator[BatchIndices]:
        return iter(self.batches)


@dataclass
class AsyncWorker:
    launch: Launch
    rendezvous: Rendezvous
    device: torch.device
    beat: RankHeartbeat
    batch: Batch = field(default_factory=Batch)

    def run(self) -> Outcome:
        self._set_up()
        answer = self._request({"kind": "ready", "traits": self._traits})
        while answer["kind"] != "end":
            gradients: list[torch.Tensor] = []
            if answer["kind"] == "train":
                result = self._train(answer)
            elif answer["kind"] == "portion":
                result, gradients = self._portion(answer)
            elif answer["kind"] == "evaluate":
                result = self._evaluate(answer)
            else:
                result = {"kind": "ready"}
            answer = self._request(result, gradients)
        del self._batches, self._evaluation
        return Outcome.FINISHED if answer["finished"] else Outcome.INTERRUPTED

    def _set_up(self) -> None:
        config, strategy = self.launch.config, self.launch.config.strategy
        set_precision(self.device, config.precision)
        self.beat.beat(Phase.WAITING_FOR_OTHERS)
        self._servers = [
            Channel(self.rendezvous, self.rendezvous.rank, server, keepalive=True)
            for server in range(strategy.servers)
        ]
        self.beat.beat(Phase.SETUP)
        worker_number = self.rendezvous.rank - strategy.servers
        subject = open_subject(self.launch, self.device, worker_number, self.beat)
        self._model = subject.model
        frozen_names = self._read_weights(subject, worker_number)
        if config.compile:
            compile_model(self._model)
        self._traits = collect_traits(subject, self.launch, self.device)
        self._sizes = self._traits[0]
        self._epoch_batches: tuple[object, list[BatchIndices]] = (None, [])
        self._make_loaders(subject)
        self._buffer_watch = BufferWatch(
            self._model, self.device, may_restore=not self.launch.config.stop_on_nan
        )
        self._weights = subject.training.weights()
        if self._weights is not None and strategy.has_coordinator:
            raise BackendError(
                "A loader with weights cannot be used with “sandblaster”, each step of which takes "
                "every sample once.",
                "Choose another strategy, or remove weights from the loader.",
            )
        self._parameters = served_parameters(self._model)
        # A gradient has its parameter's shape, and is sent from the CPU.
        self._shards = [
            [self._parameters[index] for index in indices]
            for indices in shard_indices(self._parameters, strategy.servers)
        ]
        if frozen_names is not None:
            freeze(self._model, frozen_names)
        self._steps_since_fetch = 0
        self._cpu_wait = CpuWait(torch.get_num_threads())
        self._exchange_ms = 0.0

    def _make_loaders(self, subject: Subject) -> None:
        config, on_gpu = self.launch.config, self.device.type == "cuda"
        self._training_sampler, self._validation_sampler = TaskSampler(), TaskSampler()
        self._batches = make_loader(
            subject.training, self._training_sampler, config.loader_workers, on_gpu
        )
        self._evaluation: Evaluation | None = None
        if subject.validation is not None:
            self._validation_order = ValidationOrder(self._sizes[1], config.batch_size, 0, 1)
            self._validation = make_loader(
                subject.validation, self._validation_sampler, config.loader_workers, on_gpu
            )
            self._evaluation = Evaluation(
                *(self._validation, self._validation_order, SingleProcess(), self.device),
                *(self.beat, self.batch, config.precision),
                AnswerReader(self._validation_order, self._sizes[1])
                if config.follow_samples
                else None,
            )
            saved_random = random_state(self.device)
            self._evaluation.rehearse(self._model)
            restore_random_state(saved_random, self.device)

    def _read_weights(self, subject: Subject, number: int) -> list[str] | None:
        """Read the first weights of the job: servers send only the trained parameters.

        Return the parameters that were frozen when the checkpoint was saved, if it has them.
        """
        launch = self.launch
        path = Path(launch.resume_from or launch.start_from)
        if launch.resume_from:
            checkpoint = load_checkpoint(path)
            fit_weights(self._model, checkpoint["model"], path.name)
            ranks = checkpoint["ranks"]
            rank_state = ranks[number if len(ranks) == launch.config.workers else 0]
            names: list[str] | None = rank_state.get("frozen")
            return names
        if launch.start_from:
            leave_out, weights = launch.config.start_from_except, load_weights(path)
            fit_weights(self._model, weights, path.name, subject.pass_batch, leave_out)
        return None

    @cached_property
    def _order(self) -> TrainingOrder:
        config = self.launch.config
        samples, size = self._sizes[0], config.batch_size
        return TrainingOrder(samples, size, 0, 1, config.seed, weights=self._weights)

    @cached_property
    def _portions(self) -> list[list[BatchIndices]]:
        config = self.launch.config
        size = config.strategy.setting("portion")
        return deal_portions(self._sizes[0], size, config.batch_size, config.seed)

    def _request(self, message: dict[str, Any], gradients: Sequence[torch.Tensor] = ()) -> Any:
        """Send to rank 0, and return its answer; use the parameters that come with it."""
        self.beat.beat(Phase.WAITING_FOR_OTHERS)
        head = self._servers[0]
        head.send(message, gradients)
        while True:
            answer, values = head.receive(partial(sent_parameters, self._shards[0]))
            if answer["kind"] != "state":
                break
            head.send(self._state())
        if values:
            fill_tensors(sent_parameters(self._shards[0], answer), values)
        if "state" in answer:
            restore_buffers(self._model, answer["state"]["buffers"])
            restore_random_state(answer["state"]["random"], self.device)
        self.beat.beat(Phase.COMPUTING)
        return answer

    def _state(self) -> dict[str, Any]:
        state = {"random": random_state(self.device), "buffers": self._buffers()}
        return {**state, "frozen": frozen_names(self._model)}

    def _buffers(self) -> dict[str, torch.Tensor]:
        return {name: buffer.detach().cpu() for name, buffer in self._model.named_buffers()}

    def _untrained(self) -> list[str]:
        """Return the parameters that the model has replaced or added, unknown to the servers."""
        parameter_ids = {id(parameter) for parameter in self._parameters}
        return [
            name
            for name, parameter in trainable_parameters(self._model).items()
            if id(parameter) not in parameter_ids
        ]

    def _fetch(self) -> None:
        """Fetch the parameters of the other servers; rank 0's come with its answer."""
        for server, shard in zip(self._servers[1:], self._shards[1:], strict=True):
            server.send({"kind": "pull"})
            _receive_parameters(server, shard)

    def _train(self, task: dict[str, Any]) -> dict[str, Any]:
        strategy = self.launch.config.strategy
        self._fetch()
        self._model.train()
        if self._epoch_batches[0] != task["order"]:
            self._order.seek(*task["order"])
            self._epoch_batches = (
                task["order"],
                list(self._order.batches(self._order.remaining_batches())),
            )
        numbers = task["batches"]
        self._training_sampler.batches = [self._epoch_batches[1][number] for number in numbers]
        batch_numbers: list[int] = []
        losses: list[float] = []
        metrics: list[dict[str, float]] = []
        rate = task["rate"]
        for parameter in self._parameters:
            parameter.grad = None
        batches = iter(self._batches)
        for index, number in enumerate(numbers):
            started_s = time.perf_counter()
            self.beat.beat(Phase.LOADING_DATA)
            self.batch.stage = "loader"
            data, target = user_code.split_batch(next(batches))
            loaded_s = time.perf_counter()
            self._cpu_wait.begin_step()
            if not batch_numbers:
                self._buffer_watch.save()
            push = self._step(data, target)
            wait_ms = self._cpu_wait.end_step()
            batch_numbers.append(number)
            losses.append(push["loss"])
            metrics.append(push["metrics"])
            self._steps_since_fetch += 1
            is_last = index == len(numbers) - 1
            if len(batch_numbers) < strategy.setting("n_push") and not is_last:
                continue
            ended_s = time.perf_counter()
            # The exchange of the previous push, as this push is not sent yet.
            parts = [
                (loaded_s - started_s) * 1e3,
                (ended_s - loaded_s) * 1e3,
                self._exchange_ms,
                wait_ms,
            ]
            push |= {"batches": batch_numbers, "ms": (ended_s - started_s) * 1e3, "parts": parts}
            push["loss"], push["metrics"] = sum(losses) / len(losses), mean_metrics(metrics)
            push |= self._check_push(push["loss"])
            is_fetch = self._steps_since_fetch >= strategy.setting("n_fetch") or is_last
            answer = self._push(push | {"fetch": is_fetch, "rate": rate})
            self._exchange_ms = (time.perf_counter() - ended_s) * 1e3
            if is_fetch:
                self._steps_since_fetch = 0
            elif push["counts"]:
                with torch.no_grad():
                    for parameter in self._parameters:
                        if parameter.grad is not None:
                            parameter.sub_(parameter.grad, alpha=rate)
            for parameter in self._parameters:
                parameter.grad = None
            batch_numbers, losses, metrics, rate = [], [], [], answer["rate"]
            if answer["drop"]:
                break
        del batches
        return {"kind": "done", "buffers": self._buffers(), "untrained": self._untrained()}

    def _portion(self, task: dict[str, Any]) -> tuple[dict[str, Any], list[torch.Tensor]]:
        """Sum loss, metrics and gradients over the samples of a portion."""
        started_s = time.perf_counter()
        self._model.train()
        parameters = list(compress(self._shards[0], task["trained"]))
        for parameter in self._parameters:
            parameter.grad = None
        for parameter in parameters:
            # Another worker's model has thawed it, and all workers have one loss.
            parameter.requires_grad_()
        self._training_sampler.batches = shares = self._portions[task["number"]]
        loss, metrics, counts = 0.0, dict[str, float](), dict[str, int]()
        self._buffer_watch.save()
        batches = iter(self._batches)
        for share in shares:
            self.beat.beat(Phase.LOADING_DATA)
            self.batch.stage = "loader"
            seed_everything(share.number)
            data, target = user_code.split_batch(next(batches))
            values = self._step(data, target, len(share))
            loss += len(share) * values["loss"]
            for name, value in values["metrics"].items():
                metrics[name] = metrics.get(name, 0.0) + len(share) * value
                counts[name] = counts.get(name, 0) + len(share)
        del batches
        push_check = self._check_push(loss)
        result = {
            **push_check,
            "kind": "portion",
            "number": task["number"],
            "samples": sum(len(share) for share in shares),
            "loss": loss,
            "metrics": metrics,
            "counts": counts,
            "buffers": self._buffers(),
            "untrained": self._untrained(),
            "trains": trained_flags(self._shards[0]),
            "sent": task["trained"],
            "ms": (time.perf_counter() - started_s) * 1e3,
        }
        return result, [_gradient(parameter) for parameter in parameters]

    def _step(self, data: Any, target: Any, weight: float = 1.0) -> dict[str, Any]:
        """Add the gradients of one batch; return its loss and metrics."""
        self.beat.beat(Phase.COMPUTING)
        if self.device.type == "cuda":
            data = user_code.to_device(data, self.device)
            target = user_code.to_device(target, self.device)
        self.batch.data, self.batch.target, self.batch.stage = data, target, "forward"
        with precision(self.device, self.launch.config.precision):
            output = user_code.compute_output(self._model, data)
            loss = user_code.compute_loss(self._model, output, target)
        metrics = user_code.compute_metrics(self._model, output, target)
        self.batch.stage = "backward"
        torch.autograd.backward(loss * weight)
        return {"kind": "push", "loss": loss.item(), "metrics": metrics}

    def _check_push(self, loss: float) -> dict[str, Any]:
        """Clip the gradient; return its previous norm, and whether the push counts.

        The buffers of a push that does not count are restored.
        """
        limit = self.launch.config.gradient_norm
        gradients = [p.grad for p in self._parameters if p.grad is not None]
        norm = norm_of([g.to_dense() if g.is_sparse else g for g in gradients])
        if limit is not None:
            torch._foreach_mul_(gradients, (limit / (norm + 1e-6)).clamp(max=1.0))
        nan_buffer = self._buffer_watch.has_nan()
        is_nan = nan_buffer is not None and bool(nan_buffer)
        counts = math.isfinite(loss) and bool(norm.isfinite()) and not is_nan
        if not counts:
            self._buffer_watch.restore()
        return {"norm": float(norm), "has_nan_buffer": is_nan, "counts": counts}

    def _push(self, push: dict[str, Any]) -> Any:
        """Push to the other servers first, so that all have applied the pushes that rank 0 has."""
        servers = zip(self._servers[1:], self._shards[1:], strict=True)
        for server, shard in reversed(list(servers)):
            server.send({**push, "sent": _used_flags(shard)}, _gradients(shard))
            _receive_parameters(server, shard)
        first_shard = self._shards[0]
        return self._request({**push, "sent": _used_flags(first_shard)}, _gradients(first_shard))

    @torch.no_grad()
    def _evaluate(self, task: dict[str, Any]) -> dict[str, Any]:
        assert self._evaluation is not None
        self._fetch()
        restore_buffers(self._model, task["buffers"])
        saved_random = random_state(self.device)
        self._model.eval()
        self._validation_sampler.batches = [
            self._validation_order.batch_indices(n) for n in task["batches"]
        ]
        values: list[tuple[int, Any]] = []
        for number, batch in zip(task["batches"], self._validation, strict=True):
            self.beat.beat(Phase.EVALUATING)
            batch_values = self._evaluation.compute_values(self._model, batch, number)
            assert batch_values is not None, "each worker has the whole network"
            values.append((number, batch_values.to_message()))
        # Before parameters are fetched: adapters that are merged for the evaluation change them.
        self._model.train()
        restore_random_state(saved_random, self.device)
        return {"kind": "values", "values": values, "piece": task["piece"]}


def _receive_parameters(server: Channel, shard: Sequence[torch.nn.Parameter]) -> None:
    """Receive a server's answer with its parameters, and use them."""
    answer, values = server.receive(partial(sent_parameters, shard))
    fill_tensors(sent_parameters(shard, answer), values)


def _used_flags(shard: Sequence[torch.nn.Parameter]) -> bytes:
    """Return a flag for each parameter: whether the steps used it."""
    return bytes(parameter.grad is not None for parameter in shard)


def _gradients(shard: Sequence[torch.nn.Parameter]) -> list[torch.Tensor]:
    """Return the gradients of the parameters that the steps used."""
    return [_gradient(parameter) for parameter in shard if parameter.grad is not None]


def _gradient(parameter: torch.nn.Parameter) -> torch.Tensor:
    """Return the dense gradient, zeros without one."""
    gradient = parameter.grad
    if gradient is None:
        return torch.zeros_like(parameter)
    return gradient.to_dense() if gradient.is_sparse else gradient
