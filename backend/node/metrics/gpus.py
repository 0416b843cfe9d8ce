"""GPUs of this computer as the NVIDIA driver reports them, and the processes on them.

The driver may refuse each query separately (a GeForce has no ECC, a virtual GPU no fan), so each
value may be None. A GPU that stopped responding stays in the list: otherwise a training that lost
one ends with a sentence about NCCL.

Readings are cheap because constant values are queried once, and values that rarely change or were
refused only in each 15th reading.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from backend.base.log import suppress, swallowed
from backend.node.system import process_identity
from backend.node.system.process_identity import Owner, age_s, owner_of
from backend.node.system.timeout_call import TimeoutCall
from backend.records.jobs.status import ProcessIdentity
from backend.records.nodes.reading import EXCLUSIVE, PROHIBITED, Gpu, GpuProcess, MigInstance

NO_DRIVER = "CPU only: no NVIDIA driver was found"
_LIMIT_S = 3.0
"""A driver that loses a GPU can hang its caller."""
_SLOW_EVERY = 15
_UNKNOWN_STATE = 32
_MODES = {1: EXCLUSIVE, 2: PROHIBITED, 3: EXCLUSIVE}
"""NVML's compute modes; 1 was exclusive for a thread."""
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


class _GpuLost(Exception):
    """The GPU no longer responds."""


class _GpuQueries:
    """Queries for one GPU, or an instance of it; None for a value that the driver lacks."""

    def __init__(self, nvml: Any, handle: object) -> None:
        self.nvml = nvml
        self.handle = handle
        self.refused_queries: set[tuple[object, ...]] = set()

    def __call__(self, question: str, *arguments: object) -> Any:
        function = getattr(self.nvml, question, None)
        if function is None or (question, *arguments) in self.refused_queries:
            return None
        try:
            return function(self.handle, *arguments)
        except self.nvml.NVMLError_GpuIsLost:
            raise _GpuLost from None
        except self.nvml.NVMLError as error:
            swallowed(error)
            self.refused_queries.add((question, *arguments))
            return None


@dataclass
class _GpuState:
    """One GPU between two readings. ``ask`` is None while it is lost."""

    ask: _GpuQueries | None = None
    constants: dict[str, Any] = field(default_factory=dict)
    slow_values: dict[str, Any] = field(default_factory=dict)


