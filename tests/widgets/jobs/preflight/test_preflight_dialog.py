"""A refused start as a person sees it: everything at once, one button each, and what was mended."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from backend.records.nodes.preflight import Fix, PreflightFinding, placement_after
from tests.widgets.jobs import preflight_samples as samples
from tests.widgets.jobs.preflight_samples import AGENT, BUSY, CLOCK, FULL, MPI, PLACEMENT, ROOT
from tests.windows import button, the
from widgets.common.cards import ProgressLine
from widgets.common.theme_manager import ThemeManager
from widgets.jobs.preflight import preflight_text as words
from widgets.jobs.preflight.preflight_dialog import PreflightDialog
from widgets.jobs.preflight.preflight_row import DoneRow
from widgets.shell.main_window import MainWindow

LEFT = Qt.MouseButton.LeftButton


@pytest.fixture
def window(look: ThemeManager, qtbot: QtBot) -> MainWindow:
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


def done(dialog: PreflightDialog) -> list[str]:
    QApplication.processEvents()
    return [row.sentence for row in dialog.findChildren(DoneRow) if not row.isHidden()]


def test_all_findings_stand_there_at_once_each_with_its_place_and_button(
    dialog: PreflightDialog,
) -> None:
    dialog.show_found(samples.found(MPI, BUSY, ROOT, CLOCK), PLACEMENT)
    assert dialog._title.text() == "3 problems prevent this job from starting"
    assert [row.button.text() for row in dialog._rows.values()] == [
        "Set up gpu12",
        "Leave out",
        "Leave out",
        "",
    ]
    assert dialog._passed.text().startswith("SSH · host key · Python")
    assert dialog._passed_count.text() == "7 passed:"
    assert not button(dialog, "Start on 16 GPUs").isVisible()


def test_the_last_row_of_64_nodes_can_be_scrolled_to(dialog: PreflightDialog) -> None:
    dialog.show_found(samples.many(64), PLACEMENT)
    QApplication.processEvents()
    bottom = list(dialog._rows.values())[-1]
    dialog._scroll.ensureWidgetVisible(bottom)
    QApplication.processEvents()
    assert not bottom.button.visibleRegion().isEmpty()


def test_all_64_are_mended(dialog: PreflightDialog, qtbot: QtBot) -> None:
    dialog.show_found(samples.many(64), PLACEMENT)
    assert button(dialog, "Fix all 64").text() == "Fix all 64"
    with qtbot.waitSignal(dialog.fix_all_requested) as requested:
        button(dialog, "Fix all 64").click()
    assert len(requested.args[0]) == 64
    dialog.show_fixing(requested.args[0])
    assert not button(dialog, "Fix all 0").isVisible()
    assert all(row.is_working for row in dialog._rows.values())


def test_m06_a_smaller_set_that_passes_is_one_button(dialog: PreflightDialog, qtbot: QtBot) -> None:
    dialog.show_found(samples.found(MPI, BUSY), PLACEMENT)
    assert button(dialog, "Start on gpu09 only, 8 GPUs").text() == "Start on gpu09 only, 8 GPUs"
    with qtbot.waitSignal(dialog.start_on_requested) as requested:
        qtbot.mouseClick(button(dialog, "Start on gpu09 only, 8 GPUs"), LEFT)
    assert requested.args == [PLACEMENT[:1]]


def test_a_fix_shows_in_its_row_and_then_what_it_did(dialog: PreflightDialog, qtbot: QtBot) -> None:
    dialog.show_found(samples.found(MPI, AGENT), PLACEMENT)
    with qtbot.waitSignal(dialog.fix_requested) as requested:
        qtbot.mouseClick(dialog._rows[MPI].button, LEFT)
    assert requested.args == [MPI]
    dialog.show_fixing((MPI,), "Horovod…")
    row = dialog._rows[MPI]
    assert row._working.text() == "Horovod…"
    assert not row.button.isVisible()
    assert not button(dialog, "Check again").isEnabled(), (
        "a look beside it would find what is half done"
    )
    assert dialog._rows[AGENT].button.isEnabled()
    dialog.show_found(samples.found(AGENT), PLACEMENT)
    assert done(dialog) == ["Open MPI: gpu12 was set up"]
    assert dialog._title.text() == "1 problem prevents this job from starting"
    dialog.show_found(samples.found(), PLACEMENT)
    assert done(dialog) == ["Open MPI: gpu12 was set up", "Agent: gpu12 is OK now"]
    assert button(dialog, "Start on 16 GPUs").isVisible()
    assert button(dialog, "Start on 16 GPUs").text() == "Start on 16 GPUs"


def test_a_row_that_is_being_mended_goes_on_while_another_is_looked_at(
    dialog: PreflightDialog,
) -> None:
    dialog.show_found(samples.found(MPI, AGENT), PLACEMENT)
    dialog.show_fixing((MPI, AGENT))
    dialog.show_found(samples.found(MPI), PLACEMENT)
    assert dialog._rows[MPI].is_working


def test_what_cannot_be_mended_says_why_and_the_button_is_back(
    dialog: PreflightDialog, qtbot: QtBot
) -> None:
    dialog.show_found(samples.found(AGENT), PLACEMENT)
    qtbot.mouseClick(dialog._rows[AGENT].button, LEFT)
    dialog.show_fixing((AGENT,))
    dialog.show_not_repaired(AGENT, "The agent of gpu12 does not start.", "Set gpu12 up again.")
    row = dialog._rows[AGENT]
    assert row._remedy.text() == "The agent of gpu12 does not start. Set gpu12 up again."
    assert row.button.isVisible()
    dialog.show_found(samples.found(), PLACEMENT)
    assert done(dialog) == ["Agent: gpu12 is OK now"], "it was not the program that did it"


def test_what_only_goes_with_its_node_is_not_called_mended(
    dialog: PreflightDialog, qtbot: QtBot
) -> None:
    dialog.show_found(samples.found(MPI, ROOT), PLACEMENT)
    qtbot.mouseClick(dialog._rows[ROOT].button, LEFT)
    left = placement_after(PLACEMENT, ROOT)
    dialog.show_found(samples.found(placement=left), left)
    assert done(dialog) == ["Data root: gpu12 is left out of this job"]
    assert button(dialog, "Start on 8 GPUs").text() == "Start on 8 GPUs"


def test_mend_all_leaves_to_a_person_what_somebody_meant(
    dialog: PreflightDialog, qtbot: QtBot
) -> None:
    out = PreflightFinding(
        "node", False, "gpu12 is out of service.", "", ("gpu12",), Fix.PUT_INTO_SERVICE
    )
    dialog.show_found(samples.found(out, MPI, BUSY, AGENT), PLACEMENT)
    assert dialog._rows[out].button.text() == "Put into service"
    assert button(dialog, "Fix all 2").text() == "Fix all 2"
    with qtbot.waitSignal(dialog.fix_all_requested) as requested:
        qtbot.mouseClick(button(dialog, "Fix all 2"), LEFT)
    assert requested.args == [(MPI, AGENT)]


def test_a_hint_stops_nobody(dialog: PreflightDialog, qtbot: QtBot) -> None:
    dialog.show_found(samples.found(CLOCK), PLACEMENT)
    assert dialog._title.text() == "This job can start"
    with qtbot.waitSignal(dialog.start_requested):
        qtbot.mouseClick(button(dialog, "Start on 16 GPUs"), LEFT)


def test_a_fault_without_a_button_says_what_a_person_can_do(dialog: PreflightDialog) -> None:
    dialog.show_found(samples.found(FULL), PLACEMENT)
    row = dialog._rows[FULL]
    assert not row.button.isVisible()
    assert row._remedy.text() == "Free some space, or keep fewer checkpoints."
    assert not dialog._smaller.isVisible()


def test_a_look_can_be_cancelled_and_nothing_is_pressed_meanwhile(
    dialog: PreflightDialog, qtbot: QtBot
) -> None:
    dialog.show_found(samples.found(MPI), PLACEMENT)
    dialog.show_busy("Looking at gpu12")
    assert not button(dialog, "Check again").isEnabled()
    assert not dialog._rows[MPI].button.isEnabled()
    with qtbot.waitSignal(dialog.cancel_requested):
        qtbot.mouseClick(button(the(ProgressLine, dialog), "Cancel"), LEFT)
    dialog.show_busy("")
    assert dialog._rows[MPI].button.isEnabled()


def test_one_batch_is_tried_where_nothing_blocks_and_the_job_is_there(
    dialog: PreflightDialog, window: MainWindow, qtbot: QtBot
) -> None:
    dialog.show_found(samples.found(MPI), PLACEMENT)
    assert not button(dialog, "Try one batch").isVisible()
    dialog.show_found(samples.found(), PLACEMENT)
    with qtbot.waitSignal(dialog.canary_requested):
        qtbot.mouseClick(button(dialog, "Try one batch"), LEFT)
    dialog.show_canary(samples.BROKEN)
    assert dialog._trial_words.text().startswith("Rank 9 on gpu12: CUDA out of memory")
    assert "loss.backward()" in dialog._trace.text()
    assert dialog._title.text() == "One batch of this job could not be trained"
    dialog.show_found(samples.found(), PLACEMENT)
    assert not dialog._trial.isVisible(), "it was about what was before"
    unmade = PreflightDialog(False, window)
    unmade.show()
    unmade.show_found(samples.found(), PLACEMENT)
    assert not button(unmade, "Try one batch").isVisible()


def test_the_report_is_text_for_a_mail(dialog: PreflightDialog, qtbot: QtBot) -> None:
    dialog.show_found(samples.found(BUSY, CLOCK), PLACEMENT)
    qtbot.mouseClick(button(dialog, "Copy report"), LEFT)
    lines = QGuiApplication.clipboard().text().splitlines()
    assert lines[0] == "1 problem prevents this job from starting"
    assert lines[3].startswith("fault  GPUs (gpu12): GPU 5 of gpu12 is in use by alice")
    assert any(line.startswith("hint   Clock (gpu12)") for line in lines)
    assert lines[-1].startswith("passed SSH, host key")


def test_names_too_long_for_a_button_stay_off_it() -> None:
    found = samples.many(64)
    assert {words.button(finding) for finding in found.faults} == {"Set it up"}
    assert words.circumstances(found).startswith("Checked 8 points on 64 nodes in")


def test_four_findings_need_no_scrolling(dialog: PreflightDialog) -> None:
    dialog.show_found(samples.found(MPI, BUSY, ROOT, CLOCK), PLACEMENT)
    QApplication.processEvents()
    assert not dialog._scroll.verticalScrollBar().isVisible()
