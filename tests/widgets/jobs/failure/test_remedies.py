"""A failed job offers what helps against its cause, and never first what fails again."""

from dataclasses import replace

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication, QWidget

from backend.records.jobs.placement import Placement
from backend.records.jobs.state import JobState
from backend.records.jobs.status import DIVERGED, NOT_A_NUMBER, STANDSTILL, Alarm, EvidenceLine
from tests.asks import expect_request
from tests.job_views import replace_fields
from tests.widgets.jobs.detail.test_job_detail import CONFIG, FAILED, checkpoint
from tests.widgets.nodes import samples
from tests.windows import find_button, find_only, open_tab, visible_texts, visible_window
from widgets.common.buttons import Button
from widgets.common.key_value_row import KeyValue, KeyValueRow
from widgets.common.theme import PAGE_MARGIN
from widgets.jobs.actions import job_actions
from widgets.jobs.actions.job_actions import JobActions
from widgets.jobs.actions.job_questions import MoveQuestion
from widgets.jobs.detail.job_detail import JobDetail
from widgets.jobs.failure.remedies import cause_of, remedies
from widgets.jobs.placement.placement_picker import PlacementPicker

NODES = {name: samples.state(name, "ours", 2) for name in ("gpu06", "gpu07")}
ON_GPUS = replace(
    CONFIG,
    batch_size=32,
    placement=(
        Placement("gpu06", gpus=("GPU-0", "GPU-1")),
        Placement("gpu07", gpus=("GPU-0", "GPU-1")),
    ),
)


def failed(cause, rank=3, config=ON_GPUS):
    error = replace(FAILED.error, cause=cause, rank=rank, node="gpu07")
    return replace_fields(FAILED, error=error, step=244, total_steps=900, config=config)


@pytest.fixture
def detail(qtbot):
    detail = JobDetail(JobActions())
    qtbot.addWidget(detail)
    detail.resize(900, 700)
    detail.show()
    detail.show_nodes(tuple(NODES.values()))
    return detail


def offered_labels(detail):
    """The buttons of the result and of the header, as they are read."""
    rows = (detail.failure._special_buttons, detail.failure._usual_buttons)
    widgets = [acts.itemAt(n).widget() for acts in rows for n in range(acts.count())]
    labels = [b.text() for b in widgets if isinstance(b, Button) and b.isVisible()]
    head = [detail.header.main_button.text()] if detail.header.main_button.isVisible() else []
    return labels[:-1], head


@pytest.mark.parametrize(
    ("cause", "checkpoints", "labels"),
    [
        (
            "gpu_memory",
            (checkpoint(30),),
            ["Resume with batch size 16", "Choose GPUs…", "Clone and change"],
        ),
        (
            "gpu_ecc",
            (checkpoint(30),),
            ["Resume without GPU 1 of gpu07", "Choose GPUs…", "Clone and change"],
        ),
        ("user_code", (checkpoint(30),), ["Clone and change", "Resume"]),
        ("", (checkpoint(30),), ["Resume", "Clone and change"]),
        ("", None, ["Resume", "Clone and change"]),
        ("gpu_memory", (), ["Clone with batch size 16", "Clone and change", "Start over"]),
        ("gpu_ecc", (), ["Clone and change", "Start over"]),
        (
            "not_a_number",
            (checkpoint(30),),
            ["Resume with learning rate 0.01", "Clone with gradient clipping", "Resume"],
        ),
        (
            "diverged",
            (checkpoint(30),),
            ["Resume with learning rate 0.01", "Clone with gradient clipping", "Resume"],
        ),
        (
            "not_a_number",
            (),
            ["Clone with learning rate 0.01", "Clone with gradient clipping", "Start over"],
        ),
    ],
)
def test_the_best_remedy_is_first_and_the_header_has_no_second_resume(
    detail, cause, checkpoints, labels
):
    detail.open_job(failed(cause))
    if checkpoints is not None:
        detail.show_checkpoints("a", checkpoints)
    detail.show_node_histories({}, {}, 0.0)
    assert offered_labels(detail) == (labels, [])
    assert detail.failure.first_button.property("kind") == "primary"


