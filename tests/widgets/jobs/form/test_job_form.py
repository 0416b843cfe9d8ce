"""New job on one page: what is typed is a job file, and faults stand at their fields."""

from dataclasses import replace
from itertools import product

import pytest
from PySide6.QtCore import QPoint, QRect, Qt
from PySide6.QtWidgets import QApplication, QWidget

from backend.records.base.validation import ConfigError
from backend.records.jobs.job_file import parse_job
from backend.records.jobs.torch_options import OPTIMIZERS
from backend.records.jobs.view import GPU_CHECK, NODE_CHECK, JobCheck, JobForecast
from backend.records.library.item import Kind, LibraryItem
from backend.records.nodes.entry import NodeAddress, NodeEntry
from backend.records.nodes.partition import Partition, PartitionNode
from backend.records.nodes.reading import (
    Cpu,
    Finding,
    Gpu,
    GpuProcess,
    NodeReading,
    NodeState,
    Presence,
)
from backend.records.slurm.placement import SlurmPlacement
from tests.widgets.nodes import samples
from tests.windows import (
    add_widget,
    all_fields,
    find_only,
    finish_timers,
    job_fields,
    press_start,
    setting_field,
    shows_text,
    side_of,
    start_buttons,
)
from widgets.common.banner import Banner
from widgets.common.cards import Card, PageHeader
from widgets.common.fields import ErrorLine, Field
from widgets.common.theme import PAGE_MARGIN
from widgets.jobs.form.form_layout import Details
from widgets.jobs.form.form_sections import FormSections
from widgets.jobs.form.form_side import FormFoot
from widgets.jobs.form.job_fields import (
    JobDraft,
    Origin,
)
from widgets.jobs.form.job_form import JobForm
from widgets.jobs.form.trial_status import BatchTrial, TrialState
from widgets.jobs.placement.gpu_cells import GpuCells
from widgets.jobs.placement.placement_picker import PlacementPicker

DIGITS = {
    "name": "digits, two workers",
    "model": "digits",
    "dataset": "digits",
    "loader": "digits",
    "epochs": 20,
    "batch_size": 32,
    "optimizer": {"name": "sgd", "lr": 0.05, "momentum": 0.9},
    "schedule": {"name": "cosine", "warmup_epochs": 2},
    "placement": [{"node": "this-computer", "processes": 2}],
}


def item(kind, version=1):
    return LibraryItem(kind, "digits", version, "ab" * 32, 1, 1, "2026-11-20T14:02:00+00:00")


def reading(gpus=()):
    cpu = Cpu("some processor", 8, 10.0, 0.1)
    return NodeReading(
        "this-computer", "lab", 1, cpu, 64 << 30, 1 << 30, 0, 0, "/data", 1, 1, gpus=gpus
    )


def gpu(index, owner=""):
    processes = (GpuProcess(7, owner, 18 << 30, "python"),) if owner else ()
    return Gpu(
        index, f"GPU-{index}", "RTX", 18 << 30 if processes else 0, 24 << 30, processes=processes
    )


@pytest.fixture
def form(qtbot):
    form = add_widget(qtbot, JobForm())
    form.show_choices((item(Kind.MODEL),), (item(Kind.DATASET),), (item(Kind.LOADER),))
    form.show_nodes((NodeState("this-computer", Presence.ONLINE, reading()),))
    return form


@pytest.mark.usefixtures("theme_manager")
def test_the_head_of_the_form_begins_and_ends_where_its_cards_do(form):
    for width in (928, 1040, 1064, 1176, 2240):
        window = QWidget()
        form.setParent(window)
        form.resize(width, 700)
        window.resize(width, 700)
        window.show()
        QApplication.processEvents()
        header, card = form.findChild(PageHeader), find_only(FormSections, form).findChild(Card)
        card_x = card.mapTo(form, QPoint(0, 0)).x()
        header_edges = [header.mapTo(form, QPoint(x, 0)).x() for x in (PAGE_MARGIN, header.width())]
        form.setParent(None)
        window.close()
        assert [card_x, card_x + card.width()] == [header_edges[0], header_edges[1] - PAGE_MARGIN]


