"""A refused start as the user sees it: all findings, one button each, and what was fixed."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from backend.records.nodes.preflight import Fix, PreflightFinding, fixed_placement
from tests.widgets.jobs import preflight_samples as samples
from tests.widgets.jobs.preflight_samples import AGENT, BUSY, CLOCK, FULL, MPI, PLACEMENT, ROOT
from tests.windows import find_button, find_only, shows_text, visible_texts
from widgets.common.cards import ProgressLine, VerticalScrollArea
from widgets.common.theme_manager import ThemeManager
from widgets.jobs.preflight import preflight_text as words
from widgets.jobs.preflight.preflight_dialog import PreflightDialog
from widgets.jobs.preflight.preflight_row import FixedRow, PreflightRow
from widgets.shell.main_window import MainWindow

LEFT_BUTTON = Qt.MouseButton.LeftButton


@pytest.fixture
def window(theme_manager: ThemeManager, qtbot: QtBot) -> MainWindow:
    window = MainWindow()
    window.resize(1440, 900)
    qtbot.addWidget(window)
    window.show()
    return window


@pytest.fixture
def dialog(window: MainWindow) -> PreflightDialog:
    dialog = PreflightDialog(True, window)
    dialog.show()
    return dialog


def rows(dialog: PreflightDialog) -> list[PreflightRow]:
    """The findings that are shown; rows of before are deleted later."""
    return [r for r in dialog.findChildren(PreflightRow) if r.isVisibleTo(dialog)]


def row_of(dialog: PreflightDialog, finding: PreflightFinding) -> PreflightRow:
    (matching_row,) = (r for r in rows(dialog) if r.finding == finding)
    return matching_row


def scroll_of(dialog: PreflightDialog) -> VerticalScrollArea:
    (scroll_area,) = (
        area
        for area in dialog.findChildren(VerticalScrollArea)
        if area.isAncestorOf(rows(dialog)[0])
    )
    return scroll_area


def done(dialog: PreflightDialog) -> list[str]:
    QApplication.processEvents()
    return [row.message for row in dialog.findChildren(FixedRow) if not row.isHidden()]


def test_all_findings_stand_there_at_once_each_with_its_place_and_button(
    dialog: PreflightDialog,
) -> None:
    dialog.show_preflight(samples.preflight(MPI, BUSY, ROOT, CLOCK), PLACEMENT)
    assert "3 problems prevent this job from starting" in visible_texts(dialog)
    assert [row.button.text() for row in rows(dialog)] == [
        "Set up gpu12",
        "Leave out",
        "Leave out",
        "",
    ]
    assert shows_text(dialog, "SSH · host key · Python")
    assert "7 passed:" in visible_texts(dialog)
    assert not find_button(dialog, "Start on 16 GPUs").isVisible()


def test_the_last_row_of_64_nodes_can_be_scrolled_to(dialog: PreflightDialog) -> None:
    dialog.show_preflight(samples.many(64), PLACEMENT)
    QApplication.processEvents()
    bottom = rows(dialog)[-1]
    scroll_of(dialog).ensureWidgetVisible(bottom)
    QApplication.processEvents()
    assert not bottom.button.visibleRegion().isEmpty()


def test_all_64_are_fixed(dialog: PreflightDialog, qtbot: QtBot) -> None:
    dialog.show_preflight(samples.many(64), PLACEMENT)
    assert find_button(dialog, "Fix all 64").text() == "Fix all 64"
    with qtbot.waitSignal(dialog.fix_all_requested) as requested:
        find_button(dialog, "Fix all 64").click()
    assert len(requested.args[0]) == 64
    dialog.show_fixing(requested.args[0])
    assert not find_button(dialog, "Fix all 0").isVisible()
    assert all(row.is_working for row in rows(dialog))


def test_a_row_shows_its_fix_and_then_the_result(dialog: PreflightDialog, qtbot: QtBot) -> None:
    dialog.show_preflight(samples.preflight(MPI, AGENT), PLACEMENT)
    with qtbot.waitSignal(dialog.fix_requested) as requested:
        qtbot.mouseClick(row_of(dialog, MPI).button, LEFT_BUTTON)
    assert requested.args == [MPI]
    dialog.show_fixing((MPI,), "Horovod…")
    row = row_of(dialog, MPI)
    assert "Horovod…" in visible_texts(row)
    assert not row.button.isVisible()
    assert not find_button(dialog, "Check again").isEnabled(), (
        "a second check would find half-done work"
    )
    assert row_of(dialog, AGENT).button.isEnabled()
    dialog.show_preflight(samples.preflight(AGENT), PLACEMENT)
    assert done(dialog) == ["Open MPI: gpu12 was set up"]
    assert "1 problem prevents this job from starting" in visible_texts(dialog)
    dialog.show_preflight(samples.preflight(), PLACEMENT)
    assert done(dialog) == ["Open MPI: gpu12 was set up", "Agent: gpu12 is OK now"]
    assert find_button(dialog, "Start on 16 GPUs").isVisible()
    assert find_button(dialog, "Start on 16 GPUs").text() == "Start on 16 GPUs"


def test_a_row_continues_its_fix_while_another_is_checked(
    dialog: PreflightDialog,
) -> None:
    dialog.show_preflight(samples.preflight(MPI, AGENT), PLACEMENT)
    dialog.show_fixing((MPI, AGENT))
    dialog.show_preflight(samples.preflight(MPI), PLACEMENT)
    assert row_of(dialog, MPI).is_working


def test_a_failed_fix_says_why_and_the_button_is_back(
    dialog: PreflightDialog, qtbot: QtBot
) -> None:
    dialog.show_preflight(samples.preflight(AGENT), PLACEMENT)
    qtbot.mouseClick(row_of(dialog, AGENT).button, LEFT_BUTTON)
    dialog.show_fixing((AGENT,))
    dialog.show_fix_error(AGENT, "The agent of gpu12 does not start.", "Set gpu12 up again.")
    row = row_of(dialog, AGENT)
    assert "The agent of gpu12 does not start. Set gpu12 up again." in visible_texts(row)
    assert row.button.isVisible()
    dialog.show_preflight(samples.preflight(), PLACEMENT)
    assert done(dialog) == ["Agent: gpu12 is OK now"], "it was not the program that did it"


def test_a_finding_that_leaves_with_its_node_is_not_called_fixed(
    dialog: PreflightDialog, qtbot: QtBot
) -> None:
    dialog.show_preflight(samples.preflight(MPI, ROOT), PLACEMENT)
    qtbot.mouseClick(row_of(dialog, ROOT).button, LEFT_BUTTON)
    placement = fixed_placement(PLACEMENT, ROOT)
    dialog.show_preflight(samples.preflight(placement=placement), placement)
    assert done(dialog) == ["Data root: gpu12 is left out of this job"]
    assert find_button(dialog, "Start on 8 GPUs").text() == "Start on 8 GPUs"


def test_fix_all_leaves_intended_states_to_the_user(dialog: PreflightDialog, qtbot: QtBot) -> None:
    out = PreflightFinding(
        "node", False, "gpu12 is out of service.", "", ("gpu12",), Fix.PUT_INTO_SERVICE
    )
    dialog.show_preflight(samples.preflight(out, MPI, BUSY, AGENT), PLACEMENT)
    assert row_of(dialog, out).button.text() == "Put into service"
    assert find_button(dialog, "Fix all 2").text() == "Fix all 2"
    with qtbot.waitSignal(dialog.fix_all_requested) as requested:
        qtbot.mouseClick(find_button(dialog, "Fix all 2"), LEFT_BUTTON)
    assert requested.args == [(MPI, AGENT)]


def test_a_hint_does_not_prevent_a_start(dialog: PreflightDialog, qtbot: QtBot) -> None:
    dialog.show_preflight(samples.preflight(CLOCK), PLACEMENT)
    assert "This job can start" in visible_texts(dialog)
    with qtbot.waitSignal(dialog.start_requested):
        qtbot.mouseClick(find_button(dialog, "Start on 16 GPUs"), LEFT_BUTTON)


def test_a_fault_without_a_button_says_what_the_user_can_do(dialog: PreflightDialog) -> None:
    dialog.show_preflight(samples.preflight(FULL), PLACEMENT)
    row = row_of(dialog, FULL)
    assert not row.button.isVisible()
    assert "Free some space, or keep fewer checkpoints." in visible_texts(row)
    assert not any(text.startswith("Start on") for text in visible_texts(dialog))


def test_a_check_can_be_cancelled_and_disables_the_other_buttons(
    dialog: PreflightDialog, qtbot: QtBot
) -> None:
    dialog.show_preflight(samples.preflight(MPI), PLACEMENT)
    dialog.show_busy("Checking gpu12")
    assert not find_button(dialog, "Check again").isEnabled()
    assert not row_of(dialog, MPI).button.isEnabled()
    with qtbot.waitSignal(dialog.cancel_requested):
        qtbot.mouseClick(find_button(find_only(ProgressLine, dialog), "Cancel"), LEFT_BUTTON)
    dialog.show_busy("")
    assert row_of(dialog, MPI).button.isEnabled()


def test_one_batch_is_tried_where_nothing_blocks_and_the_job_is_there(
    dialog: PreflightDialog, window: MainWindow, qtbot: QtBot
) -> None:
    dialog.show_preflight(samples.preflight(MPI), PLACEMENT)
    assert not find_button(dialog, "Try one batch").isVisible()
    dialog.show_preflight(samples.preflight(), PLACEMENT)
    with qtbot.waitSignal(dialog.trial_requested):
        qtbot.mouseClick(find_button(dialog, "Try one batch"), LEFT_BUTTON)
    dialog.show_trial(samples.BROKEN)
    assert shows_text(dialog, "Rank 9 on gpu12: CUDA out of memory")
    assert shows_text(dialog, "loss.backward()")
    assert "One batch of this job could not be trained" in visible_texts(dialog)
    dialog.show_preflight(samples.preflight(), PLACEMENT)
    assert not shows_text(dialog, "CUDA out of memory"), "it was about what was before"
    unmade = PreflightDialog(False, window)
    unmade.show()
    unmade.show_preflight(samples.preflight(), PLACEMENT)
    assert not find_button(unmade, "Try one batch").isVisible()


def test_the_report_is_text_for_a_mail(dialog: PreflightDialog, qtbot: QtBot) -> None:
    dialog.show_preflight(samples.preflight(BUSY, CLOCK), PLACEMENT)
    qtbot.mouseClick(find_button(dialog, "Copy report"), LEFT_BUTTON)
    lines = QGuiApplication.clipboard().text().splitlines()
    assert lines[0] == "1 problem prevents this job from starting"
    assert lines[3].startswith("fault  GPUs (gpu12): GPU 5 of gpu12 is in use by alice")
    assert any(line.startswith("hint   Clock (gpu12)") for line in lines)
    assert lines[-1].startswith("passed SSH, host key")


def test_names_too_long_for_a_button_stay_off_it() -> None:
    result = samples.many(64)
    assert {words.button_text(finding) for finding in result.blocking_findings} == {"Set it up"}
    assert words.summary_text(result).startswith("Checked 8 points on 64 nodes in")


def test_four_findings_need_no_scrolling(dialog: PreflightDialog) -> None:
    dialog.show_preflight(samples.preflight(MPI, BUSY, ROOT, CLOCK), PLACEMENT)
    QApplication.processEvents()
    assert not scroll_of(dialog).verticalScrollBar().isVisible()
