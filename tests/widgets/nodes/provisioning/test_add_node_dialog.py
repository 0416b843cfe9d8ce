"""Add a node: faults while typing, and Enter alone never trusts a key."""

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtWidgets import QApplication, QPushButton

from backend.records.nodes.entry import HostKey, NodeAddress
from tests.windows import button, field_of, line_of, texts, the
from widgets.common.buttons import Button
from widgets.common.fields import Field
from widgets.common.task_status import TaskStatus
from widgets.nodes.provisioning.add_node_dialog import (
    AddNodeDialog,
    NodeRequest,
    host_fault,
    suggested_name,
)
from widgets.nodes.provisioning.host_key_pages import ChangedKeyPage, PassphrasePage, TrustPage

pytestmark = pytest.mark.usefixtures("look")
KEY = HostKey("gpu13", 22, "ssh-ed25519", "AAAA", "SHA256:k3J9wq7Y0sJm9TgR0ePZ")


@pytest.fixture
def dialog(qtbot):
    dialog = AddNodeDialog(("gpu07",))
    qtbot.addWidget(dialog)
    dialog.show()
    return dialog


@pytest.fixture
def looking(dialog, qtbot):
    qtbot.keyClicks(line_of(dialog, "Host"), "gpu13")
    qtbot.keyClick(dialog, Qt.Key.Key_Return)
    assert the(TaskStatus, dialog).progress.isVisible()
    return dialog


def seen(dialog):
    return {b.text() for b in dialog.findChildren(Button) if b.isVisible() and b.text()}


def default(dialog):
    (found,) = (b for b in dialog.findChildren(QPushButton) if b.isVisible() and b.isDefault())
    return found


def test_an_empty_form_shows_no_error_and_cannot_connect(dialog):
    assert not button(dialog, "Connect").isEnabled()
    assert all(field.error() == "" for field in dialog.findChildren(Field))


def test_the_name_follows_the_host_until_the_user_types_one(dialog, qtbot):
    qtbot.keyClicks(line_of(dialog, "Host"), "gpu13.lab.org")
    assert "gpu13" in texts(dialog)
    line_of(dialog, "Name").selectAll()
    qtbot.keyClicks(line_of(dialog, "Name"), "left")
    qtbot.keyClicks(line_of(dialog, "Host"), ".uk")
    assert "left" in texts(dialog)


@pytest.mark.parametrize(
    ("host", "name"), [("gpu13", "gpu13"), ("10.0.4.23", "10.0.4.23"), ("a.b.c", "a"), ("", "")]
)
def test_what_a_node_is_called(host, name):
    assert suggested_name(host) == name


@pytest.mark.parametrize("host", ["mai@gpu13", "gpu 13", "-oProxyCommand=x", "ssh://gpu13", ""])
def test_what_is_no_host(host):
    assert host_fault(host)