def test_a_job_file_shown_and_taken_back_is_the_same_job(form):
    form.show_draft(JobDraft(DIGITS))
    assert parse_job(form.draft().raw).config == parse_job(DIGITS).config


def test_settings_without_a_field_are_kept(form):
    rare = {
        **DIGITS,
        "tags": ["night"],
        "environment": {"MY_SETTING": "1"},
        "checkpoint": {"every_steps": 50, "keep_latest": 3},
        "early_stop": {"metric": "validation/accuracy", "mode": "max", "patience_epochs": 3},
    }
    form.show_draft(JobDraft(rare))
    assert parse_job(form.draft().raw).config == parse_job(rare).config


def test_the_form_of_a_clone_on_an_unknown_node_keeps_the_node(form):
    raw = {**DIGITS, "placement": [{"node": "gpu07", "gpus": ["GPU-a"]}]}
    form.show_draft(JobDraft(raw))
    assert form.draft().raw["placement"] == raw["placement"]


def test_each_optimizer_shows_its_own_settings_and_no_others(form):
    for optimizer in OPTIMIZERS:
        raw = {**DIGITS, "optimizer": {"name": optimizer, "lr": 0.01}}
        if optimizer == "lbfgs":
            raw |= {"strategy": {"name": "sandblaster"}, "schedule": {"name": "constant"}}
        form.show_draft(JobDraft(raw))
        assert parse_job(form.draft().raw).config.optimizer.name == optimizer
        assert parse_job(form.draft().raw).errors == ()


def test_a_change_requests_one_check_after_a_pause(form, qtbot):
    with qtbot.waitSignal(form.check_requested) as signal:
        form.show_draft(JobDraft(DIGITS))
    assert signal.args[0].raw["name"] == "digits, two workers"


def test_a_fault_stands_below_its_field_and_start_says_how_many(form):
    form.show_draft(JobDraft(DIGITS))
    errors = (
        ConfigError("epochs", "epochs: must be between 1 and 100."),
        ConfigError("optimizer.lr", "optimizer.lr: must be a number, not text."),
    )
    form.show_check(JobCheck(errors=errors))
    assert setting_field(form, "epochs").error() == "Epochs must be between 1 and 100."
    assert start_buttons(form).start.text() == "2 problems to fix"
    assert not start_buttons(form).start.isEnabled()


def test_faults_of_the_previous_draft_are_not_shown_for_another(form):
    form.show_check(JobCheck(errors=(ConfigError("model", "model: is missing."),)))
    form.show_draft(JobDraft(DIGITS))
    assert setting_field(form, "model").error() == ""
    assert not start_buttons(form).start.isEnabled(), "it is checked first"


def test_a_fault_without_a_field_is_shown_among_the_checks(form):
    form.show_check(JobCheck(errors=(ConfigError("environment.A B", "environment.A B: no name."),)))
    text = side_of(form).findings.itemAt(0).layout().itemAt(1).widget().text()
    assert text == "Environment variable “A B”: no name."


@pytest.mark.parametrize(
    ("check", "result"), [(GPU_CHECK, "A GPU is in use"), (NODE_CHECK, "A node is offline")]
)
def test_a_job_that_would_wait_is_not_called_ready_to_start(form, check, result):
    form.show_draft(JobDraft(DIGITS))
    free = JobCheck(global_batch=64, learning_rate=0.1)
    form.show_check(replace(free, findings=(Finding(check, False, "It is not free."),)))
    assert {side_of(form).result.text(), find_only(FormFoot, form).result.text()} == {result}
    assert find_only(FormFoot, form).result.color_role() == "warn"
    assert start_buttons(form).queue.isEnabled()
    form.show_check(free)
    assert (side_of(form).result.text(), find_only(FormFoot, form).result.color_role()) == (
        "Ready to start",
        "text",
    )


def test_the_gpu_hours_and_the_energy_of_a_job_are_said_where_they_are_foreseen(form):
    forecast = JobForecast(900, 3600.0, "before", 4.0, gpu_s=16 * 3600.0, energy_j=2.16e7)
    check = JobCheck(global_batch=64, learning_rate=0.1, forecast=forecast)
    form.show_check(check)
    basis_text = side_of(form)._basis.text().replace("\xa0", " ")
    assert basis_text.endswith("About 16.0 GPU hours and 6.00 kWh.")
    assert "16.0 GPU hours" in find_only(FormFoot, form).figures.text()
    form.show_check(replace(check, forecast=replace(forecast, energy_j=None)))
    assert shows_text(side_of(form), "About 16.0 GPU hours.")
    form.show_check(replace(check, forecast=replace(forecast, energy_j=None, gpu_s=None)))
    assert "GPU hours" not in side_of(form)._basis.text() + find_only(FormFoot, form).figures.text()


