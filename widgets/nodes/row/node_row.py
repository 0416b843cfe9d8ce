"""A node as one row: the content for the rack, the map, the side bar and the cards.

Made once per update from a `NodeState`, frozen and compared, so that only changed rows are
repainted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from backend.records.jobs.placement import THIS_COMPUTER
from backend.records.nodes.entry import SetUp, StepState
from backend.records.nodes.health import not_known
from backend.records.nodes.reading import Gpu, NodeReading, NodeState, Presence, worst
from widgets.common import formats
from widgets.common.state_badge import FAMILY_TONES, GpuUse
from widgets.common.theme import Family, Tone

_FRESH_BEAT_S = 5.0


class Condition(Enum):
    """The condition of a node: its word, icon and colour family."""

    word: str
    icon: str
    family: Family

    def __new__(cls, word: str, icon: str, family: Family) -> Condition:
        member = object.__new__(cls)
        member._value_ = word
        member.word, member.icon, member.family = word, icon, family
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

    def counted(self, number: int) -> str:
        """The word after a count: "1 needs attention", "2 need attention"."""
        if self is Condition.UNHEALTHY:
            return "needs attention" if number == 1 else "need attention"
        return self.word.lower()

    @property
    def tone(self) -> Tone:
        return "text" if self is Condition.WELL else FAMILY_TONES[self.family]


_SILENT = (Condition.OFFLINE, Condition.NEW)


def node_title(name: str) -> str:
    return "This computer" if name == THIS_COMPUTER else name


def node_words(name: str) -> str:
    """The name of a node within a sentence."""
    return "this computer" if name == THIS_COMPUTER else name


class GpuCell(NamedTuple):
    """One GPU of a row. ``owner`` is a job's name if it is ours, otherwise a user."""

    number: int
    use: GpuUse
    owner: str = ""
    use_percent: int | None = None
    temperature_c: int | None = None
    memory: str = ""
    unhealthy: str = ""
    display: str = ""

    @property
    def is_free(self) -> bool:
        return self.use == "free" and not self.unhealthy

    @property
    def sentence(self) -> str:
        """Return "GPU 3, in use by alice, 18 of 80 GiB, 91 °C, slowed by heat"."""
        who = {"free": "free", "gone": "not reachable", "unknown": "not read yet"}.get(self.use, "")
        heat = "" if self.temperature_c is None else formats.temperature(self.temperature_c)
        used = "" if self.use_percent is None else f"{self.use_percent}{formats.GAP}% use"
        memory = self.memory if self.memory != formats.NONE else ""
        who = who or f"in use by {self.owner}"
        parts = (f"GPU {self.number}", who, self.display, used, memory, heat)
        return ", ".join(part for part in (*parts, self.unhealthy) if part)


@dataclass(frozen=True)
class NodeRow:
    """One node. ``line`` is the text below the name, ``aside`` replaces the figures.

    ``processor`` and ``memory`` are shares from 0 to 1.
    """

    name: str
    condition: Condition
    line: str
    line_tone: Tone = "text2"
    gpus: tuple[GpuCell, ...] = ()
    processor: float | None = None
    memory: float | None = None
    network_bytes_per_s: float | None = None
    beat: str = ""
    aside: str = ""

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
    def sentence(self) -> str:
        """The row as accessible text."""
        parts = [self.title, self.condition.word]
        if self.line not in (self.condition.word, ""):
            parts.append(self.line)
        if self.aside:
            parts.append(self.aside)
        elif self.gpus:
            parts.append(f"{self.free_gpus} of {formats.plural(len(self.gpus), 'GPU')} free")
        for caption, share in (("processor", self.processor), ("memory", self.memory)):
            if share is not None:
                parts.append(f"{caption} {formats.percent(share)}")
        return ", ".join(parts)

    def matches(self, text: str) -> bool:
        """Return True if a search for a node, an owner or a job matches it."""
        wanted = text.strip().casefold()
        there = (self.title, self.line, *(cell.owner for cell in self.gpus))
        return any(wanted in word.casefold() for word in there)


def condition_of(state: NodeState) -> tuple[Condition, str]:
    """The condition of a node, and the reason as a sentence."""
    fault = next((one.sentence for one in state.findings if not one.ok), "")
    if state.presence is Presence.OFFLINE:
        return Condition.OFFLINE, fault or state.message or "does not respond"
    if state.presence is Presence.OUT_OF_SERVICE:
        return Condition.OUT_OF_SERVICE, state.message
    if state.presence is Presence.NEW:
        return Condition.NEW, state.message
    found = worst(state.health)
    if found is not None:
        return Condition.UNHEALTHY, found.headline
    if fault:
        return Condition.UNHEALTHY, fault
    unknown = not_known(state.reading)
    return (Condition.UNKNOWN, unknown) if unknown else (Condition.WELL, "healthy")


