"""Finds what holds the GUI thread up for more than 50 ms while a test runs, and says where.

**What counts.** One uninterrupted call into `app` or `widgets`, whoever makes it: Qt that delivers
an event, or the test that builds a page or shows it something. And what Qt does by itself in an
event loop, painting and laying out. **What does not**: the test's own arrangements, which are all
that is on the stack above no line of the product; what it asks of Qt directly (a picture of a
window, a key); what stands in for a worker thread (`elsewhere`); and `EXEMPT`, one by one.

**What is measured** is the thread's own: the processor time that it used in that call, and the time
for which it was blocked in there. That it stood ready and got no processor, or waited while other
threads of this process computed or stood ready, is the doing of a busy machine. So is it that a
core is slower while its other half works: `slowness` says by how much, and what was computed counts
for as much less.

**How.** Every 5 ms a thread asks Python to call `_look` on the GUI thread (a pending call, as
Python's own signal handlers are: no stack of another thread is touched, which could end a widget
there). It runs between two instructions of Python. So two looks at one and the same call have all
between them in it; and what lasts from the asking to the look lay within one call out of Python,
made by the frame that is found. What is begun and over between two looks is never seen, nor are
waits below 5 ms.
"""

from __future__ import annotations

import ctypes
import dis
import math
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import TypeVar

from PySide6.QtCore import QCoreApplication, Qt, QTimer

T = TypeVar("T")

LIMIT_S = 0.05
ROOT = Path(__file__).resolve().parents[1]
PRODUCT = (ROOT / "app", ROOT / "widgets")
_BUILT = "built once, behind the first frame: keys and painting have their turn before and after it"
_ASKS = "opens the system's dialog for files; where there is none, Qt's own looks into the folder"
EXEMPT: Mapping[str, str] = {
    "widgets/jobs/jobs_page.py:JobsPage.__init__": _BUILT,
    "widgets/jobs/job_detail.py:JobDetail.__init__": f"a part of JobsPage, {_BUILT}",
    "widgets/jobs/job_form.py:JobForm.__init__": _BUILT,
    "widgets/compare/compare_page.py:ComparePage.__init__": _BUILT,
    "widgets/library/library_page.py:LibraryPage.__init__": _BUILT,
    "widgets/library/library_detail.py:LibraryDetail.__init__": f"a part of LibraryPage, {_BUILT}",
    "widgets/cluster/nodes_page.py:NodesPage.__init__": _BUILT,
    "widgets/cluster/node_page.py:NodePage.__init__": f"a part of NodesPage, {_BUILT}",
    "widgets/frame/settings_page.py:SettingsPage.__init__": _BUILT,
    "widgets/frame/help_page.py:HelpPage.__init__": _BUILT,
    "widgets/main_window.py:MainWindow.add_page": f"dresses a page that was {_BUILT}",
    "widgets/jobs/curves_tab.py:CurvesTab.__init__": f"a part of JobDetail, {_BUILT}",
    "widgets/main_window.py:MainWindow.__init__": "there is no window yet that could stand still",
    "app/bootstrap.py:Program.__init__": "there is no window yet that could stand still",
    "app/bootstrap.py:Program.close": "the window is gone; what its lanes still do is waited for",
    "widgets/curves/picture.py:Picture.png": "drawn and packed once when a person asks for "
    "that file, before the dialog that asks where to put it",
    "app/take_away.py:TakeAway._write": _ASKS,
    "app/many_jobs.py:ManyJobs._ask_folder": _ASKS,
    "widgets/common/look.py:Look.__init__": "dresses the window before it is shown",
    "widgets/common/look.py:Look._dress_anew": "Qt dresses every widget anew, by its own code, "
    "when a person changes between light and dark, or the units",
}
"""``file:function`` whose time does not count, and why."""

_LOOK_S = 0.005
_SUSPECT_S = 0.005
_WORK = 5_000
_HERE = f"{ROOT}{os.sep}"
_TESTS = f"{ROOT / 'tests'}{os.sep}"
_LOOPS = f"{os.sep}pytestqt{os.sep}"
_BEGIN = dis.opmap["RESUME"]
_Callback = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p)


