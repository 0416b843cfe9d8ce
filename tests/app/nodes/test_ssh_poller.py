"""What is asked over SSH of nodes: whether it answers, and figures where no agent writes them."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from app.nodes.ssh_poller import QUERY_INTERVAL_S, SshPoller
from backend.records.nodes.reading import Presence
from backend.ssh.interface import PassphraseNeeded, Unreachable
from tests.widgets.nodes.samples import entry, reading, state
from widgets.nodes.row.node_row import Condition, condition_of, node_row

REFUSED = Unreachable("gpu7 refuses connections on port 22.")
SILENT = replace(state("gpu7"), presence=Presence.OFFLINE, message="no news since 14:02")
NEW = replace(state("gpu7"), presence=Presence.NEW, reading=None, entry=entry("gpu7", ready=False))


class Remote:
    """Answers unless it has a fault, and records what it was asked."""

    def __init__(self):
        self.fault = None
        self.asked = []

    def check_banner(self, address):
        self._answer("banner")

    def reading_over_ssh(self, entry):
        self._answer("reading")
        return replace(reading(entry.name, "other"), heartbeat=len(self.asked))

    def _answer(self, what):
        self.asked.append(what)
        if self.fault is not None:
            raise self.fault


class Clock:
    now_s = 100.0

    def __call__(self):
        return self.now_s


@pytest.fixture
def remote():
    return Remote()


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def watch(remote, clock, immediately):
    return SshPoller(SimpleNamespace(nodes=remote, cluster=remote), immediately, clock)


def after(watch, clock, seconds, node):
    """The node as it is shown after so many seconds of polls."""
    for _ in range(round(seconds)):
        clock.now_s += 1
        watch.poll((node,))
    return watch.with_ssh_state(node)


def test_f11_a_running_node_shows_that_ssh_does_not_answer(watch, clock, remote):
    assert after(watch, clock, QUERY_INTERVAL_S, state("gpu7")) == state("gpu7")
    remote.fault = REFUSED
    shown = after(watch, clock, QUERY_INTERVAL_S + 10, state("gpu7"))
    condition, reason = condition_of(shown)
    assert (shown.presence, condition) == (Presence.ONLINE, Condition.UNHEALTHY)
    assert reason.startswith("No SSH since ")
    assert "Its jobs keep running and can be stopped" in shown.health[-1].remedy
    # While SSH does not answer, nothing shown changes.
    assert after(watch, clock, 5 * QUERY_INTERVAL_S, state("gpu7")) == shown
    remote.fault = None
    assert after(watch, clock, QUERY_INTERVAL_S + 1, state("gpu7")) == state("gpu7")


def test_a_single_failure_is_tried_again_soon_and_not_shown(watch, clock, remote):
    remote.fault = REFUSED
    assert after(watch, clock, 3, state("gpu7")) == state("gpu7")
    remote.fault = None
    assert after(watch, clock, 5, state("gpu7")) == state("gpu7")
    assert remote.asked == ["banner", "banner"]
    remote.fault = REFUSED
    assert after(watch, clock, QUERY_INTERVAL_S, state("gpu7")) == state("gpu7")


def test_a_locked_key_says_nothing_about_ssh(watch, clock, remote):
    remote.fault = PassphraseNeeded("Locked.", "", "/key")
    assert after(watch, clock, 3 * QUERY_INTERVAL_S, state("gpu7")) == state("gpu7")


def test_a_node_without_an_agent_shows_figures(watch, clock):
    shown = after(watch, clock, 2, NEW)
    assert (shown.presence, shown.over_ssh) == (Presence.NEW, True)
    row = node_row(shown)
    assert (row.processor, row.memory is not None, row.heartbeat) == (0.46, True, "over SSH")
    assert [cell.use for cell in row.gpus] == ["other"] * 8
    assert row.free_gpus == 0


def test_a_silent_agent_is_shown_next_to_the_figures_until_its_heartbeat(watch, clock, remote):
    shown = after(watch, clock, 2, SILENT)
    assert condition_of(shown) == (Condition.OFFLINE, "no news since 14:02, SSH responds")
    row = node_row(shown)
    assert (row.subtitle, row.notice, row.processor) == ("Agent stopped", "", 0.46)
    assert after(watch, clock, 2, state("gpu7")) == state("gpu7")
    remote.fault = REFUSED
    assert after(watch, clock, 2, SILENT) == SILENT


def test_figures_vanish_with_the_ssh_that_brought_them(watch, clock, remote):
    after(watch, clock, 2, SILENT)
    remote.fault = REFUSED
    assert after(watch, clock, QUERY_INTERVAL_S, SILENT) == SILENT
    assert len(remote.asked) <= 3


def test_few_of_many_nodes_are_asked_at_once_and_none_is_forgotten(clock):
    under_way, asked = [], set()

    class Later:
        def run(self, lane, work, then, otherwise):
            under_way.append((lane, then))
            asked.add(lane)

    watch = SshPoller(SimpleNamespace(nodes=Remote(), cluster=Remote()), Later(), clock)
    nodes = tuple(state(f"gpu{number}") for number in range(20))
    # The first eight never answer; then they do, and the others have their turn.
    for _ in range(30):
        clock.now_s += 1
        watch.poll(nodes)
    assert len(under_way) == 8
    while under_way:
        under_way.pop()[1](None)
        watch.poll(nodes)
    assert len(asked) == 20
