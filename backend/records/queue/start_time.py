"""The earliest start time of a job, as users type it.

Standard library only and Python 3.9, as all records.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta

from backend.records.base.validation import sanitize

FORMS = "18:30, 2026-12-24 06:00, or +2h"
_CLOCK = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)")
_AFTER = re.compile(r"\+ ?(\d{1,4}) ?([mhd])")
_UNITS = {"m": 60, "h": 3600, "d": 86400}


def parse_when(text: str, now: datetime) -> datetime:
    """Parse a time of day (the next one), a date and time, or a delay after ``now``.

    Raises:
        ValueError: It is none of these; the message is a sentence for users.
    """
    text = text.strip()
    after = _AFTER.fullmatch(text)
    if after:
        return now + timedelta(seconds=int(after[1]) * _UNITS[after[2]])
    clock = _CLOCK.fullmatch(text)
    if clock:
        when = now.replace(hour=int(clock[1]), minute=int(clock[2]), second=0, microsecond=0)
        return when if when > now else when + timedelta(days=1)
    try:
        when = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        raise ValueError(f"“{sanitize(text)}” is not a time; use {FORMS}.") from None
    return when.astimezone(now.tzinfo)
