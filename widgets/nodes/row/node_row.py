"""A node as one row: the content for the rack, the map, the side bar and the cards.

A row is made once per update from a `NodeState`, frozen and compared, so that only changed rows are
repainted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from backend.records.jobs.placement import THIS_COMPUTER
from backend.records.nodes.entry import SetUp, StepState
from backend.records.nodes.health import unknown_reason
from backend.records.nodes.reading import Gpu, NodeReading, NodeState, Presence, worst_finding
from widgets.common import formats
from widgets.common.state_badge import STATE_COLOR_ROLES, GpuUse
from widgets.common.theme import ColorRole, Family

_FRESH_HEARTBEAT_S = 5.0


class Condition(Enum):
    """The condition of a node: its label, icon and colour family."""

    label: str
    icon: str
    family: Family

    def __new__(cls, label: str, icon: str, family: Family) -> Condition:
        member = object.__new__(cls)
        member._value_ = label
        member.label, member.icon, member.family = label, icon, family
        return member

    WELL = "Healthy", "check-circle-fill", "good"
    UNHEALTHY = "Needs attention", "warning-fill", "warn"
    OFFLINE = "Offline", "wifi-slash", "bad"
    UNKNOWN = "Not known", "info-fill", "idle"
    NEW = "Not set up", "wrench", "idle"
    OUT_OF_SERVICE = "Out of service", "prohibit", "idle"

    @property
    def is_notable(self) -> bool:
        """Return True if the user should be notified."""
        return self in (Condition.UNHEALTHY, Condition.OFFLINE)

    def count_label(self, number: int) -> str:
        """Return the label after a count: "1 needs attention", "2 need attention"."""
        if self is Condition.UNHEALTHY:
            return "needs attention" if number == 1 else "need attention"
        return self.label.lower()

    @property
    def color_role(self) -> ColorRole:
        return "text" if self is Condition.WELL else STATE_COLOR_ROLES[self.family]


_SILENT_CONDITIONS = (Condition.OFFLINE, Condition.NEW)


def node_title(name: str) -> str:
    return "This computer" if name == THIS_COMPUTER else name


class GpuCell(NamedTuple):
    """One GPU of a row. ``owner`` is the name of our job, or of another user."""

    number: int
    use: GpuUse
    owner: str = ""
    use_percent: int | None = None
    temperature_c: int | None = None
    memory: str = ""
    problem: str = ""
    display: str = ""

    @property
    def is_free(self) -> bool:
        return self.use == "free" and not self.problem

    @property
    def description(self) -> str:
        """Return "GPU 3, in use by alice, 18 of 80 GiB, 91 °C, slowed by heat"."""
        holder = {"free": "free", "gone": "not reachable", "unknown": "not read yet"}.get(
            self.use, ""
        )
        temperature = "" if self.temperature_c is None else formats.temperature(self.temperature_c)
        use_text = "" if self.use_percent is None else f"{self.use_percent}{formats.GAP}% use"
        memory = self.memory if self.memory != formats.NONE else ""
        holder = holder or f"in use by {self.owner}"
        parts = (f"GPU {self.number}", holder, self.display, use_text, memory, temperature)
        return ", ".join(part for part in (*parts, self.problem) if part)


@dataclass(frozen=True)
class NodeRow:
    """A node. ``subtitle`` is the text below the name, ``notice`` replaces the figures.

    ``processor`` and ``memory`` are shares from 0 to 1.
    """

    name: str
    condition: Condition
    subtitle: str
    subtitle_color: ColorRole = "text2"
    gpus: tuple[GpuCell, ...] = ()
    processor: float | None = None
    memory: float | None = None
    network_bytes_per_s: float | None = None
    heartbeat: str = ""
    notice: str = ""

    @property
    def title(self) -> str:
        return node_title(self.name)

    @property
    def free_gpus(self) -> int:
        """The number of GPUs that a job could use now."""
        if self.condition not in (Condition.WELL, Condition.UNHEALTHY, Condition.UNKNOWN):
            return 0
        return sum(cell.is_free for cell in self.gpus)

    @property
    def description(self) -> str:
        """The row as accessible text."""
        parts = [self.title, self.condition.label]
        if self.subtitle not in (self.condition.label, ""):
            parts.append(self.subtitle)
        if self.notice:
            parts.append(self.notice)
        elif self.gpus:
            parts.append(f"{self.free_gpus} of {formats.plural(len(self.gpus), 'GPU')} free")
        for caption, share in (("processor", self.processor), ("memory", self.memory)):
            if share is not None:
                parts.append(f"{caption} {formats.percent(share)}")
        return ", ".join(parts)

    def matches(self, text: str) -> bool:
        """Return True if a search for a node, an owner or a job matches the row."""
        query = text.strip().casefold()
        fields = (self.title, self.subtitle, *(cell.owner for cell in self.gpus))
        return any(query in field.casefold() for field in fields)


def condition_of(state: NodeState) -> tuple[Condition, str]:
    """Return the condition of a node, and the reason as a sentence."""
    failed_check = next((finding.message for finding in state.findings if not finding.ok), "")
    if state.presence is Presence.OFFLINE:
        return Condition.OFFLINE, failed_check or state.message or "does not respond"
    if state.presence is Presence.OUT_OF_SERVICE:
        return Condition.OUT_OF_SERVICE, state.message
    if state.presence is Presence.NEW:
        return Condition.NEW, state.message
    health_finding = worst_finding(state.health)
    if health_finding is not None:
        return Condition.UNHEALTHY, health_finding.headline
    if failed_check:
        return Condition.UNHEALTHY, failed_check
    unread_part = unknown_reason(state.reading)
    return (Condition.UNKNOWN, unread_part) if unread_part else (Condition.WELL, "healthy")


def node_row(
    state: NodeState,
    jobs: Mapping[str, str] | None = None,
    *,
    heartbeat_age_s: float | None = None,
    set_up: SetUp | None = None,
) -> NodeRow:
    """Build the row of a node.

    Args:
        jobs: Names of jobs by their id.
        heartbeat_age_s: Time since the last heartbeat, by this desktop's clock.
        set_up: The set-up of the node, until it is done.
    """
    condition, reason = condition_of(state)
    reading = state.reading
    cells = gpu_cells(state, jobs or {})
    subtitle, subtitle_color = _subtitle(condition, reason, cells, reading)
    if condition is Condition.OFFLINE and state.over_ssh:
        subtitle = "Agent stopped"
    step = step_label(set_up) if set_up is not None else None
    if step is not None:
        subtitle, subtitle_color = step
    if reading is None or (condition in _SILENT_CONDITIONS and not state.over_ssh):
        notice = upper_first(reason) if condition is Condition.OFFLINE else ""
        return NodeRow(state.name, condition, subtitle, subtitle_color, cells, notice=notice)
    cpu_percent = reading.cpu.use_percent
    memory_total = reading.memory_total_bytes
    return NodeRow(
        state.name,
        condition,
        subtitle,
        subtitle_color,
        cells,
        None if cpu_percent is None else cpu_percent / 100,
        reading.memory_used_bytes / memory_total if memory_total else None,
        reading.network_bytes_per_s,
        "over SSH" if state.over_ssh else heartbeat_text(heartbeat_age_s),
    )


def gpu_cells(state: NodeState, jobs: Mapping[str, str]) -> tuple[GpuCell, ...]:
    """Return the GPUs of a node, dotted if their state is unknown."""
    reading = state.reading
    is_silent = state.presence in (Presence.OFFLINE, Presence.NEW)
    if reading is None or (is_silent and not state.over_ssh):
        hardware = state.entry.info if state.entry is not None else None
        count = len(reading.gpus) if reading is not None else len(hardware.gpus) if hardware else 0
        use: GpuUse = "gone" if state.presence is Presence.OFFLINE else "unknown"
        return tuple(GpuCell(index, use) for index in range(count))
    unhealthy_gpus = {(finding.gpu, finding.gpu_uuid) for finding in state.health}
    return tuple(
        gpu_cell(
            gpu, jobs, _gpu_problem(state, gpu) if (gpu.index, gpu.uuid) in unhealthy_gpus else ""
        )
        for gpu in reading.gpus
    )


def _gpu_problem(state: NodeState, gpu: Gpu) -> str:
    finding = state.worst_gpu_finding(gpu)
    return finding.description if finding is not None else ""


def gpu_cell(gpu: Gpu, jobs: Mapping[str, str], problem: str = "") -> GpuCell:
    """Return a GPU as a cell; `jobs` are names of jobs by their id."""
    holders = gpu.compute_processes
    run_tag = next((p.run_tag for p in holders if p.run_tag), "")
    user = next((p.user or "another user" for p in holders), "")
    return GpuCell(
        gpu.index,
        "ours" if run_tag else "other" if holders else "free",
        jobs.get(run_tag.partition("/")[0], "") or user if run_tag else user,
        gpu.use_percent,
        gpu.temperature_c,
        formats.used_memory(gpu.memory_used_bytes, gpu.memory_total_bytes),
        problem,
        display_text(gpu),
    )


def display_text(gpu: Gpu) -> str:
    """Return "a display uses 307 MiB", "" without a display."""
    if not gpu.display_processes:
        return ""
    sizes_bytes = [
        process.memory_bytes
        for process in gpu.display_processes
        if process.memory_bytes is not None
    ]
    return (
        f"a display uses {formats.memory(sum(sizes_bytes))}"
        if sizes_bytes
        else "a display is on it"
    )


def _subtitle(
    condition: Condition,
    reason: str,
    cells: tuple[GpuCell, ...],
    reading: NodeReading | None,
) -> tuple[str, ColorRole]:
    if condition is Condition.UNHEALTHY:
        return upper_first(reason), "warn"
    if condition is Condition.UNKNOWN:
        return upper_first(reason), "text3"
    if condition is not Condition.WELL or reading is None:
        return condition.label, condition.color_role
    if not cells:
        return formats.plural(reading.cpu.cores, "core"), "text2"
    free_count = sum(cell.is_free for cell in cells)
    return (f"{free_count} free", "text2") if free_count else ("all busy", "text3")


def step_label(set_up: SetUp) -> tuple[str, ColorRole] | None:
    """Return the current step of a set-up ("PyTorch, 5 of 7"), None after the last step."""
    if set_up.failed_step is not None:
        outcome = "failed" if set_up.failed_step.state is StepState.FAILED else "cancelled"
        return f"{set_up.failed_step.title} {outcome}", "bad" if outcome == "failed" else "idle"
    for number, step in enumerate(set_up.steps, 1):
        if step.state is not StepState.DONE:
            return f"{step.title}, {number} of {len(set_up.steps)}", "live"
    return None


def heartbeat_text(age_s: float | None) -> str:
    """Return "now" for a fresh heartbeat: a figure that jumps between 0 and 2 is useless."""
    if age_s is None:
        return formats.NONE
    return "now" if age_s < _FRESH_HEARTBEAT_S else formats.rough_duration(age_s)


def upper_first(text: str) -> str:
    return text[:1].upper() + text[1:]


def nodes_summary(rows: Iterable[NodeRow]) -> str:
    """Return "10 healthy, 1 needs attention, 1 offline · 52 of 96 GPUs free"."""
    rows = tuple(rows)
    condition_counts = [
        f"{formats.count(number)} {condition.count_label(number)}"
        for condition in Condition
        if (number := sum(row.condition is condition for row in rows))
    ]
    gpu_count = sum(len(row.gpus) for row in rows)
    free_count = sum(row.free_gpus for row in rows)
    gpu_text = (
        f" · {formats.count(free_count)} of {formats.plural(gpu_count, 'GPU')} free"
        if gpu_count
        else ""
    )
    return ", ".join(condition_counts) + gpu_text