class Gpus:
    """Reads the GPUs repeatedly."""

    def __init__(self) -> None:
        self.driver = ""
        self.is_unreadable = False
        """True if the last `read` failed: not the same as a node without a GPU."""
        self._nvml: Any = None
        self._driver_call = TimeoutCall(_LIMIT_S)
        self._count = 0
        self._states: dict[int, _GpuState] = {}
        self._last_gpus: dict[str, Gpu] = {}
        self._owners: dict[int, tuple[ProcessIdentity, Owner]] = {}

    def read(self) -> tuple[tuple[Gpu, ...], str]:
        """Return all GPUs, or none and the reason. A driver that hangs is soon abandoned."""
        try:
            gpus, message, self.is_unreadable = self._driver_call.call(self._read)
        except TimeoutError as error:
            swallowed(error)
            self.is_unreadable = True
            return (), "GPUs cannot be read: the NVIDIA driver does not respond"
        return gpus, message

    def _read(self) -> tuple[tuple[Gpu, ...], str, bool]:
        """Return the GPUs, why there are none, and whether that is a failure."""
        try:
            import pynvml
        except ImportError as error:
            swallowed(error)
            if not os.path.exists("/proc/driver/nvidia"):
                return (), NO_DRIVER, False
            return (), "GPUs cannot be read: the Python package nvidia-ml-py is not installed", True
        try:
            if self._nvml is None:
                self._states = {}
                pynvml.nvmlInit()
                self._nvml = pynvml
                self.driver = str(pynvml.nvmlSystemGetDriverVersion())
            count = pynvml.nvmlDeviceGetCount()
        except (pynvml.NVMLError_LibraryNotFound, pynvml.NVMLError_DriverNotLoaded) as error:
            swallowed(error)
            self._forget_driver()
            return (), NO_DRIVER, False
        except pynvml.NVMLError as error:
            self._forget_driver()
            return (), f"GPUs cannot be read: the NVIDIA driver reports “{error}”", True
        is_slow_round = self._count % _SLOW_EVERY == 0
        self._count += 1
        gpus = [self._gpu(index, is_slow_round) for index in range(count)]
        all_gpus = self._add_lost_gpus([gpu for gpu in gpus if gpu is not None])
        in_use = {process.pid for gpu in all_gpus for process in gpu.processes}
        self._owners = {pid: owner for pid, owner in self._owners.items() if pid in in_use}
        return all_gpus, "" if all_gpus else "CPU only: the NVIDIA driver sees no GPU", False

    def _forget_driver(self) -> None:
        """Close the driver; it may be available later, for example after an update."""
        if self._nvml is not None:
            with suppress(self._nvml.NVMLError):
                self._nvml.nvmlShutdown()
        self._nvml = None

    def _add_lost_gpus(self, gpus: list[Gpu]) -> tuple[Gpu, ...]:
        """Add lost GPUs: a driver that was loaded again does not count them."""
        present_uuids = {gpu.uuid for gpu in gpus}
        self._last_gpus.update((gpu.uuid, gpu) for gpu in gpus if gpu.uuid and not gpu.is_lost)
        lost_gpus = [
            _lost_gpu(gpu) for uuid, gpu in self._last_gpus.items() if uuid not in present_uuids
        ]
        return tuple(sorted(gpus + lost_gpus, key=lambda gpu: gpu.index))

    def _gpu(self, index: int, is_slow_round: bool) -> Gpu | None:
        """Return one GPU, or None if this process may not see it (in a container)."""
        gpu_state = self._states.setdefault(index, _GpuState())
        try:
            if gpu_state.ask is None and (is_slow_round or not gpu_state.constants):
                gpu_state.ask = _GpuQueries(
                    self._nvml, self._nvml.nvmlDeviceGetHandleByIndex(index)
                )
            if gpu_state.ask is not None:
                return self._answers(index, gpu_state, gpu_state.ask, is_slow_round)
        except self._nvml.NVMLError_NoPermission as error:
            swallowed(error)
            return None
        except (_GpuLost, self._nvml.NVMLError) as error:
            swallowed(error)
            gpu_state.ask = None
        uuid = str(gpu_state.constants.get("uuid", ""))
        return _lost_gpu(self._last_gpus.get(uuid, Gpu(index, "", "")))

    def _answers(
        self, index: int, gpu_state: _GpuState, ask: _GpuQueries, is_slow_round: bool
    ) -> Gpu:
        nvml = self._nvml
        if is_slow_round:
            ask.refused_queries.clear()
        if not gpu_state.constants:
            gpu_state.constants = {
                "uuid": str(ask("nvmlDeviceGetUUID") or ""),
                "name": str(ask("nvmlDeviceGetName") or ""),
                "max_sm_clock_mhz": ask("nvmlDeviceGetMaxClockInfo", nvml.NVML_CLOCK_SM),
                "max_memory_clock_mhz": ask("nvmlDeviceGetMaxClockInfo", nvml.NVML_CLOCK_MEM),
                "max_pcie_generation": ask("nvmlDeviceGetMaxPcieLinkGeneration"),
                "max_pcie_width": ask("nvmlDeviceGetMaxPcieLinkWidth"),
            }
        if is_slow_round or not gpu_state.slow_values:
            gpu_state.slow_values = _slow_values(ask)
        memory = _memory(ask)
        use = ask("nvmlDeviceGetUtilizationRates")
        state = ask("nvmlDeviceGetPerformanceState")
        corrected_errors, uncorrected_errors = _ecc(ask, nvml.NVML_VOLATILE_ECC)
        return Gpu(
            index=index,
            memory_used_bytes=None if memory is None else int(memory.used),
            memory_total_bytes=None if memory is None else int(memory.total),
            use_percent=None if use is None else int(use.gpu),
            temperature_c=ask("nvmlDeviceGetTemperature", nvml.NVML_TEMPERATURE_GPU),
            power_w=_thousandth(ask("nvmlDeviceGetPowerUsage")),
            sm_clock_mhz=ask("nvmlDeviceGetClockInfo", nvml.NVML_CLOCK_SM),
            memory_clock_mhz=ask("nvmlDeviceGetClockInfo", nvml.NVML_CLOCK_MEM),
            fan_percent=ask("nvmlDeviceGetFanSpeed"),
            energy_j=_thousandth(ask("nvmlDeviceGetTotalEnergyConsumption")),
            performance_state=None if state == _UNKNOWN_STATE else state,
            ecc_corrected=corrected_errors,
            ecc_uncorrected=uncorrected_errors,
            clock_event_reasons=_reasons(ask),
            processes=self._processes(ask),
            **gpu_state.constants,
            **gpu_state.slow_values,
        )

    def _processes(self, ask: _GpuQueries) -> tuple[GpuProcess, ...]:
        usage_by_pid: dict[int, tuple[int | None, bool]] = {}
        # A process with both kinds of work computes: its first entry stays.
        for kind, only_draws in (("Compute", False), ("Graphics", True)):
            for process in ask(f"nvmlDeviceGet{kind}RunningProcesses") or ():
                usage_by_pid.setdefault(int(process.pid), (process.usedGpuMemory, only_draws))
        return tuple(self._process(pid, *usage) for pid, usage in sorted(usage_by_pid.items()))

    def _process(self, pid: int, memory_bytes: int | None, only_draws: bool) -> GpuProcess:
        process = process_identity.process(pid)
        if process is None:
            return GpuProcess(pid, "", memory_bytes, "", only_draws=only_draws)
        entry = self._owners.get(pid)
        if entry is None or entry[0] != process:
            entry = self._owners[pid] = (process, owner_of(pid))
        owner = entry[1]
        return GpuProcess(
            pid,
            owner.user,
            memory_bytes,
            owner.command,
            age_s(process),
            owner.run_tag,
            only_draws,
        )


