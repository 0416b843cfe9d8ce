"""The details below the header of a node's page: address, hardware, load."""

from __future__ import annotations

from collections import Counter

from backend.records.nodes.reading import NodeReading, NodeState, Presence
from widgets.common import formats
from widgets.common.key_value_row import KeyValue


def node_details(state: NodeState, heartbeat: str) -> list[KeyValue]:
    """Return the details, the most important first: the last are dropped if space is short."""
    entry, reading = state.entry, state.reading
    hardware = entry.info if entry is not None else None
    details: list[KeyValue] = []
    if entry is not None:
        details.append(KeyValue("Address", entry.address.host))
    elif reading is not None:
        details.append(KeyValue("Name", reading.host))
    if state.over_ssh:
        details.append(
            KeyValue("Figures", "over SSH", tip="Read periodically over SSH: no agent reports them")
        )
    gpu_models = (
        [g.name for g in reading.gpus]
        if reading is not None
        else list(hardware.gpus if hardware else ())
    )
    if gpu_models:
        model_counts = [
            f"{n} × {name}" if n > 1 else name for name, n in Counter(gpu_models).items()
        ]
        details.append(KeyValue("GPUs", ", ".join(model_counts)))
    if entry is not None and entry.gives_way:
        tip = "To other users of its GPUs, or at its keyboard"
        details.append(KeyValue("Gives way", entry.gives_way, tip=tip))
    is_silent = state.presence is Presence.OFFLINE and not state.over_ssh
    if reading is not None and not is_silent:
        details += _live_details(reading, any(finding.key == "disk" for finding in state.health))
    elif reading is not None or hardware is not None:
        core_count = reading.cpu.cores if reading is not None else hardware.cores if hardware else 0
        memory_bytes = (
            reading.memory_total_bytes if reading else hardware.memory_bytes if hardware else 0
        )
        # Zero means that the number is not known yet.
        details += [KeyValue("Processor", formats.plural(core_count, "core"))] if core_count else []
        details += [KeyValue("Memory", formats.memory(memory_bytes))] if memory_bytes else []
    driver = reading.driver if reading is not None else hardware.driver if hardware else ""
    if driver:
        details.append(KeyValue("Driver", driver))
    if entry is not None and entry.installation is not None:
        details.append(KeyValue("Open MPI", entry.installation.mpi_version))
    if hardware is not None:
        details.append(KeyValue("System", hardware.system))
    if reading is not None and not is_silent:
        details.append(KeyValue("Up", _uptime(reading.uptime_s)))
    if heartbeat and not state.over_ssh:
        details.append(KeyValue("Heartbeat", heartbeat))
    return details


def _live_details(reading: NodeReading, is_disk_low: bool) -> list[KeyValue]:
    cpu, memory_bytes, disk_free = reading.cpu, reading.memory_total_bytes, reading.disk_free_bytes
    cpu_use = formats.percent(None if cpu.use_percent is None else cpu.use_percent / 100)
    memory_use = (
        formats.percent(reading.memory_used_bytes / memory_bytes) if memory_bytes else formats.NONE
    )
    free_text = "does not respond" if disk_free is None else f"{formats.disk(disk_free)} free"
    details = [
        KeyValue("Processor", f"{cpu_use} of {formats.plural(cpu.cores, 'core')}", tip=cpu.model),
        KeyValue("Memory", f"{memory_use} of {formats.memory(memory_bytes)}"),
        KeyValue(
            "Data root",
            free_text,
            "warn" if is_disk_low or disk_free is None else "text",
            reading.disk_path,
        ),
    ]
    if reading.network_bytes_per_s is not None:
        # In bits, as in the rack, the history, and network specifications.
        speed = f"{8e-9 * reading.network_bytes_per_s:.1f}{formats.GAP}Gbit/s"
        details.append(KeyValue("Network", speed))
    return [*details, KeyValue("Load", f"{cpu.load_1min:.2f}")]


def _uptime(seconds: float) -> str:
    days = round(seconds / 86_400)
    return formats.plural(days, "day") if days >= 2 else formats.rough_duration(seconds)
