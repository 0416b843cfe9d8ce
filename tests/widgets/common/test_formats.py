"""Every number, size and time of the window follows one rule."""

from __future__ import annotations

import math
import re
from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from widgets.common import formats as f

ANY = st.floats(allow_nan=True, allow_infinity=True)
FINITE = st.floats(allow_nan=False, allow_infinity=False)
NOW = datetime(2026, 11, 21, 15, 4).astimezone()


def plain(text: str) -> str:
    return text.replace(f.THIN, "_").replace(f.GAP, " ")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.371, "0.371"),
        (0.4, "0.400"),
        (0.0127, "0.0127"),
        (0.9999, "1.00"),
        (0.99949, "0.999"),
        (9.996, "10.0"),
        (1.0, "1.00"),
        (63.38, "63.4"),
        (551.4, "551"),
        (12_480.3, "12_480"),
        (-0.5, "-0.500"),
        (0.0, "0"),
        (3.2e-5, "3.20e-5"),
        (1e30, "1.00e30"),
        (math.nan, "NaN"),
        (math.inf, "∞"),
        (-math.inf, "−∞"),
        (None, "–"),
    ],
)
def test_a_metric_has_three_significant_digits(value: float | None, text: str) -> None:
    assert plain(f.metric(value)) == text


@given(st.floats(-1e300, 1e300))
def test_a_metric_is_within_half_of_its_third_digit(value: float) -> None:
    text = f.metric(value).replace(f.THIN, "")
    assert float(text) == pytest.approx(value, rel=0.00502, abs=1e-300)
    assert len(text) <= 10


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.04, "0.04"), (1e-5, "1e-5"), (12000, "12_000"), (-0.5, "-0.5"), (2.5e-7, "2.5e-7")],
)
def test_a_setting_is_shown_as_it_was_typed(value: float, text: str) -> None:
    assert plain(f.typed_number(value)) == text


@given(FINITE)
def test_a_setting_loses_no_digit(value: float) -> None:
    assert float(f.typed_number(value).replace(f.THIN, "")) == value


def test_thousands_are_parted_by_a_thin_space() -> None:
    assert f.count(12480) == "12\u202f480"
    assert f.count(999) == "999"
    assert plain(f.count_of(12480, 19500)) == "12_480 of 19_500"
    assert f.plural(1, "job") == "1 job"
    assert f.plural(3, "job") == "3 jobs"
    assert f.plural(2, "process", "processes") == "2 processes"


@given(st.integers())
def test_a_count_reads_back(value: int) -> None:
    assert int(f.count(value).replace(f.THIN, "")) == value


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (2000, "2k"),
        (12500, "12.5k"),
        (0.5, "0.5"),
        (2_000_000, "2M"),
        (1e-3, "0.001"),
        (1e-5, "10⁻⁵"),
        (2e-5, "2×10⁻⁵"),
        (-1e12, "-10¹²"),
    ],
)
def test_a_tick_is_short(value: float, text: str) -> None:
    assert f.tick(value) == text


def test_progress_says_100_only_when_it_is_true() -> None:
    assert f.progress_figure(0.9999) == "99"
    assert f.progress_figure(1.0) == "100"
    assert f.progress_figure(0.29) == "29"  # 0.29 * 100 is 28.999999999999996
    assert f.progress_figure(math.nan) == "0"
    assert plain(f.progress(0.64)) == "64 %"
    assert plain(f.percent(0.25)) == "25 %"


@given(st.integers(0, 100))
def test_each_whole_percent_is_shown_as_itself(value: int) -> None:
    assert f.progress_figure(value / 100) == str(value)


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (1_100_000, "1.1 MB"),
        (999_960, "1.0 MB"),
        (19.3e9, "19.3 GB"),
        (412e9, "412 GB"),
        (2.1e12, "2.1 TB"),
    ],
)
def test_a_disk_counts_in_powers_of_ten(size: float, text: str) -> None:
    assert plain(f.disk(size)) == text


def test_memory_counts_in_powers_of_two() -> None:
    gib = 2**30
    assert plain(f.memory(31 * gib)) == "31.0 GiB"
    assert plain(f.used_memory(61.2 * gib, 80 * gib)) == "61.2 of 80 GiB"
    assert plain(f.used_memory(0.44 * gib, 80 * gib)) == "0.4 of 80 GiB"
    assert f.used_memory(None, 80 * gib) == "–"


