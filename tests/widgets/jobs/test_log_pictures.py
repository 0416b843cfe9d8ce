"""Pictures of the tab Log and of What happened, in both themes, wide and narrow."""

from dataclasses import replace

import pytest
from PySide6.QtWidgets import QApplication

from backend.records.checkpoint import Checkpoint
from backend.records.explanation import Evidence
from backend.records.job import parse_job
from backend.records.job_view import JobView
from backend.records.state import JobState
from backend.records.status import RankError
from tests.widgets.jobs.jobs_rig import show_jobs
from tests.widgets.jobs.test_log_tab import Logs
from widgets.common.look import ThemeChoice
from widgets.jobs.jobs_page import JobsPage
from widgets.main_window import MainWindow

SIZES = ((1440, 900), (1000, 640))
TRACE = [
    "Traceback (most recent call last):",
    '  File "/srv/ring/models/vit-s16/v3/bks_model.py", line 88, in forward',
    "    x = self.blocks(x) + self.position",
    '  File "/srv/ring/models/vit-s16/v3/blocks.py", line 41, in forward',
    "    a = (q @ k.transpose(-2, -1)) * self.scale",
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.30 GiB. GPU 0 has a total "
    "capacity of 79.10 GiB of which 1.02 GiB is free.",
]
LOG = [
    "── run 1, rank 3 on gpu03, 2026-11-21T09:38:12Z ──",
    "\x1b[2m09:38:14\x1b[0m \x1b[1;34mINFO\x1b[0m  model \x1b[35mvit-s16\x1b[0m, 22 M weights",
    "\x1b[2m09:38:15\x1b[0m \x1b[1;33mWARN\x1b[0m  no \x1b[4mpretrained\x1b[0m weights given",
    "/usr/lib/python3/site-packages/torch/functional.py:1: UserWarning: " + "a long line, " * 40,
    "<b>no markup</b> &amp; no links: <a href='x'>y</a>",
    *(
        f"\x1b[2m09:{38 + n // 60:02d}:{n % 60:02d}\x1b[0m "
        f"\x1b[32mstep {n:5d}\x1b[0m  loss {2 / (n + 2):.4f}"
        for n in range(16, 900)
    ),
    *TRACE,
]
CONFIG = parse_job(
    {
        "name": "vit-s16 · plankton adamw",
        "model": "vit",
        "dataset": "plankton",
        "loader": "plankton",
        "epochs": 50,
        "batch_size": 32,
        "optimizer": {"name": "adamw", "lr": 0.001},
        "placement": [
            {"node": "gpu03", "gpus": [f"GPU-{n}" for n in range(4)]},
            {"node": "gpu04", "gpus": [f"GPU-{n}" for n in range(4)]},
        ],
    }
).config
ERROR = RankError(
    "The GPU's memory is full. Try batch_size = 16 instead of 32.",
    3,
    "gpu03",
    "\n".join(TRACE),
    "gpu_memory",
    "",
    tuple(Evidence("rank-3.log", len(LOG) - 6 + n, TRACE[n]) for n in (1, 5)),
)
FAILED = JobView(
    "a",
    "vit-s16 · plankton adamw",
    JobState.ERROR,
    CONFIG,
    "2026-11-21T07:00:00Z",
    run=1,
    epoch=20,
    step=8214,
    total_steps=20000,
    message=f"Rank 3 on gpu03: {ERROR.sentence}",
    error=ERROR,
    started="2026-11-21T09:38:00Z",
    ended="2026-11-21T11:52:14Z",
)
UNKNOWN = replace(
    FAILED,
    message="Rank 3 on gpu03 left with exit code 7 in the model's step, and its log does not say "
    "why.",
    error=RankError(
        "Rank 3 on gpu03 left with exit code 7 in the model's step, and its log does not say why.",
        3,
        "gpu03",
        "",
        "unknown",
        "",
        tuple(Evidence("rank-3.log", 871 + n, LOG[870 + n]) for n in range(15)),
    ),
)
LIVE = replace(FAILED, state=JobState.TRAINING, error=None, message="", ended="")


@pytest.fixture(params=[ThemeChoice.LIGHT, ThemeChoice.DARK], ids=["light", "dark"])
def dressed(request, look):
    look.choose(request.param)
    return request.param.value


@pytest.fixture
def shown(qtbot):
    def shown(view, size, tab):
        window, page = MainWindow(), JobsPage()
        qtbot.addWidget(window)
        window.add_page("jobs", page)
        window.resize(*size)
        window.show()
        window.go("jobs")
        detail = page.detail
        Logs(detail.log, r3=LOG, r0=[], all=[f"{line}" for line in LOG], mpirun=["── run 1 ──"])
        show_jobs(page, (view,))
        page.open_job(view.id)
        detail.show_checkpoints(
            view.id,
            (
                Checkpoint(
                    "epoch-0020-step-008000", 1, 20, 8000, 0, 10, "a", "b", "2026-11-21T11:46:08Z"
                ),
            ),
        )
        detail._choose_tab(tab)
        return window, detail

    return shown


@pytest.fixture
def take(tmp_path):
    def take(widget, name):
        for _ in range(3):
            QApplication.processEvents()
        image = widget.grab().toImage()
        assert image.save(str(tmp_path / f"{name}.png"))
        across, down = range(0, image.width(), 5), range(0, image.height(), 5)
        assert len({image.pixel(x, y) for x in across for y in down}) > 8, f"{name} is nearly blank"

    return take


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}")
def test_pictures_of_the_log(shown, take, dressed, size):
    window, detail = shown(FAILED, size, "log")
    take(window, f"log-end-{dressed}-{size[0]}")
    detail.log.view.verticalScrollBar().setValue(0)
    detail.log.view._let_go(True)
    detail.log._search.setText("loss")
    detail.log._search._say()
    detail.log.view.go_to(4)
    take(window, f"log-search-{dressed}-{size[0]}")
    detail.log._search.setText("")
    detail.log._picker.choose("all")
    take(window, f"log-all-{dressed}-{size[0]}")
    detail.log._picker.choose("0")
    take(window, f"log-empty-{dressed}-{size[0]}")


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}")
def test_pictures_of_what_happened(shown, take, dressed, size):
    window, _ = shown(FAILED, size, "failure")
    take(window, f"failed-{dressed}-{size[0]}")
    window, _ = shown(UNKNOWN, size, "failure")
    take(window, f"unknown-{dressed}-{size[0]}")
