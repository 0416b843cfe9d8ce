"""A long log in the real tab, read by real workers; how fast is `tests.benchmarks.log`."""

from __future__ import annotations

from pathlib import Path

import pytest
import tomli_w

from app.jobs.log_controller import LogController
from app.runtime.background import Background
from backend.records.base.atomic_files import replace_json
from backend.records.base.layout import JobFolder
from backend.records.jobs.job_file import parse_job
from backend.records.jobs.state import JobState
from backend.records.jobs.status import RunStatus
from backend.records.jobs.view import JobView
from backend.services.jobs.logs import LogService
from tests.fakes.mounted_root import mounted
from tests.windows import find_only, shows_text
from widgets.common.fields import SearchField
from widgets.jobs.log.log_tab import LogTab

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
SIZE_BYTES = 5_000_000


@pytest.fixture
def folder(tmp_path: Path) -> JobFolder:
    folder = mounted(tmp_path).job("a")
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
    return path


@pytest.fixture
def tab(qtbot, tmp_path):
    background = Background()
    tab = LogTab()
    qtbot.addWidget(tab)
    tab.resize(1000, 640)
    controller = LogController(LogService(mounted(tmp_path)), background, tab)
    yield tab
    tab.hide()
    background.close()
    controller.deleteLater()


def live():
    config = parse_job(RAW).config
    return JobView(
        "a", "digits", config, "2026-11-21T07:00:00Z", RunStatus(JobState.TRAINING, run=1)
    )


def shows(tab, text):
    view = tab.view
    bottom = min(view.line_count, view.first_line + view._row_count()) - 1
    return any(view.line_text(n) == text for n in range(max(0, bottom - 2), bottom + 1))


def test_s11_a_long_log_opens_at_its_end_and_is_searched(tab, big, qtbot):
    with big.open("rb") as file:
        lines = sum(1 for _ in file)
    tab.show()
    tab.open_job(live())
    qtbot.waitUntil(lambda: shows(tab, "the end"))
    assert tab.view.line_count == lines

    find_only(SearchField, tab).setText("step 0012345")
    qtbot.waitUntil(lambda: shows_text(tab, " of "))
    assert shows_text(tab, f"of {tab.view.line_count // 20_000}")
    tab._request_error()
    qtbot.waitUntil(lambda: tab.view.marked_line == tab.view.line_count - 2)
    tab.view.verticalScrollBar().setValue(tab.view.line_count // 2)
    qtbot.waitUntil(lambda: tab.view.line_text(tab.view.first_line) is not None)


def test_a_log_that_grows_by_thousands_of_lines_is_followed(tab, folder, qtbot):
    path = folder.rank_log(0)
    path.write_text("begun\n" * 1000)
    tab.open_job(live())
    tab.show()
    qtbot.waitUntil(lambda: shows(tab, "begun"))
    with path.open("a") as file:
        for number in range(1, 4):
            file.write("\x1b[32mstep\x1b[0m loss 0.5\n" * 9_999 + f"line {number}0000\n")
            file.flush()
            qtbot.waitUntil(lambda number=number: shows(tab, f"line {number}0000"))
    assert tab.view.line_count == 31_000
