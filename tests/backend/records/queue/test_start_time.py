"""The hour before which a job shall not start, as people type it."""

from datetime import datetime, timedelta, timezone

import pytest

from backend.records.queue.start_time import parse_when

ZONE = timezone(timedelta(hours=2))
NOW = datetime(2026, 11, 22, 14, 2, 30, tzinfo=ZONE)


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("18:30", datetime(2026, 11, 22, 18, 30, tzinfo=ZONE)),
        (" 6:05 ", datetime(2026, 11, 23, 6, 5, tzinfo=ZONE)),
        ("14:02", datetime(2026, 11, 23, 14, 2, tzinfo=ZONE)),
        ("+2h", NOW + timedelta(hours=2)),
        ("+ 90 m", NOW + timedelta(minutes=90)),
        ("+1d", NOW + timedelta(days=1)),
        ("2026-12-24T06:00:00Z", datetime(2026, 12, 24, 8, tzinfo=ZONE)),
        ("2026-12-24 06:00+02:00", datetime(2026, 12, 24, 6, tzinfo=ZONE)),
    ],
)
def test_a_time_is_understood(typed: str, meant: datetime) -> None:
    assert parse_when(typed, NOW) == meant


def test_a_date_without_a_zone_is_meant_here() -> None:
    assert parse_when("2026-12-24 06:00", NOW) == datetime(2026, 12, 24, 6).astimezone()


@pytest.mark.parametrize("typed", ["soon", "25:00", "12:60", "+2", "+h", "2026-13-01", "18.30", ""])
def test_the_error_of_a_wrong_time_says_how_one_is_written(typed: str) -> None:
    with pytest.raises(ValueError, match=r"is not a time; use 18:30, 2026-12-24 06:00, or \+2h"):
        parse_when(typed, NOW)
