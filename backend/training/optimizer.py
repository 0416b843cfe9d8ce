"""The job's optimizer, with PyTorch's names and settings."""

from __future__ import annotations

from typing import Any

import torch

from backend.base.errors import BackendError
from backend.records.jobs.config import Optimizer

_CLASSES: dict[str, Any] = {
    "sgd": torch.optim.SGD,
    "adam": torch.optim.Adam,
    "adamw": torch.optim.AdamW,
    "adagrad": torch.optim.Adagrad,
    "adadelta": torch.optim.Adadelta,
    "rmsprop": torch.optim.RMSprop,
}


def make_optimizer(settings: Optimizer, model: torch.nn.Module) -> torch.optim.Optimizer:
    parameters = [p for p in model.parameters() if p.requires_grad]
    if not parameters:
        raise BackendError(
            "The model has no parameters to train.",
            "Build layers in UserModel.__init__ and leave requires_grad on for some.",
        )
    optimizer: torch.optim.Optimizer = _CLASSES[settings.name](
        parameters, lr=settings.lr, **settings.settings
    )
    return optimizer


def load_optimizer(
    optimizer: torch.optim.Optimizer, state: dict[str, Any], settings: Optimizer
) -> None:
    """Load the state of a checkpoint; settings that were edited in the job since then stay."""
    try:
        optimizer.load_state_dict(state)
    except (ValueError, KeyError) as error:
        raise BackendError(
            f"The checkpoint's optimizer does not match this job's: {error}.",
            "Resume with the optimizer and the model that the checkpoint was made with.",
        ) from error
    for group in optimizer.param_groups:
        group.update(settings.settings)
