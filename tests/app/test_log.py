"""A real log of 200 MB in the real tab, read by real workers: it opens and follows without a stall.

Every test with a window is watched for stalls (`tests.gui_stalls`). What is measured here is the
processor time of the whole process until the end of the log is in sight, which a busy machine does
not change.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest
import tomli_w

from app.background import Background
from app.log_controller import LogController
from backend.records.files import replace_json
from backend.records.job import parse_job
from backend.records.job_view import JobView
from backend.records.layout import DataRoot, JobFolder
from backend.records.state import JobState
from backend.services.logs import LogService
from widgets.jobs.log_tab import LogTab

RAW = {
    "name": "digits",
    "model": "digits",
    "dataset": "digits",
    "loader": "digits",
    "epochs": 10,
    "batch_size": 8,
    "optimizer": {"name": "sgd", "lr": 0.1},
    "placement": [{"node": "this-computer", "processes": 1}],
}
SIZE_BYTES = 200_000_000
# Its pace is what the tab is tried with; nothing waits for a clock.
WRITER = """
import sys, time
path, count = sys.argv[1], int(sys.argv[2])
with open(path, "a") as file:
    for tenth in range(count // 1000):
        begin = time.monotonic()
        for line in range(1000):
            file.write(f"\\x1b[32mstep {tenth * 1000 + line}\\x1b[0m loss 0.5\\n")
        file.flush()
        time.sleep(max(0, 0.1 - (time.monotonic() - begin)))
    file.write("the last line\\n")
"""


@pytest.fixture
def folder(tmp_path: Path) -> JobFolder:
    folder = DataRoot(tmp_path).job("a")
    folder.logs.mkdir(parents=True)
    folder.config.write_bytes(tomli_w.dumps(RAW).encode())
    replace_json(folder.meta, {"schema": 1, "pins": {}, "created": "2026-11-21T07:00:00Z"})
    return folder


@pytest.fixture
def big(folder: JobFolder) -> Path:
    path = folder.rank_log(0)
    block = b"".join(b"epoch 1, step %07d, loss 0.5, accuracy 0.75\n" % n for n in range(20_000))
    with path.open("wb") as file:
        for _ in range(SIZE_BYTES // len(block)):
            file.write(block)
        file.write(b"KeyError: 'colour'\nthe end\n")
    yield path
    path.unlink()


@pytest.fixture
def tab(qtbot, tmp_path):
    background = Background()
    tab = LogTab()
    qtbot.addWidget(tab)
    tab.resize(1000, 640)
    controller = LogController(LogService(DataRoot(tmp_path)), background, tab)
    yield tab
    tab.hide()
    background.close()
    controller.deleteLater()


def live():
    config = parse_job(RAW).config
    return JobView("a", "digits", JobState.TRAINING, config, "2026-11-21T07:00:00Z", run=1)


def shows(tab, text):
    view = tab.view
    bottom = min(view.total, view.top + view._rows()) - 1
    return any(view.text_of(n) == text for n in range(max(0, bottom - 2), bottom + 1))


def test_s11_p15_a_log_of_200_mb_opens_and_is_searched_without_a_stall(tab, big, qtbot):
    with big.open("rb") as file:
        lines = sum(1 for _ in file)
    # The first frame of a window costs what it costs, with a log or without.
    with qtbot.waitExposed(tab):
        tab.show()
    begin = time.process_time()
    tab.open_job(live())
    qtbot.waitUntil(lambda: shows(tab, "the end"), timeout=60_000)
    opened_s = time.process_time() - begin
    assert opened_s <= 1.0
    assert tab.view.total == lines

    tab._search.setText("step 0012345")
    qtbot.waitUntil(lambda: " of " in tab._count.text(), timeout=60_000)
    assert tab._count.text().endswith(f"of {tab.view.total // 20_000}")
    tab._wish_error()
    qtbot.waitUntil(lambda: tab.view.marked == tab.view.total - 2, timeout=60_000)
    tab.view.verticalScrollBar().setValue(tab.view.total // 2)
    qtbot.waitUntil(lambda: tab.view.text_of(tab.view.top) is not None, timeout=60_000)


def test_p15_10_000_lines_a_second_are_followed_without_a_stall(tab, folder, qtbot):
    path = folder.rank_log(0)
    path.write_text("begun\n" * 1000)
    tab.open_job(live())
    tab.show()
    qtbot.waitUntil(lambda: shows(tab, "begun"), timeout=60_000)
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(path), "20000"])
    qtbot.waitUntil(lambda: shows(tab, "the last line"), timeout=120_000)
    assert writer.wait(60) == 0
    assert tab.view.total == 21_001