def test_start_shows_the_number_of_processes_and_requests_the_typed_job(form, qtbot):
    form.show_draft(JobDraft(DIGITS))
    form.show_check(JobCheck(global_batch=64, learning_rate=0.1))
    assert start_buttons(form).start.text() == "Start on 2 processes"
    with qtbot.waitSignal(form.start_requested) as started:
        qtbot.mouseClick(start_buttons(form).start, Qt.MouseButton.LeftButton)
    assert started.args[0].raw["batch_size"] == 32


def test_words_where_a_number_belongs_reach_the_check_as_typed(form, qtbot):
    form.show_draft(JobDraft(DIGITS))
    control = setting_field(form, "epochs").control
    control.selectAll()
    qtbot.keyClicks(control, "many")
    assert [f.path for f in parse_job(form.draft().raw).errors] == ["epochs"]


def test_a_gpu_in_use_by_another_user_cannot_be_chosen(qtbot):
    cells = add_widget(qtbot, GpuCells())
    cells.show_gpus((gpu(0), gpu(1, "alice"), gpu(2)))
    cells.resize(300, 28)
    for x in (40, 150, 260):
        qtbot.mouseClick(
            cells, Qt.MouseButton.LeftButton, pos=cells.rect().topLeft() + position_at(x)
        )
    assert cells.selected_uuids() == ("GPU-0", "GPU-2")
    assert "GPU 1, in use by alice" in cells.accessibleDescription()


def test_a_chosen_gpu_taken_meanwhile_stays_chosen_and_can_be_given_up(qtbot):
    """A job never becomes smaller by itself: its start names the owner instead."""
    cells = add_widget(qtbot, GpuCells())
    cells.show_gpus((gpu(0), gpu(1)))
    cells.resize(300, 28)
    cells.choose(("GPU-0", "GPU-1"))
    with qtbot.assertNotEmitted(cells.changed), qtbot.waitSignal(cells.usage_changed):
        cells.show_gpus((gpu(0), gpu(1, "alice")))
    assert cells.selected_uuids() == ("GPU-0", "GPU-1")
    assert [g.uuid for g in cells.busy_gpus()] == ["GPU-1"]
    assert "GPU 1, selected, in use by alice" in cells.accessibleDescription()
    for _ in range(2):
        point = cells.rect().topLeft() + position_at(150)
        qtbot.mouseClick(cells, Qt.MouseButton.LeftButton, pos=point)
        assert cells.selected_uuids() == ("GPU-0",), "it is not to be had again"


@pytest.mark.usefixtures("theme_manager")
def test_the_form_is_checked_again_when_a_chosen_gpu_is_taken(form, qtbot):
    def local_state(*gpus):
        return (NodeState("this-computer", Presence.ONLINE, reading(gpus)),)

    placement = [{"node": "this-computer", "gpus": ["GPU-0", "GPU-1"]}]
    form.resize(1176, 800)
    form.show()
    form.show_nodes(local_state(gpu(0), gpu(1)))
    with qtbot.waitSignal(form.check_requested):
        form.show_draft(JobDraft({**DIGITS, "placement": placement}))
    with qtbot.waitSignal(form.check_requested) as request:
        form.show_nodes(local_state(gpu(0), gpu(1, "alice")))
    assert request.args[0].raw["placement"] == placement


def test_gpus_can_be_chosen_by_keys_alone(qtbot):
    cells = add_widget(qtbot, GpuCells())
    cells.show_gpus((gpu(0), gpu(1), gpu(2)))
    for key in (Qt.Key.Key_Right, Qt.Key.Key_Space, Qt.Key.Key_Right, Qt.Key.Key_Space):
        qtbot.keyClick(cells, key)
    assert cells.selected_uuids() == ("GPU-1", "GPU-2")


