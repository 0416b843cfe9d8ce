"""What the GPUs of a run used: counters and samples, or nothing where that may be wrong."""

from __future__ import annotations

import math
import socket
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from backend.node.metrics.energy import EnergyMeter
from backend.records.base.atomic_files import read_json, replace_json
from backend.records.base.layout import DataRoot
from backend.records.jobs.launch import RankPlan
from backend.records.jobs.placement import THIS_COMPUTER
from backend.records.jobs.usage import NodeUsage, total_energy_j
from tests.waiting import Clock
from tests.widgets.nodes import samples

RANKS = tuple(
    RankPlan(rank, rank % 2, f"gpu{rank // 2}", "h", f"GPU-{rank % 2}") for rank in range(4)
)


@pytest.fixture
def root(tmp_path: Path) -> DataRoot:
    return DataRoot(tmp_path)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def write(root: DataRoot) -> Callable[..., None]:
    def write(name: str, beat: int, *energies: float | None) -> None:
        reading = samples.reading(name, "ours", len(energies), heartbeat=beat)
        gpus = zip(reading.gpus, energies, strict=True)
        reading = replace(reading, gpus=tuple(replace(g, energy_j=j) for g, j in gpus))
        root.node(name).path.mkdir(parents=True, exist_ok=True)
        replace_json(root.node(name).status, reading.to_dict())

    return write


def used_energy(
    root: DataRoot,
    clock: Clock,
    write: Callable[..., None],
    *,
    lasted_s: float = 600.0,
    beats: int = 300,
    end_reading: tuple[float | None, ...] = (1_500.0, 90_000.0),
) -> float | None:
    """What two nodes of two GPUs used; of the second one the end is given."""
    meter = EnergyMeter(root, RANKS, clock)
    for name in ("gpu0", "gpu1"):
        write(name, 70, 1_000.0, 50_000.0)
    meter.start()
    clock.now += lasted_s
    write("gpu0", 70 + 300, 3_000.0, 51_000.0)
    write("gpu1", 70 + beats, *end_reading)
    return total_energy_j(meter.usage())


def test_the_used_energy_is_the_sum_over_the_gpus_of_all_ranks(
    root: DataRoot, clock: Clock, write: Callable[..., None]
) -> None:
    assert used_energy(root, clock, write) == 2_000 + 1_000 + 500 + 40_000


@pytest.mark.parametrize(
    "wrong_values",
    [
        pytest.param({"beats": 100}, id="an agent that was away would have counted too little"),
        pytest.param({"lasted_s": 30.0, "beats": 15}, id="a run of some beats"),
        pytest.param({"end_reading": (500.0, 90_000.0)}, id="a driver that was loaded again"),
        pytest.param({"end_reading": (1_500.0, None)}, id="a GPU that counts nothing"),
        pytest.param({"end_reading": (1_500.0,)}, id="a GPU that is gone"),
    ],
)
def test_an_uncertain_energy_is_not_reported(
    root: DataRoot, clock: Clock, write: Callable[..., None], wrong_values: dict[str, object]
) -> None:
    assert used_energy(root, clock, write, **wrong_values) is None  # type: ignore[arg-type]


def test_the_energy_of_processors_and_of_a_node_without_readings_is_unknown(
    root: DataRoot, clock: Clock, write: Callable[..., None]
) -> None:
    write("gpu0", 70, 1_000.0, 2_000.0)
    for ranks in (RANKS, (RankPlan(0, 0, "gpu0", "h"),), ()):
        meter = EnergyMeter(root, ranks, clock)
        meter.start()
        clock.now += 600
        write("gpu0", 370, 3_000.0, 4_000.0)
        assert total_energy_j(meter.usage()) is None


@pytest.mark.parametrize(
    "wrong_values", [{"heartbeat": []}, {"gpus": 7}, {"gpus": [{"energy_j": []}]}]
)
def test_malformed_readings_end_no_supervisor(
    root: DataRoot, clock: Clock, write: Callable[..., None], wrong_values: dict[str, object]
) -> None:
    meter = EnergyMeter(root, RANKS[:2], clock)
    write("gpu0", 70, 1_000.0, 2_000.0)
    status = read_json(root.node("gpu0").status)
    replace_json(root.node("gpu0").status, {**status, **wrong_values})
    meter.start()
    write("gpu0", 370, 1_000.0, 2_000.0)
    clock.now += 600
    assert total_energy_j(meter.usage()) is None


def test_this_computer_has_no_agent_and_its_driver_is_asked(
    root: DataRoot, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    (gpu,) = samples.gpus("ours", 1)
    energies = iter((1_000.0, 1_250.0))
    meter = EnergyMeter(root, (RankPlan(0, 0, THIS_COMPUTER, "h", gpu.uuid),), clock)
    monkeypatch.setattr(
        meter._driver, "read", lambda: ((replace(gpu, energy_j=next(energies)),), "")
    )
    meter.start()
    assert total_energy_j(meter.usage()) == 250.0


def test_one_process_with_all_gpus_of_a_node_uses_all_of_them(
    root: DataRoot, clock: Clock, write: Callable[..., None]
) -> None:
    meter = EnergyMeter(root, (RankPlan(0, 0, "gpu0", "h", "GPU-0,GPU-1"),), clock)
    write("gpu0", 70, 1_000.0, 50_000.0)
    meter.start()
    clock.now += 600
    write("gpu0", 370, 3_000.0, 51_000.0)
    assert meter.usage() == (NodeUsage("gpu0", 2, 3_000.0, None),)


def test_the_counters_agree_with_the_power_within_three_percent_and_idle_time_is_sampled(
    root: DataRoot, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A GPU with waves of load: its counter, and the power and use that were seen each second."""
    (gpu,) = samples.gpus("ours", 1)
    meter = EnergyMeter(root, (RankPlan(0, 0, THIS_COMPUTER, "h", gpu.uuid),), clock)

    def use(at_s: float) -> float:
        return 50 + 50 * math.sin(at_s / 40)

    def read() -> tuple[tuple[object, ...], str]:
        seconds = range(1000, int(clock.now))
        energy_j = 1e9 + sum(100 + 6 * use(second + 0.5) for second in seconds)
        return (replace(gpu, energy_j=energy_j, use_percent=use(clock.now)),), ""

    monkeypatch.setattr(meter._driver, "read", read)
    meter.start()
    power_j = idle_s = 0.0
    for _ in range(3600):
        power_j += 100 + 6 * use(clock.now)
        idle_s += 1 - use(clock.now) / 100
        clock.now += 1
        meter.sample()
    (usage,) = meter.usage()
    assert usage.node == socket.gethostname()
    assert usage.energy_j == pytest.approx(power_j, rel=0.03)
    assert usage.idle_share == pytest.approx(idle_s / 3600, abs=0.03)


def test_the_idle_share_of_a_node_whose_agent_is_away_is_not_known(
    root: DataRoot, clock: Clock, write: Callable[..., None]
) -> None:
    meter = EnergyMeter(root, RANKS, clock)
    for name in ("gpu0", "gpu1"):
        write(name, 70, 1_000.0, 50_000.0)
    meter.start()
    for beat in range(71, 111):
        clock.now += 15
        write("gpu0", beat, 1_000.0, 50_000.0)
        meter.sample()
    shares = [node.idle_share for node in meter.usage()]
    assert shares[0] is not None
    assert shares[1] is None
