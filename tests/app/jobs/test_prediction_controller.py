"""“Try it” in the window: the service is asked in the background, and its answer shown."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from PySide6.QtWidgets import QFileDialog, QWidget

from app.jobs.checkpoint_controllers import PredictionController
from backend.base.errors import BackendError
from tests.pictures.screens import tries
from tests.widgets.jobs.detail.test_job_detail import LIVE, checkpoint
from tests.windows import find_button, find_only
from widgets.common.dialog import TaskStatus
from widgets.jobs.actions.job_actions import JobActions
from widgets.jobs.checkpoints.prediction_view import PredictionView

CHECKPOINTS = (checkpoint(1), checkpoint(2))


class Predictions:
    """Answers, or refuses."""

    def __init__(self):
        self.requests, self.tables, self.error = [], [], None

    def predict(self, job_id, name, inputs, progress):
        self.requests.append((job_id, name, inputs.files))
        progress.step(1, 2, "Computing predictions…")
        if self.error is not None:
            raise self.error
        return tries.photo_prediction()

    def write_table(self, prediction, path):
        self.tables.append((prediction, path))
        return path


@pytest.fixture
def predictions():
    return Predictions()


@pytest.fixture
def controller(qtbot, predictions, immediately):
    window = QWidget()
    window.resize(1200, 800)
    qtbot.addWidget(window)
    library = SimpleNamespace(list=lambda kind: [SimpleNamespace(reference=f"{kind.value}@1")])
    services = SimpleNamespace(predictions=predictions, library=library)
    controller = PredictionController(services, immediately, JobActions(), window)
    controller.open_dialog(LIVE, CHECKPOINTS, CHECKPOINTS[1].name)
    yield controller
    if controller.dialog is not None:
        controller.dialog.reject()


def test_a_file_is_answered_in_the_dialog(controller, predictions):
    dialog = controller.dialog
    dialog.try_files(("/home/three.png",))
    assert predictions.requests == [(LIVE.id, CHECKPOINTS[1].name, ("/home/three.png",))]
    assert len(dialog.findChildren(PredictionView)) == 1
    assert dialog._dataset.key() == "dataset@1"


def test_a_refusal_is_a_sentence_in_the_dialog_and_it_can_be_tried_again(controller, predictions):
    predictions.error = BackendError("The loader has no method read.", "Add one.")
    dialog = controller.dialog
    dialog.try_files(("/home/three.png",))
    assert find_only(TaskStatus, dialog).message.text() == "The loader has no method read. Add one."
    assert find_button(dialog, "Try it").isEnabled()


def test_all_predictions_are_saved_where_the_user_says(controller, predictions, monkeypatch):
    dialog = controller.dialog
    assert not find_button(dialog, "Save predictions…").isEnabled()
    dialog.try_files(("/home/three.png",))
    monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_, **__: ("/home/all.csv", ""))
    find_button(dialog, "Save predictions…").click()
    assert predictions.tables == [(tries.photo_prediction(), Path("/home/all.csv"))]
    assert find_only(TaskStatus, dialog).message.text() == "Saved to /home/all.csv"
