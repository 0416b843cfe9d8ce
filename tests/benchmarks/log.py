"""P15: a log of 200 MB in the log tab beside ``wc -l`` and ``tail``, and 10,000 lines a second.

``wc -l`` reads what must be read to know the lines; the tab does the same and shows the end. A
stall is the longest time between two turns of the GUI thread's loop, beside the same measure of a
process that does nothing: on a busy machine both have some.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from backend.records.jobs.status import RunStatus
from tests.benchmarks.figures import Figure
from tests.fakes.mounted_root import mounted

PAIRS = 5
SIZE_BYTES = 200_000_000
FOLLOWED_S = 3
CONFIG = """
name = "digits"
model = "digits"
dataset = "digits"
loader = "digits"
epochs = 10
batch_size = 8
[optimizer]
name = "sgd"
lr = 0.1
[[placement]]
node = "this-computer"
processes = 1
"""
WRITER = """
import sys, time
with open(sys.argv[1], "a") as file:
    for tenth in range(int(sys.argv[2])):
        begin = time.monotonic()
        file.write("".join(f"step {tenth * 1000 + n} loss 0.5\\n" for n in range(1000)))
        file.flush()
        time.sleep(max(0, 0.1 - (time.monotonic() - begin)))
    file.write("the end\\n")
"""
IDLE = """
import sys, time
longest, last = 0.0, time.perf_counter()
end = last + float(sys.argv[1])
while last < end:
    time.sleep(0.002)
    now = time.perf_counter()
    longest, last = max(longest, now - last - 0.002), now
print(longest)
"""


def measure() -> list[Figure]:
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    with tempfile.TemporaryDirectory(dir=os.environ.get("RINGMASTER_BENCH_DIR")) as name:
        return _measure_root(Path(name))


def _measure_root(root: Path) -> list[Figure]:
    from PySide6.QtWidgets import QApplication

    from app.runtime.background import Background
    from backend.records.base.atomic_files import replace_json

    app = QApplication.instance() or QApplication([])  # noqa: TID251 - there is no window yet
    folder = mounted(root).job("a")
    folder.logs.mkdir(parents=True)
    folder.config.write_text(CONFIG)
    replace_json(folder.meta, {"schema": 1, "pins": {}, "created": "2026-11-21T07:00:00Z"})
    path = folder.rank_log(0)
    block = b"".join(b"epoch 1, step %07d, loss 0.5, accuracy 0.75\n" % n for n in range(20_000))
    path.write_bytes(block * (SIZE_BYTES // len(block)) + b"the end\n")
    background = Background()
    ratios, open_times, command_times = [], [], []
    for _ in range(PAIRS):
        started_s = time.perf_counter()
        for command in (["wc", "-l", str(path)], ["tail", "-n", "50", str(path)]):
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        command_times.append(time.perf_counter() - started_s)
        tab, close = _tab(root, background)
        started_s = time.perf_counter()
        tab.show()
        wait_until(app, lambda: tab.view.line_text(tab.view.line_count - 1) == "the end")  # noqa: B023
        open_times.append(time.perf_counter() - started_s)
        close()
        ratios.append(open_times[-1] / command_times[-1])
    path.write_text("begun\n" * 1000)
    stalls, idle = [], []
    for _ in range(PAIRS):
        tab, close = _tab(root, background)
        tab.show()
        wait_until(app, lambda: tab.view.line_count >= 1000)  # noqa: B023
        path.write_text("begun\n" * 1000)
        idle_process = subprocess.Popen(
            [sys.executable, "-c", IDLE, str(FOLLOWED_S)], stdout=subprocess.PIPE, text=True
        )
        writer = subprocess.Popen([sys.executable, "-c", WRITER, str(path), str(FOLLOWED_S * 10)])
        stalls.append(
            wait_until(app, lambda: tab.view.line_text(tab.view.line_count - 1) == "the end")  # noqa: B023
        )
        idle.append(float(idle_process.communicate()[0]))
        writer.wait()
        close()
    background.close()
    return [
        Figure(
            "P15",
            "opening a log of 200 MB",
            tuple(open_times),
            1.0,
            "s",
            context=f"{statistics.median(ratios):.2g} times wc -l and tail, "
            f"{statistics.median(command_times):.2f} s",
        ),
        Figure(
            "P15",
            "longest stall while 10,000 lines a second come",
            tuple(1000 * stall for stall in stalls),
            50.0,
            "ms",
            context=f"a process that does nothing: {1000 * statistics.median(idle):.0f} ms",
        ),
    ]


def _tab(root: Path, background: object) -> tuple[object, Callable[[], None]]:
    import tomllib

    from app.jobs.log_controller import LogController
    from backend.records.jobs.job_file import parse_job
    from backend.records.jobs.state import JobState
    from backend.records.jobs.view import JobView
    from backend.services.jobs.logs import LogService
    from widgets.jobs.log.log_tab import LogTab

    tab = LogTab()
    tab.resize(1000, 640)
    controller = LogController(LogService(mounted(root)), background, tab)
    config = parse_job(tomllib.loads(CONFIG)).config
    tab.open_job(
        JobView("a", "digits", config, "2026-11-21T07:00:00Z", RunStatus(JobState.TRAINING, run=1))
    )

    def close() -> None:
        tab.hide()
        tab.deleteLater()
        controller.deleteLater()

    return tab, close


def wait_until(app: object, is_so: Callable[[], bool]) -> float:
    """Let the loop turn until it is so; the longest turn, in seconds."""
    longest = 0.0
    end = time.monotonic() + 120
    previous_s = time.perf_counter()
    while not is_so():
        if time.monotonic() > end:
            raise TimeoutError("the log did not come")
        app.processEvents()
        now = time.perf_counter()
        longest = max(longest, now - previous_s)
        time.sleep(0.002)
        previous_s = time.perf_counter()
    return longest
