"""Formats of numbers, sizes and times, everywhere in the window.

No Qt. Sizes, temperatures and times of day use the units that the user chose. Any input gives
readable text: a diverging run passes NaN and 1e30 to every figure. No line breaks inside a figure.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from backend.records.base import number_format
from backend.records.base.layout import epoch_and_step, position_text

THIN = number_format.THIN
"""Between thousands: narrow and non-breaking."""
GAP = number_format.GAP
"""Before a unit: non-breaking as well."""
NONE = "–"
"""Shown if there is no value."""

MIXED, DECIMAL, BINARY = "usual", "decimal", "binary"
CELSIUS, FAHRENHEIT = "celsius", "fahrenheit"
HOURS_24, HOURS_12 = "24", "12"


@dataclass(frozen=True)
class Units:
    """The user's units of measurement. An unknown value means the first choice.

    Attributes:
        sizes: `MIXED` (GiB in memory, GB on disks), `DECIMAL` or `BINARY` for both.
        temperature: `CELSIUS` or `FAHRENHEIT`.
        clock: `HOURS_24` or `HOURS_12`.
    """

    sizes: str = MIXED
    temperature: str = CELSIUS
    clock: str = HOURS_24


_units = Units()


def units() -> Units:
    """The current units."""
    return _units


def set_units(units: Units) -> None:
    """Use these units from now on. `ThemeManager` updates text that is already shown."""
    global _units
    _units = units


_MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
_DAYS = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"]
_POWERS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def count(value: int) -> str:
    """``12 480``: a whole number."""
    return number_format.count(value)


def count_of(value: int, total: int) -> str:
    """``12 480 of 19 500``."""
    return number_format.count_of(value, total)


def plural(value: int, singular: str, plural_form: str = "") -> str:
    """``1 job``, ``3 jobs``."""
    return f"{count(value)} {singular if value == 1 else plural_form or singular + 's'}"


def join_names(names: Sequence[str]) -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


def metric(value: float | None, digits: int = 3) -> str:
    """``0.371``: three significant digits, never fewer digits than the integer part has.

    Use more ``digits`` if three do not distinguish the values.

    Below a ten-thousandth and from a million on as powers of ten: ``3.20e-5``.
    """
    special_text = _special_text(value)
    if special_text is not None or value is None:
        return special_text or NONE
    if value == 0:
        return "0"
    rounded = f"{value:.{digits - 1}e}"
    size = abs(float(rounded))
    if size < 1e-4 or size >= 1e6:
        return _scientific(rounded)
    if size >= 100:
        return count(round(value))
    return f"{value:.{digits - 1 - math.floor(math.log10(size))}f}"


def typed_number(value: float | None) -> str:
    """``0.04``, ``1e-5``, ``12 000``: a number that the user typed, with no digit added or lost."""
    special_text = _special_text(value)
    if special_text is not None or value is None:
        return special_text or NONE
    text = repr(float(value))
    if "e" in text:
        return _scientific(text)
    integer_part, _, fraction = text.partition(".")
    figure = count(int(integer_part)) if integer_part != "-0" else integer_part
    return figure if fraction in ("", "0") else f"{figure}.{fraction}"


def tick(value: float) -> str:
    """``2k``, ``0.5``, ``10⁻³``: a label on an axis."""
    special_text = _special_text(value)
    if special_text is not None:
        return special_text
    size = abs(value)
    if size >= 1e9 or 0 < size < 1e-3:
        mantissa, _, power = f"{value:.3e}".partition("e")
        head = f"{float(mantissa):g}"
        tail = f"10{str(int(power)).translate(_POWERS)}"
        if head in ("1", "-1"):
            return tail if head == "1" else f"-{tail}"
        return f"{head}×{tail}"
    if size >= 1e6:
        return f"{value / 1e6:.6g}M"
    if size >= 1e3:
        return f"{value / 1e3:.6g}k"
    return f"{value:.6g}"


def percent(share: float | None) -> str:
    """``64 %``: a share from 0 to 1, rounded."""
    special_text = _special_text(share)
    if special_text is not None or share is None:
        return special_text or NONE
    return f"{share * 100:.0f}{GAP}%"


def progress(share: float | None) -> str:
    """``99 %``: progress is rounded down, so 100 % appears only at the end."""
    if share is None:
        return NONE
    return f"{progress_figure(share)}{GAP}%"


def progress_figure(share: float | None) -> str:
    """``99``: the figure of `progress` alone."""
    if share is None:
        return NONE
    if not math.isfinite(share):
        return "0"
    # 0.29 * 100 is 28.999…: accept an error of a millionth of a percent.
    return str(math.floor(min(max(share, 0.0), 1.0) * 100 + 1e-6))


def disk(size_bytes: float | None) -> str:
    """``19.3 GB``: on a disk, in powers of 1000 unless the user chose 1024."""
    return _size(size_bytes, is_binary=_units.sizes == BINARY)


def memory(size_bytes: float | None) -> str:
    """``31 GiB``: in memory, in powers of 1024 unless the user chose 1000."""
    return _size(size_bytes, is_binary=_units.sizes != DECIMAL)


def cores(number: float) -> str:
    """``3.2 cores``: processors in full use."""
    text = f"{number:.1f}".removesuffix(".0")
    return f"{text}{GAP}{'core' if text == '1' else 'cores'}"


def memory_unit() -> tuple[str, int]:
    """``GiB`` and its bytes: the unit for the memory of GPUs."""
    return ("GB", 10**9) if _units.sizes == DECIMAL else ("GiB", 2**30)


def with_ellipsis(step: str) -> str:
    """``Loading PyTorch…``: a step that continues, with exactly one ellipsis."""
    return f"{step.rstrip('. …')}…"


def checkpoint(name: str) -> str:
    """``Epoch 20, step 440``: a checkpoint by the name of its file, ``epoch-0020-step-000440``."""
    epoch_step = epoch_and_step(name)
    return position_text(*epoch_step, count).capitalize() if epoch_step else name


def used_memory(used_bytes: float | None, total_bytes: float | None) -> str:
    """``61.2 of 80 GiB``: a GPU's memory, always in one unit so that cards compare."""
    if used_bytes is None or total_bytes is None:
        return NONE
    unit, unit_bytes = memory_unit()
    return f"{_in_unit(used_bytes, unit_bytes)} of {_in_unit(total_bytes, unit_bytes)}{GAP}{unit}"


