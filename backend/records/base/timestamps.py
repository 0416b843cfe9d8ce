"""Times in files: ISO 8601 with their zone, UTC as ``Z``."""

from __future__ import annotations

from datetime import datetime, timezone


def now(timespec: str = "milliseconds") -> str:
    """Return the current time. In milliseconds, because a run may be shorter than a second."""
    return stamp(datetime.now(timezone.utc), timespec)


def stamp(when: datetime, timespec: str = "milliseconds") -> str:
    """Format a time that has a zone, as files store it."""
    return when.astimezone(timezone.utc).isoformat(timespec=timespec).replace("+00:00", "Z")


def moment(text: str) -> datetime:
    """Parse a time.

    Raises:
        ValueError: It is not a time, or has no zone.
    """
    # Python 3.9 does not parse Z.
    found = datetime.fromisoformat(text.replace("Z", "+00:00"))
    if found.tzinfo is None:
        raise ValueError(f"a time without its zone: {text}")
    return found


def instant(text: str) -> datetime | None:
    """Parse the time of a record; None if it has none that can be read."""
    try:
        return moment(text)
    except ValueError:
        return None


def seconds(text: str) -> float:
    """Return the time of a record in seconds since 1970, 0.0 if it has none."""
    found = instant(text)
    return found.timestamp() if found is not None else 0.0
