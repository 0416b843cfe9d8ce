"""Asynchronous training in one process, with a simulated delay and without chance.

Each virtual worker computes its gradient on the parameters that it pulled; `Delays` has the order
of the pushes. So the effect of staleness shows without effects of speed.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from backend.records.jobs.heartbeat import RankHeartbeat
from backend.records.jobs.launch import Launch
from backend.records.jobs.lr_schedule import learning_rate
from backend.records.jobs.simulation import SimulatedEpoch
from backend.training import user_code
from backend.training.data import TrainingOrder, ValidationOrder, make_loader
from backend.training.evaluation import Evaluation
from backend.training.optimizer import make_optimizer, trained_parameters
from backend.training.parameter_server import Delays, ParameterServer
from backend.training.strategies.base import SingleProcess, fill_tensors
from backend.training.subject import open_subject
from backend.training.train_state import Batch


class Simulator:
    """Simulator of a job of one server and ``delays.workers`` virtual workers, on the CPU."""

    def __init__(self, launch: Launch, delays: Delays) -> None:
        config = self._config = launch.config
        beat = RankHeartbeat.inherited()
        device = torch.device("cpu")
        subject = open_subject(launch, device, 0, beat)
        self.model = subject.model
        self._order = TrainingOrder(
            len(subject.training),
            config.batch_size,
            0,
            1,
            config.seed,
            weights=subject.training.weights(),
        )
        self._batches = make_loader(subject.training, self._order, config.loader_workers, False)
        self._evaluation: Evaluation | None = None
        if subject.validation is not None:
            order = ValidationOrder(len(subject.validation), config.batch_size, 0, 1)
            batches = make_loader(subject.validation, order, config.loader_workers, False)
            self._evaluation = Evaluation(
                batches, order, SingleProcess(), device, beat, Batch(), precision_name="float32"
            )
        self._parameters = trained_parameters(self.model)
        optimizer = make_optimizer(config, self.model, self._parameters)
        self._server = ParameterServer(self._parameters, optimizer, config.strategy)
        self._copies = {worker: self._server.pull(worker) for worker in range(delays.workers)}
        pushes = config.epochs * self._order.steps_per_epoch
        self._arrivals = iter(delays.arrivals(pushes))

    def run(self, on_step: Callable[[int], None] = lambda step: None) -> list[SimulatedEpoch]:
        """Train all epochs; ``on_step`` gets the number of each update."""
        return [self._epoch(epoch, on_step) for epoch in range(1, self._config.epochs + 1)]

    def _epoch(self, epoch: int, on_step: Callable[[int], None]) -> SimulatedEpoch:
        self._order.epoch = epoch
        self.model.train()
        losses, staleness = [], []
        steps_per_epoch = self._order.steps_per_epoch
        for index, batch in enumerate(self._batches):
            step = (epoch - 1) * steps_per_epoch + index
            on_step(step + 1)
            worker = next(self._arrivals)
            loss, gradients = self._gradients(worker, batch)
            rate = learning_rate(self._config, steps_per_epoch, step)
            losses.append(loss)
            if math.isfinite(loss):
                staleness.append(self._server.push(worker, gradients, rate))
            self._copies[worker] = self._server.pull(worker)
        values = self._evaluation.run(self.model, lambda: False) if self._evaluation else {}
        return SimulatedEpoch(
            epoch,
            len(losses),
            sum(losses) / len(losses),
            sum(staleness) / max(1, len(staleness)),
            max(staleness, default=0),
            values or {},
        )

    def _gradients(self, worker: int, batch: object) -> tuple[float, list[torch.Tensor | None]]:
        """Return loss and gradients of a batch with the worker's parameters."""
        server_values = [parameter.detach().clone() for parameter in self._parameters]
        fill_tensors(self._parameters, self._copies[worker])
        for parameter in self._parameters:
            parameter.grad = None
        data, target = user_code.split_batch(batch)
        output = user_code.compute_output(self.model, data)
        loss = user_code.compute_loss(self.model, output, target)
        torch.autograd.backward(loss)
        limit = self._config.gradient_norm
        if limit is not None:
            gradients = [p.grad for p in self._parameters if p.grad is not None]
            norm = torch.nn.utils.get_total_norm(gradients)
            torch._foreach_mul_(gradients, (limit / (norm + 1e-6)).clamp(max=1.0))
        fill_tensors(self._parameters, server_values)
        return loss.item(), [p.grad for p in self._parameters]
