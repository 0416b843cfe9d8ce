"""Pictures of a job that warns: the banner, and the post on the curve at its step."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from backend.records.alarm import DIVERGED, NOT_A_NUMBER, Alarm
from backend.records.job_view import JobView, RunUpdate
from backend.records.series import HistoryUpdate, RunStart
from tests.widgets.jobs.jobs_rig import show_jobs
from tests.widgets.jobs.test_job_detail import FAILED, LIVE
from widgets.common.look import Look, ThemeChoice
from widgets.jobs.jobs_page import JobsPage
from widgets.main_window import MainWindow

STEPS = 900
RISES = Alarm(DIVERGED, 760, "The loss is at 2.31, 4.2 times its best (0.55 at step 698).")
STOPS = Alarm(NOT_A_NUMBER, 900, "The loss of rank 1 is not a number at step 900.")
TRAINING = replace(LIVE, name="retinanet-r50 · coco 2x", step=STEPS, total_steps=1500)


def losses() -> list[float]:
    chance = random.Random(2)
    return [
        (2.5 * math.exp(-n / 250) + 0.4 + max(0, n - 700) / 90) * chance.uniform(0.85, 1.15)
        for n in range(STEPS)
    ]


@pytest.mark.parametrize("theme", [ThemeChoice.LIGHT, ThemeChoice.DARK], ids=["light", "dark"])
@pytest.mark.parametrize("size", [(1440, 900), (1000, 640)], ids=["1440", "1000"])
def test_pictures_of_alarms(
    qtbot: QtBot, look: Look, theme: ThemeChoice, size: tuple[int, int], tmp_path: Path
) -> None:
    look.choose(theme)
    cases = {
        "rises": replace(TRAINING, alarms=(RISES,)),
        "ended": replace(FAILED, step=STEPS, total_steps=1500, alarms=(RISES, STOPS)),
    }
    for name, view in cases.items():
        window, page = MainWindow(), JobsPage()
        qtbot.addWidget(window)
        window.add_page("jobs", page)
        window.resize(*size)
        window.show()
        window.go("jobs")
        show_jobs(page, (view,))
        page.open_job(view.id)
        page.show_update(update_of(view))
        page.detail._choose_tab("curves")
        for _ in range(3):
            QApplication.processEvents()
        image = window.grab().toImage()
        assert image.save(str(tmp_path / f"{name}.png"))
        across, down = range(0, image.width(), 5), range(0, image.height(), 5)
        assert len({image.pixel(x, y) for x in across for y in down}) > 8


def update_of(view: JobView) -> RunUpdate:
    steps = list(range(1, STEPS + 1))
    history = HistoryUpdate(
        steps,
        [step // 300 + 1 for step in steps],
        [step / 10 for step in steps],
        {"loss": losses(), "validation/accuracy": [0.5] * STEPS},
        (RunStart(1, 1),),
    )
    return RunUpdate(view, history)
