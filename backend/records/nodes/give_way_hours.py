"""Hours at which a node gives way to other users:

never, always, or at certain hours of certain days.

Standard library only and Python 3.9: the nodes import this.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta

from backend.records.base.validation import sanitize

NEVER, ALWAYS = "", "always"
EXAMPLE = "08:00–18:00 Mon–Fri"
_LONG_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_DAYS = tuple(day[:3] for day in _LONG_DAYS)
_MIDNIGHT = 24 * 60


def parse_hours(text: str) -> str:
    """Return "never", "always" or hours in their one form, `NEVER`, `ALWAYS` or `EXAMPLE`.

    Hours that end before they begin last until the next day. Without days they hold on each day.

    Raises:
        ValueError: It is none of them; the message is a sentence.
    """
    tokens = re.sub(r"\s*[-–]\s*", "–", text.strip().replace(",", " ")).split()
    if [token.lower() for token in tokens] in ([], ["never"], [ALWAYS]):
        return ALWAYS if tokens and tokens[0].lower() == ALWAYS else NEVER
    times = [token for token in tokens if token[0].isdigit()]
    if len(times) != 1 or times[0].count("–") != 1:
        raise ValueError(f"“{sanitize(text)}” is not never, always, or hours such as {EXAMPLE}.")
    start, end = (_minute(time) for time in times[0].split("–"))
    if start in (end, _MIDNIGHT):
        raise ValueError(f"The hours {times[0]} have no length; for the whole day: 00:00–24:00.")
    days = dict.fromkeys(_days_word(token) for token in tokens if token != times[0])
    return " ".join((f"{_clock(start)}–{_clock(end)}", *days))


def gives_way_at(hours: str, now: datetime) -> bool:
    """Return whether a node with these parsed hours gives way at this local time."""
    if hours in (NEVER, ALWAYS):
        return hours == ALWAYS
    times, *day_tokens = hours.split()
    start, end = (_minute(time) for time in times.split("–"))
    days = {day for token in day_tokens for day in _days(token)} or set(range(7))
    minute, day = now.hour * 60 + now.minute, now.weekday()
    if start < end:
        return day in days and start <= minute < end
    # The days are those on which the hours begin.
    yesterday = (now - timedelta(days=1)).weekday()
    return (day in days and minute >= start) or (yesterday in days and minute < end)


def _minute(time: str) -> int:
    match = re.fullmatch(r"(\d{1,2}):([0-5]\d)", time)
    minute = int(match[1]) * 60 + int(match[2]) if match else _MIDNIGHT + 1
    if minute > _MIDNIGHT:
        raise ValueError(f"“{sanitize(time)}” is not a time of day; write it as in {EXAMPLE}.")
    return minute


def _clock(minute: int) -> str:
    return f"{minute // 60:02}:{minute % 60:02}"


def _days_word(word: str) -> str:
    return "–".join(map(_day, word.split("–", 1)))


def _day(name: str) -> str:
    for long in _LONG_DAYS:
        if len(name) > 2 and long.lower().startswith(name.lower()):
            return long[:3]
    raise ValueError(f"“{sanitize(name)}” is not a day; the days are {', '.join(_DAYS)}.")


def _days(word: str) -> list[int]:
    first, *last = (_DAYS.index(name) for name in word.split("–"))
    return [(first + n) % 7 for n in range(((last[0] if last else first) - first) % 7 + 1)]