def memory_span(min_bytes: float, max_bytes: float) -> str:
    """``18 GiB`` or ``9 to 18 GiB``: the memory of several GPUs in their unit."""
    unit, unit_bytes = memory_unit()
    limits = dict.fromkeys(
        _in_unit(size_bytes, unit_bytes) for size_bytes in (min_bytes, max_bytes)
    )
    return f"{' to '.join(limits)}{GAP}{unit}"


def duration(seconds: float | None) -> str:
    """``2 min 17 s``, ``1 h 55``, ``3 d 4 h``: at most two units."""
    special_text = _special_text(seconds)
    if special_text is not None or seconds is None:
        return special_text or NONE
    return number_format.duration(seconds)


def rough_duration(seconds: float | None) -> str:
    """``41 min``, ``12 h``, ``2 s``: one unit, for estimates and approximate times."""
    special_text = _special_text(seconds)
    if special_text is not None or seconds is None:
        return special_text or NONE
    seconds = max(seconds, 0.0)
    if round(seconds) < 60:
        return f"{round(seconds)}{GAP}s"
    if round(seconds / 60) < 60:
        return f"{round(seconds / 60)}{GAP}min"
    if round(seconds / 3600) < 48:
        return f"{round(seconds / 3600)}{GAP}h"
    return f"{count(round(seconds / 86400))}{GAP}d"


