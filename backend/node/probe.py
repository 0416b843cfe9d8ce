"""One reading of this computer: processors, memory, disk, network, GPUs and who is on them.

Every question to the NVIDIA driver may be refused by itself (a GeForce has no ECC, a virtual GPU no
fan), so each answer stands alone and None means that it was not given. The data root is asked in a
thread that can be given up: `statvfs` on a share that hangs cannot be interrupted.
"""

from __future__ import annotations

import os
import pwd
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from backend.node.sweep import run_tag_of
from backend.records.node import Cpu, Gpu, GpuProcess, NodeReading

NO_DRIVER = "CPU only: no NVIDIA driver was found"
_DISK_LIMIT_S = 2.0
_COMMAND_LENGTH = 200
_REASONS = {
    0x001: "idle",
    0x002: "clocks set by an application",
    0x004: "power cap",
    0x008: "hardware slowdown",
    0x010: "sync boost",
    0x020: "software thermal slowdown",
    0x040: "hardware thermal slowdown",
    0x080: "hardware power brake",
    0x100: "display clocks",
    0x200: "board limit",
    0x400: "reliability limit",
}
"""Bits of NVML's clock event reasons, which drivers before 535 call throttle reasons."""


class Probe:
    """Reads this computer again and again; rates come from the difference to the last reading."""

    def __init__(self, name: str, data_root: Path) -> None:
        self._name = name
        self._disk = _Disk(data_root)
        self._gpus = Gpus()
        self._heartbeat = 0
        self._last_cpu: tuple[int, int] | None = None
        self._last_network: tuple[float, int] | None = None

    def read(self) -> NodeReading:
        self._heartbeat += 1
        memory = _memory()
        total, free = self._disk.read()
        gpus, message = self._gpus.read()
        return NodeReading(
            name=self._name,
            host=socket.gethostname(),
            heartbeat=self._heartbeat,
            cpu=Cpu(
                model=_cpu_model(),
                cores=os.cpu_count() or 1,
                use_percent=self._cpu_percent(),
                load_1min=os.getloadavg()[0],
            ),
            memory_total_bytes=memory.get("MemTotal", 0),
            memory_used_bytes=memory.get("MemTotal", 0) - memory.get("MemAvailable", 0),
            swap_total_bytes=memory.get("SwapTotal", 0),
            swap_used_bytes=memory.get("SwapTotal", 0) - memory.get("SwapFree", 0),
            disk_path=str(self._disk.path),
            disk_total_bytes=total,
            disk_free_bytes=free,
            network_bytes_per_s=self._network_rate(),
            uptime_s=_uptime_s(),
            driver=self._gpus.driver,
            gpus=gpus,
            gpu_message=message,
        )

    def _cpu_percent(self) -> float | None:
        fields = [int(value) for value in _first_line("/proc/stat").split()[1:9]]
        total, idle = sum(fields), fields[3] + fields[4]
        last, self._last_cpu = self._last_cpu, (total, idle)
        if last is None or total <= last[0]:
            return None
        return 100.0 * (1 - (idle - last[1]) / (total - last[0]))

    def _network_rate(self) -> float | None:
        now, count = time.monotonic(), _network_bytes()
        last, self._last_network = self._last_network, (now, count)
        if last is None or now <= last[0]:
            return None
        return max(0, count - last[1]) / (now - last[0])


def read_once(name: str, data_root: Path, over_s: float = 0.2) -> NodeReading:
    """One reading with rates in it, for who looks only once."""
    probe = Probe(name, data_root)
    probe.read()
    time.sleep(over_s)
    return probe.read()