def elsewhere(work: Callable[[], T]) -> T:
    """Do at once what in the window a worker thread does."""
    return work()


def run_loop(app: QCoreApplication) -> int:
    """The event loop of a program that is watched."""
    return app.exec()


@dataclass
class Stall:
    """One call that held the GUI thread up.

    ``by`` is its outermost line of the product and ``lines`` tells how often the looks found which
    lines within it, innermost first.
    """

    by: str
    computed_s: float = 0.0
    blocked_s: float = 0.0
    lines: Counter[str] = field(default_factory=Counter)

    @property
    def seconds(self) -> float:
        return self.computed_s + self.blocked_s

    def at_best_s(self, slowness: float) -> float:
        """How long it is on this machine when that does nothing else."""
        return self.computed_s / slowness + self.blocked_s

    def __str__(self) -> str:
        seen = "\n".join(f"    {count} × {line}" for line, count in self.lines.most_common(4))
        return (
            f"{self.by} held the GUI thread up for {1000 * self.seconds:.0f} ms: "
            f"{1000 * self.computed_s:.0f} computing, {1000 * self.blocked_s:.0f} blocked. "
            f"Looks at it saw\n{seen}"
        )


class StallWatch:
    """Watches the thread that makes it, which is the GUI thread, between `begin` and `end`."""

    def __init__(
        self,
        product: Collection[Path] = PRODUCT,
        exempt: Mapping[str, str] = EXEMPT,
        limit_s: float = LIMIT_S,
    ) -> None:
        self._product = tuple(f"{folder}{os.sep}" for folder in product)
        self._exempt = exempt
        self._limit_s = limit_s
        self._clock = time.pthread_getcpuclockid(threading.get_ident())
        self._stalls: list[Stall] = []
        self._slowness = 1.0
        self._heart: QTimer | None = None
        self._current: tuple[int, Stall] | None = None
        self._looked_s = 0.0
        self._asked: tuple[float, float] | None = None
        self._suspected: _Standing | None = None
        self._watching = threading.Event()
        self._closed = False
        self._callback = _Callback(self._look)
        self._thread = threading.Thread(target=self._ask, name="stall watch", daemon=True)
        self._thread.start()

    def begin(self) -> None:
        self._stalls, self._current = [], None
        self._slowness = slowness()
        # With it Python has its turn in an event loop where nothing else happens.
        if QCoreApplication.instance() is not None:
            self._heart = QTimer()
            self._heart.setTimerType(Qt.TimerType.PreciseTimer)
            self._heart.timeout.connect(_beat)
            self._heart.start(int(_LOOK_S * 1000))
        self._watching.set()

    def end(self) -> list[Stall]:
        """What was found since `begin`."""
        self._watching.clear()
        if self._heart is not None:
            self._heart.stop()
            self._heart = None
        slower = max(self._slowness, slowness())
        return [stall for stall in self._stalls if stall.at_best_s(slower) > self._limit_s]

    def close(self) -> None:
        self._closed = True
        self._watching.set()
        self._thread.join()

    # On the thread that watches.

    def _ask(self) -> None:
        while self._watching.wait() and not self._closed:
            time.sleep(_LOOK_S)
            asked = self._asked
            if asked is None:
                self._suspected = None
                self._asked = time.perf_counter(), time.clock_gettime(self._clock)
                if ctypes.pythonapi.Py_AddPendingCall(self._callback, None) != 0:
                    self._asked = None
            elif self._suspected is None and time.perf_counter() > asked[0] + _SUSPECT_S:
                self._suspected = _standing()

    # On the GUI thread, between two instructions of Python.

    def _look(self, _nothing: int | None) -> int:
        asked, suspected, self._asked = self._asked, self._suspected, None
        if asked is None or not self._watching.is_set():
            return 0
        now_s = time.thread_time()
        # The thread that watches stands ready too, and keeps nobody from anything.
        mine = self._thread.native_id
        blocked_s = _blocked_s(suspected, mine) if suspected is not None else 0.0
        place = self._place(sys._getframe(1))
        if place is None:
            self._current = None
        else:
            call, by, line = place
            self._charge(call, by, line, now_s, asked[1], blocked_s)
        self._looked_s = now_s
        return 0

    def _charge(
        self,
        call: FrameType | None,
        by: str,
        line: str,
        now_s: float,
        asked_s: float,
        blocked_s: float,
    ) -> None:
        stall = None
        if call is not None and self._current is not None and not call.f_trace_lines:
            known, of_it = self._current
            stall = of_it if known == id(call) else None
        since_s = self._looked_s if stall is not None else asked_s
        if stall is None:
            stall = Stall(by)
            self._stalls.append(stall)
        stall.computed_s += now_s - since_s
        stall.blocked_s += blocked_s
        stall.lines[line] += 1
        if len(self._stalls) > 1 and self._stalls[-2].seconds <= self._limit_s:
            del self._stalls[-2]
        self._current = None
        if call is not None:
            # A mark that goes with the call: another frame may stand at its address later, and to
            # keep the frame would keep alive what it holds. Only tracers read it.
            call.f_trace_lines = False
            self._current = id(call), stall

    def _place(self, frame: FrameType | None) -> tuple[FrameType | None, str, str] | None:
        """The outermost frame of the product in this call, and in words where it is and looks."""
        if frame is not None and frame.f_code is _beat.__code__:
            # What was asked for before it went to what Qt did until its turn came.
            return (None, "Qt", "what it does in an event loop") if _in_loop(frame) else None
        if frame is not None and frame.f_code.co_code[frame.f_lasti] == _BEGIN:
            # Nothing of it was done yet: the time went to who called it.
            frame = frame.f_back
        innermost = ""
        outermost = border = None
        while frame is not None:
            code = frame.f_code
            file = code.co_filename
            if code is elsewhere.__code__:
                return None
            if border is None:
                if file.startswith(self._product):
                    outermost = frame
                    if self._exempt and _name(frame) in self._exempt:
                        return None
                elif file.startswith(_TESTS) or _LOOPS in file:
                    border = frame
                if not innermost and (outermost is frame or file.startswith(_HERE)):
                    innermost = f"{_name(frame)}, line {frame.f_lineno}"
            frame = frame.f_back
        if outermost is not None:
            return outermost, _name(outermost), innermost
        if border is not None and _is_loop(border):
            return None, "Qt", "what it does in an event loop"
        return None


