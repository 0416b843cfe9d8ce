"""Read jobs: which exist, their state and progress, their history, logs and checkpoints.

The folder of a job is the source of truth and the catalogue is an index of it: each call reads the
folder first and updates the catalogue last. No call signals a process or writes a file of a run.
"""

from __future__ import annotations

import codecs
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from backend.base.errors import BackendError, as_backend_error
from backend.base.log import suppress, swallowed
from backend.base.progress import Progress
from backend.datastore.access.root_access import DataRootAccess, OpenJob, OpenRoot
from backend.datastore.jobs.checkpoint_files import best_value, list_checkpoints
from backend.datastore.jobs.files import JobFile, read_job, view_of
from backend.datastore.jobs.run_status import RunState, RunStateReader, with_ends, with_progress
from backend.datastore.nodes.files import StatusWatch
from backend.datastore.queue import files as queue_files
from backend.records.base.atomic_files import read_json
from backend.records.base.program_name import COMMAND
from backend.records.base.validation import sanitize
from backend.records.jobs.checkpoint import Checkpoint
from backend.records.jobs.history import HistoryUpdate
from backend.records.jobs.launch import launch_of
from backend.records.jobs.sample_history import SampleHistory, read_samples
from backend.records.jobs.state import JobState
from backend.records.jobs.status import Condition
from backend.records.jobs.summary import JobSummary
from backend.records.jobs.view import JobRun, JobView, LogChunk, RunUpdate
from backend.services.jobs import run_history
from backend.ssh.interface import Unreachable

if TYPE_CHECKING:
    from backend.catalogue.store import Catalogue
    from backend.datastore.jobs.history_cache import HistoryReader
    from backend.datastore.jobs.history_reader import HistoryCursor

POLL_INTERVAL_S = 0.2
CHUNK_BYTES = 256 * 1024
"""Most bytes that are read from a log at a time: a log may have 200 MB."""
_EMPTY_HISTORY = HistoryUpdate()
_NAMED_JOBS = 50
"""Jobs that a search for a name returns."""


@dataclass(frozen=True)
class _Cursor:
    """The position of a poll: the history's offset, the state reader, and the view."""

    history: HistoryCursor | None
    reader: RunStateReader
    view: JobView | None = None


