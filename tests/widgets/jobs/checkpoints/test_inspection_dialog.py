"""The dialog “Look inside”: its requests, its content, and the effect of a late answer."""

import base64
from dataclasses import replace

import numpy
import pytest
from PySide6.QtCore import QPoint
from PySide6.QtWidgets import QApplication

from app.jobs.checkpoint_controllers import InspectionController
from backend.base.errors import BackendError
from backend.records.jobs.checkpoint import Checkpoint
from backend.records.library.inspection import (
    ActivationRow,
    CheckpointInspection,
    SaliencyMap,
    TensorValues,
    WeightRow,
)
from backend.records.library.preview import ChannelStatistics, Histogram, SamplePart
from backend.training.tools.thumbnails import png
from tests.windows import find_button, find_only, show_widget
from widgets.common import formats
from widgets.common.buttons import SegmentedControl
from widgets.common.dialog import TaskStatus
from widgets.common.fields import SpinBox
from widgets.common.labels import Label
from widgets.common.panes import PageStack
from widgets.jobs.actions import job_actions
from widgets.jobs.actions.job_actions import JobActions
from widgets.jobs.checkpoints.inspection_dialog import InspectionDialog, InspectionRequest

NAMES = ("epoch-3", "epoch-2")
CHECKPOINTS = [Checkpoint(n, 1, 1, 1, 0, 0, "", "", "2026-11-20T14:02:00Z") for n in NAMES]


def values(std, zeros=0):
    histogram = Histogram(-1.0, 0.5, (1, 5, 3, 1))
    return TensorValues(10, zeros, ChannelStatistics("", 0, 0.1, std, -1.0, 1.0, 0, 0, histogram))


def image(side=8):
    grey = numpy.linspace(0, 255, side * side).astype(numpy.uint8).reshape(side, side, 1)
    text = base64.b64encode(png(grey)).decode()
    return SamplePart("[0]", (side, side), "float32", "image", png=text)


INSPECTION = CheckpointInspection(
    7,
    "3",
    (image(),),
    2,
    0.5,
    (
        WeightRow("stem.weight", (4, 1, 3, 3), True, values(0.2), values(0.01), values(0.003)),
        WeightRow("head.bias", (10,), False, values(0.4)),
    ),
    (ActivationRow("stem", "Conv2d", (1, 4, 8, 8), values(0.3, 5), (image(),) * 4),),
    (SaliencyMap("Input gradient", image()), SaliencyMap("Grad-CAM of stem", image())),
)


@pytest.fixture
def dialog(qtbot):
    return show_widget(qtbot, InspectionDialog(CHECKPOINTS, "epoch-3"), 860, 620)


def cells(rows, column):
    return [rows.model.index(row, column).data() for row in range(rows.model.rowCount())]


def visible_labels(widget):
    return [label.text() for label in widget.findChildren(Label) if label.isVisible()]


def test_the_dialog_requests_two_checkpoints_and_a_sample(dialog, qtbot):
    dialog._other_checkpoint.choose("epoch-2")
    find_only(SpinBox, dialog).setValue(7)
    with qtbot.waitSignal(dialog.requested) as request:
        find_button(dialog, "Show").click()
    assert request.args == [InspectionRequest("epoch-3", "epoch-2", 7)]
    assert not find_button(dialog, "Show").isEnabled()
    assert find_only(TaskStatus, dialog).progress.isVisible()
    dialog.show_inspection(INSPECTION)
    assert find_button(dialog, "Show").isEnabled()
    assert not find_only(TaskStatus, dialog).progress.isVisible()


def test_a_result_and_progress_move_no_button(dialog):
    def positions():
        QApplication.processEvents()
        parts = (
            find_button(dialog, "Show"),
            find_only(SegmentedControl, dialog),
            find_only(PageStack, dialog),
        )
        return [part.mapTo(dialog, QPoint(0, 0)) for part in parts], dialog.height()

    previous_positions = positions()
    dialog.request_inspection()
    assert positions() == previous_positions
    dialog.show_inspection(INSPECTION)
    assert positions() == previous_positions
    dialog.show_error("There is no sample 5000. Samples are numbered from 0 to 359.")
    assert positions() == previous_positions


