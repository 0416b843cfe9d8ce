"""The facts below the header of a node's page: address, hardware, load."""

from __future__ import annotations

from collections import Counter

from backend.records.nodes.reading import NodeReading, NodeState, Presence
from widgets.common import formats
from widgets.common.key_value_row import Fact


def facts_of(state: NodeState, beat: str) -> list[Fact]:
    """Return the facts, the most important first: the last ones are dropped if room is short."""
    entry, reading = state.entry, state.reading
    known = entry.facts if entry is not None else None
    found: list[Fact] = []
    if entry is not None:
        found.append(Fact("Address", entry.address.host))
    elif reading is not None:
        found.append(Fact("Name", reading.host))
    if state.over_ssh:
        found.append(
            Fact("Figures", "over SSH", tip="Read periodically over SSH: no agent reports them")
        )
    names = (
        [g.name for g in reading.gpus] if reading is not None else list(known.gpus if known else ())
    )
    if names:
        each = [f"{n} × {name}" if n > 1 else name for name, n in Counter(names).items()]
        found.append(Fact("GPUs", ", ".join(each)))
    if entry is not None and entry.gives_way:
        tip = "To other users of its GPUs, or at its keyboard"
        found.append(Fact("Gives way", entry.gives_way, tip=tip))
    away = state.presence is Presence.OFFLINE and not state.over_ssh
    if reading is not None and not away:
        found += _live_facts(reading, any(one.key == "disk" for one in state.health))
    elif reading is not None or known is not None:
        cores = reading.cpu.cores if reading is not None else known.cores if known else 0
        total = reading.memory_total_bytes if reading else known.memory_bytes if known else 0
        # Zero means that they are not known yet.
        found += [Fact("Processor", formats.plural(cores, "core"))] if cores else []
        found += [Fact("Memory", formats.memory(total))] if total else []
    driver = reading.driver if reading is not None else known.driver if known else ""
    if driver:
        found.append(Fact("Driver", driver))
    if entry is not None and entry.installation is not None:
        found.append(Fact("Open MPI", entry.installation.mpi_version))
    if known is not None:
        found.append(Fact("System", known.system))
    if reading is not None and not away:
        found.append(Fact("Up", _up(reading.uptime_s)))
    if beat and not state.over_ssh:
        found.append(Fact("Heartbeat", beat))
    return found


def _live_facts(reading: NodeReading, little: bool) -> list[Fact]:
    cpu, total, free = reading.cpu, reading.memory_total_bytes, reading.disk_free_bytes
    use = formats.percent(None if cpu.use_percent is None else cpu.use_percent / 100)
    share = formats.percent(reading.memory_used_bytes / total) if total else formats.NONE
    left = "does not respond" if free is None else f"{formats.disk(free)} free"
    found = [
        Fact("Processor", f"{use} of {formats.plural(cpu.cores, 'core')}", tip=cpu.model),
        Fact("Memory", f"{share} of {formats.memory(total)}"),
        Fact("Data root", left, "warn" if little or free is None else "text", reading.disk_path),
    ]
    if reading.network_bytes_per_s is not None:
        # In bits, as in the rack, the history, and network specifications.
        speed = f"{8e-9 * reading.network_bytes_per_s:.1f}{formats.GAP}Gbit/s"
        found.append(Fact("Network", speed))
    return [*found, Fact("Load", f"{cpu.load_1min:.2f}")]


def _up(seconds: float) -> str:
    days = round(seconds / 86_400)
    return formats.plural(days, "day") if days >= 2 else formats.rough(seconds)
