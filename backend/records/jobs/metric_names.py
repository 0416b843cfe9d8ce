"""Names of metrics: the program's own, the user's, both as columns, and their labels.

A user may give a metric any name. If the program has a metric of that name, the user's gets a
prefix on input, and keeps it in curves, tables, checkpoints and rules. The name also says whether
the training or the validation measured the metric, and which direction is better.

Standard library only and Python 3.9: the nodes import this.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

VALIDATION = "validation/"
"""Prefix of metrics that the validation measured."""
_USER = "user/"
STALENESS = ("staleness mean", "staleness p95", "staleness max")
PUSHES_PER_SECOND = "pushes per second"
PUSH_WINDOW = 100
"""Pushes of an epoch over which that rate is a mean, at most."""
OF_SERVERS = (*STALENESS, PUSHES_PER_SECOND, "server queue")
"""Metrics of strategies with servers."""
OF_NO_DATA = ("learning_rate", "gradient_norm", "samples_per_second", *OF_SERVERS)
"""Metrics of the training itself, which do not measure the model."""
OWN_NAMES = ("loss", *OF_NO_DATA)
_COLUMNS = ("step", "epoch")
"""Columns of every table besides the metrics."""
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")


def name_of_user_metric(name: str) -> str:
    """Return the name under which a user's metric is stored; the names stay distinct."""
    base_name = name
    while base_name.startswith(_USER):
        base_name = base_name[len(_USER) :]
    is_taken = base_name in OWN_NAMES or base_name in _COLUMNS or base_name.startswith(VALIDATION)
    return _USER + name if is_taken else name


def spreadsheet_text(text: str) -> str:
    """Return ``text`` safe for a spreadsheet, which would run a text that begins as a formula."""
    return f"'{text}" if text.startswith(_FORMULA) else text


def headings(head: Sequence[str], names: Iterable[str]) -> list[str]:
    """Return headings for ``names`` after ``head``: each unique, and none a formula."""
    used_headings = list(head)
    for name in names:
        heading = spreadsheet_text(name)
        while heading in used_headings:
            heading = _USER + heading
        used_headings.append(heading)
    return used_headings


USUAL_METRICS = ("validation/loss", "validation/accuracy", "loss")
_LOSS = frozenset({"loss", "losses"})
_LOWER = _LOSS | frozenset(
    {"error", "err", "perplexity", "ppl", "nll", "bce", "crossentropy", "logloss", "brier", "ece"}
    | {"mse", "mae", "rmse", "rmsle", "msle", "mape", "smape", "mase", "wer", "cer", "eer"}
    | {"fid", "kid", "lpips", "hausdorff", "hd"}
)
_HIGHER = frozenset(
    {"accuracy", "acc", "precision", "recall", "f1", "fscore", "auc", "auroc", "auprc", "ap", "map"}
    | {"iou", "miou", "dice", "jaccard", "kappa", "qwk", "mcc", "sensitivity", "specificity"}
    | {"bleu", "sacrebleu", "rouge", "meteor", "chrf", "psnr", "ssim", "r2", "ndcg", "mrr", "hits"}
    | {"pearson", "spearman", "reward"}
)
_SPREAD = frozenset(
    {"neg", "negative", "inverse", "inverted", "minus", "std", "var", "variance", "gap", "diff"}
    | {"delta", "drop", "log"}
)
"""Words that make something else of the metric next to them."""
_PROGRESS = frozenset(
    {"epoch", "epochs", "step", "steps", "iter", "iters", "iteration", "iterations", "batch"}
    | {"lr", "rate", "momentum", "decay", "norm", "grad", "gradnorm", "temperature", "seed"}
    | {"time", "times", "seconds", "second", "sec", "secs", "minutes", "eta", "elapsed", "duration"}
    | {"speed", "throughput", "samples", "tokens", "images", "examples", "fps", "flops", "mfu"}
    | {"memory", "mem", "gpu", "cpu", "ram", "gb", "gib", "mb", "mib", "timestamp", "runtime"}
)
"""Words of numbers that a script writes about the training itself."""
_TRAINING_WORDS = frozenset({"train", "training"})
_VALIDATION_WORDS = frozenset({"val", "valid", "validation"})
_DATA_WORDS = _TRAINING_WORDS | _VALIDATION_WORDS | {"dev", "eval", "evaluation", "test"}
"""Words that say which data a metric measures."""
_LABEL = re.compile(r"(?i:(?P<data>val\.?|validation|train|training) )(?P<name>[^/]+)")
_WORD = re.compile(r"[A-Z]?[a-z]+[0-9]*|[A-Z]+(?![a-z])[0-9]*")


