"""A run inside an allocation of Slurm: the batch script becomes the supervisor of its first node.

Slurm starts the same script once more when it has queued the job again: at the time limit, after
preemption, or after the loss of a node. Then the next run of the job continues from its newest
checkpoint.
"""

from __future__ import annotations

import argparse
import logging
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from backend.base import log
from backend.base.errors import BackendError
from backend.base.log import swallowed
from backend.node.notifications import send as notifications
from backend.node.run import finalize, run_files, supervisor
from backend.node.run.allocation import claim_next_run, in_allocation
from backend.node.run.give_way import request_pause
from backend.records.base import access_modes
from backend.records.base.atomic_files import read_json, replace_json
from backend.records.base.layout import JobFolder
from backend.records.jobs.checkpoint import read_checkpoints
from backend.records.jobs.launch import launch_of
from backend.records.jobs.state import JobState
from backend.records.jobs.status import RankError, RunExit, last_status
from backend.records.slurm.job import ENDS, logged_end
from backend.records.slurm.submission import Submission

_LIMIT_S = 30.0
_NODE = re.compile(r"\bNodeName=(?P<name>\S+).*?\bNodeAddr=(?P<address>\S+)")
_TASKS = re.compile(r"(?P<tasks>\d+)(?:\(x(?P<nodes>\d+)\))?")
_RESTARTS = re.compile(r"\bRestarts=(?P<count>\d+)")
_REPEATS_WITHOUT_CHECKPOINT = 3
"""A run that saves nothing may fail by the same cause each time."""
_ENDS_SOON = "Slurm ends the job soon: its time limit is near, or another job needs its nodes."
_log = logging.getLogger(__name__)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="backend.node.run.slurm_run", description=__doc__)
    parser.add_argument("--job", type=Path, required=True, help="folder of the job")
    parser.add_argument("--run", type=int, required=True)
    options = parser.parse_args(arguments)
    # Slurm may send one before the supervisor takes them.
    signal.pthread_sigmask(signal.SIG_BLOCK, supervisor.WATCHED_SIGNALS)
    folder = JobFolder(options.job.absolute())
    access_modes.set_umask(folder.path)
    submission = Submission.from_dict(read_json(folder.attempt(options.run).submission("slurm")))
    if submission.number not in ("", os.environ["SLURM_JOB_ID"]):
        return 0  # Its sbatch gave no answer, so another job was submitted for the run.
    launch = launch_of(folder.launch, options.run)
    if int(os.environ.get("SLURM_RESTART_COUNT", "0")) or launch is None:
        launch = claim_next_run(folder, ENDS["NODE_FAIL"].message)
    if launch is None or folder.attempt(launch.run).exit.exists():
        return 0
    log.to_file_at_end(folder.attempt(launch.run).supervisor_log)
    try:
        task_count = count_tasks(os.environ["SLURM_TASKS_PER_NODE"])
        launch = in_allocation(launch, "Slurm", _node_addresses(), task_count)
    except BackendError as error:
        finalize.close_run(folder, launch.run, str(error), last_status(folder))
        return 1
    replace_json(folder.launch, launch.to_dict())
    allocation = Allocation(folder, launch.run)
    record = supervisor.Supervisor(folder, launch.run, allocation).supervise()
    notifications.start_delivery(folder, launch.run)
    if record.pause:
        allocation.queue_again()
    return 0


class Allocation:
    """The job of Slurm in which a run lives."""

    def __init__(self, folder: JobFolder, run: int) -> None:
        self._folder = folder
        self._run = run
        self._submission = Submission.from_dict(read_json(folder.attempt(run).submission("slurm")))
        self._log = Path(self._submission.log)
        self._log_start = run_files.size(self._log)
        self._job_number = os.environ["SLURM_JOB_ID"]
        self._restart_count = int(os.environ.get("SLURM_RESTART_COUNT", "0"))

    def request_stop(self) -> None:
        """Stop with a checkpoint: Slurm has announced the end of the job."""
        may_continue = self._submission.placement.continues
        request_pause(self._folder, self._run, _ENDS_SOON if may_continue else "")

    def end_cause(self) -> RankError | None:
        """Return why Slurm ends the job, None if it does not."""
        state = logged_end(run_files.text_from(self._log, self._log_start), self._job_number)
        end = ENDS.get(state)
        if end is None:
            return None
        return RankError(
            end.message, remedy=end.remedy, retry="always" if end.is_of_machine else ""
        )

    def pause_reason(self, record: RunExit) -> str:
        """Return why the job continues after this end of the run, "" if it does not.

        The loss of a node is known here minutes before Slurm knows it (SlurmdTimeout).
        """
        error = record.error
        if record.state is not JobState.ERROR or error is None or error.retry != "always":
            return record.pause
        has_saved = any(c.run == self._run for c in read_checkpoints(self._folder.checkpoints))
        may_repeat = has_saved or self._restart_count < _REPEATS_WITHOUT_CHECKPOINT
        may_continue = self._submission.placement.continues and may_repeat
        return error.message if may_continue or self._is_queued_again() else ""

    def queue_again(self) -> None:
        """Put the job back into Slurm's queue, where the next run begins when its turn comes."""
        if not self._is_queued_again():
            _output("scontrol", "requeue", self._job_number)

    def _is_queued_again(self) -> bool:
        """Return whether Slurm has queued the job again: it counts that before it ends it."""
        try:
            job = _output("scontrol", "-o", "show", "job", self._job_number)
        except BackendError as error:
            swallowed(error)
            return False
        match = _RESTARTS.search(job)
        return match is not None and int(match["count"]) > self._restart_count


def count_tasks(text: str) -> int:
    """Add up Slurm's counts of processes for each node, such as "4,2(x3)"."""
    return sum(int(match["tasks"]) * int(match["nodes"] or 1) for match in _TASKS.finditer(text))


def _node_addresses() -> dict[str, str]:
    """Return the address of each node of the allocation, in Slurm's order.

    Raises:
        BackendError: Slurm does not answer.
    """
    names = _output("scontrol", "show", "hostnames", os.environ["SLURM_JOB_NODELIST"]).split()
    listing = _output("scontrol", "-o", "show", "node", ",".join(names))
    addresses = {match["name"]: match["address"] for match in _NODE.finditer(listing)}
    try:
        return {name: socket.gethostbyname(addresses.get(name, name)) for name in names}
    except OSError as error:
        raise BackendError(
            f"The address of a node of the allocation is not known here: {', '.join(names)}."
        ) from error


def _output(*argv: str) -> str:
    try:
        return subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_LIMIT_S,
            check=True,
        ).stdout
    except (OSError, subprocess.SubprocessError) as error:
        swallowed(error)
        raise BackendError(
            f"Slurm does not answer on this node: {' '.join(argv)} failed."
        ) from error


if __name__ == "__main__":
    sys.exit(main())
