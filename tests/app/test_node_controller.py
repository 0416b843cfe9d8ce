"""Adding a node is a talk: whatever only a person can decide comes to the dialog."""

from __future__ import annotations

import time
from dataclasses import replace
from types import SimpleNamespace

import pytest

from app.node_controller import NodeController
from backend.cluster.shell import HostKeyChanged, HostKeyUnknown, PassphraseNeeded, Unreachable
from backend.records.cluster import HostKey, NodeAddress, NodeEntry, SetUp, SetUpStep, StepState
from backend.records.node import NodeState, Presence
from backend.records.node_past import PastGpu, PastReading
from tests.widgets.cluster.samples import reading
from widgets.cluster.nodes_page import NodesPage

KEY = HostKey("10.0.4.23", 22, "ssh-ed25519", "ssh-ed25519 AAAA", "SHA256:new")
ADDRESS = NodeAddress("10.0.4.23")
DONE = SetUp("gpu13", (SetUpStep("Reach", StepState.DONE, "As lab."),))


class Cluster:
    """Answers each look with the next of ``answers``; an exception is raised."""

    def __init__(self):
        self.answers = []
        self.trusted = []
        self.passphrases = []
        self.kept = []
        self.entries = []
        self.keyring = SimpleNamespace(fault=lambda: "This computer has no system keyring.")

    def add(self, name, address, *, accept, passphrase=None, node_data_root=""):
        assert not accept(KEY), "nobody but a person accepts"
        self.passphrases.append(passphrase("/key") if passphrase is not None else "")
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        self.entries.append(NodeEntry(name, address))
        return self.entries[-1]

    def list(self):
        return tuple(self.entries)

    def keep_passphrase(self, identity):
        self.kept.append(identity)

    def forget_passphrase(self, name):
        return ("/key",) if self.kept else ()

    def trust(self, key):
        self.trusted.append(key)


@pytest.fixture
def cluster():
    return Cluster()


@pytest.fixture
def woken():
    return []


@pytest.fixture
def pasts():
    """The nodes whose last hours were read."""
    return []


@pytest.fixture
def controller(cluster, woken, pasts, immediately, qtbot):
    page = NodesPage()
    qtbot.addWidget(page)

    def set_up(names, on_change, cancelled, options):
        on_change(DONE)

    def read_pasts(name):
        pasts.append(name)
        return ()

    far = (NodeState("gpu7", Presence.OFFLINE, reading("gpu7"), message="no news since 14:02"),)
    services = SimpleNamespace(
        cluster=cluster,
        nodes=SimpleNamespace(
            reading=lambda: reading("this-computer"), far=lambda: far, past=read_pasts
        ),
        set_up=SimpleNamespace(set_up=set_up, wake=woken.append, brought_mpi=lambda: "5.0.11"),
    )
    made = NodeController(services, immediately, page, page, 1_000_000)
    yield made
    made.stop()


@pytest.fixture
def dialog(controller, qtbot):
    controller.add()
    qtbot.addWidget(controller._adding)
    return controller._adding


def test_f56_an_unknown_key_is_shown_and_accepted_only_by_trust(dialog, cluster, controller, qtbot):
    cluster.answers = [HostKeyUnknown("Unknown.", "", KEY), None]
    dialog.look_requested.emit(ADDRESS, "gpu13", "")
    assert dialog._trust.fingerprint.text() == "SHA256:new"
    assert cluster.trusted == []
    told = []
    controller.told.connect(told.append)
    dialog.trusted.emit(KEY)
    assert (cluster.trusted, told) == ([KEY], ["Added gpu13."])
    assert controller._adding is None
    # What was added is set up at once, and its steps are shown.
    qtbot.addWidget(controller.set_ups._dialog)
    assert controller.set_ups._dialog.chosen == "gpu13"


def test_f55_a_changed_key_has_no_way_in(dialog, cluster):
    cluster.answers = [HostKeyChanged("Changed.", "", KEY, "SHA256:old")]
    dialog.look_requested.emit(ADDRESS, "gpu13", "")
    assert dialog._changed.isVisible()
    assert cluster.trusted == []


def test_a_locked_key_asks_and_says_when_the_passphrase_was_wrong(dialog, cluster):
    locked = PassphraseNeeded("Locked.", "", "/key")
    cluster.answers = [locked, locked, None]
    dialog.look_requested.emit(ADDRESS, "gpu13", "")
    assert dialog._passphrase.isVisible()
    dialog.passphrase_given.emit("wrong", False)
    assert dialog._passphrase.isVisible()
    dialog.passphrase_given.emit("right", False)
    assert cluster.passphrases == ["", "wrong", "right"]
    assert cluster.kept == []


