"""A reading of a node: CPU, memory, disk, GPUs and their processes.

Standard library only and Python 3.9: the nodes import this.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from backend.records.base.schema import KEY, STRICT, Record, json_value
from backend.records.base.validation import sanitize
from backend.records.jobs.status import ProcessIdentity
from backend.records.nodes.entry import NodeEntry

EXCLUSIVE, PROHIBITED = "exclusive", "prohibited"
HIDDEN_BYTES = 2**30
"""More memory in use than the listed processes hold is that of a process that is not listed. The
driver itself holds less on an idle GPU."""


@dataclass(frozen=True)
class GpuProcess:
    """``pid`` is 0 for a holder that the driver does not list; ``command`` then says who it is."""

    pid: int
    user: str
    memory_bytes: int | None
    command: str
    age_s: float | None = None
    run_tag: str = ""
    """``<job id>/<run>`` if it belongs to a run."""
    only_draws: bool = False
    """The process draws on a screen and does not compute."""

    @property
    def owner_label(self) -> str:
        """The owner: "the job 20261124-5wx8g7" or "alice: python3 (pid 7)"."""
        if not self.pid:
            return self.command
        if self.run_tag:
            return f"the job {sanitize(self.run_tag.partition('/')[0])}"
        program = self.command.split(" ")[0].rpartition("/")[2]
        program_label = sanitize(program) or "a process"
        return f"{sanitize(self.user) or 'unknown user'}: {program_label} (pid {self.pid})"


@dataclass(frozen=True)
class HostProcess:
    """A process of a node, on a GPU or not. ``cpu_percent`` is 100 for each core in full use."""

    pid: int
    user: str
    command: str
    cpu_percent: float
    memory_bytes: int
    age_s: float | None = None
    run_tag: str = ""


def short_command(command: str) -> str:
    """Return the program of a command line, and the script or module that Python runs."""
    program, *arguments = command.split() or [""]
    program = program.rpartition("/")[2]
    if not program.startswith("python") or not arguments:
        return program
    if arguments[0] == "-m":
        return " ".join([program, *arguments[:2]])
    script = arguments[0].rpartition("/")[2]
    return program if script.startswith("-") else f"{program} {script}"


@dataclass(frozen=True)
class MigInstance:
    """A part of a GPU that can be used like a whole GPU."""

    index: int
    uuid: str
    name: str
    memory_used_bytes: int | None = None
    memory_total_bytes: int | None = None


@dataclass(frozen=True)
class Gpu:
    """A GPU. None means that the driver does not report a value.

    ECC counts are those since the driver was loaded; ``_ever`` are those of the GPU's lifetime.
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
    is_lost: bool = field(default=False, metadata={KEY: "lost"})
    """The GPU stopped responding; ``uuid`` and ``name`` are "" if they were never read."""
    memory_clock_mhz: int | None = None
    max_memory_clock_mhz: int | None = None
    energy_j: float | None = None
    """Energy since the driver was loaded."""
    performance_state: int | None = None
    """Performance state, from 0, the fastest, to 15."""
    pcie_generation: int | None = None
    max_pcie_generation: int | None = None
    pcie_width: int | None = None
    max_pcie_width: int | None = None
    ecc_corrected_ever: int | None = None
    ecc_uncorrected_ever: int | None = None
    rows_remapped: int | None = None
    repair_pending: bool | None = None
    """Bad memory (a retired page, a remapped row) is disabled when the GPU is next reset."""
    repair_failed: bool | None = None
    mig_enabled: bool | None = None
    mig_instances: tuple[MigInstance, ...] = ()
    compute_mode: str = ""
    """EXCLUSIVE for one process at a time, PROHIBITED for none, "" for any number."""

    @property
    def unlisted_holder(self) -> GpuProcess | None:
        """A holder that keeps jobs off the GPU although no process is listed; None without one."""
        if self.compute_mode == PROHIBITED:
            return GpuProcess(0, "administrator", None, "its compute mode, which is Prohibited")
        if self.mig_enabled:
            parts = len(self.mig_instances)
            command = f"MIG, which divides it into {parts} instance{'' if parts == 1 else 's'}"
            return GpuProcess(0, "MIG", None, command)
        amounts = [process.memory_bytes for process in self.processes]
        if self.memory_used_bytes is None or None in amounts:
            return None
        hidden_bytes = self.memory_used_bytes - sum(bytes_ or 0 for bytes_ in amounts)
        # Where one process locks out all others, the context of a small one is enough.
        if hidden_bytes <= HIDDEN_BYTES // (2 if self.compute_mode == EXCLUSIVE else 1):
            return None
        command = "hidden processes, of a container or left by a crash"
        return GpuProcess(0, "hidden processes", hidden_bytes, command)

    @property
    def unlisted_remedy(self) -> str:
        """A command that frees the GPU of `unlisted_holder`, as root on its node."""
        if self.compute_mode == PROHIBITED:
            return f"As root: nvidia-smi -i {self.index} -c DEFAULT"
        if self.mig_enabled:
            return f"As root: nvidia-smi -i {self.index} -mig 0"
        return (
            "As root, fuser -v /dev/nvidia* shows what holds it; after a crash, "
            f"nvidia-smi -i {self.index} --gpu-reset frees it."
        )

    @property
    def compute_processes(self) -> tuple[GpuProcess, ...]:
        """Processes that compute; drawing alone leaves the GPU free: a display cannot move."""
        listed_processes = tuple(process for process in self.processes if not process.only_draws)
        unlisted_holder = self.unlisted_holder
        return listed_processes if unlisted_holder is None else (*listed_processes, unlisted_holder)

    def foreign_processes(self, allowed_user: str = "") -> tuple[GpuProcess, ...]:
        """Return the computing processes with which a job may not share the GPU.

        ``allowed_user`` is a user with whom the job may share, except for runs of the program.
        """
        if self.compute_mode == EXCLUSIVE:
            allowed_user = ""
        return tuple(
            process
            for process in self.compute_processes
            if process.run_tag or not allowed_user or process.user != allowed_user
        )

    def refusal(self, node: str = "", allowed_user: str = "") -> tuple[str, str]:
        """Return why a job may not use the GPU, and what frees it; ("", "") if it may.

        Args:
            node: The label of its node; "" where that is clear.
            allowed_user: As in `foreign_processes`.
        """
        if self.is_lost:
            return f"{self._label(node)} no longer responds.", "Restart the node."
        for process in self.foreign_processes(allowed_user):
            return self.refusal_by(process, node)
        return "", ""

    def refusal_by(self, process: GpuProcess, node: str = "") -> tuple[str, str]:
        """Return that a process keeps jobs off the GPU, and what frees it; see `refusal`."""
        memory, verb = process.memory_bytes, "holds" if process.pid else "hold"
        memory_clause = f" and {verb} {memory / 2**30:.0f} GiB" if memory else ""
        message = f"{self._label(node)} is in use by {process.owner_label}{memory_clause}."
        return message, "" if process.pid else self.unlisted_remedy

    def _label(self, node: str) -> str:
        return f"GPU {self.index} of {node}" if node else f"GPU {self.index}"

    @property
    def display_processes(self) -> tuple[GpuProcess, ...]:
        """Processes that only draw."""
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
    """Use of each active core; empty in a first reading."""


