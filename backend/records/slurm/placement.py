"""A job's placement in a Slurm cluster, as the arguments and the script of `sbatch`. Pure.

Standard library only and Python 3.9: the nodes import this.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from ipaddress import ip_network
from typing import Any

from backend.records.base.schema import STRICT, Record
from backend.records.base.validation import sanitize
from backend.records.jobs.placement import ALLOCATED_GPU, Placement, PlacementError
from backend.records.jobs.setting import WHERE_SECTION, setting
from backend.records.nodes.partition import Partition
from backend.records.slurm.cluster import Association, format_time

STOP_BEFORE_S = 120
"""Slurm asks for a stop so long before the time limit, or earlier: its clock ticks by minutes."""
SHORTEST_LIMIT_S = 120
"""In less, no run starts, trains and saves a checkpoint."""
_SETTINGS_BY_OPTION = {
    **dict.fromkeys(("job-name", "comment", "output", "error", "open-mode", "signal", "chdir"), ""),
    **dict.fromkeys(("parsable", "array", "wrap", "wait", "export", "input"), ""),
    **{name: name for name in ("nodes", "partition", "account", "qos", "constraint", "exclusive")},
    "gres": "gpus and gpu_type",
    "time": "time_limit_min",
    "dependency": "at_once",
    "requeue": "continues",
    "no-requeue": "continues",
    "ntasks": "processes",
    "ntasks-per-node": "processes",
}
"""The setting that gives each option of `sbatch` that the program uses, "" for none."""
_OPTION = re.compile(r"--(?P<name>[a-z][a-z0-9-]*)(=.*)?", re.DOTALL)
_WORD = re.compile(r"[A-Za-z0-9_.@:+-]*")
"""The form of the name of a partition, account, QOS or GPU type."""


def _slurm_setting(kind: str, label: str, default: Any, **options: Any) -> Any:
    shared_options = {"section": WHERE_SECTION, "term": "Slurm", "is_changeable": True}
    return setting(kind, label, default, **shared_options, **options)


@dataclass(frozen=True)
class SlurmPlacement(Record, label="placement in Slurm", rules=STRICT):
    """``[slurm]`` of a job file: the nodes, the GPUs and the time of a job in a Slurm cluster.

    ``cluster`` is the node with Slurm's commands, as it was added. ``processes`` and ``gpus`` are
    counts for each node; each GPU has a process of its own. "" and 0 leave a choice to Slurm.
    ``networks`` are subnets with a comma, by which the nodes reach each other. ``setup`` are lines
    of the shell before the run, such as ``module load cuda``.
    """

    cluster: str = _slurm_setting("text", "Cluster", "")
    nodes: int = _slurm_setting("whole", "Nodes of Slurm", 1, low=1, high=4096)
    processes: int = _slurm_setting("whole", "Processes, per node", 1, low=1, high=4096)
    gpus: int = _slurm_setting("whole", "GPUs, per node", 0, high=64)
    gpu_type: str = _slurm_setting("text", "GPU type", "", is_rare=True)
    partition: str = _slurm_setting("text", "Partition", "")
    time_limit_min: int = _slurm_setting("whole", "Time limit, min", 0)
    continues: bool = _slurm_setting("flag", "Requeue", True)
    """Slurm queues the job again at its time limit, after preemption or the loss of a node."""
    account: str = _slurm_setting("text", "Account", "", is_rare=True)
    qos: str = _slurm_setting("text", "QOS", "", is_rare=True)
    constraint: str = _slurm_setting("text", "Constraint", "", is_rare=True)
    exclusive: bool = _slurm_setting("flag", "Whole nodes", False, is_rare=True)
    at_once: int = _slurm_setting("whole", "Jobs of a sweep at once", 0, high=500, is_rare=True)
    """0 for as many as Slurm has room for."""
    networks: str = _slurm_setting("text", "Networks", "", is_rare=True)
    options: tuple[str, ...] = _slurm_setting("texts", "Options of sbatch", (), is_rare=True)
    setup: tuple[str, ...] = _slurm_setting("texts", "Lines before the run", (), is_rare=True)

    @property
    def time_limit_s(self) -> int:
        return 60 * self.time_limit_min

    def errors(self) -> Iterator[PlacementError]:
        """Yield why no cluster would take it."""
        values = ("partition", "account", "qos", "gpu_type")
        for name in values:
            if not _WORD.fullmatch(getattr(self, name)):
                label = name.replace("_", " ")
                yield PlacementError(f"The {label} has characters that Slurm does not accept.", "")
        if self.gpus and self.processes not in (1, self.gpus):
            yield PlacementError(
                f"{self.gpus} GPUs have {self.gpus} processes, not {self.processes}.",
                "Remove the number of processes.",
            )
        for network in filter(None, self.networks.split(",")):
            if not _is_subnet(network):
                yield PlacementError(
                    f"“{sanitize(network)}” is not a subnet.", "Write it as in 10.0.0.0/24."
                )
        if ":" in self.gpu_type:
            yield PlacementError("The GPU type has a number.", "Write the number in gpus.")
        for option in self.options:
            match = _OPTION.fullmatch(option)
            if match is None:
                yield PlacementError(
                    f"The option “{sanitize(option)}” is not written as --name=value.",
                    "Write each option of sbatch so, such as --mem=32G.",
                )
            elif (setting_name := _SETTINGS_BY_OPTION.get(match["name"])) is not None:
                yield PlacementError(
                    f"The option --{match['name']} is set by the program.",
                    f"Use {setting_name} of the table slurm."
                    if setting_name
                    else "Remove it from the extra options.",
                )

    def placements(self) -> tuple[Placement, ...]:
        """Return the nodes of the job, which Slurm chooses later: they have numbers for names."""
        gpus = tuple(f"{ALLOCATED_GPU}{index}" for index in range(self.gpus))
        return tuple(
            Placement(f"{self.cluster}-{number}", 0 if gpus else self.processes, gpus)
            for number in range(1, self.nodes + 1)
        )

    @property
    def stop_before_s(self) -> int:
        """Return how long before the time limit a stop is requested: a quarter of it at most."""
        return min(STOP_BEFORE_S, self.time_limit_s // 4) if self.time_limit_s else STOP_BEFORE_S


def _is_subnet(text: str) -> bool:
    try:
        ip_network(text)
    except ValueError:  # the answer
        return False
    return True


def job_name(job_id: str) -> str:
    """Return the name of a job in Slurm."""
    return f"ringmaster-{job_id}"


def lane_names(placement: SlurmPlacement, sweep: str) -> tuple[str, ...]:
    """Return the lanes of a sweep, as names of jobs; none if it has no limit.

    Slurm starts the next job of a name when those before it have ended (``singleton``), so that as
    many jobs run at once as there are lanes, also without a desktop and after a resume.
    """
    numbers = range(1, placement.at_once + 1) if sweep else ()
    return tuple(f"ringmaster-{sweep}-{number}" for number in numbers)


def job_comment(job_id: str, run: int) -> str:
    """Return the comment on a job in Slurm: Slurm uses numbers again."""
    return f"ringmaster:{job_id}:{run}"


def sbatch_command(
    placement: SlurmPlacement, job_id: str, run: int, log: str, lane_name: str = ""
) -> tuple[str, ...]:
    """Return the command that reads the script of `batch_script` and prints the job's number.

    Args:
        lane_name: See `lane_names`; "" for a job that waits for no other one.
        run: The run that was submitted; a job that Slurm queues again makes later ones, too.
        log: Path of the file for the output of the script and the messages of Slurm.
    """
    options: dict[str, object] = {
        "job-name": lane_name or job_name(job_id),
        "dependency": "singleton" if lane_name else "",
        "comment": job_comment(job_id, run),
        "output": log.replace("%", "%%"),
        "open-mode": "append",
        "chdir": "/",
        "nodes": placement.nodes,
        "ntasks-per-node": placement.gpus or placement.processes,
        "signal": f"B:USR1@{placement.stop_before_s}",
        "partition": placement.partition,
        "account": placement.account,
        "qos": placement.qos,
        "constraint": placement.constraint,
    }
    if placement.time_limit_s:
        options["time"] = format_time(placement.time_limit_s)
    if placement.gpus:
        kind = f"{placement.gpu_type}:" if placement.gpu_type else ""
        options["gres"] = f"gpu:{kind}{placement.gpus}"
    argv = ["sbatch", "--parsable", "--requeue" if placement.continues else "--no-requeue"]
    argv += [f"--{name}={value}" for name, value in options.items() if value]
    argv += ["--exclusive"] if placement.exclusive else []
    return (*argv, *placement.options)


def batch_script(
    placement: SlurmPlacement, *, python: str, code_root: str, job_folder: str, run: int
) -> str:
    """Return the script that becomes the supervisor on the first node of the allocation."""
    command = (python, "-m", "backend.node.run.slurm_run", "--job", job_folder, "--run", str(run))
    lines = [*setup_script(placement), f"export PYTHONPATH={shlex.quote(code_root)}"]
    return "\n".join((*lines, "export PYTHONUTF8=1", f"exec {shlex.join(command)}", ""))


def setup_script(placement: SlurmPlacement) -> list[str]:
    """Return the first lines of a script: its shell, and the lines before the run.

    Only a login shell knows ``module``. A line of ``setup`` that fails ends the job: what it should
    have loaded would be missed later, or by another version.
    """
    lines = ["#!/bin/bash -l" if placement.setup else "#!/bin/sh"]
    for line in placement.setup:
        lines += [
            line,
            f"[ $? -eq 0 ] || {{ echo {shlex.quote(f'This line failed: {line}')}; exit 1; }}",
        ]
    return lines


def parse_job_number(output: str) -> str:
    """Return the number in the output of ``sbatch --parsable`` ("17" or "17;cluster"), or ""."""
    lines = output.strip().splitlines()
    number = lines[-1].partition(";")[0] if lines else ""
    return number if number.isdecimal() else ""


def check_placement(
    placement: SlurmPlacement,
    partitions: Sequence[Partition],
    associations: Sequence[Association] = (),
) -> tuple[PlacementError, ...]:
    """Compare a placement with what the cluster has. Pure.

    Without ``associations`` accounts are not checked: not every cluster keeps them.
    """
    return (
        *placement.errors(),
        *_partition_errors(placement, partitions),
        *_account_errors(placement, associations),
    )


def with_time_limit(placement: SlurmPlacement, partitions: Sequence[Partition]) -> SlurmPlacement:
    """Return the placement with the limit of its partition where it has none itself.

    The time of the stop before the limit follows from it.
    """
    partition = partition_of(placement, partitions)
    limit_s = partition.time_limit_s if partition is not None else None
    return replace(placement, time_limit_min=placement.time_limit_min or (limit_s or 0) // 60)


def partition_of(placement: SlurmPlacement, partitions: Sequence[Partition]) -> Partition | None:
    candidates = (
        p
        for p in partitions
        if (p.name == placement.partition if placement.partition else p.is_default)
    )
    return next(candidates, None)


def _partition_errors(
    placement: SlurmPlacement, partitions: Sequence[Partition]
) -> Iterator[PlacementError]:
    partition = partition_of(placement, partitions)
    if partition is None:
        names = ", ".join(p.name for p in partitions) or "none"
        label = f"no partition “{placement.partition}”" if placement.partition else "no default"
        yield PlacementError(f"The cluster has {label}.", f"Choose one of its partitions: {names}.")
        return
    if not partition.is_up:
        yield PlacementError(
            f"The partition {partition.name} starts no jobs now.", "Choose another partition."
        )
    limit_s = placement.time_limit_s or partition.time_limit_s
    if limit_s and partition.time_limit_s and limit_s > partition.time_limit_s:
        longest_text = format_time(partition.time_limit_s)
        yield PlacementError(
            f"The time limit is above that of the partition {partition.name}, {longest_text}.",
            "Choose a shorter one; with “Requeue” the job continues after it.",
        )
    elif limit_s and limit_s < SHORTEST_LIMIT_S:
        yield PlacementError(
            f"A time limit of {limit_s} s is too short to train and save a checkpoint.",
            f"Choose {SHORTEST_LIMIT_S // 60} minutes or more.",
        )
    suitable_nodes = [n for n in partition.nodes if n.is_usable and _has_gpus(placement, n.gpus)]
    if len(suitable_nodes) < placement.nodes:
        kind = f" {placement.gpu_type}" if placement.gpu_type else ""
        gpus = f" with {placement.gpus}{kind} GPUs" if placement.gpus else ""
        reason = "; ".join(f"{n.name} is {n.state}" for n in partition.nodes if not n.is_usable)
        yield PlacementError(
            f"The partition {partition.name} has {len(suitable_nodes)} usable nodes{gpus}, "
            f"and the job asks for {placement.nodes}{f' ({reason})' if reason else ''}.",
            "Choose fewer nodes or GPUs, or another partition.",
        )


def _has_gpus(placement: SlurmPlacement, gpus: Mapping[str, int]) -> bool:
    count = gpus.get(placement.gpu_type, 0) if placement.gpu_type else sum(gpus.values())
    return count >= placement.gpus


def _account_errors(
    placement: SlurmPlacement, associations: Sequence[Association]
) -> Iterator[PlacementError]:
    if not associations:
        return
    own_associations = [
        a
        for a in associations
        if a.account == (placement.account or a.account)
        and a.partition in ("", placement.partition)
    ]
    if not own_associations:
        accounts = ", ".join(sorted({a.account for a in associations}))
        yield PlacementError(
            f"You may not use the account “{placement.account}” in this partition.",
            f"Choose one of yours: {accounts}.",
        )
    elif placement.qos and not any(placement.qos in a.qos for a in own_associations):
        names = ", ".join(sorted({name for a in own_associations for name in a.qos})) or "none"
        yield PlacementError(
            f"You may not use the QOS “{placement.qos}”.", f"Choose one of yours: {names}."
        )
