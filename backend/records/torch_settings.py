"""Optimizers and schedules and the settings of each, by PyTorch's names.

The one table that the check of job files, the form and the training loop share.

Standard library only and Python 3.9: the nodes import this.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Setting:
    """One setting of an optimizer or schedule, by PyTorch's name.

    ``kind``: "number", "whole", "flag" or "pair" (two numbers). ``low`` ≤ value, and value ``<``
    ``below`` where given. One without a ``label`` has no field in the form.
    """

    kind: str
    default: Any
    low: float = 0.0
    below: float | None = None
    label: str = ""


def _number(
    default: float, below: float | None = None, low: float = 0.0, label: str = ""
) -> Setting:
    return Setting("number", default, low, below, label)


_EPS = _number(1e-8, label="Epsilon")
_DECAY = _number(0.0, label="Weight decay")
_COMMON = {"maximize": Setting("flag", False)}

OPTIMIZERS: dict[str, dict[str, Setting]] = {
    "sgd": {
        "momentum": _number(0.0, below=1.0, label="Momentum"),
        "dampening": _number(0.0, label="Dampening"),
        "nesterov": Setting("flag", False, label="Nesterov"),
        "weight_decay": _DECAY,
        **_COMMON,
    },
    "adam": {
        "betas": Setting("pair", (0.9, 0.999), below=1.0, label="Betas"),
        "eps": _EPS,
        "weight_decay": _DECAY,
        "amsgrad": Setting("flag", False, label="AMSGrad"),
        **_COMMON,
    },
    "adamw": {
        "betas": Setting("pair", (0.9, 0.999), below=1.0, label="Betas"),
        "eps": _EPS,
        "weight_decay": _number(0.01, label="Weight decay"),
        "amsgrad": Setting("flag", False, label="AMSGrad"),
        **_COMMON,
    },
    "adagrad": {
        "lr_decay": _number(0.0, label="Rate decay"),
        "initial_accumulator_value": _number(0.0, label="Initial accumulator"),
        "eps": _number(1e-10, label="Epsilon"),
        "weight_decay": _DECAY,
        **_COMMON,
    },
    "adadelta": {
        "rho": _number(0.9, below=1.0, label="Rho"),
        "eps": _number(1e-6, label="Epsilon"),
        "weight_decay": _DECAY,
        **_COMMON,
    },
    "rmsprop": {
        "momentum": _number(0.0, below=1.0, label="Momentum"),
        "alpha": _number(0.99, below=1.0, label="Alpha"),
        "eps": _EPS,
        "centered": Setting("flag", False, label="Centered"),
        "weight_decay": _DECAY,
        **_COMMON,
    },
}

SCHEDULES: dict[str, dict[str, Setting]] = {
    "constant": {},
    "step": {
        "step_size": Setting("whole", 10, 1, label="Every, epochs"),
        "gamma": _number(0.1, label="Factor"),
    },
    "exponential": {"gamma": _number(0.95, label="Factor an epoch")},
    "cosine": {"eta_min": _number(0.0, label="Lowest rate")},
}
