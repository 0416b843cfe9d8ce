"""Findings come at one threshold, go at a lower one, and do not flap."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.records.nodes.health import CALM_READINGS, Health, HealthThreshold
from backend.records.nodes.reading import (
    BAD,
    WARN,
    Cpu,
    Gpu,
    NodeReading,
    NodeState,
    Presence,
    worst_finding,
)

GIB = 2**30
GPU = Gpu(0, "GPU-a", "H100", 8 * GIB, 80 * GIB, temperature_c=60, ecc_uncorrected=0)
READING = NodeReading(
    "gpu1", "h", 0, Cpu("c", 8, 5.0, 0.1), 100, 50, 0, 0, "/d", 10**12, 10**11, gpus=(GPU,)
)


class Readings:
    """One reading after the other, two seconds apart."""

    def __init__(self) -> None:
        self.health = Health()
        self.now_s = 100.0
        self.beat = 0

    def update(self, silent_s: float = 0.0, **changes: Any) -> Health:
        self.beat += 1
        return self.repeat(replace(READING, heartbeat=self.beat, **changes), silent_s)

    def gpu(self, **changes: Any) -> Health:
        return self.update(gpus=(replace(GPU, **changes),))

    def repeat(self, reading: NodeReading, silent_s: float) -> Health:
        self.now_s += 2
        self.health = self.health.after_reading(reading, self.now_s, silent_s)
        return self.health

    @property
    def keys(self) -> list[str]:
        return [finding.key for finding in self.health.findings]


@pytest.fixture
def readings() -> Readings:
    return Readings()


def test_a_healthy_node_has_no_finding(readings: Readings) -> None:
    assert readings.update().findings == ()
    assert worst_finding(readings.health.findings) is None


def test_heat_warns_then_is_bad_and_ends_below_a_lower_threshold(readings: Readings) -> None:
    messages = []
    for celsius in (86, 87, 83, 95, 91, 89, 83, 82, 86):
        findings = readings.gpu(temperature_c=celsius).findings
        messages.append((celsius, *(f.severity for f in findings)))
    assert messages == [
        (86,),
        (87, WARN),
        (83, WARN),
        (95, BAD),
        (91, BAD),
        (89, WARN),
        (83, WARN),
        (82,),
        (86,),
    ]


def test_a_finding_has_fault_place_time_and_remedy(readings: Readings) -> None:
    readings.gpu(temperature_c=88)
    (finding,) = readings.gpu(temperature_c=96).findings
    assert (finding.message, finding.severity) == ("GPU 0 runs hot, 96 °C.", BAD)
    assert (finding.gpu, finding.gpu_uuid, finding.since_s) == (0, "GPU-a", 102.0)
    assert finding.remedy
    state = NodeState("gpu1", Presence.ONLINE, health=readings.health.findings)
    assert state.worst_gpu_finding(GPU) == finding
    assert state.worst_gpu_finding(replace(GPU, index=1)) is None


@given(st.lists(st.integers(70, 100), max_size=40))
def test_the_two_thresholds_alone_decide_on_heat(temperatures: list[int]) -> None:
    readings, hot = Readings(), False
    for celsius in temperatures:
        hot = celsius >= 87 or (hot and celsius > 82)
        assert bool(readings.gpu(temperature_c=celsius).findings) is hot


@given(st.lists(st.integers(83, 86), max_size=40), st.booleans())
def test_a_temperature_that_wavers_between_the_thresholds_changes_nothing(
    temperatures: list[int], is_hot: bool
) -> None:
    readings = Readings()
    readings.gpu(temperature_c=90 if is_hot else 60)
    for celsius in temperatures:
        assert bool(readings.gpu(temperature_c=celsius).findings) is is_hot


@given(st.lists(st.booleans(), max_size=60))
def test_an_occasionally_lowered_clock_does_not_flap(lowered: list[bool]) -> None:
    readings = Readings()
    reasons: list[tuple[str, ...]] = [("thermal",) if is_lowered else () for is_lowered in lowered]
    findings_seen = [bool(readings.gpu(clock_event_reasons=now).findings) for now in reasons]
    end_counts = [n + 1 for n, (a, b) in enumerate(pairwise(findings_seen)) if a and not b]
    assert all(not any(lowered[end - CALM_READINGS + 1 : end + 1]) for end in end_counts)
    assert all(
        is_shown for is_lowered, is_shown in zip(lowered, findings_seen, strict=True) if is_lowered
    )


finite = st.floats(-1e12, 1e12)


@given(finite, finite, st.lists(finite))
def test_a_threshold_never_turns_within_its_band(a: float, b: float, values: list[float]) -> None:
    threshold, is_held = HealthThreshold(max(a, b), min(a, b)), False
    for value in values:
        now = threshold.holds(value, is_held)
        assert now == is_held or not threshold.leave < value < threshold.enter
        is_held = now


@pytest.mark.parametrize("reason", ["hardware thermal slowdown", "hw_thermal_slowdown"])
def test_s13_a_clock_lowered_for_heat_is_reported(readings: Readings, reason: str) -> None:
    (finding,) = readings.gpu(clock_event_reasons=("idle", reason)).findings
    assert (finding.severity, finding.description) == (BAD, "slowed by heat")
    assert readings.gpu(clock_event_reasons=("power cap", "idle")).findings != ()
    for _ in range(CALM_READINGS - 1):
        readings.gpu()
    assert readings.keys == []


def test_room_on_the_disk_counts_downwards(readings: Readings) -> None:
    messages = []
    for gigabytes in (3.0, 2.0, 2.9, 0.5, 0.9, 1.1, 3.0):
        finding = worst_finding(readings.update(disk_free_bytes=int(gigabytes * 1e9)).findings)
        messages.append(finding and finding.severity)
    assert messages == [None, WARN, WARN, BAD, BAD, WARN, None]
    assert (
        readings.update(disk_free_bytes=10**8).findings[0].message
        == "0.1 GB left for the data root."
    )


def test_full_memory_of_a_gpu_and_of_the_node_is_reported(readings: Readings) -> None:
    full = replace(GPU, memory_used_bytes=80 * GIB)
    readings.update(gpus=(full,), memory_used_bytes=98)
    assert readings.keys == ["memory", "gpu GPU-a memory"]
    readings.update(gpus=(replace(GPU, memory_used_bytes=78 * GIB),), memory_used_bytes=94)
    assert readings.keys == ["memory", "gpu GPU-a memory"]
    readings.update()
    assert readings.keys == []


def test_memory_errors_that_could_not_be_corrected_last_as_long_as_the_driver_counts_them(
    readings: Readings,
) -> None:
    (finding,) = readings.gpu(ecc_uncorrected=1).findings
    assert (finding.severity, finding.message) == (BAD, "GPU 0 has 1 memory error.")
    assert "2 memory errors" in readings.gpu(ecc_uncorrected=2).findings[0].description
    assert readings.gpu(ecc_uncorrected=0).findings == ()


@pytest.mark.parametrize(
    ("values", "severity"),
    [
        ({"repair_pending": True, "repair_failed": None}, WARN),
        ({"repair_pending": True, "repair_failed": True}, BAD),
        ({"repair_pending": False, "repair_failed": False}, ""),
        ({"repair_pending": None, "repair_failed": None}, ""),
    ],
)
def test_memory_that_waits_for_a_repair_is_reported(
    readings: Readings, values: dict[str, Any], severity: str
) -> None:
    readings.gpu(**values)
    assert [finding.severity for finding in readings.health.findings] == [severity] * bool(severity)


def test_a_lost_gpu_is_bad_and_nothing_else_is_said_of_it(readings: Readings) -> None:
    readings.gpu(temperature_c=90)
    lost_gpu = Gpu(0, "GPU-a", "H100", is_lost=True)
    (finding,) = readings.update(gpus=(lost_gpu,)).findings
    assert (finding.severity, finding.key) == (BAD, "gpu GPU-a lost")
    assert readings.gpu().findings != ()


def test_a_value_no_longer_reported_changes_nothing(readings: Readings) -> None:
    readings.gpu(temperature_c=90, ecc_uncorrected=3)
    keys = readings.keys
    readings.gpu(temperature_c=None, ecc_uncorrected=None, memory_used_bytes=None)
    assert readings.keys == keys
    message = "GPUs cannot be read: the NVIDIA driver does not respond"
    readings.update(gpus=(), gpu_message=message, gpus_unreadable=True)
    assert readings.keys == ["driver", *keys]
    readings.update(gpus=(), gpu_message="CPU only: no NVIDIA driver was found")
    assert readings.keys == []


def test_a_silent_agent_is_reported_and_recovers_after_some_heartbeats(readings: Readings) -> None:
    readings.update()
    last = replace(READING, heartbeat=readings.beat)
    assert readings.repeat(last, 6.0).findings == ()
    (finding,) = readings.repeat(last, 6.5).findings
    assert (finding.severity, finding.message) == (BAD, "No heartbeat.")
    since_s = finding.since_s
    # It stays silent: the finding stays.
    assert readings.repeat(last, 60).findings == (finding,)
    for _ in range(CALM_READINGS - 1):
        (finding,) = readings.update().findings
        assert finding.since_s == since_s
    assert readings.update().findings == ()


def test_a_repeated_reading_counts_once(readings: Readings) -> None:
    readings.gpu(clock_event_reasons=("thermal",))
    readings.gpu()
    repeated_reading = replace(READING, heartbeat=readings.beat)
    for _ in range(10):
        assert readings.repeat(repeated_reading, 1.0).findings != ()


def test_the_worst_is_the_first_bad_one(readings: Readings) -> None:
    readings.update(memory_used_bytes=99, gpus=(replace(GPU, temperature_c=90, ecc_uncorrected=1),))
    finding = worst_finding(readings.health.findings)
    assert finding is not None
    assert finding.key == "gpu GPU-a memory errors"
