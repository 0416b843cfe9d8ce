"""A job of Slurm that trains nothing, such as the check of a compute node.

It is cancelled by its own number when the program no longer needs it.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from backend.base.errors import BackendError
from backend.base.log import suppress
from backend.base.progress import Progress
from backend.launch.slurm import SlurmCluster
from backend.records.slurm.job import SlurmJob, pending_reason
from backend.records.slurm.placement import SlurmPlacement, parse_job_number, sbatch_command
from backend.records.slurm.submission import submitted_number

POLL_S = 2.0
_CANCEL_POLL_S = 0.2


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
        limit_s: float,
        poll_s: float = POLL_S,
    ) -> SlurmJob | None:
        """Return the job in a state that was asked for, or over; None if it has left the queue.

        ``progress`` gets what it waits for.

        Raises:
            NotBegun: It has not begun after ``start_limit_s``; the message has Slurm's reason.
            BackendError: Slurm does not answer, or the job ran longer than ``limit_s``.
            Cancelled: By ``progress``.
        """
        deadline_s = time.monotonic() + start_limit_s
        has_begun = False
        while True:
            job = self._cluster.jobs(is_new=True).get(self.number)
            if job is None or job.is_over or is_reached(job):
                return job
            if not job.is_waiting and not has_begun:
                has_begun, deadline_s = True, time.monotonic() + limit_s
            reason = pending_reason(job) if job.is_waiting else "It runs."
            if time.monotonic() > deadline_s:
                if has_begun:
                    raise BackendError(
                        f"The {self._label} in Slurm had not ended after {limit_s:.0f} s.",
                        "Look at the compute node: its share or its disk may not answer.",
                    )
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
