"""A GPU is in use if its memory is, or if its mode locks jobs out, whatever is listed on it."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from backend.base.errors import BackendError
from backend.node.checks import doctor
from backend.records.base.schema import json_value
from backend.records.jobs.placement import Placement
from backend.records.nodes.reading import (
    EXCLUSIVE,
    PROHIBITED,
    Cpu,
    Gpu,
    GpuProcess,
    MigInstance,
    NodeReading,
)
from backend.records.queue.scheduling import node_view_of
from backend.services.preflight.context import PreflightTarget
from tests.backend.services.preflight.judging import answered
from widgets.nodes.row.node_row import gpu_cell

MIB = 2**20
GPU = Gpu(1, "GPU-1", "H100", 300 * MIB, 81_920 * MIB)
OTHER_GPU = replace(GPU, index=2, uuid="GPU-2")
ALICE = GpuProcess(7, "alice", 10_000 * MIB, "python3")
SCREEN = GpuProcess(8, "root", 2_000 * MIB, "Xorg", only_draws=True)
HELD_GPUS: dict[str, tuple[Gpu, str, str]] = {
    "held by what is not seen": (
        replace(GPU, memory_used_bytes=81_000 * MIB),
        "hidden processes",
        "fuser",
    ),
    "held besides a display": (
        replace(GPU, memory_used_bytes=9_000 * MIB, processes=(SCREEN,)),
        "hidden processes",
        "--gpu-reset",
    ),
    "just above what a driver holds": (
        replace(GPU, memory_used_bytes=1_400 * MIB),
        "hidden processes",
        "fuser",
    ),
    "MIG with two instances": (
        replace(GPU, mig_enabled=True, mig_instances=(MigInstance(0, "", ""),) * 2),
        "MIG, which divides it into 2 instances",
        "-mig 0",
    ),
    "MIG without an instance": (replace(GPU, mig_enabled=True), "MIG", "-i 1 -mig 0"),
    "prohibited": (replace(GPU, compute_mode=PROHIBITED), "its compute mode", "-c DEFAULT"),
    "a small context, exclusive": (
        replace(GPU, memory_used_bytes=700 * MIB, compute_mode=EXCLUSIVE),
        "hidden processes",
        "fuser",
    ),
}
FREE = {
    "idle": GPU,
    "an old driver counts what it reserves": replace(GPU, memory_used_bytes=850 * MIB),
    "no figure": replace(GPU, memory_used_bytes=None),
    "a display": replace(GPU, memory_used_bytes=2_300 * MIB, processes=(SCREEN,)),
    "a display without a figure": replace(
        GPU, memory_used_bytes=9_000 * MIB, processes=(replace(SCREEN, memory_bytes=None),)
    ),
    "exclusive and idle": replace(GPU, memory_used_bytes=200 * MIB, compute_mode=EXCLUSIVE),
    "MIG off": replace(GPU, mig_enabled=False),
}


def preflight(gpu: Gpu) -> list[Any]:
    reply = {"code": 0, "message": "", "gpus": json_value((gpu, OTHER_GPU))}
    site = PreflightTarget(
        *("gpu03", Placement("gpu03", gpus=(GPU.uuid,)), "python", "", "", "", "", ""), is_head=True
    )
    return answered(site, gpus=reply)


def reading(gpu: Gpu) -> NodeReading:
    cpu = Cpu("cpu", 8, None, 0.0)
    return NodeReading("gpu03", "gpu03", 1, cpu, 1, 1, 0, 0, "/", 10**12, 10**12, gpus=(gpu,))


class Driver:
    def __init__(self, *gpus: Gpu) -> None:
        self.driver, self.is_unreadable, self.read = "550", False, lambda: (gpus, "")


@pytest.mark.parametrize(("gpu", "holder", "remedy"), HELD_GPUS.values(), ids=HELD_GPUS)
def test_a_held_gpu_is_not_free_and_every_view_says_why(
    gpu: Gpu, holder: str, remedy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (finding,) = preflight(gpu)
    assert finding.blocks
    assert f"GPU 1 of gpu03 is in use by {holder}" in finding.message
    assert remedy in finding.remedy
    assert finding.free_gpus == ("GPU-2",)
    waits = node_view_of(reading(gpu), ()).hidden_holders["GPU-1"]
    assert holder in waits
    assert remedy in waits
    monkeypatch.setattr(doctor, "Gpus", lambda: Driver(OTHER_GPU, gpu))
    with pytest.raises(BackendError, match=re.escape(holder)) as refusal:
        doctor._gpus()
    assert remedy in refusal.value.remedy
    assert gpu_cell(gpu, {}).use == "other"


@pytest.mark.parametrize("gpu", FREE.values(), ids=FREE)
def test_a_gpu_without_a_holder_is_free(gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    assert preflight(gpu) == []
    view = node_view_of(reading(gpu), ())
    assert (view.foreign_holders, view.hidden_holders) == ({}, {})
    monkeypatch.setattr(doctor, "Gpus", lambda: Driver(gpu))
    assert "driver 550" in doctor._gpus()
    assert gpu_cell(gpu, {}).is_free


def test_a_listed_process_is_named_first_with_its_own_memory() -> None:
    busy_gpu = replace(GPU, memory_used_bytes=10_300 * MIB, processes=(ALICE,))
    assert busy_gpu.compute_processes == (ALICE,)
    (finding,) = preflight(busy_gpu)
    assert finding.message == "GPU 1 of gpu03 is in use by alice: python3 (pid 7) and holds 10 GiB."
    assert node_view_of(reading(busy_gpu), ()).hidden_holders == {}


def test_an_exclusive_gpu_is_not_shared() -> None:
    busy_gpu = replace(GPU, memory_used_bytes=10_300 * MIB, processes=(ALICE,))
    assert busy_gpu.foreign_processes("alice") == ()
    assert replace(busy_gpu, compute_mode=EXCLUSIVE).foreign_processes("alice") == (ALICE,)


def test_a_lost_gpu_is_not_in_order_for_the_doctor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "Gpus", lambda: Driver(OTHER_GPU, Gpu(1, "", "", is_lost=True)))
    with pytest.raises(BackendError, match=r"^GPU 1 no longer responds\.$"):
        doctor._gpus()


def test_a_small_part_on_the_users_own_computer_is_its_display() -> None:
    held_gpu = replace(GPU, memory_used_bytes=4_000 * MIB)
    assert node_view_of(reading(held_gpu), (), is_a_desk=True).hidden_holders == {}
    assert node_view_of(reading(held_gpu), ()).hidden_holders
