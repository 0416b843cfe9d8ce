"""Query over SSH what the agents of the nodes cannot report.

Two cases: the agent has a heartbeat but SSH may be down, so jobs keep running but none can be
started; or no agent has a heartbeat, because the node was not set up or its agent stopped, so SSH
reads the figures. Each node has a lane and few are queried at once: unreachable nodes delay no
other.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial

from app.runtime.background import Runner
from backend.base.errors import BackendError
from backend.records.nodes.health import AGENT_KEY, Health
from backend.records.nodes.reading import WARN, HealthFinding, NodeReading, NodeState, Presence
from backend.services.context.container import Services
from backend.ssh.interface import Unreachable

EVERY_S = 60.0
_AGAIN_S = 5.0
"""Retry after a first miss: a busy sshd refuses a connection now and then."""
_MISSES = 2
_READING_EVERY_S = 30.0
_MOST_AT_ONCE = 8
_UNREAD = (Presence.NEW, Presence.OFFLINE)
_REMEDY = (
    "Its jobs keep running and can be stopped; none can be started. Start sshd on the node: "
    "systemctl start ssh"
)


@dataclass
class _Known:
    """A node's last SSH result. ``due_s`` is monotonic; ``is_read``: no agent writes readings."""

    is_read: bool
    due_s: float
    misses: int = 0
    missed_since: tuple[float, str] = (0.0, "")
    """Monotonic time, and as text."""
    why: str = ""
    reading: NodeReading | None = None
    health: Health = field(default_factory=Health)


class SshWatch:
    """Everything runs on the GUI thread, except the query itself."""

    def __init__(
        self, services: Services, runner: Runner, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._services = services
        self._runner = runner
        self._monotonic = monotonic
        self._known: dict[str, _Known] = {}
        self._asking: set[str] = set()

    def poll(self, states: Iterable[NodeState]) -> None:
        """Query the nodes that are due; the one queried longest ago comes first."""
        nodes = {one.name: one for one in states if one.presence is not Presence.OUT_OF_SERVICE}
        for name in self._known.keys() - nodes.keys():
            del self._known[name]
        now = self._monotonic()
        for name, state in nodes.items():
            is_read = state.presence in _UNREAD
            # When its heartbeat stops or returns, another query is needed.
            if name not in self._known or self._known[name].is_read != is_read:
                self._known[name] = _Known(is_read, due_s=now)
        due = sorted((one.due_s, name) for name, one in self._known.items() if one.due_s <= now)
        for _, name in due:
            if name not in self._asking and len(self._asking) < _MOST_AT_ONCE:
                self._ask(nodes[name])

    def with_ssh_state(self, state: NodeState) -> NodeState:
        """Return the node with the result of SSH added."""
        known = self._known.get(state.name)
        if known is None:
            return state
        if state.presence is Presence.ONLINE and known.misses >= _MISSES:
            return replace(state, health=(*state.health, _silent(known)))
        if state.presence in _UNREAD and known.reading is not None:
            of_agent = [one for one in state.health if one.key == AGENT_KEY]
            answers = f"{state.message}, SSH responds" if state.message else "SSH responds"
            return replace(
                state,
                reading=known.reading,
                health=(*of_agent, *known.health.findings),
                message=answers if state.presence is Presence.OFFLINE else state.message,
                over_ssh=True,
            )
        return state

    def _ask(self, state: NodeState) -> None:
        entry = state.entry
        assert entry is not None, "a remote node was added"
        self._asking.add(state.name)
        lane = f"ssh {state.name}"
        if self._known[state.name].is_read:
            self._runner.run(
                lane,
                partial(self._services.nodes.reading_over_ssh, entry),
                partial(self._was_read, state.name),
                partial(self._was_not_read, state.name),
            )
        else:
            self._runner.run(
                lane,
                partial(self._services.cluster.check_banner, entry.address),
                partial(self._answered, state.name),
                partial(self._missed, state.name),
            )

    def _ended(self, name: str, due_in_s: float) -> _Known:
        """The result for the node; a removed node's result is dropped."""
        self._asking.discard(name)
        due_s = self._monotonic() + due_in_s
        known = self._known.get(name, _Known(is_read=False, due_s=due_s))
        known.due_s = due_s
        return known

    def _was_read(self, name: str, reading: NodeReading) -> None:
        known = self._ended(name, _READING_EVERY_S)
        known.reading = reading
        known.health = known.health.after(reading, self._monotonic())

    def _was_not_read(self, name: str, _error: BackendError) -> None:
        known = self._ended(name, EVERY_S)
        known.reading, known.health = None, Health()

    def _answered(self, name: str, _nothing: None) -> None:
        self._ended(name, EVERY_S).misses = 0

    def _missed(self, name: str, error: BackendError) -> None:
        if not isinstance(error, Unreachable):
            # A locked key or a changed host key: reported at the next login.
            self._answered(name, None)
            return
        known = self._ended(name, EVERY_S)
        known.misses += 1
        known.why = error.message
        if known.misses == 1:
            known.due_s = self._monotonic() + _AGAIN_S
            known.missed_since = self._monotonic(), f"{datetime.now(UTC).astimezone():%H:%M}"


def _silent(known: _Known) -> HealthFinding:
    since_s, since = known.missed_since
    # Short enough for the room under a name in the rack.
    return HealthFinding("ssh", WARN, f"No SSH since {since}", f"{known.why} {_REMEDY}", since_s)
