"""Jobs for a rescan: every folder that can be read, and a sentence for each that cannot."""

from __future__ import annotations

import os

from backend.base.errors import BackendError
from backend.datastore.access.root_access import OpenRoot
from backend.datastore.jobs.files import read_job, view_of
from backend.records.base.atomic_files import read_json
from backend.records.jobs.state import JobState
from backend.records.jobs.status import RunExit, RunStatus
from backend.records.jobs.view import JobView


class JobFolderReader:
    """Reads jobs only from their folders."""

    def __init__(self, root: OpenRoot) -> None:
        self._root = root

    def ids(self) -> list[str]:
        """Return the names of the folders of jobs, oldest first.

        Raises:
            FileNotFoundError: No job was made yet, or the data root is not mounted.
        """
        return sorted(name for name in os.listdir(self._root.jobs) if not name.startswith("."))

    def read(self, job_id: str) -> JobView:
        """Read a job's folder, without checking processes: a live job may have ended.

        Raises:
            BackendError: It is not a job's folder, or cannot be read.
        """
        folder = self._root.job(job_id)
        file = read_job(folder)
        status = RunStatus(JobState.CREATED)
        try:
            status = RunStatus.from_dict(read_json(folder.status))
        except FileNotFoundError:
            pass
        except (OSError, ValueError) as error:
            raise BackendError(f"The status of the job {job_id} cannot be read: {error}.") from (
                error
            )
        try:
            run_exit = RunExit.from_dict(read_json(folder.attempt(status.run).exit))
            status = status.with_exit(run_exit)
        except (OSError, ValueError):
            # The run is active, or its end was not recorded; the status is all there is.
            pass
        return view_of(file, status)
