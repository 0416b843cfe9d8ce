"""Find runs of this computer that ended without a record, at little cost, and those of a lost head.

Each run is polled until it is over; after that only whether the job has a newer run, some jobs in
each round, because a data root may hold ten thousand.
"""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Callable

from backend.base.log import swallowed
from backend.node.run.head_watch import HeadWatch
from backend.node.system import process_identity
from backend.records.base.atomic_files import read_json
from backend.records.base.layout import DataRoot, JobFolder
from backend.records.jobs.status import ProcessIdentity, last_status

_log = logging.getLogger(__name__)
_OLD_JOBS_PER_ROUND = 200
_AGAIN_AFTER_S = 60.0
"""The delay after an end that could not be written."""


class RunWatch:
    """Polls the jobs of a data root; closes runs that no other program closes.

    ``node`` is the name under which this computer runs jobs: two computers may share a host name.
    """

    def __init__(
        self, root: DataRoot, node: str, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._root = root
        self._node = node
        self._monotonic = monotonic
        self._settled: dict[str, int] = {}
        """When ``attempts`` had changed: jobs whose newest run is over or another computer's."""
        self._turn = 0
        self._watched = False
        self._not_before: dict[str, float] = {}
        self._heads = HeadWatch(root, node, monotonic)
        self.watches_heads = False
        """True if a run lives that this node may have to continue, as of the last poll."""

    def poll(self) -> tuple[str, ...]:
        """Run one round; return the ids of the jobs whose run was closed.

        Raises:
            OSError: The data root cannot be read.
        """
        names = sorted(os.listdir(self._root.jobs))
        there = set(names)
        self._settled = {job: when for job, when in self._settled.items() if job in there}
        old = [name for name in names if name in self._settled]
        self._turn = self._turn if self._turn < len(old) else 0
        again = old[self._turn : self._turn + _OLD_JOBS_PER_ROUND]
        self._turn += len(again)
        due = [name for name in names if name not in self._settled] + again
        self._watched = False
        closed = tuple(name for name in due if self._closed(name))
        self.watches_heads = self._watched
        return closed

    def _closed(self, job: str) -> bool:
        folder = self._root.job(job)
        try:
            changed = os.stat(folder.attempts).st_mtime_ns
        except (FileNotFoundError, NotADirectoryError):
            self._settled[job] = 0
            return False
        if self._settled.pop(job, None) == changed:
            self._settled[job] = changed
            return False
        run = folder.newest_run()
        supervisor = self._gone_supervisor(folder, run, changed)
        gone = self._heads.gone(folder, run) if supervisor is None else ()
        if (supervisor is None and not gone) or self._monotonic() < self._not_before.get(job, 0.0):
            return False
        # Imported only when needed: an agent stays small as long as no run fails.
        from backend.node.notifications import send as send_notice
        from backend.node.run import finalize
        from backend.records.jobs.launch import launch_of
        from backend.records.jobs.placement import THIS_COMPUTER

        why = f"{gone[0]} no longer answers, and led the run." if gone else ""
        if supervisor is not None:
            launch = launch_of(folder.launch, run)
            if launch is not None and launch.ranks[0].node not in (self._node, THIS_COMPUTER):
                self._settled[job] = changed
                return False
            why = finalize.ENDED_UNRECORDED[finalize.supervision_of(supervisor)].sentence
        _, problem = finalize.close_run(
            folder, run, why, last_status(folder), is_of_machine=True, gone=gone
        )
        _log.info("Closed run %d of job %s: %s %s", run, job, why, problem)
        if problem:
            self._not_before[job] = self._monotonic() + _AGAIN_AFTER_S
            return False
        self._not_before.pop(job, None)
        self._settled[job] = changed
        send_notice.begin(folder, run)
        return True

    def _gone_supervisor(self, folder: JobFolder, run: int, changed: int) -> ProcessIdentity | None:
        """Return the supervisor of a run of this computer that is gone and recorded no end."""
        attempt = folder.attempt(run)
        if run == 0 or attempt.exit.exists():
            self._settled[folder.job_id] = changed
            return None
        try:
            supervisor = ProcessIdentity.from_dict(read_json(attempt.supervisor))
        except (FileNotFoundError, ValueError) as error:
            swallowed(error)
            return None
        # Stricter than for a desktop, whose name changes with its network: a node's does not.
        if supervisor.host != socket.gethostname():
            if self._heads.watches(folder, run):
                self._watched = True
            else:
                self._settled[folder.job_id] = changed
            return None
        # Checked last: a supervisor writes the end before it exits.
        if process_identity.is_alive(supervisor) or attempt.exit.exists():
            return None
        return supervisor
