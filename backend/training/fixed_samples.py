"""Answers of the model for ten fixed validation samples: rows of the validation's outputs.

The validation computes these outputs anyway. So no sample is passed once more, no random number is
drawn, and the answers travel to rank 0 with the values of their batches, with every strategy.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from backend.base.log import swallowed
from backend.records.jobs import sample_history
from backend.records.jobs.heartbeat import Phase, RankHeartbeat
from backend.records.jobs.prediction import Guess, PredictedSample
from backend.records.library.preview import SamplePreview
from backend.training import average_precision
from backend.training.checkpoint_content import random_state, restore_random_state
from backend.training.data import ValidationOrder
from backend.training.reporter import Reporter
from backend.training.tools.batch_form import BatchForm, batch_form
from backend.training.tools.prediction_results import (
    class_name,
    picture_boxes,
    read_boxes,
    sample_parts,
)
from backend.training.tools.preview import class_names, spread_indices
from backend.training.tools.thumbnails import target_text
from backend.training.user_code import UserCodeError, UserData, split_batch

Answer = list[list[float]]
"""The most probable class and its share, or class, score and corners of each box."""
_COST_LIMIT = 0.02
"""The most that the answers may cost, as a share of the time since the rehearsal."""
_OTHER_FORM = (LookupError, TypeError, AttributeError, ValueError, RuntimeError)
"""Errors of an output that has another form than that of the first batch."""


def fixed_indices(count: int) -> list[int]:
    """Return the fixed samples of a validation set: the same in each run of a job."""
    return spread_indices(count, min(sample_history.SAMPLE_COUNT, count))


class AnswerReader:
    """Takes the answers for the fixed samples out of the outputs of a rank.

    Attributes:
        is_due: The next validation has answers: they have cost less than their limit.
    """

    def __init__(self, order: ValidationOrder, samples: int) -> None:
        self._order = order
        self._indices = fixed_indices(samples)
        self._form: BatchForm | None = None
        self._has_boxes = False
        self._started_s, self._spent_s = time.perf_counter(), 0.0
        self.is_due = True

    def learn(self, model: torch.nn.Module, output: Any, target: Any) -> None:
        """Find out what can be shown of the output for the first batch."""
        if self._form is not None:
            return
        self._has_boxes = bool(average_precision.matches_of(output, target))
        try:
            self._form = batch_form(model, output, target, self._order.size_of(0))
        except _OTHER_FORM as error:
            swallowed(error)
        if not self._has_boxes and (self._form is None or self._form.classes is None):
            self._indices = []
        self._started_s = time.perf_counter()

    def read(self, number: int, output: Any) -> dict[int, Answer]:
        """Return the answers for the fixed samples in a batch, by their numbers in the set."""
        size, start = self._order.size_of(number), number * self._order.size_of(0)
        indices = [index for index in self._indices if start <= index < start + size]
        if not self.is_due or not indices:
            return {}
        start_s = time.perf_counter()
        try:
            rows = [index - start for index in indices]
            if self._has_boxes:
                return {start + row: _best_boxes(output[row]) for row in rows}
            return dict(zip(indices, self._best_classes(output, size, rows), strict=True))
        except _OTHER_FORM as error:
            # The validation has no answers, and continues.
            swallowed(error)
            return {}
        finally:
            self._spent_s += time.perf_counter() - start_s

    def _best_classes(self, output: Any, size: int, rows: list[int]) -> list[Answer]:
        """Return the best class of each row; nothing for another task, or where it is NaN."""
        shares = self._form.class_shares(output, size, rows) if self._form is not None else None
        if shares is None:
            raise LookupError
        top_values = (column.tolist() for column in shares.max(1))
        top_pairs = zip(*top_values, strict=True)
        return [[[n, share]] if math.isfinite(share) else [] for share, n in top_pairs]

    @property
    def cost_share(self) -> float:
        """The share of the time since the rehearsal that the answers took."""
        return self._spent_s / max(1e-9, time.perf_counter() - self._started_s)

    def agree(self, shares: Sequence[float]) -> None:
        """Decide by the shares of all ranks, so that all or none have answers."""
        self.is_due = max(shares) <= _COST_LIMIT


def _best_boxes(output: Mapping[str, Any]) -> Answer:
    names = ("labels", "scores", "boxes")
    columns = [torch.as_tensor(output[name]).detach().cpu().double() for name in names]
    rows = torch.cat([column.reshape(len(columns[0]), -1) for column in columns], 1)
    rows = rows[rows.isfinite().all(1)]
    best_answer: Answer = rows[
        rows[:, 1].argsort(descending=True, stable=True)[: sample_history.BOX_COUNT]
    ].tolist()
    return best_answer


class SampleRecorder:
    """Records the answers on rank 0; the reporter's thread writes them."""

    def __init__(self, data: UserData, reporter: Reporter, beat: RankHeartbeat) -> None:
        self._data = data
        self._reporter = reporter
        self._beat = beat
        self._names = class_names(data.user_dataset)
        self._samples: tuple[PredictedSample, ...] = ()

    def record(self, step: int, epoch: int, answers: Mapping[int, Answer]) -> None:
        """Record the answers of a validation; nothing if some are missing."""
        indices = fixed_indices(len(self._data))
        if not (sample_history.is_recorded(epoch) and answers.keys() >= set(indices)):
            return
        self._samples = self._samples or self._reporter.read_samples().samples
        if not self._samples:
            # Augmentations may draw numbers, which no other rank would draw.
            saved_random = random_state(torch.device("cpu"))
            self._samples = tuple(map(self._read_sample, indices))
            restore_random_state(saved_random, torch.device("cpu"))
            self._reporter.add_samples(sample_history.FixedSamples(self._samples))
        pairs = zip(self._samples, (answers[index] for index in indices), strict=True)
        sample_answers = tuple(self._answer(sample, answer) for sample, answer in pairs)
        self._reporter.add_samples(sample_history.SampleValidation(step, epoch, sample_answers))

    def _read_sample(self, index: int) -> PredictedSample:
        self._beat.beat(Phase.EVALUATING)
        try:
            data, target = split_batch(self._data.item(index))
        except UserCodeError as error:
            swallowed(error)
            return PredictedSample(SamplePreview(index, ()), "")
        parts = sorted(sample_parts("data", data), key=lambda part: not part.png)[:1]
        label = "" if target is None else target_text(target, self._names)
        is_boxed = isinstance(target, Mapping) and "boxes" in target
        rows = read_boxes(target, self._names) if is_boxed else ()
        truth = picture_boxes(rows, parts[0].shape if parts else None)
        return PredictedSample(SamplePreview(index, tuple(parts), label), "", truth=truth)

    def _answer(self, sample: PredictedSample, answer: Answer) -> sample_history.SampleAnswer:
        rows = [(class_name(int(n), self._names), round(c, 4), box) for n, c, *box in answer]
        if any(box for *_, box in rows):
            shape = sample.sample.parts[0].shape if sample.sample.parts else None
            return sample_history.SampleAnswer(boxes=picture_boxes(rows, shape))
        return sample_history.SampleAnswer(tuple(Guess(name, share) for name, share, _ in rows))
