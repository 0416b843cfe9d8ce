"""The earliest start time of a job, as users type it.

Standard library only and Python 3.9, as all records.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone, tzinfo

from backend.records.base.validation import sanitize

FORMS = "18:30, 2026-12-24 06:00, +2h, or +1d (the same time tomorrow)"
_CLOCK = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)")
_DELAY = re.compile(r"\+ ?(\d{1,4}) ?([mhd])")
_UNITS = {"m": 60, "h": 3600}


def parse_start_time(text: str, now: datetime, zone: tzinfo | None = None) -> datetime:
    """Parse a time of day (the next one), a date and time, or a delay after ``now``.

    A time of the clock is one of ``zone``, by default that of this computer, with the offset of its
    own day. A delay in days ends at the same time of the clock.

    Raises:
        ValueError: It is none of these, or no time of the clock; the message is a sentence for
            users.
    """
    text = text.strip()
    now = now.astimezone(zone)
    today = now.replace(tzinfo=None)
    delay, clock = _DELAY.fullmatch(text), _CLOCK.fullmatch(text)
    if delay and delay[2] in _UNITS:
        utc = now.astimezone(timezone.utc) + timedelta(seconds=int(delay[1]) * _UNITS[delay[2]])
        return utc.astimezone(zone)
    if delay:
        return _on_clock(today + timedelta(days=int(delay[1])), zone)
    if clock:
        clock_time = today.replace(
            hour=int(clock[1]), minute=int(clock[2]), second=0, microsecond=0
        )
        # An hour that comes twice may be ahead for the second time; one that a change skips today
        # comes again tomorrow.
        days = (
            clock_time,
            clock_time.replace(fold=1),
            *(clock_time + timedelta(days=n) for n in (1, 2)),
        )
        times = [_on_clock(day, zone) for day in days if _exists_on_clock(day, zone)]
        return next(candidate for candidate in times if _utc(candidate) > _utc(now))
    try:
        parsed_time = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        raise ValueError(f"“{sanitize(text)}” is not a time; use {FORMS}.") from None
    if parsed_time.tzinfo is not None:
        return parsed_time.astimezone(zone)
    if not _exists_on_clock(parsed_time, zone):
        raise ValueError(
            f"{sanitize(text)} does not exist, because the clock is put forward then; "
            f"use {_on_clock(parsed_time, zone):%Y-%m-%d %H:%M}."
        )
    return _on_clock(parsed_time, zone)


def _on_clock(wall_time: datetime, zone: tzinfo | None) -> datetime:
    """Return the time at which the clock shows ``wall_time``, or an hour later if it skips that."""
    if not _exists_on_clock(wall_time, zone):
        return max((_resolve(wall_time.replace(fold=fold), zone) for fold in (0, 1)), key=_utc)
    return _resolve(wall_time, zone)


def _exists_on_clock(wall_time: datetime, zone: tzinfo | None) -> bool:
    return _resolve(wall_time, zone).replace(tzinfo=None, fold=0) == wall_time.replace(fold=0)


def _resolve(wall_time: datetime, zone: tzinfo | None) -> datetime:
    local_time = wall_time.astimezone() if zone is None else wall_time.replace(tzinfo=zone)
    return _utc(local_time).astimezone(zone)


def _utc(time: datetime) -> datetime:
    return time.astimezone(timezone.utc)
