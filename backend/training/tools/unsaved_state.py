"""State that a step changes and torch does not save: a resumed job would lack it.

PyTorch's guide on saving names parameters and buffers as a module's state; attributes of a module
are saved if it defines ``get_extra_state`` (torch.nn.Module.get_extra_state).
"""

from __future__ import annotations

import pickle
import random
from typing import TYPE_CHECKING, Any

import numpy

if TYPE_CHECKING:
    import torch

_GENERATORS = (random.Random, numpy.random.Generator, numpy.random.RandomState)


def plain_state(model: torch.nn.Module) -> dict[str, bytes]:
    """Return attributes of the user's modules, by name, except parameters, buffers and modules."""
    import torch

    of_torch = vars(torch.nn.Module()).keys()
    found: dict[str, bytes] = {}
    for path, module in model.named_modules():
        made_by = type(module)
        keeps_more = made_by.get_extra_state is not torch.nn.Module.get_extra_state
        if keeps_more or made_by.__module__.partition(".")[0] in ("torch", "keras"):
            continue
        # A counter often begins as an attribute of the class.
        of_class = {n: v for n, v in vars(made_by).items() if isinstance(v, (int, float))}
        for name, value in {**of_class, **vars(module)}.items():
            if name not in of_torch and not name.startswith("__"):
                _keep(found, f"{path}.{name}" if path else name, value)
    return found


def generators(user_dataset: object) -> dict[str, bytes]:
    """Return the states of a dataset's own random generators, by name."""
    import torch

    found: dict[str, bytes] = {}
    for name, value in getattr(user_dataset, "__dict__", {}).items():
        if isinstance(value, (*_GENERATORS, torch.Generator)):
            _keep(found, name, value)
    return found


def changed(before: dict[str, bytes], after: dict[str, bytes]) -> list[str]:
    return [name for name, state in before.items() if after.get(name, state) != state]


def _keep(found: dict[str, bytes], name: str, value: Any) -> None:
    import torch

    if isinstance(value, torch.Generator):
        value = value.get_state()
    if isinstance(value, torch.Tensor):
        # Computed again in each forward pass: not state.
        if value.requires_grad:
            return
        value = value.detach().cpu()
    try:
        found[name] = pickle.dumps(value)
    except Exception:  # noqa: BLE001 - a user's object may refuse in any way; then nothing is claimed
        return
