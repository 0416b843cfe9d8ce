"""P8: from the start of the process to the first painted frame; and the desktop's memory.

The other side is a bare window of PySide6 and pyqtgraph with one empty plot, imports included.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from backend.records.jobs.job_file import parse_job
from backend.records.jobs.state import JobState
from backend.records.jobs.status import RunStatus
from backend.records.jobs.view import JobView
from backend.services.context.container import open_services
from backend.services.context.example import create_example
from tests.benchmarks.figures import Figure
from tests.benchmarks.history import blocks

PAIRS = 7
MANY_JOBS = 100_000
ROOT = Path(__file__).resolve().parents[2]

BARE_WINDOW = """
import sys, time
from PySide6.QtCore import QEvent, QObject
from PySide6.QtWidgets import QApplication, QMainWindow
import pyqtgraph

class Watch(QObject):
    def eventFilter(self, watched, event):
        if event.type() == QEvent.Type.UpdateRequest:
            watched.removeEventFilter(self)
            print(time.time(), flush=True)
            app.quit()
        return False

app = QApplication(sys.argv[:1])
window = QMainWindow()
window.setCentralWidget(pyqtgraph.PlotWidget())
window.resize(1440, 900)
watch = Watch()
window.installEventFilter(watch)
window.show()
app.exec()
"""

PROGRAM = """
import sys, time
from pathlib import Path
from app.main.bootstrap import Program
from PySide6.QtCore import QEvent, QObject
from PySide6.QtWidgets import QApplication

class Watch(QObject):
    def eventFilter(self, watched, event):
        if event.type() == QEvent.Type.UpdateRequest:
            watched.removeEventFilter(self)
            print(time.time(), flush=True)
            app.quit()
        return False

app = QApplication(sys.argv[:1])
program = Program(app, Path(sys.argv[1]), Path(sys.argv[2]), None)
watch = Watch()
program.window.installEventFilter(watch)
program.show()
app.exec()
program.close()
"""

MEMORY = """
import sys
from pathlib import Path
from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QApplication
from app.main.bootstrap import Program

app = QApplication(sys.argv[:1])
program = Program(app, Path(sys.argv[1]), Path(sys.argv[2]), None)
program.show()

def report():
    text = Path("/proc/self/status").read_text()
    kib = next(int(line.split()[1]) for line in text.splitlines() if line.startswith("VmRSS"))
    print(kib / 1024, flush=True)
    app.quit()

def poll():
    if program.is_built and program.jobs.open_id:
        ready.stop()
        QTimer.singleShot(3000, report)

ready = QTimer()
ready.timeout.connect(poll)
ready.start(50)
app.exec()
program.close()
"""


def measure() -> list[Figure]:
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        empty_paths = (str(folder / "empty"), str(folder / "empty.sqlite"))
        full_paths = (str(folder / "many"), str(folder / "many.sqlite"))
        (folder / "many").mkdir()
        _fill(Path(full_paths[0]), Path(full_paths[1]))
        demo_paths = (str(folder / "demo"), str(folder / "demo.sqlite"))
        (folder / "demo").mkdir()
        _demo(Path(demo_paths[0]), Path(demo_paths[1]))
        ratios, full_ratios, seconds = [], [], []
        for _ in range(PAIRS + 1):
            bare_s = first_frame_s(BARE_WINDOW)
            program_s = first_frame_s(PROGRAM, *empty_paths)
            full_s = first_frame_s(PROGRAM, *full_paths)
            ratios.append(program_s / bare_s)
            full_ratios.append(full_s / program_s)
            seconds.append(program_s)
        memory = tuple(float(run(MEMORY, *demo_paths)) for _ in range(3))
        context = f"first frame after {min(seconds[1:]):.2f} s at best"
        return [
            Figure("P8", "first frame / bare window", tuple(ratios[1:]), 1.2, context=context),
            Figure("P8", f"first frame, {MANY_JOBS:,} jobs / none", tuple(full_ratios[1:]), 1.1),
            Figure("P8", "memory with the example's job open", memory, 250.0, "MB"),
        ]


def first_frame_s(script: str, *arguments: str) -> float:
    started_s = time.time()
    return float(run(script, *arguments)) - started_s


def run(script: str, *arguments: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    completed = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    return completed.stdout.strip().splitlines()[-1]


def _fill(data_root: Path, catalogue: Path) -> None:
    raw = {
        "name": "digits",
        "model": "digits",
        "dataset": "digits",
        "loader": "digits",
        "epochs": 2,
        "batch_size": 8,
        "optimizer": {"name": "sgd", "lr": 0.1},
        "placement": [{"node": "this-computer", "processes": 2}],
    }
    config = parse_job(raw).config
    assert config is not None
    view = JobView(
        "a", "digits", config, "2026-11-21T07:00:00Z", RunStatus(JobState.FINISHED, run=1)
    )
    services = open_services(data_root, catalogue)
    services.catalogue.put_jobs(
        replace(view, id=f"20261121-{number:06d}") for number in range(MANY_JOBS)
    )
    services.close()


def _demo(data_root: Path, catalogue: Path) -> None:
    """The example's job as it is after training, with a history of 440 steps."""
    services = open_services(data_root, catalogue)
    view = create_example(services)
    folder = data_root / "jobs" / view.id
    (folder / "output").mkdir(exist_ok=True)
    (folder / "output" / "history.toml").write_bytes(blocks(1, 440))
    services.close()
