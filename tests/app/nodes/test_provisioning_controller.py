"""Setting nodes up from the window: asked where there is a choice, begun at once where it fits."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from app.nodes.provisioning_controller import ProvisioningController
from backend.base.errors import BackendError
from backend.records.nodes.entry import SetUp, SetUpStep, StepState
from backend.records.nodes.provisioning_options import SYSTEM_MPI, SetUpOptions
from backend.ssh.interface import HostKeyChanged, HostKeyUnknown
from tests.widgets.nodes.provisioning.test_add_node_dialog import KEY
from tests.widgets.nodes.provisioning.test_reprovision_dialog import node
from tests.windows import find_button, find_only, visible_window, visible_windows
from widgets.nodes.page.nodes_page import NodesPage
from widgets.nodes.provisioning.host_key_pages import KeyPlate
from widgets.nodes.provisioning.progress_dialog import SetUpDialog
from widgets.nodes.provisioning.reprovision_dialog import SetUpAgainDialog
from widgets.nodes.provisioning.step_list import SetUpView

SYSTEM_OPTIONS = SetUpOptions(system_mpi=True)


class FakeProvisioning:
    """Records the requests; each set-up fails at its second step, or could not begin."""

    def __init__(self):
        self.starts = []
        self.refusal = None
        self.key = None
        self.accepted = ""
        self.cancel_checks = {}

    def bundled_mpi_version(self):
        return "5.0.11"

    def set_up(self, names, on_change, cancelled, options):
        if self.refusal is not None:
            raise self.refusal
        self.starts.append((tuple(names), options))
        for name in names:
            self.cancel_checks[name] = cancelled
            failed = SetUpStep("Inspect", StepState.FAILED, "It has no Python.")
            steps = (SetUpStep("Reach", StepState.DONE), failed)
            if self.key is not None:
                steps = (SetUpStep("Reach", StepState.FAILED, "Its key is unknown."),)
            on_change(SetUp(name, steps, self.key, self.accepted))


class Cluster:
    def __init__(self):
        self.entries = (node("gpu1"), node("gpu2"), node("gpu3", is_ready=False))
        self.inspected = []
        self.accepted_keys = []
        self.refusal = None

    def accept_key(self, key):
        self.accepted_keys.append(key)
        self.refusal = None

    def list(self):
        return self.entries

    def inspect(self, name):
        self.inspected.append(name)
        if self.refusal is not None:
            raise self.refusal


@pytest.fixture
def provisioning():
    return FakeProvisioning()


@pytest.fixture
def cluster():
    return Cluster()


@pytest.fixture
def controller(provisioning, cluster, immediately, qtbot):
    page = NodesPage()
    qtbot.addWidget(page)
    services = SimpleNamespace(cluster=cluster, provisioning=provisioning)
    controller = ProvisioningController(services, immediately, page, page)
    yield controller
    controller.stop()


def test_a_new_node_that_fits_is_set_up_at_once_as_the_others_are(controller, provisioning):
    controller.set_up("gpu3")
    assert provisioning.starts == [(("gpu3",), SetUpOptions())]
    assert not visible_windows(SetUpAgainDialog)


def test_a_choice_that_does_not_fit_is_asked_for_before_anything_begins(controller, provisioning):
    controller.set_up_added("gpu3", SYSTEM_OPTIONS)
    assert provisioning.starts == []
    dialog = visible_window(SetUpAgainDialog)
    assert "gpu1 and gpu2 have 5.0.11" in dialog.choices.hint_text(SYSTEM_MPI)
    dialog.choices.switch(SYSTEM_MPI).click()
    find_button(dialog, "Set up").click()
    assert provisioning.starts == [(("gpu3",), SetUpOptions())]


def test_the_dialog_keeps_the_options_of_nodes_and_sets_several_up_together(
    controller, provisioning
):
    controller.set_up("gpu1")
    dialog = visible_window(SetUpAgainDialog)
    assert (provisioning.starts, dialog.selected_names()) == ([], ("gpu1",))
    find_button(dialog, "All").click()
    dialog.choices.switch(SYSTEM_MPI).click()
    find_button(dialog, "Set up 3 nodes").click()
    # Nodes whose key opens more keep that, until the switch is set.
    assert provisioning.starts == [
        (("gpu1", "gpu2", "gpu3"), replace(SYSTEM_OPTIONS, limits_key=False))
    ]
    assert not visible_windows(SetUpAgainDialog)


def test_a_retry_goes_on_with_the_same_choices(controller, provisioning):
    controller.set_up_added("gpu3", SetUpOptions(limits_key=True))
    visible_window(SetUpDialog).retry_requested.emit("gpu3", "Inspect")
    assert provisioning.starts == 2 * [(("gpu3",), SetUpOptions(limits_key=True))]


def test_a_failed_node_can_be_set_up_with_other_options(controller, provisioning):
    controller.set_up("gpu3")
    visible_window(SetUpDialog).choices_requested.emit("gpu3")
    assert visible_window(SetUpAgainDialog).selected_names() == ("gpu3",)
    assert len(provisioning.starts) == 1


def test_refresh_shows_changes_on_the_node(controller, cluster):
    cluster.entries = (node("gpu3", is_ready=False, mpirun="", mpi_version=""),)
    controller.set_up_added("gpu3", SYSTEM_OPTIONS)
    dialog = visible_window(SetUpAgainDialog)
    cluster.entries = (node("gpu3", is_ready=False),)
    find_button(dialog, "Refresh").click()
    assert cluster.inspected == ["gpu3"]
    assert find_button(dialog, "Set up").isEnabled()


def test_one_of_several_set_ups_can_be_cancelled(controller, provisioning, monkeypatch):
    # A set-up that is still under way: its end has not come home.
    monkeypatch.setattr(controller, "_finish", lambda progresses: None)
    controller._start_set_up(("gpu1", "gpu2"), SYSTEM_OPTIONS)
    controller._cancel("gpu2")
    assert [provisioning.cancel_checks[name](name) for name in ("gpu1", "gpu2")] == [False, True]


def test_a_set_up_that_could_not_begin_says_why_and_leaves_no_steps(
    controller, provisioning, immediately
):
    provisioning.refusal = BackendError("The cluster's key is damaged.", "Set up again.")
    controller.set_up("gpu3")
    assert immediately.notifications == ["The cluster's key is damaged. Set up again."]
    assert not visible_windows(SetUpDialog)


def test_a_message_says_that_a_node_was_removed_meanwhile(controller, cluster, immediately):
    cluster.entries = ()
    controller.set_up("gpu3")
    assert immediately.notifications == ["gpu3 is no longer in the list of nodes."]


def test_f56_an_unknown_key_stops_a_set_up_until_the_user_accepts_it(
    controller, provisioning, cluster
):
    provisioning.key = KEY
    controller.set_up("gpu3")
    plate = find_only(KeyPlate, visible_window(SetUpDialog))
    assert plate.trust_page.fingerprint.isVisible()
    assert plate.trust_page.fingerprint.text() == KEY.fingerprint
    assert (cluster.accepted_keys, len(provisioning.starts)) == ([], 1)
    provisioning.key = None
    plate.trust_page.trust.click()
    assert cluster.accepted_keys == [KEY]
    assert provisioning.starts == 2 * [(("gpu3",), SetUpOptions())]
    assert not plate.isVisible()


def test_a_no_leaves_the_failed_step_with_its_retry(controller, provisioning, cluster, qtbot):
    provisioning.key = KEY
    controller.set_up("gpu3")
    dialog = visible_window(SetUpDialog)
    find_only(KeyPlate, dialog).trust_page.default.click()
    assert not find_only(KeyPlate, dialog).isVisible()
    qtbot.waitUntil(find_only(SetUpView, dialog).step("Reach").details.retry.isVisible)
    assert cluster.accepted_keys == []
    find_only(SetUpView, dialog).step("Reach").details.retry.click()
    assert find_only(KeyPlate, dialog).isVisible()


def test_f55_a_key_that_changed_cannot_be_accepted_in_a_set_up(controller, provisioning, cluster):
    provisioning.key, provisioning.accepted = KEY, "SHA256:old"
    controller.set_up("gpu3")
    plate = find_only(KeyPlate, visible_window(SetUpDialog))
    assert plate.changed_key_page.isVisible()
    assert not plate.trust_page.isVisible()
    plate.changed_key_page.default.click()
    assert not visible_windows(SetUpDialog)
    assert (cluster.accepted_keys, len(provisioning.starts)) == ([], 1)


def test_an_unknown_key_before_the_first_step_is_asked_about_too(
    controller, provisioning, cluster, immediately
):
    """Another desktop has the cluster's key: it is fetched from a node before any set-up begins."""
    unknown = HostKeyUnknown("gpu1 shows a key.", "Compare it.", KEY)
    provisioning.refusal = BackendError("No node gave the cluster's key.", "Start one.")
    provisioning.refusal.__cause__ = unknown
    controller.set_up("gpu1")
    dialog = visible_window(SetUpAgainDialog)
    find_button(dialog, "All").click()
    find_button(dialog, "Set up 3 nodes").click()
    assert (immediately.notifications, provisioning.starts) == ([], [])
    assert visible_window(SetUpDialog).selected_node == "gpu1"
    provisioning.refusal = None
    find_only(KeyPlate, visible_window(SetUpDialog)).trust_page.trust.click()
    assert cluster.accepted_keys == [KEY]
    assert provisioning.starts == [(("gpu1", "gpu2", "gpu3"), SetUpOptions(limits_key=False))]