@dataclass(frozen=True)
class NodeReading(Record, label="node reading", rules=STRICT):
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
    gpus_unreadable: bool = False
    """True where the driver fails or does not respond; False also on a node without a GPU."""
    gpu_message: str = ""
    """Reason why GPU readings are missing ("CPU only: no NVIDIA driver"), or ""."""
    interval_s: float = 2.0
    """Intended time to the next reading."""
    disk_free_files: int | None = None
    """Files that the data root can still take; None without a fixed number."""
    at_keyboard: str = ""
    """The user who has been active at its keyboard for a minute, "" for none."""
    processes: tuple[HostProcess, ...] = ()
    """Processes with the highest use of processors and memory, and all on a GPU."""

    @property
    def network_bytes_per_s(self) -> float | None:
        """Traffic in both directions."""
        if self.network_in_bytes_per_s is None or self.network_out_bytes_per_s is None:
            return None
        return self.network_in_bytes_per_s + self.network_out_bytes_per_s


class OrphanReason(str, Enum):
    """Reason why a process is an orphan."""

    NO_JOB = "no job"
    REMOVED = "removed"
    STARTED_OVER = "started over"
    OVER = "over"

    @property
    def is_known_run(self) -> bool:
        """True where the data root has the job, so that the run is certain to be over."""
        return self in (OrphanReason.STARTED_OVER, OrphanReason.OVER)


