"""Studies in the window: the gallery starts one, its pane shows and exports the table and plot."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QFileDialog

from app.jobs.study_controller import StudyController
from app.jobs.study_picture import draw
from backend.base.errors import BackendError
from backend.records.jobs.state import JobState
from backend.records.studies.study import FormName
from backend.records.sweeps.spec import QueuedSweep
from tests.job_views import replace_fields
from tests.pictures.screens.studies import epoch_time, gallery, split
from tests.pictures.screens.sweeps import search_result
from tests.widgets.jobs.jobs_rig import show_jobs
from tests.widgets.jobs.sweep_samples import ALL_JOBS, LONG, LONG_JOBS, LR, LR_JOBS
from tests.windows import find_button, find_only, show_widget, visible_texts
from widgets.common.buttons import Button, SegmentedControl
from widgets.common.fields import ComboBox
from widgets.jobs.actions.job_actions import CLONE
from widgets.jobs.page.jobs_page import JobsPage
from widgets.jobs.studies.study_plot import StudyPlot
from widgets.jobs.sweeps.search_result import ImportanceBars, TrialPlot

LEFT_BUTTON = Qt.MouseButton.LeftButton
FOUR = ["epoch-time", "speed-up", "split", "staleness"]


class Studies:
    """A service with four studies; the sweep `LR` is one of them that was started."""

    def __init__(self) -> None:
        self.starts, self.read, self.exports = [], [], []
        self.table_of = {LR: epoch_time()}
        self.refusal = ""

    def list(self):
        return tuple(study for study in gallery() if study.name in FOUR)

    def inspect(self, path):
        if self.refusal:
            raise BackendError(self.refusal)
        return self.list()[0]

    def start(self, name, form, nodes, progress):
        if self.refusal:
            raise BackendError(self.refusal, "Free some space.")
        progress.report(1, 4, "Making job 2 of 2")
        self.starts.append((name, form, nodes))
        return QueuedSweep(LR, LR_JOBS[:2])

    def find(self, tag):
        return tag if tag in self.table_of else None

    def find_started(self, tag):
        return tag

    def table(self, started):
        self.read.append(started)
        return self.table_of[started]

    def export(self, started, path, *, overwrite):
        self.exports.append((started, path.name, overwrite))
        return path


@pytest.fixture
def page(qtbot):
    return show_widget(qtbot, JobsPage(), 1200, 800)


@pytest.fixture
def studies():
    return Studies()


@pytest.fixture
def resumed_tags():
    return []


@pytest.fixture
def searches():
    """Results of searches by tag."""
    return {}


@pytest.fixture
def controller(page, studies, searches, resumed_tags, immediately):
    sweeps = SimpleNamespace(
        resume=lambda tag: resumed_tags.append(("resume", tag)) or LR_JOBS[4:],
        result=searches.get,
    )
    services = SimpleNamespace(studies=studies, sweeps=sweeps)
    controller = StudyController(services, immediately, page, page)
    controller.edited_views = []
    page.job_edited.connect(controller.edited_views.append)
    controller.notifications = immediately.notifications
    return controller


def press(part, text):
    (button,) = (b for b in part.findChildren(Button) if b.text().startswith(text))
    QTest.mouseClick(button, LEFT_BUTTON)


def test_the_gallery_starts_the_chosen_study(controller, page, studies, qtbot):
    show_jobs(page, tuple(view for view in ALL_JOBS if view not in LR_JOBS))
    controller.choose()
    dialog = controller.dialog
    names = [study.name for study in dialog.model.rows]
    assert names == FOUR
    assert find_button(dialog, "Start 20 jobs").text() == "Start 20 jobs"
    dialog.view.selectRow(names.index("split"))
    find_only(SegmentedControl, dialog).choose(FormName.FULL.value)
    dialog._update_texts()
    with qtbot.waitSignal(controller.study_queued) as signal:
        press(dialog, "Start")
    assert studies.starts == [("split", FormName.FULL, ())]
    assert signal.args[0].tag == LR
    assert controller.notifications == ["Queued 2 jobs of a study"]
    assert controller.dialog is None
    assert controller.edited_views == list(LR_JOBS[:2])
    assert page.open_sweep_tag == LR


def test_a_study_that_cannot_start_says_why_in_the_dialog(controller, studies):
    controller.choose()
    studies.refusal = "The disk is full."
    dialog = controller.dialog
    press(dialog, "Start")
    assert "The disk is full. Free some space." in visible_texts(dialog)
    assert find_button(dialog, "Start 20 jobs").text() == "Start 20 jobs"
    assert find_button(dialog, "Start 20 jobs").isEnabled()


def test_a_study_file_of_the_user_joins_the_list(controller, studies, monkeypatch):
    monkeypatch.setattr(QFileDialog, "getOpenFileName", lambda *_: ("/home/ann/mine.toml", ""))
    controller.choose()
    dialog = controller.dialog
    press(dialog, "Open study file")
    assert dialog.model.rowCount() == 5
    assert dialog.view.currentIndex().row() == 0
    studies.refusal = "line 3: expected “=”."
    press(dialog, "Open study file")
    assert "line 3: expected “=”." in visible_texts(dialog)


def test_an_open_study_shows_its_table_and_another_sweep_its_jobs(controller, page, studies):
    show_jobs(page, ALL_JOBS)
    page.open_sweep(LR)
    pane = page.sweep
    assert pane.study.isVisible()
    assert not pane.view.isVisible()
    model = pane.study.model
    texts = [str(model.index(2, n).data()) for n in range(model.columnCount())]
    assert texts == [
        *("downpour, 12 nodes", "3 of 3", "1.90 ± 0.55", "0.52 to 3.28", "0.80", "2.99 ± 0.00")
    ]
    find_only(SegmentedControl, pane)._group.button(1).click()
    assert pane.view.isVisible()
    page.open_sweep(LONG)
    assert not pane.study.isVisible()
    assert not find_only(SegmentedControl, pane).isVisible()


def test_an_open_search_shows_its_trials_and_its_best_values_begin_a_job(
    controller, page, studies, searches
):
    studies.table_of.clear()
    searches[LR] = search_result(27)
    cloned_ids = []
    page.job_actions.add_handler(CLONE, cloned_ids.append)
    show_jobs(page, ALL_JOBS)
    page.open_sweep(LR)
    view = page.sweep.search
    assert view.isVisible()
    assert not page.sweep.view.isVisible()
    best = searches[LR].best
    assert f"Trial {best.number}: validation AP {best.value:.3f}, with {best.message}" in (
        visible_texts(view)
    )
    press(view, "Use these values")
    assert cloned_ids == [best.job]
    page.open_sweep(LONG)
    assert not view.isVisible()
    assert page.sweep.view.isVisible()


def test_a_search_without_a_journal_shows_its_trials_and_the_reason(controller, page, searches):
    searches[LR] = replace(search_result(3), error="The journal is damaged: line <script>.")
    show_jobs(page, ALL_JOBS)
    page.open_sweep(LR)
    texts = visible_texts(page.sweep.search)
    assert any(text.endswith("The journal is damaged: line <script>.") for text in texts)


@pytest.mark.parametrize(
    ("count", "importance"),
    [
        (0, "Finished trials that the importance still needs: 8."),
        (1, "Finished trials that the importance still needs: 7."),
        (27, "Importance: Learning rate 83%, Batch size, per process 17%."),
    ],
)
def test_every_plot_of_a_search_can_be_drawn(controller, page, searches, count, importance):
    searches[LR] = search_result(count)
    show_jobs(page, ALL_JOBS)
    page.open_sweep(LR)
    view = page.sweep.search
    (plot,), (bars,) = view.findChildren(TrialPlot), view.findChildren(ImportanceBars)
    assert find_button(view, "Use these values").isEnabled() is bool(count)
    combo = find_only(ComboBox, view)
    keys = [combo.itemData(number) for number in range(combo.count())]
    assert keys == ["history", "optimizer.lr", "batch_size"]
    pictures = set()
    for key in keys:
        combo.choose(key)
        combo.currentIndexChanged.emit(combo.currentIndex())
        # Its bytes are gone with the image.
        image = plot.grab().toImage()
        pictures.add(bytes(image.constBits()))
        assert plot.accessibleDescription() == f"{count} trials"
    assert len(pictures) == (3 if count else 1)
    assert bars.accessibleDescription() == importance
    assert not bars.grab().isNull()


def test_the_table_is_read_again_when_a_job_finishes_and_not_before(controller, page, studies):
    show_jobs(page, ALL_JOBS)
    page.open_sweep(LR)
    page.repaint_slots((0,))
    assert studies.read == [LR]
    studies.table_of[LR] = split()
    finished_views = tuple(
        view if view.state.is_over else replace_fields(view, state=JobState.FINISHED)
        for view in LR_JOBS
    )
    show_jobs(page, (*ALL_JOBS[: -len(LR_JOBS) - len(LONG_JOBS) - 3], *finished_views))
    assert studies.read == [LR, LR]
    assert page.sweep.study.table == split()


def test_resume_and_export_act_on_the_open_study(
    controller, page, studies, resumed_tags, monkeypatch
):
    show_jobs(page, ALL_JOBS)
    page.open_sweep(LR)
    result = page.sweep.study
    assert not find_button(result, "Resume study").isEnabled(), "two jobs still run"
    result.show_actions(is_idle=True, is_finished=False)
    press(result, "Resume study")
    assert resumed_tags == [("resume", LR)]
    monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_: ("/tmp/t.csv", ""))
    press(result, "Save table")
    assert studies.exports == [(LR, "t.csv", True)]
    assert controller.notifications[-1] == "Saved t.csv"


def test_a_new_study_is_opened_when_its_row_is_known(controller, page):
    other_views = tuple(view for view in ALL_JOBS if view not in LR_JOBS)
    show_jobs(page, other_views)
    page.open_new_sweep(LR, LR_JOBS)
    assert page.open_sweep_tag == LR


def test_the_plot_describes_its_points_to_a_screen_reader(controller, page):
    show_jobs(page, ALL_JOBS)
    page.open_sweep(LR)
    plot = find_only(StudyPlot, page.sweep.study)
    assert (
        "downpour, 12 nodes: 1.90 ± 0.55; dc-asgd, 4 nodes: 0.00 ± 0.08"
        in plot.accessibleDescription()
    )
    assert plot.as_picture().title == "Epoch time by workers"
    assert plot.as_picture().png().startswith(b"\x89PNG")


ROOT = Path(__file__).parents[3]
_DRAW = """
import main
from tests.pictures.screens.studies import split
open("study.png", "wb").write(main.draw_study(split(), "png"))
"""


@pytest.mark.parametrize("table", [epoch_time, split])
@pytest.mark.parametrize(
    ("suffix", "magic"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")]
)
def test_a_study_is_drawn_in_each_format(qtbot, table, suffix, magic):
    assert draw(table(), suffix).startswith(magic)


def test_the_command_line_draws_without_a_display(tmp_path):
    environment = {k: v for k, v in os.environ.items() if k not in ("QT_QPA_PLATFORM", "DISPLAY")}
    environment["PYTHONPATH"] = str(ROOT)
    subprocess.run([sys.executable, "-c", _DRAW], cwd=tmp_path, env=environment, check=True)
    assert (tmp_path / "study.png").read_bytes().startswith(b"\x89PNG")
