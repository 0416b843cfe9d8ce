"""Add a node: faults while typing, and Enter alone never trusts a key."""

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtWidgets import QApplication, QPushButton

from backend.records.nodes.entry import HostKey, NodeAddress
from tests.windows import find_button, find_field, find_line, find_only, visible_texts
from widgets.common.buttons import Button
from widgets.common.dialog import TaskStatus
from widgets.common.fields import Field
from widgets.nodes.provisioning.add_node_dialog import (
    AddNodeDialog,
    NodeRequest,
    host_error,
    suggested_name,
)
from widgets.nodes.provisioning.host_key_pages import ChangedKeyPage, PassphrasePage, TrustPage

pytestmark = pytest.mark.usefixtures("theme_manager")
KEY = HostKey("gpu13", 22, "ssh-ed25519", "AAAA", "SHA256:k3J9wq7Y0sJm9TgR0ePZ")


@pytest.fixture
def dialog(qtbot):
    dialog = AddNodeDialog(("gpu07",))
    qtbot.addWidget(dialog)
    dialog.show()
    return dialog


@pytest.fixture
def connecting(dialog, qtbot):
    qtbot.keyClicks(find_line(dialog, "Host"), "gpu13")
    qtbot.keyClick(dialog, Qt.Key.Key_Return)
    assert find_only(TaskStatus, dialog).progress.isVisible()
    return dialog


def visible_buttons(dialog):
    return {b.text() for b in dialog.findChildren(Button) if b.isVisible() and b.text()}


def default_button(dialog):
    (button,) = (b for b in dialog.findChildren(QPushButton) if b.isVisible() and b.isDefault())
    return button


def test_an_empty_form_shows_no_error_and_cannot_connect(dialog):
    assert not find_button(dialog, "Connect").isEnabled()
    assert all(field.error() == "" for field in dialog.findChildren(Field))


def test_the_name_follows_the_host_until_the_user_types_one(dialog, qtbot):
    qtbot.keyClicks(find_line(dialog, "Host"), "gpu13.lab.org")
    assert "gpu13" in visible_texts(dialog)
    find_line(dialog, "Name").selectAll()
    qtbot.keyClicks(find_line(dialog, "Name"), "left")
    qtbot.keyClicks(find_line(dialog, "Host"), ".uk")
    assert "left" in visible_texts(dialog)


@pytest.mark.parametrize(
    ("host", "name"), [("gpu13", "gpu13"), ("10.0.4.23", "10.0.4.23"), ("a.b.c", "a"), ("", "")]
)
def test_the_dialog_suggests_a_name_for_a_node(host, name):
    assert suggested_name(host) == name


@pytest.mark.parametrize("host", ["mai@gpu13", "gpu 13", "-oProxyCommand=x", "ssh://gpu13", ""])
def test_an_invalid_host_has_a_fault(host):
    assert host_error(host)


@pytest.mark.parametrize(
    ("field", "text", "error"),
    [
        ("Name", "gpu07", "A node “gpu07” already exists."),
        ("Name", "GPU07", "A node “GPU07” already exists."),
        ("Port", "0", "Enter a port from 1 to 65535."),
        ("Port", "65536", "Enter a port from 1 to 65535."),
        ("Port", "٣", "Enter a port from 1 to 65535."),
        ("User", "-l x", "Enter it without spaces, and without - at the start."),
        ("Jump host", "a b", "Enter it without spaces, and without - at the start."),
    ],
)
def test_a_fault_stands_below_its_field_as_it_is_typed(dialog, qtbot, field, text, error):
    qtbot.keyClicks(find_line(dialog, "Host"), "gpu13")
    assert find_button(dialog, "Connect").isEnabled()
    find_button(dialog, "More").click()
    edit = find_line(dialog, field)
    edit.setText(text)  # a test's keyboard has no Arabic figures
    edit.textEdited.emit(text)
    assert find_field(dialog, field).error() == error
    assert not find_button(dialog, "Connect").isEnabled()


