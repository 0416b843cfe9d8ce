"""Content of a checkpoint, from which a run continues as if it had never stopped."""

from __future__ import annotations

import hashlib
import json
import platform
import random
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import torch

from backend.base.log import swallowed
from backend.records.jobs.launch import Launch
from backend.training.checkpoint import FORMAT
from backend.training.optimizer import WeightAverage
from backend.training.strategies.base import Strategy
from backend.training.strategies.wire_format import bytes_of
from backend.training.train_state import TrainState


def content(
    states: Mapping[str, Any],
    train_state: TrainState,
    ranks: Sequence[Any],
    metrics: Mapping[str, float],
    launch: Launch,
) -> dict[str, Any]:
    """Return the whole content.

    Args:
        states: The result of `training_states`.
        ranks: State of each rank, by its number.
        metrics: Metrics of the model at the end of an epoch, empty within an epoch.
    """
    return {
        "format": FORMAT,
        **states,
        "course": train_state.to_dict(),
        "ranks": ranks,
        "metrics": dict(metrics),
        "job": {
            "id": launch.job_id,
            "run": launch.run,
            "config_sha256": launch.config.sha256(),
            "hashes": dict(launch.hashes),
        },
        "versions": {
            "python": platform.python_version(),
            "torch": str(torch.__version__),
            "horovod": _version("horovod"),
        },
    }


def training_states(
    model: Mapping[str, Any],
    optimizer: Mapping[str, Any],
    optimized_names: Sequence[str],
    scaler: torch.amp.GradScaler | None = None,
    weight_average: WeightAverage | None = None,
) -> dict[str, Any]:
    """Return the states of model, optimizer and scaler, by their keys in a checkpoint.

    With a moving average, ``model`` is the average, because it was validated and is exported, and
    ``trained`` are the weights with which a resume continues.

    Args:
        model: The state dict of the model.
        optimizer: The state dict of the optimizer.
        optimized_names: The optimizer's parameters, in the order of its state dict.
    """
    states = {
        "model": model,
        "optimizer": optimizer,
        "optimized": list(optimized_names),
        "scaler": scaler.state_dict() if scaler is not None else {},
    }
    if weight_average is not None:
        states |= {"model": weight_average.averaged_state(model), "trained": model}
    return states


def input_form(data: Any, user_dataset: Any) -> dict[str, Any] | None:
    """Return the form of a sample in a batch, and the names of the classes, for an export.

    None if the data is not a single tensor of numbers. A dataset's ``table_preparation`` says how
    a sample is made of the cells of a row in a table.
    """
    if not isinstance(data, torch.Tensor) or not data.ndim or not data.numel() or data.is_complex():
        return None
    values = data.detach().double()
    names = getattr(user_dataset, "classes", None)
    try:
        # Only what JSON holds can be loaded with ``weights_only`` and exported.
        preparation = json.loads(json.dumps(getattr(user_dataset, "table_preparation", None)))
    except (TypeError, ValueError) as error:
        swallowed(error)
        preparation = None
    return {
        "shape": list(data.shape[1:]),
        "dtype": str(data.dtype).removeprefix("torch."),
        "low": float(values.min()),
        "high": float(values.max()),
        "classes": [str(name) for name in names] if isinstance(names, (list, tuple)) else [],
        **({"preparation": preparation} if isinstance(preparation, dict) else {}),
    }


def rank_buffers(
    model: torch.nn.Module, strategy: Strategy, gather: Callable[[Any], list[Any]]
) -> dict[str, torch.Tensor]:
    """Return the buffers of this rank that neither the state dict nor rank 0 holds.

    Rank 0 returns the buffers outside its state dict (``persistent=False``), the others the buffers
    that differ from rank 0's, such as running means. All ranks call this.
    """
    buffers = {name: buffer.detach().cpu() for name, buffer in model.named_buffers()}
    hashes = {}
    if strategy.world_size > 1:
        for name, buffer in buffers.items():
            hashes[name] = hashlib.sha256(bytes_of(buffer).numpy().data).digest()
    rank0_hashes = gather(hashes)[0]
    if strategy.rank == 0:
        state_names = model.state_dict().keys()
        return {name: buffer for name, buffer in buffers.items() if name not in state_names}
    return {
        name: buffer for name, buffer in buffers.items() if hashes[name] != rank0_hashes.get(name)
    }


def restore_buffers(
    model: torch.nn.Module, tensors: Mapping[str, torch.Tensor] | Sequence[torch.Tensor]
) -> None:
    """Restore the buffers of `rank_buffers`; a list comes from a checkpoint before 0.1.0."""
    model_buffers = dict(model.named_buffers())
    saved_buffers = (
        tensors if isinstance(tensors, Mapping) else dict(zip(model_buffers, tensors, strict=False))
    )
    for name, buffer in saved_buffers.items():
        if name in model_buffers:
            model_buffers[name].resize_(buffer.shape).copy_(buffer)


def frozen_names(model: torch.nn.Module) -> list[str]:
    """Return the names of the parameters that the model does not train at the moment."""
    return [name for name, parameter in model.named_parameters() if not parameter.requires_grad]


def freeze(model: torch.nn.Module, names: Collection[str]) -> None:
    """Freeze exactly the parameters ``names``, as `frozen_names` returns them; thaw all others."""
    for name, parameter in model.named_parameters():
        if parameter.requires_grad == (name in names):
            parameter.requires_grad_(name not in names)


def random_state(device: torch.device) -> dict[str, Any]:
    """Return the random generators of a rank, as tensors that load with ``weights_only=True``."""
    version, state_words, gauss = random.getstate()
    state: dict[str, Any] = {
        "torch": torch.get_rng_state(),
        "python": {"version": version, "words": torch.tensor(state_words), "gauss": gauss},
    }
    # Not every node has numpy; then no code can have drawn from it.
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        kind, keys, position, has_gauss, cached_gauss = numpy.random.get_state()
        state["numpy"] = {
            "kind": str(kind),
            "keys": torch.tensor(keys.astype("int64").tolist()),
            "place": int(position),
            "has_gauss": int(has_gauss),
            "cached": float(cached_gauss),
        }
    if device.type == "cuda":
        state["cuda"] = torch.cuda.get_rng_state(device)
    return state


def restore_random_state(state: dict[str, Any], device: torch.device) -> None:
    torch.set_rng_state(state["torch"])
    python = state["python"]
    random.setstate((python["version"], tuple(python["words"].tolist()), python["gauss"]))
    numpy = sys.modules.get("numpy")
    if "numpy" in state and numpy is not None:
        rng = state["numpy"]
        keys = numpy.array(rng["keys"].tolist(), dtype="uint32")
        numpy.random.set_state((rng["kind"], keys, rng["place"], rng["has_gauss"], rng["cached"]))
    if "cuda" in state and device.type == "cuda":
        torch.cuda.set_rng_state(state["cuda"], device)


def _version(module: str) -> str:
    loaded_module = sys.modules.get(module)
    return str(getattr(loaded_module, "__version__", "")) if loaded_module else ""