def position_at(x):
    from PySide6.QtCore import QPoint

    return QPoint(x, 14)


def test_a_changed_replay_is_no_replay(form):
    form.show_draft(JobDraft(DIGITS, origin=Origin("“digits, two workers”", DIGITS, "a")))
    assert form.draft().origin.replayed_id == "a"
    setting_field(form, "epochs").control.setText("3")
    finish_timers(form)
    assert (
        find_only(Banner, form)
        .accessibleName()
        .startswith("No longer a replay of “digits, two workers”.")
    )
    assert form.draft().origin.replayed_id == ""


@pytest.mark.usefixtures("theme_manager")
def test_the_reason_of_a_refusal_stays_until_the_user_changes_a_setting(form, qtbot):
    form.resize(1176, 800)
    form.show()
    form.show_draft(JobDraft(DIGITS))
    form.show_error("The disk is full.")
    with qtbot.waitSignal(form.check_requested):
        form.show_choices((item(Kind.MODEL, 2),), (item(Kind.DATASET),), (item(Kind.LOADER),))
    assert side_of(form).refusal.isVisible(), "another user imported a model"
    qtbot.keyClicks(setting_field(form, "epochs").visible_control, "1")
    assert not side_of(form).refusal.isVisible()


def field_positions(form):
    """Where each field of the form is, and how large."""
    QApplication.processEvents()
    fields = find_only(FormSections, form).findChildren(Field)
    return [(f.label(), f.mapTo(form, QPoint(0, 0)), f.size()) for f in fields if f.isVisible()]


def right_edge(part, form):
    return part.mapTo(form, part.rect().topRight()).x()


@pytest.mark.usefixtures("theme_manager")
def test_the_button_of_a_trial_ends_with_its_card_and_its_text_is_not_cut(form):
    for width, state in product(
        (928, 1176, 1440), (TrialState.UNTRIED, TrialState.RUNNING, TrialState.FAILED)
    ):
        form.resize(width, 900)
        form.show()
        form.show_draft(JobDraft(DIGITS))
        form.show_check(JobCheck(global_batch=64, learning_rate=0.1), BatchTrial(state))
        QApplication.processEvents()
        sections = find_only(FormSections, form)
        last = job_fields(form).field("start_from").visible_control
        assert right_edge(sections.trial.button, form) == right_edge(last, form)
        assert sections.job_kind.width() >= sections.job_kind.sizeHint().width()


def open_details(form):
    for details in form.findChildren(Details):
        details.open()


@pytest.mark.usefixtures("theme_manager")
@pytest.mark.parametrize("is_open", [False, True])
@pytest.mark.parametrize("width", [928, 1176])
def test_no_field_moves_when_something_is_wrong_or_tried(form, width, is_open):
    form.resize(width, 2000)
    form.show()
    form.show_draft(JobDraft(DIGITS))
    if is_open:
        open_details(form)
    fine = JobCheck(global_batch=64, learning_rate=0.1)
    form.show_check(fine)
    previous_positions = field_positions(form)
    names = {name for name, *_ in previous_positions}
    assert "Epochs" in names
    assert ("Seed" in names) is is_open
    errors = tuple(ConfigError(path, f"{path}: {'must be so. ' * 20}") for path in all_fields(form))
    nowhere = ConfigError("placement[0].node", f"placement[0].node: {'There is no node. ' * 20}")
    form.show_check(JobCheck(errors=(*errors, nowhere)))
    assert setting_field(form, "epochs").error().startswith("Epochs must be so.")
    assert field_positions(form) == previous_positions
    for state in TrialState:
        form.show_check(fine, BatchTrial(state, "some words " * 40, "model"))
        assert field_positions(form) == previous_positions


@pytest.mark.usefixtures("theme_manager")
def test_the_faults_of_a_row_stand_below_it_as_whole_sentences(form):
    form.resize(1176, 900)
    form.show()
    form.show_draft(JobDraft(DIGITS))
    form.show_check(
        JobCheck(
            errors=(
                ConfigError("epochs", "epochs: must be between 1 and 100."),
                ConfigError("batch_size", "batch_size: One step takes 600 items."),
            )
        )
    )
    lines = [
        error_line
        for error_line in find_only(FormSections, form).findChildren(ErrorLine)
        if error_line.text()
    ]
    assert [error_line.text() for error_line in lines] == [
        "Epochs must be between 1 and 100. One step takes 600 items."
    ]
    assert lines[0].isVisible()