def test_the_address_equals_the_typed_one(dialog, qtbot):
    for field, text in (
        ("Host", " 10.0.4.23 "),
        ("Port", "2222"),
        ("User", "mai"),
        ("Key file", "/home/mai/.ssh/lab"),
        ("Jump host", "gate"),
        ("Data root on the node", "/srv/data"),
    ):
        qtbot.keyClicks(find_line(dialog, field), text)
    with qtbot.waitSignal(dialog.inspection_requested) as requested:
        qtbot.mouseClick(find_button(dialog, "Connect"), Qt.MouseButton.LeftButton)
    address = NodeAddress("10.0.4.23", 2222, "mai", "/home/mai/.ssh/lab", "gate")
    assert requested.args == [NodeRequest(address, "10.0.4.23", "/srv/data")]


def test_a_node_that_sees_no_data_root_is_asked_for_no_place_of_it(dialog, qtbot):
    qtbot.keyClicks(find_line(dialog, "Host"), "gpu13")
    find_button(dialog, "More").click()
    qtbot.keyClicks(find_line(dialog, "Data root on the node"), "data")
    assert not find_button(dialog, "Connect").isEnabled()
    qtbot.mouseClick(dialog.no_share, Qt.MouseButton.LeftButton)
    assert not find_field(dialog, "Data root on the node").isEnabled()
    with qtbot.waitSignal(dialog.inspection_requested) as requested:
        qtbot.mouseClick(find_button(dialog, "Connect"), Qt.MouseButton.LeftButton)
    assert requested.args == [NodeRequest(NodeAddress("gpu13"), "gpu13", no_share=True)]


def test_choices_without_effect_on_a_login_node_are_not_shown(dialog, qtbot):
    find_button(dialog, "More").click()
    switch = dialog.choices.switch("shared")
    qtbot.mouseClick(dialog.scheduler_switches["slurm"], Qt.MouseButton.LeftButton)
    assert not switch.isVisible()
    assert not dialog.no_share.isVisible()
    dialog.choices.switch("in_job").click()
    assert dialog.height() <= 600, "it does not fit a small screen"
    qtbot.mouseClick(dialog.scheduler_switches["slurm"], Qt.MouseButton.LeftButton)
    assert switch.isVisible()
    assert dialog.no_share.isVisible()


def test_a_job_for_the_environment_is_offered_on_login_nodes_of_slurm_only(dialog, qtbot):
    find_button(dialog, "More").click()
    switch, partition = dialog.choices.switch("in_job"), dialog.choices.partition
    assert not switch.isVisible()
    qtbot.mouseClick(dialog.scheduler_switches["slurm"], Qt.MouseButton.LeftButton)
    assert switch.isVisible()
    assert not partition.isVisible()
    qtbot.mouseClick(switch, Qt.MouseButton.LeftButton)
    qtbot.keyClicks(partition, "a100")
    options = dialog.choices.options()
    assert (options.in_job, options.partition) == (True, "a100")
    qtbot.mouseClick(switch, Qt.MouseButton.LeftButton)
    assert dialog.choices.options().partition == ""
    qtbot.mouseClick(dialog.scheduler_switches["slurm"], Qt.MouseButton.LeftButton)
    assert not switch.isVisible()


def test_the_form_waits_while_the_dialog_connects_and_cancel_leads_back_to_it(connecting, qtbot):
    assert find_only(TaskStatus, connecting).progress.isVisible()
    assert not find_line(connecting, "Host").isEnabled()
    with qtbot.waitSignal(connecting.cancelled):
        qtbot.mouseClick(find_button(connecting, "Cancel"), Qt.MouseButton.LeftButton)
    assert connecting.isVisible()
    assert find_line(connecting, "Host").isEnabled()
    assert "gpu13" in visible_texts(connecting)


def test_closing_the_dialog_while_it_connects_cancels(connecting, qtbot):
    with qtbot.waitSignal(connecting.cancelled):
        connecting.close()


def test_a_new_key_shows_its_fingerprint_and_enter_does_not_trust_it(connecting, qtbot):
    connecting.ask_trust(KEY)
    assert find_only(TrustPage, connecting).fingerprint.text() == KEY.fingerprint
    assert find_only(TrustPage, connecting).fingerprint.isVisible()
    assert default_button(connecting).text() == "Do not trust"
    # A button with the focus is the default for that time; so check without one, too.
    find_only(TrustPage, connecting).fingerprint.setFocus()
    assert default_button(connecting).text() == "Do not trust"
    with (
        qtbot.assertNotEmitted(connecting.key_trusted),
        qtbot.waitSignal(connecting.cancelled),
    ):
        qtbot.keyClick(connecting, Qt.Key.Key_Return)
    assert find_line(connecting, "Host").isVisible()