def time_left(seconds: float | None) -> str:
    """``41 min left``, ``1 h 55 left``; nothing more precise than a minute is known."""
    special_text = _special_text(seconds)
    if special_text is not None or seconds is None:
        return ""
    if seconds < 60:
        return "under a minute left"
    if round(seconds / 60) < 60:
        return f"{rough_duration(seconds)} left"
    return f"{duration(seconds)} left"


def short_time_left(seconds: float | None) -> str:
    """Time left in short form, "" if it is unknown."""
    if seconds is None:
        return ""
    return "< 1 min left" if seconds < 60 else time_left(seconds)


def clock(time: datetime | float) -> str:
    """``14:02``, or ``2:02 PM``."""
    return _time_text(_local_time(time), "")


def clock_s(time: datetime | float) -> str:
    """``14:02:11``: in lists of events."""
    return _time_text(_local_time(time), ":%S")


def day(time: datetime | float) -> str:
    """``3 Nov``: on a time axis."""
    return _date_text(_local_time(time).date())


def time_or_day(time: datetime | float | None, now: datetime | float) -> str:
    """``14:02`` if today, otherwise ``yesterday``, ``Wed``, ``3 Nov``, ``3 Nov 2025``."""
    if time is None:
        return NONE
    local_time, today = _local_time(time), _local_time(now).date()
    return (
        _time_text(local_time, "")
        if local_time.date() == today
        else _day_text(local_time.date(), today)
    )


def time_with_day(time: datetime | float | None, now: datetime | float) -> str:
    """``14:02`` if today, otherwise with the day: ``yesterday 23:10``, ``3 Nov 2025 14:02``."""
    if time is None:
        return NONE
    return _time_with_day(time, now, "")


def time_with_day_s(time: datetime | float, now: datetime | float) -> str:
    """``14:02:11`` if today, otherwise with the day: at the pointer of a time axis."""
    return _time_with_day(time, now, ":%S")


def estimated_time(time: datetime | float | None, now: datetime | float) -> str:
    """``≈ 15:56``: an estimated moment."""
    return NONE if time is None else f"≈{GAP}{time_with_day(time, now)}"


def full_time(time: datetime | float | None) -> str:
    """``Wed 3 Nov 2025, 14:02:11``: for tool tips."""
    if time is None:
        return NONE
    local_time = _local_time(time)
    day = f"{_DAYS[local_time.weekday()]} {_date_text(local_time.date())} {local_time.year}"
    return f"{day}, {_time_text(local_time, ':%S')}"


def version(name: str, number: int) -> str:
    """``coco @ 2``."""
    return f"{name} @ {number}"


def reference(text: str) -> str:
    """``coco @ 2`` for ``coco@2``; a name without a version stays as it is."""
    name, _, number = text.rpartition("@")
    return version(name, int(number)) if name and number.isdecimal() else text


def per_second(value: float | None, unit: str) -> str:
    """``551 img/s``."""
    return NONE if value is None else f"{metric(value)}{GAP}{unit}/s"


def with_unit(value: float | None, unit: str) -> str:
    """``91 °C``, ``372 W``, ``6.1 kWh``: an integer from 10 on, one decimal below."""
    special_text = _special_text(value)
    if special_text is not None or value is None:
        return special_text or NONE
    figure = count(round(value)) if abs(value) >= 9.95 or value == int(value) else f"{value:.1f}"
    return f"{figure}{GAP}{unit}"


def gpu_hours(gpu_s: float | None) -> str:
    """``38.9``, ``< 0.01``: seconds times GPUs, as hours."""
    return _at_least(None if gpu_s is None else gpu_s / 3600)


def energy(joules: float | None) -> str:
    """``6.10 kWh``."""
    text = _at_least(None if joules is None else joules / 3.6e6)
    return text if joules is None else f"{text}{GAP}kWh"


def _at_least(value: float | None) -> str:
    return metric(value) if value is None or value >= 0.01 else f"<{GAP}0.01"


