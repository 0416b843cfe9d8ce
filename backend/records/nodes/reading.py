"""One reading of a node: processors, memory, disk, GPUs and who is on them.

Standard library only and Python 3.9: the nodes import this.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any

from backend.records.base.validation import sanitize
from backend.records.jobs.status import ProcessIdentity
from backend.records.nodes.entry import NodeEntry


@dataclass(frozen=True)
class GpuProcess:
    pid: int
    user: str
    memory_bytes: int | None
    command: str
    age_s: float | None = None
    run_tag: str = ""
    """``<job id>/<run>`` when it is ours."""
    only_draws: bool = False
    """It shows something on a screen, and computes nothing."""

    @property
    def who(self) -> str:
        """ "the job 20261124-5wx8g7" or "alice: python3 (pid 7)"."""
        if self.run_tag:
            return f"the job {sanitize(self.run_tag.partition('/')[0])}"
        program = self.command.split(" ")[0].rpartition("/")[2]
        what = sanitize(program) or "a process"
        return f"{sanitize(self.user) or 'somebody'}: {what} (pid {self.pid})"


@dataclass(frozen=True)
class MigInstance:
    """A part of a GPU that is used like a GPU of its own."""

    index: int
    uuid: str
    name: str
    memory_used_bytes: int | None = None
    memory_total_bytes: int | None = None


@dataclass(frozen=True)
class Gpu:
    """One GPU. None stands for what the driver does not tell.

    ECC counts are those since the driver was loaded; ``_ever`` are those of the GPU's whole life.
    """

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
    lost: bool = False
    """It was there and answers no more; ``uuid`` and ``name`` are "" when they were never read."""
    memory_clock_mhz: int | None = None
    max_memory_clock_mhz: int | None = None
    energy_j: float | None = None
    """Used since the driver was loaded."""
    performance_state: int | None = None
    """From 0, the fastest, to 15."""
    pcie_generation: int | None = None
    max_pcie_generation: int | None = None
    pcie_width: int | None = None
    max_pcie_width: int | None = None
    ecc_corrected_ever: int | None = None
    ecc_uncorrected_ever: int | None = None
    rows_remapped: int | None = None
    repair_pending: bool | None = None
    """Bad memory is left out (a page retired, a row remapped) when the GPU is reset next."""
    repair_failed: bool | None = None
    mig_enabled: bool | None = None
    mig_instances: tuple[MigInstance, ...] = ()

    @property
    def compute_processes(self) -> tuple[GpuProcess, ...]:
        """Who computes on it. What only draws leaves it free: a display cannot be moved away."""
        return tuple(process for process in self.processes if not process.only_draws)

    def foreign_processes(self, beside: str = "") -> tuple[GpuProcess, ...]:
        """Who computes on it beside whom nobody said that a job may.

        ``beside`` is the user of whom somebody said so; it is no word about runs of ours.
        """
        return tuple(
            process
            for process in self.compute_processes
            if process.run_tag or not beside or process.user != beside
        )

    @property
    def display(self) -> tuple[GpuProcess, ...]:
        """What only draws."""
        return tuple(process for process in self.processes if process.only_draws)


@dataclass(frozen=True)
class Cpu:
    model: str
    cores: int
    use_percent: float | None
    load_1min: float
    load_5min: float = 0.0
    load_15min: float = 0.0
    core_use_percent: tuple[float, ...] = ()
    """In the order of the cores that are switched on; empty in a first reading."""


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
    network_in_bytes_per_s: float | None = None
    network_out_bytes_per_s: float | None = None
    uptime_s: float = 0.0
    driver: str = ""
    gpus: tuple[Gpu, ...] = ()
    gpu_message: str = ""
    """Why there are no GPU readings ("CPU only: no NVIDIA driver"), or ""."""
    interval_s: float = 2.0
    """To the next reading, as its writer means to."""

    @property
    def network_bytes_per_s(self) -> float | None:
        """In and out together."""
        if self.network_in_bytes_per_s is None or self.network_out_bytes_per_s is None:
            return None
        return self.network_in_bytes_per_s + self.network_out_bytes_per_s

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any]) -> NodeReading:
        try:
            values = dict(raw)
            cpu = dict(values["cpu"])
            cpu["core_use_percent"] = tuple(cpu.get("core_use_percent", ()))
            values["cpu"] = Cpu(**cpu)
            values["gpus"] = tuple(
                Gpu(
                    **{
                        **gpu,
                        "clock_event_reasons": tuple(gpu.get("clock_event_reasons", ())),
                        "processes": tuple(GpuProcess(**p) for p in gpu.get("processes", ())),
                        "mig_instances": tuple(
                            MigInstance(**one) for one in gpu.get("mig_instances", ())
                        ),
                    }
                )
                for gpu in values.get("gpus", ())
            )
            return cls(**values)
        except (KeyError, TypeError) as error:
            raise ValueError(f"node reading that cannot be used: {error}") from error


class OrphanReason(str, Enum):
    """Why a process is an orphan."""

    NO_JOB = "no job"
    REMOVED = "removed"
    STARTED_OVER = "started over"
    OVER = "over"

    @property
    def is_known_run(self) -> bool:
        """True where the data root has the job, so that the run is certain to be over."""
        return self in (OrphanReason.STARTED_OVER, OrphanReason.OVER)


@dataclass(frozen=True)
class Orphan:
    """A process of a run that is over; ``run_tag`` is ``<job id>/<run>``.

    ``why`` is the sentence of ``reason``. A node with an older version gives no reason.
    """

    process: ProcessIdentity
    user: str
    command: str
    age_s: float
    memory_bytes: int
    run_tag: str
    why: str
    reason: OrphanReason | None = None

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "reason": None if self.reason is None else self.reason.value}

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any]) -> Orphan:
        """Read what `to_dict` wrote.

        Raises:
            ValueError: It was not written by `to_dict`.
        """
        try:
            reason = raw.get("reason")
            values = {
                **raw,
                "process": ProcessIdentity.from_dict(raw["process"]),
                "reason": None if reason is None else OrphanReason(reason),
            }
            return cls(**values)
        except (KeyError, TypeError) as error:
            raise ValueError(f"orphan that cannot be used: {error}") from error


@dataclass(frozen=True)
class Finding:
    """One check of ``doctor``, ``node check`` or the pre-flight."""

    check: str
    ok: bool
    sentence: str
    remedy: str = ""


WARN = "warn"
BAD = "bad"


@dataclass(frozen=True)
class HealthFinding:
    """One thing that is not well, as `records.health` judges it.

    ``key`` names the kind and the GPU and stays the same while it lasts. ``since_s`` is the
    reader's monotonic time at which it began. ``gpu`` is an index; it and ``gpu_uuid`` are None
    and "" for what concerns the whole node. Of a GPU, ``words`` are what is said after its name.
    """

    key: str
    severity: str
    words: str
    remedy: str
    since_s: float
    gpu: int | None = None
    gpu_uuid: str = ""
    calm_readings: int = 0

    @property
    def headline(self) -> str:
        """``words`` and which GPU they are about: "GPU 3 slowed by heat"."""
        return self.words if self.gpu is None else f"GPU {self.gpu} {self.words}"

    @property
    def sentence(self) -> str:
        return f"{self.headline}."

    def is_about(self, gpu: Gpu) -> bool:
        return (self.gpu, self.gpu_uuid) == (gpu.index, gpu.uuid)


def worst(findings: Iterable[HealthFinding]) -> HealthFinding | None:
    """The first bad finding, else the first one; None when all is well."""
    found = tuple(findings)
    bad = (finding for finding in found if finding.severity == BAD)
    return next(bad, next(iter(found), None))


def words_by_gpu(findings: Iterable[HealthFinding]) -> dict[str, str]:
    """All that is wrong with each GPU, by its UUID."""
    found: dict[str, str] = {}
    for finding in findings:
        if finding.gpu_uuid:
            before = found.get(finding.gpu_uuid)
            found[finding.gpu_uuid] = f"{before}, {finding.words}" if before else finding.words
    return found


def bad_gpus(findings: Iterable[HealthFinding]) -> frozenset[str]:
    """The UUIDs of the GPUs with which something is bad, and not only to be looked at."""
    return frozenset(one.gpu_uuid for one in findings if one.severity == BAD and one.gpu_uuid)


class Presence(Enum):
    """Whether a node can be used at all; how well it is stands in its findings."""

    ONLINE = "ONLINE"
    OFFLINE = "OFFLINE"
    NEW = "NEW"
    """Added, and not set up yet."""
    OUT_OF_SERVICE = "OUT OF SERVICE"


@dataclass(frozen=True)
class NodeState:
    """A node as people see it.

    ``findings`` come when a check is asked for; ``health`` is what its readings so far say, and
    the only judge of whether it is unwell. ``reading`` is the last one seen, None when there never
    was one. ``message`` says why a node is not online ("no news since 14:02"). ``entry`` is None
    for this computer, which nobody added. ``silent_s`` counts since its agent's beat last advanced.
    With ``over_ssh`` the reading was asked for over SSH, since no agent wrote one.
    """

    name: str
    presence: Presence
    reading: NodeReading | None = None
    findings: tuple[Finding, ...] = ()
    entry: NodeEntry | None = None
    message: str = ""
    health: tuple[HealthFinding, ...] = ()
    silent_s: float = 0.0
    over_ssh: bool = False

    def of_gpu(self, gpu: Gpu) -> HealthFinding | None:
        """The worst that is known of one GPU, None when it is well."""
        return worst(one for one in self.health if one.is_about(gpu))

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