def page_of(form):
    return find_only(FormSections, form).parentWidget().parentWidget()


def filled(form, width, height):
    """The form among twelve nodes, laid out."""
    form.resize(width, height)
    form.show()
    form.show_nodes(samples.cluster(12))
    form.show_draft(JobDraft(DIGITS))
    for _ in range(10):
        QApplication.processEvents()
    return page_of(form).verticalScrollBar()


@pytest.mark.usefixtures("theme_manager")
def test_all_usual_settings_are_on_one_page_with_twelve_nodes(form):
    """A window of 1440 by 900 without its side bar."""
    bar = filled(form, 1176, 900)
    assert bar.maximum() == 0
    labels = {f.label() for f in form.findChildren(Field) if f.isVisible()}
    assert {"Start from", "Optimizer", "Learning rate", "Schedule", "Stop early after"} <= labels
    dataset, weights = (setting_field(form, path) for path in ("dataset", "start_from"))
    assert dataset.mapTo(form, QPoint()).y() == weights.mapTo(form, QPoint()).y()


@pytest.mark.usefixtures("theme_manager")
def test_a_button_shows_rare_settings_and_scrolls_to_them(form, qtbot):
    bar = filled(form, 928, 580)
    norm, seed = (setting_field(form, path) for path in ("gradient_norm", "seed"))
    assert not norm.isVisible()
    assert not seed.isVisible()
    folded = [d for d in form.findChildren(Details) if d.button.isVisible()]
    more_details = [details for details in folded if details.button.text() == "More"]
    for details, field in zip(more_details, (norm, seed), strict=True):
        assert details.button.text() == "More"
        width = details.button.width()
        qtbot.mouseClick(details.button, Qt.MouseButton.LeftButton)
        assert (details.button.text(), details.button.width()) == ("Less", width)
        view = page_of(form).viewport()
        qtbot.waitUntil(lambda: view.rect().contains(place_in(field, view)))  # noqa: B023
    assert bar.value() > 0
    qtbot.mouseClick(more_details[0].button, Qt.MouseButton.LeftButton)
    assert not norm.isVisible()


def place_in(widget, view):
    return QRect(widget.mapTo(view, QPoint()), widget.size())


@pytest.mark.usefixtures("theme_manager")
def test_a_fault_of_a_hidden_field_is_said_and_jumped_to(form):
    form.resize(1176, 900)
    form.show()
    form.show_draft(JobDraft(DIGITS))
    field = setting_field(form, "optimizer.momentum")
    error = ConfigError("optimizer.momentum", "optimizer.momentum: must be below 1.")
    form.show_check(JobCheck(errors=(error,)))
    (line,) = [
        error_line
        for error_line in find_only(FormSections, form).findChildren(ErrorLine)
        if error_line.text()
    ]
    assert line.text() == "Momentum must be below 1."
    assert line.isVisible()
    assert not field.isVisible()
    press_start(form)
    assert field.isVisible()
    assert form.focusWidget() is field.control
    setting_field(form, "optimizer.name").control.choose("adam")
    assert line.text() == "", "that optimizer has no momentum"


def test_the_optimizer_says_which_of_its_settings_are_given(form):
    combo = setting_field(form, "optimizer.name").control
    form.show_draft(JobDraft(DIGITS))
    assert combo.display_text() == "SGD, momentum 0.9"
    adam = {"name": "adamw", "lr": 0.001, "betas": [0.9, 0.95], "amsgrad": True}
    form.show_draft(JobDraft({**DIGITS, "optimizer": adam, "gradient_norm": 1.0}))
    assert combo.display_text() == "AdamW, betas 0.9, 0.95, AMSGrad, gradient norm limit 1"
    assert combo.toolTip() == combo.display_text()
    form.show_draft(JobDraft({**DIGITS, "optimizer": {"name": "adadelta", "lr": 1.0}}))
    assert combo.display_text() == "Adadelta"


