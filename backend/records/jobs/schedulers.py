"""The schedulers of clusters, which choose the nodes of a job: one entry of `SCHEDULERS` for each.

`backend.services.nodes.launchers.CLUSTERS` has what the desktop does with it.
Standard library only and Python 3.9: the nodes import this.
"""

from __future__ import annotations

from collections.abc import Collection, Container
from dataclasses import dataclass
from typing import Any, Protocol

from backend.records.base.atomic_files import stored_record
from backend.records.base.layout import AttemptFolder
from backend.records.jobs.placement import ClusterPlacement
from backend.records.slurm.placement import SlurmPlacement
from backend.records.slurm.submission import Submission


@dataclass(frozen=True)
class ClusterScheduler:
    """A program that shares the nodes of a cluster out.

    Attributes:
        key: Its table in a job file, its mark in the entry of a login node, and the name of its
            files in the folder of a run.
        name: In messages.
        submit_command: The program that every login node has.
        memory_option: The one of that program that asks for main memory.
        placement_type: The record of its table, a `ClusterPlacement`.
        submission_type: The record of a run that was handed to it, a `ClusterSubmission`.
        checks_nodes: `backend.services.preflight.compute_node` can check one of its nodes.
        builds_environments: `backend.launch.slurm_task` can make an environment in a job.
    """

    key: str
    name: str
    submit_command: str
    memory_option: str
    placement_type: type[Any]
    submission_type: type[Any]
    checks_nodes: bool = False
    builds_environments: bool = False


SCHEDULERS: dict[str, ClusterScheduler] = {
    "slurm": ClusterScheduler(
        *("slurm", "Slurm", "sbatch", "--mem", SlurmPlacement, Submission),
        checks_nodes=True,
        builds_environments=True,
    ),
}


class ClusterSubmission(Protocol):
    """A request to a scheduler, and its number of the job, "" while it has not answered."""

    @property
    def placement(self) -> ClusterPlacement: ...
    @property
    def number(self) -> str: ...


def scheduler_of(placement: ClusterPlacement) -> ClusterScheduler:
    return next(s for s in SCHEDULERS.values() if type(placement) is s.placement_type)


def scheduler_in(raw: Container[str]) -> ClusterScheduler | None:
    """Return the scheduler that chooses the nodes of a job file, None if the file names them."""
    return next((s for s in SCHEDULERS.values() if s.key in raw), None)


def is_replaced(table: str, tables: Collection[str]) -> bool:
    """Return whether another table takes the place of one that says where a job runs."""
    placement_tables = {"placement", *SCHEDULERS}
    return table in placement_tables and not placement_tables.isdisjoint({*tables} - {table})


def scheduler_of_run(attempt: AttemptFolder) -> ClusterScheduler | None:
    """Return the scheduler to which a run was handed, None for one on nodes that its job names."""
    return next((s for s in SCHEDULERS.values() if attempt.submission(s.key).exists()), None)


def submission_of(attempt: AttemptFolder) -> ClusterSubmission | None:
    """Return the record of a run that was handed to a scheduler; None without a readable one."""
    scheduler = scheduler_of_run(attempt)
    if scheduler is None:
        return None
    return stored_record(scheduler.submission_type, attempt.submission(scheduler.key))


def has_number(attempt: AttemptFolder) -> bool:
    """Return whether a scheduler has the job of a run, which begins only then."""
    submission = submission_of(attempt)
    return submission is not None and bool(submission.number)
