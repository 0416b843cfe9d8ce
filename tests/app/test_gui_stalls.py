"""What holds the GUI thread up fails its test, wherever the time goes; what is not the window's
doing does not."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest
from PySide6.QtCore import QTimer
from pytestqt.qtbot import QtBot

from tests.gui_stalls import StallWatch, elsewhere

pytestmark = pytest.mark.unwatched

ROOT = Path(__file__).resolve().parents[2]
LONG_S = 0.2
SHORT_S = 0.02
PRODUCT = """
import os
import time

from PySide6.QtWidgets import QWidget

def compute(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass

def read(descriptor):
    return os.read(descriptor, 1)

def hand_over(runner, work):
    runner(work)

class Painter(QWidget):
    seconds = 0.0

    def paintEvent(self, event):
        compute(self.seconds)
"""


@pytest.fixture
def product(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """A window's code, in a folder of its own."""
    (tmp_path / "made").mkdir()
    (tmp_path / "made" / "slow_window.py").write_text(PRODUCT)
    monkeypatch.syspath_prepend(str(tmp_path / "made"))
    yield import_module("slow_window")
    del sys.modules["slow_window"]


@pytest.fixture
def watch(tmp_path: Path, product: ModuleType) -> Iterator[StallWatch]:
    watch = StallWatch([tmp_path / "made"])
    watch.begin()
    yield watch
    watch.close()


@pytest.fixture
def in_loop(qtbot: QtBot) -> Callable[[Callable[[], object]], None]:
    """Runs something as a handler of an event."""

    def run(work: Callable[[], object]) -> None:
        done: list[object] = []
        QTimer.singleShot(0, lambda: done.append(work()))
        qtbot.waitUntil(lambda: bool(done))

    return run


def blocked_pipe(seconds: float) -> int:
    """A pipe that holds nothing for so long."""
    reading, writing = os.pipe()

    def write() -> None:
        os.write(writing, b"x")
        os.close(writing)

    threading.Timer(seconds, write).start()
    return reading


def test_a_handler_that_computes_is_found_with_its_line(watch, product, in_loop):
    in_loop(lambda: product.compute(LONG_S))
    (stall,) = watch.end()
    assert "slow_window.py:compute" in stall.by
    assert stall.computed_s > 0.05
    assert stall.blocked_s < 0.02
    assert "slow_window.py:compute, line 9" in str(stall)


def test_a_handler_that_waits_for_a_file_is_found_though_it_computes_nothing(
    watch, product, in_loop
):
    in_loop(lambda: product.read(blocked_pipe(LONG_S)))
    (stall,) = watch.end()
    assert "slow_window.py:read" in stall.by
    assert stall.blocked_s > 0.05


def test_a_slow_painter_is_found(watch, product, qtbot):
    painter = product.Painter()
    qtbot.addWidget(painter)
    painter.seconds = LONG_S
    with qtbot.waitExposed(painter):
        painter.show()
    painter.update()
    qtbot.waitUntil(lambda: bool(watch.end()))
    assert "Painter.paintEvent" in watch.end()[0].by


def test_a_call_by_the_test_itself_counts_as_well(watch, product):
    product.compute(LONG_S)
    assert len(watch.end()) == 1


def test_many_short_calls_are_no_stall(watch, product, in_loop):
    for _ in range(8):
        product.compute(SHORT_S)
    for _ in range(8):
        in_loop(lambda: product.compute(SHORT_S))
    assert watch.end() == []


def test_what_the_test_arranges_is_no_stall(watch, product):
    end = time.thread_time() + LONG_S
    while time.thread_time() < end:
        pass
    os.read(blocked_pipe(LONG_S), 1)
    assert watch.end() == []


def test_what_stands_in_for_a_worker_is_no_stall(watch, product):
    product.hand_over(elsewhere, lambda: product.compute(LONG_S))
    assert watch.end() == []


def test_what_is_exempt_is_no_stall(tmp_path, product):
    name = f"{tmp_path / 'made' / 'slow_window.py'}:compute"
    watch = StallWatch([tmp_path / "made"], {name: "it is the test's own"})
    watch.begin()
    product.compute(LONG_S)
    watch.close()
    assert watch.end() == []


def test_to_stand_ready_without_a_processor_is_no_stall(watch, product):
    """As it is where a thread of this process keeps Python's lock."""
    over = threading.Event()

    def spin() -> None:
        while not over.is_set():
            pass

    others = [threading.Thread(target=spin) for _ in range(3)]
    for one in others:
        one.start()
    begin = time.perf_counter()
    product.compute(SHORT_S)
    lasted = time.perf_counter() - begin
    over.set()
    for one in others:
        one.join()
    assert lasted > 0.05, "nobody was in its way"
    assert watch.end() == []


TRIED = """
import pytest

tries = []

@pytest.fixture(scope="module")
def window():
    tries.append("window")
    yield
    tries.append("closed")

def test_always_stalls(window):
    pytest.fail("a call held the GUI thread up for 80 ms", pytrace=False)

def test_stalls_once(window):
    tries.append("once")
    if tries.count("once") == 1:
        pytest.fail("a call held the GUI thread up for 80 ms", pytrace=False)

def test_fails(window):
    tries.append("wrong")
    assert tries == []

def test_what_was_tried(window):
    assert tries == ["window", "once", "once", "wrong"]
"""


def test_a_stall_counts_when_it_is_there_three_times_and_nothing_else_is_tried_again(tmp_path):
    (tmp_path / "test_tried.py").write_text(TRIED)
    settings = ["-c", str(ROOT / "pyproject.toml"), "--rootdir", str(tmp_path)]
    without = ["-p", "no:cacheprovider"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *settings, *without, str(tmp_path)],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    # Tried again, tried again, failed; tried again, passed; failed; passed.
    assert done.stdout.startswith("RRFR.F."), done.stdout + done.stderr


WITH_OURS = "pytest_plugins = ['tests.conftest']\n"
ONCE = """
import pytest

tries = []

@pytest.mark.parametrize("number", range({count}))
def test_stalls_once(number):
    tries.append(number)
    if tries.count(number) == 1:
        pytest.fail("a call held the GUI thread up for 80 ms", pytrace=False)
"""


@pytest.mark.parametrize(("count", "code"), [(2, 0), (13, 1)])
def test_what_was_tried_again_is_told_and_much_of_it_fails_the_run(tmp_path, count, code):
    (tmp_path / "conftest.py").write_text(WITH_OURS)
    (tmp_path / "test_tried.py").write_text(ONCE.format(count=count))
    settings = ["-c", str(ROOT / "pyproject.toml"), "--rootdir", str(tmp_path)]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *settings, "-p", "no:cacheprovider", str(tmp_path)],
        cwd=tmp_path, capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == code, done.stdout + done.stderr
    told = done.stdout.partition("tried again because the window stood still")[2]
    assert told.count("a call held the GUI thread up for 80 ms") >= count
    assert ("no machine's mood" in told) is bool(code)