@given(st.floats(0, 1e15))
def test_a_size_never_needs_more_than_four_digits(size: float) -> None:
    for text in (f.disk(size), f.memory(size)):
        assert re.fullmatch(r"\d{1,4}(\.\d)?\u00a0[kKMGTP]?i?B", text), text
        assert len(text.split(f.GAP)[0].replace(".", "")) <= 4


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (0.35, "350 ms"),
        (2.3, "2.3 s"),
        (45, "45 s"),
        (59.7, "1 min"),
        (137, "2 min 17 s"),
        (3599.6, "1 h 00"),
        (6900, "1 h 55"),
        (8040, "2 h 14"),
        (86399, "1 d"),
        (3 * 86400 + 4 * 3600, "3 d 4 h"),
        (-5, "−5.0 s"),
        (None, "–"),
    ],
)
def test_a_duration_has_at_most_two_units(seconds: float | None, text: str) -> None:
    assert plain(f.duration(seconds)) == text


@given(st.floats(1, 1e8))
def test_a_duration_reads_back_to_within_its_last_unit(seconds: float) -> None:
    text = plain(f.duration(seconds)).replace("_", "")
    values = {unit: float(n) for n, unit in re.findall(r"(\d+(?:\.\d)?) (d|h|min|s)", text)}
    minutes = re.search(r" h (\d\d)$", text)
    total = (
        values.get("d", 0) * 86400
        + values.get("h", 0) * 3600
        + values.get("min", 0) * 60
        + values.get("s", 0)
        + (float(minutes[1]) * 60 if minutes else 0)
    )
    unit = 86400 if seconds >= 99 * 86400 else 3600 if "d" in values else 60 if "h" in values else 1
    assert abs(total - seconds) <= unit * 0.51


def test_an_estimated_time_is_rounded() -> None:
    assert plain(f.time_left(41 * 60 + 12)) == "41 min left"
    assert plain(f.time_left(6900)) == "1 h 55 left"
    assert f.time_left(20) == "under a minute left"
    assert f.time_left(None) == ""
    assert plain(f.rough_duration(41 * 86400)) == "41 d"


@pytest.mark.parametrize(
    ("ago", "short", "long"),
    [
        (timedelta(minutes=62), "14:02", "14:02"),
        (timedelta(hours=15, minutes=54), "yesterday", "yesterday 23:10"),
        (timedelta(days=3), "Wed", "Wed 15:04"),
        (timedelta(days=18), "3 Nov", "3 Nov 15:04"),
        (timedelta(days=365), "21 Nov 2025", "21 Nov 2025 15:04"),
        (timedelta(days=-1), "22 Nov", "22 Nov 15:04"),
    ],
)
def test_a_moment_is_a_clock_time_today_and_else_a_date(
    ago: timedelta, short: str, long: str
) -> None:
    assert f.time_or_day(NOW - ago, NOW) == short
    assert f.time_with_day(NOW - ago, NOW) == long
    assert f.time_or_day((NOW - ago).timestamp(), NOW.timestamp()) == short


def test_a_foreseen_moment_says_that_it_is_foreseen() -> None:
    assert plain(f.estimated_time(NOW + timedelta(minutes=52), NOW)) == "≈ 15:56"
    assert f.full_time(NOW) == "Sat 21 Nov 2026, 15:04:00"
    assert f.clock_s(NOW) == "15:04:00"


def test_units_stand_behind_their_figures() -> None:
    assert f.version("coco", 2) == "coco @ 2"
    assert plain(f.per_second(551.3, "img")) == "551 img/s"
    assert plain(f.with_unit(372.4, "W")) == "372 W"
    assert plain(f.with_unit(6.13, "kWh")) == "6.1 kWh"
    assert [plain(f.energy(j)) for j in (None, 1e3, 7.2e5, 4.5e8)] == [
        *("–", "< 0.01 kWh", "0.200 kWh", "125 kWh"),
    ]
    assert [plain(f.gpu_hours(s)) for s in (None, 8.0, 140_000.0)] == ["–", "< 0.01", "38.9"]
    assert plain(f.temperature(90.6)) == "91 °C"
    assert plain(f.milliseconds(351.7)) == "352 ms"
    assert plain(f.milliseconds(1804)) == "1_804 ms"
    assert plain(f.milliseconds(0.041)) == "0.041 ms"
    assert f.shape([1, 28, 28]) == "1 × 28 × 28"
    assert f.ranges([8, 9, 10, 0, 3, 4]) == "0, 3, 4, 8–10"


