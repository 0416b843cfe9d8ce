"""Choice of the cause among several findings in the lines of logs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from backend.node.diagnosis.log_text import LogPart
from backend.node.diagnosis.rule import Rule, Weight


@dataclass(frozen=True)
class RuleMatch:
    """A rule that matched. The indices are those of lines; a traceback has no ``part``."""

    rule: Rule
    match: re.Match[str]
    part: LogPart | None
    first_index: int = 0
    last_index: int = 0

    @property
    def cause(self) -> str:
        return self.rule.cause

    @property
    def message(self) -> str:
        return self.rule.format_message(self.match)

    @property
    def is_cause(self) -> bool:
        return self.rule.weight is Weight.CAUSE


_LEADS_TO = {
    "disk_full": ("disk_fault", "file_broken", "mpi_", "port_taken"),
    "disk_quota": ("disk_fault", "file_broken", "mpi_"),
    "driver_mismatch": ("gpu_", "mpi_", "nccl_"),
    "driver_old": ("gpu_",),
    "file_": ("mpi_",),
    "gpu_": ("nccl_", "mpi_", "library_"),
    "host_name": ("ssh_", "mpi_", "nccl_"),
    "library_mismatch": ("mpi_", "gpu_", "horovod_", "module_"),
    "memory_locked": ("mpi_", "nccl_", "node_memory"),
    "module_missing": ("mpi_", "horovod_"),
    "mpi_": ("nccl_", "node_lost"),
    "mpi_slots": ("mpi_",),
    "nccl_": ("mpi_",),
    "node_lost": ("ssh_", "mpi_", "nccl_"),
    "node_memory": ("gpu_memory", "processes", "shm_full"),
    "open_files": ("shm_full", "mpi_", "nccl_"),
    "port_taken": ("nccl_", "mpi_"),
    "processes": ("node_memory", "mpi_"),
    "program_": ("mpi_", "library_"),
    "ranks_differ": ("nccl_", "horovod_"),
    "shm_full": ("disk_full", "nccl_", "mpi_"),
    "ssh_": ("mpi_", "node_lost"),
    "ssh_missing": ("ssh_",),
    "user_unknown": ("mpi_", "ssh_"),
}
"""Consequences of a cause, by prefixes of the causes' names. Others contradict each other."""


def leads_to(cause: str, consequence: str) -> bool:
    return any(
        cause.startswith(start) and consequence.startswith(prefix)
        for start, prefix in _LEADS_TO.items()
    )


def family(cause: str) -> str:
    return cause.partition("_")[0]


def select_causes(matches: Sequence[RuleMatch]) -> tuple[RuleMatch, ...]:
    """Return the finding that explains the others; several if they contradict each other, or none.

    Only those of the best weight count. Within a family, and of two that cause each other, the
    earlier one is the cause: ``matches`` are in the order of the lines of one log.
    """
    if not matches:
        return ()
    weight = min(match.rule.weight.value for match in matches)
    best_matches = [match for match in matches if match.rule.weight.value == weight]
    if weight != Weight.CAUSE.value:
        return (best_matches[0],)
    kept_matches: list[RuleMatch] = []
    for match in best_matches:
        if any(
            family(k.cause) == family(match.cause) or leads_to(k.cause, match.cause)
            for k in kept_matches
        ):
            continue
        kept_matches = [k for k in kept_matches if not leads_to(match.cause, k.cause)]
        kept_matches.append(match)
    return tuple(kept_matches)