def test_trust_is_given_by_its_own_button(connecting, qtbot):
    connecting.ask_trust(KEY)
    with qtbot.waitSignal(connecting.key_trusted) as signal:
        qtbot.mouseClick(find_only(TrustPage, connecting).trust, Qt.MouseButton.LeftButton)
    assert signal.args == [KEY]
    assert find_only(TaskStatus, connecting).progress.isVisible()


def test_a_changed_key_can_only_be_closed(connecting, qtbot):
    connecting.show_changed_key(KEY, "SHA256:old")
    assert visible_buttons(connecting) == {"Close"}
    assert KEY.fingerprint in visible_texts(find_only(ChangedKeyPage, connecting))
    with qtbot.waitSignals([connecting.cancelled, connecting.rejected]):
        qtbot.keyClick(connecting, Qt.Key.Key_Return)
    assert not connecting.isVisible()


def test_a_passphrase_is_hidden_given_once_and_forgotten(connecting, qtbot):
    connecting.ask_passphrase("Passphrase for ~/.ssh/id_ed25519")
    edit = find_only(PassphrasePage, connecting).edit
    assert edit.echoMode() is edit.EchoMode.Password
    assert not find_only(PassphrasePage, connecting).default.isEnabled()
    qtbot.keyClicks(edit, "s3cret")
    with qtbot.waitSignal(connecting.passphrase_given) as signal:
        qtbot.keyClick(connecting, Qt.Key.Key_Return)
    assert signal.args == ["s3cret", False]
    assert edit.text() == ""
    connecting.ask_passphrase("Passphrase for ~/.ssh/id_ed25519", "That is not its passphrase.")
    assert find_only(PassphrasePage, connecting).field.error() == "That is not its passphrase."


def test_a_refusal_stands_beside_its_field_until_that_is_changed(connecting, qtbot):
    connecting.show_refusal("user", "gpu13 refuses logins as “mai”.", "Choose a key file.")
    assert (
        find_field(connecting, "User").error()
        == "gpu13 refuses logins as “mai”. Choose a key file."
    )
    assert find_button(connecting, "Connect").isEnabled(), "it may be tried again as it is"
    assert not find_only(TaskStatus, connecting).message.isVisible()
    qtbot.keyClicks(find_line(connecting, "User"), "x")
    assert find_field(connecting, "User").error() == ""


def test_a_refusal_of_a_hidden_field_shows_the_field(connecting):
    connecting.show_refusal("jump", "The gateway did not answer.")
    assert find_line(connecting, "Jump host").isVisible()
    assert find_field(connecting, "Jump host").error() == "The gateway did not answer."


def test_a_refusal_without_a_field_stands_above_the_buttons(connecting):
    connecting.show_refusal("", "gpu13 did not answer for 10 s.", "Is it switched on?")
    assert find_only(TaskStatus, connecting).message.isVisible()
    assert (
        find_only(TaskStatus, connecting).message.text()
        == "gpu13 did not answer for 10 s. Is it switched on?"
    )


@pytest.mark.parametrize(
    "message",
    [
        "No.",
        "gpu13 did not answer for 10 s.",
        "gpu13 did not answer for 10 s. Is it switched on?",
        "gpu13 refuses logins.",
        "“gpu13” is no host that this computer knows. Check the spelling, or enter its address.",
        "The connection to gpu13 was closed while its hardware was read. Try it again.",
    ],
)
def test_neither_progress_nor_a_refusal_moves_the_buttons(dialog, qtbot, message):
    def positions():
        QApplication.processEvents()
        return dialog.height(), find_button(dialog, "Connect").mapTo(dialog, QPoint(0, 0)).y()

    previous_positions = positions()
    dialog.show_progress("Connecting to gpu13")
    assert positions() == previous_positions
    dialog.show_refusal("", message)
    assert positions() == previous_positions


def test_the_dialog_is_as_high_as_its_contents(connecting):
    connecting.ask_passphrase("Passphrase")
    passphrase_h = connecting.height()
    connecting.show_refusal("", "No.")
    assert connecting.height() > passphrase_h
