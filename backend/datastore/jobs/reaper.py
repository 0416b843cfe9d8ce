"""Reap runs of this computer that ended without a record.

Reading a job's state changes nothing. Reaping kills what is left of such a run here, writes its
``exit.json``, and notifies those who want to know of its end. It is called by the poller of the
window, by the job commands of the command line before they read, and before a start.
"""

from __future__ import annotations

import logging
from dataclasses import replace

from backend.base.errors import BackendError
from backend.datastore.access.root_access import OpenJob, now_s
from backend.datastore.jobs.run_status import RunObservation, RunState, RunStateReader, derive_state
from backend.node.run.finalize import Supervision, close_run
from backend.records.jobs.schedulers import has_number
from backend.records.jobs.status import UnrecordedEnd

_log = logging.getLogger(__name__)


def inspect(folder: OpenJob) -> tuple[RunObservation, RunState]:
    """Return what is known of the newest run of a job, and its state; nothing is reaped.

    Raises:
        BackendError: The job cannot be read.
    """
    try:
        folder.files.refresh_job(folder)
        run_facts = RunStateReader(folder).collect()
    except OSError as error:
        raise BackendError(
            f"The job's folder {folder.path} cannot be read: {error.strerror}.",
            "Check that the data root is mounted.",
        ) from error
    is_claimed = run_facts.run and not has_number(folder.attempt(run_facts.run))
    if is_claimed and run_facts.exit is None and run_facts.supervision is Supervision.NOT_SEEN:
        run_facts = replace(run_facts, claimed_s=_claim_age_s(folder, run_facts.run))
    return run_facts, derive_state(run_facts)


def reap(folder: OpenJob) -> UnrecordedEnd | None:
    """Reap the newest run of a job; None where it ended with a record, or has not ended.

    Raises:
        BackendError: The job cannot be read, or the end cannot be written.
    """
    run_facts, state = inspect(folder)
    reason = state.unrecorded_end
    if reason is None:
        return None
    _log.info("Reaping run %d of job %s: %s", run_facts.run, folder.job_id, reason.value)
    is_of_machine = reason is not UnrecordedEnd.NEVER_STARTED
    _, problem = close_run(
        folder, run_facts.run, reason.message, run_facts.status, is_of_machine=is_of_machine
    )
    if problem:
        raise BackendError(problem, f"Check your write permission for {folder.path}.")
    folder.files.notify_end(folder, run_facts.run)
    return reason


def _claim_age_s(folder: OpenJob, run: int) -> float:
    """Return the age of a run's claim by the file server's clock, 0.0 if unknown."""
    try:
        # The mark is not in the run's folder, whose time it would change.
        return now_s(folder.files, folder.attempts) - folder.files.changed_s(
            folder.attempt(run).path
        )
    except (OSError, BackendError):
        _log.debug("The age of run %d of %s is unknown", run, folder.path, exc_info=True)
        return 0.0