_at_best_s = math.inf


def slowness() -> float:
    """How much longer a piece of work takes here and now than it did at best, 1 or more."""
    global _at_best_s
    took_s = min(_work_s() for _ in range(3))
    _at_best_s = min(_at_best_s, took_s)
    return took_s / _at_best_s


def _work_s() -> float:
    begin = time.thread_time()
    for number in range(_WORK):
        str(number)
    return time.thread_time() - begin


@dataclass(frozen=True)
class _Standing:
    """Seconds that every thread of this process has computed, and stood ready, so far."""

    at_s: float
    threads: Mapping[int, float]


def _standing() -> _Standing:
    found = {}
    for name in os.listdir("/proc/self/task"):
        with suppress(OSError, ValueError), open(f"/proc/self/task/{name}/schedstat") as file:
            computed, ready, _ = file.read().split()
            found[int(name)] = (int(computed) + int(ready)) / 1e9
    return _Standing(time.perf_counter(), found)


def _blocked_s(before: _Standing, watch: int | None) -> float:
    """How long the thread was neither computing nor ready, with no other thread to wait for."""
    now = _standing()
    busy_s = sum(
        spent - before.threads.get(name, 0.0)
        for name, spent in now.threads.items()
        if name != watch
    )
    return max(0.0, now.at_s - before.at_s - busy_s)


def _beat() -> None:
    """Python's turn."""


def _in_loop(frame: FrameType) -> bool:
    return frame.f_back is not None and _is_loop(frame.f_back)


def _is_loop(frame: FrameType) -> bool:
    if frame.f_code is run_loop.__code__:
        return True
    return _LOOPS in frame.f_code.co_filename and frame.f_code.co_name == "exec"


def _name(frame: FrameType) -> str:
    file = frame.f_code.co_filename.removeprefix(_HERE)
    return f"{file}:{frame.f_code.co_qualname}"
