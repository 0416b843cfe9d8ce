"""Times in files: ISO 8601 with their zone, UTC as ``Z``."""

from __future__ import annotations

import time
from datetime import datetime, timedelta, timezone

_BOOT = getattr(time, "CLOCK_BOOTTIME", None)


class EvenClock:
    """A clock that was right when it was made and is never set since: its times are in order."""

    def __init__(self) -> None:
        self._start = datetime.now(timezone.utc)
        self._start_s = _measured_s()

    def elapsed_s(self) -> float:
        """Return the seconds since it was made."""
        return _measured_s() - self._start_s

    def utc_now(self, timespec: str = "milliseconds") -> str:
        return stamp(self._start + timedelta(seconds=self.elapsed_s()), timespec)


def _measured_s() -> float:
    """Return a time that a computer's sleep is part of."""
    return time.monotonic() if _BOOT is None else time.clock_gettime(_BOOT)


def time_before(text: str, by_s: float) -> str:
    """Return the time ``by_s`` seconds before the time of a record; "" if it has none."""
    time = instant(text)
    return "" if time is None else stamp(time - timedelta(seconds=by_s))


def utc_now(timespec: str = "milliseconds") -> str:
    """Return the current time. In milliseconds, because a run may be shorter than a second."""
    return stamp(datetime.now(timezone.utc), timespec)


def stamp(time: datetime, timespec: str = "milliseconds") -> str:
    """Format a time that has a zone, as files store it."""
    return time.astimezone(timezone.utc).isoformat(timespec=timespec).replace("+00:00", "Z")


def parse_time(text: str) -> datetime:
    """Parse a time.

    Raises:
        ValueError: It is not a time, or has no zone.
    """
    # Python 3.9 does not parse Z.
    time = datetime.fromisoformat(text.replace("Z", "+00:00"))
    if time.tzinfo is None:
        raise ValueError(f"a time without its zone: {text}")
    return time


def instant(text: str) -> datetime | None:
    """Parse the time of a record; None if it has none that can be read."""
    try:
        return parse_time(text)
    except ValueError:
        return None


def seconds(text: str) -> float:
    """Return the time of a record in seconds since 1970, 0.0 if it has none."""
    time = instant(text)
    return time.timestamp() if time is not None else 0.0
