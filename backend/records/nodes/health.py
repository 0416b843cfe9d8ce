"""Health of a node, judged from its readings.

A finding begins at one threshold and ends at a lower one, so that a value near a threshold does not
make it appear and disappear. A yes-or-no finding (a clock lowered for heat) ends after several
readings without it. A value that is missing in a reading changes nothing.

Pure, standard library only and Python 3.9: the nodes import this.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from backend.base.room import LEAST_FILES, free_files_message
from backend.records.nodes.reading import BAD, WARN, Gpu, HealthFinding, NodeReading

_MISSED_BEATS = 3
_SHORTEST_S = 1.0
_LONGEST_S = 60.0
"""Longest interval between two heartbeats; a silent agent could claim any interval."""
AGENT_KEY = "agent"
CALM_READINGS = 5
"""This many readings in a row without a yes-or-no finding end it."""
_BY_HARDWARE = ("hardware", "hw")


def missed_after_s(reading: NodeReading | None) -> float:
    """Return the time without a heartbeat after which an agent counts as stopped."""
    interval_s = reading.interval_s if reading is not None else _SHORTEST_S
    return _MISSED_BEATS * min(max(interval_s, _SHORTEST_S), _LONGEST_S)


def unknown_reason(reading: NodeReading | None) -> str:
    """Return the part of a node's health that is not known, as text; "" if all is."""
    if reading is None:
        return "no reading yet"
    if reading.disk_free_bytes is None:
        return f"the data root {reading.disk_path} does not respond"
    return "" if reading.memory_total_bytes else "its memory cannot be read"


@dataclass(frozen=True)
class HealthThreshold:
    """Thresholds at which a finding begins and ends; higher values are worse."""

    enter: float
    leave: float

    def holds(self, value: float, held_before: bool) -> bool:
        return value >= self.enter or (held_before and value > self.leave)


@dataclass(frozen=True)
class Limits:
    """Thresholds of all findings. Free disk space counts downwards, so it is negative."""

    hot_c: HealthThreshold = HealthThreshold(87, 82)
    too_hot_c: HealthThreshold = HealthThreshold(95, 90)
    full_gpu_memory_percent: HealthThreshold = HealthThreshold(99, 96)
    full_memory_percent: HealthThreshold = HealthThreshold(97, 93)
    little_disk_bytes: HealthThreshold = HealthThreshold(-2e9, -3e9)
    no_disk_bytes: HealthThreshold = HealthThreshold(-5e8, -1e9)


@dataclass(frozen=True)
class Health:
    """The health after some readings; ``Health()`` before the first one."""

    findings: tuple[HealthFinding, ...] = ()
    limits: Limits = field(default_factory=Limits)
    heartbeat: int | None = None
    """Heartbeat of the last reading that was judged."""

    def after_reading(self, reading: NodeReading, now_s: float, silent_s: float = 0.0) -> Health:
        """Return the health after one more reading.

        A reading that was judged before (by its heartbeat) is not judged again. ``now_s`` is the
        reader's monotonic time, ``silent_s`` the time since the heartbeat last advanced by it.
        """
        previous_findings = {finding.key: finding for finding in self.findings}
        is_new = reading.heartbeat != self.heartbeat
        signs = [_agent_sign(reading, silent_s, is_new)]
        signs += _signs(reading, previous_findings, self.limits) if is_new else []
        sign_keys = {sign.key for sign in signs}
        # Findings about GPUs stay while the GPUs cannot be read.
        keeps_others = not is_new or reading.gpus_unreadable
        kept_findings = [f for f in self.findings if f.key not in sign_keys and keeps_others]
        new_findings = [_finding(previous_findings.get(sign.key), sign, now_s) for sign in signs]
        findings = (*(f for f in new_findings if f is not None), *kept_findings)
        return replace(self, findings=findings, heartbeat=reading.heartbeat)


@dataclass(frozen=True)
class _Sign:
    """A reading's value for one key. ``severity`` is "" if it is healthy, None if unknown."""

    key: str
    severity: str | None
    description: str
    remedy: str
    gpu: Gpu | None = None
    lingers: bool = False


def _finding(finding: HealthFinding | None, sign: _Sign, now_s: float) -> HealthFinding | None:
    """Return the finding that follows an earlier one; None if its condition is over."""
    if sign.severity is None:
        return finding
    if not sign.severity:
        if finding is None or not sign.lingers or finding.calm_readings + 1 >= CALM_READINGS:
            return None
        return replace(finding, calm_readings=finding.calm_readings + 1)
    index, uuid = _index_and_uuid(sign.gpu) if sign.gpu is not None else (None, "")
    since_s = finding.since_s if finding is not None else now_s
    return HealthFinding(
        sign.key, sign.severity, sign.description, sign.remedy, since_s, index, uuid
    )


def _index_and_uuid(gpu: Gpu) -> tuple[int, str]:
    return gpu.index, gpu.uuid


