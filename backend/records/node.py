"""One reading of a node: processors, memory, disk, GPUs and who is on them.

Standard library only and Python 3.9: the nodes import this.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any

from backend.records.cluster import NodeEntry


@dataclass(frozen=True)
class GpuProcess:
    pid: int
    user: str
    memory_bytes: int | None
    command: str
    age_s: float | None = None
    run_tag: str = ""
    """``<job id>/<run>`` when it is ours."""


@dataclass(frozen=True)
class Gpu:
    """One GPU. None stands for what the driver does not tell."""

    index: int
    uuid: str
    name: str
    memory_used_bytes: int | None = None
    memory_total_bytes: int | None = None
    use_percent: int | None = None
    temperature_c: int | None = None
    power_w: float | None = None
    power_limit_w: float | None = None
    sm_clock_mhz: int | None = None
    max_sm_clock_mhz: int | None = None
    fan_percent: int | None = None
    ecc_corrected: int | None = None
    ecc_uncorrected: int | None = None
    clock_event_reasons: tuple[str, ...] = ()
    processes: tuple[GpuProcess, ...] = ()


@dataclass(frozen=True)
class Cpu:
    model: str
    cores: int
    use_percent: float | None
    load_1min: float


@dataclass(frozen=True)
class NodeReading:
    """Everything that is known of a node at one moment."""

    name: str
    host: str
    heartbeat: int
    cpu: Cpu
    memory_total_bytes: int
    memory_used_bytes: int
    swap_total_bytes: int
    swap_used_bytes: int
    disk_path: str
    disk_total_bytes: int | None
    disk_free_bytes: int | None
    network_bytes_per_s: float | None = None
    uptime_s: float = 0.0
    driver: str = ""
    gpus: tuple[Gpu, ...] = ()
    gpu_message: str = ""
    """Why there are no GPU readings ("CPU only: no NVIDIA driver"), or ""."""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any]) -> NodeReading:
        try:
            values = dict(raw)
            values["cpu"] = Cpu(**values["cpu"])
            values["gpus"] = tuple(
                Gpu(
                    **{
                        **gpu,
                        "clock_event_reasons": tuple(gpu.get("clock_event_reasons", ())),
                        "processes": tuple(GpuProcess(**p) for p in gpu.get("processes", ())),
                    }
                )
                for gpu in values.get("gpus", ())
            )
            return cls(**values)
        except (KeyError, TypeError) as error:
            raise ValueError(f"node reading that cannot be used: {error}") from error


@dataclass(frozen=True)
class Finding:
    """One check of ``doctor``, ``node check`` or the pre-flight."""

    check: str
    ok: bool
    sentence: str
    remedy: str = ""


class Presence(Enum):
    """Whether a node can be used at all; how well it is stands in its findings."""

    ONLINE = "ONLINE"
    OFFLINE = "OFFLINE"
    NEW = "NEW"
    """Added, and not set up yet."""
    OUT_OF_SERVICE = "OUT OF SERVICE"


@dataclass(frozen=True)
class NodeState:
    """A node as people see it. Findings come when asked for.

    ``reading`` is the last one seen, None when there never was one. ``message`` says why a node is
    not online ("no news since 14:02"). ``entry`` is None for this computer, which nobody added.
    """

    name: str
    presence: Presence
    reading: NodeReading | None = None
    findings: tuple[Finding, ...] = ()
    entry: NodeEntry | None = None
    message: str = ""

    def to_json(self) -> dict[str, Any]:
        """The document that ``--json`` prints."""
        reading = self.reading.to_dict() if self.reading is not None else {"gpus": [], "cpu": None}
        return {
            "name": self.name,
            "state": self.presence.value,
            "message": self.message,
            "findings": [asdict(finding) for finding in self.findings],
            **{key: value for key, value in reading.items() if key not in ("name", "heartbeat")},
        }
