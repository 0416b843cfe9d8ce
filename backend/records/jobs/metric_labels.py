"""Labels of metrics: measured in training or in the validation, and which direction is better.

Standard library only and Python 3.9: the nodes import this.
"""

from __future__ import annotations

import re

from backend.records.jobs.metric_names import OF_NO_DATA, VALIDATION

USUAL_METRICS = ("validation/loss", "validation/accuracy", "loss")
_LOWER = frozenset(
    {"loss", "error", "err", "perplexity", "mse", "mae", "rmse", "wer", "cer", "fid"}
)
_HIGHER = frozenset(
    {"accuracy", "acc", "precision", "recall", "f1", "auc", "auroc", "iou", "miou", "map", "dice"}
    | {"top", "top1", "top5", "bleu", "rouge", "psnr", "ssim", "r2"}
)


def metric_words(name: str) -> str:
    """Return the label: ``validation/loss`` is "validation loss", ``loss`` "training loss"."""
    return _said(name, "validation", "training")


def short_metric(name: str) -> str:
    """Return a short label for narrow places: "val. loss", "train loss"."""
    return _said(name, "val.", "train")


def usual_mode(name: str) -> str:
    """Return ``min`` or ``max`` as the name of a metric suggests, or "" if it does not."""
    words = set(re.split(r"[^a-z0-9]+", name.rpartition("/")[2].casefold()))
    if words & _LOWER:
        return "min"
    return "max" if words & _HIGHER else ""


def tells_how_good(name: str) -> bool:
    """Return whether a metric measures the quality of the model."""
    return name not in OF_NO_DATA


def _said(name: str, validation: str, training: str) -> str:
    if name in OF_NO_DATA:
        return name.replace("_", " ")
    if name.startswith(VALIDATION):
        return f"{validation} {name[len(VALIDATION) :]}"
    return f"{training} {name}"
