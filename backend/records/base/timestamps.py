"""Times as all files hold them: ISO 8601 with their zone, UTC as ``Z``."""

from __future__ import annotations

from datetime import datetime, timezone


def now(timespec: str = "milliseconds") -> str:
    """This moment. A run may be shorter than a second, and ends after it began."""
    return stamp(datetime.now(timezone.utc), timespec)


def stamp(when: datetime, timespec: str = "milliseconds") -> str:
    """A time that knows its zone, as a file holds it."""
    return when.astimezone(timezone.utc).isoformat(timespec=timespec).replace("+00:00", "Z")


def moment(text: str) -> datetime:
    """The time that a stamp tells.

    Raises:
        ValueError: It is no time, or tells no zone.
    """
    # Python 3.9 knows no Z.
    found = datetime.fromisoformat(text.replace("Z", "+00:00"))
    if found.tzinfo is None:
        raise ValueError(f"a time without its zone: {text}")
    return found


def instant(text: str) -> datetime | None:
    """The time that a record tells, None when it has none that can be read."""
    try:
        return moment(text)
    except ValueError:
        return None


def seconds(text: str) -> float:
    """The time that a record tells in seconds since 1970, 0.0 when it has none."""
    found = instant(text)
    return found.timestamp() if found is not None else 0.0