def node_row(
    state: NodeState,
    jobs: Mapping[str, str] | None = None,
    *,
    beat_age_s: float | None = None,
    set_up: SetUp | None = None,
) -> NodeRow:
    """Build the row of a node.

    Args:
        jobs: Names of jobs by their id.
        beat_age_s: Time since its last heartbeat, by this desktop's clock.
        set_up: Its set-up, until it is done.
    """
    condition, reason = condition_of(state)
    reading = state.reading
    cells = gpu_cells(state, jobs or {})
    line, tone = _line(condition, reason, cells, reading)
    if condition is Condition.OFFLINE and state.over_ssh:
        line = "Agent stopped"
    step = step_line(set_up) if set_up is not None else None
    if step is not None:
        line, tone = step
    if reading is None or (condition in _SILENT and not state.over_ssh):
        aside = upper_first(reason) if condition is Condition.OFFLINE else ""
        return NodeRow(state.name, condition, line, tone, cells, aside=aside)
    cpu = reading.cpu.use_percent
    total = reading.memory_total_bytes
    return NodeRow(
        state.name,
        condition,
        line,
        tone,
        cells,
        None if cpu is None else cpu / 100,
        reading.memory_used_bytes / total if total else None,
        reading.network_bytes_per_s,
        "over SSH" if state.over_ssh else beat_words(beat_age_s),
    )


def gpu_cells(state: NodeState, jobs: Mapping[str, str]) -> tuple[GpuCell, ...]:
    """The GPUs of a node, dotted if their state is unknown."""
    reading = state.reading
    away = state.presence in (Presence.OFFLINE, Presence.NEW)
    if reading is None or (away and not state.over_ssh):
        facts = state.entry.facts if state.entry is not None else None
        count = len(reading.gpus) if reading is not None else len(facts.gpus) if facts else 0
        use: GpuUse = "gone" if state.presence is Presence.OFFLINE else "unknown"
        return tuple(GpuCell(index, use) for index in range(count))
    unhealthy = {(finding.gpu, finding.gpu_uuid) for finding in state.health}
    return tuple(
        gpu_cell(gpu, jobs, _reason(state, gpu) if (gpu.index, gpu.uuid) in unhealthy else "")
        for gpu in reading.gpus
    )


def _reason(state: NodeState, gpu: Gpu) -> str:
    found = state.of_gpu(gpu)
    return found.words if found is not None else ""


def gpu_cell(gpu: Gpu, jobs: Mapping[str, str], unhealthy: str = "") -> GpuCell:
    """A GPU as a cell; `jobs` are names of jobs by their id."""
    holders = gpu.compute_processes
    ours = next((p.run_tag for p in holders if p.run_tag), "")
    other = next((p.user or "another user" for p in holders), "")
    return GpuCell(
        gpu.index,
        "ours" if ours else "other" if holders else "free",
        jobs.get(ours.partition("/")[0], "") or other if ours else other,
        gpu.use_percent,
        gpu.temperature_c,
        formats.memory_of(gpu.memory_used_bytes, gpu.memory_total_bytes),
        unhealthy,
        display_words(gpu),
    )


def display_words(gpu: Gpu) -> str:
    """Return "a display uses 307 MiB", "" without a display."""
    if not gpu.display:
        return ""
    known = [one.memory_bytes for one in gpu.display if one.memory_bytes is not None]
    return f"a display uses {formats.memory(sum(known))}" if known else "a display is on it"


def _line(
    condition: Condition,
    reason: str,
    cells: tuple[GpuCell, ...],
    reading: NodeReading | None,
) -> tuple[str, Tone]:
    if condition is Condition.UNHEALTHY:
        return upper_first(reason), "warn"
    if condition is Condition.UNKNOWN:
        return upper_first(reason), "text3"
    if condition is not Condition.WELL or reading is None:
        return condition.word, condition.tone
    if not cells:
        return formats.plural(reading.cpu.cores, "core"), "text2"
    free = sum(cell.is_free for cell in cells)
    return (f"{free} free", "text2") if free else ("all busy", "text3")


def step_line(set_up: SetUp) -> tuple[str, Tone] | None:
    """The current step of a set-up ("PyTorch, 5 of 7"), None once it is done."""
    if set_up.failed is not None:
        ended = "failed" if set_up.failed.state is StepState.FAILED else "cancelled"
        return f"{set_up.failed.title} {ended}", "bad" if ended == "failed" else "idle"
    for number, step in enumerate(set_up.steps, 1):
        if step.state is not StepState.DONE:
            return f"{step.title}, {number} of {len(set_up.steps)}", "live"
    return None


def beat_words(age_s: float | None) -> str:
    """Return "now" for a fresh heartbeat: a figure that jumps between 0 and 2 is useless."""
    if age_s is None:
        return formats.NONE
    return "now" if age_s < _FRESH_BEAT_S else formats.rough(age_s)


def upper_first(text: str) -> str:
    return text[:1].upper() + text[1:]


def counts_sentence(rows: Iterable[NodeRow]) -> str:
    """Return "10 healthy, 1 needs attention, 1 offline · 52 of 96 GPUs free"."""
    rows = tuple(rows)
    numbers = [
        f"{formats.count(number)} {condition.counted(number)}"
        for condition in Condition
        if (number := sum(row.condition is condition for row in rows))
    ]
    total = sum(len(row.gpus) for row in rows)
    free = sum(row.free_gpus for row in rows)
    gpus = f" · {formats.count(free)} of {formats.plural(total, 'GPU')} free" if total else ""
    return ", ".join(numbers) + gpus
