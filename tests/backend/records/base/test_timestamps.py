"""Times of the files: one form, that sorts as text and survives being read again."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone, tzinfo
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.records.base import timestamps

ZONES = st.integers(-1439, 1439).map(lambda minutes: timezone(timedelta(minutes=minutes)))
SINCE_1970 = st.integers(0, 2**37 * 10**6).map(lambda us: timedelta(microseconds=us))


@given(ZONES, SINCE_1970)
def test_a_time_of_any_zone_is_held_in_utc_and_read_again(zone: tzinfo, elapsed: timedelta) -> None:
    time = (datetime(1970, 1, 1, tzinfo=UTC) + elapsed).astimezone(zone)
    text = timestamps.stamp(time, "microseconds")
    assert text.endswith("Z")
    assert timestamps.parse_time(text) == time


@pytest.mark.parametrize("text", ["", "soon", "2026-11-23", "2026-11-23T18:42:44", "Z"])
def test_an_invalid_time_or_one_without_a_zone_is_none(text: str) -> None:
    assert timestamps.instant(text) is None
    assert timestamps.seconds(text) == 0.0
    with pytest.raises(ValueError, match=r"zone|isoformat|month"):
        timestamps.parse_time(text)


def test_timestamps_keep_their_order_within_a_second() -> None:
    first = timestamps.utc_now("microseconds")
    assert timestamps.parse_time(first) <= timestamps.parse_time(timestamps.utc_now("microseconds"))
    assert timestamps.seconds("2026-11-23T18:42:44.100Z") > timestamps.seconds(
        "2026-11-23T18:42:44.099Z"
    )


@pytest.mark.parametrize("set_to_h", [(0, -1, -2), (0, 5, -5), (0, 0, 0), (3, 2, 1), (-9, 9, 0)])
def test_an_even_clock_ignores_changes_of_the_wall_clock(
    set_to_h: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Clock(datetime):
        hours = 0

        @classmethod
        def now(cls, tz: object = None) -> datetime:  # type: ignore[override]
            return datetime(2026, 11, 24, 12, tzinfo=UTC) + timedelta(hours=cls.hours)

    monkeypatch.setattr(timestamps, "datetime", Clock)
    ticks = iter(range(100))
    monkeypatch.setattr(timestamps, "_measured_s", lambda: float(next(ticks)))
    clock = timestamps.EvenClock()
    times = []
    for Clock.hours in set_to_h:
        times.append(timestamps.seconds(clock.utc_now()))
    assert all(later - earlier == 1.0 for earlier, later in pairwise(times))
    assert times[0] == datetime(2026, 11, 24, 12, 0, 1, tzinfo=UTC).timestamp()
