"""The window of a soak: the real program on a data root where others write, in use all the time.

``python -m tests.benchmarks.soak_window ROOT CATALOGUE SECONDS WARM_ACTS`` prints one line of JSON.
The first acts follow each other in haste and are not measured.

How late a press of a key would be is asked every 5 ms, whether or not the GUI thread answers: a
stall of 200 ms is forty presses that waited 200, 195, 190 … ms, and not one late tick. Nothing
that is counted here grows with time, or it would be found as a leak of the window.
"""

from __future__ import annotations

import json
import os
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

# Before PySide6, as in the program.
import widgets  # noqa: F401 # isort: skip

import numpy as np
from PySide6.QtCore import QObject, QPoint, Qt, QTimer, Signal
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QWidget

from app.main.bootstrap import Program

PRESS_S = 0.005
LONG_S = 0.05
_BIN_S = 0.0001
_BINS = 50_000
_ACT_MS, _HASTE_MS = 700, 140
_SAMPLE_MS = 5000


class DelayHistogram:
    """A histogram of fixed size of the delays of presses."""

    def __init__(self) -> None:
        self.counts = np.zeros(_BINS, np.int64)
        self.worst_s = 0.0
        self.long_count = self.turn_count = 0

    def add_stall(self, late_s: float) -> None:
        """Add a stall and all presses that fell into it."""
        self.worst_s = max(self.worst_s, late_s)
        self.long_count += late_s > LONG_S
        self.turn_count += 1
        while late_s >= 0:
            self.counts[min(int(late_s / _BIN_S), _BINS - 1)] += 1
            late_s -= PRESS_S

    def summary(self) -> dict[str, float]:
        """Milliseconds, how many turns were counted, and how many of them were long."""
        total, sums = int(self.counts.sum()), np.cumsum(self.counts)
        shares = {"p50": 0.5, "p99": 0.99, "p99.9": 0.999}
        percentiles = {
            name: 1000 * _BIN_S * int(np.searchsorted(sums, share * total))
            for name, share in shares.items()
        }
        return {
            **percentiles,
            "worst": 1000 * self.worst_s,
            "long": self.long_count,
            "turns": self.turn_count,
        }


class Presses(QObject):
    """A press every 5 ms; ``own_delays`` exclude the time ready with no processor free."""

    def __init__(self) -> None:
        super().__init__()
        self.last_press_s = time.perf_counter()
        self._ready_s = 0.0
        path = f"/proc/self/task/{threading.get_native_id()}/schedstat"
        self._schedule = os.open(path, os.O_RDONLY)
        self.restart()
        self._timer = QTimer(self)
        self._timer.setTimerType(Qt.TimerType.PreciseTimer)
        self._timer.timeout.connect(self._press)
        self._timer.start(int(PRESS_S * 1000))

    def restart(self) -> None:
        """Forget what was: the window is built, and its user begins."""
        self.all_delays, self.own_delays = DelayHistogram(), DelayHistogram()
        self.last_press_s, self._ready_s = time.perf_counter(), self.ready_s()

    def ready_s(self) -> float:
        """The time that the thread has been ready with no processor free."""
        return int(os.pread(self._schedule, 100, 0).split()[1]) / 1e9

    def _press(self) -> None:
        now, ready_s = time.perf_counter(), self.ready_s()
        late_s = max(0.0, now - self.last_press_s - PRESS_S)
        self.all_delays.add_stall(late_s)
        self.own_delays.add_stall(max(0.0, late_s - (ready_s - self._ready_s)))
        self.last_press_s, self._ready_s = now, ready_s


