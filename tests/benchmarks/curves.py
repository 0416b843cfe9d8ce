"""P7: four runs of a million points panned, zoomed and grown, beside pyqtgraph by itself.

The other side is pyqtgraph as its documentation shows it: ``PlotWidget`` with ``setData`` of all
points, downsampling by peaks and clipping to the view, the fastest it offers.  Like is held against
like without smoothing; with it ours draws twice as many curves, and they are 2.2 px wide.  A frame
is what the user waits for, from the new range to the painted picture, in processor time of the
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
from widgets.common.theme_manager import ThemeManager, ThemeChoice
from widgets.plots.curve_data import CurveData
from widgets.plots.curve_panel import CurvePanel

app = QApplication([])
theme_manager = ThemeManager(app, ThemeChoice.LIGHT)
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

SHARES = """
import itertools, sys, time
import numpy as np
from PySide6.QtCore import QLineF, QStringListModel
from PySide6.QtGui import QColor, QImage, QPainter, QPen, QPixmap
from PySide6.QtWidgets import QApplication, QListView
from backend.records.sweeps.parallel_coordinates import parallel_plot
from tests.widgets.nodes import samples
from tests.widgets.compare.sweep_samples import sweep
from tests.widgets.library.test_layers_view import layer_chain
from widgets.library.layer_graph import LayerGraphView
from widgets.nodes.row.node_row import node_row
from widgets.nodes.page.rack import Rack
from widgets.common.theme_manager import ThemeManager, ThemeChoice
from widgets.compare.parallel_plot import ParallelPlot
from widgets.plots.curve_data import CurveData, XAxis
from widgets.plots.curve_panel import CurvePanel

app = QApplication([])
theme_manager = ThemeManager(app, ThemeChoice.LIGHT)

def least(call):
    took = []
    for _ in range(7):
        began = time.thread_time()
        call()
        took.append(time.thread_time() - began)
    return min(took)

def shown(widget, width, height):
    widget.resize(width, height)
    widget.show()
    for _ in range(5):
        app.processEvents()
    return widget

def curve(values):
    data = CurveData(0.9)
    data.extend(np.arange(float(len(values))), values)
    return data

rng = np.random.default_rng(0)
panel = shown(CurvePanel("Use"), 700, 300)

def painted(values):
    panel.set_curve("use", "use", curve(values), 0)
    app.processEvents()
    return least(panel.grab)

long, short = curve(rng.normal(size=1_000_000)), curve(rng.normal(size=10_000))

def cut(data, log=False):
    last = np.log10(len(data)) if log else len(data)
    return least(lambda: data.columns(XAxis.STEP, 0.0, last, 1000, log=log))

def gone_back(count):
    data = curve(rng.normal(size=count))
    began = time.thread_time()
    data.append(count - 5_000, 0.5)
    return time.thread_time() - began

plot = shown(ParallelPlot(), 1100, 320)
plot.show_coordinates(parallel_plot(sweep(500)))
ways = [plot.picture.points_of(line) for line in plot._coordinates.lines]
lines = [QLineF(a, b) for way in ways for a, b in itertools.pairwise(way)]
ends = itertools.cycle(np.linspace(0.5, 0.8, 7))

def brushed():
    plot.set_brush(1, 0.1, next(ends))
    plot.repaint()

def bare_lines():
    image = QImage(plot.size(), QImage.Format.Format_ARGB32_Premultiplied)
    painter = QPainter(image)
    painter.setPen(QPen(QColor("blue"), 1.0))
    painter.drawLines(lines)
    painter.end()

rack = shown(Rack(), 1100, 600)
rack.show_rows([node_row(node, samples.JOBS, heartbeat_age_s=1.0) for node in samples.cluster(64)])
plain = QListView()
plain.setModel(QStringListModel([f"gpu{number}" for number in range(64)]))
shown(plain, 1100, 64 * 30)
app.processEvents()

graph = shown(LayerGraphView(), 1100, 700)
graph.show_graph(*layer_chain(1000))
graph.fit()
app.processEvents()

def render(view):
    picture = QPixmap(view.viewport().size())
    return least(lambda: view.viewport().render(picture))

for pair in range(int(sys.argv[1])):
    print(
        painted(rng.uniform(0.0, 100.0, 150)) / painted(np.linspace(0.0, 100.0, 150)),
        cut(long) / cut(short),
        cut(long, log=True) / cut(long),
        min(gone_back(1_000_000) for _ in range(3)) / min(gone_back(10_000) for _ in range(3)),
        least(brushed) / least(bare_lines),
        render(rack) / render(plain),
        render(graph) / render(plain),
        flush=True,
    )
"""
_SHARES = (
    ("a frame of a curve that winds / a flat one", 2.0),
    ("the columns of a million points / of ten thousand", 3.0),
    ("the columns of a logarithmic axis / a linear one", 6.0),
    ("a resumed run goes back in a million points / in ten thousand", 4.0),
    ("a brush over 500 jobs of a sweep / Qt's lines alone", 2.5),
    ("a rack of 64 nodes with 8 GPUs / a list of 64 names", 5.0),
    ("a graph of 1,000 layers / a list of 64 names", 10.0),
)


def measure() -> list[Figure]:
    rows = run_script(SCRIPT, RUNS, POINTS, FRAMES, PAIRS)
    frame, append, plain_frame, bare_frame, bare_append = zip(*rows, strict=True)
    shares = zip(*run_script(SHARES, PAIRS), strict=True)
    size = f"{RUNS} runs × {POINTS:,} points"
    frame_context = f"pyqtgraph alone {1 / min(bare_frame):.1f} frames/s at best"
    append_context = f"pyqtgraph alone {min(bare_append) * 1e3:.1f} ms at best"
    return [
        Figure(
            "P7",
            f"pan and zoom, {size}",
            tuple(1 / value for value in frame),
            FRAMES_A_SECOND,
            "frames/s",
            True,
            frame_context,
        ),
        Figure(
            "P7",
            "25 points more for each run",
            tuple(value * 1e3 for value in append),
            APPEND_S * 1e3,
            "ms",
            context=append_context,
        ),
        Figure(
            "P7",
            "a frame without smoothing, ours / pyqtgraph alone",
            tuple(a / b for a, b in zip(plain_frame, bare_frame, strict=True)),
            1.0,
        ),
        *(
            Figure("P7", name, values, limit)
            for (name, limit), values in zip(_SHARES, shares, strict=True)
        ),
    ]


def run_script(script: str, *arguments: int) -> list[tuple[float, ...]]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "QT_QPA_PLATFORM": "offscreen"}
    completed = subprocess.run(
        [sys.executable, "-c", script, *map(str, arguments)],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=600,
    )
    return [tuple(map(float, line.split())) for line in completed.stdout.splitlines()]
