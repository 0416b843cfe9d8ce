"""The hour before which a job shall not start, as people type it."""

import time
from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest

from backend.records.queue.entry import parse_start_time

ZONE = timezone(timedelta(hours=2))
NOW = datetime(2026, 11, 22, 14, 2, 30, tzinfo=ZONE)


@pytest.mark.parametrize(
    ("typed_text", "meant"),
    [
        ("18:30", datetime(2026, 11, 22, 18, 30, tzinfo=ZONE)),
        (" 6:05 ", datetime(2026, 11, 23, 6, 5, tzinfo=ZONE)),
        ("14:02", datetime(2026, 11, 23, 14, 2, tzinfo=ZONE)),
        ("+2h", NOW + timedelta(hours=2)),
        ("+ 90 m", NOW + timedelta(minutes=90)),
        ("+1d", NOW + timedelta(days=1)),
        ("+36h", NOW + timedelta(hours=36)),
        ("2026-12-24T06:00:00Z", datetime(2026, 12, 24, 8, tzinfo=ZONE)),
        ("2026-12-24 06:00+02:00", datetime(2026, 12, 24, 6, tzinfo=ZONE)),
    ],
)
def test_a_time_is_understood(typed_text: str, meant: datetime) -> None:
    assert parse_start_time(typed_text, NOW, ZONE) == meant


@pytest.mark.parametrize(
    ("zone", "now", "typed_text", "meant"),
    [
        # In UTC: what a clock on the wall of the zone shows.
        ("Europe/Berlin", "2026-10-24T22:00", "04:09", "2026-10-25T03:09"),
        ("Europe/Berlin", "2026-10-24T22:00", "+1d", "2026-10-25T23:00"),
        ("Europe/Berlin", "2026-10-24T22:00", "+24h", "2026-10-25T22:00"),
        ("Europe/Berlin", "2026-10-24T22:00", "02:30", "2026-10-25T00:30"),
        ("Europe/Berlin", "2026-10-25T00:45", "02:30", "2026-10-25T01:30"),
        ("Europe/Berlin", "2026-10-25T01:45", "02:30", "2026-10-26T01:30"),
        ("Europe/Berlin", "2027-03-27T22:00", "04:09", "2027-03-28T02:09"),
        ("Europe/Berlin", "2027-03-27T22:00", "02:30", "2027-03-29T00:30"),
        ("Europe/Berlin", "2027-03-27T01:30", "+1d", "2027-03-28T01:30"),
        ("Europe/Berlin", "2026-11-22T12:00", "2027-07-01 06:00", "2027-07-01T04:00"),
        ("America/New_York", "2026-11-01T02:00", "08:00", "2026-11-01T13:00"),
        ("America/New_York", "2027-03-14T05:00", "08:00", "2027-03-14T12:00"),
        ("Australia/Lord_Howe", "2027-04-03T10:00", "06:00", "2027-04-03T19:30"),
    ],
)
@pytest.mark.parametrize("is_of_this_computer", [True, False])
def test_a_time_is_that_of_the_clock_on_its_day(
    monkeypatch: pytest.MonkeyPatch,
    zone: str,
    now: str,
    typed_text: str,
    meant: str,
    is_of_this_computer: bool,
) -> None:
    with monkeypatch.context() as patch:
        if is_of_this_computer:
            patch.setenv("TZ", zone)
            time.tzset()
        parsed_time = parse_start_time(
            typed_text,
            datetime.fromisoformat(f"{now}+00:00"),
            None if is_of_this_computer else ZoneInfo(zone),
        )
    time.tzset()
    assert parsed_time.astimezone(UTC) == datetime.fromisoformat(f"{meant}+00:00")


def test_an_hour_that_the_clock_skips_is_refused_with_the_one_after_it() -> None:
    with pytest.raises(ValueError, match=r"does not exist, because .*; use 2027-03-28 03:30"):
        parse_start_time("2027-03-28 02:30", NOW, ZoneInfo("Europe/Berlin"))


def test_a_date_without_a_zone_is_meant_here() -> None:
    assert parse_start_time("2026-12-24 06:00", NOW) == datetime(2026, 12, 24, 6).astimezone()


@pytest.mark.parametrize(
    "typed_text", ["soon", "25:00", "12:60", "+2", "+h", "2026-13-01", "18.30", ""]
)
def test_the_error_of_a_wrong_time_says_how_one_is_written(typed_text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a time; use 18:30, 2026-12-24 06:00, \+2h, or"):
        parse_start_time(typed_text, NOW)