@dataclass(frozen=True)
class Orphan(Record, label="orphan", rules=STRICT):
    """A process of a run that is over; ``run_tag`` is ``<job id>/<run>``.

    ``message`` is the text of ``reason``. A node with an older version gives no reason.
    """

    process: ProcessIdentity
    user: str
    command: str
    age_s: float
    memory_bytes: int
    run_tag: str
    message: str = field(metadata={KEY: "why"})
    reason: OrphanReason | None = None


@dataclass(frozen=True)
class Finding:
    """A result of the commands ``doctor`` and ``node check``, or of the preflight check."""

    check: str
    ok: bool
    message: str = field(metadata={KEY: "sentence"})
    remedy: str = ""


WARN = "warn"
BAD = "bad"


@dataclass(frozen=True)
class HealthFinding:
    """A health problem of a node, as `records.nodes.health` judges it.

    ``key`` names the kind and the GPU and stays the same while it lasts. ``since_s`` is the
    reader's monotonic time at which it began. ``gpu`` is an index; it and ``gpu_uuid`` are None
    and "" for the whole node. For a GPU, ``description`` follows its name.
    """

    key: str
    severity: str
    description: str = field(metadata={KEY: "words"})
    remedy: str
    since_s: float
    gpu: int | None = None
    gpu_uuid: str = ""
    calm_readings: int = 0

    @property
    def headline(self) -> str:
        """The description with its GPU: "GPU 3 slowed by heat"."""
        return self.description if self.gpu is None else f"GPU {self.gpu} {self.description}"

    @property
    def message(self) -> str:
        return f"{self.headline}."

    def is_about(self, gpu: Gpu) -> bool:
        return (self.gpu, self.gpu_uuid) == (gpu.index, gpu.uuid)


def worst_finding(findings: Iterable[HealthFinding]) -> HealthFinding | None:
    """Return the first bad finding, otherwise the first one; None if the node is healthy."""
    all_findings = tuple(findings)
    bad_findings = (finding for finding in all_findings if finding.severity == BAD)
    return next(bad_findings, next(iter(all_findings), None))


def problems_by_gpu(findings: Iterable[HealthFinding]) -> dict[str, str]:
    """Return all problems of each GPU, by UUID."""
    problems: dict[str, str] = {}
    for finding in findings:
        if finding.gpu_uuid:
            previous_problem = problems.get(finding.gpu_uuid)
            problems[finding.gpu_uuid] = (
                f"{previous_problem}, {finding.description}"
                if previous_problem
                else finding.description
            )
    return problems


def bad_gpu_uuids(findings: Iterable[HealthFinding]) -> frozenset[str]:
    """Return the UUIDs of the GPUs with a bad finding, not only a warning."""
    return frozenset(f.gpu_uuid for f in findings if f.severity == BAD and f.gpu_uuid)


class Presence(Enum):
    """Availability of a node; its findings describe its health."""

    ONLINE = "ONLINE"
    OFFLINE = "OFFLINE"
    NEW = "NEW"
    """Added, and not set up yet."""
    OUT_OF_SERVICE = "OUT OF SERVICE"


@dataclass(frozen=True)
class NodeState:
    """A node as users see it.

    ``findings`` are the results of a requested check; ``health`` is judged from its readings, and
    only it marks a node. ``reading`` is the last one, None if there was none. ``message`` says why
    a node is not online ("no news since 14:02"). ``entry`` is None for this computer, which was not
    added. ``silent_s`` counts since its agent's heartbeat last advanced. With ``over_ssh`` the
    reading was made over SSH, because no agent wrote one.
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

    def worst_gpu_finding(self, gpu: Gpu) -> HealthFinding | None:
        """Return the worst finding about one GPU, None if it is healthy."""
        return worst_finding(f for f in self.health if f.is_about(gpu))

    def to_json(self) -> dict[str, Any]:
        """Return the document that ``--json`` prints."""
        reading = self.reading.to_dict() if self.reading is not None else {"gpus": [], "cpu": None}
        return {
            "name": self.name,
            "state": self.presence.value,
            "message": self.message,
            "gives_way": self.entry.gives_way if self.entry is not None else "",
            "findings": json_value(self.findings),
            **{key: value for key, value in reading.items() if key not in ("name", "heartbeat")},
        }