def _severity(
    value: float | None,
    finding: HealthFinding | None,
    warn_limit: HealthThreshold,
    bad_limit: HealthThreshold | None = None,
) -> str | None:
    if value is None:
        return None
    if bad_limit is not None and bad_limit.holds(
        value, finding is not None and finding.severity == BAD
    ):
        return BAD
    return WARN if warn_limit.holds(value, finding is not None) else ""


def _agent_sign(reading: NodeReading, silent_s: float, is_new: bool) -> _Sign:
    is_silent = silent_s > missed_after_s(reading)
    return _Sign(
        AGENT_KEY,
        # Only a new heartbeat proves that the agent runs; reading an old one again does not.
        BAD if is_silent else "" if is_new else None,
        # Without the duration, which would change the text at each reading.
        "No heartbeat",
        "Check that the node is on and reachable; “Try again” restarts its agent. Reason: "
        "~/.ringmaster/agent.log on the node.",
        lingers=True,
    )


def _signs(
    reading: NodeReading, previous_findings: dict[str, HealthFinding], limits: Limits
) -> Iterator[_Sign]:
    free_bytes = reading.disk_free_bytes
    yield _Sign(
        "disk",
        _severity(
            None if free_bytes is None else -free_bytes,
            previous_findings.get("disk"),
            limits.little_disk_bytes,
            limits.no_disk_bytes,
        ),
        f"{(free_bytes or 0) / 1e9:.1f} GB left for the data root",
        "Remove old jobs or datasets, or empty the trash of the data root.",
    )
    free_files = reading.disk_free_files
    yield _Sign(
        "files",
        "" if free_files is None or free_files >= LEAST_FILES else BAD,
        f"The data root {free_files_message(free_files or 0)}",
        "Remove old jobs or datasets, or empty the trash.",
    )
    share = _percent(reading.memory_used_bytes, reading.memory_total_bytes)
    yield _Sign(
        "memory",
        _severity(share, previous_findings.get("memory"), limits.full_memory_percent),
        f"Memory is {share or 0:.0f} % full",
        "End programs that are not needed, or use fewer loader workers.",
    )
    yield _Sign(
        "driver",
        BAD if reading.gpus_unreadable else "",
        reading.gpu_message,
        "Restart the node; an update of the driver requires it.",
    )
    for gpu in reading.gpus:
        yield from _gpu_signs(gpu, previous_findings, limits)


def _gpu_signs(
    gpu: Gpu, previous_findings: dict[str, HealthFinding], limits: Limits
) -> Iterator[_Sign]:
    key = f"gpu {gpu.uuid or gpu.index}"
    yield _Sign(
        f"{key} lost",
        BAD if gpu.is_lost else "",
        "stopped responding",
        "Restart the node. If it happens again, the GPU, its slot or its power supply is faulty.",
        gpu,
        lingers=True,
    )
    if gpu.is_lost:
        return
    yield _Sign(
        f"{key} memory errors",
        None if gpu.ecc_uncorrected is None else BAD if gpu.ecc_uncorrected else "",
        f"has {gpu.ecc_uncorrected} memory error{'' if gpu.ecc_uncorrected == 1 else 's'}",
        "Uncorrected errors can make results wrong. Restart the node; if it happens again, have "
        "the GPU replaced.",
        gpu,
    )
    repair_flags = (gpu.repair_failed, gpu.repair_pending)
    yield _Sign(
        f"{key} memory repair",
        None
        if repair_flags == (None, None)
        else BAD
        if repair_flags[0]
        else WARN
        if repair_flags[1]
        else "",
        "has no spare memory left for repairs" if repair_flags[0] else "still uses bad memory",
        "Have the GPU replaced."
        if repair_flags[0]
        else "Restart the node to disable the bad memory.",
        gpu,
    )
    yield _Sign(
        f"{key} clock",
        _slowdown(gpu.clock_event_reasons),
        "slowed by heat",
        "Check fans, dust and room temperature.",
        gpu,
        lingers=True,
    )
    yield _Sign(
        f"{key} temperature",
        _severity(
            gpu.temperature_c,
            previous_findings.get(f"{key} temperature"),
            limits.hot_c,
            limits.too_hot_c,
        ),
        f"runs hot, {gpu.temperature_c} °C",
        "Check fans, dust and room temperature.",
        gpu,
    )
    share = _percent(gpu.memory_used_bytes, gpu.memory_total_bytes)
    yield _Sign(
        f"{key} memory",
        _severity(share, previous_findings.get(f"{key} memory"), limits.full_gpu_memory_percent),
        f"has {share or 0:.0f} % of its memory in use",
        "Use a smaller batch, or end other programs on this GPU.",
        gpu,
    )


def _slowdown(reasons: Iterable[str]) -> str:
    """Return BAD if the hardware itself slows down, which it does only to prevent damage."""
    thermal = [reason.lower() for reason in reasons if "thermal" in reason.lower()]
    by_hardware = any(reason.startswith(_BY_HARDWARE) for reason in thermal)
    return BAD if by_hardware else WARN if thermal else ""


def _percent(used_amount: float | None, total: float | None) -> float | None:
    return 100.0 * used_amount / total if used_amount is not None and total else None
