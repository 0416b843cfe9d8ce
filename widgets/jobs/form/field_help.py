"""The glossary term that explains each field of the form."""

from __future__ import annotations

TERMS = {
    "model": "model",
    "dataset": "dataset",
    "loader": "loader",
    "validation_dataset": "validation",
    "validation_loader": "validation",
    "start_from": "checkpoint",
    "epochs": "epoch",
    "batch_size": "batch",
    "gradient_norm": "gradient norm",
    "strategy.name": "allreduce",
    "strategy.lr_scaling": "rate scaling",
    "optimizer.name": "optimizer",
    "optimizer.lr": "learning rate",
    "optimizer.momentum": "momentum",
    "optimizer.dampening": "dampening",
    "optimizer.nesterov": "Nesterov",
    "optimizer.weight_decay": "weight decay",
    "optimizer.betas": "betas",
    "optimizer.eps": "epsilon",
    "optimizer.amsgrad": "AMSGrad",
    "optimizer.lr_decay": "rate decay",
    "optimizer.initial_accumulator_value": "accumulator",
    "optimizer.rho": "rho",
    "optimizer.alpha": "alpha",
    "optimizer.centered": "centered",
    "schedule.name": "schedule",
    "schedule.warmup_epochs": "warm-up",
    "schedule.step_size": "schedule",
    "schedule.gamma": "factor",
    "schedule.eta_min": "schedule",
    "mixed_precision": "half precision",
    "checkpoint.every_epochs": "checkpoint",
    "checkpoint.keep_latest": "retention",
    "checkpoint.keep_best": "retention",
    "checkpoint.best_metric": "best checkpoint",
    "checkpoint.best_mode": "best checkpoint",
    "early_stop.patience_epochs": "early stop",
    "seed": "seed",
    "loader_workers": "loader worker",
    "stall_limit_s": "stall",
    "stop_on_nan": "NaN",
    "stop_on_divergence": "divergence",
}
"""The path of a field in the job file, and its term in ``docs/terms.md``."""

FIGURES = {
    "Global batch": "global batch",
    "Effective rate": "rate scaling",
    "Steps an epoch": "step",
    "Checkpoints": "retention",
}
"""The captions next to the form, and their terms."""