class JobQueries:
    """The queries about jobs. Each call blocks and may run on any thread."""

    def __init__(
        self,
        root: OpenRoot,
        index: Catalogue,
        cache: Path,
        submitted_condition: Callable[[OpenJob, int], Condition | None] = lambda folder, run: None,
    ) -> None:
        """Store the parts; for ``submitted_condition`` see `LauncherService.condition`."""
        self._root = root
        self._submitted_condition = submitted_condition
        self._index = index
        self._cache = cache
        self._node_watch = StatusWatch(root)
        self._history_reader: HistoryReader | None = None
        self._catalogued_states: dict[str, tuple[int, JobState]] = {}

    def poll(self, job_id: str, cursor: object = None) -> RunUpdate:
        """Return the current view of a job, and the new points of its history since ``cursor``."""
        try:
            folder = self.folder(job_id)
        except BackendError as error:
            if isinstance(cursor, _Cursor) and cursor.view is not None and self._is_root_missing():
                return RunUpdate(
                    _unanswered_view(cursor.view, cursor.reader, error), _EMPTY_HISTORY, cursor
                )
            raise
        previous_cursor = cursor
        if not isinstance(previous_cursor, _Cursor):
            previous_cursor = _Cursor(None, self._state_reader(folder))
        run_state = previous_cursor.reader.read()
        file = read_job(folder)
        with as_backend_error(f"The history of the job {job_id} could not be read"):
            # The reader has reported already that the data root does not answer.
            with suppress(Unreachable):
                self._root.files.refresh_history(folder)
            history, next_cursor = self._read_history(folder.history, previous_cursor.history)
        view = self._update_catalogue(self._view(folder, file, run_state))
        history = with_ends(self._with_epochs(history, view), folder)
        return RunUpdate(view, history, _Cursor(next_cursor, previous_cursor.reader, view))

    def wait(
        self,
        job_id: str,
        on_update: Callable[[RunUpdate], None] = lambda update: None,
        is_finished: Callable[[JobView], bool] = lambda view: (
            not (view.state.is_live or view.state.is_queued)
        ),
    ) -> JobView:
        """Poll until ``is_finished``; interrupting this call does not change the run."""
        cursor: object = None
        while True:
            update = self.poll(job_id, cursor)
            cursor = update.cursor
            on_update(update)
            if is_finished(update.view):
                return self._with_results(update.view)
            time.sleep(POLL_INTERVAL_S)

    def _with_results(self, view: JobView) -> JobView:
        """Fetch the results of a job that is over; if that fails, the view has the reason."""
        try:
            if view.state.is_over:
                self._root.files.bring_home(self.folder(view.id), Progress())
        except BackendError as error:
            return replace(view, contact_warning=error.message)
        return view

    def list(self) -> tuple[JobView, ...]:
        """Return every job, newest first. Jobs that are over come from the catalogue."""
        known_views = {view.id: view for view in self._index.jobs()}
        queued = self.queued_ids()
        views = []
        for job_id in self.ids():
            view = known_views.get(job_id)
            is_unchanged = view is not None and view.state.is_over and job_id not in queued
            if view is None or not is_unchanged or self.has_changed(view):
                # A damaged folder must not hide the other jobs.
                with suppress(BackendError):
                    view = self.show(job_id)
            if view is not None:
                views.append(view)
        return tuple(sorted(views, key=lambda view: (view.created, view.id), reverse=True))

    def show(self, job_id: str) -> JobView:
        return self._update_catalogue(self.read(job_id)[2])

    def history(self, job_id: str, run: int = 0) -> HistoryUpdate:
        """Return every step of the job; with a ``run``, of the start over that it belongs to."""
        folder = self.folder(job_id)
        if not run or run_history.run_folder(folder, run) == folder:
            return self.poll(job_id).history
        return self.earlier_run(job_id, run).history

    def runs(self, job_id: str) -> tuple[JobRun, ...]:
        """Return every run of the job, the newest first."""
        folder = self.fresh_folder(job_id)
        view = self.show(job_id)
        with as_backend_error(f"The runs of the job {job_id} could not be read"):
            return run_history.list_runs(folder, view, self._whole_history)

    def _whole_history(self, path: Path) -> HistoryUpdate:
        return self._read_history(path, None)[0]

    def earlier_run(self, job_id: str, run: int) -> RunUpdate:
        """Return the job after a run before a start over, with all curves.

        Raises:
            BackendError: There was no such run.
        """
        folder = self.fresh_folder(job_id)
        earlier_folder = run_history.run_folder(folder, run)
        file = read_job(folder)
        with as_backend_error(f"Run {run} of the job {job_id} could not be read"):
            self._root.files.refresh_job(earlier_folder)
            self._root.files.refresh_history(earlier_folder)
            history = self._whole_history(earlier_folder.history)
            policy = file.config.checkpoint
            metric = best_value(list_checkpoints(earlier_folder, policy), policy)
        view = view_of(file, run_history.status_or_lost(earlier_folder), metric)
        return RunUpdate(view, self._with_epochs(history, view))

    def checkpoints(self, job_id: str) -> tuple[Checkpoint, ...]:
        folder = self.fresh_folder(job_id)
        checkpoints = list_checkpoints(folder, read_job(folder).config.checkpoint)
        return tuple(replace(c, path=self._root.display_path(Path(c.path))) for c in checkpoints)

    def sample_history(self, job_id: str) -> SampleHistory:
        """Return what the job said about its fixed validation samples."""
        folder = self.folder(job_id)
        with suppress(Unreachable):
            self._root.files.refresh_file(folder.samples)
        return read_samples(folder.samples)

    def log(
        self,
        job_id: str,
        rank: int | None,
        offset: int = 0,
        limit_bytes: int = CHUNK_BYTES,
        run: int = 0,
    ) -> LogChunk:
        """Read a chunk of the log of a rank, or of mpirun (None).

        A negative offset counts from the end. With a ``run``, the log is that of the start over
        that the run belongs to.
        """
        folder = self.folder(job_id)
        if rank is not None and rank >= (ranks := read_job(folder).config.world_size):
            raise BackendError(
                f"The job {job_id} has no rank {rank}.", f"Its ranks are 0 to {ranks - 1}."
            )
        folder = run_history.run_folder(folder, run) if run else folder
        path = folder.mpirun_log if rank is None else folder.rank_log(rank)
        with as_backend_error(f"{self._root.display_path(path)} could not be read"):
            return read_log(self._root.files, path, offset, limit_bytes)

    def find(self, text: str) -> str:
        """Return the id of a job that is given by its id, the beginning of its id, or its name."""
        if self._folder_exists(text):
            return text
        ids = self.ids()
        prefix_matches = [job_id for job_id in ids if text and job_id.startswith(text)]
        if len(prefix_matches) == 1:
            return prefix_matches[0]
        matches = prefix_matches or [view.id for view in self.list() if view.name == text]
        if len(matches) == 1:
            return matches[0]
        if matches:
            raise BackendError(
                f"“{sanitize(text)}” could be {len(matches)} jobs: {', '.join(matches[:5])}"
                f"{', …' if len(matches) > 5 else ''}.",
                "Give more of the id.",
            )
        raise BackendError(
            f"There is no job “{sanitize(text)}”.", f"To list jobs: {COMMAND} job list"
        )

    def ids_of(self, text: str) -> tuple[str, ...]:
        """Return the ids of the jobs with this id or name, by the catalogue."""
        views = self._index.jobs(text, limit=_NAMED_JOBS)
        return tuple(view.id for view in views if text in (view.id, view.name))

    def summaries(self) -> Iterator[JobSummary]:
        """Return every job of the catalogue, without reading the folders."""
        return self._index.job_lines()

    def search(self, text: str, limit: int) -> tuple[JobView, ...]:
        """Return jobs of the catalogue with every word of ``text``, newest first."""
        return self._index.jobs(text, limit=limit)

    def queued_ids(self) -> frozenset[str]:
        """Return the ids of the jobs that may be waiting for their turn."""
        with as_backend_error("The queue could not be read"):
            return queue_files.queued_ids(self._root)

    def ids(self) -> tuple[str, ...]:
        """Return the ids of all jobs, the newest first."""
        with as_backend_error("The data root could not be read"):
            try:
                self._root.files.refresh_jobs()
                names = os.listdir(self._root.jobs)
            except FileNotFoundError:
                if not self._index.job_ids():
                    return ()
                # An empty list would look as if there were no jobs.
                raise BackendError(
                    f"The jobs folder of {self._root.display_path(self._root.path)} is missing.",
                    "Check that the data root is mounted. If you removed the folder, run "
                    f"{COMMAND} rescan",
                ) from None
        return tuple(sorted((name for name in names if name[0] != "."), reverse=True))

    def _folder_exists(self, job_id: str) -> bool:
        if not job_id or job_id != Path(job_id).name or job_id.startswith("."):
            return False
        folder = self._root.job(job_id)
        # On a share that died or is stale, even this check raises an error.
        with as_backend_error(f"The job {sanitize(job_id)} could not be read"):
            if not folder.meta.is_file():
                with suppress(OSError):
                    self._root.files.refresh_job(folder)
            return folder.meta.is_file()

    def _is_root_missing(self) -> bool:
        """Return whether the whole data root is missing, and not only a job."""
        try:
            return not self._root.jobs.is_dir()
        except OSError as error:
            swallowed(error)
            return True

    def folder(self, job_id: str) -> OpenJob:
        if not self._folder_exists(job_id):
            raise BackendError(
                f"There is no job “{sanitize(job_id)}”.",
                f"To list jobs: {COMMAND} job list",
            )
        return self._root.job(job_id)

    def fresh_folder(self, job_id: str) -> OpenJob:
        folder = self.folder(job_id)
        with as_backend_error(f"The job {job_id} could not be read"):
            self._root.files.refresh_job(folder)
        return folder

    def _state_reader(self, folder: OpenJob) -> RunStateReader:
        return RunStateReader(
            folder,
            silent_nodes=self._node_watch.silent_nodes,
            submitted_condition=self._submitted_condition,
        )

    def read(self, job_id: str) -> tuple[OpenJob, JobFile, JobView]:
        """Read the folder, the file and the state of a job; the catalogue is not updated."""
        folder = self.folder(job_id)
        run_state = self._state_reader(folder).read()
        file = read_job(folder)
        return folder, file, self._view(folder, file, run_state)

    def _view(self, folder: OpenJob, file: JobFile, run_state: RunState) -> JobView:
        status = run_state.status
        policy = file.config.checkpoint
        metric = None
        if status.run:
            with as_backend_error(f"The checkpoints of the job {file.id} could not be read"):
                checkpoints = list_checkpoints(folder, policy)
            metric = best_value(checkpoints, policy)
            if run_state.uncertainty or status.state.is_over:
                status = with_progress(status, folder, checkpoints)
        view = view_of(file, status, metric, run_state.uncertainty or " ".join(run_state.problems))
        if file.config.allocation is not None:
            # Its batch script writes which nodes the scheduler chose.
            launch = launch_of(folder.launch, status.run)
            placement = (launch or file).config.placement
            view = replace(view, config=replace(view.config, placement=placement))
        return replace(view, unrecorded_end=run_state.unrecorded_end)

    def _update_catalogue(self, view: JobView) -> JobView:
        """Write a changed state to the catalogue; progress alone is not worth a write."""
        if view.state.is_live and self._catalogued_states.get(view.id) == (view.run, view.state):
            return view
        if view.unrecorded_end is not None:
            # Not before it is reaped: the catalogue's jobs that are over are not read again.
            return view
        try:
            self._index.put_job(replace(view, contact_warning=""))
        except BackendError as error:
            # The folder is the source of truth; the error is shown with the job.
            return replace(
                view, contact_warning=" ".join(filter(None, (view.contact_warning, error.message)))
            )
        if view.state.is_live:
            self._catalogued_states[view.id] = (view.run, view.state)
        else:
            self._catalogued_states.pop(view.id, None)
        return view

    def has_changed(self, known_job: JobView | JobSummary) -> bool:
        """Return whether the folder of a job that is over may differ from ``known_job``.

        Only a start, which claims a run, and an annotation, which replaces a file, change the
        folder; a single read shows both.
        """
        folder = self._root.job(known_job.id)
        try:
            if folder.newest_run() != known_job.run:
                return True
            notes = read_json(folder.notes)
        except FileNotFoundError:
            return False
        except (OSError, ValueError) as error:
            swallowed(error)
            return True
        return (notes.get("name"), notes.get("notes"), tuple(notes.get("tags", ()))) != (
            known_job.name,
            known_job.notes,
            known_job.tags,
        )

    def _read_history(
        self, path: Path, cursor: HistoryCursor | None
    ) -> tuple[HistoryUpdate, HistoryCursor]:
        if self._history_reader is None:
            # Imported late: listing jobs must not wait for numpy.
            from backend.datastore.jobs.history_cache import HistoryReader

            self._history_reader = HistoryReader(self._cache / "histories")
        return self._history_reader.read(path, cursor)

    @staticmethod
    def _with_epochs(history: HistoryUpdate, view: JobView) -> HistoryUpdate:
        from backend.datastore.jobs.history_reader import epochs_done

        return epochs_done(history, view.status.steps_per_epoch)


