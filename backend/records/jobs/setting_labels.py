"""Labels of settings and of their choices: one name everywhere in the program.

Standard library only and Python 3.9: the nodes import this.
"""

from __future__ import annotations

from collections.abc import Mapping

SECTIONS: Mapping[str, Mapping[str, str]] = {
    "What": {
        "name": "Name",
        "model": "Model",
        "dataset": "Dataset",
        "loader": "Loader",
        "validation_dataset": "Validation dataset",
        "validation_loader": "Validation loader",
        "start_from": "Start from",
    },
    "Where": {"placement": "Nodes"},
    "How": {
        "epochs": "Epochs",
        "batch_size": "Batch size, per process",
        "gradient_norm": "Gradient norm limit",
        "strategy.name": "Strategy",
        "optimizer.name": "Optimizer",
        "optimizer.lr": "Learning rate",
        "strategy.lr_scaling": "Rate scaling",
        "strategy.compression": "Compression",
        "strategy.reduction": "Reduction",
        "strategy.variant": "Variant",
        "strategy.lambda": "Lambda",
        "strategy.servers": "Servers",
        "strategy.n_fetch": "Fetch every, steps",
        "strategy.n_push": "Push every, steps",
        "strategy.policy": "Slow workers",
        "strategy.portion": "Portion, samples",
        "strategy.history": "History, steps",
        "strategy.cut": "Cut after",
        "strategy.beta": "Beta (from 2 rounds)",
        "strategy.inner_rounds": "Rounds of each batch",
        "optimizer.momentum": "Momentum",
        "optimizer.dampening": "Dampening",
        "optimizer.nesterov": "Nesterov",
        "optimizer.weight_decay": "Weight decay",
        "optimizer.betas": "Betas",
        "optimizer.eps": "Epsilon",
        "optimizer.amsgrad": "AMSGrad",
        "optimizer.lr_decay": "Rate decay",
        "optimizer.initial_accumulator_value": "Initial accumulator",
        "optimizer.rho": "Rho",
        "optimizer.alpha": "Alpha",
        "optimizer.centered": "Centered",
        "schedule.name": "Schedule",
        "schedule.warmup_epochs": "Warm-up, epochs",
        "schedule.step_size": "Lower every, epochs",
        "schedule.gamma": "Factor",
        "schedule.eta_min": "Lowest rate",
        "mixed_precision": "Half precision",
    },
    "Keep": {
        "checkpoint.every_epochs": "Checkpoint every, epochs",
        "checkpoint.every_steps": "Checkpoint every, steps",
        "checkpoint.every_minutes": "Checkpoint every, min",
        "checkpoint.keep_latest": "Keep latest",
        "checkpoint.keep_best": "Keep best",
        "checkpoint.best_metric": "Best by",
        "checkpoint.best_mode": "Best is",
        "early_stop.patience_epochs": "Stop early after, epochs",
        "early_stop.metric": "Stop early by",
        "early_stop.mode": "Stop early when best is",
        "early_stop.min_delta": "Stop early below a gain of",
        "seed": "Seed",
        "loader_workers": "Loader workers",
        "stall_limit_s": "Stall limit, s",
        "stop_on_nan": "Stop on NaN",
        "stop_on_divergence": "Stop if the loss diverges",
        "continue_unsaved": "Continue if checkpoints fail",
    },
}
"""By section of the form, in its order. A unit follows a comma."""

LABELS: Mapping[str, str] = {
    key: text for settings in SECTIONS.values() for key, text in settings.items()
}
_MODES = {"min": "lowest", "max": "highest"}
CHOICES: Mapping[str, Mapping[str, str]] = {
    "strategy.name": {
        "allreduce": "Allreduce",
        "ddp": "DDP",
        "downpour": "Downpour SGD",
        "dc-asgd": "DC-ASGD",
        "sandblaster": "Sandblaster L-BFGS",
        "consensus": "Consensus (split network)",
        "alone": "One process",
    },
    "strategy.variant": {
        "adaptive": "Adaptive",
        "constant": "Constant",
        "admm": "ADMM",
        "dual-layer": "Dual layer",
        "dual-layer-normalised": "Dual layer, normalised",
        "dual-layer-quotient": "Dual layer, quotient",
    },
    "strategy.policy": {
        "none": "wait for all",
        "quorum": "end at 75 %",
        "portion": "small portions",
    },
    "strategy.compression": {"none": "None", "fp16": "16 bits"},
    "strategy.reduction": {
        "average": "Mean",
        "adasum": "Adasum",
        "hierarchical": "By node first",
    },
    "strategy.lr_scaling": {
        "linear": "× processes",
        "sqrt": "× √processes",
        "none": "do not scale",
    },
    "optimizer.name": {
        "sgd": "SGD",
        "adam": "Adam",
        "adamw": "AdamW",
        "adagrad": "Adagrad",
        "adadelta": "Adadelta",
        "rmsprop": "RMSprop",
        "lbfgs": "L-BFGS",
    },
    "schedule.name": {
        "constant": "Constant",
        "step": "Step",
        "exponential": "Exponential",
        "cosine": "Cosine",
    },
    "checkpoint.best_mode": _MODES,
    "early_stop.mode": _MODES,
}


def label(key: str) -> str:
    """Return the name of a setting with its unit: "Warm-up, epochs"."""
    if key in LABELS:
        return LABELS[key]
    part, _, setting = key.partition(".")
    if part == "environment" and setting:
        return setting
    return (setting or key).replace("_", " ").capitalize()


def name_and_unit(key: str) -> tuple[str, str]:
    """Return the name and the unit of a setting."""
    name, _, unit = label(key).partition(", ")
    return name, unit


def value_words(key: str, value: str) -> str:
    """Return the label of a choice; any other value unchanged."""
    return CHOICES.get(key, {}).get(value, value)


def place(key: str) -> float:
    """Return a sort key in the form's order; an unknown setting follows those of its table."""
    known = list(LABELS)
    if key in LABELS:
        return known.index(key)
    kin = key.partition(".")[0]
    return max((n + 0.5 for n, one in enumerate(known) if one.startswith(kin)), default=len(known))


def section(key: str) -> str:
    """Return the section of the form that contains a setting."""
    return next((name for name, keys in SECTIONS.items() if key in keys), "How")
