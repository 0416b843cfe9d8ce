"""A checkpoint is tried: what is asked for, and how the answers are read."""

from __future__ import annotations

from dataclasses import replace

import pytest
from PySide6.QtCore import QMimeData, QPointF, Qt, QUrl
from PySide6.QtGui import QDragEnterEvent, QDropEvent
from PySide6.QtWidgets import QTableView

from backend.records.jobs.prediction import CLASSES, VALUES, Guess, PredictedSample, Prediction
from backend.records.library.preview import SamplePart, SamplePreview
from tests.pictures.screens import tries
from tests.widgets.jobs.detail.test_job_detail import LIVE, checkpoint
from tests.windows import find_button, find_only, shows_text, visible_texts
from widgets.common import theme
from widgets.common.buttons import SegmentedControl
from widgets.common.dialog import TaskStatus
from widgets.common.fields import LineEdit
from widgets.jobs.checkpoints.confusion_matrix import ConfusionMatrix
from widgets.jobs.checkpoints.precision_recall import ColourLegend, PrecisionRecall
from widgets.jobs.checkpoints.prediction_view import GuessBars, PredictionView, SampleAnswer
from widgets.jobs.checkpoints.try_dialog import TryDialog
from widgets.library.sample_grid import SampleGrid

CHECKPOINTS = (checkpoint(1), checkpoint(2))


@pytest.fixture
def dialog(qtbot, theme_manager):
    dialog = TryDialog(LIVE, CHECKPOINTS, CHECKPOINTS[1].name, "/home")
    qtbot.addWidget(dialog)
    dialog.show()
    dialog.requests = []
    dialog.try_requested.connect(dialog.requests.append)
    return dialog


def drop(dialog, *paths):
    data = QMimeData()
    data.setUrls([QUrl.fromLocalFile(path) for path in paths])
    copy, left_button, no_modifier = (
        Qt.DropAction.CopyAction,
        Qt.MouseButton.LeftButton,
        Qt.KeyboardModifier.NoModifier,
    )
    entering = QDragEnterEvent(dialog.rect().center(), copy, data, left_button, no_modifier)
    dialog.dragEnterEvent(entering)
    assert entering.isAccepted()
    dialog.dropEvent(
        QDropEvent(QPointF(dialog.rect().center()), copy, data, left_button, no_modifier)
    )


def prediction_views(dialog):
    return dialog.findChildren(PredictionView)


def test_a_dropped_file_is_tried_at_once_on_the_chosen_checkpoint(dialog):
    assert not find_button(dialog, "Try it").isEnabled()
    drop(dialog, "/home/three.png")
    (request,) = dialog.requests
    assert (request.job_id, request.checkpoints) == (LIVE.id, (CHECKPOINTS[1].name,))
    assert request.prediction_input.files == ("/home/three.png",)
    dialog.show_answers(request, (tries.photo_prediction(),))
    (view,) = prediction_views(dialog)
    assert (
        find_only(GuessBars, find_only(SampleAnswer, view))
        .accessibleDescription()
        .startswith("3: 96\N{NO-BREAK SPACE}%, ")
    )
    assert "a three.png" in visible_texts(find_only(SampleAnswer, view))
    assert view._grid.parent() is None, "there is nothing to choose from"
    assert find_only(SegmentedControl, view).isHidden()


def test_nothing_is_tried_twice_at_a_time(dialog):
    drop(dialog, "/home/three.png")
    drop(dialog, "/home/four.png")
    assert len(dialog.requests) == 1


def test_some_samples_of_a_set_are_asked_for(dialog):
    find_only(SegmentedControl, dialog).choose("training")
    find_only(SegmentedControl, dialog).key_chosen.emit("training")
    find_only(LineEdit, dialog).setText("3, 10-20")
    find_button(dialog, "Try it").click()
    (request,) = dialog.requests
    assert (request.prediction_input.split, request.prediction_input.samples) == (
        "training",
        "3, 10-20",
    )
    assert (request.prediction_input.dataset, request.prediction_input.files) == ("", ())


