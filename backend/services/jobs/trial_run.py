"""Train one batch on the real ranks before a long run, to find errors that checks cannot find.

A trial is a run with the job's own settings and on its own nodes, in a folder ``jobs/.canary-…``
that no list shows and that is removed afterwards. The trial makes one step, writes a checkpoint,
verifies the checkpoint and reads it back.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import PurePosixPath

from backend.base.errors import BackendError, Cancelled
from backend.base.log import suppress
from backend.datastore.access.root_access import OpenJob, OpenRoot
from backend.datastore.jobs import files as job_files
from backend.datastore.jobs.files import JobFile, read_job
from backend.datastore.jobs.reaper import reap
from backend.datastore.jobs.run_status import RunState, RunStateReader
from backend.node.system import wording
from backend.records.jobs.config import CheckpointPolicy, JobConfig
from backend.records.jobs.placement import THIS_COMPUTER, Placement
from backend.records.jobs.state import JobState
from backend.records.jobs.status import RankError
from backend.records.nodes.preflight import TrialResult
from backend.services.jobs.run_starter import RunStarter
from backend.services.nodes.registry import NodeRegistry

PREFIX = ".canary-"
_LIMIT_S = 300.0
"""A rank that hangs is ended by its guard first; this limit is for a lost supervisor."""
_POLL_S = 0.2
_STOP_LIMIT_S = 60.0
_STEPS = 1
_RUN = 1


class TrialRunService:
    """Run trials. Every call blocks and may run on any thread."""

    def __init__(
        self,
        root: OpenRoot,
        cluster: NodeRegistry,
        starter: RunStarter,
    ) -> None:
        self._root = root
        self._cluster = cluster
        self._starter = starter

    def run(
        self,
        job_id: str,
        on_state: Callable[[JobState], None] = lambda state: None,
        cancelled: Callable[[], bool] = lambda: False,
        placement: Sequence[Placement] = (),
    ) -> TrialResult:
        """Train one batch of a job on its nodes; the job itself does not change.

        With a ``placement`` the batch is trained there.

        Raises:
            BackendError: The trial could not be started; none of its files remain.
            Cancelled: ``cancelled`` returned True, and the ranks have ended.
        """
        started_s = time.monotonic()
        file = self._read_job(job_id)
        if placement:
            file = replace(file, config=replace(file.config, placement=tuple(placement)))
        self._remove_leftovers(file.config)
        folder = self._root.job(f"{PREFIX}{secrets.token_hex(6)}")
        try:
            self._root.files.make_folder(folder.path)
            job_files.make_parts(folder)
            trial = replace(file, id=folder.job_id, config=_one_step_config(file.config))
            self._starter.start(folder, trial, _RUN, steps_limit=_STEPS)
            run_state = self._wait(folder, on_state, cancelled)
        except OSError as error:
            raise BackendError(
                f"The trial could not be written to {self._root.display_path(folder.path)}: "
                f"{error.strerror}.",
                "Free some space on that disk, or check your write permission.",
            ) from error
        finally:
            self._remove(folder, file.config)
        return _result(run_state, file.config, time.monotonic() - started_s)

    def _read_job(self, job_id: str) -> JobFile:
        folder = self._root.job(job_id)
        # Reading a removed job raises the error.
        with suppress(FileNotFoundError):
            self._root.files.refresh_job(folder)
        return read_job(folder)

    def _wait(
        self,
        folder: OpenJob,
        on_state: Callable[[JobState], None],
        cancelled: Callable[[], bool],
    ) -> RunState:
        """Wait until the trial has ended."""
        reader = RunStateReader(folder)
        deadline_s = time.monotonic() + _LIMIT_S
        reported_state = None
        is_cancelled = is_stopping = False
        while True:
            run_state = reader.read()
            if run_state.unrecorded_end is not None:
                reap(folder)
            if run_state.state is not reported_state:
                reported_state = run_state.state
                on_state(reported_state)
            if not run_state.state.is_live or (is_stopping and time.monotonic() > deadline_s):
                if is_cancelled:
                    raise Cancelled
                return run_state
            is_cancelled = is_cancelled or cancelled()
            if not is_stopping and (is_cancelled or time.monotonic() > deadline_s):
                is_stopping = True
                job_files.request_stop(folder, _RUN)
                deadline_s = time.monotonic() + _STOP_LIMIT_S
            time.sleep(_POLL_S)

    def _remove_leftovers(self, config: JobConfig) -> None:
        """Remove the files of a trial during which the desktop was killed."""
        access = self._root.files
        with suppress(OSError):
            for name in access.names(self._root.jobs):
                folder = self._root.job(name)
                if name.startswith(PREFIX) and access.exists(folder.attempt(_RUN).exit):
                    self._remove(folder, config)

    def _remove(self, folder: OpenJob, config: JobConfig) -> None:
        """Remove a trial's folder, on the head node with the rights of the node's user."""
        head, access = config.placement[0].node, self._root.files
        access.remove_tree(folder.path)
        if head == THIS_COMPUTER:
            return
        with suppress(BackendError):
            entry = self._cluster.entry(head)
            if not access.exists(folder.path) and not entry.is_staged:
                return
            remote_folder = PurePosixPath(entry.data_root, "jobs", folder.job_id)
            shell = self._cluster.open_shell(head)
            try:
                shell.run(["rm", "-rf", "--", str(remote_folder)])
            finally:
                shell.close()
        access.remove_tree(folder.path)


def _one_step_config(config: JobConfig) -> JobConfig:
    """Return the settings of the same training for a single step."""
    return replace(
        config, epochs=1, early_stop=None, checkpoint=CheckpointPolicy(keep_latest=1, keep_best=0)
    )


def _result(run_state: RunState, config: JobConfig, took_s: float) -> TrialResult:
    status = run_state.status
    ranks = "1 rank" if config.world_size == 1 else f"{config.world_size} ranks"
    if run_state.state is JobState.FINISHED:
        return TrialResult(
            True,
            f"{ranks} trained one batch together, and the checkpoint was written and read back.",
            took_s,
        )
    if status.error is not None:
        return TrialResult(False, _error_message(status.error), took_s, status.error.traceback)
    timeout_message = f"The trial had not ended after {_LIMIT_S / 60:.0f} min and was stopped."
    is_timeout = run_state.state.is_live or run_state.state is JobState.INTERRUPTED
    message = (
        timeout_message
        if is_timeout
        else status.message or run_state.uncertainty or "The trial ended without an error."
    )
    return TrialResult(False, message, took_s)


def _error_message(error: RankError) -> str:
    if error.rank is None:
        return error.message
    return f"Rank {error.rank} on {wording.node_label(error.node)}: {error.message}"
