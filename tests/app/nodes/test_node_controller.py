"""Adding a node: the dialog asks what only the user can decide."""

from __future__ import annotations

import re
import time
from dataclasses import replace
from types import SimpleNamespace

import pytest

from app.nodes.node_controller import NodeController
from app.runtime import stale_data
from backend.base.errors import BackendError
from backend.records.nodes.entry import HostKey, NodeAddress, NodeEntry, SetUp, SetUpStep, StepState
from backend.records.nodes.history import PastGpu, PastReading
from backend.records.nodes.partition import Partition, PartitionNode
from backend.records.nodes.reading import NodeState, Presence
from backend.ssh.interface import HostKeyChanged, HostKeyUnknown, PassphraseNeeded, Unreachable
from tests.widgets.nodes.samples import entry, reading, state
from tests.windows import (
    add_widget,
    find_button,
    find_field,
    find_only,
    shows_text,
    visible_texts,
    visible_window,
    visible_windows,
)
from widgets.common.dialog import Question
from widgets.common.fields import Field, LineEdit
from widgets.nodes.page.node_actions import FORGET, GIVE_WAY
from widgets.nodes.page.nodes_page import NodesPage
from widgets.nodes.provisioning.add_node_dialog import AddNodeDialog, NodeRequest
from widgets.nodes.provisioning.host_key_pages import ChangedKeyPage, PassphrasePage, TrustPage
from widgets.nodes.provisioning.progress_dialog import SetUpDialog

KEY = HostKey("10.0.4.23", 22, "ssh-ed25519", "ssh-ed25519 AAAA", "SHA256:new")
ADDRESS = NodeAddress("10.0.4.23")
DONE = SetUp("gpu13", (SetUpStep("Reach", StepState.DONE, "As lab."),))


class Cluster:
    """Answers each read with the next of ``answers``; an exception is raised."""

    def __init__(self):
        self.answers = []
        self.accepted_keys = []
        self.passphrases = []
        self.stored_keys = []
        self.entries = []
        self.keyring = SimpleNamespace(
            unavailable_reason=lambda: "This computer has no system keyring."
        )

    def add(self, name, address, *, accept, passphrase, node_data_root, is_staged, scheduler):
        assert not accept(KEY), "only the user accepts"
        self.passphrases.append(passphrase("/key") if passphrase is not None else "")
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        self.entries.append(NodeEntry(name, address, is_staged=is_staged, scheduler=scheduler))
        return self.entries[-1]

    def list(self):
        return tuple(self.entries)

    def keep_passphrase(self, identity):
        self.stored_keys.append(identity)

    def remove_passphrase(self, name):
        return ("/key",) if self.stored_keys else ()

    def set_gives_way(self, *hours):
        for error in self.answers:
            raise error
        self.hours = hours

    def accept_key(self, key):
        self.accepted_keys.append(key)

    def check_banner(self, address):
        """Every node answers."""


@pytest.fixture
def cluster():
    return Cluster()


@pytest.fixture
def woken_nodes():
    return []


@pytest.fixture
def history_reads():
    """The nodes whose last hours were read."""
    return []


@pytest.fixture
def nodes(history_reads):
    """The nodes of the services, whose answers a test replaces."""
    silent = replace(state("gpu7"), presence=Presence.OFFLINE, message="no news since 14:02")

    def read_pasts(name):
        history_reads.append(name)
        return ()

    def read_over_ssh(entry):
        raise Unreachable(f"{entry.name} does not answer.")

    return SimpleNamespace(
        reading=lambda: reading("this-computer"),
        remote=lambda: (silent,),
        history=read_pasts,
        orphans=lambda name: (),
        reading_over_ssh=read_over_ssh,
    )


@pytest.fixture
def page(qtbot):
    return add_widget(qtbot, NodesPage())


@pytest.fixture
def controller(cluster, nodes, woken_nodes, immediately, page):
    def set_up(names, on_change, cancelled, options):
        on_change(DONE)

    provisioning = SimpleNamespace(
        set_up=set_up, wake=woken_nodes.append, bundled_mpi_version=lambda: "5.0.11"
    )
    services = SimpleNamespace(cluster=cluster, nodes=nodes, provisioning=provisioning)
    controller = NodeController(services, immediately, page, page, 1_000_000)
    yield controller
    controller.stop()


@pytest.fixture
def dialog(controller):
    controller.add()
    return visible_window(AddNodeDialog)


