"""The hours at which a node gives way: what is typed, what is stored, and when they are."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.records.nodes.entry import EXAMPLE, gives_way_at, parse_hours

_NAMES = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


@pytest.mark.parametrize(
    ("typed_text", "stored"),
    [
        ("", ""),
        ("never", ""),
        (" Always ", "always"),
        (EXAMPLE, EXAMPLE),
        ("8:00-18:00 mon-fri", EXAMPLE),
        ("Monday - Friday  08:00 - 18:00", EXAMPLE),
        ("22:00–06:00", "22:00–06:00"),
        ("00:00-24:00 Mon-Sun", "00:00–24:00 Mon–Sun"),
        ("22:00-06:00 fri-mon", "22:00–06:00 Fri–Mon"),
        ("07:30-12:00 Wed, mon,Wednesday", "07:30–12:00 Wed Mon"),
    ],
)
def test_hours_have_one_form(typed_text: str, stored: str) -> None:
    assert parse_hours(typed_text) == stored
    assert parse_hours(stored) == stored


@pytest.mark.parametrize(
    ("typed_text", "message"),
    [
        ("25:00-26:00", f"“25:00” is not a time of day; write it as in {EXAMPLE}."),
        ("08:00-18:60", f"“18:60” is not a time of day; write it as in {EXAMPLE}."),
        ("8-18", f"“8” is not a time of day; write it as in {EXAMPLE}."),
        ("08:00-18:00 Fun", f"“Fun” is not a day; the days are {', '.join(_NAMES)}."),
        ("08:00-18:00 Monkey", f"“Monkey” is not a day; the days are {', '.join(_NAMES)}."),
        ("08:00-18:00 Mon-", f"“” is not a day; the days are {', '.join(_NAMES)}."),
        ("08:00-08:00", "The hours 08:00–08:00 have no length; for the whole day: 00:00–24:00."),
        ("24:00-06:00", "The hours 24:00–06:00 have no length; for the whole day: 00:00–24:00."),
        *(
            (text, f"“{text}” is not never, always, or hours such as {EXAMPLE}.")
            for text in ("sometimes", "Mon-Fri", "08:00", "08:00-12:00 13:00-18:00", "1-2-3")
        ),
    ],
)
def test_invalid_hours_get_one_sentence(typed_text: str, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        parse_hours(typed_text)


# 2026-11-23 is a Monday.
@pytest.mark.parametrize(
    ("hours", "start", "end"),
    [
        (EXAMPLE, "23T08:00", "23T18:00"),
        (EXAMPLE, "27T08:00", "27T18:00"),
        ("22:00–06:00", "25T22:00", "26T06:00"),
        ("22:00–06:00 Fri", "27T22:00", "28T06:00"),
        ("22:00–06:00 Sun", "29T22:00", "30T06:00"),
        ("20:00–24:00 Sat", "28T20:00", "29T00:00"),
    ],
)
def test_hours_begin_and_end_on_the_minute(hours: str, start: str, end: str) -> None:
    first, following = (
        datetime.fromisoformat(f"2026-11-{minute_of_day}") for minute_of_day in (start, end)
    )
    minute = timedelta(minutes=1)
    minutes = [first - minute, first, following - minute, following]
    assert [gives_way_at(hours, now) for now in minutes] == [False, True, True, False]


QUARTERS = st.integers(0, 95).map(lambda quarter: 15 * quarter)


@given(QUARTERS, QUARTERS, st.sets(st.integers(0, 6), min_size=1))
def test_a_week_of_any_hours_has_as_many_minutes_as_they_say(
    start: int, end: int, days: set[int]
) -> None:
    if start == end:
        return
    times = "–".join(
        f"{minute_of_day // 60}:{minute_of_day % 60:02}" for minute_of_day in (start, end)
    )
    hours = parse_hours(f"{times} {' '.join(_NAMES[day] for day in days)}")
    monday = datetime(2026, 11, 23, tzinfo=UTC)
    week = [monday + timedelta(minutes=minute) for minute in range(0, 7 * 1440, 15)]
    assert sum(gives_way_at(hours, now) for now in week) == len(days) * ((end - start) % 1440 / 15)
