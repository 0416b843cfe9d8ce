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
    worst,
)

GIB = 2**30
GPU = Gpu(0, "GPU-a", "H100", 8 * GIB, 80 * GIB, temperature_c=60, ecc_uncorrected=0)
READING = NodeReading(
    "gpu1", "h", 0, Cpu("c", 8, 5.0, 0.1), 100, 50, 0, 0, "/d", 10**12, 10**11, gpus=(GPU,)
)


class Look:
    """One reading after the other, two seconds apart."""

    def __init__(self) -> None:
        self.health = Health()
        self.now_s = 100.0
        self.beat = 0

    def at(self, silent_s: float = 0.0, **other: Any) -> Health:
        self.beat += 1
        return self.again(replace(READING, heartbeat=self.beat, **other), silent_s)

    def gpu(self, **other: Any) -> Health:
        return self.at(gpus=(replace(GPU, **other),))

    def again(self, reading: NodeReading, silent_s: float) -> Health:
        self.now_s += 2
        self.health = self.health.after(reading, self.now_s, silent_s)
        return self.health

    @property
    def keys(self) -> list[str]:
        return [finding.key for finding in self.health.findings]


@pytest.fixture
def look() -> Look:
    return Look()


def test_a_node_that_is_well_has_no_finding(look: Look) -> None:
    assert look.at().findings == ()
    assert worst(look.health.findings) is None


def test_heat_warns_then_is_bad_and_ends_below_a_lower_threshold(look: Look) -> None:
    said = []
    for celsius in (86, 87, 83, 95, 91, 89, 83, 82, 86):
        findings = look.gpu(temperature_c=celsius).findings
        said.append((celsius, *(f.severity for f in findings)))
    assert said == [
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


def test_a_finding_says_what_where_since_when_and_what_to_do(look: Look) -> None:
    look.gpu(temperature_c=88)
    (found,) = look.gpu(temperature_c=96).findings
    assert (found.sentence, found.severity) == ("GPU 0 runs hot, 96 °C.", BAD)
    assert (found.gpu, found.gpu_uuid, found.since_s) == (0, "GPU-a", 102.0)
    assert found.remedy
    state = NodeState("gpu1", Presence.ONLINE, health=look.health.findings)
    assert state.of_gpu(GPU) == found
    assert state.of_gpu(replace(GPU, index=1)) is None


@given(st.lists(st.integers(70, 100), max_size=40))
def test_heat_is_exactly_what_its_two_thresholds_say(temperatures: list[int]) -> None:
    look, hot = Look(), False
    for celsius in temperatures:
        hot = celsius >= 87 or (hot and celsius > 82)
        assert bool(look.gpu(temperature_c=celsius).findings) is hot


@given(st.lists(st.integers(83, 86), max_size=40), st.booleans())
def test_a_temperature_that_wavers_between_the_thresholds_changes_nothing(
    temperatures: list[int], is_hot: bool
) -> None:
    look = Look()
    look.gpu(temperature_c=90 if is_hot else 60)
    for celsius in temperatures:
        assert bool(look.gpu(temperature_c=celsius).findings) is is_hot


@given(st.lists(st.booleans(), max_size=60))
def test_a_clock_that_is_lowered_now_and_then_does_not_flap(lowered: list[bool]) -> None:
    look = Look()
    reasons: list[tuple[str, ...]] = [("thermal",) if one else () for one in lowered]
    seen = [bool(look.gpu(clock_event_reasons=now).findings) for now in reasons]
    ends = [n + 1 for n, (a, b) in enumerate(pairwise(seen)) if a and not b]
    assert all(not any(lowered[end - CALM_READINGS + 1 : end + 1]) for end in ends)
    assert all(shown for one, shown in zip(lowered, seen, strict=True) if one)


finite = st.floats(-1e12, 1e12)


@given(finite, finite, st.lists(finite))
def test_a_threshold_never_turns_within_its_band(a: float, b: float, values: list[float]) -> None:
    threshold, held = HealthThreshold(max(a, b), min(a, b)), False
    for value in values:
        now = threshold.holds(value, held)
        assert now == held or not threshold.leave < value < threshold.enter
        held = now


@pytest.mark.parametrize("reason", ["hardware thermal slowdown", "hw_thermal_slowdown"])
def test_s13_a_clock_lowered_for_heat_is_reported(look: Look, reason: str) -> None:
    (found,) = look.gpu(clock_event_reasons=("idle", reason)).findings
    assert (found.severity, found.words) == (BAD, "slowed by heat")
    assert look.gpu(clock_event_reasons=("power cap", "idle")).findings != ()
    for _ in range(CALM_READINGS - 1):
        look.gpu()
    assert look.keys == []


def test_room_on_the_disk_counts_downwards(look: Look) -> None:
    said = []
    for gigabytes in (3.0, 2.0, 2.9, 0.5, 0.9, 1.1, 3.0):
        found = worst(look.at(disk_free_bytes=int(gigabytes * 1e9)).findings)
        said.append(found and found.severity)
    assert said == [None, WARN, WARN, BAD, BAD, WARN, None]
    assert look.at(disk_free_bytes=10**8).findings[0].sentence == "0.1 GB left for the data root."


def test_full_memory_of_a_gpu_and_of_the_node_is_reported(look: Look) -> None:
    full = replace(GPU, memory_used_bytes=80 * GIB)
    look.at(gpus=(full,), memory_used_bytes=98)
    assert look.keys == ["memory", "gpu GPU-a memory"]
    look.at(gpus=(replace(GPU, memory_used_bytes=78 * GIB),), memory_used_bytes=94)
    assert look.keys == ["memory", "gpu GPU-a memory"]
    look.at()
    assert look.keys == []


def test_memory_errors_that_could_not_be_corrected_last_as_long_as_the_driver_counts_them(
    look: Look,
) -> None:
    (found,) = look.gpu(ecc_uncorrected=1).findings
    assert (found.severity, found.sentence) == (BAD, "GPU 0 has 1 memory error.")
    assert "2 memory errors" in look.gpu(ecc_uncorrected=2).findings[0].words
    assert look.gpu(ecc_uncorrected=0).findings == ()


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
    look: Look, values: dict[str, Any], severity: str
) -> None:
    look.gpu(**values)
    assert [finding.severity for finding in look.health.findings] == [severity] * bool(severity)