def test_f56_an_unknown_key_is_shown_and_accepted_only_by_trust(
    dialog, cluster, immediately, qtbot
):
    cluster.answers = [HostKeyUnknown("Unknown.", "", KEY), None]
    dialog.inspection_requested.emit(NodeRequest(ADDRESS, "gpu13"))
    assert find_only(TrustPage, dialog).fingerprint.text() == "SHA256:new"
    assert cluster.accepted_keys == []
    dialog.key_trusted.emit(KEY)
    assert (cluster.accepted_keys, immediately.notifications) == ([KEY], ["Added gpu13."])
    assert not visible_windows(AddNodeDialog)
    # What was added is set up at once, and its steps are shown.
    qtbot.addWidget(visible_window(SetUpDialog))
    assert visible_window(SetUpDialog).selected_node == "gpu13"


def test_a_node_that_sees_no_data_root_is_added_as_one(dialog, cluster, controller, qtbot):
    cluster.answers = [None]
    dialog.inspection_requested.emit(NodeRequest(ADDRESS, "gpu13", no_share=True))
    qtbot.addWidget(visible_window(SetUpDialog))
    assert [entry.is_staged for entry in cluster.entries] == [True]


def test_a_login_node_of_slurm_is_added_as_one(dialog, cluster, controller, qtbot):
    cluster.answers = [None]
    dialog.inspection_requested.emit(NodeRequest(ADDRESS, "hpc", scheduler="slurm"))
    qtbot.addWidget(visible_window(SetUpDialog))
    assert [entry.scheduler for entry in cluster.entries] == ["slurm"]


def test_f55_a_changed_key_has_no_way_in(dialog, cluster):
    cluster.answers = [HostKeyChanged("Changed.", "", KEY, "SHA256:old")]
    dialog.inspection_requested.emit(NodeRequest(ADDRESS, "gpu13"))
    assert find_only(ChangedKeyPage, dialog).isVisible()
    assert cluster.accepted_keys == []


def test_a_locked_key_asks_and_says_when_the_passphrase_was_wrong(dialog, cluster):
    locked = PassphraseNeeded("Locked.", "", "/key")
    cluster.answers = [locked, locked, None]
    dialog.inspection_requested.emit(NodeRequest(ADDRESS, "gpu13"))
    assert find_only(PassphrasePage, dialog).isVisible()
    dialog.passphrase_given.emit("wrong", False)
    assert find_only(PassphrasePage, dialog).isVisible()
    dialog.passphrase_given.emit("right", False)
    assert cluster.passphrases == ["", "wrong", "right"]
    assert cluster.stored_keys == []


def test_a_passphrase_is_kept_only_with_a_tick_and_once_it_has_opened_the_key(dialog, cluster):
    locked = PassphraseNeeded("Locked.", "", "/key")
    cluster.answers = [locked, locked, None]
    dialog.inspection_requested.emit(NodeRequest(ADDRESS, "gpu13"))
    dialog.passphrase_given.emit("wrong", True)
    assert cluster.stored_keys == []
    dialog.passphrase_given.emit("right", True)
    assert cluster.stored_keys == ["/key"]


def test_without_a_keyring_the_tick_is_off_and_says_why(dialog, cluster):
    cluster.answers = [PassphraseNeeded("Locked.", "", "/key")]
    dialog.inspection_requested.emit(NodeRequest(ADDRESS, "gpu13"))
    page = find_only(PassphrasePage, dialog)
    assert not page.store_box.isEnabled()
    assert "This computer has no system keyring." in visible_texts(page)
    dialog.show_keyring("")
    assert page.store_box.isEnabled()
    assert not shows_text(page, "has no system keyring")


@pytest.mark.usefixtures("controller")
def test_forget_passphrase_says_what_it_did(page, cluster, immediately):
    page.node_actions.ask(FORGET, "gpu7")
    cluster.stored_keys.append("/key")
    page.node_actions.ask(FORGET, "gpu7")
    assert immediately.notifications == [
        "No passphrase for a key of gpu7 was stored.",
        "Forgot the passphrase of /key.",
    ]