class Gpus:
    """The GPUs of this computer as the NVIDIA driver tells of them."""

    def __init__(self) -> None:
        self.driver = ""
        self._nvml: Any = None

    def read(self) -> tuple[tuple[Gpu, ...], str]:
        """All GPUs, or none and why."""
        try:
            import pynvml
        except ImportError:
            if not Path("/proc/driver/nvidia").exists():
                return (), NO_DRIVER
            return (), "GPUs cannot be read: the Python package nvidia-ml-py is not installed"
        try:
            if self._nvml is None:
                pynvml.nvmlInit()
                self._nvml = pynvml
                self.driver = str(pynvml.nvmlSystemGetDriverVersion())
            count = pynvml.nvmlDeviceGetCount()
        except (
            pynvml.NVMLError_LibraryNotFound,
            pynvml.NVMLError_DriverNotLoaded,
        ):
            return (), NO_DRIVER
        except pynvml.NVMLError as error:
            self._nvml = None  # the driver may come back, after an update for one
            return (), f"GPUs cannot be read: the NVIDIA driver says “{error}”"
        gpus = tuple(gpu for gpu in (self._gpu(index) for index in range(count)) if gpu)
        return gpus, "" if gpus else "CPU only: the NVIDIA driver sees no GPU"

    def _gpu(self, index: int) -> Gpu | None:
        nvml = self._nvml
        handle = self._ask(nvml.nvmlDeviceGetHandleByIndex, index)
        if handle is None:  # fallen off the bus
            return None
        memory = self._ask(nvml.nvmlDeviceGetMemoryInfo, handle)
        use = self._ask(nvml.nvmlDeviceGetUtilizationRates, handle)
        power_mw = self._ask(nvml.nvmlDeviceGetPowerUsage, handle)
        limit_mw = self._ask(nvml.nvmlDeviceGetEnforcedPowerLimit, handle)
        volatile = nvml.NVML_VOLATILE_ECC
        ecc = nvml.nvmlDeviceGetTotalEccErrors
        return Gpu(
            index=index,
            uuid=str(self._ask(nvml.nvmlDeviceGetUUID, handle) or ""),
            name=str(self._ask(nvml.nvmlDeviceGetName, handle) or ""),
            memory_used_bytes=None if memory is None else int(memory.used),
            memory_total_bytes=None if memory is None else int(memory.total),
            use_percent=None if use is None else int(use.gpu),
            temperature_c=self._ask(
                nvml.nvmlDeviceGetTemperature, handle, nvml.NVML_TEMPERATURE_GPU
            ),
            power_w=None if power_mw is None else power_mw / 1000,
            power_limit_w=None if limit_mw is None else limit_mw / 1000,
            sm_clock_mhz=self._ask(nvml.nvmlDeviceGetClockInfo, handle, nvml.NVML_CLOCK_SM),
            max_sm_clock_mhz=self._ask(nvml.nvmlDeviceGetMaxClockInfo, handle, nvml.NVML_CLOCK_SM),
            fan_percent=self._ask(nvml.nvmlDeviceGetFanSpeed, handle),
            ecc_corrected=self._ask(ecc, handle, nvml.NVML_MEMORY_ERROR_TYPE_CORRECTED, volatile),
            ecc_uncorrected=self._ask(
                ecc, handle, nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, volatile
            ),
            clock_event_reasons=self._reasons(handle),
            processes=self._processes(handle),
        )

    def _reasons(self, handle: object) -> tuple[str, ...]:
        for name in ("Event", "Throttle"):
            ask = getattr(self._nvml, f"nvmlDeviceGetCurrentClocks{name}Reasons", None)
            bits = self._ask(ask, handle) if ask is not None else None
            if bits is not None:
                return tuple(word for bit, word in _REASONS.items() if bits & bit)
        return ()

    def _processes(self, handle: object) -> tuple[GpuProcess, ...]:
        memory: dict[int, int | None] = {}
        for kind in ("Compute", "Graphics"):
            ask = getattr(self._nvml, f"nvmlDeviceGet{kind}RunningProcesses")
            for one in self._ask(ask, handle) or ():
                memory.setdefault(int(one.pid), one.usedGpuMemory)
        return tuple(gpu_process(pid, used) for pid, used in sorted(memory.items()))

    def _ask(self, question: Callable[..., Any], *arguments: object) -> Any:
        try:
            return question(*arguments)
        except self._nvml.NVMLError:
            return None


def gpu_process(pid: int, memory_bytes: int | None) -> GpuProcess:
    """A process on a GPU and whose it is; a pid of another container has no owner here."""
    user, command, age_s = "", "", None
    with suppress(OSError):
        uid = os.stat(f"/proc/{pid}").st_uid
        try:
            user = pwd.getpwuid(uid).pw_name
        except KeyError:
            user = str(uid)
        raw = Path(f"/proc/{pid}/cmdline").read_bytes()
        command = raw.replace(b"\0", b" ").decode("utf-8", "replace").strip()[:_COMMAND_LENGTH]
        stat = Path(f"/proc/{pid}/stat").read_bytes()
        ticks = int(stat[stat.rindex(b")") + 2 :].split()[19])
        age_s = max(0.0, _uptime_s() - ticks / os.sysconf("SC_CLK_TCK"))
    return GpuProcess(
        pid=pid,
        user=user,
        memory_bytes=memory_bytes,
        command=command,
        age_s=age_s,
        run_tag=run_tag_of(pid),
    )


@dataclass
class _Answer:
    total: int | None = None
    free: int | None = None


class _Disk:
    """Size and room of the data root's file system, asked in a thread that may hang."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._asking: threading.Thread | None = None

    def read(self) -> tuple[int | None, int | None]:
        if self._asking is not None and self._asking.is_alive():
            return None, None
        answer = _Answer()
        self._asking = threading.Thread(target=self._ask, args=(answer,), daemon=True)
        self._asking.start()
        self._asking.join(_DISK_LIMIT_S)
        return answer.total, answer.free

    def _ask(self, answer: _Answer) -> None:
        with suppress(OSError):
            found = os.statvfs(self.path)
            answer.free = found.f_bavail * found.f_frsize
            answer.total = found.f_blocks * found.f_frsize


def _memory() -> dict[str, int]:
    found = {}
    with open("/proc/meminfo", encoding="ascii") as file:
        for line in file:
            name, value = line.split(":")
            found[name] = int(value.split()[0]) * 1024
    return found


def _network_bytes() -> int:
    """Bytes in and out of the real interfaces; of all but the loop where none is real."""
    counts: dict[str, int] = {}
    with open("/proc/net/dev", encoding="ascii") as file:
        for line in file.readlines()[2:]:
            name, values = line.split(":", 1)
            fields = values.split()
            counts[name.strip()] = int(fields[0]) + int(fields[8])
    counts.pop("lo", None)
    real = [name for name in counts if Path(f"/sys/class/net/{name}/device").exists()]
    return sum(counts[name] for name in real or counts)


def _cpu_model() -> str:
    with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
        for line in file:
            if line.startswith(("model name", "Model")):
                return line.partition(":")[2].strip()
    return os.uname().machine


def _uptime_s() -> float:
    return float(_first_line("/proc/uptime").split()[0])


def _first_line(path: str) -> str:
    with open(path, encoding="ascii") as file:
        return file.readline()