def test_each_remedy_is_one_click(detail, qtbot):
    detail.open_job(failed("gpu_memory"))
    detail.show_checkpoints("a", (checkpoint(30),))
    with expect_request(detail.job_actions, job_actions.RESUME_WITH) as requested:
        qtbot.mouseClick(
            find_button(detail.failure, "Resume with batch size 16"), Qt.MouseButton.LeftButton
        )
    assert requested.args == ["a", {"batch_size": 16}]
    detail.show_view(failed("not_a_number"))
    with expect_request(detail.job_actions, job_actions.RESUME_WITH) as requested:
        qtbot.mouseClick(
            find_button(detail.failure, "Resume with learning rate 0.01"), Qt.MouseButton.LeftButton
        )
    assert requested.args == ["a", {"optimizer.lr": 0.01}]
    with expect_request(detail.job_actions, job_actions.CLONE_WITH) as requested:
        qtbot.mouseClick(
            find_button(detail.failure, "Clone with gradient clipping"), Qt.MouseButton.LeftButton
        )
    assert requested.args == ["a", {"gradient_norm": 1.0}]
    detail.show_view(failed("gpu_ecc"))
    detail.show_node_histories({}, {}, 0.0)
    with expect_request(detail.job_actions, job_actions.RESUME_ON_NODES) as requested:
        qtbot.mouseClick(
            find_button(detail.failure, "Resume without GPU 1 of gpu07"), Qt.MouseButton.LeftButton
        )
    placement = [
        {"node": "gpu06", "gpus": ["GPU-0", "GPU-1"]},
        {"node": "gpu07", "gpus": ["GPU-0"]},
    ]
    assert requested.args == ["a", placement]
    qtbot.mouseClick(find_button(detail.failure, "Choose GPUs…"), Qt.MouseButton.LeftButton)
    visible_window(MoveQuestion).reject()


def test_while_a_node_of_the_job_is_offline_other_nodes_are_offered_first(detail, qtbot):
    detail.show_nodes((NODES["gpu06"], samples.offline_node(NODES["gpu07"])))
    detail.open_job(replace_fields(failed(""), state=JobState.LOST, error=None))
    detail.show_checkpoints("a", (checkpoint(30),))
    detail.show_node_histories({}, {}, 0.0)
    assert offered_labels(detail) == (["Choose GPUs…", "Clone and change", "Resume"], [])
    qtbot.mouseClick(find_button(detail.failure, "Choose GPUs…"), Qt.MouseButton.LeftButton)
    node_names = [
        entry["node"] for entry in find_only(PlacementPicker, visible_window(MoveQuestion)).value()
    ]
    assert "gpu07" not in node_names
    visible_window(MoveQuestion).reject()


def test_the_head_has_its_act_on_other_tabs_and_while_a_start_can_be_cancelled(detail):
    detail.open_job(failed(""))
    open_tab(detail, "curves")
    assert detail.header.main_button.isVisible()
    open_tab(detail, "failure")
    assert not detail.header.main_button.isVisible()
    detail.show_starting("a", "Starting…")
    assert (detail.header.main_button.isVisible(), detail.header.main_button.text()) == (
        True,
        "Cancel",
    )


def test_a_batch_of_one_and_the_only_gpu_are_not_made_smaller():
    config = replace(ON_GPUS, batch_size=1, placement=(Placement("gpu07", gpus=("GPU-0",)),))
    checkpoints = (checkpoint(30),)
    assert remedies(failed("gpu_memory", 0, config), checkpoints, NODES).changed_settings == {}
    assert remedies(failed("gpu_ecc", 0, config), checkpoints, NODES).excluded_gpu == ""
    unknown = remedies(failed("gpu_ecc"), checkpoints, {})
    assert (unknown.excluded_gpu, unknown.offers_choice) == ("", True)


@pytest.mark.parametrize(
    ("kind", "traceback", "settings", "cause"),
    [
        (NOT_A_NUMBER, "", {}, "not_a_number"),
        (NOT_A_NUMBER, "", {"stop_on_nan": False}, ""),
        (NOT_A_NUMBER, "Traceback …", {}, ""),
        (DIVERGED, "", {}, ""),
        (DIVERGED, "", {"stop_on_divergence": True}, "diverged"),
        (STANDSTILL, "", {}, ""),
        ("", "", {}, ""),
    ],
)
def test_an_older_record_without_a_cause_has_that_of_the_warning_that_ended_the_job(
    kind, traceback, settings, cause
):
    alarms = (Alarm(kind, 240, "The loss …"),) if kind else ()
    job = replace_fields(failed("", config=replace(ON_GPUS, **settings)), alarms=alarms)
    assert cause_of(replace_fields(job, error=replace(job.error, traceback=traceback))) == cause


