"""Optimizers, schedules and strategies and the settings of each; PyTorch's by its names.

The checks of job files, the form and the training loop share this table.
Standard library only and Python 3.9: the nodes import this.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Setting:
    """One setting of an optimizer, schedule or strategy.

    ``kind``: "number", "whole", "flag", "pair" (two numbers), "texts" or "choice" (of
    ``choices``). ``low`` ≤ value, and value ``<`` ``below`` if given. One without a name
    (`setting_labels`) has no field in the form.
    """

    kind: str
    default: Any
    low: float = 0.0
    below: float | None = None
    choices: tuple[str, ...] = ()


def _number(default: float, below: float | None = None, low: float = 0.0) -> Setting:
    return Setting("number", default, low, below)


_EPS = _number(1e-8)
_DECAY = _number(0.0)
_COMMON = {"maximize": Setting("flag", False)}

OPTIMIZERS: dict[str, dict[str, Setting]] = {
    "sgd": {
        "momentum": _number(0.0, below=1.0),
        "dampening": _number(0.0),
        "nesterov": Setting("flag", False),
        "weight_decay": _DECAY,
        **_COMMON,
    },
    "adam": {
        "betas": Setting("pair", (0.9, 0.999), below=1.0),
        "eps": _EPS,
        "weight_decay": _DECAY,
        "amsgrad": Setting("flag", False),
        **_COMMON,
    },
    "adamw": {
        "betas": Setting("pair", (0.9, 0.999), below=1.0),
        "eps": _EPS,
        "weight_decay": _number(0.01),
        "amsgrad": Setting("flag", False),
        **_COMMON,
    },
    "adagrad": {
        "lr_decay": _number(0.0),
        "initial_accumulator_value": _number(0.0),
        "eps": _number(1e-10),
        "weight_decay": _DECAY,
        **_COMMON,
    },
    "adadelta": {
        "rho": _number(0.9, below=1.0),
        "eps": _number(1e-6),
        "weight_decay": _DECAY,
        **_COMMON,
    },
    "rmsprop": {
        "momentum": _number(0.0, below=1.0),
        "alpha": _number(0.99, below=1.0),
        "eps": _EPS,
        "centered": Setting("flag", False),
        "weight_decay": _DECAY,
        **_COMMON,
    },
    "lbfgs": {},
}

SCHEDULES: dict[str, dict[str, Setting]] = {
    "constant": {},
    "step": {
        "step_size": Setting("whole", 10, 1),
        "gamma": _number(0.1),
    },
    "exponential": {"gamma": _number(0.95)},
    "cosine": {"eta_min": _number(0.0)},
}

_SERVED = {
    "servers": Setting("whole", 1, 1),
    "n_fetch": Setting("whole", 1, 1),
    "n_push": Setting("whole", 1, 1),
    "policy": Setting("choice", "none", choices=("none", "quorum", "portion")),
}

PUBLISHED_VARIANTS = ("dual-layer", "dual-layer-normalised", "dual-layer-quotient")
"""Of “consensus”; they do not learn reliably, and are there to show why. The last two are readings
of the source's equation 9.3: the denominator is a constant of the step, or its gradient counts."""

STRATEGIES: dict[str, dict[str, Setting]] = {
    "allreduce": {
        "compression": Setting("choice", "none", choices=("none", "fp16")),
        "reduction": Setting("choice", "average", choices=("average", "adasum", "hierarchical")),
    },
    "ddp": {},
    "downpour": _SERVED,
    "dc-asgd": {
        "variant": Setting("choice", "adaptive", choices=("adaptive", "constant")),
        "lambda": _number(2.0),
        **_SERVED,
    },
    "sandblaster": {
        "portion": Setting("whole", 64, 1),
        "history": Setting("whole", 10, 1),
    },
    "consensus": {
        "cut": Setting("texts", ()),
        "beta": _number(1.0, low=0.001, below=1e6),
        "inner_rounds": Setting("whole", 1, 1),
        "variant": Setting("choice", "admm", choices=("admm", *PUBLISHED_VARIANTS)),
    },
    "alone": {},
}
