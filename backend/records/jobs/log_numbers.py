"""Numbers in the log of a script, found by patterns such as ``loss: {loss}``.

A name in braces stands for a number, ``…`` for any text; the rest is found as it stands, where one
space fits any. Patterns are no regular expressions, so no pattern takes long.
Python 3.9: the nodes import this.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

from backend.records.base.cells import number_in

ANY = "…"
_SPACE = r"[ \u00a0\u2009\u202f]"
PLAIN_COUNT = r"(?:[1-9]\d{0,2}(?:(?:,\d{3})+(?![\d_])|(?:[_'’]\d{3})+(?![\d_]))|\d+)"
"""A whole number, also with its digits in groups: ``12,500`` or ``12_500``."""
_SPACED = rf"(?<!\d )[1-9]\d{{0,2}}(?:{_SPACE}\d{{3}})+(?:,\d+)?(?![\d.,]|{_SPACE}+[-+−.]?\d)"
"""Groups with spaces between them, such as ``12 500``. More numbers beside it are columns."""
COUNT = rf"(?:{_SPACED}|{PLAIN_COUNT})"
_MANTISSA = (
    rf"{_SPACED}|[1-9]\d{{0,2}}(?:,\d{{3}})+(?![\d_])(?:\.\d*)?"
    r"|[1-9]\d{0,2}(?:[_'’]\d{3})+(?![\d_])(?:[.,]\d*)?"
    r"|[1-9]\d{0,2}(?:\.\d{3})+(?:,\d+|\.\d{3})(?![\d.,])"
    r"|\d+,\d+(?!\d|,\d)|\d+\.\d*|\.\d+|\d+(?!\d*,\d)"
)
NUMBER = rf"[-+−–]?(?:(?:{_MANTISSA})(?:[eEdDf][-+−]?\d+|(?-i:[kKMGBT])(?!\w))?|(?:nan|inf)\b)"
"""A comma ends groups of three digits, or begins the decimals: ``0,25``. ``1,2,3`` is a list."""
_IN_LINE = re.compile(rf"(?<![\w.@])(?:{NUMBER})", re.IGNORECASE)
_NAME = re.compile(r"\{([A-Za-z_][\w./-]*)\}")
LONGEST_LINE = 2_000
_KNOWN_METRIC = re.compile(
    r"loss|acc|err|score|f1|mse|mae|auc|iou|\bmap|ppl|perplexity|bpc|reward|\blr\b|rate$"
    r"|\bnll\b|\bkl\b|elbo|residual|\bmrr\b|ndcg|return|lpips|\bap(?:\d\d|[sml])?\b|\b[sf]ps\b|kappa|energy"
    r"|norm|precision|recall|bleu|rouge|\bwer\b|\bcer\b|dice|psnr|ssim|\bfid\b|entropy"
    r"|/s(?:ec)?$|_per_|verlust|genauigkeit|perte|exactitud|p[eé]rdi[dt]a|accuratezza"
    r"|потери|точность|损失|准确率|精度|損失|誤差|손실|정확도",
    re.IGNORECASE,
)
_FRACTION = re.compile(
    r"loss|acc|err|f1|mse|mae|auc|iou|\bmap|\blr\b|rate$|verlust|genauigkeit|perte|p[eé]rdi[dt]a",
    re.IGNORECASE,
)
"""Metrics of which ``1,234`` is rather a bit more than one."""
_THREE_DECIMALS = re.compile(r"[-+−–]?\d,\d{3}")


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
        name: metric_value(name, line[start:end])
        for pattern in (patterns if len(line) <= LONGEST_LINE else ())
        for name, (start, end) in _number_spans(pattern, line).items()
    }


def metric_value(name: str, text: str, decimal: str = "") -> float:
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
        text = rf"\s*({NUMBER})\s*".join(fixed_texts)
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
