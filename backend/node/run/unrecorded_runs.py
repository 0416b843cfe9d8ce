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
_RETRY_AFTER_S = 60.0
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
        self._settled_ns: dict[str, int] = {}
        """When ``attempts`` had changed: jobs whose newest run is over or another computer's."""
        self._next_old_job = 0
        self._has_watched_head = False
        self._next_try_s: dict[str, float] = {}
        self._head_watch = HeadWatch(root, node, monotonic)
        self.watches_heads = False
        """True if a run lives that this node may have to continue, as of the last poll."""

    def poll(self) -> tuple[str, ...]:
        """Run one round; return the ids of the jobs whose run was closed.

        Raises:
            OSError: The data root cannot be read.
        """
        job_ids = sorted(os.listdir(self._root.jobs))
        present_ids = set(job_ids)
        self._settled_ns = {
            job_id: changed_ns
            for job_id, changed_ns in self._settled_ns.items()
            if job_id in present_ids
        }
        old_ids = [job_id for job_id in job_ids if job_id in self._settled_ns]
        self._next_old_job = self._next_old_job if self._next_old_job < len(old_ids) else 0
        repeated_ids = old_ids[self._next_old_job : self._next_old_job + _OLD_JOBS_PER_ROUND]
        self._next_old_job += len(repeated_ids)
        due_ids = [job_id for job_id in job_ids if job_id not in self._settled_ns] + repeated_ids
        self._has_watched_head = False
        closed_ids = tuple(job_id for job_id in due_ids if self._close_if_ended(job_id))
        self.watches_heads = self._has_watched_head
        return closed_ids

    def _close_if_ended(self, job_id: str) -> bool:
        folder = self._root.job(job_id)
        try:
            changed_ns = os.stat(folder.attempts).st_mtime_ns
        except (FileNotFoundError, NotADirectoryError):
            self._settled_ns[job_id] = 0
            return False
        if self._settled_ns.pop(job_id, None) == changed_ns:
            self._settled_ns[job_id] = changed_ns
            return False
        run = folder.newest_run()
        supervisor = self._dead_supervisor(folder, run, changed_ns)
        lost_nodes = self._head_watch.find_lost_nodes(folder, run) if supervisor is None else ()
        if (supervisor is None and not lost_nodes) or self._monotonic() < self._next_try_s.get(
            job_id, 0.0
        ):
            return False
        # Imported only when needed: an agent stays small as long as no run fails.
        from backend.node.notifications import send as send_notice
        from backend.node.run import finalize
        from backend.records.jobs.launch import launch_of
        from backend.records.jobs.placement import THIS_COMPUTER

        reason = f"{lost_nodes[0]} no longer answers, and led the run." if lost_nodes else ""
        if supervisor is not None:
            launch = launch_of(folder.launch, run)
            if launch is not None and launch.ranks[0].node not in (self._node, THIS_COMPUTER):
                self._settled_ns[job_id] = changed_ns
                return False
            reason = finalize.ENDED_UNRECORDED[finalize.supervision_of(supervisor)].message
        _, write_error = finalize.close_run(
            folder, run, reason, last_status(folder), is_of_machine=True, lost_nodes=lost_nodes
        )
        _log.info("Closed run %d of job %s: %s %s", run, job_id, reason, write_error)
        if write_error:
            self._next_try_s[job_id] = self._monotonic() + _RETRY_AFTER_S
            return False
        self._next_try_s.pop(job_id, None)
        self._settled_ns[job_id] = changed_ns
        send_notice.start_delivery(folder, run)
        return True

    def _dead_supervisor(
        self, folder: JobFolder, run: int, changed_ns: int
    ) -> ProcessIdentity | None:
        """Return the supervisor of a run of this computer that is gone and recorded no end."""
        attempt = folder.attempt(run)
        if run == 0 or attempt.exit.exists():
            self._settled_ns[folder.job_id] = changed_ns
            return None
        try:
            supervisor = ProcessIdentity.from_dict(read_json(attempt.supervisor))
        except (FileNotFoundError, ValueError) as error:
            swallowed(error)
            return None
        # Stricter than for a desktop, whose name changes with its network: a node's does not.
        if supervisor.host != socket.gethostname():
            if self._head_watch.is_watched(folder, run):
                self._has_watched_head = True
            else:
                self._settled_ns[folder.job_id] = changed_ns
            return None
        # Checked last: a supervisor writes the end before it exits.
        if process_identity.is_alive(supervisor) or attempt.exit.exists():
            return None
        return supervisor
