"""What the suite promises about itself: that nothing hangs on a clock."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_SHORTEST_S = 30
_CLOCKS = {
    "perf_counter", "perf_counter_ns", "process_time", "process_time_ns", "thread_time",
    "thread_time_ns", "getrusage",
}  # fmt: skip
"""What only measures speed or memory. `time.monotonic` is also a deadline's."""


def _tests() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted((ROOT / "tests").rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        if not name.startswith(("tests/benchmarks/", "tests/data/")):
            yield name, ast.parse(path.read_text(encoding="utf-8"))


def test_no_test_measures_speed_or_memory() -> None:
    """Claims about speed and memory are benchmarks: they hang on what else the machine does."""
    locations = [
        f"{name}:{node.lineno} {node.attr}"
        for name, tree in _tests()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr in _CLOCKS
    ]
    assert not locations, "\n".join(locations)


_WAITS = {"waitUntil", "waitSignal", "waitSignals", "wait_for", "wait", "join", "communicate"}
_UNITS_PER_S = {
    "timeout": 1, "timeout_ms": 1000, "limit_ms": 1000, "limit_s": 1, "seconds": 1,
}  # fmt: skip


def _limits_s(call: ast.Call) -> Iterator[float]:
    """Every limit, in seconds, that a wait was given as a number."""
    name = getattr(call.func, "attr", getattr(call.func, "id", ""))
    if name in _WAITS:
        is_qt_wait = name.startswith("waitS") or name == "waitUntil"
        units = {**_UNITS_PER_S, "timeout": 1000 if is_qt_wait else 1}
        limits = [(word.value, units.get(word.arg or "")) for word in call.keywords]
        limits += [(argument, 1) for argument in call.args]
    else:
        limits = [(word.value, 1) for word in call.keywords if word.arg == "timeout"]
    for value, per_s in limits:
        if per_s and isinstance(value, ast.Constant) and type(value.value) in (int, float):
            yield value.value / per_s


def test_no_wait_for_a_fact_is_shorter_than_half_a_minute() -> None:
    """What comes at once on a quiet machine takes 20 s where others keep the cores busy."""
    locations = [
        f"{name}:{node.lineno} {limit_s:g} s"
        for name, tree in _tests()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        for limit_s in _limits_s(node)
        if limit_s < _SHORTEST_S
    ]
    assert not locations, "\n".join(locations)