def test_a_failed_node_is_retried_while_other_nodes_continue(controller, provisioning, monkeypatch):
    monkeypatch.setattr(controller, "_finish", lambda progresses: None)
    controller._start_set_up(("gpu1", "gpu2"), SYSTEM_OPTIONS)
    assert set(controller._progress_by_node) == {"gpu1", "gpu2"}
    controller._show_states()
    visible_window(SetUpDialog).retry_requested.emit("gpu2", "Inspect")
    assert provisioning.starts == [(("gpu1", "gpu2"), SYSTEM_OPTIONS), (("gpu2",), SYSTEM_OPTIONS)]


def test_a_refresh_asks_about_a_key_and_inspects_again(controller, cluster):
    cluster.entries = (node("gpu3", is_ready=False, mpirun="", mpi_version=""),)
    cluster.refusal = HostKeyUnknown("gpu3 shows a key.", "Compare it.", KEY)
    controller.set_up_added("gpu3", SYSTEM_OPTIONS)
    dialog = visible_window(SetUpAgainDialog)
    find_button(dialog, "Refresh").click()
    assert find_only(KeyPlate, dialog).trust_page.isVisible()
    find_only(KeyPlate, dialog).trust_page.trust.click()
    assert cluster.accepted_keys == [KEY]
    assert cluster.inspected == ["gpu3", "gpu3"]
    assert not find_only(KeyPlate, dialog).isVisible()

    cluster.refusal = HostKeyChanged("gpu3 shows another key.", "Ask.", KEY, "SHA256:old")
    find_button(dialog, "Refresh").click()
    assert find_only(KeyPlate, dialog).changed_key_page.isVisible()
    find_only(KeyPlate, dialog).changed_key_page.default.click()
    assert not visible_windows(SetUpAgainDialog)
    assert cluster.accepted_keys == [KEY]