class User(QObject):
    """Goes through the places, opens jobs and nodes, types and compares; one act each 0.7 s.

    Signals:
        warm: ``warm_acts`` were done, at five times that pace.
    """

    warm = Signal()

    def __init__(self, program: Program, warm_acts: int) -> None:
        super().__init__()
        self._program = program
        self._warm_acts = warm_acts
        self._random = random.Random(1)
        self.act_count = 0
        self.round_count = 0
        self._turn = self._forever()
        self._timer = QTimer(self)
        self._timer.timeout.connect(self._act)
        self._timer.start(_HASTE_MS)

    def _act(self) -> None:
        if self.act_count == self._warm_acts:
            self._timer.setInterval(_ACT_MS)
            self.warm.emit()
        self.act_count += 1
        next(self._turn)()

    def _forever(self) -> Iterator[Callable[[], object]]:
        while True:
            yield from self._round()
            self.round_count += 1

    def _round(self) -> Iterator[Callable[[], object]]:
        program, window = self._program, self._program.window
        jobs, nodes = program.jobs, program.nodes
        yield lambda: self._press_page("jobs")
        yield self._open_some_job
        for _ in range(6):
            yield lambda: jobs.detail.tabs.step(1)
        yield self._open_some_job
        yield jobs.detail.curves.toggle_log_y
        yield jobs.detail.curves.toggle_log_y
        yield lambda: QTest.keyClicks(jobs.list.search, "unet")
        yield jobs.list.clear
        yield jobs.show_table
        yield lambda: QTest.keyClicks(jobs.table.search, "vit")
        yield jobs.table.clear
        yield jobs.show_list
        yield lambda: self._press_page("nodes")
        yield lambda: nodes.open_node(self._random.choice(program.node_names))
        yield lambda: None
        yield nodes.show_rack
        yield lambda: self._press_page("compare")
        yield lambda: program._job_controllers.compare.compare(self._some_jobs(4))
        yield lambda: None
        for page in ("datasets", "models", "loaders"):
            yield lambda page=page: self._press_page(page)
        for page in ("new-job", "settings", "help"):
            yield lambda page=page: window.open_page(page)
        yield lambda: window.resize(1000, 640)
        yield lambda: window.resize(1440, 900)

    def _press_page(self, key: str) -> None:
        _press(self._program.window.side_bar._buttons[key])

    def _open_some_job(self) -> None:
        viewport = self._program.jobs.list.view.viewport()
        point = QPoint(viewport.width() // 2, self._random.randrange(viewport.height()))
        _press(viewport, point)

    def _some_jobs(self, count: int) -> tuple[str, ...]:
        live = [view.id for view in self._program._job_controllers.poller.live_views()]
        return tuple(self._random.sample(live, min(count, len(live))))


class Memory(QObject):
    """Samples of the process, every 5 s from `start` on: seconds, MB, files, threads.

    And for how long the GUI thread has computed, and how many presses were late, until then.
    """

    def __init__(self, seconds: float, presses: Presses) -> None:
        super().__init__()
        self._presses = presses
        # Made at once: it is not to grow in what it measures.
        self._samples = np.zeros((int(seconds / _SAMPLE_MS * 1000) + 10, 6))
        self._count = 0
        self._started_s = time.monotonic()
        self._timer = QTimer(self)
        self._timer.timeout.connect(self._sample)

    def start(self) -> None:
        self._started_s = time.monotonic()
        self._timer.start(_SAMPLE_MS)

    def samples(self) -> list[list[float]]:
        return self._samples[: self._count].tolist()

    def _sample(self) -> None:
        if self._count < len(self._samples):
            self._samples[self._count] = (
                time.monotonic() - self._started_s,
                resident_mb(),
                len(os.listdir("/proc/self/fd")),
                len(os.listdir("/proc/self/task")),
                time.thread_time(),
                self._presses.all_delays.long_count,
            )
            self._count += 1


def resident_mb() -> float:
    """Memory of this process that is its own."""
    text = Path("/proc/self/status").read_text(encoding="utf-8")
    kib = next(int(line.split()[1]) for line in text.splitlines() if line.startswith("RssAnon"))
    return kib / 1024


def _press(widget: QWidget, point: QPoint | None = None) -> None:
    QTest.mouseClick(
        widget, Qt.MouseButton.LeftButton, pos=widget.rect().center() if point is None else point
    )


def main() -> None:
    root, catalogue = Path(sys.argv[1]), Path(sys.argv[2])
    seconds, warm_acts = float(sys.argv[3]), int(sys.argv[4])
    app = QApplication(sys.argv[:1])
    program = Program(app, root, catalogue, None)
    program.window.resize(1440, 900)
    program.show()
    presses = Presses()
    memory = Memory(seconds + 60, presses)
    waited_s = computed_s = worked_s = 0.0
    user: list[User] = []

    def start_user() -> None:
        if program.is_built and program._services is not None and program.jobs.job_count:
            ready_timer.stop()
            user.append(User(program, warm_acts))
            user[0].warm.connect(start_measurement)

    def start_measurement() -> None:
        nonlocal waited_s, computed_s, worked_s
        waited_s, computed_s = presses.ready_s(), time.thread_time()
        worked_s = time.process_time() - computed_s
        presses.restart()
        memory.start()
        QTimer.singleShot(int(seconds * 1000), app.quit)

    ready_timer = QTimer()
    ready_timer.timeout.connect(start_user)
    ready_timer.start(100)
    app.exec()
    waited_s = presses.ready_s() - waited_s
    results = {
        "all": presses.all_delays.summary(),
        "own": presses.own_delays.summary(),
        "waited_s": waited_s,
        "computed_s": time.thread_time() - computed_s,
        "workers_s": time.process_time() - time.thread_time() - worked_s,
        "acts": user[0].act_count - warm_acts,
        "rounds": user[0].round_count,
        "jobs": program.jobs.job_count,
        "nodes": len(program.node_names),
        "memory": memory.samples(),
    }
    program.close()
    sys.stdout.write(json.dumps(results) + "\n")


if __name__ == "__main__":
    main()
