"""Setting up nodes: each step in a line, the live one with its last words, several side by side."""

import time
from dataclasses import replace

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QPushButton

from backend.records.nodes.entry import SetUp, SetUpStep, StepState
from tests.widgets.nodes.provisioning.test_add_node_dialog import KEY, default_button
from tests.windows import find_button, find_only, shows_text, visible_texts
from widgets.nodes.provisioning.host_key_pages import KeyPlate, TrustedKey
from widgets.nodes.provisioning.progress_dialog import SetUpDialog
from widgets.nodes.provisioning.step_list import STEPS, SetUpView, last_lines, step_time

pytestmark = pytest.mark.usefixtures("theme_manager")
DONE, RUNNING, FAILED = StepState.DONE, StepState.RUNNING, StepState.FAILED
OUTPUT = "Building …\n\n[ 40%] a\r[ 61%] Building b\n\x1b[31mlast\x1b[0m\n"


def set_up(node="gpu13", index=4, state=RUNNING, **changes):
    """Steps before `at` are done, that one is in `state`."""
    return SetUp(
        node,
        tuple(
            SetUpStep(title, DONE, f"{title} is fine", seconds=2.0)
            if n < index
            else SetUpStep(title, state, **changes)
            if n == index
            else SetUpStep(title)
            for n, title in enumerate(STEPS)
        ),
    )


RUNNING_SET_UP = set_up(message="building", output=OUTPUT, seconds=108.0)
FAILED_SET_UP = set_up(
    state=FAILED, message="cmake was not found.", remedy="Install it.", output=OUTPUT, seconds=9.0
)
READY_SET_UP = set_up(index=7)
GIVEN_UP = set_up(state=StepState.CANCELLED, message="Cancelled.", output=OUTPUT, seconds=9.0)


@pytest.fixture
def dialog(qtbot):
    dialog = SetUpDialog()
    qtbot.addWidget(dialog)
    dialog.show()
    return dialog


def test_the_plan_is_shown_before_the_set_up_begins(dialog):
    dialog.show_set_up(SetUp("gpu13"), "mai@10.0.4.23")
    assert [find_only(SetUpView, dialog).step(title)._message.text() for title in STEPS] == list(
        STEPS.values()
    )
    assert "mai@10.0.4.23" in visible_texts(dialog)
    assert "Not started." in visible_texts(dialog)


@pytest.mark.parametrize("update", [RUNNING_SET_UP, FAILED_SET_UP])
def test_the_first_steps_replace_the_plan_at_once(dialog, update):
    dialog.show_set_up(SetUp("gpu13"))
    dialog.show_set_up(update)
    assert list(find_only(SetUpView, dialog)._views) == list(STEPS)
    assert not find_only(SetUpView, dialog).step("PyTorch").details.isHidden()
    assert find_only(SetUpView, dialog).step("Reach")._time.text()


def test_the_trusted_host_key_stands_above_the_steps(dialog):
    dialog.show_set_up(RUNNING_SET_UP)
    assert not find_only(TrustedKey, dialog).isVisible()
    dialog.show_set_up(replace(RUNNING_SET_UP, trusted_fingerprint=KEY.fingerprint))
    assert find_only(TrustedKey, dialog).isVisible()
    assert KEY.fingerprint in visible_texts(find_only(TrustedKey, dialog))
    dialog.show_set_up(
        replace(
            RUNNING_SET_UP,
            trusted_fingerprint="SHA256:old",
            key=KEY,
            accepted_fingerprint="SHA256:old",
        )
    )
    assert not find_only(TrustedKey, dialog).isVisible(), "that one is in question"


def test_the_live_step_shows_its_last_two_lines_and_goes_on_counting(dialog, monkeypatch):
    shown_s = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: shown_s)
    dialog.show_set_up(RUNNING_SET_UP)
    step = find_only(SetUpView, dialog).step("PyTorch")
    assert step.details._shown_lines == ["[ 61%] Building b", "last"]
    assert "1:48" in visible_texts(step)
    monkeypatch.setattr(time, "monotonic", lambda: shown_s + 30)
    find_only(SetUpView, dialog)._tick()
    assert "2:18" in visible_texts(step)
    assert shows_text(find_only(SetUpView, dialog).step("Reach"), "2.0 s")
    assert find_only(SetUpView, dialog).step("Reach").details is None


