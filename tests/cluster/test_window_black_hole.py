"""One node that swallows every packet, in the window: the others' news come on time all the same,
and the window itself never stands still."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from PySide6.QtCore import QObject, QTimer
from pytestqt.qtbot import QtBot

from app.bootstrap import NODE_INTERVAL_MS, Program
from backend.records.node import NodeState, Presence
from tests.cluster.ready import ReadyCluster

TICK_MS = 10
BLOCKED_S = 0.1
WATCHED_S = 14.0
NEWS_LIMIT_S = 2.0 + 2 * NODE_INTERVAL_MS / 1000
"""The agent's interval, and two looks: one may fall just before the news."""
LONG_MS = 60_000


_ANOTHER = """
import sys, threading, time
over = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), over.set()), daemon=True).start()
longest, last = 0.0, time.monotonic()
while not over.wait(0.01):
    now = time.monotonic()
    longest, last = max(longest, now - last), now
print(longest)
"""


class Ticks(QObject):
    """The longest time for which the event loop of the GUI thread did not come round.

    What is not of its own making is taken off: what this process waited for a processor meanwhile,
    and the longest time for which this machine held up another that does nothing but tick.
    """

    def __init__(self) -> None:
        super().__init__()
        # What the other tests of this process left for the garbage collector is not the window's.
        gc.collect()
        gc.freeze()
        self.longest_s = 0.0
        self._last = time.monotonic(), waited_s()
        self._timer = QTimer(self)
        self._timer.timeout.connect(self._tick)
        self._timer.start(TICK_MS)
        self._another = subprocess.Popen(
            [sys.executable, "-I", "-c", _ANOTHER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def _tick(self) -> None:
        now = time.monotonic(), waited_s()
        blocked_s = now[0] - self._last[0] - (now[1] - self._last[1])
        self.longest_s, self._last = max(self.longest_s, blocked_s), now

    def end(self) -> float:
        self._timer.stop()
        gc.unfreeze()
        told, _ = self._another.communicate(timeout=30)
        return self.longest_s - float(told)


def waited_s() -> float:
    """How long the threads of this process that live now stood ready with no processor free."""
    total_ns = 0
    for task in os.listdir("/proc/self/task"):
        with suppress(OSError), open(f"/proc/self/task/{task}/schedstat", encoding="ascii") as file:
            total_ns += int(file.read().split()[1])
    return total_ns / 1e9


class News:
    """When the heartbeat of each node was seen to advance."""

    def __init__(self) -> None:
        self.longest_s: dict[str, float] = {}
        self._last: dict[str, tuple[int, float]] = {}

    def take(self, states: tuple[NodeState, ...]) -> None:
        now = time.monotonic()
        for state in states:
            if state.reading is None:
                continue
            beat, since = self._last.get(state.name, (state.reading.heartbeat, now))
            if beat != state.reading.heartbeat:
                since = now
            self._last[state.name] = state.reading.heartbeat, since
            self.longest_s[state.name] = max(self.longest_s.get(state.name, 0.0), now - since)


def test_m19_a_node_that_swallows_packets_blocks_neither_the_window_nor_the_other_nodes(
    program: Program, ready_cluster: ReadyCluster, qtbot: QtBot
) -> None:
    seen: dict[str, Presence] = {}
    news = News()

    def take(states: tuple[NodeState, ...]) -> None:
        seen.update({state.name: state.presence for state in states})
        news.take(states)

    def swallow() -> None:
        ready_cluster["node2"].leave_the_desktop()
        ready_cluster["node2"].unmount_share()

    program.window.go("nodes")
    program._node_controller.listed.connect(take)
    qtbot.waitUntil(lambda: list(seen.values()) == [Presence.ONLINE] * 4, timeout=LONG_MS)
    qtbot.waitUntil(lambda: not program._background._lanes, timeout=LONG_MS)
    news.longest_s.clear()
    ticks = Ticks()
    began = time.monotonic()
    with ThreadPoolExecutor(1) as elsewhere:
        swallowed = elsewhere.submit(swallow)
        qtbot.waitUntil(swallowed.done, timeout=LONG_MS)
    swallowed.result()
    # What a person does then; each of these waits for an answer that never comes.
    program.nodes.check_requested.emit("node2")
    program.nodes.look_requested.emit("node2")
    qtbot.waitUntil(lambda: seen["node2"] is Presence.OFFLINE, timeout=LONG_MS)
    assert "wake node2" in program._background._lanes
    qtbot.waitUntil(lambda: time.monotonic() > began + WATCHED_S, timeout=LONG_MS)
    blocked_s = ticks.end()
    ready_cluster["node2"].find_the_desktop()
    ready_cluster["node2"].mount_share()
    qtbot.waitUntil(lambda: seen["node2"] is Presence.ONLINE, timeout=LONG_MS)
    assert blocked_s < BLOCKED_S
    for name in ("this-computer", "node1", "node3"):
        assert seen[name] is Presence.ONLINE
        assert news.longest_s[name] < NEWS_LIMIT_S, name
