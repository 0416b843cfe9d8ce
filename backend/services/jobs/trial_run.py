"""Train one batch on the real ranks before a long run, to find errors that checks cannot find.

A trial is a run with the job's own settings and on its own nodes, in a folder ``jobs/.canary-…``
that no list shows and that is removed afterwards. The trial makes one step, writes a checkpoint,
verifies the checkpoint and reads it back. A measurement trains for some seconds instead.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import PurePosixPath

from backend.base.errors import BackendError, Cancelled
from backend.base.log import suppress
from backend.datastore.access.root_access import OpenJob, OpenRoot
from backend.datastore.jobs import files as job_files
from backend.datastore.jobs.checkpoint_files import list_checkpoints
from backend.datastore.jobs.files import JobFile, read_job
from backend.datastore.jobs.reaper import reap
from backend.datastore.jobs.run_status import RunState, RunStateReader
from backend.node.system import wording
from backend.records.jobs.config import CheckpointPolicy, JobConfig, OnFailure
from backend.records.jobs.launch import TRIAL_PREFIX
from backend.records.jobs.placement import THIS_COMPUTER, Placement
from backend.records.jobs.plan import Measurement
from backend.records.jobs.schedulers import scheduler_of_run
from backend.records.jobs.state import JobState
from backend.records.jobs.status import RankError, RunStatus
from backend.records.library.item import Pin
from backend.records.nodes.preflight import TrialResult
from backend.services.jobs.run_starter import RunStarter
from backend.services.nodes.registry import NodeRegistry

_LIMIT_S = 300.0
"""A rank that hangs is ended by its guard first; this limit is for a lost supervisor."""
_POLL_S = 0.2
_STOP_LIMIT_S = 60.0
_STEPS = 1
_RUN = 1
_MEASURE_S, _MEASURE_LIMIT_S = 8.0, 25.0
"""Seconds of training that a measurement takes, and that it takes for steps that last longer."""
_NEVER_MINUTES = 1e6


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
        is_cancelled: Callable[[], bool] = lambda: False,
        placement: Sequence[Placement] = (),
    ) -> TrialResult:
        """Train one batch of a job on its nodes; the job itself does not change.

        With a ``placement`` the batch is trained there.

        Raises:
            BackendError: The trial could not be started; none of its files remain.
            Cancelled: ``is_cancelled`` returned True, and the ranks have ended.
        """
        started_s = time.monotonic()
        file = self._read_job(job_id)
        if placement:
            file = replace(file, config=replace(file.config, placement=tuple(placement)))
        policy = CheckpointPolicy(keep_latest=1, keep_best=0)
        config = replace(file.config, epochs=1, early_stop=None, checkpoint=policy)
        trial = replace(file, config=config)
        with self._open_folder(trial.config) as folder:
            self._starter.start(folder, replace(trial, id=folder.job_id), _RUN, steps_limit=_STEPS)
            run_state = self._wait(folder, on_state, is_cancelled)
        return _result(run_state, file.config, time.monotonic() - started_s)

    def measure(
        self,
        config: JobConfig,
        pins: Mapping[str, Pin],
        on_state: Callable[[JobState], None] = lambda state: None,
        is_cancelled: Callable[[], bool] = lambda: False,
    ) -> Measurement:
        """Train a job that does not exist for some seconds, as its run would.

        Raises:
            BackendError: It could not be started, or it failed; none of its files remain.
            Cancelled: ``is_cancelled`` returned True, and the ranks have ended.
        """
        started_s = time.monotonic()
        first_step_s: float | None = None
        last_status: RunStatus | None = None

        def is_enough(run_state: RunState) -> bool:
            nonlocal first_step_s, last_status
            status, now_s = run_state.status, time.monotonic()
            if status.step and first_step_s is None:
                first_step_s = now_s
            if first_step_s is None:
                return False
            # The final status counts the time of the last checkpoint as a step's.
            last_status = status if run_state.state.is_live else last_status or status
            is_known = status.pace_s is not None
            return now_s - first_step_s > (_MEASURE_S if is_known else _MEASURE_LIMIT_S)

        trial_config = _endless_config(config)
        with self._open_folder(trial_config) as folder:
            file = JobFile(folder.job_id, trial_config, pins, "", "", "", "", ())
            self._starter.start(folder, file, _RUN)
            run_state = self._wait(folder, on_state, is_cancelled, is_enough)
            sizes = [c.bytes for c in list_checkpoints(folder, trial_config.checkpoint)]
        took_s = time.monotonic() - started_s
        has_ended = run_state.state in (JobState.FINISHED, JobState.INTERRUPTED)
        if not has_ended or last_status is None or first_step_s is None:
            result = _result(run_state, config, took_s)
            raise BackendError(f"The job could not be measured. {result.message}")
        final_status = run_state.status
        save_s = (final_status.pace_s or 0.0) - (last_status.pace_s or 0.0)
        return Measurement(
            replace(
                last_status,
                peak_memory_bytes=final_status.peak_memory_bytes,
                other_cpu=final_status.other_cpu,
            ),
            first_step_s - started_s,
            took_s,
            max(0.0, save_s) * final_status.step if last_status.pace_s else 0.0,
            max(sizes, default=None),
        )

    @contextmanager
    def _open_folder(self, config: JobConfig) -> Iterator[OpenJob]:
        """Make the folder of a trial, and remove it at the end."""
        self._remove_leftovers(config)
        folder = self._root.job(f"{TRIAL_PREFIX}{secrets.token_hex(6)}")
        try:
            self._root.files.make_folder(self._root.jobs, exist_ok=True)
            self._root.files.make_folder(folder.path)
            job_files.make_parts(folder)
            yield folder
        except OSError as error:
            raise BackendError(
                f"The trial could not be written to {self._root.display_path(folder.path)}: "
                f"{error.strerror}.",
                "Free some space on that disk, or check your write permission.",
            ) from error
        finally:
            if config.allocation is not None:
                # A job that waits in the queue would begin without its folder.
                with suppress(BackendError):
                    self._starter.end(folder, config.allocation)
            self._remove(folder, config)

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
        is_cancelled: Callable[[], bool],
        is_enough: Callable[[RunState], bool] = lambda run_state: False,
    ) -> RunState:
        """Wait until the trial has ended; stop it once ``is_enough`` returns True."""
        reader = RunStateReader(folder)
        deadline_s = time.monotonic() + _LIMIT_S
        reported_state = None
        was_cancelled = is_stopping = False
        is_handed_over = scheduler_of_run(folder.attempt(_RUN)) is not None
        while True:
            run_state = reader.read()
            if run_state.unrecorded_end is not None:
                reap(folder)
            if run_state.state is not reported_state:
                reported_state = run_state.state
                on_state(reported_state)
            if not run_state.state.is_live or (is_stopping and time.monotonic() > deadline_s):
                if was_cancelled:
                    raise Cancelled
                return run_state
            was_cancelled = was_cancelled or is_cancelled()
            is_over = is_enough(run_state) or time.monotonic() > deadline_s
            if not is_stopping and (was_cancelled or is_over):
                is_stopping = True
                job_files.request_stop(folder, _RUN)
                is_queued = is_handed_over and not folder.attempt(_RUN).supervisor.exists()
                deadline_s = time.monotonic() + (0.0 if is_queued else _STOP_LIMIT_S)
            time.sleep(_POLL_S)

    def _remove_leftovers(self, config: JobConfig) -> None:
        """Remove the files of a trial during which the desktop was killed."""
        access = self._root.files
        with suppress(OSError):
            for name in access.names(self._root.jobs):
                folder = self._root.job(name)
                if name.startswith(TRIAL_PREFIX) and access.exists(folder.attempt(_RUN).exit):
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
            with closing(self._cluster.open_shell(head)) as shell:
                shell.run(["rm", "-rf", "--", str(remote_folder)])
        access.remove_tree(folder.path)


def _endless_config(config: JobConfig) -> JobConfig:
    """Return the settings of the same training without checkpoints, retries and early stop."""
    policy = CheckpointPolicy(
        every_epochs=None,
        every_minutes=_NEVER_MINUTES,
        best_metric=config.checkpoint.best_metric,
        best_mode=config.checkpoint.best_mode,
    )
    return replace(config, early_stop=None, checkpoint=policy, on_failure=OnFailure())


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
