"""A third scheduler: it begins each job at once on this computer, unless its cluster is held.

It shows what a new scheduler is: this file, that of its records, and an entry of two tables.
"""

from __future__ import annotations

import argparse
import os
import signal
import socket
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path

from backend.launch.launcher import LoginNode
from backend.node.run import finalize, supervisor
from backend.node.run.allocation import in_allocation
from backend.node.system import process_cleanup
from backend.records.base.atomic_files import read_json, replace_json
from backend.records.base.layout import JobFolder, run_tag
from backend.records.base.local_files import Files
from backend.records.jobs.launch import Launch, launch_of
from backend.records.jobs.placement import PlacementError
from backend.records.jobs.state import JobState
from backend.records.jobs.status import Condition, last_status
from backend.records.nodes.partition import Partition, PartitionNode
from tests.fakes.at_once_records import KEY, SCHEDULER, AtOncePlacement, AtOnceSubmission


class AtOnceCluster:
    """This computer; ``login_node`` is it, too."""

    is_held = False
    """Jobs wait."""

    def __init__(self, login_node: LoginNode) -> None:
        self._login_node = login_node

    def partitions(self) -> tuple[Partition, ...]:
        name = self._login_node.run(("uname", "-n")).out.strip()
        return (Partition("all", True, True, None, (PartitionNode(name, "idle"),)),)

    def check(self, placement: AtOncePlacement) -> tuple[PlacementError, ...]:
        return tuple(placement.errors())

    def launcher(self, placement: AtOncePlacement, files: Files) -> AtOnceLauncher:
        return AtOnceLauncher(placement, self._login_node)


class AtOnceLauncher:
    def __init__(self, placement: AtOncePlacement, login_node: LoginNode) -> None:
        self._placement = placement
        self._login_node = login_node

    def connect(self, launch: Launch) -> AbstractContextManager[None]:
        return nullcontext()

    def submit(self, folder: JobFolder, launch: Launch, sweep: str = "") -> None:
        submission, path = AtOnceSubmission(self._placement, "waiting"), _path(folder, launch.run)
        replace_json(path, submission.to_dict())
        if AtOnceCluster.is_held:
            return
        script = (launch.python, "-m", __name__, "--job", launch.job_folder, "--run")
        code = f'cd {launch.code_root}; setsid "$@" > /dev/null 2>&1 & echo $!'
        argv = ("sh", "-c", code, "sh", *script, str(launch.run))
        number = self._login_node.run(argv).out.strip()
        replace_json(path, replace(submission, number=number).to_dict())

    def state(self, folder: JobFolder) -> Condition:
        if _number(folder) == "waiting":
            return Condition(JobState.QUEUED, "Held by the tests.")
        return Condition(None)

    def leave_queue(self, folder: JobFolder) -> bool:
        return _number(folder) == "waiting"

    def end(self, folder: JobFolder) -> None:
        os.kill(int(_number(folder)), signal.SIGKILL)
        run = folder.newest_run()
        process_cleanup.end_tagged(run_tag(folder.job_id, run), 0.0)
        finalize.close_run(folder, run, "The tests cancelled the job.", last_status(folder))


def _path(folder: JobFolder, run: int) -> Path:
    return folder.attempt(run).submission(KEY)


def _number(folder: JobFolder) -> str:
    return AtOnceSubmission.from_dict(read_json(_path(folder, folder.newest_run()))).number


def main(arguments: Sequence[str] | None = None) -> None:
    """Become the supervisor, as a batch script does."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--job", type=Path)
    parser.add_argument("--run", type=int)
    options = parser.parse_args(arguments)
    signal.pthread_sigmask(signal.SIG_BLOCK, supervisor.WATCHED_SIGNALS)
    folder = JobFolder(options.job)
    launch = launch_of(folder.launch, options.run)
    assert launch is not None
    nodes = {socket.gethostname(): "127.0.0.1"}
    launch = in_allocation(launch, SCHEDULER.name, nodes, len(launch.ranks))
    replace_json(folder.launch, launch.to_dict())
    supervisor.Supervisor(folder, launch.run).supervise()


if __name__ == "__main__":
    sys.exit(main())
