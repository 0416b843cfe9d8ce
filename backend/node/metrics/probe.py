"""One reading of this computer: processors, memory, disk, network, GPUs and their processes.

The data root is queried in a thread that can be abandoned: `statvfs` on a share that hangs cannot
be interrupted. ``python -m backend.node.metrics.probe NAME DATA_ROOT`` prints one reading as a JSON
object. `OtherPrograms` compares two readings of the processors.
"""

from __future__ import annotations

import json
import os
import resource
import socket
import sys
import time
from pathlib import Path

from backend.base.cores import usable_cores
from backend.base.log import suppress
from backend.base.room import DiskSpace, disk_space
from backend.node.metrics.gpus import Gpus
from backend.node.metrics.keyboard import Keyboard
from backend.node.metrics.processes import ProcessReader
from backend.node.system.timeout_call import TimeoutCall
from backend.records.nodes.reading import Cpu, NodeReading

_DISK_LIMIT_S = 2.0
_MEMORY = frozenset({"MemTotal", "MemAvailable", "SwapTotal", "SwapFree"})


class Probe:
    """Reads this computer repeatedly; rates come from the difference to the last reading."""

    def __init__(self, name: str, data_root: Path, interval_s: float = 2.0) -> None:
        self._name = name
        self._interval_s = interval_s
        self._disk_path = data_root
        self._disk_call = TimeoutCall(_DISK_LIMIT_S)
        self._gpus = Gpus()
        self._keyboard = Keyboard()
        self._processes = ProcessReader()
        self._cpu_model = _cpu_model()
        self._interfaces: set[str] = set()
        self._physical_interfaces: list[str] = []
        self._heartbeat = 0
        self._last_cpu: dict[str, tuple[int, int]] = {}
        self._last_network: tuple[float, int, int] | None = None

    def read(self) -> NodeReading:
        self._heartbeat += 1
        memory = _memory()
        disk = self._disk_space()
        gpus, message = self._gpus.read()
        cores = self._core_use_percent()
        received_bytes, sent_bytes = self._network_rates()
        load = os.getloadavg()
        return NodeReading(
            name=self._name,
            host=socket.gethostname(),
            heartbeat=self._heartbeat,
            cpu=Cpu(
                model=self._cpu_model,
                cores=usable_cores(),
                use_percent=cores.pop("cpu", None),
                load_1min=load[0],
                load_5min=load[1],
                load_15min=load[2],
                core_use_percent=tuple(cores.values()),
            ),
            memory_total_bytes=memory.get("MemTotal", 0),
            memory_used_bytes=memory.get("MemTotal", 0) - memory.get("MemAvailable", 0),
            swap_total_bytes=memory.get("SwapTotal", 0),
            swap_used_bytes=memory.get("SwapTotal", 0) - memory.get("SwapFree", 0),
            disk_path=str(self._disk_path),
            disk_total_bytes=None if disk is None else disk.total_bytes,
            disk_free_bytes=None if disk is None else disk.free_bytes,
            disk_free_files=None if disk is None else disk.free_files,
            network_in_bytes_per_s=received_bytes,
            network_out_bytes_per_s=sent_bytes,
            uptime_s=time.clock_gettime(time.CLOCK_BOOTTIME),
            driver=self._gpus.driver,
            gpus=gpus,
            gpu_message=message,
            gpus_unreadable=self._gpus.is_unreadable,
            interval_s=self._interval_s,
            at_keyboard=self._keyboard.user(),
            processes=self._processes.read(
                frozenset(process.pid for gpu in gpus for process in gpu.processes)
            ),
        )

    def _disk_space(self) -> DiskSpace | None:
        """Return the room of the data root's file system, None if it does not answer."""
        with suppress(OSError):
            return self._disk_call.call(lambda: disk_space(self._disk_path))
        return None

    def _core_use_percent(self) -> dict[str, float]:
        """Return the use by the kernel's name of a core; "cpu" is all of them together."""
        counts = cpu_counts()
        last_counts, self._last_cpu = self._last_cpu, counts
        if not last_counts or counts["cpu"][0] <= last_counts["cpu"][0]:
            return {}
        return {
            name: _busy_percent(last_counts[name], current_ticks)
            for name, current_ticks in counts.items()
            if name in last_counts
        }

    def _network_rates(self) -> tuple[float | None, float | None]:
        now_s, (received_bytes, sent_bytes) = time.monotonic(), self._network_bytes()
        last_counts, self._last_network = self._last_network, (now_s, received_bytes, sent_bytes)
        if last_counts is None or now_s <= last_counts[0]:
            return None, None
        over_s = now_s - last_counts[0]
        return max(0, received_bytes - last_counts[1]) / over_s, max(
            0, sent_bytes - last_counts[2]
        ) / over_s

    def _network_bytes(self) -> tuple[int, int]:
        """Return bytes in and out of the physical interfaces, or of all except the loopback."""
        counts: dict[str, tuple[int, int]] = {}
        with open("/proc/net/dev", encoding="ascii") as file:
            for line in file.readlines()[2:]:
                name, values = line.split(":", 1)
                fields = values.split()
                counts[name.strip()] = int(fields[0]), int(fields[8])
        counts.pop("lo", None)
        if counts.keys() != self._interfaces:
            self._interfaces = set(counts)
            self._physical_interfaces = [
                name for name in counts if os.path.exists(f"/sys/class/net/{name}/device")
            ]
        chosen_counts = [counts[name] for name in self._physical_interfaces or counts]
        return sum(c[0] for c in chosen_counts), sum(c[1] for c in chosen_counts)


