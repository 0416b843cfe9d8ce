"""Round values for the ticks of an axis: three to six, for any range.

No Qt. Each function returns (value, text) pairs for pyqtgraph's major ticks.
"""

from __future__ import annotations

import math
from datetime import datetime, timedelta
from typing import TypeAlias

from widgets.common import formats

Ticks: TypeAlias = list[tuple[float, str]]

_STEP_TOLERANCE = 0.85  # one tick more than requested is better than half as many
_MIN_COUNT = 3
_MINUTE, _HOUR, _DAY = 60, 3600, 86400
_TIME_STEPS = (
    *(1, 2, 5, 10, 15, 30),
    *(m * _MINUTE for m in (1, 2, 5, 10, 15, 30)),
    *(h * _HOUR for h in (1, 2, 3, 6, 12)),
    *(d * _DAY for d in (1, 2, 7, 14, 28, 91, 182, 365)),
)

_TENFOLD_S = (
    *(0.001, 0.01, 0.1, 1.0, 10.0),
    *(m * float(_MINUTE) for m in (1, 10)),
    *(h * float(_HOUR) for h in (1, 10)),
    *(d * float(_DAY) for d in (4, 40, 400)),
)
_FINE_S = (
    *(0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0),
    *(m * float(_MINUTE) for m in (1, 2, 5, 10, 20, 30)),
    *(h * float(_HOUR) for h in (1, 2, 5, 10)),
    *(d * float(_DAY) for d in (1, 2, 4, 8, 20, 40, 100, 400)),
)


def linear(low: float, high: float, max_count: int = 6) -> Ticks:
    """Multiples of 1, 2 or 5 times a power of ten; at least three, because one is useless."""
    values = _multiples(low, high, max_count)
    while len(values) < _MIN_COUNT and max_count <= 2 * _MIN_COUNT:
        max_count += 1
        values = _multiples(low, high, max_count)
    return [(value, formats.tick(value)) for value in values]


def logarithmic(low: float, high: float, max_count: int = 6) -> Ticks:
    """Powers of ten between the logarithms `low` and `high`; also 2 and 5 if there are few."""
    first_power, last_power = math.floor(low), math.ceil(high)
    decade_step = max(1, math.ceil((last_power - first_power) / max_count))
    positions: list[float] = []
    for step, factors in ((decade_step, (1,)), (1, (1,)), (1, (1, 2, 5))):
        candidates = [
            power + math.log10(factor)
            for power in range(first_power - first_power % step, last_power + 1, step)
            for factor in factors
        ]
        visible_positions = [position for position in candidates if low <= position <= high]
        # A small plot shows three decades, without values between them.
        if len(positions) < 2 or len(visible_positions) <= max(max_count + 1, 2 * _MIN_COUNT):
            positions = visible_positions
        if len(positions) >= _MIN_COUNT:
            break
    if len(positions) < 2 and low > -300 and high < 300:  # less than a decade
        values = _multiples(10**low, 10**high, max_count)
        positions = [math.log10(value) for value in values if value > 0]
    return [(position, formats.tick(_power(position))) for position in positions]


def elapsed(low: float, high: float, max_count: int = 6) -> Ticks:
    """Time since the start, in seconds: ``0``, ``30 min``, ``1 h``."""
    if high - low < _TIME_STEPS[0] * max_count / 2:
        return [(seconds, f"{text} s") for seconds, text in linear(low, high, max_count)]
    step = _time_step(high - low, max_count)
    first_multiple = math.ceil(low / step)
    times_s = [i * float(step) for i in range(first_multiple, math.floor(high / step) + 1)]
    return [(seconds, _elapsed_text(seconds, step)) for seconds in times_s]


