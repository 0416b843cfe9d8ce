"""What the suite promises about itself: what a crash costs, and that nothing hangs on a clock."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.scheduling import FileScheduling
from tests.waiting import LIMIT_S

ROOT = Path(__file__).resolve().parents[1]
_SHORTEST_S = 30
_CLOCKS = {
    "perf_counter", "perf_counter_ns", "process_time", "process_time_ns", "thread_time",
    "thread_time_ns", "getrusage",
}  # fmt: skip
"""What only measures speed or memory. `time.monotonic` is also a deadline's."""


def test_a_crashed_worker_fails_the_test_it_ran_and_no_other(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(
        f"from tests.scheduling import {FileScheduling.__name__}\n"
        "def pytest_xdist_make_scheduler(config, log):\n"
        f"    return {FileScheduling.__name__}(config, log)\n"
    )
    (tmp_path / "test_first.py").write_text(
        "import os\n"
        "def test_before(): pass\n"
        "def test_that_crashes(): os.abort()\n"
        "def test_after(): pass\n"
    )
    (tmp_path / "test_second.py").write_text("def test_alone(): pass\n")
    (tmp_path / "test_third.py").write_text("import os\ndef test_last(): os.abort()\n")
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
    completed = subprocess.run(
        [sys.executable, "-m", "pytest", "-n", "2", "--no-loadscope-reorder", "-p",
         "no:cacheprovider", "-p", "no:pytest-qt", "-rf", "--rootdir", str(tmp_path)],
        cwd=tmp_path, env={**environment, "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, timeout=LIMIT_S, check=False,
    )  # fmt: skip
    assert "2 failed, 3 passed" in completed.stdout, completed.stdout + completed.stderr
    assert "crashed while running 'test_first.py::test_that_crashes'" in completed.stdout
    assert "crashed while running 'test_third.py::test_last'" in completed.stdout


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