def test_the_hours_of_a_node_are_checked_while_they_are_typed(controller, cluster, qtbot):
    controller.refresh()
    controller._page.node_actions.ask(GIVE_WAY, "gpu7")
    dialog = visible_window(Question)
    edit, save = find_only(LineEdit, dialog), find_button(dialog, "Save")
    assert edit.text() == "never"
    edit.setText("25:00-26:00")
    assert not save.isEnabled()
    assert find_only(Field, dialog).error().startswith("“25:00” is not a time of day")
    edit.setText("8:00-18:00 Mon-Fri")
    save.click()
    assert cluster.hours == ("gpu7", "8:00-18:00 Mon-Fri", "")
    cluster.answers = [BackendError("gpu7 was changed meanwhile, and gives way: always.")]
    controller._page.node_actions.ask(GIVE_WAY, "gpu7")
    find_button(visible_window(Question), "Save").click()
    assert controller._runner.notifications == [
        "gpu7 was changed meanwhile, and gives way: always."
    ]


def test_f52_a_refusal_stands_at_the_form_and_the_next_try_can_follow(dialog, cluster):
    cluster.answers = [Unreachable("10.0.4.23 does not answer.", "Is it on?")]
    dialog.inspection_requested.emit(NodeRequest(ADDRESS, "gpu13"))
    assert find_field(dialog, "Host").error() == "10.0.4.23 does not answer. Is it on?"
    assert dialog.isVisible()


def test_after_a_refused_key_the_next_try_can_follow(dialog, cluster, immediately, qtbot):
    cluster.answers = [HostKeyUnknown("Unknown.", "", KEY), None]
    dialog.inspection_requested.emit(NodeRequest(ADDRESS, "gpu13"))
    find_only(TrustPage, dialog).key_refused.emit()
    dialog.inspection_requested.emit(NodeRequest(ADDRESS, "gpu13"))
    assert immediately.notifications == ["Added gpu13."]
    qtbot.addWidget(visible_window(SetUpDialog))


def test_a_closed_dialog_asks_nothing_of_the_node(dialog, cluster):
    dialog.close()
    cluster.answers = [HostKeyUnknown("Unknown.", "", KEY)]
    dialog.inspection_requested.emit(NodeRequest(ADDRESS, "gpu13"))
    assert cluster.answers, "nothing was asked of the node"


def test_a_silent_node_is_woken_once_in_a_while_and_all_nodes_are_listed(controller, woken_nodes):
    listings = []
    controller.nodes_listed.connect(listings.append)
    controller.refresh()
    controller.refresh()
    assert woken_nodes == ["gpu7"]
    assert [state.name for state in listings[-1]] == ["this-computer", "gpu7"]


@pytest.mark.parametrize(
    ("presence", "silent_s", "is_woken"),
    [
        (Presence.ONLINE, 1.0, False),
        (Presence.OFFLINE, 60.0, True),
        (Presence.OUT_OF_SERVICE, 1.0, False),
        (Presence.OUT_OF_SERVICE, 60.0, True),
        (Presence.NEW, 60.0, True),
        (Presence.ONLINE, 60.0, True),
    ],
)
def test_only_silence_decides_which_agent_is_started(
    controller, nodes, woken_nodes, presence, silent_s, is_woken
):
    # A node that was taken out of service may lead a run that has to be closed.
    node = replace(state("gpu7"), presence=presence, silent_s=silent_s)
    nodes.remote = lambda: (node,)
    controller.refresh()
    assert woken_nodes == (["gpu7"] if is_woken else [])


def test_a_hot_node_stays_marked_until_it_has_cooled_down(controller, nodes):
    listings, hot_flags = [], []
    controller.nodes_listed.connect(listings.append)
    for beat, celsius in enumerate((80, 88, 85, 84, 81), 1):
        local_reading = reading("this-computer", count=1)
        gpus = (replace(local_reading.gpus[0], temperature_c=celsius, clock_event_reasons=()),)
        new_reading = replace(local_reading, heartbeat=beat, gpus=gpus)
        nodes.reading = lambda new_reading=new_reading: new_reading
        controller.refresh()
        hot_flags.append(any("hot" in f.message for f in listings[-1][0].health))
    assert hot_flags == [False, True, True, True, False]


def test_a_late_heartbeat_is_shown_until_some_came_in_time(controller, nodes):
    listings, descriptions = [], []
    controller.nodes_listed.connect(listings.append)
    # Heartbeats, and how late the next one was at each read.
    for beat, silent_s in ((1, 0.0), (1, 4.0), (1, 7.0), *((beat, 0.0) for beat in range(2, 8))):
        new_state = replace(state("gpu7"), silent_s=silent_s)
        new_state = replace(new_state, reading=replace(new_state.reading, heartbeat=beat))
        nodes.remote = lambda new_state=new_state: (new_state,)
        controller.refresh()
        descriptions.append([f.description for f in listings[-1][1].health])
    late_description = ["No heartbeat"]
    assert descriptions == [
        [],
        [],
        late_description,
        late_description,
        late_description,
        late_description,
        late_description,
        [],
        [],
    ]


