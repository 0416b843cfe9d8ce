"""The interface of a launcher: what brings a claimed run to the machines that train it.

A launcher is made for one job. The run is claimed and written (`backend.node.run.run_start`) before
`submit`; after it, everything continues without this desktop. A stop with a checkpoint needs no
launcher: it is the stop request in the folder of the job.
"""

from __future__ import annotations

from typing import Protocol

from backend.records.base.layout import JobFolder
from backend.records.jobs.launch import Launch
from backend.records.slurm.job import Condition


class RunLauncher(Protocol):
    """Each call may raise `BackendError`, and the state is then not known."""

    def submit(self, folder: JobFolder, launch: Launch) -> None:
        """Start the run, or put it into the queue of a scheduler. A second call changes nothing."""

    def state(self, folder: JobFolder) -> Condition:
        """Return the state of the newest run, as the scheduler and the run's record have it."""

    def signal(self, folder: JobFolder) -> None:
        """Request a stop with a checkpoint where the folder of the job cannot be written."""

    def end(self, folder: JobFolder) -> None:
        """End the newest run at once, without a checkpoint."""
