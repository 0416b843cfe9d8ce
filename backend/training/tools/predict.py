"""Predictions of a checkpoint: of a dataset, measured as the job validates, or of files.

All of them go into a table (CSV). The result has the measures, and the samples worth a look.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import torch

from backend.base.cores import usable_cores
from backend.base.errors import BackendError
from backend.base.log import swallowed
from backend.records.base import number_format
from backend.records.jobs.heartbeat import RankHeartbeat
from backend.records.jobs.launch import Launch
from backend.training import user_code
from backend.training.checkpoint import load_checkpoint
from backend.training.checkpoint_content import restore_buffers
from backend.training.data import BatchIndices, ValidationOrder, make_loader
from backend.training.evaluation import BatchValues, average_values, precision
from backend.training.subject import Subject, open_subject
from backend.training.tools import batch_form
from backend.training.tools import protocol as tool_protocol
from backend.training.tools.export import load_state
from backend.training.tools.prediction_results import PredictionResults
from backend.training.user_code import UserCodeError, UserData
from backend.training.user_code.importing import set_variables

OPEN_S, BATCH_S = 600.0, 120.0
"""For opening data and model; for reading one batch, and for one forward pass."""


def predict(request: Mapping[str, Any], report: tool_protocol.Report) -> dict[str, Any]:
    """Compute the predictions.

    The request has ``launch`` (a launch record), ``checkpoint`` and ``table`` (the file to write);
    optional are ``split``, ``samples`` (their numbers), or ``files`` (paths) below ``folder``.
    """
    try:
        return _PredictionRun(request, report).result()
    except UserCodeError as error:
        if error.remedy or "cuda" not in error.message.lower():
            raise
        remedy = "Checkpoints are tried without a GPU: create tensors on the device of the data."
        raise UserCodeError(error.message, remedy, error.traceback) from error
    except OSError as error:
        raise BackendError(
            f"The predictions cannot be written: {error.strerror or error}.",
            "Free space on the disk of the cache.",
        ) from error


class _PredictionRun:
    def __init__(self, request: Mapping[str, Any], report: tool_protocol.Report) -> None:
        self._report = report
        self._request = request
        self._notes: list[str] = []
        self._has_metrics = True
        self._files = [str(path) for path in request.get("files", ())]
        launch = Launch.from_dict(request["launch"])
        # A loader may read them, as in the ranks; the GPUs stay hidden.
        set_variables(
            {k: v for k, v in launch.config.environment.items() if k != "CUDA_VISIBLE_DEVICES"}
        )
        torch.set_num_threads(_idle_cores())
        report("Opening data and model…")
        with _limit_time("Opening data and model", OPEN_S):
            subject = open_subject(launch, torch.device("cpu"), 0, RankHeartbeat.inherited())
            self._subject_data = (
                self._data_for_files(subject) if self._files else self._data_of_split(subject)
            )
            self._data = self._subject_data
            if self._files:
                files = _FileDataset(self._subject_data, self._files)
                self._files = files.labels
                self._data = UserData(
                    self._subject_data.source, self._subject_data.class_name, files
                )
        report("Loading the checkpoint…")
        state = load_checkpoint(Path(request["checkpoint"]))
        self._model = subject.model
        load_state(self._model, state["model"])
        restore_buffers(self._model, state["ranks"][0]["buffers"])
        self._model.eval()
        self._order = _SampleOrder(self._sample_indices(), launch.config.batch_size)
        self._workers = launch.config.loader_workers
        name = launch.config.precision
        # The CPU has neither TF32 nor the kernels of float16.
        self._precision = "float32" if name in ("tf32", "float16") else name
        if name != self._precision:
            self._notes.append(
                f"The job measured in {name} on a GPU; these figures are in float32."
            )

    def result(self) -> dict[str, Any]:
        batch_metrics: list[tuple[int, BatchValues]] = []
        file_errors: dict[int, UserCodeError] = {}
        self._report("Passing some samples to the model…")
        with torch.no_grad(), _limit_time("The model's forward", BATCH_S):
            form = batch_form.learn_form(self._model, self._subject_data)
        with (
            torch.no_grad(),
            PredictionResults(
                Path(self._request["table"]),
                self._data,
                form,
                len(self._order.sample_indices),
                self._files,
            ) as results,
        ):
            sample_count = 0
            for rows, output, target in self._outputs(file_errors):
                if not self._files:
                    with _limit_time("The model's loss", BATCH_S):
                        self._measure(batch_metrics, output, target)
                results.add(rows, output, target)
                sample_count += len(rows)
            if file_errors and not sample_count:
                raise next(iter(file_errors.values()))
            if file_errors:
                names = number_format.name_list(
                    [Path(self._files[index]).name for index in file_errors]
                )
                count = f"{len(file_errors)} file{'s' if len(file_errors) > 1 else ''}"
                self._notes.append(f"{count} could not be read: {names}.")
            self._report("Choosing samples to show…")
            metrics = average_values(batch_metrics, self._order) if batch_metrics else {}
            return results.prediction(metrics, self._notes).to_dict()

    def _outputs(
        self, file_errors: dict[int, UserCodeError]
    ) -> Iterator[tuple[list[int], Any, Any]]:
        """Yield for each batch its rows, what the model returns, and the target."""
        batches = iter(self._batches_of_files(file_errors) if self._files else self._batches())
        sample_count = 0
        while True:
            self._report("Computing predictions…", sample_count, len(self._order.sample_indices))
            with _limit_time("Reading a batch", BATCH_S):
                rows, batch = next(batches, ([], None))
            if not rows:
                return
            data, target = user_code.split_batch(batch)
            with _limit_time("The model's forward", BATCH_S), self._autocast():
                output = user_code.compute_output(self._model, data)
            if output is None:
                raise UserCodeError(
                    "The model's forward returns nothing.", "End it with return and the output."
                )
            yield rows, output, target
            sample_count += len(rows)

    def _measure(
        self, batch_metrics: list[tuple[int, BatchValues]], output: Any, target: Any
    ) -> None:
        """Add loss and metrics of a batch; without them there are predictions all the same."""
        if not self._has_metrics:
            return
        try:
            with self._autocast():
                loss, weight = user_code.compute_weighted_loss(self._model, output, target)
            metrics = user_code.compute_metrics(self._model, output, target)
        except UserCodeError as error:
            self._has_metrics = False
            batch_metrics.clear()
            self._notes.append(f"There are no metrics: {error.message}")
            return
        values = BatchValues.of_batch(loss, metrics, output, target, weight)
        batch_metrics.append((len(batch_metrics), values))

    def _autocast(self) -> AbstractContextManager[Any]:
        return precision(torch.device("cpu"), self._precision)

    def _data_of_split(self, subject: Subject) -> UserData:
        if self._request.get("split", "validation") == "training":
            return subject.training
        if subject.validation is None:
            self._notes.append("There is no validation set; these are the training samples.")
        return subject.validation or subject.training

    def _data_for_files(self, subject: Subject) -> UserData:
        for data in filter(None, (subject.validation, subject.training)):
            if callable(getattr(data.user_dataset, "read", None)):
                return data
        raise UserCodeError(
            f"{subject.training.class_name} has no method read, which makes the data of a sample "
            "of a file.",
            "Add def read(self, path) to it, or choose samples of the dataset.",
        )

    def _sample_indices(self) -> Sequence[int]:
        count = len(self._data)
        indices = [int(number) for number in self._request.get("samples", ())]
        if indices and max(indices) >= count:
            raise BackendError(
                f"There is no sample {number_format.count(max(indices))}: the "
                f"{number_format.count(count)} samples are counted from 0."
            )
        return indices or range(count)

    def _batches(self) -> Iterator[tuple[list[int], Any]]:
        """Yield the batches that the job's validation makes."""
        batches = make_loader(self._data, self._order, self._workers, on_gpu=False)
        yield from zip(self._order, batches, strict=True)

    def _batches_of_files(
        self, file_errors: dict[int, UserCodeError]
    ) -> Iterator[tuple[list[int], Any]]:
        """Yield batches of the files; pictures of different sizes are batches of one."""
        for share in self._order:
            items = {}
            for index in share:
                item = self._data[index]
                if isinstance(item, user_code.ItemFailure):
                    file_errors[index] = item.error
                else:
                    items[index] = item
            batch = self._data.collate(list(items.values())) if items else None
            if isinstance(batch, user_code.ItemFailure) and len(items) > 1:
                for index, item in items.items():
                    yield [index], self._data.collate([item])
            elif items:
                yield list(items), batch