def _memory(ask: _GpuQueries) -> Any:
    """Read the memory as nvidia-smi counts it: what the driver reserves is not in use.

    NVML calls that version 2 of the answer, and drivers before 510 do not have it.
    """
    question = "nvmlDeviceGetMemoryInfo"
    return ask(question, ask.nvml.nvmlMemory_v2) or ask(question)


def _slow_values(ask: _GpuQueries) -> dict[str, Any]:
    """Read the values that rarely change."""
    corrected_errors, uncorrected_errors = _ecc(ask, ask.nvml.NVML_AGGREGATE_ECC)
    rows = ask("nvmlDeviceGetRemappedRows")
    pages = ask("nvmlDeviceGetRetiredPagesPendingStatus")
    pending_flags = [bool(flag) for flag in (pages, rows and rows[2]) if flag is not None]
    mig = ask("nvmlDeviceGetMigMode")
    is_mig = None if mig is None else bool(mig[0])
    return {
        "pcie_generation": ask("nvmlDeviceGetCurrPcieLinkGeneration"),
        "pcie_width": ask("nvmlDeviceGetCurrPcieLinkWidth"),
        "power_limit_w": _thousandth(ask("nvmlDeviceGetEnforcedPowerLimit")),
        "ecc_corrected_ever": corrected_errors,
        "ecc_uncorrected_ever": uncorrected_errors,
        "rows_remapped": None if rows is None else rows[0] + rows[1],
        "repair_pending": any(pending_flags) if pending_flags else None,
        "repair_failed": None if rows is None else bool(rows[3]),
        "compute_mode": _MODES.get(ask("nvmlDeviceGetComputeMode"), ""),
        "mig_enabled": is_mig,
        "mig_instances": tuple(_mig_instances(ask)) if is_mig else (),
    }


def _mig_instances(ask: _GpuQueries) -> Iterator[MigInstance]:
    for index in range(ask("nvmlDeviceGetMaxMigDeviceCount") or 0):
        try:
            handle = ask.nvml.nvmlDeviceGetMigDeviceHandleByIndex(ask.handle, index)
        except ask.nvml.NVMLError:  # no instance at this index
            continue
        instance_queries = _GpuQueries(ask.nvml, handle)
        memory = _memory(instance_queries)
        yield MigInstance(
            index=index,
            uuid=str(instance_queries("nvmlDeviceGetUUID") or ""),
            name=str(instance_queries("nvmlDeviceGetName") or ""),
            memory_used_bytes=None if memory is None else int(memory.used),
            memory_total_bytes=None if memory is None else int(memory.total),
        )


def _ecc(ask: _GpuQueries, counter: int) -> tuple[int | None, int | None]:
    """Return the errors that were corrected, and those that could not be."""
    question, nvml = "nvmlDeviceGetTotalEccErrors", ask.nvml
    return (
        ask(question, nvml.NVML_MEMORY_ERROR_TYPE_CORRECTED, counter),
        ask(question, nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, counter),
    )


def _reasons(ask: _GpuQueries) -> tuple[str, ...]:
    for name in ("Event", "Throttle"):
        bits = ask(f"nvmlDeviceGetCurrentClocks{name}Reasons")
        if bits is not None:
            return tuple(word for bit, word in _REASONS.items() if bits & bit)
    return ()


def _lost_gpu(gpu: Gpu) -> Gpu:
    return Gpu(gpu.index, gpu.uuid, gpu.name, is_lost=True)


def _thousandth(value: int | None) -> float | None:
    return None if value is None else value / 1000
