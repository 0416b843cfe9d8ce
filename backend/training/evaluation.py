"""Validation of every sample once, on all ranks, with one result for any number of ranks.

Each rank keeps the values of its batches separately; at the end all are put in order and averaged
by the number of samples, so the result is bitwise identical on one rank and on many (the batches
are dealt whole, see `data.ValidationOrder`).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from backend.base.errors import BackendError
from backend.records.jobs.heartbeat import Phase, RankHeartbeat
from backend.records.jobs.metric_names import VALIDATION, name_of_user_metric
from backend.training import average_precision, user_code
from backend.training.data import ValidationOrder
from backend.training.error_report import VALIDATION_STAGE
from backend.training.fixed_samples import Answer, AnswerReader
from backend.training.strategies.base import Strategy

if TYPE_CHECKING:
    from backend.training.train_state import Batch


_DTYPES = {"bfloat16": torch.bfloat16, "float16": torch.float16}


def precision(device: torch.device, name: str) -> AbstractContextManager[Any]:
    """Return the context of a forward pass with this setting ``precision``."""
    dtype = _DTYPES.get(name)
    return nullcontext() if dtype is None else torch.autocast(device.type, dtype)


def set_precision(device: torch.device, name: str) -> None:
    """Choose the multiplication of 32-bit numbers on GPUs.

    Raises:
        BackendError: The GPU cannot compute in this precision.
    """
    if device.type == "cuda":
        # TF32 and bfloat16 came with the same generation of GPUs.
        is_new = torch.cuda.get_device_capability(device) >= (8, 0)
        if name in ("tf32", "bfloat16") and not is_new:
            raise BackendError(
                f"{torch.cuda.get_device_name(device)} cannot compute in {name}.",
                "Choose the precision float16 or float32, or a GPU of the generation of 2020 "
                "(Ampere) or later.",
            )
        torch.set_float32_matmul_precision("high" if name == "tf32" else "highest")


_STOP_CHECK_S = 0.25


class Evaluation:
    def __init__(
        self,
        batches: torch.utils.data.DataLoader[Any],
        order: ValidationOrder,
        strategy: Strategy,
        device: torch.device,
        beat: RankHeartbeat,
        batch: Batch,
        precision_name: str,
        answers: AnswerReader | None = None,
    ) -> None:
        """``answers``: reads those for the fixed samples; None without them."""
        self._batches = batches
        self._order = order
        self._strategy = strategy
        self._device = device
        self._beat = beat
        self._batch = batch
        self._precision_name = precision_name
        self._answers = answers
        self.sample_answers: dict[int, Answer] = {}
        """Those of the last validation, by the numbers of the samples."""

    @contextmanager
    def _as_validation(self) -> Iterator[None]:
        """Let an error of the batch be one of the validation."""
        self._batch.stage = VALIDATION_STAGE
        yield
        self._batch.stage = ""

    def rehearse(self, model: torch.nn.Module) -> float:
        """Compute the first batch and the last, smallest batch, so that errors show at once.

        Return the seconds of a batch. The first batch is computed again for that: the first time a
        device chooses its kernels and a model may be compiled.
        """
        model.eval()
        batches, load_s = [], []
        with self._as_validation(), torch.no_grad():
            for number in dict.fromkeys((0, self._order.batch_count - 1)):
                start_s = time.perf_counter()
                batches.append(self._read_batch(number))
                load_s.append(time.perf_counter() - start_s)
                self.compute_values(model, batches[-1])
            start_s = time.perf_counter()
            self.compute_values(model, batches[0])
        compute_s, workers = time.perf_counter() - start_s, self._batches.num_workers
        return max(compute_s, load_s[0] / workers) if workers else compute_s + load_s[0]

    def _read_batch(self, number: int) -> Any:
        """Return a batch that this process reads itself."""
        items: Any = self._batches.dataset
        return self._batches.collate_fn(items.__getitems__(self._order.batch_indices(number)))

    def run(
        self,
        model: torch.nn.Module,
        stop_is_requested: Callable[[], bool],
        on_batch: Callable[[int], None] | None = None,
    ) -> dict[str, float] | None:
        """Return loss and metrics of the whole validation set; None if the ranks agreed to stop.

        The ranks agree on a stop every few batches: often enough to stop soon, rarely enough to
        cost nothing. The interval is derived from times that all ranks share. ``on_batch`` gets the
        number of this rank's finished batches.
        """
        model.eval()
        batch_values: list[tuple[int, BatchValues]] = []
        batches = iter(self._batches)
        numbers = self._order.batch_numbers()
        batches_to_check = 1
        checked_s = time.perf_counter()
        with self._as_validation(), torch.no_grad():
            for index in range(self._order.max_batch_count):
                self._beat.beat(Phase.EVALUATING)
                if index < len(numbers):
                    values = self.compute_values(model, next(batches), numbers[index])
                    batch_values += [(numbers[index], values)] if values is not None else []
                elif self._strategy.has_collective_forward:
                    # A rank that has no batch left takes part in the passes of the others.
                    self.compute_values(model, self._read_batch(0))
                if on_batch is not None:
                    on_batch(index + 1)
                batches_to_check -= 1
                if batches_to_check == 0:
                    took_s = time.perf_counter() - checked_s
                    local_values = torch.tensor(
                        [float(stop_is_requested()), took_s], dtype=torch.float64
                    )
                    self._beat.beat(Phase.WAITING_FOR_OTHERS)
                    request, seconds = self._strategy.sum_over_ranks(local_values).tolist()
                    if request > 0:
                        return None
                    # In the first round one batch was timed, later as many as the interval has.
                    mean = seconds / self._strategy.world_size / max(1, self._batches_per_check)
                    batches_to_check = max(1, min(10_000, int(_STOP_CHECK_S / max(mean, 1e-9))))
                    self._batches_per_check = batches_to_check
                    checked_s = time.perf_counter()
        self._batches_per_check = 1
        self._beat.beat(Phase.WAITING_FOR_OTHERS)
        cost_share = self._answers.cost_share if self._answers is not None else 0.0
        messages = self._strategy.gather(
            ([(n, v.to_message()) for n, v in batch_values], cost_share)
        )
        if self._answers is not None:
            self._answers.agree([share for _, share in messages])
        all_values = [(n, BatchValues.from_message(v)) for rank, _ in messages for n, v in rank]
        self.sample_answers = answers_of(all_values)
        return average_values(all_values, self._order)

    @property
    def max_batch_count(self) -> int:
        """Number of batches of one rank."""
        return self._order.max_batch_count

    _batches_per_check = 1

    def compute_values(
        self, model: torch.nn.Module, batch: Any, number: int | None = None
    ) -> BatchValues | None:
        """Return loss and metrics of one batch; None if another rank has its output.

        Args:
            number: The number of the batch; None in a rehearsal.
        """
        data, target = user_code.split_batch(batch)
        on_gpu = self._device.type == "cuda"
        if on_gpu:
            data = user_code.to_device(data, self._device)
            target = user_code.to_device(target, self._device)
        self._batch.data, self._batch.target = data, target
        with precision(self._device, self._precision_name):
            output = self._strategy.output(model, data)
            if output is None:
                return None
            loss, weight = user_code.compute_weighted_loss(model, output, target)
        metrics = user_code.compute_metrics(model, output, target)
        values = BatchValues.of_batch(loss, metrics, output, target, weight)
        if self._answers is not None and number is not None:
            values = values._replace(answers=self._answers.read(number, output))
        elif self._answers is not None:
            self._answers.learn(model, output, target)
        return values


class BatchValues(NamedTuple):
    """Loss and metrics of a batch by the names of their columns, and the matches of detections.

    Those that are a mean over a weight of their own, and not over the samples, are in ``weights``.
    """

    values: dict[str, float]
    weights: dict[str, float]
    pictures: list[average_precision.PictureMatches]
    answers: dict[int, Answer]
    """The answers for the fixed samples in it, by their numbers."""

    @classmethod
    def of_batch(
        cls,
        loss: torch.Tensor,
        metrics: Mapping[str, float],
        output: Any,
        target: Any,
        weight: float | None = None,
    ) -> BatchValues:
        mean = float(loss)
        if weight is not None:
            mean = user_code.WeightedMean.with_weight(mean, weight)
        values = {"loss": mean, **{name_of_user_metric(n): v for n, v in metrics.items()}}
        weights = {n: v.weight for n, v in values.items() if isinstance(v, user_code.WeightedMean)}
        plain_values = {name: float(value) for name, value in values.items()}
        return cls(plain_values, weights, average_precision.matches_of(output, target), {})

    def to_message(self) -> list[Any]:
        """Return the values for another rank, which gets them back by `from_message`."""
        return [self.values, self.weights, self.pictures, self.answers]

    @classmethod
    def from_message(cls, message: list[Any]) -> BatchValues:
        values, weights, pictures, answers = message
        matches = [average_precision.PictureMatches(*picture) for picture in pictures]
        return cls(values, weights, matches, answers)


def answers_of(batch_values: Iterable[tuple[int, BatchValues]]) -> dict[int, Answer]:
    """Return the answers for the fixed samples in all batches."""
    return {index: a for _, batch in batch_values for index, a in batch.answers.items()}


def average_values(
    batch_values: list[tuple[int, BatchValues]], order: ValidationOrder
) -> dict[str, float]:
    """Return the mean over all samples; ``batch_values`` has the number and values of each batch.

    A value with a weight counts by that weight, the others by the samples of their batch. The
    average precision of detections is no mean of batches, but computed from all their matches.
    """
    batch_values.sort(key=lambda part: part[0])
    pictures = [picture for _, batch in batch_values for picture in batch.pictures]
    names = dict.fromkeys(name for _, batch in batch_values for name in batch.values)
    means = {}
    for name in names:
        parts = [
            (batch.weights.get(name, order.size_of(number)), batch.values[name])
            for number, batch in batch_values
            if name in batch.values
        ]
        weight = sum(size for size, _ in parts)
        is_finite = all(math.isfinite(value) for _, value in parts)
        means[VALIDATION + name] = (
            math.fsum(size * value for size, value in parts) / weight
            if is_finite and weight
            else math.nan
        )
    for name, value in average_precision.mean_precisions(pictures).items():
        means.setdefault(VALIDATION + name, value)
    return means