class _SampleOrder(ValidationOrder):
    """The chosen samples, in batches as a validation has them."""

    def __init__(self, sample_indices: Sequence[int], batch_size: int) -> None:
        super().__init__(len(sample_indices), batch_size, 0, 1)
        self.sample_indices = sample_indices

    def batch_indices(self, batch: int) -> BatchIndices:
        positions = super().batch_indices(batch)
        return BatchIndices(
            [self.sample_indices[position] for position in positions], positions.number
        )


class _FileDataset:
    """A user's dataset with files in place of its samples."""

    def __init__(self, data: UserData, files: Sequence[str]) -> None:
        self._data = data
        self._dataset = data.user_dataset
        samples = [sample for path in files for sample in self._samples_in(path)]
        self.labels = [label for label, _, _ in samples]
        """The path of each sample; if its file has several, with the number of its row."""
        self._file_samples = [(path, row) for _, path, row in samples]
        # Its collate may need a target; the output is not compared with it.
        self._sample = data.item(0)
        if callable(getattr(self._dataset, "collate", None)):
            self.collate = self._dataset.collate

    @property
    def classes(self) -> Any:
        return getattr(self._dataset, "classes", None)

    def _samples_in(self, path: str) -> list[tuple[str, str, Any]]:
        """Return label, path and data of each sample in a file; None is the data of ``read``."""
        read_all = getattr(self._dataset, "read_all", None)
        if not callable(read_all):
            return [(path, path, None)]
        try:
            with user_code.calling(f"{self._data.class_name}.read_all", self._data.source):
                rows = list(read_all(path))
        except UserCodeError as error:
            # `read` says what is wrong with this file, and the other files are predicted.
            swallowed(error)
            rows = []
        if len(rows) < 2:
            return [(path, path, None)]
        return [(f"{path}, row {number}", path, row) for number, row in enumerate(rows, 1)]

    def __len__(self) -> int:
        return len(self._file_samples)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        path, content = self._file_samples[index]
        if content is None:
            with user_code.calling(
                f"{self._data.class_name}.read of {Path(path).name}", self._data.source
            ):
                content = self._dataset.read(path)
        data, target = self._sample
        if _is_pair(content) and not _is_pair(data):
            # It returns what __getitem__ returns.
            content = content[0]
        return content, target


def _is_pair(value: Any) -> bool:
    return isinstance(value, (tuple, list)) and len(value) == 2


@contextlib.contextmanager
def _limit_time(action: str, limit_s: float) -> Iterator[None]:
    try:
        with tool_protocol.time_limit(limit_s):
            yield
    except tool_protocol.OutOfTime:
        raise BackendError(
            f"{action} did not end within {limit_s:.0f} s.",
            "Check the code for an endless loop or a download.",
        ) from None


def _idle_cores() -> int:
    """Return the number of cores that no job keeps busy: threads that wait for one are slow."""
    return max(1, usable_cores() - round(os.getloadavg()[0]))


if __name__ == "__main__":
    tool_protocol.main(predict)