def test_without_a_checkpoint_the_changes_are_those_of_a_clone(detail, qtbot):
    detail.open_job(failed("diverged"))
    detail.show_checkpoints("a", ())
    with expect_request(detail.job_actions, job_actions.CLONE_WITH) as requested:
        qtbot.mouseClick(
            find_button(detail.failure, "Clone with learning rate 0.01"), Qt.MouseButton.LeftButton
        )
    assert requested.args == ["a", {"optimizer.lr": 0.01}]


def test_weights_of_which_some_fit_start_the_other_layers_new(detail, qtbot):
    view = failed("weights_mismatch")
    remedy = 'To start these with new weights, set start_from_except = ["fc."]; or choose others.'
    detail.open_job(replace_fields(view, error=replace(view.error, remedy=remedy)))
    detail.show_checkpoints("a", ())
    labels, _ = offered_labels(detail)
    assert labels[0] == "Clone with start new layers fc."
    with expect_request(detail.job_actions, job_actions.CLONE_WITH) as requested:
        qtbot.mouseClick(find_button(detail.failure, labels[0]), Qt.MouseButton.LeftButton)
    assert requested.args == ["a", {"start_from_except": ["fc."]}]


@pytest.mark.parametrize("cause", ["not_a_number", "diverged"])
@pytest.mark.parametrize("checkpoints", [(), (checkpoint(30),), None])
def test_no_sentence_names_a_remedy_without_a_button(detail, cause, checkpoints):
    view = failed(cause)
    remedy = "Resume with a lower learning rate, or clone the job with gradient clipping."
    detail.open_job(replace_fields(view, error=replace(view.error, remedy=remedy)))
    if checkpoints is not None:
        detail.show_checkpoints("a", checkpoints)
    assert remedy not in visible_texts(detail.failure)


def test_a_sentence_stands_once(detail):
    view = failed("not_a_number")
    expected_text = "The loss of rank 3 became NaN at step 61."
    error = replace(view.error, message=f"{expected_text} Its input was finite.")
    for message in (expected_text, error.message, ""):
        detail.open_job(replace_fields(view, error=error, message=message))
        texts = [text for text in visible_texts(detail.failure) if expected_text in text]
        assert texts == [error.message]


def test_the_lost_work_counts_from_the_checkpoint_that_resume_takes(detail):
    view = failed("not_a_number")
    detail.open_job(replace_fields(view, error=replace(view.error, sound_step=25)))
    detail.show_checkpoints("a", (checkpoint(20), checkpoint(243)))
    assert KeyValue("Lost", "224 steps") in find_only(KeyValueRow, detail.failure).items


def test_clipping_is_offered_once():
    clipped = replace(ON_GPUS, gradient_norm=1.0)
    assert (
        remedies(failed("not_a_number", config=clipped), (checkpoint(30),), NODES).clone_settings
        == {}
    )


@pytest.mark.parametrize(
    ("checkpoints", "steps_text"),
    [
        ((checkpoint(20), checkpoint(30)), "214 steps"),
        ((checkpoint(243),), "1 step"),
        ((), "244 steps"),
    ],
)
def test_the_lost_work_is_shown_in_steps(detail, checkpoints, steps_text):
    detail.open_job(failed(""))
    figures = find_only(KeyValueRow, detail.failure)
    assert "Lost" not in [figure.caption for figure in figures.items], "not known yet"
    detail.show_checkpoints("a", checkpoints)
    assert KeyValue("Lost", steps_text) in figures.items


