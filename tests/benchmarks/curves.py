"""P7: four runs of a million points panned, zoomed and grown, beside pyqtgraph by itself.

The other side is pyqtgraph as its documentation shows it: ``PlotWidget`` with ``setData`` of all
points, downsampling by peaks and clipping to the view, the fastest it offers.  Like is held against
like without smoothing; with it ours draws twice as many curves, and they are 2.2 px wide.  A frame
is what a person waits for, from the new range to the painted picture, in processor time of the
thread: that others use the machine is not our slowness.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.benchmarks.figures import Figure

ROOT = Path(__file__).resolve().parents[2]
PAIRS = 5
FRAMES = 30
RUNS, POINTS = 4, 1_000_000
FRAMES_A_SECOND, APPEND_S = 30.0, 0.005

SCRIPT = """
import statistics, sys, time
import numpy as np
import pyqtgraph as pg
from PySide6.QtWidgets import QApplication
from widgets.common.look import Look, ThemeChoice
from widgets.curves.curve_data import CurveData
from widgets.curves.curve_panel import CurvePanel

app = QApplication([])
look = Look(app, ThemeChoice.LIGHT)
runs, points, frames, pairs = map(int, sys.argv[1:])
steps = np.arange(float(points))
rng = np.random.default_rng(0)
losses = [
    0.4 + 0.1 * n + 2 * np.exp(-steps / 2e5) + rng.normal(0, 0.1, points) for n in range(runs)
]

ours = CurvePanel("Loss")
data = []
for number, values in enumerate(losses):
    curve = CurveData()
    curve.extend(steps, values)
    data.append(curve)
    ours.set_curve(str(number), f"run {number}", curve, number)
ours.set_smoothing(0.9)

bare = pg.PlotWidget(background="w")
bare.setDownsampling(auto=True, mode="peak")
bare.setClipToView(True)
bare.getViewBox().disableAutoRange()
bare.setYRange(0, 3)
lines = [bare.plot(steps, values, pen=number) for number, values in enumerate(losses)]

for widget in (ours, bare):
    widget.resize(1100, 420)
    widget.show()
for _ in range(5):
    app.processEvents()

def timed(show):
    took = []
    for number in range(frames):
        share = number / frames
        began = time.thread_time()
        # Half of the frames pan a stretch, half zoom in from all to a ten-thousandth.
        if number % 2:
            width = points * 10 ** (-4 * share)
            show(points / 2 - width / 2, points / 2 + width / 2)
        else:
            show(share * points / 2, share * points / 2 + points / 2)
        took.append(time.thread_time() - began)
    return statistics.median(took)

def show_ours(x0, x1):
    ours.set_x_range(x0, x1)
    app.processEvents()

def show_bare(x0, x1):
    bare.setXRange(x0, x1, padding=0)
    app.processEvents()

def append_ours(number):
    began = time.thread_time()
    for curve in data:
        curve.extend(points + 25.0 * number + np.arange(25.0), np.full(25, 0.4))
    return time.thread_time() - began

def append_bare(number):
    began = time.thread_time()
    for line, values in zip(lines, losses, strict=True):
        whole = np.concatenate((values, np.full(25, 0.4)))
        line.setData(np.arange(float(len(whole))), whole)
    return time.thread_time() - began

for pair in range(pairs + 1):
    order = ((show_ours, append_ours), (show_bare, append_bare))
    found = {}
    for show, append in order if pair % 2 else order[::-1]:
        frame = timed(show)
        if show is show_ours:
            ours.set_smoothing(0)
            app.processEvents()
            plain = timed(show)
            ours.set_smoothing(0.9)
            app.processEvents()
        grown = statistics.median(append(20 * pair + n) for n in range(20))
        found[show] = (frame, grown)
    if pair:
        print(*found[show_ours], plain, *found[show_bare], flush=True)
"""


def measure() -> list[Figure]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "QT_QPA_PLATFORM": "offscreen"}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *map(str, (RUNS, POINTS, FRAMES, PAIRS))],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=600,
    )
    rows = [tuple(map(float, line.split())) for line in done.stdout.splitlines()]
    frame, append, plain, bare_frame, bare_append = zip(*rows, strict=True)
    what = f"{RUNS} runs × {POINTS:,} points"
    bare = f"pyqtgraph alone {1 / min(bare_frame):.1f} frames/s at best"
    grown = f"pyqtgraph alone {min(bare_append) * 1e3:.1f} ms at best"
    return [
        Figure(
            "P7",
            f"pan and zoom, {what}",
            tuple(1 / each for each in frame),
            FRAMES_A_SECOND,
            "frames/s",
            True,
            bare,
        ),
        Figure(
            "P7",
            "25 points more for each run",
            tuple(each * 1e3 for each in append),
            APPEND_S * 1e3,
            "ms",
            context=grown,
        ),
        Figure(
            "P7",
            "a frame without smoothing, ours / pyqtgraph alone",
            tuple(a / b for a, b in zip(plain, bare_frame, strict=True)),
            1.0,
        ),
    ]
