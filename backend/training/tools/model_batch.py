"""A model and a batch of its data, as a rank makes them, for the tools that look into a model."""

from __future__ import annotations

import os
import resource
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import psutil

from backend.base.errors import BackendError
from backend.records.base import number_format
from backend.records.jobs.config import JobConfig
from backend.training.tools import protocol as tool_protocol
from backend.training.user_code import (
    load_loader,
    load_model,
    materialize,
    needs_first_batch,
    split_batch,
)

if TYPE_CHECKING:
    import torch


class ModelBatch(NamedTuple):
    """``samples`` is the number of samples in the batch."""

    model: torch.nn.Module
    data: Any
    target: Any
    samples: int


def prepare_process() -> None:
    """Let a greedy model fail with a sentence, and compile none.

    Compiling takes minutes, and a compiled forward shows nothing of its layers.
    """
    os.environ["TORCHDYNAMO_DISABLE"] = "1"
    used = psutil.Process().memory_info()
    most = getattr(used, "data", used.vms) + psutil.virtual_memory().available
    resource.setrlimit(resource.RLIMIT_DATA, (most, resource.getrlimit(resource.RLIMIT_DATA)[1]))


def model_batch(
    request: Mapping[str, Any],
    report: tool_protocol.Report,
    wanted: Sequence[int],
) -> ModelBatch:
    """Build the model, and a batch of the ``wanted`` samples; those beyond the end are left out.

    ``model``, ``loader`` and ``dataset`` of the request are folders.

    Raises:
        BackendError: The dataset has none of the samples.
    """
    report("Loading PyTorch…")
    from backend.training.data import seed_everything

    report("Loading a batch…")
    seed_everything(JobConfig.seed)
    dataset = load_loader(Path(request["loader"])).training(Path(request["dataset"]))
    count = len(dataset)
    indices = [index for index in wanted if index < count]
    if not indices:
        raise BackendError(
            f"There is no sample {number_format.count(wanted[0])}: the dataset has "
            f"{number_format.count(count)}.",
            "They are numbered from 0.",
        )
    data, target = split_batch(dataset.collate([dataset[index] for index in indices]))
    report("Importing and building the model…")
    seed_everything(JobConfig.seed)
    model = load_model(Path(request["model"]))
    if needs_first_batch(model):
        report("Passing the first batch to the model…")
        materialize(model, data)
    return ModelBatch(model, data, target, len(indices))