def temperature(celsius: float | None) -> str:
    """``91 °C``, or ``196 °F``."""
    letter = "F" if _units.temperature == FAHRENHEIT else "C"
    special_text = _special_text(celsius)
    return special_text if special_text is not None else f"{degrees(celsius)[:-1]}{GAP}°{letter}"


def degrees(celsius: float | None) -> str:
    """``91°``: a temperature where space is short."""
    special_text = _special_text(celsius)
    if special_text is not None or celsius is None:
        return special_text or NONE
    return f"{round(celsius * 1.8 + 32 if _units.temperature == FAHRENHEIT else celsius)}°"


def milliseconds(value_ms: float | None) -> str:
    """``352 ms``: a step time, always in one unit so that ranks compare."""
    special_text = _special_text(value_ms)
    if special_text is not None or value_ms is None:
        return special_text or NONE
    if abs(value_ms) >= 9.95:
        figure = count(round(value_ms))
    else:
        # Reading a sample from memory takes a few hundredths: "0.0 ms" would be useless.
        figure = f"{value_ms:.1f}" if abs(value_ms) >= 0.095 else f"{value_ms:.2g}"
    return f"{figure}{GAP}ms"


def shape(sizes: Sequence[int]) -> str:
    """``1 × 28 × 28``."""
    return " × ".join(count(size) for size in sizes) if sizes else "one number"


def ranges(numbers: Iterable[int]) -> str:
    """``0, 8–15``: whole numbers, neighbours joined."""
    parts: list[list[int]] = []
    for number in sorted(set(numbers)):
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ", ".join(
        str(a) if a == b else f"{a}, {b}" if b == a + 1 else f"{a}–{b}" for a, b in parts
    )


def _special_text(value: float | None) -> str | None:
    """The text for NaN and infinity; None for a number."""
    if value is None:
        return NONE
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    return None


def _scientific(text: str) -> str:
    mantissa, _, power = text.partition("e")
    return f"{mantissa}e{int(power)}"


def _size(size_bytes: float | None, *, is_binary: bool) -> str:
    special_text = _special_text(size_bytes)
    if special_text is not None or size_bytes is None:
        return special_text or NONE
    return number_format.size(size_bytes, is_binary=is_binary).replace(" ", GAP)


def _in_unit(size_bytes: float, unit_bytes: int) -> str:
    value = size_bytes / unit_bytes
    if not math.isfinite(value):
        return NONE
    figure = f"{value:.1f}" if value < 99.95 else f"{value:.0f}"
    return figure.removesuffix(".0")


def _local_time(time: datetime | float) -> datetime:
    if isinstance(time, datetime):
        return time.astimezone()
    return datetime.fromtimestamp(time).astimezone()


def _time_text(local_time: datetime, seconds_format: str) -> str:
    if _units.clock != HOURS_12:
        return f"{local_time:%H:%M}" + local_time.strftime(seconds_format)
    day_half = "AM" if local_time.hour < 12 else "PM"
    seconds = local_time.strftime(seconds_format)
    return f"{local_time.hour % 12 or 12}:{local_time:%M}{seconds}{GAP}{day_half}"


def _time_with_day(time: datetime | float, now: datetime | float, seconds_format: str) -> str:
    local_time, today = _local_time(time), _local_time(now).date()
    time_of_day = _time_text(local_time, seconds_format)
    return (
        time_of_day
        if local_time.date() == today
        else f"{_day_text(local_time.date(), today)} {time_of_day}"
    )


def _day_text(day: date, today: date) -> str:
    if day == today - timedelta(days=1):
        return "yesterday"
    if timedelta(0) < today - day < timedelta(days=7):
        return _DAYS[day.weekday()]
    return _date_text(day) if day.year == today.year else f"{_date_text(day)} {day.year}"


def _date_text(day: date) -> str:
    return f"{day.day} {_MONTHS[day.month - 1]}"