def test_a_lost_gpu_is_bad_and_nothing_else_is_said_of_it(look: Look) -> None:
    look.gpu(temperature_c=90)
    lost = Gpu(0, "GPU-a", "H100", lost=True)
    (found,) = look.at(gpus=(lost,)).findings
    assert (found.severity, found.key) == (BAD, "gpu GPU-a lost")
    assert look.gpu().findings != ()


def test_a_value_that_is_not_reported_any_more_changes_nothing(look: Look) -> None:
    look.gpu(temperature_c=90, ecc_uncorrected=3)
    keys = look.keys
    look.gpu(temperature_c=None, ecc_uncorrected=None, memory_used_bytes=None)
    assert look.keys == keys
    message = "GPUs cannot be read: the NVIDIA driver does not respond"
    look.at(gpus=(), gpu_message=message, gpus_unreadable=True)
    assert look.keys == ["driver", *keys]
    look.at(gpus=(), gpu_message="CPU only: no NVIDIA driver was found")
    assert look.keys == []


def test_a_silent_agent_is_reported_and_recovers_after_some_heartbeats(look: Look) -> None:
    look.at()
    last = replace(READING, heartbeat=look.beat)
    assert look.again(last, 6.0).findings == ()
    (found,) = look.again(last, 6.5).findings
    assert (found.severity, found.sentence) == (BAD, "No heartbeat.")
    since_s = found.since_s
    # It stays silent: the finding stays.
    assert look.again(last, 60).findings == (found,)
    for _ in range(CALM_READINGS - 1):
        (found,) = look.at().findings
        assert found.since_s == since_s
    assert look.at().findings == ()


def test_a_reading_that_is_looked_at_again_counts_once(look: Look) -> None:
    look.gpu(clock_event_reasons=("thermal",))
    look.gpu()
    same = replace(READING, heartbeat=look.beat)
    for _ in range(10):
        assert look.again(same, 1.0).findings != ()


def test_the_worst_is_the_first_bad_one(look: Look) -> None:
    look.at(memory_used_bytes=99, gpus=(replace(GPU, temperature_c=90, ecc_uncorrected=1),))
    found = worst(look.health.findings)
    assert found is not None
    assert found.key == "gpu GPU-a memory errors"
