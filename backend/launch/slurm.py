"""The launcher for a cluster with Slurm: `sbatch` on a login node, one query for all jobs."""

from __future__ import annotations

import pwd
import re
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import PurePosixPath

from backend.base.errors import BackendError
from backend.base.log import suppress
from backend.launch.launcher import LoginNode
from backend.node.run import finalize
from backend.records.base.atomic_files import read_json, stored_record
from backend.records.base.layout import JobFolder
from backend.records.base.local_files import Files
from backend.records.jobs.launch import Launch
from backend.records.jobs.placement import PlacementError
from backend.records.jobs.status import Condition, RunExit, last_status
from backend.records.nodes.partition import Partition
from backend.records.slurm import cluster
from backend.records.slurm.cluster import Association
from backend.records.slurm.job import (
    QUEUE_COMMAND,
    AccountingSource,
    SlurmJob,
    accounting_command,
    derive_condition,
    parse_jobs,
)
from backend.records.slurm.placement import (
    SlurmPlacement,
    batch_script,
    check_placement,
    lane_names,
    parse_job_number,
    sbatch_command,
    with_time_limit,
)
from backend.records.slurm.submission import (
    Submission,
    emptiest_lane,
    is_own,
    submitted_number,
)
from backend.ssh.interface import CommandResult

POLL_S = 10.0
"""The shortest time between two queries: Slurm's controller serves the whole cluster."""
_KEY = "slurm"
_LIMIT_S = 60.0
_ERROR = re.compile(r"\b(?:error|fatal): (.+)")
_UNKNOWN_OPTION = re.compile(r"\b(?:unrecognized|invalid) option.+")


class SlurmCluster:
    """A cluster behind a login node, and the jobs of the user in it."""

    def __init__(
        self,
        login_node: LoginNode,
        monotonic: Callable[[], float] = time.monotonic,
        poll_s: float = POLL_S,
    ) -> None:
        self._login_node = login_node
        self._poll_s = poll_s
        self._monotonic = monotonic
        self._jobs: Mapping[str, SlurmJob] = {}
        self._next_query_s = -poll_s
        self._ended_jobs: dict[str, SlurmJob] = {}
        self._watched_numbers: set[str] = set()
        self._requested_numbers: set[str] = set()

    def partitions(self) -> tuple[Partition, ...]:
        return cluster.parse_partitions(self.output(cluster.NODES_COMMAND))

    def associations(self) -> tuple[Association, ...]:
        """Return the user's accounts; none where the cluster has no accounting."""
        with suppress(BackendError):
            user = self.output(("id", "-un")).strip()
            return cluster.parse_associations(self.output(cluster.associations_command(user)))
        return ()

    def check(self, placement: SlurmPlacement) -> tuple[PlacementError, ...]:
        return check_placement(placement, self.partitions(), self.associations())

    def launcher(self, placement: SlurmPlacement, files: Files) -> SlurmLauncher:
        return SlurmLauncher(self, placement, files)

    def jobs(self, *, is_new: bool = False) -> Mapping[str, SlurmJob]:
        """Return the user's jobs by number, read now or at most `POLL_S` ago."""
        if is_new or self._monotonic() >= self._next_query_s:
            # Before the query: one that fails is not repeated at once either.
            self._next_query_s = self._monotonic() + self._poll_s
            self._jobs = parse_jobs(self.output(QUEUE_COMMAND))
            self._watched_numbers, self._requested_numbers = self._requested_numbers, set()
            self._ended_jobs = self._read_ended_jobs(self._watched_numbers)
        return self._jobs

    def job(self, number: str) -> SlurmJob | None:
        """Return a job of the queue, or one that has left it; None if Slurm does not know it.

        Its accounting is asked for all jobs at once, after the queue, and for a new one by itself.
        """
        jobs = self.jobs()
        self._requested_numbers.add(number)
        if number not in self._watched_numbers:
            self._watched_numbers.add(number)
            self._ended_jobs |= self._read_ended_jobs({number})
        return self._ended_jobs.get(number) or jobs.get(number)

    def _read_ended_jobs(self, numbers: Collection[str]) -> dict[str, SlurmJob]:
        """Return what the accounting has of jobs that the queue no longer has.

        Only the accounting knows who cancelled a job.
        """
        ended_jobs: dict[str, SlurmJob] = {}
        missing_numbers = {
            number
            for number in numbers
            if number not in self._jobs or self._jobs[number].state == "CANCELLED"
        }
        for source in AccountingSource:
            if missing_numbers := missing_numbers - ended_jobs.keys():
                with suppress(BackendError):
                    command = accounting_command(sorted(missing_numbers), source)
                    jobs = parse_jobs(self.output(command))
                    # The database may be behind.
                    ended_jobs |= {number: job for number, job in jobs.items() if job.is_over}
        return ended_jobs

    def output(self, argv: Sequence[str], input: bytes = b"") -> str:
        """Run a command of Slurm's.

        Raises:
            BackendError: It failed, with Slurm's own sentence; or there was no answer.
        """
        result = self._login_node.run(argv, input=input, limit_s=_LIMIT_S)
        if not result.ok:
            raise BackendError(
                f"Slurm refused {argv[0]}: {_own_sentence(result)}.",
                f"Run {argv[0]} on the login node to see its whole answer.",
            )
        return result.out


