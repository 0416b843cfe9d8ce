"""Start, stop, resume and kill jobs; a preflight check comes before each start.

An action that must happen only once uses a call that only one desktop can win
(`backend.datastore.jobs.files`). An action that is already done (Stop pressed twice, Start pressed
on two desktops) returns the present state; it is not an error, unless it was to change the job.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from backend.base.errors import BackendError, as_backend_error
from backend.base.log import suppress, swallowed
from backend.base.progress import Progress
from backend.datastore.access.root_access import OpenJob
from backend.datastore.jobs import files as job_files
from backend.datastore.jobs.checkpoint_files import list_checkpoints, require_checkpoint, verify
from backend.datastore.jobs.files import JobFile
from backend.datastore.jobs.owners import require_right
from backend.node.system import wording
from backend.records.base.program_name import COMMAND
from backend.records.jobs.checkpoint import Checkpoint, checkpoint_to_resume, finite_checkpoints
from backend.records.jobs.config import RANDOM_WEIGHTS
from backend.records.jobs.flat_settings import changes_text
from backend.records.jobs.job_file import with_changes
from backend.records.jobs.placement import Placement
from backend.records.jobs.schedulers import scheduler_of
from backend.records.jobs.settings import CHANGEABLE, label
from backend.records.jobs.state import JobState
from backend.records.jobs.view import JobView
from backend.records.sweeps.spec import sweep_name
from backend.services.jobs.queries import JobQueries
from backend.services.jobs.run_reaper import RunReaper
from backend.services.jobs.run_starter import PreparedRun, RunStarter
from backend.services.jobs.validation import DataSizeCounter, JobValidator, batch_size_message
from backend.services.nodes.launchers import LauncherService
from backend.services.preflight.service import PreflightService
from backend.services.tools.training_python import AWAITS_HOROVOD, next_run_config
from backend.ssh.interface import Unreachable


class JobLifecycle:
    """Starts and ends of runs; a preflight check comes before each start.

    Every call blocks and may run on any thread.
    """

    def __init__(
        self,
        queries: JobQueries,
        reaper: RunReaper,
        validator: JobValidator,
        starter: RunStarter,
        preflight: PreflightService,
        sizes: DataSizeCounter,
        launchers: LauncherService,
    ) -> None:
        self._queries = queries
        self._launchers = launchers
        self._reaper = reaper
        self._validator = validator
        self._starter = starter
        self._preflight = preflight
        self._sizes = sizes

    def start(
        self,
        job_id: str,
        start_over: bool = False,
        placement: Sequence[Placement] = (),
        progress: Progress | None = None,
    ) -> JobView:
        """Begin the job at its first step; a live job stays unchanged, and is not started over.

        With ``start_over`` the files of earlier runs are moved to ``runs/<n>``; otherwise they
        prevent the start. With a ``placement`` the job runs there from now on.

        Raises:
            PreflightFailed: The nodes cannot run the job; nothing was started.
            Cancelled: By ``progress``, during the check of the nodes.
            BackendError: The job cannot be started for another reason.
        """
        folder, file, view = self._reaper.read_reaped(job_id)
        if view.state.is_live:
            if start_over and not placement:
                raise BackendError(
                    f"The job {view.id} runs already and was not started over.",
                    "Stop it first, then start it over.",
                )
            return _unchanged_view(view, bool(placement))
        if (search := job_files.pending_search(folder, view)) is not None:
            raise BackendError(
                f"{view.name} is a trial: the search {sweep_name(search.tag)} gives it its values "
                "when its turn in the queue comes.",
                f"Queue it: {COMMAND} job queue {view.id}",
            )
        self.bring_home(folder, progress)
        weights = self._initial_weights(file, view, start_over)
        file = _with_changes(file, placement)
        self._preflight.require(file.config, file.id, progress)
        self._validator.require_placement(file.config)
        return self.run(folder, file, view.run + 1, bool(placement), progress, start_from=weights)

    def resume(
        self,
        job_id: str,
        checkpoint: str = "",
        placement: Sequence[Placement] = (),
        progress: Progress | None = None,
        *,
        changes: Mapping[str, Any] = {},
    ) -> JobView:
        """Continue from a checkpoint, by default `checkpoint_to_resume`; a live job is unchanged.

        A ``placement``, and ``changes`` of `CHANGEABLE` settings, hold for this and later runs.

        Raises:
            See `start`.
        """
        folder, file, view = self._reaper.read_reaped(job_id)
        is_changed = bool(placement or changes)
        if view.state.is_live:
            return _unchanged_view(view, is_changed)
        self.bring_home(folder, progress)
        record = self._checkpoint_to_resume(folder, file, view, checkpoint)
        is_earlier = not checkpoint and not record.is_latest
        file = _with_changes(file, placement, changes)
        if message := batch_size_message(file.config, self._sizes.cached_size(file.pins)):
            raise BackendError(message, "Choose other values; nothing was started.")
        self._preflight.require(file.config, file.id, progress)
        self._validator.require_placement(file.config)
        return self.run(
            folder,
            file,
            view.run + 1,
            is_changed,
            progress,
            resume_from=record.path,
            checkpoint_label="the last good checkpoint, " if is_earlier else "",
        )

    def prepare(
        self,
        job_id: str,
        start_over: bool = False,
        placement: Sequence[Placement] = (),
        progress: Progress | None = None,
    ) -> tuple[OpenJob, JobView, PreparedRun]:
        """Prepare the next run of a job, which the queue starts later.

        A job that has run before continues from `checkpoint_to_resume`, unless it starts over.
        """
        folder, file, view = self._reaper.read_reaped(job_id)
        file = _with_changes(file, placement)
        if file.config.allocation is not None:
            raise BackendError(
                f"{file.config.allocation.cluster} has a queue of its own.",
                f"Start the job: {scheduler_of(file.config.allocation).name} begins it when its "
                "turn comes.",
            )
        resume_from = weights = ""
        if view.run and not start_over:
            resume_from = self._checkpoint_to_resume(folder, file, view, "").path
        else:
            weights = self._initial_weights(file, view, start_over)
        # A queue waits for busy GPUs and nodes that are off; only impossible jobs are refused.
        prepared_run = self._starter.prepare(
            file, view.run + 1, resume_from=resume_from, start_from=weights, progress=progress
        )
        return folder, view, prepared_run

    def stop(self, job_id: str, reason: str = "") -> JobView:
        """Request the run to stop after a checkpoint. Without a live run it changes nothing.

        ``reason`` is for the owner of the job, if that is another user.
        """
        folder, file, view = self._queries.read(job_id)
        if not view.state.is_live:
            return view
        require_right(folder, file.user)
        with as_backend_error("Could not request the stop"):
            is_new = job_files.request_stop(folder, view.run)
        if is_new:
            job_files.add_action(folder, "Stopped", reason)
        return self._queries.show(job_id)

    def kill(self, job_id: str, reason: str = "") -> JobView:
        """End a run that ignores a stop request; everything after its newest checkpoint is lost.

        Raises:
            BackendError: No stop was requested before, or the scheduler does not answer.
        """
        folder, file, view = self._queries.read(job_id)
        if not view.state.is_live:
            return view
        require_right(folder, file.user)
        if view.state is not JobState.STOPPING:
            raise BackendError(
                f"The job {job_id} is {view.state_label.lower()}; killing it would lose everything "
                "after its newest checkpoint.",
                "Stop it first: that saves a checkpoint.",
            )
        with as_backend_error("Could not request the end of the run"):
            job_files.request_kill(folder, view.run)
        job_files.add_action(folder, "Killed", reason)
        self._launchers.launcher(view.config.allocation).end(folder)
        return self._queries.show(job_id)

    def draw_number(self, job_id: str, pattern: str) -> JobView:
        """Draw a number of a script's log; rank 0 of a live run then begins to record the number.

        Rank 0 reads the log of its run from the beginning. A history never repeats an earlier
        step, so lines before the last recorded step are left out.
        """
        folder, file, view = self._queries.read(job_id)
        patterns = list(dict.fromkeys((*file.config.log_numbers, pattern)))
        file = _with_changes(file, (), {"log_numbers": patterns})
        with as_backend_error(f"The settings of the job {job_id} could not be written"):
            job_files.write_placement(folder, file.config)
        job_files.add_action(folder, f"Number in the log: {pattern}")
        return replace(view, config=file.config)

    def run(
        self,
        folder: OpenJob,
        file: JobFile,
        run: int,
        is_changed: bool,
        progress: Progress | None = None,
        *,
        resume_from: str = "",
        start_from: str = "",
        checkpoint_label: str = "",
    ) -> JobView:
        """Start the job with the settings of ``file``, and store them if ``is_changed``.

        The nodes were checked before.
        """
        changes = ""
        with as_backend_error(f"The job {file.id} could not be started"):
            # If another desktop was first, the only run is that of the other desktop.
            has_started = self._starter.start(
                folder,
                file,
                run,
                resume_from=resume_from,
                start_from=start_from,
                progress=progress,
            )
            if has_started and is_changed:
                previous_config = job_files.read_job(folder).config
                changes = changes_text(previous_config.to_dict(), file.config.to_dict())
                job_files.write_placement(folder, file.config)
        if not has_started:
            return _unchanged_view(self._queries.show(file.id), is_changed)
        entry = "Started over" if run > 1 else "Started"
        if resume_from:
            entry = f"Resumed from {checkpoint_label}{Path(resume_from).stem}"
        if is_changed:
            entry += f" with {changes}" if changes else ""
            allocation = file.config.allocation
            nodes = [p.node for p in file.config.placement]
            names = nodes if allocation is None else [allocation.cluster]
            entry += " on " + ", ".join(map(wording.node_label, names))
        if next_run_config(file.config) != file.config:
            entry += f". {AWAITS_HOROVOD}"
        job_files.add_action(folder, entry)
        return self._queries.show(file.id)

    def bring_home(self, folder: OpenJob, progress: Progress | None = None) -> None:
        """Fetch the files of the last run from a node; do nothing if the node does not answer."""
        with suppress(Unreachable):
            folder.files.bring_home(folder, progress or Progress())

    def _checkpoint_to_resume(
        self, folder: OpenJob, file: JobFile, view: JobView, name: str
    ) -> Checkpoint:
        """Return the verified checkpoint of a run, by default `checkpoint_to_resume`.

        The error names an older valid checkpoint, if any.
        """
        if not view.resumes:
            raise BackendError(
                f"The job {view.id} has no arguments with which its script resumes.",
                'Clone it with resume_arguments, such as ["--resume", "{checkpoint}"].',
            )
        if view.state is JobState.FINISHED and not name:
            end_message = f"done all its {file.config.epochs} epochs."
            if view.status.early_finish:
                end_message = f"finished. {view.status.early_finish}"
            raise BackendError(
                f"The job {view.id} has {end_message}"
                if file.config.epochs
                else f"The script of job {view.id} has ended.",
                "Clone it with more epochs or other settings and start_from, or start it over.",
            )
        checkpoints = list_checkpoints(folder, file.config.checkpoint)
        record = checkpoint_to_resume(
            checkpoints, view.error.sound_step if view.error is not None else None
        )
        if record is None:
            raise BackendError(
                f"The job {file.id} has no checkpoint to continue from.", "Start it over."
            )
        if name:
            record = require_checkpoint(checkpoints, name, file.id)
        try:
            if record.not_finite:
                raise BackendError(
                    f"The checkpoint {record.name} holds NaN or infinite numbers, in "
                    f"{record.not_finite}."
                )
            verify(folder.files, record)
        except Unreachable:
            raise
        except BackendError as error:
            older_checkpoint = _newest_valid(
                folder, finite_checkpoints(checkpoints[: checkpoints.index(record)])
            )
            raise BackendError(
                error.message,
                f"An older checkpoint, {older_checkpoint.name}, is valid: "
                f"{COMMAND} job resume {file.id} --checkpoint {older_checkpoint.name}"
                if older_checkpoint is not None
                else "No valid checkpoint is left; start the job over.",
            ) from error
        return record

    def _initial_weights(self, file: JobFile, view: JobView, start_over: bool) -> str:
        """Return the weights that a run from the first step starts from, "" for none."""
        if view.run and not start_over:
            raise BackendError(
                f"The job {view.id} has run before.",
                f"Resume it: {COMMAND} job resume {view.id}. Or start it over "
                f"({COMMAND} job start {view.id} --start-over): what earlier runs made is kept in "
                "its runs folder.",
            )
        return self.weights(file.config.start_from)

    def weights(self, start_from: str) -> str:
        """Return the path of weights to start from, verified where their hash is known."""
        if start_from in ("", RANDOM_WEIGHTS):
            return ""
        start_weights = self._validator.weights(start_from)
        if start_weights.sha256:
            with as_backend_error("The weights to start from could not be verified"):
                sha256 = start_weights.files.sha256(start_weights.path, lambda _count: None)
            if sha256 != start_weights.sha256:
                raise BackendError(
                    f"The weights {start_weights.lasting_name} were changed after they were "
                    "imported.",
                    "Put the file back as it was, or start from another.",
                )
        if start_weights.record is not None:
            verify(start_weights.files, start_weights.record)
        return str(start_weights.path)


def _newest_valid(folder: OpenJob, checkpoints: Sequence[Checkpoint]) -> Checkpoint | None:
    for record in reversed(checkpoints):
        try:
            verify(folder.files, record)
        except BackendError as error:
            swallowed(error)
            continue
        return record
    return None


def _unchanged_view(view: JobView, is_changed: bool) -> JobView:
    """Return the job that a run of another desktop, or of the queue, has begun.

    Raises:
        BackendError: The caller requested other nodes or other settings.
    """
    if is_changed:
        raise BackendError(
            f"The job {view.id} runs already: its nodes and settings were not changed.",
            "Stop it, then resume it with them.",
        )
    return view


def _with_changes(
    file: JobFile, placement: Sequence[Placement], changes: Mapping[str, Any] = {}
) -> JobFile:
    """Return the job with other nodes and settings.

    Raises:
        BackendError: The changes are invalid, or conflict with the other settings.
    """
    if placement:
        changes = {**changes, "placement": [p.to_dict() for p in placement]}
    if not changes:
        return file
    fixed_labels = [label(path) for path in changes if path not in CHANGEABLE]
    if fixed_labels:
        raise BackendError(
            f"{fixed_labels[0]} cannot change when a job is resumed.",
            f"Clone the job. A resume may change: {', '.join(CHANGEABLE)}.",
        )
    parsed_job = with_changes(file.config, changes)
    if parsed_job.config is None:
        raise BackendError(
            " ".join(error.message_for(label(error.path)) for error in parsed_job.errors),
            "Choose other values; nothing was started.",
        )
    return replace(file, config=parsed_job.config)