@pytest.mark.parametrize(
    ("field", "text", "fault"),
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
def test_a_fault_stands_below_its_field_as_it_is_typed(dialog, qtbot, field, text, fault):
    qtbot.keyClicks(line_of(dialog, "Host"), "gpu13")
    assert button(dialog, "Connect").isEnabled()
    button(dialog, "More").click()
    edit = line_of(dialog, field)
    edit.setText(text)  # a test's keyboard has no Arabic figures
    edit.textEdited.emit(text)
    assert field_of(dialog, field).error() == fault
    assert not button(dialog, "Connect").isEnabled()


def test_the_address_is_what_was_typed(dialog, qtbot):
    for field, text in (
        ("Host", " 10.0.4.23 "),
        ("Port", "2222"),
        ("User", "mai"),
        ("Key file", "/home/mai/.ssh/lab"),
        ("Jump host", "gate"),
        ("Data root on the node", "/srv/data"),
    ):
        qtbot.keyClicks(line_of(dialog, field), text)
    with qtbot.waitSignal(dialog.inspection_requested) as requested:
        qtbot.mouseClick(button(dialog, "Connect"), Qt.MouseButton.LeftButton)
    address = NodeAddress("10.0.4.23", 2222, "mai", "/home/mai/.ssh/lab", "gate")
    assert requested.args == [NodeRequest(address, "10.0.4.23", "/srv/data")]


def test_a_node_that_sees_no_data_root_is_asked_for_no_place_of_it(dialog, qtbot):
    qtbot.keyClicks(line_of(dialog, "Host"), "gpu13")
    button(dialog, "More").click()
    qtbot.keyClicks(line_of(dialog, "Data root on the node"), "data")
    assert not button(dialog, "Connect").isEnabled()
    qtbot.mouseClick(dialog.no_share, Qt.MouseButton.LeftButton)
    assert not field_of(dialog, "Data root on the node").isEnabled()
    with qtbot.waitSignal(dialog.inspection_requested) as requested:
        qtbot.mouseClick(button(dialog, "Connect"), Qt.MouseButton.LeftButton)
    assert requested.args == [NodeRequest(NodeAddress("gpu13"), "gpu13", no_share=True)]


def test_while_it_looks_the_form_waits_and_cancel_leads_back_to_it(looking, qtbot):
    assert the(TaskStatus, looking).progress.isVisible()
    assert not line_of(looking, "Host").isEnabled()
    with qtbot.waitSignal(looking.cancelled):
        qtbot.mouseClick(button(looking, "Cancel"), Qt.MouseButton.LeftButton)
    assert looking.isVisible()
    assert line_of(looking, "Host").isEnabled()
    assert "gpu13" in texts(looking)


def test_closing_while_it_looks_cancels(looking, qtbot):
    with qtbot.waitSignal(looking.cancelled):
        looking.close()


def test_a_new_key_shows_its_fingerprint_and_enter_does_not_trust_it(looking, qtbot):
    looking.ask_trust(KEY)
    assert the(TrustPage, looking).fingerprint.text() == KEY.fingerprint
    assert the(TrustPage, looking).fingerprint.isVisible()
    assert default(looking).text() == "Do not trust"
    # A button with the focus is the default for that time; so look without one, too.
    the(TrustPage, looking).fingerprint.setFocus()
    assert default(looking).text() == "Do not trust"
    with (
        qtbot.assertNotEmitted(looking.trusted),
        qtbot.waitSignal(looking.cancelled),
    ):
        qtbot.keyClick(looking, Qt.Key.Key_Return)
    assert line_of(looking, "Host").isVisible()


def test_trust_is_given_by_its_own_button(looking, qtbot):
    looking.ask_trust(KEY)
    with qtbot.waitSignal(looking.trusted) as given:
        qtbot.mouseClick(the(TrustPage, looking).trust, Qt.MouseButton.LeftButton)
    assert given.args == [KEY]
    assert the(TaskStatus, looking).progress.isVisible()


def test_a_changed_key_can_only_be_closed(looking, qtbot):
    looking.show_changed_key(KEY, "SHA256:old")
    assert seen(looking) == {"Close"}
    assert KEY.fingerprint in texts(the(ChangedKeyPage, looking))
    with qtbot.waitSignals([looking.cancelled, looking.rejected]):
        qtbot.keyClick(looking, Qt.Key.Key_Return)
    assert not looking.isVisible()


def test_a_passphrase_is_hidden_given_once_and_forgotten(looking, qtbot):
    looking.ask_passphrase("Passphrase for ~/.ssh/id_ed25519")
    edit = the(PassphrasePage, looking).edit
    assert edit.echoMode() is edit.EchoMode.Password
    assert not the(PassphrasePage, looking).default.isEnabled()
    qtbot.keyClicks(edit, "s3cret")
    with qtbot.waitSignal(looking.passphrase_given) as given:
        qtbot.keyClick(looking, Qt.Key.Key_Return)
    assert given.args == ["s3cret", False]
    assert edit.text() == ""
    looking.ask_passphrase("Passphrase for ~/.ssh/id_ed25519", "That is not its passphrase.")
    assert the(PassphrasePage, looking).field.error() == "That is not its passphrase."


def test_a_refusal_stands_beside_its_field_until_that_is_changed(looking, qtbot):
    looking.show_refusal("user", "gpu13 refuses logins as “mai”.", "Choose a key file.")
    assert field_of(looking, "User").error() == "gpu13 refuses logins as “mai”. Choose a key file."
    assert button(looking, "Connect").isEnabled(), "it may be tried again as it is"
    assert not the(TaskStatus, looking).message.isVisible()
    qtbot.keyClicks(line_of(looking, "User"), "x")
    assert field_of(looking, "User").error() == ""


def test_a_refusal_of_what_is_hidden_shows_it(looking):
    looking.show_refusal("jump", "The gateway did not answer.")
    assert line_of(looking, "Jump host").isVisible()
    assert field_of(looking, "Jump host").error() == "The gateway did not answer."


def test_a_refusal_that_is_about_no_field_stands_above_the_buttons(looking):
    looking.show_refusal("", "gpu13 did not answer for 10 s.", "Is it switched on?")
    assert the(TaskStatus, looking).message.isVisible()
    assert (
        the(TaskStatus, looking).message.text()
        == "gpu13 did not answer for 10 s. Is it switched on?"
    )


@pytest.mark.parametrize(
    "sentence",
    [
        "No.",
        "gpu13 did not answer for 10 s.",
        "gpu13 did not answer for 10 s. Is it switched on?",
        "gpu13 refuses logins.",
        "“gpu13” is no host that this computer knows. Check the spelling, or enter its address.",
        "The connection to gpu13 was closed while its hardware was read. Try it again.",
    ],
)
def test_neither_progress_nor_a_refusal_moves_the_buttons(dialog, qtbot, sentence):
    def places():
        QApplication.processEvents()
        return dialog.height(), button(dialog, "Connect").mapTo(dialog, QPoint(0, 0)).y()

    before = places()
    dialog.show_progress("Connecting to gpu13")
    assert places() == before
    dialog.show_refusal("", sentence)
    assert places() == before


def test_the_dialog_is_as_high_as_what_it_shows(looking):
    looking.ask_passphrase("Passphrase")
    low = looking.height()
    looking.show_refusal("", "No.")
    assert looking.height() > low
