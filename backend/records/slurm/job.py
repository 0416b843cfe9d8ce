"""The state of a run under Slurm: what Slurm says of its job, put together with the run's record.

Slurm knows why a job waits and who or what ended it; the run's own record (``exit.json``) knows how
the training ended. `derive_condition` is the only function that compares the two.

Standard library only and Python 3.9: the nodes import this.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from backend.records.base.validation import sanitize
from backend.records.jobs.state import JobState
from backend.records.jobs.status import Condition, RunExit

_CUT = "|"
_QUEUE_FIELDS = ("%A", "%T", "%r", "%S", "%j", "%k")
_ACCOUNT_FIELDS = ("JobID", "State", "Reason", "Start", "JobName", "Comment")
QUEUE_COMMAND = ("squeue", "--me", "-h", "-t", "all", "-o", _CUT.join(_QUEUE_FIELDS))
"""All jobs of the user, those too that ended a few minutes ago; read by `parse_jobs`."""
_ACTIVE_STATES = ("RUNNING", "SUSPENDED", "STOPPED", "SIGNALING", "STAGE_OUT", "RESIZING")
_WAITING_STATES = ("PENDING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "SPECIAL_EXIT")
_REASON_CHARS = 120
_CANCELLED = re.compile(r"CANCELLED(?: by (?P<uid>\d+))?")
_STEP_DAEMON = re.compile(
    r"slurmstepd\S*: error: \*\*\* JOB (?P<id>\d+) ON \S+ CANCELLED AT \S+(?P<cause>.*?) \*\*\*"
)
"""The line that Slurm writes into the log of a job before it ends it."""
_LOGGED_CAUSES = {
    "DUE TO TIME LIMIT": "TIMEOUT",
    "DUE TO PREEMPTION": "PREEMPTED",
    "DUE TO NODE FAILURE": "NODE_FAIL",
    "DUE TO JOB REQUEUE": "REQUEUED",
}

_PENDING_REASONS = {
    "None": "Slurm has not looked at the job yet.",
    "Priority": "Jobs with a higher priority are before it.",
    "Resources": "It waits for nodes or GPUs to become free.",
    "Dependency": "It waits for another job.",
    "BeginTime": "It starts at a later time, as it was requested or after it was queued again.",
    "JobHeldUser": "It is held; release it with: scontrol release {id}",
    "JobHeldAdmin": "It is held by an administrator; ask why.",
    "PartitionDown": "The partition is down; choose another one or ask your administrator.",
    "PartitionInactive": "The partition starts no jobs now.",
    "PartitionTimeLimit": "Its time limit is above that of the partition; choose a shorter one.",
    "PartitionNodeLimit": "It asks for more nodes than the partition allows; choose fewer.",
    "PartitionConfig": "It asks for more than the partition has; choose fewer nodes or GPUs.",
    "ReqNodeNotAvail": "A node that it needs is down, drained or reserved.",
    "BadConstraints": "No node has what it asks for; change its nodes, GPUs or constraint.",
    "InvalidAccount": "Slurm does not accept its account; choose another one.",
    "InvalidQOS": "Slurm does not accept its QOS; choose another one.",
    "Reservation": "It waits for its reservation.",
    "Licenses": "It waits for a licence.",
    "NodeDown": "A node that it needs is down.",
    "JobHoldMaxRequeue": "It was queued again too often; release it with: scontrol release {id}",
}
_LIMIT_REASON = re.compile(r"(?P<kind>QOS|Assoc|Association)\w*(Limit|Max|Grp)\w*")


@dataclass(frozen=True)
class SlurmEnd:
    """A cause for which Slurm ends a job. ``is_of_machine``: another try may succeed unchanged."""

    message: str
    remedy: str
    is_of_machine: bool = False


_RESUME = "Resume from the newest checkpoint."
"""A run without a checkpoint gets “Start the job over.” in its place."""
ENDS: Mapping[str, SlurmEnd] = {
    "TIMEOUT": SlurmEnd(
        "Slurm ended the job at its time limit.",
        "Resume it with a longer time limit, or let it continue by itself.",
        is_of_machine=True,
    ),
    "PREEMPTED": SlurmEnd(
        "Slurm ended the job because another job needed its nodes.",
        f"{_RESUME} Choose a partition without preemption to keep the nodes.",
        is_of_machine=True,
    ),
    "REQUEUED": SlurmEnd("Slurm put the job back into its queue.", "", is_of_machine=True),
    "NODE_FAIL": SlurmEnd(
        "A node of the job failed, so Slurm ended it.",
        f"{_RESUME} Ask your administrator about the node if it happens again.",
        is_of_machine=True,
    ),
    "BOOT_FAIL": SlurmEnd(
        "A node of the job did not start.", "Start the job again.", is_of_machine=True
    ),
    "OUT_OF_MEMORY": SlurmEnd(
        "The job used more main memory than Slurm gave to it.",
        "Ask for more with the extra option --mem, or use fewer loader workers.",
    ),
    "DEADLINE": SlurmEnd("Slurm ended the job at its deadline.", "Start it without a deadline."),
    "CANCELLED": SlurmEnd("The job was cancelled in Slurm.", _RESUME),
    "REVOKED": SlurmEnd("Slurm moved the job to another cluster.", _RESUME),
}
_SILENT_END = SlurmEnd(
    "The job ended in Slurm with the state {state}, and the run left no record of its end.",
    "Read slurm.log in the folder of the run.",
)
_UNWRITTEN_END = SlurmEnd(
    "The job ended in Slurm with the state {state}, and its node wrote nothing to the data root.",
    "Check that all compute nodes see the data root, at the same path as the login node.",
)


@dataclass(frozen=True)
class SlurmJob:
    """A job as Slurm has it. ``state`` is Slurm's word without additions ("CANCELLED").

    ``cancelled_by`` is the user number, None if Slurm does not say it; ``start_time`` is expected
    for a job that waits, "" if Slurm does not know.
    """

    id: str
    state: str
    reason: str = ""
    start_time: str = ""
    name: str = ""
    comment: str = ""
    cancelled_by: int | None = None

    @property
    def is_waiting(self) -> bool:
        return self.state in _WAITING_STATES

    @property
    def is_over(self) -> bool:
        states = (*_ACTIVE_STATES, *_WAITING_STATES, "CONFIGURING", "COMPLETING")
        return self.state not in states


class AccountingSource(Enum):
    """Slurm's records of ended jobs, the best first; the value is an option of `sacct`.

    Some clusters have no database. The file has neither comments nor who cancelled a job.
    """

    DATABASE = "-X"
    FILE = "-c"


def accounting_command(ids: Sequence[str], source: AccountingSource) -> tuple[str, ...]:
    """Return the command for jobs that `QUEUE_COMMAND` no longer lists."""
    columns = ",".join(_ACCOUNT_FIELDS)
    return ("sacct", "-n", "-P", source.value, "-j", ",".join(ids), "-o", columns)


def parse_jobs(output: str) -> dict[str, SlurmJob]:
    """Read the output of `QUEUE_COMMAND` or `accounting_command`, by the job's number.

    Lines of another form are left out.
    """
    jobs = {}
    for line in output.splitlines():
        values = [value.strip() for value in line.split(_CUT, len(_QUEUE_FIELDS) - 1)]
        if len(values) != len(_QUEUE_FIELDS) or not values[0].isdecimal():
            continue
        id, state, reason, start_time, name, comment = values
        cancellation = _CANCELLED.match(state)
        jobs[id] = SlurmJob(
            id,
            state.partition(" ")[0].rstrip("+"),
            reason.strip("()"),
            "" if start_time in ("N/A", "Unknown", "None") else start_time,
            name,
            "" if comment == "(null)" else comment,
            int(cancellation["uid"]) if cancellation and cancellation["uid"] else None,
        )
    return jobs


def logged_end(log: str, id: str) -> str:
    """Return the state to which the log of job ``id`` says that Slurm ends it, or "".

    It is there before the signal, while Slurm's own state is COMPLETING for all causes.
    """
    matches = [match for match in _STEP_DAEMON.finditer(log) if match["id"] == id]
    if not matches:
        return ""
    cause = matches[-1]["cause"].strip()
    return next((s for text, s in _LOGGED_CAUSES.items() if cause.startswith(text)), "CANCELLED")


def pending_message(job: SlurmJob) -> str:
    """Return that a job waits, and why, as sentences for the user."""
    return f"Waits in Slurm's queue. {pending_reason(job)}"


def pending_reason(job: SlurmJob) -> str:
    """Return why a job waits, and until when, as sentences for the user."""
    limit = _LIMIT_REASON.match(job.reason)
    reason_name = job.reason.partition(",")[0]
    if reason_name in _PENDING_REASONS:
        message = _PENDING_REASONS[reason_name].format(id=job.id)
    elif limit is not None:
        subject = "QOS" if limit["kind"] == "QOS" else "account"
        message = f"Its {subject} has reached a limit of Slurm ({job.reason})."
    else:
        message = f"Slurm gives the reason “{sanitize(job.reason, _REASON_CHARS)}”."
    start = f" Slurm expects to start it at {job.start_time.replace('T', ' ')}."
    return f"{message}{start if job.start_time else ''}"


def end_of(state: str, user: str = "") -> SlurmEnd | None:
    """Return the cause behind a final state of Slurm; None where the run's record explains it.

    ``user`` is the name of the one who cancelled the job, "" if it is not known.
    """
    end = ENDS.get(state)
    if end is not None and state == "CANCELLED" and user:
        end = SlurmEnd(f"The job was cancelled in Slurm by {user}.", end.remedy)
    return end


def derive_condition(
    job: SlurmJob | None, run_exit: RunExit | None, user: str = "", log: str | None = ""
) -> Condition:
    """Put together what Slurm says of a job and what the record of its newest run says. Pure.

    A record of success or of a stop is never changed. A failure that has a cause in Slurm gets its
    sentence. ``job`` is None where Slurm gives no news: that is never an end. ``user`` as in
    `end_of`. ``log`` is the log of a job that left no record, where its script says why; None if
    Slurm, which makes the file before the script starts, could not.
    """
    if run_exit is not None:
        return _recorded_condition(job, run_exit, user)
    if job is None or job.state in _ACTIVE_STATES:
        return Condition(None)
    if job.is_waiting:
        return Condition(JobState.QUEUED, pending_message(job))
    if job.state == "CONFIGURING":
        return Condition(JobState.STARTING, "Slurm prepares the nodes of the job.")
    if job.state == "COMPLETING":
        return Condition(JobState.STOPPING, "Slurm ends the processes of the job.")
    end = end_of(job.state, user) or (_UNWRITTEN_END if log is None else _SILENT_END)
    message = end.message.format(state=job.state)
    if end is _SILENT_END and log and log.strip():
        message += f" Its log ends with “{sanitize(log.splitlines()[-1], _REASON_CHARS)}”."
    return Condition(JobState.ERROR, message, end.remedy)


def _recorded_condition(job: SlurmJob | None, run_exit: RunExit, user: str) -> Condition:
    is_over = job is not None and job.is_over
    is_waiting = job is not None and job.is_waiting and run_exit.state is not JobState.FINISHED
    if is_waiting or (run_exit.pause and not is_over):
        reason = pending_message(job) if job is not None and is_waiting else ""
        is_paused = bool(run_exit.pause) or run_exit.state is JobState.INTERRUPTED
        message = f"{run_exit.pause or run_exit.message} {reason}".strip()
        return Condition(JobState.PAUSED if is_paused else JobState.QUEUED, message)
    end = end_of(job.state, user) if job is not None and is_over else None
    if end is not None and run_exit.state is JobState.ERROR:
        return Condition(JobState.ERROR, end.message, end.remedy)
    remedy = run_exit.error.remedy if run_exit.error is not None else ""
    return Condition(run_exit.state, run_exit.message, remedy)