@pytest.mark.parametrize("depth", range(1, 7))
@pytest.mark.parametrize("width", [700, 952, 1040])
def test_a_name_is_cut_only_when_no_other_column_is_left(dialog, depth, width):
    name = ".".join(["backbone", "layer1", "0", "downsample", "0", "weight"][:depth])
    rows = tuple(replace(INSPECTION.weights[0], name=name) for _ in range(3))
    dialog.resize(width, 620)
    dialog.show_inspection(replace(INSPECTION, weights=rows))
    QApplication.processEvents()
    table = dialog._weights.table
    is_wide_enough = table.columnWidth(0) >= table.sizeHintForColumn(0)
    assert is_wide_enough or table.isColumnHidden(1)


def test_weights_are_listed_with_their_change_and_gradient(dialog):
    dialog.show_inspection(INSPECTION)
    assert cells(dialog._weights, 0) == ["stem.weight", "head.bias"]
    assert cells(dialog._weights, 3) == ["0.0100", "–"]
    assert dialog._weights.table.isColumnHidden(5), "there is no NaN"
    labels = visible_labels(dialog._weights)
    assert [text for text in labels if text in ("Weights", "Change", "Gradient of one batch")] == [
        *("Weights", "Change", "Gradient of one batch")
    ]
    dialog._weights.table.selectRow(1)
    assert "Change" not in visible_labels(dialog._weights)


def test_activations_and_saliency_are_shown_as_pictures(dialog):
    dialog.show_inspection(INSPECTION)
    find_only(SegmentedControl, dialog).choose("activations")
    dialog._show_tab("activations")
    assert cells(dialog._activations, 5) == [formats.percent(0.5)]
    assert any(
        f"{formats.percent(0.5)} zeros" in text for text in visible_labels(dialog._activations)
    )
    dialog._show_tab("saliency")
    assert visible_labels(find_only(PageStack, dialog).currentWidget()) == [
        "Sample 7, target 3",
        "Input gradient for output 2",
        "Grad-CAM of stem for output 2",
    ]


def test_a_refusal_is_one_sentence_and_leaves_the_earlier_result(dialog):
    dialog.request_inspection()
    dialog.show_error("The weights in a.pt do not belong to this model.")
    assert "The weights in a.pt do not belong to this model." in visible_labels(dialog)
    dialog.show_inspection(INSPECTION)
    dialog.show_error("There is no sample 5000.")
    assert cells(dialog._weights, 0) == ["stem.weight", "head.bias"]


class Inspection:
    """In place of the service: the answer is `FOUND`, or an error for a sample beyond the end."""

    def __init__(self):
        self.arguments = []

    def checkpoint(self, *arguments, progress):
        self.arguments.append(arguments)
        if arguments[-1]:
            raise BackendError("There is no sample 1.", "They are numbered from 0.")
        return INSPECTION


def test_the_button_of_a_job_opens_the_dialog_with_the_chosen_checkpoint(qtbot, immediately):
    actions, service = JobActions(), Inspection()
    controller = InspectionController(service, immediately, actions, None)
    actions.ask(job_actions.INSPECT_CHECKPOINT, "job-1", "epoch-2", CHECKPOINTS)
    dialog = controller.dialog
    qtbot.addWidget(dialog)
    assert service.arguments == [("job-1", "epoch-2", "", 0)]
    assert cells(dialog._weights, 0) == ["stem.weight", "head.bias"]
    find_only(SpinBox, dialog).setValue(1)
    dialog.request_inspection()
    assert (
        "There is no sample 1. They are numbered from 0."
        in find_only(TaskStatus, dialog).message.text()
    )
    dialog.reject()
    assert controller.dialog is None
