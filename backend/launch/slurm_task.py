"""A job of Slurm that trains nothing: the check of a compute node, or a set-up on one.

It is cancelled by its own number when the program no longer needs it.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, cast

from backend.base.errors import BackendError
from backend.base.log import suppress
from backend.base.progress import Progress
from backend.launch.slurm import SlurmCluster
from backend.records.slurm.job import SlurmJob, pending_reason
from backend.records.slurm.placement import (
    SlurmPlacement,
    check_placement,
    parse_job_number,
    partition_of,
    sbatch_command,
)
from backend.records.slurm.submission import submitted_number
from backend.ssh.interface import CommandResult, Shell

POLL_S = 2.0
_CANCEL_POLL_S = 0.2
_BUILD_MIN = 60
"""The time limit of a set-up, which takes minutes; a shorter one of the partition holds."""
_BUILD_WAIT_S = 86_400.0


class NotBegun(BackendError):
    """Slurm did not start the job in the time that it had for it."""


@contextmanager
def slurm_task(
    cluster: SlurmCluster, placement: SlurmPlacement, script: str, log: str, label: str
) -> Iterator[SlurmTask]:
    """Submit a job; at the end of the block it is cancelled if it is not over.

    Args:
        placement: What the job asks for.
        log: Path of the file for its output on the compute node.
        label: What it does, as a word for sentences: "check".

    Raises:
        BackendError: Slurm refused the job, with its own sentence.
    """
    job_id = f"{label}-{secrets.token_hex(4)}"
    command = sbatch_command(placement, job_id, 1, log)
    number = ""
    try:
        number = parse_job_number(cluster.output(command, script.encode()))
        yield SlurmTask(cluster, number, label)
    finally:
        # Without an answer Slurm may have the job nevertheless; one that is over is refused.
        with suppress(BackendError):
            number = number or submitted_number(cluster.jobs(is_new=True), job_id, 1)
            if number:
                cluster.output(("scancel", number))


class SlurmTask:
    """A job that was submitted by `slurm_task`."""

    def __init__(self, cluster: SlurmCluster, number: str, label: str) -> None:
        self.number = number
        self._cluster = cluster
        self._label = label

    def wait_until(
        self,
        is_reached: Callable[[SlurmJob], bool],
        progress: Progress,
        *,
        start_limit_s: float,
        poll_s: float = POLL_S,
    ) -> SlurmJob | None:
        """Return the job in a state that was asked for, or over; None if it has left the queue.

        ``progress`` gets what it waits for. Slurm itself ends a job that runs too long.

        Raises:
            NotBegun: It has not begun after ``start_limit_s``; the message has Slurm's reason.
            BackendError: Slurm does not answer.
            Cancelled: By ``progress``.
        """
        deadline_s = time.monotonic() + start_limit_s
        while True:
            job = self._cluster.jobs(is_new=True).get(self.number)
            if job is None or job.is_over or is_reached(job):
                return job
            reason = pending_reason(job) if job.is_waiting else "It runs."
            if job.is_waiting and time.monotonic() > deadline_s:
                raise NotBegun(
                    f"Slurm has not begun the {self._label}: {reason}",
                    "Try again when nodes are free, or choose another partition.",
                )
            message = f"Job {self.number} of Slurm: {reason}"
            end_s = time.monotonic() + poll_s
            progress.step(0, 0, message)
            while time.monotonic() < end_s:
                time.sleep(_CANCEL_POLL_S)
                progress.step(0, 0, message)


@contextmanager
def build_node(login_node: Shell, progress: Progress, partition_name: str = "") -> Iterator[Shell]:
    """Yield a compute node on which an environment is made, in a job that ends with the block.

    Args:
        partition_name: "" for the default partition.

    Raises:
        BackendError: Slurm refused the job, with its own sentence, or ended it.
        Cancelled: By ``progress``.
    """
    cluster = SlurmCluster(login_node)
    partitions = cluster.partitions()
    placement = SlurmPlacement(partition=partition_name, processes=2, time_limit_min=_BUILD_MIN)
    partition = partition_of(placement, partitions)
    if partition is not None and partition.gpu_types:
        # PyTorch is chosen by the GPUs that the job sees.
        placement = replace(placement, processes=1, gpus=1)
    if partition is not None and partition.time_limit_s:
        limit_min = min(_BUILD_MIN, partition.time_limit_s // 60)
        placement = replace(placement, time_limit_min=limit_min)
    for error in check_placement(placement, partitions):
        raise BackendError(error.message, error.remedy)
    script = f"#!/bin/sh\ntrap '' USR1\nsleep {60 * _BUILD_MIN}\n"
    with slurm_task(cluster, placement, script, "/dev/null", "set-up") as task:
        job = task.wait_until(
            lambda job: job.state == "RUNNING", progress, start_limit_s=_BUILD_WAIT_S
        )
        if job is None or job.is_over:
            state = job.state if job is not None else "unknown"
            raise BackendError(f"Slurm ended the job {task.number} of the set-up: {state}.")
        # What it does not have itself is the login node's.
        yield cast(Shell, _AllocatedNode(login_node, task.number))


class _AllocatedNode:
    """A compute node of a job: commands run on it, and files are those of the share.

    Commands do not know that they run in Slurm: mpirun would look for the ranks of the job.
    """

    def __init__(self, login_node: Shell, number: str) -> None:
        self._login_node = login_node
        self._number = number

    def run(
        self,
        argv: Sequence[str],
        *,
        input: bytes = b"",
        limit_s: float = 60.0,
        on_line: Callable[[str], None] | None = None,
    ) -> CommandResult:
        step = ["srun", f"--jobid={self._number}", "--overlap", "--nodes=1", "--ntasks=1"]
        step += ["--mpi=none", "--chdir=/", *(["--input=none"] if not input else [])]
        step += ["env", "-u", "SLURM_JOB_ID", "-u", "SLURM_JOBID", "-u", "SLURM_NODELIST"]
        result = self._login_node.run((*step, *argv), input=input, limit_s=limit_s, on_line=on_line)
        # srun adds a line of its own to the output of a command that fails.
        lines = result.err.splitlines(keepends=True)
        command_lines = [line for line in lines if not line.startswith("srun: error: ")]
        return CommandResult(result.code, result.out, "".join(command_lines or lines))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._login_node, name)