def metric_label(name: str) -> str:
    """Return the label: ``validation/loss`` is "validation loss", ``loss`` "training loss"."""
    return _label(name, "validation", "training")


def short_metric_label(name: str) -> str:
    """Return a short label for narrow places: "val. loss", "train loss"."""
    return _label(name, "val.", "train")


def name_of_label(text: str) -> str:
    """Return the name of a metric that was typed as its label: "Val loss", "training loss"."""
    match = _LABEL.fullmatch(text.strip())
    if match is None:
        return text
    name = match["name"].lower() if match["name"].lower() in ("loss", "accuracy") else match["name"]
    return name if match["data"][0] in "tT" else VALIDATION + name


def usual_mode(name: str) -> str:
    """Return ``min`` or ``max`` as the name of a metric suggests, or "" if it does not.

    "" also for a name with words of both, such as ``error_recall``: a wrong direction keeps the
    worst checkpoint, and a question costs one click.
    """
    group, _, base_name = name.removeprefix(VALIDATION).rpartition("/")
    name_tokens, group_tokens = _tokens(base_name), _tokens(group)
    if name_tokens & _SPREAD or base_name.startswith("1"):
        return ""
    lower_tokens, higher_tokens = name_tokens & _LOWER, name_tokens & _HIGHER
    if lower_tokens and (not higher_tokens or name_tokens & _LOSS):
        return "" if group_tokens & _HIGHER else "min"
    is_higher = (
        (higher_tokens or "top" in name_tokens) and not lower_tokens and not group_tokens & _LOWER
    )
    return "max" if is_higher else ""


def _tokens(name: str) -> set[str]:
    """Return the words of ``valAcc``, ``mAP50`` and ``f1_macro``, with and without digits."""
    parts = re.split(r"[^A-Za-z0-9]+", name)
    tokens = {token.casefold() for part in parts for token in (part, *_WORD.findall(part))}
    return tokens | {token.rstrip("0123456789") for token in tokens}


def matching_metric(text: str, names: Iterable[str]) -> str:
    """Return the metric that a user means: ``VAL_LOSS`` or "Validation loss": ``validation/loss``.

    "" if the text means none, or several.
    """
    names = tuple(names)
    matches = [name for name in names if name == text] or [
        name for name in names if _meaning(name) == _meaning(text)
    ]
    return matches[0] if len(matches) == 1 else ""


def _meaning(name: str) -> str:
    """Return the words of a name without case and separators; a name of no data is training's."""
    tokens = re.findall(r"[^\W_]+", name.casefold())
    while tokens[1:] and tokens[0] in _TRAINING_WORDS:
        tokens.pop(0)
    if tokens[1:] and tokens[0] in _VALIDATION_WORDS:
        tokens[0] = "val"
    return "".join(tokens)


def measures_quality(name: str) -> bool:
    """Return whether a metric measures the quality of the model, by its name."""
    return bool(usual_mode(name)) or not (name in OF_NO_DATA or _tokens(name) & _PROGRESS)


def _label(name: str, validation: str, training: str) -> str:
    if name in OF_NO_DATA:
        return name.replace("_", " ")
    if name.startswith(VALIDATION):
        return f"{validation} {name[len(VALIDATION) :]}"
    # A script names the data itself (val_loss, train/loss), or counts its time and steps.
    is_complete = _tokens(name) & _DATA_WORDS or not measures_quality(name)
    return name if is_complete else f"{training} {name}"
