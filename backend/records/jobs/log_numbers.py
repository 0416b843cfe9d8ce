"""Numbers in the log of a script, found by patterns such as ``loss: {loss}``.

A name in braces stands for a number, ``…`` for any text; the rest is found as it stands, where one
space fits any. Patterns are no regular expressions, so no pattern takes long.
Python 3.9: the nodes import this.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

from backend.records.base.cells import decimal_signs, number_in

ANY = "…"
_SPACE = r"[ \u00a0\u2009\u202f]"
_PLAIN_COUNT = r"(?:[1-9]\d{0,2}(?:(?:,\d{3})+(?![\d_])|(?:[_'’]\d{3})+(?![\d_]))|\d+)"
"""A whole number, also with its digits in groups: ``12,500`` or ``12_500``."""
_SPACED = rf"(?<!\d )[1-9]\d{{0,2}}(?:{_SPACE}\d{{3}})+(?:,\d+)?(?![\d.,]|{_SPACE}+[-+−.]?\d)"
"""Groups with spaces between them, such as ``12 500``. More numbers beside it are columns."""
_COUNT = rf"(?:{_SPACED}|{_PLAIN_COUNT})"
_MANTISSA = (
    rf"{_SPACED}|[1-9]\d{{0,2}}(?:,\d{{3}})+(?![\d_])(?:\.\d*)?"
    r"|[1-9]\d{0,2}(?:[_'’]\d{3})+(?![\d_])(?:[.,]\d*)?"
    r"|[1-9]\d{0,2}(?:\.\d{3})+(?:,\d+|\.\d{3})(?![\d.,])"
    r"|\d+,\d+(?!\d|,\d)|\d+\.\d*|\.\d+|\d+(?!\d*,\d)"
)
_NUMBER = rf"[-+−–]?(?:(?:{_MANTISSA})(?:[eE][-+−]?\d+|[kMGBT](?!\w))?|(?:nan|inf)\b)"
"""A comma ends groups of three digits, or begins the decimals: ``0,25``. ``1,2,3`` is a list."""
_IN_LINE = re.compile(rf"(?<![\w.@])(?:{_NUMBER})", re.IGNORECASE)
_NAME = re.compile(r"\{([A-Za-z_][\w./-]*)\}")
_LONGEST_LINE = 2_000
_GAP = r"\b\.?[^\w\n+.-]{0,5}"
_POSITION = re.compile(
    r"(?<![^\W\d_])(?:"
    rf"(?:epoche?|époque|[eé]poca|durchlauf|ep){_GAP}(?P<epoch>{_PLAIN_COUNT}(?:\.\d+)?)"
    r"|(?:global[ _]step|num_updates|step|iter|iteration|itr|it|episode|generation|round"
    r"|schritt|étape|pas+o)"
    rf"{_GAP}(?P<step>{_COUNT}(?:\.\d+)?[kM]?))(?![\w.]*\d|,\d)"
    rf"(?:\s*(?:/|of\b|von\b|sur\b|de\b)\s*(?P<total>{_COUNT}(?:\.\d{{3}})*[kM]?))?",
    re.IGNORECASE,
)
_BEST = re.compile(r"\([^()]*\b(?:best|bisher)\b[^()]*\)", re.IGNORECASE)
"""What a line says of an earlier value: ``(best 0.9 at epoch 3)``."""
_POINTED = re.compile(r"[1-9]\d{0,2}(?:\.\d{3})+")
_IN_BRACKETS = re.compile(rf"(?<=[:=])\s*\[({_NUMBER})\]", re.IGNORECASE)
_VALIDATION = re.compile(
    r"(?<![\w/.-])(?:val|valid|validation|test|eval|evaluation|dev|prüfung|validierung)(?![\w/.-])",
    re.IGNORECASE,
)
"""Word before the values of a line that are not those of the training."""
_LEADING_COUNT = re.compile(r"\s*(?:\[(\d+)\]|(\d+):)\s")
"""The iteration as gradient boosting prints it: ``[10]`` or ``10:`` before the values."""
_ITEM_START = re.compile(r"[,|;:\])\t]\s*$")
_ITEM_END = re.compile(r"\s*%?\s*(?:[,|;\t]|$)")
"""What is around ``mfu 3.6%`` in a line such as ``iter 10: loss 3.9, mfu 3.6%``."""
_EPOCH_PART = re.compile(
    rf"(?:^|[\[(|])\s*{_COUNT}\s*/\s*{_COUNT}|\bbatch\W{{0,3}}{_COUNT}", re.IGNORECASE
)
"""The part of an epoch that is done: ``[ 320/6000``, ``| 3/10``, ``batch 3``."""
_VALUE = re.compile(
    rf"([^\W\d_][\w./@-]*(?: [^\W\d_][\w./@-]*){{0,2}})(\s*[:=]\s*|\s+)({_NUMBER})(?![\w/:]|\.\d)",
    re.IGNORECASE,
)
_NAMED_BEFORE = re.compile(r"[\s(\[@,-]*(?:\b(?:at|after|for|in|on)\s*)?\|[)\]]*\s*(?=[:=])")
"""The rest of a position in ``auc at step 200: 0.8`` or ``loss (epoch 3) = 0.4``."""
_KNOWN_METRIC = re.compile(
    r"loss|acc|err|score|f1|mse|mae|auc|iou|\bmap|ppl|perplexity|bpc|reward|\blr\b|rate$"
    r"|norm|precision|recall|bleu|rouge|\bwer\b|\bcer\b|dice|psnr|ssim|\bfid\b|entropy"
    r"|/s(?:ec)?$|_per_|verlust|genauigkeit|perte|exactitud|p[eé]rdi[dt]a|accuratezza",
    re.IGNORECASE,
)
_FRACTION = re.compile(r"loss|acc|err|f1|mse|mae|auc|iou|\bmap|\blr\b|rate$", re.IGNORECASE)
"""Metrics of which ``1,234`` is rather a bit more than one."""
_THREE_DECIMALS = re.compile(r"[-+−–]?\d,\d{3}")
_SHORT_LIST = re.compile(r"\d,\d")
_LIST_NAME = re.compile(
    r"(?:gpu|device|rank|node|core|cpu|id|layer|shape|size|dim|kernel|stride)s?$", re.IGNORECASE
)
_NO_VALUES = re.compile(
    r"(?:^|_|\b)(?:time|eta|elapsed|seed|rank|port|pid|epochs?|steps?|iter|batch(?:es)?)$",
    re.IGNORECASE,
)


def invalid_pattern(patterns: Iterable[str]) -> str:
    """Return the first that is no pattern, or ""."""
    return next((pattern or " " for pattern in patterns if not _is_pattern(pattern)), "")


def _is_pattern(pattern: str) -> bool:
    parts = [part for part in pattern.split(ANY) if part.strip()]
    for part in parts:
        texts = _NAME.split(part)
        # The text between two names separates their numbers.
        if not "".join(texts[::2]).strip() or not all(
            part_text.strip() for part_text in texts[2:-1:2]
        ):
            return False
    return bool(_NAME.search(pattern))


def is_name(text: str) -> bool:
    return bool(_NAME.fullmatch(f"{{{text}}}"))


def is_metric_name(name: str) -> bool:
    """Return whether a name is surely that of a metric, such as ``val_loss``."""
    return bool(_KNOWN_METRIC.search(name))


def numbers_of(patterns: Sequence[str], line: str) -> dict[str, float]:
    """Return the numbers that the patterns find in a line, by name."""
    return {
        name: _metric_value(name, line[start:end])
        for pattern in (patterns if len(line) <= _LONGEST_LINE else ())
        for name, (start, end) in _number_spans(pattern, line).items()
    }


def guessed_numbers(line: str, position: dict[str, float]) -> dict[str, float]:
    """Return what a line such as ``Epoch 3/60 loss: 0.2 val_acc: 0.9`` says, by name.

    ``is_within_epoch`` is added to a line of which an epoch has several. Names have ``_`` for
    blanks.

    Args:
        line: Without the codes of a terminal.
        position: The epoch of the lines before, which counts for a line that has none. Is updated.
    """
    if len(line) > _LONGEST_LINE:
        return {}
    # Hugging Face prints Python's dicts.
    line = _BEST.sub("", _IN_BRACKETS.sub(r"\1", line.replace("'", "")))
    remaining_text = _NAMED_BEFORE.sub("", _POSITION.sub("|", line))
    matches = [*_VALUE.finditer(remaining_text)]
    decimal = _decimal_sign([match[3] for match in matches])
    counts, totals = _counts_in(line, decimal)
    if not (counts or position) and (leading_count := _LEADING_COUNT.match(line)):
        counts["step"] = float(leading_count[1] or leading_count[2])
    if "epoch" in counts:
        # The total of the steps is that of the epoch.
        totals.pop("total_steps", None)
        position.clear()
        position.update({"epoch": counts["epoch"], **totals})
    group = _VALIDATION.search(remaining_text, 0, matches[0].start()) if matches else None
    prefix = f"{group[0].casefold()}/" if group is not None else ""
    values = {
        prefix + "_".join(match[1].split()): _metric_value(match[1], match[3], decimal)
        for match in matches
        if _is_metric(match, has_count=bool(counts))
    }
    if not values or not (counts or position):
        return {}
    is_within = "step" not in counts and (
        counts.get("epoch", 0) % 1 or _EPOCH_PART.search(remaining_text)
    )
    epoch_flag = {"is_within_epoch": 1.0} if is_within else {}
    return {**position, **counts, **totals, **epoch_flag, **values}


def _counts_in(line: str, decimal: str) -> tuple[dict[str, float], dict[str, float]]:
    """Return the epoch and the step of a line, and their totals, by name."""
    counts: dict[str, float] = {}
    totals: dict[str, float] = {}
    for match in _POSITION.finditer(line):
        name = "epoch" if match["epoch"] else "step"
        counts.setdefault(name, _count(match[name], decimal if name == "epoch" else ""))
        if match["total"]:
            key = "epochs" if name == "epoch" else "total_steps"
            totals.setdefault(key, _count(match["total"], ""))
    return counts, totals


def _is_metric(match: re.Match[str], *, has_count: bool) -> bool:
    """Return whether a name and a number in a line are a metric, and no setting or time.

    Args:
        match: A match of `_VALUE`.
        has_count: The line has an epoch or a step; otherwise only what is surely a metric counts.
    """
    name, separator, number = match.groups()
    is_list = _LIST_NAME.search(name) and _SHORT_LIST.fullmatch(number)
    if is_list or _NO_VALUES.search(name):
        return False
    if separator.strip():
        return has_count or is_metric_name(name.split()[-1])
    is_item = _ITEM_START.search(match.string, 0, match.start()) and _ITEM_END.match(
        match.string, match.end()
    )
    is_usual = is_metric_name(name.split()[-1]) or (has_count and is_item is not None)
    return is_usual and not number.isdigit()


def _decimal_sign(numbers: Iterable[str]) -> str:
    """Return the decimal sign that the numbers of a line show, "" if they do not agree."""
    signs = {"".join(signs) for signs in map(decimal_signs, zip(numbers)) if len(signs) == 1}
    return signs.pop() if len(signs) == 1 else ""


def _count(text: str, decimal: str) -> float:
    """Return an epoch, or with "" for ``decimal`` a whole number: 1.000 steps are a thousand."""
    return number_in(text, decimal or ("," if _POINTED.fullmatch(text) else ""))


def _metric_value(name: str, text: str, decimal: str = "") -> float:
    """Return the value of a number, of which other numbers beside it may show the decimal sign."""
    is_fraction = _FRACTION.search(name) and _THREE_DECIMALS.fullmatch(text)
    return number_in(text, decimal or ("," if is_fraction else ""))


def _number_spans(pattern: str, line: str) -> dict[str, tuple[int, int]]:
    offset, spans = 0, {}
    for part, names in _compile_pattern(pattern):
        match = part.search(line, offset)
        if match is None:
            return {}
        offset = match.end()
        spans.update({name: match.span(number) for number, name in enumerate(names, 1)})
    return spans


@lru_cache(maxsize=64)
def _compile_pattern(pattern: str) -> list[tuple[re.Pattern[str], list[str]]]:
    parts = []
    for part in pattern.split(ANY):
        if not part.strip():
            continue
        texts = _NAME.split(part.strip())
        fixed_texts = [r"\s+".join(map(re.escape, part_text.split())) for part_text in texts[::2]]
        # The first and the last number of a part may have any space next to their text.
        text = rf"\s*({_NUMBER})\s*".join(fixed_texts)
        parts.append((re.compile(text, re.IGNORECASE), texts[1::2]))
    return parts


def number_spans(line: str) -> list[tuple[int, int]]:
    """Return where the numbers of a line begin and end."""
    return [match.span() for match in _IN_LINE.finditer(line)]


def pattern_for(line: str, start: int, end: int, name: str) -> str:
    """Return the pattern that finds the number at a place in this line and those like it.

    It has the text right before the number; where that is not enough, text from further left, or
    the text on both sides.
    """
    edges = [0, *(edge for span in number_spans(line) if span[1] <= start for edge in span), start]
    texts = [line[text_start:text_end] for text_start, text_end in zip(edges[::2], edges[1::2])]
    placeholder, own_text = f"{{{name}}}", texts.pop()
    for head, last_text in (
        ("", own_text),
        *((f"{text.rstrip()}{ANY}", own_text) for text in reversed(texts)),
    ):
        tokens = head.split() or last_text.split()
        for count in range(1, len(tokens) + 1):
            text = " ".join(tokens[-count:])
            gap = " " * own_text[-1:].isspace()
            pattern = f"{text}{own_text.strip() if head else ''}{gap}{placeholder}"
            has_letters = any(map(str.isalpha, pattern.replace(placeholder, "")))
            if has_letters and _number_spans(pattern, line).get(name, (-1,))[0] == start:
                return pattern
    next_text = re.match(r"\s?[^\s\d]*", line[end:])
    return f"{own_text.strip()}{placeholder}{next_text[0] if next_text is not None else ''}"