def test_a_failed_step_opens_with_cause_remedy_and_a_way_on(dialog, qtbot):
    dialog.show_set_up(FAILED_SET_UP)
    step = find_only(SetUpView, dialog).step("PyTorch")
    qtbot.waitUntil(step.details.cause.isVisible)
    assert (step.details.cause.text(), step.details.remedy.text()) == (
        "cmake was not found.",
        "Install it.",
    )
    with qtbot.waitSignal(dialog.retry_requested) as requested:
        qtbot.mouseClick(step.details.retry, Qt.MouseButton.LeftButton)
    assert requested.args == ["gpu13", "PyTorch"]
    qtbot.mouseClick(step.details.copy, Qt.MouseButton.LeftButton)
    assert "[ 61%] Building b" in QGuiApplication.clipboard().text()
    assert "\x1b" not in QGuiApplication.clipboard().text()
    assert not find_button(dialog, "Cancel").isVisible()


def test_a_failed_node_can_be_set_up_with_other_options(dialog, qtbot):
    dialog.show_set_up(RUNNING_SET_UP)
    assert not find_button(dialog, "Options…").isVisible()
    dialog.show_set_up(FAILED_SET_UP)
    with qtbot.waitSignal(dialog.choices_requested) as requested:
        qtbot.mouseClick(find_button(dialog, "Options…"), Qt.MouseButton.LeftButton)
    assert requested.args == ["gpu13"]


def test_a_retry_closes_the_failed_step(dialog):
    dialog.show_set_up(FAILED_SET_UP)
    dialog.show_set_up(RUNNING_SET_UP)
    step = find_only(SetUpView, dialog).step("PyTorch")
    assert not step.details.cause.isVisible()
    assert not step.details.retry.isVisible()
    assert find_button(dialog, "Cancel").isVisible()


def test_the_dialog_grows_for_a_failed_step(dialog, qtbot):
    dialog.show_set_up(READY_SET_UP)
    ready_h = dialog.height()
    dialog.show_set_up(FAILED_SET_UP)
    qtbot.waitUntil(lambda: dialog.height() > ready_h)


def test_steps_that_fit_do_not_scroll(dialog, qtbot):
    dialog.show_set_up(FAILED_SET_UP)
    bar = dialog._scroll.verticalScrollBar()
    qtbot.waitUntil(lambda: find_only(SetUpView, dialog).height() > 0 and bar.maximum() == 0)


def test_a_question_about_a_key_is_no_higher_than_it_is_long(dialog, qtbot):
    dialog.show_set_up(RUNNING_SET_UP)
    steps_h = dialog.height()
    dialog.show_set_up(replace(set_up(index=0, state=FAILED, message="Unknown."), key=KEY))
    assert dialog.height() < steps_h
    dialog.show_set_up(RUNNING_SET_UP)
    assert dialog.height() >= steps_h


def test_nodes_of_one_domain_are_written_without_it(dialog):
    for name in ("gpu13.lab.example.org", "gpu14.lab.example.org"):
        dialog.show_set_up(replace(RUNNING_SET_UP, node=name))
    assert [tab._title for tab in dialog._tabs.values()] == ["gpu13", "gpu14"]
    dialog.show_set_up(replace(RUNNING_SET_UP, node="gpu13.other.example.org"))
    assert [tab._title for tab in dialog._tabs.values()] == list(dialog._tabs)


def test_a_ready_node_can_be_opened(dialog, qtbot):
    dialog.show_set_up(READY_SET_UP)
    assert "Ready." in visible_texts(dialog)
    assert "Close" in visible_texts(dialog)
    with qtbot.waitSignal(dialog.node_opened) as signal:
        qtbot.mouseClick(find_button(dialog, "Show node"), Qt.MouseButton.LeftButton)
    assert signal.args == ["gpu13"]
    assert not dialog.isVisible()


@pytest.mark.parametrize("method", ["button", "escape", "cross"])
def test_closing_cancels_nothing(dialog, qtbot, method):
    dialog.show_set_up(RUNNING_SET_UP)
    assert find_button(dialog, "Continue in the background").text() == "Continue in the background"
    with qtbot.assertNotEmitted(dialog.cancel_requested):
        if method == "button":
            qtbot.mouseClick(
                find_button(dialog, "Continue in the background"), Qt.MouseButton.LeftButton
            )
        elif method == "escape":
            qtbot.keyClick(dialog, Qt.Key.Key_Escape)
        else:
            dialog.close()
    assert not dialog.isVisible()
    dialog.show()
    dialog.show_set_up(READY_SET_UP)
    assert "Ready." in visible_texts(dialog)