def test_samples_that_are_no_numbers_are_refused_in_the_dialog(dialog):
    find_only(SegmentedControl, dialog).choose("validation")
    dialog._update_controls()
    find_only(LineEdit, dialog).setText("ten")
    find_button(dialog, "Try it").click()
    assert dialog.requests == []
    assert "“ten” is no number of a sample" in find_only(TaskStatus, dialog).message.text()


def test_another_dataset_is_tried_through_a_loader(dialog):
    find_only(SegmentedControl, dialog).choose("other")
    dialog._update_controls()
    assert not find_button(dialog, "Try it").isEnabled(), "none is known yet"
    dialog.show_library(["plankton@2"], ["nets@1"])
    dialog._loader.choose("nets@1")
    find_button(dialog, "Try it").click()
    assert dialog.requests[0].prediction_input.dataset == "plankton@2"
    assert dialog.requests[0].prediction_input.loader == "nets@1"


def test_two_checkpoints_answer_next_to_each_other(dialog):
    drop(dialog, "/home/three.png")
    dialog.show_answers(dialog.requests[0], (tries.photo_prediction(),))
    dialog._other_checkpoint.choose(CHECKPOINTS[0].name)
    request = dialog.requests[1]
    assert request.checkpoints == (CHECKPOINTS[1].name, CHECKPOINTS[0].name)
    assert request.prediction_input == dialog.requests[0].prediction_input
    dialog.show_answers(request, (tries.set_prediction(), tries.set_prediction()))
    titles = [view.layout().itemAt(0).widget().text() for view in prediction_views(dialog)[-2:]]
    assert len(set(titles)) == 2


def test_a_cell_of_the_matrix_shows_its_samples(dialog):
    view = PredictionView("", tries.set_prediction(), False)
    prediction = tries.set_prediction()
    mistake = prediction.mistakes[0]
    find_only(ConfusionMatrix, view).cell_chosen.emit(
        int(mistake.sample.target), int(mistake.prediction)
    )
    grid = find_only(SampleGrid, view).samples
    assert grid
    assert {sample.target for sample in grid} == {
        f"{mistake.sample.target}\n→ {mistake.prediction}"
    }
    assert shows_text(view, f"samples of {mistake.sample.target} predicted as {mistake.prediction}")
    find_only(SegmentedControl, view).key_chosen.emit("best")
    assert len(find_only(SampleGrid, view).samples) == len(prediction.best)


@pytest.mark.parametrize(
    "names",
    [
        ("circle", "square", "triangle"),
        ("0", "1"),
        ("a", "a class with a name that no column has room for"),
        tuple(f"species {n}" for n in range(24)),
    ],
)
def test_each_column_of_the_matrix_has_its_name(qtbot, theme_manager, names):
    matrix = ConfusionMatrix()
    qtbot.addWidget(matrix)
    matrix.show_counts(names, tuple((0,) * len(names) for _ in names))
    matrix.resize(matrix.sizeHint())
    image = matrix.grab().toImage()
    for number in range(len(names)):
        cell = matrix._cell_box(0, number)
        head = image.copy(int(cell.left()), 0, int(cell.width()), int(cell.top()))
        points = [(x, y) for x in range(head.width()) for y in range(head.height())]
        assert any(head.pixelColor(*point) != image.pixelColor(0, 0) for point in points)


def test_a_share_of_zero_percent_has_no_bar(qtbot, theme_manager):
    bars = GuessBars()
    qtbot.addWidget(bars)
    images = []
    for confidence in (0.0, 0.004, 0.01):
        bars.show_guesses((Guess("triangle", confidence),))
        bars.resize(200, bars.height())
        images.append(bars.grab().toImage())
    assert images[0] == images[1]
    assert images[0].copy(0, 0, 150, 24) != images[2].copy(0, 0, 150, 24)


