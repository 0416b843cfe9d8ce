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
_UNSAID = {"seed": str(default_value("seed")), "strategy": str(default_value("strategy.name"))}
"""Values that the text omits, because nearly every job has them."""
_COMPARED = re.compile(r"([^<>=]+)(<=|>=|<|>)([^<>=]+)")


class SettingFilter(NamedTuple):
    """A comparison in a search: ``lr<=0.1``."""

    name: str
    sign: str
    value: float


def comparison(word: str) -> SettingFilter | None:
    """Parse a word of a search as a comparison, None if it is a plain word."""
    found = _COMPARED.fullmatch(word)
    if found is None:
        return None
    name, sign, text = found.groups()
    try:
        return SettingFilter(search_key(name), sign, float(text.replace(",", ".")))
    except ValueError:  # A word such as “a>b”.
        return None


def search_key(word: str) -> str:
    """Return a word of a search without the table of an argument: ``arguments.lr=0.1``."""
    return argument_name(word) or word


def setting(line: JobSummary, key: str) -> str:
    """Return the value of a setting as in the summary's text; "" for none, and for a sweep."""
    if key in PINS:
        return next((reference for name, reference in line.pins if name == key), "")
    return line.arguments if key == TABLE else settings((line,), key)[0]


def settings(lines: Iterable[JobSummary], key: str) -> list[str]:
    """Do the same for many, without a call for each: of 100,000 that is most of the time."""
    if key in (*PINS, TABLE):
        return [setting(line, key) for line in lines]
    begin, mark = f"{key}=", f"\n{key}="
    long, unsaid = len(mark), _UNSAID.get(key, "")
    found = []
    for line in lines:
        text = line.settings
        at = text.find(mark) + long
        if at < long:
            if not text.startswith(begin):
                # The row of a sweep has no text.
                found.append(unsaid if text else "")
                continue
            at = long - 1
        end = text.find("\n", at)
        found.append(text[at:] if end < 0 else text[at:end])
    return found


def number(line: JobSummary, key: str) -> float:
    """Return the value of a numeric setting, NaN for none."""
    return numbers((line,), key)[0]


def numbers(lines: Iterable[JobSummary], key: str) -> list[float]:
    """Do the same for many: most jobs share their values."""
    known: dict[str, float] = {"": nan}
    found = []
    for text in settings(lines, key):
        value = known.get(text)
        if value is None:
            value = known[text] = _number(text)
        found.append(value)
    return found


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:  # Text has no order among numbers.
        return nan