def test_cancel_ends_the_set_up_of_the_shown_node(dialog, qtbot):
    dialog.show_set_up(RUNNING_SET_UP)
    dialog.show_set_up(set_up("gpu14"))
    dialog.select_node("gpu14")
    with qtbot.waitSignal(dialog.cancel_requested) as requested:
        qtbot.mouseClick(find_button(dialog, "Cancel"), Qt.MouseButton.LeftButton)
    assert requested.args == ["gpu14"]


def test_several_nodes_stand_side_by_side(dialog, qtbot):
    dialog.show_set_up(RUNNING_SET_UP)
    assert not dialog._tab_scroll.isVisible()
    dialog.show_set_up(SetUp("gpu14", FAILED_SET_UP.steps))
    dialog.show_set_up(SetUp("gpu15", READY_SET_UP.steps))
    dialog.show_set_up(SetUp("gpu16"))
    assert dialog._tab_scroll.isVisible()
    assert dialog.selected_node == "gpu13", "updates of other nodes do not change the choice"
    assert "1 of 4 nodes are ready, 1 failed." in visible_texts(dialog)
    assert dialog._tabs["gpu13"].accessibleName() == "gpu13, PyTorch, 5 of 7"
    assert dialog._tabs["gpu14"].accessibleName() == "gpu14, PyTorch failed"
    qtbot.mouseClick(dialog._tabs["gpu14"], Qt.MouseButton.LeftButton)
    assert dialog.selected_node == "gpu14"
    qtbot.waitUntil(find_only(SetUpView, dialog).step("PyTorch").details.retry.isVisible)


def test_a_removed_node_leaves_the_dialog(dialog):
    dialog.show_set_up(RUNNING_SET_UP)
    dialog.show_set_up(set_up("gpu14"))
    dialog.remove_node("gpu13")
    assert dialog.selected_node == "gpu14"
    dialog.remove_node("gpu14")
    assert not dialog.isVisible()
    dialog.remove_node("never there")


def test_last_lines_are_those_that_say_something():
    assert last_lines("a\n\n  \nb\n\n", 2) == ["a", "b"]
    assert last_lines("", 2) == []


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.4, "0.4 s"), (1.0, "1.0 s"), (14.2, "14 s"), (108.0, "1:48"), (3725.0, "1:02:05")],
)
def test_times_of_steps(seconds, text):
    assert step_time(seconds).replace("\xa0", " ") == text


UNKNOWN_KEY = replace(set_up(index=0, state=FAILED, message="Its key is unknown."), key=KEY)
CHANGED_KEY = replace(UNKNOWN_KEY, accepted_fingerprint="SHA256:old")


def test_f56_enter_does_not_trust_a_key_that_a_set_up_met(dialog, qtbot):
    dialog.show_set_up(UNKNOWN_KEY)
    assert "Is this gpu13?" in visible_texts(dialog)
    assert not dialog._scroll.isVisible()
    assert default_button(dialog).text() == "Do not trust"
    find_only(KeyPlate, dialog).trust_page.fingerprint.setFocus()
    assert default_button(dialog).text() == "Do not trust"
    with qtbot.assertNotEmitted(dialog.key_trusted):
        qtbot.keyClick(dialog, Qt.Key.Key_Return)
    assert "Set up gpu13" in visible_texts(dialog)
    assert default_button(dialog).text() == "Close"


def test_trust_is_given_by_its_own_button_alone(dialog, qtbot):
    dialog.show_set_up(UNKNOWN_KEY)
    with qtbot.waitSignal(dialog.key_trusted) as signal:
        qtbot.mouseClick(find_only(KeyPlate, dialog).trust_page.trust, Qt.MouseButton.LeftButton)
    assert signal.args == ["gpu13", KEY]


def test_f55_a_changed_key_offers_only_close(dialog):
    dialog.show_set_up(CHANGED_KEY)
    assert "The key of gpu13 changed" in visible_texts(dialog)
    visible_buttons = [b.text() for b in dialog.findChildren(QPushButton) if b.isVisible()]
    assert visible_buttons == ["Close"]
    assert default_button(dialog).text() == "Close"


def test_only_the_node_with_the_unknown_key_waits_for_an_answer(dialog):
    dialog.show_set_up(RUNNING_SET_UP)
    dialog.show_set_up(replace(UNKNOWN_KEY, node="gpu14"))
    assert dialog._scroll.isVisible()
    dialog.select_node("gpu14")
    assert not dialog._scroll.isVisible()
    assert "Host key unknown" in dialog._tabs["gpu14"].accessibleName()
    dialog.select_node("gpu13")
    assert find_button(dialog, "Cancel").isVisible()
    assert not find_only(KeyPlate, dialog).isVisible()
    assert "0 of 2 nodes are ready, 1 waiting for an answer." in visible_texts(dialog)