def test_the_nodes_decide_on_the_strategy_until_the_user_does(form):
    control = setting_field(form, "strategy.name").control
    form.show_draft(JobDraft(DIGITS))
    assert control.currentText() == "Allreduce (default)"
    form.show_check(JobCheck(usual_strategy="ddp"))
    assert control.currentText() == "DDP (default)"
    assert "name" not in form.draft().raw["strategy"]
    control.choose("allreduce")
    form.show_check(JobCheck(usual_strategy="ddp"))
    assert form.draft().raw["strategy"]["name"] == "allreduce"


def test_a_script_has_no_dataset_unless_one_is_chosen(form):
    def library(versions):
        datasets = tuple(item(Kind.DATASET, n + 1) for n in range(versions))
        scripts = (item(Kind.SCRIPT),)
        form.show_choices((item(Kind.MODEL),), datasets, (item(Kind.LOADER),), scripts)

    name = item(Kind.SCRIPT).name
    form.show_draft(JobDraft({"name": "x", "script": name}))
    for versions in (0, 1, 2):
        library(versions)
        assert "dataset" not in form.draft().raw, versions
    control = setting_field(form, "dataset").control
    control.choose(item(Kind.DATASET).name)
    library(3)
    assert form.draft().raw["dataset"] == item(Kind.DATASET).name
    control.choose("")
    assert "dataset" not in form.draft().raw
    form.show_draft(JobDraft({"name": "x", "model": item(Kind.MODEL).name}))
    assert "none" not in [control.itemText(n) for n in range(control.count())]


def shown_paths(form, *paths):
    open_details(form)
    return [path for path in paths if not setting_field(form, path).isHidden()]


def test_a_new_form_is_calm_and_asks_for_what_is_not_chosen(form):
    form.show()
    form.show_draft(JobDraft({**DIGITS, "model": "", "loader": ""}))
    missing = tuple(ConfigError(path, f"{path}: is missing.") for path in ("model", "loader"))
    form.show_check(JobCheck(errors=missing, global_batch=64, learning_rate=0.1))
    assert find_only(FormFoot, form).result.text() == "Choose a model"
    assert not start_buttons(form).start.isEnabled()
    assert all(setting_field(form, path).error() == "" for path in ("model", "loader"))
    assert find_only(FormSections, form).gallery.isVisible()
    form.show_draft(JobDraft({**DIGITS, "loader": ""}))
    form.show_check(JobCheck(errors=(*missing[1:], ConfigError("epochs", "epochs: is odd."))))
    assert find_only(FormFoot, form).result.text() == "1 problem to fix"
    form.show_check(JobCheck(errors=missing[1:]))
    assert find_only(FormFoot, form).result.text() == "Choose a loader"


NODE_LOSS_SETTINGS = [
    f"on_failure.{key}" for key in ("nodes", "shrink", "at_least", "scaling", "grow")
]
GIVE_WAY = ["gives_way", "quiet_minutes"]


@pytest.mark.parametrize(
    ("placement", "changes", "visible_settings"),
    [
        ([{"node": "this-computer", "processes": 2}], {}, []),
        ([{"node": "gpu01", "gpus": ["GPU-0"]}], {}, GIVE_WAY),
        ([{"node": name, "processes": 1} for name in ("cpu1", "cpu2")], {}, NODE_LOSS_SETTINGS),
        ([{"node": "this-computer", "processes": 2}], {"gives_way": True}, GIVE_WAY[:1]),
        (
            [{"node": "this-computer", "processes": 2}],
            {"on_failure": {"shrink": True}},
            NODE_LOSS_SETTINGS[1:2],
        ),
    ],
)
def test_settings_for_lost_nodes_and_other_users_are_shown_where_they_apply(
    form, placement, changes, visible_settings
):
    form.show_draft(JobDraft({**DIGITS, "placement": placement, **changes}))
    assert shown_paths(form, *NODE_LOSS_SETTINGS, *GIVE_WAY) == visible_settings
    assert shown_paths(form, "on_failure.retries", "seed", "loader_workers")[1:] == [
        "seed",
        "loader_workers",
    ]


def test_each_field_has_one_tab_stop(form, qtbot):
    form.show()
    form.show_draft(JobDraft(DIGITS))
    setting_field(form, "name").control.setFocus()
    names = []
    for _ in range(4):
        qtbot.keyClick(form.focusWidget(), Qt.Key.Key_Tab)
        names.append(form.focusWidget().accessibleName())
    assert names == ["Model", "Gallery…", "Dataset", "Loader"]


