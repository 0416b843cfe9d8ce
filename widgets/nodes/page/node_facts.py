"""The facts below the header of a node's page: address, hardware, load."""

from __future__ import annotations

from collections import Counter

from backend.records.nodes.reading import NodeReading, NodeState, Presence
from widgets.common import formats
from widgets.common.key_value_row import KeyValue


def facts_of(state: NodeState, beat: str) -> list[KeyValue]:
    """Return the facts, the most important first: the last ones are dropped if room is short."""
    entry, reading = state.entry, state.reading
    known = entry.info if entry is not None else None
    found: list[KeyValue] = []
    if entry is not None:
        found.append(KeyValue("Address", entry.address.host))
    elif reading is not None:
        found.append(KeyValue("Name", reading.host))
    if state.over_ssh:
        found.append(
            KeyValue("Figures", "over SSH", tip="Read periodically over SSH: no agent reports them")
        )
    names = (
        [g.name for g in reading.gpus] if reading is not None else list(known.gpus if known else ())
    )
    if names:
        each = [f"{n} × {name}" if n > 1 else name for name, n in Counter(names).items()]
        found.append(KeyValue("GPUs", ", ".join(each)))
    if entry is not None and entry.gives_way:
        tip = "To other users of its GPUs, or at its keyboard"
        found.append(KeyValue("Gives way", entry.gives_way, tip=tip))
    away = state.presence is Presence.OFFLINE and not state.over_ssh
    if reading is not None and not away:
        found += _live_facts(reading, any(one.key == "disk" for one in state.health))
    elif reading is not None or known is not None:
        cores = reading.cpu.cores if reading is not None else known.cores if known else 0
        total = reading.memory_total_bytes if reading else known.memory_bytes if known else 0
        # Zero means that they are not known yet.
        found += [KeyValue("Processor", formats.plural(cores, "core"))] if cores else []
        found += [KeyValue("Memory", formats.memory(total))] if total else []
    driver = reading.driver if reading is not None else known.driver if known else ""
    if driver:
        found.append(KeyValue("Driver", driver))
    if entry is not None and entry.installation is not None:
        found.append(KeyValue("Open MPI", entry.installation.mpi_version))
    if known is not None:
        found.append(KeyValue("System", known.system))
    if reading is not None and not away:
        found.append(KeyValue("Up", _up(reading.uptime_s)))
    if beat and not state.over_ssh:
        found.append(KeyValue("Heartbeat", beat))
    return found


def _live_facts(reading: NodeReading, little: bool) -> list[KeyValue]:
    cpu, total, free = reading.cpu, reading.memory_total_bytes, reading.disk_free_bytes
    use = formats.percent(None if cpu.use_percent is None else cpu.use_percent / 100)
    share = formats.percent(reading.memory_used_bytes / total) if total else formats.NONE
    left = "does not respond" if free is None else f"{formats.disk(free)} free"
    found = [
        KeyValue("Processor", f"{use} of {formats.plural(cpu.cores, 'core')}", tip=cpu.model),
        KeyValue("Memory", f"{share} of {formats.memory(total)}"),
        KeyValue("Data root", left, "warn" if little or free is None else "text", reading.disk_path),
    ]
    if reading.network_bytes_per_s is not None:
        # In bits, as in the rack, the history, and network specifications.
        speed = f"{8e-9 * reading.network_bytes_per_s:.1f}{formats.GAP}Gbit/s"
        found.append(KeyValue("Network", speed))
    return [*found, KeyValue("Load", f"{cpu.load_1min:.2f}")]


def _up(seconds: float) -> str:
    days = round(seconds / 86_400)
    return formats.plural(days, "day") if days >= 2 else formats.rough_duration(seconds)