def test_the_page_does_not_claim_only_this_computer_while_nodes_are_read(controller, nodes, page):
    page.show()

    def refuse():
        raise BackendError("The nodes in /lab cannot be read: Input/output error.", "Is it there?")

    read_remote, nodes.remote = nodes.remote, refuse
    listings = []
    controller.nodes_listed.connect(listings.append)
    controller.start()
    assert not page.detail.isVisible()
    assert shows_text(page, "The nodes in /lab cannot be read: Input/output error. Is it there?")
    # A job can be started here all the same.
    assert [s.name for s in listings[-1]] == ["this-computer"]
    nodes.remote = read_remote
    controller.refresh()
    assert page.rack.isVisible()
    nodes.remote = refuse
    controller.refresh()
    assert page.rack.isVisible()
    assert shows_text(page, "cannot be read")
    nodes.remote = read_remote
    controller.refresh()
    assert not shows_text(page, "cannot be read")


def test_s13_the_hours_of_the_nodes_of_an_open_job_are_read_once_in_a_while(
    controller, history_reads
):
    controller.refresh()
    assert history_reads == []
    controller.watch(("this-computer", "gpu7", "gone"))
    controller.refresh()
    controller.refresh()
    assert history_reads == ["gpu7"]


def test_the_partitions_of_a_cluster_are_read_when_its_page_is_opened(controller, nodes, page):
    partitions = (Partition("main", True, True, None, (PartitionNode("n1", "idle"),)),)
    controller._services.launchers = SimpleNamespace(partitions=lambda name: partitions)
    login_node = replace(state("hpc"), entry=NodeEntry("hpc", ADDRESS, scheduler="slurm"))
    nodes.remote = lambda: (login_node,)
    controller.refresh()
    page.open_node("hpc")
    assert shows_text(page, "main, default")


def test_the_history_of_watched_nodes_and_of_the_last_few_is_held(controller, nodes, page):
    seen_s = time.time() - 3600
    names = [f"gpu{number}" for number in range(12)]
    remote = tuple(replace(state(name), presence=Presence.OFFLINE) for name in names)
    nodes.remote = lambda: remote
    nodes.history = lambda name: (PastReading(seen_s, gpus=(PastGpu("GPU-1", 60.0),)),)
    controller.refresh()
    controller.watch(("gpu0",))
    controller.refresh()
    for name in names[1:]:
        page.open_node(name)
    assert nodes_with_history(page, seen_s) == ["gpu0", *names[-8:]]
    controller.watch(())
    page.open_node("gpu1")
    assert nodes_with_history(page, seen_s) == ["gpu1", *names[-7:]]


def nodes_with_history(page, seen_s):
    """The nodes of which more is known than this window saw itself."""
    return [name for name, history in page.histories.items() if seen_s in history.times()]


def test_f32_nodes_whose_read_hangs_are_stale_until_the_read_returns(cluster, qtbot, monkeypatch):
    page = NodesPage()
    qtbot.addWidget(page)
    tasks = []

    class OnlyHere:
        """The data root hangs."""

        def run(self, queue_name, work, on_success, on_error):
            if queue_name == "nodes" and hangs:
                tasks.append((work, on_success))
            elif not queue_name.startswith("ssh "):
                on_success(work())

    remote = (NodeState("gpu7", Presence.ONLINE, reading("gpu7"), entry=entry("gpu7")),)
    nodes = SimpleNamespace(reading=lambda: reading("this-computer"), remote=lambda: remote)
    services = SimpleNamespace(cluster=cluster, nodes=nodes)
    controller = NodeController(services, OnlyHere(), page, page, 0)
    hangs, listings = [], []
    controller.refresh()
    controller.nodes_listed.connect(listings.append)
    hangs.append(True)
    for hangs_s in (30.0, -1.0):
        monkeypatch.setattr(stale_data, "HANGS_S", hangs_s)
        controller.refresh()
    ((work, on_success),) = tasks
    on_success(work())
    controller.stop()
    slow, silent, back = (states[1] for states in listings)
    assert slow.presence is back.presence is Presence.ONLINE
    assert silent.presence is Presence.OFFLINE
    assert re.fullmatch(r"no news since \d\d:\d\d", silent.message)