class SlurmLauncher:
    """Submits, watches and ends the runs of one job; see `backend.launch.launcher.Launcher`."""

    def __init__(self, slurm: SlurmCluster, placement: SlurmPlacement, files: Files) -> None:
        self._slurm = slurm
        self._placement = placement
        self._files = files

    def connect(self, launch: Launch) -> AbstractContextManager[None]:
        """Connect to nothing: `submit` gives its own reason, and the claim is then given back."""
        return nullcontext()

    def submit(self, folder: JobFolder, launch: Launch, sweep: str = "") -> None:
        """Submit a claimed run, whose launch `allocation_launch` has made.

        An earlier `sbatch` whose answer was lost is found by its comment, and not repeated.
        ``sweep`` is the name of the job's sweep, "" for none.

        Raises:
            BackendError: Slurm refused the job; its sentence is in the message.
        """
        partitions = self._slurm.partitions()
        errors = check_placement(self._placement, partitions, self._slurm.associations())
        if errors:
            raise BackendError(errors[0].message, errors[0].remedy)
        placement = with_time_limit(self._placement, partitions)
        attempt = folder.attempt(launch.run)
        log = str(
            PurePosixPath(
                launch.job_folder, "attempts", str(launch.run), attempt.scheduler_log(_KEY).name
            )
        )
        number = self._submitted_number(folder.job_id, launch.run)
        jobs = self._slurm.jobs()
        lane_name = emptiest_lane(lane_names(placement, sweep), jobs.values())
        lane_name = jobs[number].name if lane_name and number else lane_name
        submission = Submission(placement, log, lane_name=lane_name)
        self._files.replace_json(attempt.submission(_KEY), submission.to_dict())
        script = batch_script(
            placement,
            python=launch.python,
            code_root=launch.code_root,
            job_folder=launch.job_folder,
            run=launch.run,
        )
        if not number:
            command = sbatch_command(placement, folder.job_id, launch.run, log, lane_name)
            try:
                number = parse_job_number(self._slurm.output(command, script.encode()))
            except BackendError:
                # Slurm may have taken the job although its answer was lost.
                number = self._submitted_number(folder.job_id, launch.run)
                if not number:
                    raise
        self._files.replace_json(
            attempt.submission(_KEY), replace(submission, number=number).to_dict()
        )

    def _submitted_number(self, job_id: str, run: int) -> str:
        return submitted_number(self._slurm.jobs(is_new=True), job_id, run)

    def state(self, folder: JobFolder) -> Condition:
        """Return the state of the newest run.

        The end of a run that Slurm has ended before it could record anything is recorded.

        Raises:
            BackendError: The login node or Slurm does not answer: no news, and no end.
        """
        run = folder.newest_run()
        job = self._job(folder, run)
        run_exit = stored_record(RunExit, folder.attempt(run).exit)
        user = _user_name(job.cancelled_by) if job is not None else ""
        condition = derive_condition(job, run_exit, user)
        if job is None or not job.is_over:
            return condition
        if run_exit is None:
            # A record that came after Slurm's answer is the better one.
            self._files.refresh_file(folder.attempt(run).exit)
            run_exit = stored_record(RunExit, folder.attempt(run).exit)
            if run_exit is not None:
                return derive_condition(job, run_exit, user)
            condition = derive_condition(job, None, user, self._log(folder, run))
            finalize.close_run(folder, run, condition.message, last_status(folder))
        elif run_exit.pause:
            # Cancelled while it was waiting for its next run.
            record = replace(run_exit, pause="")
            self._files.replace_json(folder.attempt(run).exit, record.to_dict())
        return condition

    def _log(self, folder: JobFolder, run: int) -> str | None:
        """Return the log of a run, None if there is no such file."""
        path = folder.attempt(run).scheduler_log(_KEY)
        with suppress(BackendError, OSError):
            self._files.refresh_file(path)
            return path.read_text("utf-8", errors="replace") if path.exists() else None
        return ""

    def _job(self, folder: JobFolder, run: int) -> SlurmJob | None:
        """Return Slurm's job of a run, None if it is not known or the number is another's now."""
        submission = read_submission(folder, run)
        # Without a number, the answer of sbatch was lost.
        number = submission.number or submitted_number(self._slurm.jobs(), folder.job_id, run)
        job = self._slurm.job(number) if number else None
        is_ours = job is not None and is_own(job, folder.job_id, submission.lane_name)
        return job if is_ours else None

    def leave_queue(self, folder: JobFolder) -> bool:
        """Cancel the job of the newest run while it waits; return False if it has begun.

        Raises:
            BackendError: Slurm does not answer, or the number is another job's now.
        """
        self._cancel(folder, "--state=PENDING")
        job = self._job(folder, folder.newest_run())
        return job is None or job.is_over

    def end(self, folder: JobFolder) -> None:
        """Cancel the job of the newest run, in the queue or running, if it is not over.

        Raises:
            BackendError: Slurm does not answer, or the number is another job's now.
        """
        self._cancel(folder)

    def _cancel(self, folder: JobFolder, *options: str) -> None:
        submission = read_submission(folder, folder.newest_run())
        number = submission.number
        job = self._slurm.jobs(is_new=True).get(number)
        if job is None or job.is_over:
            return
        if not is_own(job, folder.job_id, submission.lane_name):
            raise BackendError(
                f"The job {number} in Slurm is another one now, {job.name}.",
                "The run of this job is over; nothing was ended.",
            )
        self._slurm.output(("scancel", *options, number))
        self._slurm.jobs(is_new=True)


def read_submission(folder: JobFolder, run: int) -> Submission:
    try:
        return Submission.from_dict(read_json(folder.attempt(run).submission(_KEY)))
    except (OSError, ValueError) as error:
        raise BackendError(
            f"Run {run} of {folder.job_id} has no readable record of its submission to Slurm.",
            "Look for it with squeue --me.",
        ) from error


def _user_name(uid: int | None) -> str:
    """Return the name behind a number of a user, "user 1000" where this computer has none."""
    if uid is None:
        return ""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:  # a user of the cluster without an account here
        return f"user {uid}"


def _own_sentence(result: CommandResult) -> str:
    """Slurm's own sentence without the name of the program.

    Of several errors it is the last, which sums them up; an unknown option has usage after it.
    """
    error_lines = [*_UNKNOWN_OPTION.findall(result.err)[:1], *_ERROR.findall(result.err)[-1:]]
    error_line: str = (error_lines or [result.complaint])[0]
    return error_line.rstrip(".")