@given(ANY)
def test_no_number_is_too_strange_to_be_shown(value: float) -> None:
    for write in (
        *(
            f.metric,
            f.typed_number,
            f.tick,
            f.percent,
            f.disk,
            f.memory,
            f.duration,
            f.rough_duration,
        ),
        *(f.time_left, f.temperature, f.degrees, f.milliseconds, f.progress),
    ):
        assert isinstance(write(value), str)
    assert isinstance(f.with_unit(value, "W"), str)
    assert isinstance(f.per_second(value, "img"), str)
    assert isinstance(f.used_memory(value, value), str)


@pytest.fixture
def units():
    """Sets them for one test."""
    yield f.set_units
    f.set_units(f.Units())


GPU = (61 * 2**30, 80 * 2**30)


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        (f.Units(), ("19.3 GB", "31.0 GiB", "61 of 80 GiB", "GiB")),
        (f.Units(sizes=f.DECIMAL), ("19.3 GB", "33.3 GB", "65.5 of 85.9 GB", "GB")),
        (f.Units(sizes=f.BINARY), ("18.0 GiB", "31.0 GiB", "61 of 80 GiB", "GiB")),
        (f.Units(sizes="furlongs"), ("19.3 GB", "31.0 GiB", "61 of 80 GiB", "GiB")),
    ],
)
def test_sizes_are_written_in_the_chosen_units(units, choice, expected) -> None:
    units(choice)
    sizes = (f.disk(19.3e9), f.memory(31 * 2**30), f.used_memory(*GPU), f.memory_unit()[0])
    assert tuple(map(plain, sizes)) == expected


def test_temperatures_are_written_in_the_chosen_unit(units) -> None:
    assert (plain(f.temperature(91)), f.degrees(91)) == ("91 °C", "91°")
    units(f.Units(temperature=f.FAHRENHEIT))
    assert (plain(f.temperature(91)), f.degrees(91)) == ("196 °F", "196°")
    assert (f.temperature(None), f.degrees(math.nan)) == (f.NONE, "NaN")


@pytest.mark.parametrize(
    ("hour", "minute", "expected"),
    [(0, 5, "12:05 AM"), (9, 38, "9:38 AM"), (12, 0, "12:00 PM"), (14, 2, "2:02 PM")],
)
def test_the_time_of_day_is_written_by_the_chosen_clock(units, hour, minute, expected) -> None:
    moment_of_day = NOW.replace(hour=hour, minute=minute, second=7)
    assert f.clock(moment_of_day) == f"{hour:02}:{minute:02}"
    units(f.Units(clock=f.HOURS_12))
    assert plain(f.clock(moment_of_day)) == plain(f.time_or_day(moment_of_day, NOW)) == expected
    assert plain(f.time_with_day(moment_of_day - timedelta(days=1), NOW)) == f"yesterday {expected}"
    assert plain(f.estimated_time(moment_of_day, NOW)) == f"≈ {expected}"
    assert plain(f.clock_s(moment_of_day)) == expected.replace(" ", ":07 ")
    assert plain(f.full_time(moment_of_day)).endswith(expected.replace(" ", ":07 "))


@pytest.mark.parametrize(
    "step",
    [
        "Loading PyTorch",
        "Loading PyTorch…",
        "Loading PyTorch……",
        "Loading PyTorch...",
        "Loading PyTorch.",
        "Loading PyTorch …",
    ],
)
def test_a_running_step_ends_in_one_ellipsis(step: str) -> None:
    assert f.with_ellipsis(step) == "Loading PyTorch…"


@pytest.mark.parametrize(
    ("used_gib", "total_gib", "expected"),
    [
        (5.2, 24, "5.2 of 24 GiB"),
        (5.2, 23.5, "5.2 of 23.5 GiB"),
        (0, 11.9, "0 of 11.9 GiB"),
        (61, 79.25, "61 of 79.2 GiB"),
        (99.97, 140.6, "100 of 141 GiB"),
        (10, 10, "10 of 10 GiB"),
    ],
)
def test_the_memory_of_a_gpu_has_the_figures_that_a_size_has(
    used_gib: float, total_gib: float, expected: str
) -> None:
    gib = 2**30
    assert plain(f.used_memory(used_gib * gib, total_gib * gib)) == expected
    assert plain(f.memory(total_gib * gib)).removesuffix(" GiB").removesuffix(".0") in expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("coco@2", "coco @ 2"),
        ("Leaf pictures@1", "Leaf pictures @ 1"),
        ("a@b@12", "a@b @ 12"),
        ("coco", "coco"),
        ("@2", "@2"),
        ("mai@host", "mai@host"),
        ("", ""),
    ],
)
def test_a_version_stands_apart_from_its_name(text: str, expected: str) -> None:
    assert f.reference(text) == expected