def elapsed_log(low: float, high: float, max_count: int = 6) -> Ticks:
    """Time since the start between the logarithms of two numbers of seconds."""
    for steps in (_TENFOLD_S, _FINE_S):
        visible_steps = [step for step in steps if low <= math.log10(step) <= high]
        if len(visible_steps) >= _MIN_COUNT:
            break
    else:
        # Less than a few steps of the clock, or less than a second.
        return logarithmic(low, high, max_count) if high < 0 else _linear_log(low, high, max_count)
    stride = -(-len(visible_steps) // max_count)
    return [(math.log10(step), _step_text(step)) for step in visible_steps[::stride]]


def _linear_log(low: float, high: float, max_count: int) -> Ticks:
    """Ticks as on a linear axis, at their logarithms."""
    time_ticks = elapsed(_power(low), _power(high), max_count)
    return [(math.log10(seconds), text) for seconds, text in time_ticks if seconds > 0]


def _step_text(seconds: float) -> str:
    if seconds < 1:
        return f"{seconds:g} s"
    for unit_s, unit in ((_DAY, "d"), (_HOUR, "h"), (_MINUTE, "min")):
        if seconds >= unit_s:
            return f"{seconds / unit_s:g} {unit}"
    return f"{seconds:g} s"


def clock(low: float, high: float, max_count: int = 6) -> Ticks:
    """Time of day, or the date for a range of days; seconds since 1970."""
    # Round in local time: 14:00, not 14:00 UTC.
    start = datetime.fromtimestamp(low).astimezone()
    offset = (start.utcoffset() or timedelta()).total_seconds()
    for count in (max_count, max_count + 1, max_count + 2):  # one tick alone is useless
        step = _time_step(high - low, count)
        first_multiple = math.ceil((low + offset) / step)
        times_s = [
            i * step - offset for i in range(first_multiple, math.floor((high + offset) / step) + 1)
        ]
        if len(times_s) > 1:
            break
    return [(time_s, _clock_text(time_s, step)) for time_s in times_s]


def _multiples(low: float, high: float, max_count: int) -> list[float]:
    if not (math.isfinite(low) and math.isfinite(high) and high > low) or max_count < 1:
        return []
    min_step = (high - low) / max_count
    power = 10.0 ** math.floor(math.log10(min_step))
    step = next(
        power * factor for factor in (1, 2, 5, 10) if power * factor >= min_step * _STEP_TOLERANCE
    )
    first_multiple, last_multiple = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    # i * step has the rounding error of one multiplication, a running sum of many.
    digits = max(0, 1 - math.floor(math.log10(step)))
    return [round(i * step, digits) + 0.0 for i in range(first_multiple, last_multiple + 1)]


def _power(exponent: float) -> float:
    nearest_integer = round(exponent)
    value = (
        10.0**exponent if -300 < exponent < 300 else 10.0 ** max(min(nearest_integer, 300), -300)
    )
    # log10(2) and back is 2.0000000000000004.
    return float(f"{value:.6g}")


def _time_step(span: float, max_count: int) -> int:
    return next((step for step in _TIME_STEPS if span / step <= max_count), _TIME_STEPS[-1])


def _elapsed_text(seconds: float, step: int) -> str:
    if seconds == 0:
        return "0"
    whole_seconds = round(seconds)
    if step < _MINUTE:
        minutes, remaining_seconds = divmod(whole_seconds, _MINUTE)
        return (
            f"{minutes}:{remaining_seconds:02d} min"
            if abs(whole_seconds) >= _MINUTE
            else f"{whole_seconds} s"
        )
    if step < _HOUR:
        hours, remaining_seconds = divmod(whole_seconds, _HOUR)
        return (
            f"{hours}:{remaining_seconds // 60:02d} h"
            if abs(whole_seconds) >= _HOUR
            else f"{whole_seconds // 60} min"
        )
    if step < _DAY:
        return f"{whole_seconds // _HOUR} h"
    return f"{whole_seconds // _DAY} d"


def _clock_text(time_s: float, step: int) -> str:
    if step < _MINUTE:
        return formats.clock_s(time_s)
    if step < _DAY:
        local_time = datetime.fromtimestamp(time_s).astimezone()
        # Midnight begins a day, so its label is the day.
        return (
            formats.day(time_s)
            if local_time.hour == local_time.minute == 0
            else formats.clock(time_s)
        )
    return formats.day(time_s)
