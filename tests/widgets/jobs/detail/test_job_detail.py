"""The open job: one act that fits its state, curves without gaps, the first failure in front."""

import math
from dataclasses import replace
from pathlib import Path

import pytest
import shiboken6
from PySide6.QtCore import QCoreApplication, Qt

from backend.records.jobs.checkpoint import Checkpoint
from backend.records.jobs.history import HistoryUpdate, RunStart
from backend.records.jobs.job_file import parse_job
from backend.records.jobs.placement import Placement
from backend.records.jobs.state import JobState
from backend.records.jobs.status import (
    DIVERGED,
    NOT_A_NUMBER,
    Alarm,
    EvidenceLine,
    RankError,
    RunStatus,
)
from backend.records.jobs.stop_request import STOP_GRACE_S
from backend.records.jobs.view import JobView, RunUpdate
from tests.asks import expect_request, open_menu_entries
from tests.job_views import replace_fields
from tests.pictures import lab
from tests.windows import find_button, find_only, finish_timers, shows_text, visible_texts
from widgets.common import formats
from widgets.common.banner import Banner
from widgets.common.buttons import Button, SegmentedControl
from widgets.common.cards import EmptyState
from widgets.common.dialog import TaskStatus
from widgets.common.fields import ComboBox, LineEdit
from widgets.common.key_value_row import KeyValueRow
from widgets.common.theme_manager import ThemeChoice, ThemeManager
from widgets.jobs.actions import job_actions
from widgets.jobs.actions.job_actions import JobActions
from widgets.jobs.checkpoints.export_dialog import ExportDialog, file_stem
from widgets.jobs.curves.curves_layout import LargePlot
from widgets.jobs.detail.job_detail import JobDetail
from widgets.jobs.detail.job_header import JobName
from widgets.jobs.detail.job_progress import JobProgress
from widgets.jobs.detail.job_tabs import JobTabs
from widgets.jobs.log.log_ansi import strip_codes
from widgets.jobs.page.bundle_dialog import BundleDialog

CONFIG = parse_job(
    {
        "name": "digits",
        "model": "digits",
        "dataset": "digits",
        "loader": "digits",
        "epochs": 10,
        "batch_size": 8,
        "optimizer": {"name": "sgd", "lr": 0.1},
        "placement": [{"node": "this-computer", "processes": 2}],
    }
).config
CREATED = JobView("a", "digits", CONFIG, "2026-11-21T07:00:00Z", RunStatus(JobState.CREATED))
LIVE = replace_fields(CREATED, state=JobState.TRAINING, run=1, epoch=3, step=30, total_steps=100)
FAILED = replace_fields(
    LIVE,
    state=JobState.ERROR,
    error=RankError(
        "Rank 1 on this computer was killed by signal 9 (SIGKILL).", 1, "", "Traceback"
    ),
)


def checkpoint(step, **changes):
    name = f"epoch-{step // 10:04d}-step-{step:06d}"
    return Checkpoint(
        name, 1, step // 10, step, 0, 1000, "ab" * 32, "cd" * 32, "2026-11-21T07:30:00Z", **changes
    )


