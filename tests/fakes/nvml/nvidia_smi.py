"""Stands in for `nvidia-smi --query-…`: asks the library of `nvml.c` by itself, without the agent.

FAKE_SMI_WRONG="FIELD VALUE" makes it print VALUE for FIELD of each GPU or process.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

import pynvml

MIB = 2**20
Ask = Callable[[Any], object]


def ecc(kind: int, counter: int) -> Ask:
    return lambda gpu: pynvml.nvmlDeviceGetTotalEccErrors(gpu, kind, counter)


def pstate(gpu: Any) -> str:
    state = pynvml.nvmlDeviceGetPerformanceState(gpu)
    return "[N/A]" if state == 32 else f"P{state}"


FIELDS: dict[str, Ask] = {
    "uuid": pynvml.nvmlDeviceGetUUID,
    "name": pynvml.nvmlDeviceGetName,
    "memory.total": lambda gpu: pynvml.nvmlDeviceGetMemoryInfo(gpu).total // MIB,
    "memory.used": lambda gpu: (
        pynvml.nvmlDeviceGetMemoryInfo(gpu, pynvml.nvmlMemory_v2).used // MIB
    ),
    "utilization.gpu": lambda gpu: pynvml.nvmlDeviceGetUtilizationRates(gpu).gpu,
    "temperature.gpu": lambda gpu: pynvml.nvmlDeviceGetTemperature(gpu, 0),
    "power.draw": lambda gpu: f"{pynvml.nvmlDeviceGetPowerUsage(gpu) / 1000:.2f}",
    "enforced.power.limit": lambda gpu: f"{pynvml.nvmlDeviceGetEnforcedPowerLimit(gpu) / 1000:.2f}",
    "clocks.sm": lambda gpu: pynvml.nvmlDeviceGetClockInfo(gpu, 1),
    "clocks.max.sm": lambda gpu: pynvml.nvmlDeviceGetMaxClockInfo(gpu, 1),
    "clocks.mem": lambda gpu: pynvml.nvmlDeviceGetClockInfo(gpu, 2),
    "clocks.max.mem": lambda gpu: pynvml.nvmlDeviceGetMaxClockInfo(gpu, 2),
    "fan.speed": pynvml.nvmlDeviceGetFanSpeed,
    "pstate": pstate,
    "pcie.link.gen.current": pynvml.nvmlDeviceGetCurrPcieLinkGeneration,
    "pcie.link.gen.max": pynvml.nvmlDeviceGetMaxPcieLinkGeneration,
    "pcie.link.width.current": pynvml.nvmlDeviceGetCurrPcieLinkWidth,
    "pcie.link.width.max": pynvml.nvmlDeviceGetMaxPcieLinkWidth,
    "ecc.errors.corrected.volatile.total": ecc(0, 0),
    "ecc.errors.uncorrected.volatile.total": ecc(1, 0),
    "ecc.errors.corrected.aggregate.total": ecc(0, 1),
    "ecc.errors.uncorrected.aggregate.total": ecc(1, 1),
    "mig.mode.current": lambda gpu: (
        "Enabled" if pynvml.nvmlDeviceGetMigMode(gpu)[0] else "Disabled"
    ),
}


def main() -> None:
    pynvml.nvmlInit()
    kind, _, names = sys.argv[1].removeprefix("--query-").partition("=")
    wrong_field, _, value = os.environ.get("FAKE_SMI_WRONG", "").partition(" ")
    for index in range(pynvml.nvmlDeviceGetCount()):
        gpu = pynvml.nvmlDeviceGetHandleByIndex(index)
        rows: list[dict[str, object]] = [{"index": index}]
        if kind == "compute-apps":
            rows = [
                {
                    "gpu_uuid": pynvml.nvmlDeviceGetUUID(gpu),
                    "pid": process.pid,
                    "used_memory": process.usedGpuMemory // MIB,
                }
                for process in pynvml.nvmlDeviceGetComputeRunningProcesses(gpu)
            ]
        for row in rows:
            for name in names.split(","):
                if name not in row:
                    try:
                        row[name] = FIELDS[name](gpu)
                    except pynvml.NVMLError_NotSupported:
                        row[name] = "[N/A]"
            row.update({wrong_field: value} if wrong_field in row else {})
            sys.stdout.write(", ".join(str(row[name]) for name in names.split(",")) + "\n")


if __name__ == "__main__":
    main()
