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

REFUSAL = Unreachable("gpu7 refuses connections on port 22.")
SILENT = replace(state("gpu7"), presence=Presence.OFFLINE, message="no news since 14:02")
NEW = replace(
    state("gpu7"), presence=Presence.NEW, reading=None, entry=entry("gpu7", is_ready=False)
)


class Remote:
    """Answers unless it has a fault, and records what it was asked."""

    def __init__(self):
        self.error = None
        self.requests = []

    def check_banner(self, address):
        self._answer("banner")

    def reading_over_ssh(self, entry):
        self._answer("reading")
        return replace(reading(entry.name, "other"), heartbeat=len(self.requests))

    def _answer(self, answer):
        self.requests.append(answer)
        if self.error is not None:
            raise self.error


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


def state_after(watch, clock, seconds, node):
    """The node as it is shown after so many seconds of polls."""
    for _ in range(round(seconds)):
        clock.now_s += 1
        watch.poll((node,))
    return watch.with_ssh_state(node)


def test_f11_a_running_node_shows_that_ssh_does_not_answer(watch, clock, remote):
    assert state_after(watch, clock, QUERY_INTERVAL_S, state("gpu7")) == state("gpu7")
    remote.error = REFUSAL
    shown_state = state_after(watch, clock, QUERY_INTERVAL_S + 10, state("gpu7"))
    condition, reason = condition_of(shown_state)
    assert (shown_state.presence, condition) == (Presence.ONLINE, Condition.UNHEALTHY)
    assert reason.startswith("No SSH since ")
    assert "Its jobs keep running and can be stopped" in shown_state.health[-1].remedy
    # While SSH does not answer, nothing shown changes.
    assert state_after(watch, clock, 5 * QUERY_INTERVAL_S, state("gpu7")) == shown_state
    remote.error = None
    assert state_after(watch, clock, QUERY_INTERVAL_S + 1, state("gpu7")) == state("gpu7")


def test_a_single_failure_is_tried_again_soon_and_not_shown(watch, clock, remote):
    remote.error = REFUSAL
    assert state_after(watch, clock, 3, state("gpu7")) == state("gpu7")
    remote.error = None
    assert state_after(watch, clock, 5, state("gpu7")) == state("gpu7")
    assert remote.requests == ["banner", "banner"]
    remote.error = REFUSAL
    assert state_after(watch, clock, QUERY_INTERVAL_S, state("gpu7")) == state("gpu7")


def test_a_locked_key_says_nothing_about_ssh(watch, clock, remote):
    remote.error = PassphraseNeeded("Locked.", "", "/key")
    assert state_after(watch, clock, 3 * QUERY_INTERVAL_S, state("gpu7")) == state("gpu7")


def test_a_node_without_an_agent_shows_figures(watch, clock):
    shown_state = state_after(watch, clock, 2, NEW)
    assert (shown_state.presence, shown_state.over_ssh) == (Presence.NEW, True)
    row = node_row(shown_state)
    assert (row.processor, row.memory is not None, row.heartbeat) == (0.46, True, "over SSH")
    assert [cell.use for cell in row.gpus] == ["other"] * 8
    assert row.free_gpus == 0


def test_a_silent_agent_is_shown_next_to_the_figures_until_its_heartbeat(watch, clock, remote):
    shown_state = state_after(watch, clock, 2, SILENT)
    assert condition_of(shown_state) == (Condition.OFFLINE, "no news since 14:02, SSH responds")
    row = node_row(shown_state)
    assert (row.subtitle, row.notice, row.processor) == ("Agent stopped", "", 0.46)
    assert state_after(watch, clock, 2, state("gpu7")) == state("gpu7")
    remote.error = REFUSAL
    assert state_after(watch, clock, 2, SILENT) == SILENT


def test_figures_vanish_with_the_ssh_that_brought_them(watch, clock, remote):
    state_after(watch, clock, 2, SILENT)
    remote.error = REFUSAL
    assert state_after(watch, clock, QUERY_INTERVAL_S, SILENT) == SILENT
    assert len(remote.requests) <= 3


def test_few_of_many_nodes_are_asked_at_once_and_none_is_forgotten(clock):
    tasks, queried = [], set()

    class Later:
        def run(self, queue_name, work, on_success, on_error):
            tasks.append((queue_name, on_success))
            queried.add(queue_name)

    watch = SshPoller(SimpleNamespace(nodes=Remote(), cluster=Remote()), Later(), clock)
    nodes = tuple(state(f"gpu{number}") for number in range(20))
    # The first eight never answer; then they do, and the others have their turn.
    for _ in range(30):
        clock.now_s += 1
        watch.poll(nodes)
    assert len(tasks) == 8
    while tasks:
        tasks.pop()[1](None)
        watch.poll(nodes)
    assert len(queried) == 20
