"""Query over SSH what the agents of the nodes cannot report.

Two cases: the agent has a heartbeat but SSH may be down, so jobs keep running but none can be
started; or no agent has a heartbeat, because the node was not set up or its agent stopped, so SSH
reads the figures. Each node has a queue and few are queried at once: unreachable nodes delay no
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

QUERY_INTERVAL_S = 60.0
_RETRY_DELAY_S = 5.0
"""Retry after a first miss: a busy sshd refuses a connection now and then."""
_REPORTED_MISSES = 2
_READING_INTERVAL_S = 30.0
_MAX_QUERIES = 8
_WITHOUT_AGENT = (Presence.NEW, Presence.OFFLINE)
_REMEDY = (
    "Its jobs keep running and can be stopped; none can be started. Start sshd on the node: "
    "systemctl start ssh"
)


@dataclass
class _SshResult:
    """A node's last SSH result.

    ``due_s`` is monotonic; ``reads_figures``: no agent writes readings.
    """

    reads_figures: bool
    due_s: float
    miss_count: int = 0
    first_miss: tuple[float, str] = (0.0, "")
    """Monotonic time, and as text."""
    reason: str = ""
    reading: NodeReading | None = None
    health: Health = field(default_factory=Health)


class SshPoller:
    """Query the nodes over SSH; only the queries run on workers."""

    def __init__(
        self, services: Services, runner: Runner, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._services = services
        self._runner = runner
        self._monotonic = monotonic
        self._results: dict[str, _SshResult] = {}
        self._queried_nodes: set[str] = set()

    def poll(self, states: Iterable[NodeState]) -> None:
        """Query the nodes that are due; the node queried longest ago comes first."""
        nodes = {s.name: s for s in states if s.presence is not Presence.OUT_OF_SERVICE}
        for name in self._results.keys() - nodes.keys():
            del self._results[name]
        now_s = self._monotonic()
        for name, state in nodes.items():
            reads_figures = state.presence in _WITHOUT_AGENT
            # When its heartbeat stops or returns, another query is needed.
            if name not in self._results or self._results[name].reads_figures != reads_figures:
                self._results[name] = _SshResult(reads_figures, due_s=now_s)
        due_nodes = sorted((r.due_s, name) for name, r in self._results.items() if r.due_s <= now_s)
        for _, name in due_nodes:
            if name not in self._queried_nodes and len(self._queried_nodes) < _MAX_QUERIES:
                self._query(nodes[name])

    def with_ssh_state(self, state: NodeState) -> NodeState:
        """Return the node with the result of SSH added."""
        result = self._results.get(state.name)
        if result is None:
            return state
        if state.presence is Presence.ONLINE and result.miss_count >= _REPORTED_MISSES:
            return replace(state, health=(*state.health, _silence_finding(result)))
        if state.presence in _WITHOUT_AGENT and result.reading is not None:
            agent_findings = [f for f in state.health if f.key == AGENT_KEY]
            message = f"{state.message}, SSH responds" if state.message else "SSH responds"
            return replace(
                state,
                reading=result.reading,
                health=(*agent_findings, *result.health.findings),
                message=message if state.presence is Presence.OFFLINE else state.message,
                over_ssh=True,
            )
        return state

    def _query(self, state: NodeState) -> None:
        entry = state.entry
        assert entry is not None, "a remote node was added"
        self._queried_nodes.add(state.name)
        queue_name = f"ssh {state.name}"
        if self._results[state.name].reads_figures:
            self._runner.run(
                queue_name,
                partial(self._services.nodes.reading_over_ssh, entry),
                partial(self._take_reading, state.name),
                partial(self._drop_reading, state.name),
            )
        else:
            self._runner.run(
                queue_name,
                partial(self._services.cluster.check_banner, entry.address),
                partial(self._reset_misses, state.name),
                partial(self._count_miss, state.name),
            )

    def _finish_query(self, name: str, due_in_s: float) -> _SshResult:
        """Return the result of the node; the result of a removed node is dropped."""
        self._queried_nodes.discard(name)
        due_s = self._monotonic() + due_in_s
        result = self._results.get(name, _SshResult(reads_figures=False, due_s=due_s))
        result.due_s = due_s
        return result

    def _take_reading(self, name: str, reading: NodeReading) -> None:
        result = self._finish_query(name, _READING_INTERVAL_S)
        result.reading = reading
        result.health = result.health.after_reading(reading, self._monotonic())

    def _drop_reading(self, name: str, _error: BackendError) -> None:
        result = self._finish_query(name, QUERY_INTERVAL_S)
        result.reading, result.health = None, Health()

    def _reset_misses(self, name: str, _result: None) -> None:
        self._finish_query(name, QUERY_INTERVAL_S).miss_count = 0

    def _count_miss(self, name: str, error: BackendError) -> None:
        if not isinstance(error, Unreachable):
            # A locked key or a changed host key: reported at the next login.
            self._reset_misses(name, None)
            return
        result = self._finish_query(name, QUERY_INTERVAL_S)
        result.miss_count += 1
        result.reason = error.message
        if result.miss_count == 1:
            result.due_s = self._monotonic() + _RETRY_DELAY_S
            result.first_miss = self._monotonic(), f"{datetime.now(UTC).astimezone():%H:%M}"


def _silence_finding(result: _SshResult) -> HealthFinding:
    start_s, start_time = result.first_miss
    # Short enough for the room under a name in the rack.
    return HealthFinding(
        "ssh", WARN, f"No SSH since {start_time}", f"{result.reason} {_REMEDY}", start_s
    )