def _unanswered_view(view: JobView, reader: RunStateReader, error: BackendError) -> JobView:
    run_state = reader.without_news(error)
    return replace(
        view,
        status=replace(
            view.status,
            eta_s=run_state.status.eta_s,
            samples_per_second=run_state.status.samples_per_second,
        ),
        contact_warning=run_state.uncertainty or " ".join(run_state.problems),
    )


def read_log(
    files: DataRootAccess, path: Path, offset: int = 0, limit_bytes: int = CHUNK_BYTES
) -> LogChunk:
    """Read at most ``limit_bytes`` from ``offset``; a negative offset counts from the end.

    With a negative offset, a chunk that begins inside the file begins with a complete line. No
    chunk ends within a character. A missing file is an empty log.

    Raises:
        OSError: The file cannot be read.
    """
    try:
        size = files.size(path)
        start = max(0, size + offset) if offset < 0 else min(offset, size)
        content = files.read(path, start, limit_bytes) if limit_bytes else b""
    except FileNotFoundError:
        return LogChunk("", 0, 0)
    if offset < 0 and start > 0:
        skipped_bytes = content.find(b"\n") + 1 or len(content)
        start, content = start + skipped_bytes, content[skipped_bytes:]
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    text = decoder.decode(content)
    incomplete_bytes = len(decoder.getstate()[0])
    return LogChunk(text, start + len(content) - incomplete_bytes, size)