def test_settings_that_came_with_a_model_fill_the_form(form):
    form.show_draft(JobDraft(DIGITS))
    form.propose({"epochs": 7, "optimizer": {"name": "adam", "lr": 0.001}, "gradient_norm": 1.0})
    raw = form.draft().raw
    assert raw["optimizer"] == {"name": "adam", "lr": 0.001}
    assert (raw["epochs"], raw["gradient_norm"], raw["batch_size"]) == (7, 1.0, 32)
    form.propose({"gradient_norm": None})
    assert "gradient_norm" not in form.draft().raw


@pytest.mark.usefixtures("theme_manager")
def test_a_long_name_of_a_part_takes_the_room_that_the_others_leave(form):
    long_name = "plain-deep-network-of-rrelus"
    form.show()
    for width in (828, 1176):
        form.resize(width, 800)
        for long_part in ("model", "dataset", "loader"):
            names = {"model": "mlp", "dataset": "digits", "loader": "wine", long_part: long_name}
            kinds = (Kind.MODEL, Kind.DATASET, Kind.LOADER)
            form.show_choices(*((replace(item(k), name=names[k.value]),) for k in kinds))
            form.show_draft(JobDraft({**DIGITS, **names}))
            for _ in range(10):  # the widths reach one layout a pass
                QApplication.processEvents()
            combo = setting_field(form, long_part).control
            text_width = combo.fontMetrics().horizontalAdvance(combo.currentText())
            assert combo.currentText().startswith(long_name)
            assert combo._text_rect().width() >= text_width, (width, long_part)


def test_a_narrow_window_shows_a_hint_in_place_of_the_figures(form):
    hint = Finding("memory", False, "A batch of 64 needs about 12 GiB.", "Choose 48 or less.")
    form.show_check(JobCheck(global_batch=64, findings=(hint,)))
    figures = find_only(FormFoot, form).figures
    assert figures.text() == "A batch of 64 needs about 12 GiB. Choose 48 or less."
    form.show_check(JobCheck(global_batch=64))
    assert "batch" in figures.text()


CLUSTER = NodeState(
    "hpc",
    Presence.ONLINE,
    reading(),
    entry=NodeEntry("hpc", NodeAddress("login.example"), scheduler="slurm"),
)
PARTITIONS = (
    Partition("main", True, True, None, (PartitionNode("n1", "idle", gpus={"a100": 4}),)),
    Partition("short", True, False, 7200),
)


def test_a_cluster_takes_the_place_of_the_nodes_and_gives_it_back(qtbot, form):
    fields = job_fields(form)
    assert not fields.field("slurm.cluster").isVisibleTo(form)
    form.show_draft(JobDraft(DIGITS))
    form.show_nodes((NodeState("this-computer", Presence.ONLINE, reading()), CLUSTER))
    with qtbot.waitSignal(form.partitions_requested) as request:
        fields.show_value("slurm.cluster", "hpc")
    assert request.args == ["hpc"]
    form.show_partitions("hpc", PARTITIONS)
    fields.show_value("slurm.partition", "main")
    assert fields.shown_text("slurm.partition") == "main · no limit · 4 of 4 a100"
    fields.show_value("slurm.nodes", 3)
    for gpus in (4, 0):
        fields.show_value("slurm.gpus", gpus)
        assert fields.field("slurm.processes").isVisibleTo(form) is not bool(gpus)
    raw = form.draft().raw
    slurm = parse_job(raw).draft.allocation
    assert slurm == SlurmPlacement("hpc", nodes=3, partition="main")
    assert "placement" not in raw
    assert not find_only(PlacementPicker, form).isVisibleTo(form)
    fields.show_value("slurm.cluster", "")
    assert form.draft().raw["placement"] == DIGITS["placement"]
    assert "slurm" not in form.draft().raw


def test_the_login_node_of_a_cluster_is_no_node_to_choose(form):
    form.show_nodes((NodeState("this-computer", Presence.ONLINE, reading()), CLUSTER))
    assert not shows_text(find_only(PlacementPicker, form), "hpc")
