"""A model, its layers and a batch of its data, for the tools that look into a model."""

from __future__ import annotations

import os
import resource
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import psutil

from backend.records.jobs.config import JobConfig
from backend.training import lazy_dynamo
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


MODEL_LAYER = "(the model)"
"""The name of the model itself among its layers."""


class ModelBatch(NamedTuple):
    """A model and a batch of ``samples`` samples, as a rank makes them."""

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
    lazy_dynamo.postpone()
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


class LayerModule(NamedTuple):
    """A module with its parameters outside its parts; a shared one belongs to one module only."""

    name: str
    module: torch.nn.Module
    parameters: tuple[torch.nn.Parameter, ...]
    has_parts: bool

    @property
    def is_layer(self) -> bool:
        """Return whether the module holds parameters itself or has no parts."""
        return bool(self.parameters) or not self.has_parts


def layer_modules(model: torch.nn.Module) -> list[LayerModule]:
    """Return every module except those that only hold parameters, outer ones first.

    Parameters that the first batch will create are left out.
    """
    import torch
    from torch.nn.parameter import is_lazy

    # Keras keeps each layer's parameters in such a container, and all of them once more on top.
    containers = (torch.nn.ParameterDict, torch.nn.ParameterList)
    modules = dict(model.named_modules())
    names = [name for name, module in modules.items() if not isinstance(module, containers)]
    parent_names = {name.rpartition(".")[0] for name in names if name}
    layer_parameters: dict[str, list[torch.nn.Parameter]] = {name: [] for name in names}
    counted_ids: set[int] = set()
    for name in sorted(modules, key=lambda name: -name.count(".")):
        layer = name
        while layer not in layer_parameters:
            layer = layer.rpartition(".")[0]
        for parameter in modules[name].parameters(recurse=False):
            if id(parameter) not in counted_ids and not is_lazy(parameter):
                counted_ids.add(id(parameter))
                layer_parameters[layer].append(parameter)
    return [
        LayerModule(
            name or MODEL_LAYER,
            modules[name],
            tuple(layer_parameters[name]),
            name in parent_names or not name,
        )
        for name in names
    ]
