"""Content of a checkpoint: all that a run needs to continue as if it had never stopped."""

from __future__ import annotations

import hashlib
import platform
import random
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import torch

from backend.records.jobs.launch import Launch
from backend.training.checkpoint import FORMAT
from backend.training.strategies.base import Strategy
from backend.training.strategies.wire_format import bytes_of
from backend.training.train_state import TrainState


def content(
    model: Mapping[str, Any],
    optimizer: Mapping[str, Any],
    optimized: Sequence[str],
    scaler: torch.amp.GradScaler,
    train_state: TrainState,
    ranks: Sequence[Any],
    measured: Mapping[str, float],
    launch: Launch,
) -> dict[str, Any]:
    """Return the whole content.

    Args:
        model: Its state dict, and that of the optimizer.
        optimized: The optimizer's parameters, in the order of its state dict.
        ranks: State of each rank, by its number.
        measured: Metrics of the model at the end of an epoch, empty within one.
    """
    return {
        "format": FORMAT,
        "model": model,
        "optimizer": optimizer,
        "optimized": list(optimized),
        "scaler": scaler.state_dict(),
        "course": train_state.to_dict(),
        "ranks": ranks,
        "metrics": dict(measured),
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


def own_buffers(
    model: torch.nn.Module, strategy: Strategy, gather: Callable[[Any], list[Any]]
) -> dict[str, torch.Tensor]:
    """Return the buffers of this rank that neither the state dict nor rank 0 has for it.

    Rank 0 returns those that its state dict leaves out (``persistent=False``), the others those
    that differ from rank 0's, such as running means. All ranks call this.
    """
    buffers = {name: buffer.detach().cpu() for name, buffer in model.named_buffers()}
    hashes = {}
    if strategy.world_size > 1:
        for name, buffer in buffers.items():
            hashes[name] = hashlib.sha256(bytes_of(buffer).numpy().data).digest()
    first = gather(hashes)[0]
    if strategy.rank == 0:
        kept = model.state_dict().keys()
        return {name: buffer for name, buffer in buffers.items() if name not in kept}
    return {name: buffer for name, buffer in buffers.items() if hashes[name] != first.get(name)}


def put_buffers(
    model: torch.nn.Module, saved: Mapping[str, torch.Tensor] | Sequence[torch.Tensor]
) -> None:
    """Restore what `own_buffers` returned; a list comes from a checkpoint before 0.1.0."""
    own = dict(model.named_buffers())
    named = saved if isinstance(saved, Mapping) else dict(zip(own, saved, strict=False))
    for name, buffer in named.items():
        if name in own:
            own[name].resize_(buffer.shape).copy_(buffer)


def frozen(model: torch.nn.Module) -> list[str]:
    """Return the names of the parameters that the model does not train at the moment."""
    return [name for name, one in model.named_parameters() if not one.requires_grad]


def freeze(model: torch.nn.Module, names: Collection[str]) -> None:
    """Restore what `frozen` returned, also on a model that froze or thawed layers later."""
    for name, one in model.named_parameters():
        if one.requires_grad == (name in names):
            one.requires_grad_(name not in names)


def random_state(device: torch.device) -> dict[str, Any]:
    """Return the random generators of a rank, as tensors that load with ``weights_only=True``."""
    version, words, gauss = random.getstate()
    state: dict[str, Any] = {
        "torch": torch.get_rng_state(),
        "python": {"version": version, "words": torch.tensor(words), "gauss": gauss},
    }
    # Not every node has numpy; then no code can have drawn from it.
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        kind, keys, place, has_gauss, cached = numpy.random.get_state()
        state["numpy"] = {
            "kind": str(kind),
            "keys": torch.tensor(keys.astype("int64").tolist()),
            "place": int(place),
            "has_gauss": int(has_gauss),
            "cached": float(cached),
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
        saved = state["numpy"]
        keys = numpy.array(saved["keys"].tolist(), dtype="uint32")
        numpy.random.set_state(
            (saved["kind"], keys, saved["place"], saved["has_gauss"], saved["cached"])
        )
    if "cuda" in state and device.type == "cuda":
        torch.cuda.set_rng_state(state["cuda"], device)


def _version(module: str) -> str:
    found = sys.modules.get(module)
    return str(getattr(found, "__version__", "")) if found else ""
