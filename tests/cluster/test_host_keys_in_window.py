"""Host keys that were not accepted, met in the window on nodes whose sshd shows them for real."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QPushButton
from pytestqt.qtbot import QtBot

from app.main.bootstrap import Program
from backend.records.base.program_name import host_key_removal_command
from backend.records.nodes.entry import SetUp
from tests.cluster.faults import SEEDED_FAULTS
from tests.cluster.ready import ReadyCluster
from tests.programs import services_of
from widgets.nodes.provisioning.progress_dialog import SetUpDialog

pytestmark = pytest.mark.slow

LEFT_BUTTON = Qt.MouseButton.LeftButton


@pytest.fixture
def dialog(program: Program, ready_cluster: ReadyCluster, qtbot: QtBot) -> Iterator[SetUpDialog]:
    """The set-up of node2, begun while its sshd shows another key than it did."""
    with SEEDED_FAULTS["host_key_changed"].seed(ready_cluster, "node2"):
        program.window.open_page("nodes")
        qtbot.waitUntil(lambda: "node2" in program.nodes._states)
        yield started_dialog(program, qtbot)


def started_dialog(program: Program, qtbot: QtBot) -> SetUpDialog:
    """A ready node is set up once more, as it is."""
    set_ups = program._node_controller.provisioning
    set_ups.set_up("node2")
    qtbot.waitUntil(lambda: set_ups.dialog is not None)
    assert set_ups.dialog is not None
    qtbot.mouseClick(set_ups.dialog._set_up_button, LEFT_BUTTON)
    qtbot.waitUntil(lambda: set_ups._steps_dialog is not None)
    assert set_ups._steps_dialog is not None
    return set_ups._steps_dialog


def is_ready(update: SetUp) -> bool:
    return update.is_over and update.failed_step is None


def fingerprint(ready: ReadyCluster) -> str:
    """Return the fingerprint that the administrator of node2 reads on that node."""
    fingerprint_line = ready["node2"].run_as_root(
        "ssh-keygen", "-lf", "/etc/ssh/ssh_host_ed25519_key.pub"
    )
    return fingerprint_line.split()[1]


def buttons(dialog: SetUpDialog) -> list[str]:
    return [widget.text() for widget in dialog.findChildren(QPushButton) if widget.isVisible()]


def test_f55_f56_a_changed_key_is_refused_until_the_old_one_is_removed_by_name(
    program: Program, ready_cluster: ReadyCluster, dialog: SetUpDialog, qtbot: QtBot
) -> None:
    key_panel, cluster = dialog._key_plate, services_of(program).cluster
    host = ready_cluster.cluster.address_of("node2")
    previous_key = cluster.host_key("node2")
    qtbot.waitUntil(key_panel.changed_key_page.isVisible)
    assert key_panel.changed_key_page._current_key.text() == fingerprint(ready_cluster)
    assert key_panel.changed_key_page._command.text() == host_key_removal_command(host, 22)
    assert buttons(dialog) == ["Close"]
    qtbot.mouseClick(key_panel.changed_key_page.default, LEFT_BUTTON)
    assert cluster.host_key("node2") == previous_key

    cluster.remove_host_key(host)
    key_panel = started_dialog(program, qtbot)._key_plate
    qtbot.waitUntil(key_panel.trust_page.isVisible)
    assert key_panel.trust_page.fingerprint.text() == fingerprint(ready_cluster)
    assert cluster.host_key("node2") == "", "it was shown, and is not accepted yet"
    qtbot.mouseClick(key_panel.trust_page.trust, LEFT_BUTTON)
    qtbot.waitUntil(lambda: is_ready(program.nodes._set_ups["node2"]))
    assert cluster.host_key("node2") not in ("", previous_key)
