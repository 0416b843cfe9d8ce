"""Reap runs that ended without a record, and name the nodes that would record their end.

Apart from `lifecycle`, whose imports a command that only reads jobs does not need.
"""

from __future__ import annotations

from backend.base.log import suppress
from backend.datastore.access.root_access import OpenJob
from backend.datastore.jobs.files import JobFile
from backend.datastore.jobs.reaper import reap
from backend.records.jobs.placement import THIS_COMPUTER
from backend.records.jobs.status import UnrecordedEnd
from backend.records.jobs.view import JobView
from backend.services.jobs.queries import JobQueries
from backend.ssh.interface import Unreachable


class RunReaper:
    """Reaps runs. Every call blocks and may run on any thread."""

    def __init__(self, queries: JobQueries) -> None:
        self._queries = queries

    def reap(self, job_id: str) -> UnrecordedEnd | None:
        """Reap the newest run of a job if it ended here without a record; see `reaper.reap`.

        Raises:
            BackendError: There is no such job, or the end of the run cannot be written.
        """
        return reap(self._queries.folder(job_id))

    def unfinished_job_ids(self) -> tuple[str, ...]:
        """Return the ids of all jobs that the catalogue does not know to be over."""
        finished_ids = {
            summary.id for summary in self._queries.summaries() if summary.state.is_over
        }
        return tuple(job_id for job_id in self._queries.ids() if job_id not in finished_ids)

    def agent_nodes(self, job_id: str) -> tuple[str, ...]:
        """Return the nodes whose agents have to be alive for a job, the head first.

        The agent of the head records the end of a run whose supervisor is lost. It starts a queued
        job as soon as the other agents have a heartbeat.

        Raises:
            BackendError: There is no such job, or the job cannot be read.
        """
        folder = self._queries.folder(job_id)
        if not (folder.newest_run() or folder.queued.exists()):
            return ()
        view = self._queries.read(job_id)[2]
        if not (view.state.is_live or view.state.is_queued):
            return ()
        if view.config.allocation is not None:
            return ()
        return tuple(node for node in view.nodes if node != THIS_COMPUTER)

    def read_reaped(self, job_id: str) -> tuple[OpenJob, JobFile, JobView]:
        """Read a job about to be started, after reaping its last run."""
        with suppress(Unreachable):
            self.reap(job_id)
        return self._queries.read(job_id)