def update(view, first, losses, run=1, drop_from=None):
    steps = list(range(first, first + len(losses)))
    history = HistoryUpdate(
        steps,
        [step // 10 + 1 for step in steps],
        [step / 10 for step in steps],
        {"loss": losses},
        (RunStart(run, first),),
        drop_from,
    )
    return RunUpdate(view, history)


@pytest.fixture
def detail(qtbot):
    detail = JobDetail(JobActions())
    qtbot.addWidget(detail)
    detail.resize(900, 800)
    detail.show()
    return detail


@pytest.mark.parametrize(
    ("state", "act", "action"),
    [
        (JobState.CREATED, "Start", job_actions.START),
        (JobState.TRAINING, "Stop", job_actions.STOP),
        (JobState.SAVING, "Stop", job_actions.STOP),
        (JobState.INTERRUPTED, "Resume", job_actions.RESUME),
        (JobState.ERROR, "Resume", job_actions.RESUME),
        (JobState.LOST, "Resume", job_actions.RESUME),
    ],
)
def test_the_one_act_that_fits_the_state(detail, qtbot, state, act, action):
    detail.open_job(replace_fields(LIVE, state=state))
    assert detail.header.main_button.text() == act
    with expect_request(detail.job_actions, action) as requested:
        qtbot.mouseClick(detail.header.main_button, Qt.MouseButton.LeftButton)
    assert requested.args[0] == "a"


@pytest.mark.parametrize("state", [JobState.INTERRUPTED, JobState.ERROR, JobState.LOST])
def test_a_run_without_a_checkpoint_can_only_start_over(detail, qtbot, state):
    detail.open_job(replace_fields(LIVE, state=state))
    detail.show_checkpoints("a", ())
    act = detail.header.main_button
    assert act.text() == "Start over"
    assert "There is no checkpoint to resume from" in act.toolTip()
    with expect_request(detail.job_actions, job_actions.START_OVER) as requested:
        qtbot.mouseClick(act, Qt.MouseButton.LeftButton)
    assert requested.args == ["a"]
    assert "Queue resume" not in open_menu_entries(detail.header.menu_button)
    detail.show_checkpoints("a", (checkpoint(10),))
    assert (act.text(), act.toolTip()) == ("Resume", "")
    assert "Queue resume" in open_menu_entries(detail.header.menu_button)


def test_a_queued_job_that_ran_without_a_checkpoint_starts_over_now(detail, qtbot):
    detail.open_job(replace_fields(LIVE, state=JobState.QUEUED))
    detail.show_checkpoints("a", ())
    with expect_request(detail.job_actions, job_actions.START_OVER):
        qtbot.mouseClick(detail.header.main_button, Qt.MouseButton.LeftButton)


def test_a_finished_job_without_a_checkpoint_says_why_there_is_nothing_to_export(detail):
    detail.open_job(replace_fields(LIVE, state=JobState.FINISHED))
    detail.show_checkpoints("a", ())
    act = detail.header.main_button
    assert not act.isEnabled()
    assert "no checkpoint to export" in act.toolTip()


def test_the_page_of_a_failed_job_starts_over_where_there_is_nothing_to_resume(detail, qtbot):
    detail.open_job(FAILED)
    resume_button = find_button(detail.failure, "Resume")
    assert resume_button.text() == "Resume"
    detail.show_checkpoints("a", ())
    assert resume_button.text() == "Start over"
    assert shows_text(detail.failure, "begins at step 1")
    with expect_request(detail.job_actions, job_actions.START_OVER) as requested:
        qtbot.mouseClick(resume_button, Qt.MouseButton.LeftButton)
    assert requested.args == ["a"]


def test_a_new_run_resets_the_missing_checkpoints(detail):
    detail.open_job(FAILED)
    detail.show_checkpoints("a", ())
    detail.show_view(replace_fields(LIVE, run=2))
    detail.show_view(replace_fields(FAILED, run=2))
    assert detail.header.main_button.text() == "Resume"
    assert find_button(detail.failure, "Resume").text() == "Resume"


def test_the_log_of_a_new_run_has_its_ranks_and_no_failed_one(detail):
    logs = find_only(ComboBox, detail.log)

    def marked_ranks():
        return [n for n in range(logs.count()) if not logs.itemIcon(n).isNull()]

    detail.open_job(FAILED)
    assert [logs.itemText(n) for n in marked_ranks()] == ["Rank 1"]
    detail.log.show_source("all")
    detail.show_view(
        replace_fields(LIVE, run=2, config=replace(CONFIG, placement=(Placement("node1", 4),)))
    )
    assert marked_ranks() == []
    assert logs.count() == len(("all", "mpirun")) + 4
    assert detail.log.source == "all", "the user's choice stays"


@pytest.mark.parametrize("checkpoints", [(), (checkpoint(10),)])
@pytest.mark.parametrize("cause", ["", "gpu_memory"])
def test_one_act_of_a_failed_job_stands_out(detail, checkpoints, cause):
    detail.open_job(replace_fields(FAILED, error=replace(FAILED.error, cause=cause)))
    detail.show_checkpoints("a", checkpoints)
    visible_buttons = [button for button in detail.findChildren(Button) if button.isVisible()]
    primary = [button.text() for button in visible_buttons if button.property("kind") == "primary"]
    rerun_label = "Resume" if checkpoints else "Start over"
    change = f"{'Resume' if checkpoints else 'Clone'} with batch size 4"
    assert primary == [change if cause else rerun_label]


def test_a_stopping_job_has_no_active_button(detail):
    detail.open_job(replace_fields(LIVE, state=JobState.STOPPING))
    assert detail.header.main_button.text() == "Stopping…"
    assert not detail.header.main_button.isEnabled()


def test_a_slow_stop_offers_to_kill_and_says_what_that_loses(detail, qtbot):
    stopping = replace_fields(LIVE, state=JobState.STOPPING)
    detail.open_job(LIVE)
    # Of another year: no moment is written with more words.
    newest = replace(checkpoint(20), created="2020-11-20T07:30:00Z")
    detail.show_checkpoints("a", (newest,))
    detail.show_view(stopping)
    act = detail.header.main_button
    assert (act.text(), act.isEnabled()) == ("Stopping…", False)
    detail._stopping_s -= STOP_GRACE_S + 1
    detail.show_view(replace_fields(stopping, step=31))
    assert (act.text(), act.isEnabled()) == ("Kill now", True)
    caption = find_only(JobProgress, detail)._caption
    assert "loses everything after epoch 2, " in caption.text()
    detail.resize(600, 500)
    QCoreApplication.sendPostedEvents()
    assert caption.sizeHint().width() <= caption.width(), "the warning is cut"
    with expect_request(detail.job_actions, job_actions.KILL) as requested:
        qtbot.mouseClick(act, Qt.MouseButton.LeftButton)
    assert requested.args == ["a"]
    # A resumed run gets the full patience again.
    detail.show_view(replace_fields(LIVE, run=2))
    detail.show_view(replace_fields(stopping, run=2))
    assert act.text() == "Stopping…"


def test_an_export_requested_too_early_opens_its_dialog_when_it_can(detail):
    detail.open_job(LIVE)
    detail.export()
    assert detail.exporter.dialog.dialog is None, "the checkpoints are not known yet"
    detail.show_checkpoints("a", (checkpoint(20),))
    assert detail.exporter.dialog.dialog is not None


def test_points_of_several_updates_make_one_curve(detail):
    detail.open_job(LIVE)
    detail.show_update(update(LIVE, 1, [1.0, 0.9]))
    detail.show_update(update(LIVE, 3, [0.8]))
    assert list(detail.curves.curve("loss").steps) == [1, 2, 3]


def test_m09_a_run_resumed_from_an_older_checkpoint_replaces_repeated_steps(detail):
    detail.open_job(LIVE)
    detail.show_update(update(LIVE, 1, [1.0, 0.9, 0.8, 0.7]))
    detail.show_update(update(LIVE, 3, [0.81, 0.71, 0.61], run=2, drop_from=3))
    assert list(detail.curves.curve("loss").steps) == [1, 2, 3, 4, 5]
    assert list(detail.curves.curve("loss").raw) == [1.0, 0.9, 0.81, 0.71, 0.61]


def test_m13_a_loss_that_is_no_number_stays_a_gap(detail):
    detail.open_job(LIVE)
    detail.show_update(update(LIVE, 1, [1.0, math.nan, 0.8]))
    assert math.isnan(detail.curves.curve("loss").raw[1])


def test_validation_values_are_joined_over_the_steps_between_them(detail):
    detail.open_job(LIVE)
    nan = math.nan
    history = HistoryUpdate(
        [1, 2, 3, 4], [1, 1, 2, 2], [0, 1, 2, 3], {"validation/loss": [nan, 0.5, nan, 0.4]}
    )
    detail.show_update(RunUpdate(LIVE, history))
    assert list(detail.curves.curve("validation/loss").steps) == [2, 4]


def test_updates_of_another_job_change_nothing(detail):
    detail.open_job(LIVE)
    detail.show_update(update(replace(LIVE, id="b"), 1, [1.0]))
    assert detail.curves.curve("loss") is None


def test_m14_a_failed_job_opens_on_its_failure(detail):
    detail.open_job(FAILED)
    assert find_only(JobTabs, detail).key() == "failure"
    assert shows_text(detail.failure, "Rank 1 on this computer was killed")
    assert "Traceback" in visible_texts(detail.failure)
    assert detail.log.source == "1"


def test_a_session_opens_on_its_log_and_the_next_job_on_its_curves(detail):
    session = replace_fields(LIVE, config=replace(LIVE.config, script="jupyter-session@1"))
    tabs = find_only(JobTabs, detail)
    for view, key in ((LIVE, "curves"), (session, "log"), (LIVE, "curves")):
        detail.open_job(view)
        assert tabs.key() == key
    tabs.choose("ranks")
    detail.open_job(session)
    assert tabs.key() == "ranks", "which the user chose"


def test_the_failure_tab_opens_when_the_shown_job_fails(detail):
    detail.open_job(LIVE)
    detail.show_view(FAILED)
    assert find_only(JobTabs, detail).key() == "failure"


def test_a_resumed_failed_job_shows_its_curves_again(detail):
    detail.open_job(FAILED)
    detail.show_view(replace_fields(LIVE, run=2))
    assert find_only(JobTabs, detail).key() == "curves"


def test_the_chosen_tab_is_shown_when_the_failure_tab_disappears(detail):
    detail.open_job(FAILED)
    detail.show_view(replace_fields(LIVE, run=2))
    assert detail.curves.isVisible()
    assert not detail.failure.isVisible()


def test_another_job_begins_without_the_number_of_checkpoints_of_the_one_before(detail):
    detail.open_job(LIVE)
    detail.show_checkpoints("a", (checkpoint(10), checkpoint(20)))
    tab = find_only(JobTabs, detail).bar._group.button(2)
    assert tab.accessibleName() == "Checkpoints 2"
    detail.open_job(replace(LIVE, id="b"))
    assert tab.accessibleName() == "Checkpoints"


def test_a_failed_job_says_from_where_resume_goes_on(detail, qtbot):
    detail.open_job(FAILED)
    detail.show_checkpoints("a", (checkpoint(10), checkpoint(20, is_latest=True)))
    assert shows_text(detail.failure, "epoch 2, step 20")
    with expect_request(detail.job_actions, job_actions.RESUME_FROM) as requested:
        qtbot.mouseClick(find_button(detail.failure, "Resume"), Qt.MouseButton.LeftButton)
    assert requested.args == ["a", "epoch-0002-step-000020"]


def test_a_refused_act_is_said_atop_the_page_and_gone_with_the_next(detail):
    detail.open_job(LIVE)
    detail.show_error("a", "The checkpoint was changed.", "Resume from the one before.")
    assert "The checkpoint was changed." in visible_texts(find_only(Banner, detail))
    detail.show_busy("a", "Starting…")
    assert not find_only(Banner, detail).isVisible()


def test_doubt_is_no_state(detail):
    detail.open_job(LIVE)
    detail.show_read_error("a", "no news since 14:02")
    assert "No news since 14:02" in visible_texts(find_only(Banner, detail))
    assert detail.header.main_button.text() == "Stop"
    detail.show_update(update(LIVE, 1, [1.0]))
    assert not find_only(Banner, detail).isVisible()


def test_a_rename_is_requested_only_with_a_valid_name(detail, qtbot):
    detail.open_job(LIVE)
    names = []
    detail.job_actions.add_handler(job_actions.SET_NAME, lambda _job, name: names.append(name))
    for text in ("night run", "   "):
        find_only(JobName, detail.header).edit()
        find_only(LineEdit, find_only(JobName, detail.header)).setText(text)
        qtbot.keyClick(find_only(LineEdit, find_only(JobName, detail.header)), Qt.Key.Key_Return)
    assert names == ["night run"]


def test_checkpoints_are_listed_newest_first(detail, qtmodeltester):
    detail.open_job(LIVE)
    detail.show_checkpoints("a", (checkpoint(10, is_best=True), checkpoint(20, is_latest=True)))
    model = detail.checkpoints.model
    qtmodeltester.check(model)
    assert [model.index(row, 0).data() for row in range(2)] == [
        "Epoch 2, step 20",
        "Epoch 1, step 10",
    ]
    assert model.index(1, 4).data() == "best"


def test_a_live_job_cannot_be_resumed_from_its_checkpoints(detail):
    detail.open_job(LIVE)
    detail.show_checkpoints("a", (checkpoint(10),))
    assert not find_button(detail.checkpoints, "Resume from this").isEnabled()
    assert find_button(detail.checkpoints, "Export…").isEnabled()


def test_the_export_dialog_requests_the_chosen_export(qtbot):
    actions, view = JobActions(), replace(LIVE, name="digits, 2/workers")
    dialog = ExportDialog(actions, view, (checkpoint(10), checkpoint(20, is_best=True)))
    qtbot.addWidget(dialog)
    find_only(SegmentedControl, dialog).choose("onnx")
    dialog._apply_format("onnx")
    with expect_request(actions, job_actions.EXPORT_TO) as requested:
        qtbot.mouseClick(find_button(dialog, "Export"), Qt.MouseButton.LeftButton)
    assert requested.args == ["a", "best", "onnx", "digits 2-workers.onnx"]
    dialog.show_error("No.")
    find_only(ComboBox, dialog).choose("epoch-0001-step-000010")
    with expect_request(actions, job_actions.EXPORT_TO) as requested:
        qtbot.mouseClick(find_button(dialog, "Export"), Qt.MouseButton.LeftButton)
    assert requested.args[1] == "epoch-0001-step-000010"


def test_no_button_of_the_export_dialog_moves_when_the_answer_comes(qtbot):
    dialog = ExportDialog(JobActions(), LIVE, (checkpoint(10),), folder="/home/mai")
    qtbot.addWidget(dialog)
    dialog.show()
    geometry = find_button(dialog, "Export").geometry()
    for answer in (
        lambda: dialog.show_progress(0.5, "Writing"),
        lambda: dialog.show_error("There is no room on the disk. Choose another folder."),
        lambda: dialog.show_exported(Path("/home/mai/digits.zip")),
    ):
        answer()
        dialog.layout().activate()
        QCoreApplication.sendPostedEvents()
        assert find_button(dialog, "Export").geometry() == geometry


def test_an_export_offers_its_folder_until_another_format_is_chosen(detail, qtbot):
    detail.open_job(LIVE)
    detail.show_checkpoints("a", (checkpoint(20),))
    detail.export()
    dialog = detail.exporter.dialog.dialog
    show = find_only(TaskStatus, dialog).show_in_folder
    assert not show.isVisible()
    dialog.show_exported(Path("/home/mai/digits.zip"))
    with expect_request(detail.job_actions, job_actions.SHOW_FILE) as request:
        qtbot.mouseClick(show, Qt.MouseButton.LeftButton)
    assert request.args == ["/home/mai/digits.zip"]
    dialog._apply_format("onnx")
    assert not show.isVisible()
    assert not find_only(TaskStatus, dialog).message.isVisible()
    dialog.reject()


def test_the_latest_checkpoint_is_bundled_by_that_word(qtbot):
    dialog = BundleDialog("digits", (checkpoint(10), checkpoint(20, is_latest=True)))
    qtbot.addWidget(dialog)
    with qtbot.waitSignal(dialog.bundle_requested) as requested:
        qtbot.mouseClick(find_button(dialog, "Bundle"), Qt.MouseButton.LeftButton)
    assert requested.args[0].checkpoint == "latest"


@pytest.mark.parametrize(
    ("had", "current_name", "exported_name"),
    [
        ("epoch-0002-step-000020", "epoch-0003-step-000030", "best"),
        ("epoch-0001-step-000010", "epoch-0001-step-000010", "epoch-0001-step-000010"),
        ("epoch-0000-step-000005", "epoch-0003-step-000030", "best"),
    ],
    ids=["the best", "one that stays", "one that is pruned"],
)
def test_export_writes_the_checkpoint_that_the_dialog_shows(
    detail, qtbot, had, current_name, exported_name
):
    detail.open_job(LIVE)
    older = checkpoint(10)
    checkpoints = (checkpoint(5), older, checkpoint(20, is_best=True, is_latest=True))
    detail.show_checkpoints("a", checkpoints)
    detail.exporter.open_dialog(LIVE, checkpoints, had)
    dialog = detail.exporter.dialog.dialog
    assert find_only(ComboBox, dialog).key() == had
    detail.show_checkpoints("a", (older, checkpoint(30, is_best=True), checkpoint(40)))
    assert find_only(ComboBox, dialog).key() == current_name
    with expect_request(detail.job_actions, job_actions.EXPORT_TO) as requested:
        qtbot.mouseClick(find_button(dialog, "Export"), Qt.MouseButton.LeftButton)
    assert requested.args[1] == exported_name
    dialog.reject()


def test_a_cause_that_would_come_again_puts_a_change_before_resuming(detail, qtbot):
    lines = (EvidenceLine("rank-1.log", 214, "torch.OutOfMemoryError: CUDA out of memory."),)
    error = RankError(
        "Out of GPU memory.", 1, "", "Traceback", "gpu_memory", "Try a smaller one.", lines
    )
    detail.open_job(replace_fields(FAILED, error=error))
    failure = detail.failure
    assert failure.first_button is find_button(failure, "Resume with batch size 4")
    assert failure._usual_buttons.indexOf(find_button(failure, "Clone and change")) == 0
    assert find_button(failure, "Resume").isHidden()
    assert "Try a smaller one." in visible_texts(failure)
    assert shows_text(failure, "214  torch.OutOfMemoryError")
    assert find_button(failure, "Log of rank 1").text() == "Log of rank 1"
    with qtbot.waitSignal(failure.log_requested) as requested:
        qtbot.mouseClick(find_button(failure, "Log of rank 1"), Qt.MouseButton.LeftButton)
    assert requested.args == ["1", 214]
    assert find_only(JobTabs, detail).key() == "log"
    disk = replace(error, cause="disk_full", remedy="Make room, then resume.")
    detail.show_view(replace_fields(FAILED, error=disk))
    assert failure.first_button is find_button(failure, "Resume")


def test_an_unknown_cause_shows_the_last_lines_of_the_log(detail):
    lines = tuple(EvidenceLine("rank-1.log", n, f"<b>line {n}</b>") for n in range(1, 21))
    error = RankError("It left with code 7, and its log does not say why.", 1, cause="unknown")
    detail.open_job(replace_fields(FAILED, error=replace(error, evidence=lines)))
    assert "Last lines of the log of rank 1" in visible_texts(detail.failure)
    assert detail.failure._evidence_box.toPlainText().count("\n") == 19
    assert shows_text(detail.failure, "<b>line 20</b>")
    assert not detail.failure._remedy_label.isVisible()


def test_f59_colour_codes_progress_bars_and_control_characters_are_not_shown():
    assert strip_codes("\x1b[31mred\x1b[0m\x00\x07") == "red"
    assert strip_codes("10 %\r50 %\r100 %\nnext") == "100 %\nnext"


def test_the_slow_one_of_two_ranks_is_named(detail):
    strip = detail.curves.ranks
    strip.show_view(replace_fields(LIVE, rank_step_ms=(18.0, 27.0)))
    assert strip._slow_label.text() == "", "no figure alone makes a rank slow"
    strip.show_view(replace_fields(LIVE, rank_step_ms=(100.0, 140.0), slow_ranks=(1,)))
    assert shows_text(strip, "rank 1 is 40 % slower")
    strip.show_view(replace_fields(LIVE, state=JobState.FINISHED, slow_ranks=(1,)))
    assert strip._slow_label.text() == ""


def test_s12_an_alarm_is_a_banner_while_the_job_runs_and_stays_on_the_curve(detail):
    alarm = Alarm(DIVERGED, 12, "The loss is 9.31, 4.2 times its best (2.2 at step 5).")
    detail.open_job(LIVE)
    detail.show_update(update(replace_fields(LIVE, alarms=(alarm,)), 1, [1.0] * 30))
    assert find_only(Banner, detail)._headline.text() == alarm.message
    posts = find_only(LargePlot, detail.curves).marks.vertical_markers
    assert [(marker.x, marker.text, marker.color_role) for marker in posts] == [
        (12.0, "diverges", "warn")
    ]
    detail.show_view(replace_fields(FAILED, alarms=(alarm,)))
    assert not find_only(Banner, detail).isVisible()
    assert [
        marker.text for marker in find_only(LargePlot, detail.curves).marks.vertical_markers
    ] == [
        "diverges",
        "failed here",
    ]


def test_s12_the_post_of_an_alarm_that_ended_the_job_says_both(detail):
    alarm = Alarm(NOT_A_NUMBER, 30, "The loss of rank 1 became NaN at step 30.")
    detail.open_job(LIVE)
    detail.show_update(update(replace_fields(FAILED, alarms=(alarm,)), 1, [1.0] * 30))
    assert [
        marker.text for marker in find_only(LargePlot, detail.curves).marks.vertical_markers
    ] == ["failed here, not a number"]


def test_each_button_that_copies_says_what(detail):
    detail.open_job(LIVE)
    names = [button.accessibleName() for button in detail.settings.findChildren(Button)]
    assert sorted(name for name in names if "Copy" in name) == ["Copy command", "Copy job file"]


@pytest.mark.parametrize(
    ("name", "stem"),
    [("digits, two workers", "digits two workers"), ("Täglich/1", "Täglich-1"), ("x · y", "x - y")],
)
def test_a_file_is_named_after_its_job(name, stem):
    assert file_stem(name) == stem


def test_checkpoints_are_read_before_it_is_said_that_there_is_none(qtbot):
    detail = JobDetail(JobActions())
    qtbot.addWidget(detail)
    detail.open_job(lab.STOPPED)
    empty_state = find_only(EmptyState, detail.checkpoints)
    assert empty_state.accessibleName() == "Reading checkpoints…"
    detail.checkpoints.show_error("The share does not answer.")
    assert (
        empty_state.accessibleName() == "Could not read the checkpoints The share does not answer."
    )
    detail.show_checkpoints(lab.STOPPED.id, ())
    assert empty_state.accessibleName().startswith("No checkpoint yet")
    detail.open_job(lab.DRAFT)
    assert empty_state.accessibleName().startswith("No checkpoint yet"), "it never ran"


def test_shown_figures_change_to_other_units(qtbot, qapp):
    theme_manager = ThemeManager(qapp, ThemeChoice.LIGHT)
    detail = JobDetail(JobActions())
    qtbot.addWidget(detail)
    detail.open_job(lab.FAILED)
    detail.show_checkpoints(lab.FAILED.id, lab.checkpoints(lab.FAILED))
    detail.show()
    try:
        theme_manager.set_units(formats.Units(sizes=formats.BINARY, clock=formats.HOURS_12))
        assert shows_text(detail.checkpoints, "iB.")
        end_time = next(
            f.value for f in find_only(KeyValueRow, detail.failure).items if f.caption == "When"
        )
        assert end_time.endswith(("AM", "PM"))
    finally:
        theme_manager.set_units(formats.Units())
        shiboken6.delete(theme_manager)
        qapp.setStyleSheet("")


@pytest.mark.parametrize(
    ("script", "state", "is_read"),
    [
        ("mine", JobState.TRAINING, True),
        ("mine", JobState.SETUP, True),
        ("mine", JobState.STOPPING, True),
        ("mine", JobState.FINISHED, False),
        ("mine", JobState.INTERRUPTED, False),
        ("", JobState.TRAINING, False),
    ],
)
def test_the_checkpoints_of_a_script_are_read_while_it_names_no_epochs(
    qtbot, script, state, is_read
):
    actions = JobActions()
    requests = []
    detail = JobDetail(actions)
    qtbot.addWidget(detail)
    view = replace_fields(LIVE, state=state, config=replace(CONFIG, script=script))
    detail.open_job(view)
    actions.add_handler(job_actions.READ_CHECKPOINTS, lambda *_: requests.append(1))
    for heartbeat in (8, 9):
        detail.show_view(replace_fields(view, heartbeat=heartbeat))
        finish_timers(detail)
    assert len(requests) == 2 * is_read