def test_the_matrix_is_walked_by_keys_and_says_each_cell(qtbot, theme_manager):
    view = PredictionView("", tries.set_prediction(), False)
    qtbot.addWidget(view)
    matrix = find_only(ConfusionMatrix, view)
    qtbot.keyClick(matrix, Qt.Key.Key_Down)
    qtbot.keyClick(matrix, Qt.Key.Key_Right)
    counts = tries.set_prediction().confusion
    expected = f"{counts[0][1]} of 36 samples of 0 predicted as 1"
    assert matrix.accessibleDescription() == expected


def test_an_output_that_is_no_class_is_shown_as_its_parts(qtbot, theme_manager):
    part = SamplePart("output", (), "float32", "values", values=(0.25,))
    curve = SamplePart("output.curve", (64,), "float32", "wave", values=(0.0, 1.0, 0.5))
    sample = SamplePreview(4, (), "0.3")
    predicted = PredictedSample(sample, "0.25", output=(part, curve))
    view = PredictionView("", Prediction(VALUES, 1, examples=(predicted,)), False)
    qtbot.addWidget(view)
    view.show()
    labels = [find_only(SampleAnswer, view)._outputs.itemAt(n).widget() for n in range(4)]
    assert labels[0].text() == "Output, float32"
    assert labels[1].text() == "0.250"
    assert labels[3].accessibleName() == "Sketch of output.curve"


def test_a_prediction_without_samples_shows_its_measures(qtbot, theme_manager):
    view = PredictionView("", Prediction(CLASSES, 900, {"validation/loss": 0.5}), False)
    qtbot.addWidget(view)
    view.show()
    assert not find_only(SampleAnswer, view).isVisible()


def test_closing_the_dialog_cancels_the_prediction(dialog, qtbot):
    drop(dialog, "/home/three.png")
    with qtbot.waitSignal(dialog.cancel_requested):
        dialog.reject()


def test_a_detector_shows_its_precision_and_its_boxes_next_to_the_true_ones(qtbot, theme_manager):
    view = PredictionView("", tries.detections(), False)
    qtbot.addWidget(view)
    view.resize(900, 700)
    view.show()
    (curves,) = view.findChildren(PrecisionRecall)
    assert curves.accessibleDescription() == (
        "copepod: AP50 85\N{NO-BREAK SPACE}%, AP75 66\N{NO-BREAK SPACE}%; "
        "egg: AP50 58\N{NO-BREAK SPACE}%, AP75 34\N{NO-BREAK SPACE}%"
    )
    table = view.findChild(QTableView).model()
    assert [table.index(1, column).data() for column in range(4)] == [
        "egg", "9", "58\N{NO-BREAK SPACE}%", "34\N{NO-BREAK SPACE}%",
    ]  # fmt: skip
    legends = {
        keys.accessibleName() for keys in view.findChildren(ColourLegend) if keys.isVisible()
    }
    assert legends == {"Overlap 0.50, Overlap 0.75, copepod, egg", "Target, Prediction"}
    assert not view.findChildren(ConfusionMatrix)


def test_boxes_without_targets_have_no_key_and_no_measures(qtbot, theme_manager):
    prediction = tries.detections()
    examples = tuple(replace(example, truth=()) for example in prediction.examples)
    view = PredictionView("", replace(prediction, detections=(), examples=examples), False)
    qtbot.addWidget(view)
    view.show()
    assert not view.findChildren(PrecisionRecall)
    assert not any(keys.isVisible() for keys in view.findChildren(ColourLegend))


def test_boxes_are_drawn_over_the_picture_in_two_colours(qtbot, theme_manager):
    def pixels(predicted):
        card = SampleAnswer()
        qtbot.addWidget(card)
        card.show_sample(predicted)
        image = card._picture.pixmap().toImage()
        return {image.pixelColor(x, y).name() for x in range(232) for y in range(232)}

    (first, *_) = tries.detections().examples
    colours = pixels(
        replace(first, boxes=tuple(replace(box, confidence=1.0) for box in first.boxes))
    )
    truth, predicted = (theme.current().curve(number).name() for number in (2, 1))
    assert {truth, predicted} <= colours
    assert predicted not in pixels(replace(first, boxes=()))
    assert truth not in pixels(replace(first, truth=()))
