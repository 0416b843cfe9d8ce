"""``slurm.json``: the job of Slurm that a run was handed to.

Standard library only and Python 3.9: the nodes import this.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from backend.records.base.schema import KEY, Record
from backend.records.slurm.job import SlurmJob
from backend.records.slurm.placement import SlurmPlacement, job_comment, job_name


@dataclass(frozen=True)
class Submission(Record, label="submission to Slurm"):
    """``number`` is Slurm's of the job, "" while `sbatch` has not answered.

    ``log`` is the file of the script's output, as a path on the nodes. A job that Slurm queues
    again keeps its number and its log. ``lane`` is its name in Slurm, "" for that of the job.
    """

    placement: SlurmPlacement
    log: str
    number: str = ""
    lane_name: str = field(default="", metadata={KEY: "lane"})


def is_own(job: SlurmJob, job_id: str, lane_name: str = "") -> bool:
    """Return whether a job of Slurm is that of ``job_id``: Slurm uses numbers again.

    Slurm's accounting may have no comments.
    """
    own_comment, comment = (c.rpartition(":")[0] for c in (job_comment(job_id, 0), job.comment))
    return job.name == (lane_name or job_name(job_id)) and comment in ("", own_comment)


def emptiest_lane(lanes: Sequence[str], jobs: Iterable[SlurmJob]) -> str:
    """Return the lane with the fewest jobs that wait or run; "" without lanes."""
    names = [job.name for job in jobs if not job.is_over]
    return min(lanes, key=names.count, default="")


def submitted_number(jobs: Mapping[str, SlurmJob], job_id: str, run: int) -> str:
    """Return the number of a job of Slurm that was submitted for a run and is not over, or ""."""
    comment = job_comment(job_id, run)
    return next((job.id for job in jobs.values() if job.comment == comment and not job.is_over), "")