def test_a_passphrase_is_kept_only_with_a_tick_and_once_it_has_opened_the_key(dialog, cluster):
    locked = PassphraseNeeded("Locked.", "", "/key")
    cluster.answers = [locked, locked, None]
    dialog.look_requested.emit(ADDRESS, "gpu13", "")
    dialog.passphrase_given.emit("wrong", True)
    assert cluster.kept == []
    dialog.passphrase_given.emit("right", True)
    assert cluster.kept == ["/key"]


def test_without_a_keyring_the_tick_is_off_and_says_why(dialog, cluster):
    cluster.answers = [PassphraseNeeded("Locked.", "", "/key")]
    dialog.look_requested.emit(ADDRESS, "gpu13", "")
    page = dialog._passphrase
    assert not page.keep.isEnabled()
    assert page._why_not.text() == "This computer has no system keyring."
    dialog.show_keyring("")
    assert page.keep.isEnabled()
    assert page._why_not.isHidden()


def test_forget_passphrase_says_what_it_did(controller, cluster):
    told = []
    controller.told.connect(told.append)
    controller._page.forget_requested.emit("gpu7")
    cluster.kept.append("/key")
    controller._page.forget_requested.emit("gpu7")
    assert told == [
        "No passphrase of a key of gpu7 was kept.",
        "Forgot the passphrase of /key.",
    ]


def test_f52_a_refusal_stands_at_the_form_and_the_next_try_can_follow(dialog, cluster):
    cluster.answers = [Unreachable("Nobody answers at 10.0.4.23.", "Is it on?")]
    dialog.look_requested.emit(ADDRESS, "gpu13", "")
    assert dialog._fields["host"].error() == "Nobody answers at 10.0.4.23. Is it on?"
    assert dialog.isVisible()


def test_an_answer_for_a_dialog_that_was_closed_is_for_nobody(controller, dialog, cluster):
    dialog.close()
    cluster.answers = [HostKeyUnknown("Unknown.", "", KEY)]
    controller._wish_add(ADDRESS, "gpu13", "")
    assert cluster.answers, "nothing was asked of the node"


def test_a_silent_node_is_woken_once_in_a_while_and_all_are_told(controller, woken):
    told = []
    controller.listed.connect(told.append)
    controller.look()
    controller.look()
    assert woken == ["gpu7"]
    assert [state.name for state in told[-1]] == ["this-computer", "gpu7"]


def test_a_node_that_runs_hot_stays_told_until_it_has_cooled_down(controller):
    told, hot = [], []
    controller.listed.connect(told.append)
    for beat, celsius in enumerate((80, 88, 85, 84, 81), 1):
        here = reading("this-computer", count=1)
        gpus = (replace(here.gpus[0], temperature_c=celsius, clock_event_reasons=()),)
        now = replace(here, heartbeat=beat, gpus=gpus)
        controller._services.nodes.reading = lambda now=now: now
        controller.look()
        hot.append(any("hot" in one.sentence for one in told[-1][0].health))
    assert hot == [False, True, True, True, False]


def test_s13_the_hours_of_the_nodes_of_an_open_job_are_read_once_in_a_while(controller, pasts):
    controller.look()
    assert pasts == []
    controller.watch(("this-computer", "gpu7", "gone"))
    controller.look()
    controller.look()
    assert pasts == ["gpu7"]


def test_of_the_hours_of_nodes_those_somebody_looks_at_and_the_last_few_are_held(controller):
    seen_s = time.time() - 3600
    services, page = controller._services.nodes, controller._page
    names = [f"gpu{number}" for number in range(12)]
    far = tuple(NodeState(name, Presence.OFFLINE, reading(name)) for name in names)
    services.far = lambda: far
    services.past = lambda name: (PastReading(seen_s, gpus=(PastGpu("GPU-1", 60.0),)),)
    controller.look()
    controller.watch(("gpu0",))
    controller.look()
    for name in names[1:]:
        page.open_node(name)
    assert held(page, seen_s) == ["gpu0", *names[-8:]]
    controller.watch(())
    page.open_node("gpu1")
    assert held(page, seen_s) == ["gpu1", *names[-7:]]


def held(page, seen_s):
    """The nodes of which more is known than this window saw itself."""
    return [name for name, known in page.histories.items() if seen_s in known.times()]