def read_once(name: str, data_root: Path, over_s: float = 0.2) -> NodeReading:
    """Return a single reading that includes rates."""
    probe = Probe(name, data_root)
    probe.read()
    time.sleep(over_s)
    return probe.read()


def main() -> None:
    name, data_root = sys.argv[1:]
    sys.stdout.write(json.dumps(read_once(name, Path(data_root)).to_dict()) + "\n")


def cpu_counts() -> dict[str, tuple[int, int]]:
    """Return the total and idle ticks since boot."""
    counts = {}
    with open("/proc/stat", encoding="ascii") as file:
        for line in file:
            if not line.startswith("cpu"):
                break
            name, *values = line.split()
            ticks = [int(value) for value in values[:8]]
            counts[name] = sum(ticks), ticks[3] + ticks[4]
    return counts


def _busy_percent(last_ticks: tuple[int, int], current_ticks: tuple[int, int]) -> float:
    ticks, idle_ticks = current_ticks[0] - last_ticks[0], current_ticks[1] - last_ticks[1]
    # The kernel's idle counts sometimes decrease.
    return round(100.0 * min(max(1 - idle_ticks / ticks, 0.0), 1.0), 1) if ticks > 0 else 0.0


def _memory() -> dict[str, int]:
    amounts = {}
    with open("/proc/meminfo", encoding="ascii") as file:
        for line in file:
            name, value = line.split(":")
            if name in _MEMORY:
                amounts[name] = int(value.split()[0]) * 1024
    return amounts


def _cpu_model() -> str:
    with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
        for line in file:
            if line.startswith(("model name", "Model")):
                return line.partition(":")[2].strip()
    return os.uname().machine


class OtherPrograms:
    """Compares what all processors did with what this process and its ended children used."""

    def __init__(self) -> None:
        self._start = _processor_seconds()

    def share(self) -> float | None:
        """Return the share since the beginning, from 0 to 1; None if it is not known."""
        elapsed_s, busy_s, own_busy_s = (
            end_s - start_s for end_s, start_s in zip(_processor_seconds(), self._start)
        )
        return min(1.0, max(0.0, busy_s - own_busy_s) / elapsed_s) if elapsed_s > 0 else None


def _processor_seconds() -> tuple[float, float, float]:
    """Return all seconds of all processors since boot, those in use, and this program's."""
    total, idle_s = (ticks / os.sysconf("SC_CLK_TCK") for ticks in cpu_counts()["cpu"])
    usages = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return total, total - idle_s, sum(usage.ru_utime + usage.ru_stime for usage in usages)


if __name__ == "__main__":
    main()