@pytest.mark.parametrize("cause", ["gpu_memory", "gpu_ecc", "user_code", "not_a_number", ""])
@pytest.mark.parametrize("width", [560, 700, 760, 820, 1000])
def test_on_a_page_of_any_width_no_remedy_is_cut(detail, cause, width):
    detail.resize(width, 700)
    detail.open_job(failed(cause))
    detail.show_checkpoints("a", (checkpoint(30),))
    detail.show_node_histories({}, {}, 0.0)
    QApplication.processEvents()
    tab = detail.failure
    buttons = (
        tab._change_button,
        tab._exclude_button,
        find_button(tab, "Choose GPUs…"),
        find_button(tab, "Resume"),
        tab._clone_button,
        find_button(tab, "Log of rank 3"),
    )
    for button in filter(QWidget.isVisible, buttons):
        right = button.mapTo(tab, button.rect().bottomRight()).x()
        assert right < tab.width() - PAGE_MARGIN, button.text()


@pytest.mark.parametrize(
    ("cause", "checkpoints", "note"),
    [
        (
            "not_a_number",
            (checkpoint(5), checkpoint(30)),
            "Resume continues from epoch 3, step 30.",
        ),
        ("diverged", (checkpoint(30),), "Resume continues from epoch 3, step 30."),
        ("not_a_number", (), "There is no checkpoint. “Start over” begins"),
        ("not_a_number", None, "Resume continues from the newest checkpoint."),
        ("gpu_ecc", (checkpoint(30),), "Resume continues from epoch 3, step 30."),
        ("", (checkpoint(30),), "Resume continues from epoch 3, step 30."),
    ],
)
def test_the_saved_checkpoint_is_named_below_the_buttons(detail, cause, checkpoints, note):
    detail.open_job(failed(cause))
    if checkpoints is not None:
        detail.show_checkpoints("a", checkpoints)
    assert detail.failure._resume_note.text().startswith(note)


def lacking(cause, traceback="", evidence=()):
    lines = tuple(EvidenceLine("rank-3.log", 9, text) for text in evidence)
    error = replace(FAILED.error, cause=cause, traceback=traceback, evidence=lines)
    return replace_fields(FAILED, error=error)


CAUGHT = """Traceback (most recent call last):
  File "bks_model.py", line 2, in <module>
ModuleNotFoundError: No module named 'orjson'

During handling of the above exception, another exception occurred:
ValueError: bad"""


@pytest.mark.parametrize(
    ("view", "module"),
    [
        (lacking("user_code", "…\nModuleNotFoundError: No module named 'PIL'"), "PIL"),
        (lacking("", "…\nModuleNotFoundError: No module named 'sklearn.svm'"), "sklearn"),
        (lacking("module_missing", "", ["x", "ImportError: No module named cv2"]), "cv2"),
        (lacking("module_missing", "…\nModuleNotFoundError: No module named 'a_b'\n"), "a_b"),
        (lacking("user_code", CAUGHT), ""),
        (lacking("gpu_memory", "ModuleNotFoundError: No module named 'PIL'"), ""),
        (lacking("", "ValueError: x"), ""),
        (lacking("unknown", "", ["No module named 'PIL'"]), ""),
        (replace_fields(FAILED, error=None), ""),
    ],
)
def test_the_module_without_which_a_job_failed_is_known(view, module):
    assert remedies(view, None, {}).module == module


@pytest.mark.parametrize(("module", "package"), [("PIL", "Pillow"), ("my_lib", "my_lib")])
def test_a_missing_package_is_installed_first_and_then_the_job_resumes(
    detail, qtbot, module, package
):
    view = lacking("module_missing", f"ModuleNotFoundError: No module named '{module}'")
    detail.open_job(view)
    detail.show_checkpoints(view.id, (checkpoint(30),))
    first = detail.failure.first_button
    assert first.text() == f"Install {package}…"
    with qtbot.waitSignal(detail.failure.install_requested) as signal:
        qtbot.mouseClick(first, Qt.MouseButton.LeftButton)
    assert signal.args == [module]
    detail.failure.show_installed(view.id, module)
    assert detail.failure.first_button.text() == "Resume"


def test_resume_continues_from_before_the_loss_rose(detail):
    view = failed("diverged")
    detail.open_job(replace_fields(view, error=replace(view.error, sound_step=12)))
    detail.show_checkpoints("a", (checkpoint(5), checkpoint(30)))
    note = detail.failure._resume_note.text()
    assert note.startswith("Resume continues from the last good checkpoint: ")
    assert note.endswith("step 5.")
