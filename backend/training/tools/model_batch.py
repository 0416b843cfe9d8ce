"""A model and a batch of its data, as a rank makes them, for the tools that look into a model."""

from __future__ import annotations

import os
import resource
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import psutil

from backend.records.jobs.config import JobConfig
from backend.training.tools import protocol as tool_protocol
from backend.training.user_code import (
    UserData,
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
    dataset: UserData


def prepare_process() -> None:
    """Let a greedy model fail with a sentence, and compile none.

    Compiling takes minutes, and a compiled forward shows nothing of its layers.
    """
    os.environ["TORCHDYNAMO_DISABLE"] = "1"
    memory_info = psutil.Process().memory_info()
    limit_bytes = getattr(memory_info, "data", memory_info.vms) + psutil.virtual_memory().available
    resource.setrlimit(
        resource.RLIMIT_DATA, (limit_bytes, resource.getrlimit(resource.RLIMIT_DATA)[1])
    )


def model_batch(
    request: Mapping[str, Any],
    report: tool_protocol.Report,
    sample_limit: int,
) -> ModelBatch:
    """Build the model, and a batch of the first ``sample_limit`` samples or all.

    ``model``, ``loader`` and ``dataset`` of the request are folders.
    """
    report("Loading PyTorch…")
    from backend.training.data import seed_everything

    report("Loading a batch…")
    seed_everything(JobConfig.seed)
    dataset = load_loader(Path(request["loader"])).training(Path(request["dataset"]))
    indices = range(min(sample_limit, len(dataset)))
    data, target = split_batch(dataset.collate([dataset[index] for index in indices]))
    report("Importing and building the model…")
    seed_everything(JobConfig.seed)
    model = load_model(Path(request["model"]))
    if needs_first_batch(model):
        report("Passing the first batch to the model…")
        materialize(model, data, target)
    return ModelBatch(model, data, target, len(indices), dataset)
