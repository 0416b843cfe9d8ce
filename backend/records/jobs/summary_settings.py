"""Settings from the summary of a job, by which jobs are compared.

A summary has its settings as one text, shared by all jobs that have the same. So a column of
settings costs the window nothing until it is shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from math import nan
from typing import NamedTuple

from backend.records.jobs.arguments import TABLE, argument_name
from backend.records.jobs.settings import default_value
from backend.records.jobs.summary import JobSummary

NUMBERS = ("lr", "batch_size", "epochs", "seed")
TEXTS = ("optimizer", "strategy")
PINS = ("model", "dataset", "script")
_OMITTED_DEFAULTS = {
    "seed": str(default_value("seed")),
    "strategy": str(default_value("strategy.name")),
}
"""Values that the text omits, because nearly every job has them."""
_COMPARISON = re.compile(r"([^<>=]+)(<=|>=|<|>)([^<>=]+)")


class SettingFilter(NamedTuple):
    """A comparison in a search: ``lr<=0.1``."""

    name: str
    sign: str
    value: float


def parse_filter(word: str) -> SettingFilter | None:
    """Parse a word of a search as a comparison, None if it is a plain word."""
    match = _COMPARISON.fullmatch(word)
    if match is None:
        return None
    name, sign, text = match.groups()
    try:
        return SettingFilter(search_key(name), sign, float(text.replace(",", ".")))
    except ValueError:  # A word such as “a>b”.
        return None


def search_key(word: str) -> str:
    """Return a word of a search without the table of an argument: ``arguments.lr=0.1``."""
    return argument_name(word) or word


def setting(summary: JobSummary, key: str) -> str:
    """Return the value of a setting as in the summary's text; "" for none, and for a sweep."""
    if key in PINS:
        return next((reference for name, reference in summary.pins if name == key), "")
    return summary.arguments if key == TABLE else settings((summary,), key)[0]


def settings(summaries: Iterable[JobSummary], key: str) -> list[str]:
    """Return a setting of many summaries; a call for each would be slow for 100,000 jobs."""
    if key in (*PINS, TABLE):
        return [setting(summary, key) for summary in summaries]
    prefix, line_prefix = f"{key}=", f"\n{key}="
    prefix_length, omitted_default = len(line_prefix), _OMITTED_DEFAULTS.get(key, "")
    values = []
    for summary in summaries:
        text = summary.settings
        start = text.find(line_prefix) + prefix_length
        if start < prefix_length:
            if not text.startswith(prefix):
                # The row of a sweep has no text.
                values.append(omitted_default if text else "")
                continue
            start = prefix_length - 1
        end = text.find("\n", start)
        values.append(text[start:] if end < 0 else text[start:end])
    return values


def number(summary: JobSummary, key: str) -> float:
    """Return the value of a numeric setting, NaN for none."""
    return numbers((summary,), key)[0]


def numbers(summaries: Iterable[JobSummary], key: str) -> list[float]:
    """Return a numeric setting of many summaries, most of which share their values."""
    known_numbers: dict[str, float] = {"": nan}
    values = []
    for text in settings(summaries, key):
        value = known_numbers.get(text)
        if value is None:
            value = known_numbers[text] = _number(text)
        values.append(value)
    return values


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:  # Text has no order among numbers.
        return nan
