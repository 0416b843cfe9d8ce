"""Jobs from the job file to the exported checkpoint; what the window and the command line call.

The folder of a job is the truth and the catalogue is an index of it. So every act reads the folder
first, does what can be done only once by a call that only one desktop can win
(`datastore.job_files`), and tells the catalogue last. An act that finds its wish fulfilled already
(Stop pressed twice, Start pressed on two desktops) returns what is there and is no error.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tomli_w

from backend.cluster.shell import Unreachable
from backend.datastore import job_files, queue_files
from backend.datastore.checkpoint_files import (
    best_value,
    checkpoint_named,
    list_checkpoints,
    verify,
)
from backend.datastore.job_files import JobFile, read_job, view_of
from backend.datastore.log_reader import CHUNK_BYTES, read_log
from backend.datastore.run_state import RunState, RunStateReader
from backend.datastore.share import MOUNTED, Share
from backend.errors import BackendError
from backend.progress import Progress
from backend.records.checkpoint import Checkpoint
from backend.records.files import read_json
from backend.records.job import JobConfig, Placement
from backend.records.job_view import JobCheck, JobView, LogChunk, RunUpdate
from backend.records.layout import DataRoot, JobFolder
from backend.records.library import Kind
from backend.records.series import HistoryUpdate
from backend.records.state import JobState
from backend.records.values import job_name_fault, printable
from backend.services import tool_process
from backend.services.data_size import DataSizes
from backend.services.job_check import JobChecker, check_size, rates, read_job_file
from backend.services.run_start import Prepared, RunStarter
from backend.services.tool_process import ToolError

if TYPE_CHECKING:
    from backend.catalogue.store import Catalogue
    from backend.datastore.history_cache import HistoryReader
    from backend.datastore.history_reader import HistoryCursor
    from backend.services.library import LibraryService
    from backend.services.nodes import NodeService

LOOK_INTERVAL_S = 0.2
_NAME_BYTES = 255


@dataclass(frozen=True)
class _Cursor:
    """Where a look ended: the history's offset, and who knows when the heartbeat advanced."""

    history: HistoryCursor | None
    reader: RunStateReader


class JobService:
    """See `docs/architecture.md`. Every call is plain and blocking and may run on any thread."""

    def __init__(
        self,
        root: DataRoot,
        library: LibraryService,
        nodes: NodeService,
        index: Catalogue,
        cache: Path,
        share: Share = MOUNTED,
    ) -> None:
        self._root = root
        self._share = share
        self._library = library
        self._index = index
        self._sizes = DataSizes(library, cache / "sizes")
        self._cache = cache
        self._history_reader: HistoryReader | None = None
        self._starter = RunStarter(root, library, nodes, share)
        self._checker = JobChecker(root, library, nodes, share)
        self._told: dict[str, tuple[int, JobState]] = {}

    # Making a job.

    def read_file(self, path: Path) -> dict[str, Any]:
        """A job file as plain values."""
        return read_job_file(path)

    def write_file(self, raw: Mapping[str, Any], path: Path) -> Path:
        """A job file, to change and create. Refuses to write over anything."""
        try:
            with path.open("xb") as file:
                file.write(tomli_w.dumps(raw).encode())
        except FileExistsError as error:
            raise BackendError(
                f"{path} exists already and is left as it is.", "Choose another name."
            ) from error
        except OSError as error:
            raise BackendError(f"{path} cannot be written: {error.strerror or error}.") from error
        return path.absolute()

    def check(self, raw: Mapping[str, Any]) -> JobCheck:
        """What the form shows while a job is being written; runs no user code."""
        checked = self._checker.check(raw)
        config = checked.config
        size = self._sizes.known(checked.pins)
        check_size(checked, size)
        if config is None:
            return JobCheck(faults=tuple(checked.faults), findings=tuple(checked.findings))
        steps = size.training // config.global_batch_size if size is not None else None
        command: tuple[str, ...] = ()
        if not checked.faults:
            try:
                command = self._starter.plan(config, "JOB", 1).argv
            except BackendError as error:
                checked.fault("placement", " ".join(filter(None, (str(error), error.remedy))))
        return JobCheck(
            faults=tuple(checked.faults),
            global_batch=config.global_batch_size,
            learning_rate=config.optimizer.lr * config.lr_factor,
            steps_per_epoch=steps,
            rates=rates(config, steps or 100),
            command=command,
            findings=tuple(checked.findings),
        )

    def create(self, raw: Mapping[str, Any], progress: Progress | None = None) -> JobView:
        """Make a job; nothing is made when anything is wrong with it.

        Raises:
            BackendError: Every fault, one sentence after the other.
        """
        checked = self._checker.check(raw)
        if checked.config is not None and not checked.faults:
            # A loader may need what only the job gives it; then the ranks will say what is wrong.
            with contextlib.suppress(ToolError):
                check_size(checked, self._sizes.count(checked.pins, progress or Progress()))
        if checked.faults or checked.config is None:
            raise BackendError(
                " ".join(fault.sentence for fault in checked.faults),
                "Change the job file; nothing was created.",
            )
        with _world("The job could not be created"):
            file = job_files.create_job(self._root, checked.config, checked.pins, self._share)
        return self.show(file.id)

    def clone(self, job_id: str) -> dict[str, Any]:
        """A job file that repeats a job: same settings, same versions, another name."""
        file = read_job(self._folder(job_id))
        raw = file.config.to_dict()
        raw.update(name=_cut(f"{file.name} (copy)"))
        for key, pin in file.pins.items():
            raw[key] = pin.reference
        for key, value in (("notes", file.notes), ("tags", list(file.tags))):
            raw.pop(key, None)
            if value:
                raw[key] = value
        return raw

    # A run.

    def start(
        self, job_id: str, start_over: bool = False, placement: Sequence[Placement] = ()
    ) -> JobView:
        """Begin the job at its first step; a live job stays as it is.

        What earlier runs left is in the way: with ``start_over`` it is moved to ``runs/<n>``.
        With a ``placement`` the job runs there from now on.
        """
        folder, file, view = self._at(job_id)
        if view.state.is_live:
            return view
        weights = self._weights(file, view, start_over)
        return self._run(folder, file, view.run + 1, placement, start_from=weights)

    def resume(
        self, job_id: str, checkpoint: str = "", placement: Sequence[Placement] = ()
    ) -> JobView:
        """Go on from a checkpoint (the newest one, if none is named); a live job stays as it is.

        With a ``placement`` the job runs there from now on.
        """
        folder, file, view = self._at(job_id)
        if view.state.is_live:
            return view
        record = self._checkpoint(folder, file, view, checkpoint)
        return self._run(folder, file, view.run + 1, placement, resume_from=record.path)

    def prepare(
        self, job_id: str, start_over: bool = False, placement: Sequence[Placement] = ()
    ) -> tuple[JobFolder, JobView, Prepared]:
        """What the next run of a job is to be, for who starts it later: the queue.

        A job that has run before goes on from its newest checkpoint, unless it starts over.
        """
        folder, file, view = self._at(job_id)
        if placement:
            file = replace(file, config=replace(file.config, placement=tuple(placement)))
        resume_from = weights = ""
        if view.run and not start_over:
            resume_from = self._checkpoint(folder, file, view, "").path
        else:
            weights = self._weights(file, view, start_over)
        # Busy GPUs, or a node that is off, are what a queue is for; what never fits, it refuses.
        prepared = self._starter.prepare(
            file, view.run + 1, resume_from=resume_from, start_from=weights
        )
        return folder, view, prepared

    def _weights(self, file: JobFile, view: JobView, start_over: bool) -> str:
        """Path of what a run from the beginning starts from, "" for nothing."""
        if view.run and not start_over:
            raise BackendError(
                f"The job {view.id} has run before.",
                "Resume it, or start over: what earlier runs made is kept in its runs folder.",
            )
        if not file.config.start_from:
            return ""
        found = self._checker.weights(file.config.start_from)
        if found.record is not None:
            verify(found.record, share=self._share)
        return str(found.path)

    def _checkpoint(self, folder: JobFolder, file: JobFile, view: JobView, name: str) -> Checkpoint:
        """What a run goes on from, the newest where none is named."""
        if view.state is JobState.FINISHED and not name:
            raise BackendError(
                f"The job {view.id} has done all its {file.config.epochs} epochs.",
                "Clone it with more epochs and start_from, or start it over.",
            )
        return self._sound_checkpoint(folder, file, name)

    def stop(self, job_id: str) -> JobView:
        """Wish the run to stop after a checkpoint. Without a run it changes nothing."""
        folder, _, view = self._at(job_id)
        if not view.state.is_live:
            return view
        with _world("The wish to stop could not be written"):
            job_files.ask_to_stop(folder, view.run, self._share)
        return self.show(job_id)

    def wait(
        self,
        job_id: str,
        on_update: Callable[[RunUpdate], None] = lambda update: None,
        until: Callable[[JobView], bool] = lambda view: (
            not (view.state.is_live or view.state is JobState.QUEUED)
        ),
    ) -> JobView:
        """Look again and again until ``until``; what ends this call does nothing to the run."""
        cursor: object = None
        while True:
            update = self.look(job_id, cursor)
            cursor = update.cursor
            on_update(update)
            if until(update.view):
                return update.view
            time.sleep(LOOK_INTERVAL_S)

    def _run(
        self,
        folder: JobFolder,
        file: JobFile,
        run: int,
        placement: Sequence[Placement],
        *,
        resume_from: str = "",
        start_from: str = "",
    ) -> JobView:
        if placement:
            file = replace(file, config=replace(file.config, placement=tuple(placement)))
        self._checker.placement(file.config)
        with _world(f"The job {file.id} could not be started"):
            # Where somebody else was first there is one run, and it is theirs.
            began = self._starter.start(
                folder, file, run, resume_from=resume_from, start_from=start_from
            )
            if began and placement:
                job_files.write_placement(folder, file.config, self._share)
        return self.show(file.id)

    def _sound_checkpoint(self, folder: JobFolder, file: JobFile, name: str) -> Checkpoint:
        """The checkpoint to go on from, verified; the refusal of one offers the one before."""
        found = list_checkpoints(folder, file.config.checkpoint, self._share)
        if not found:
            raise BackendError(
                f"The job {file.id} has no checkpoint to go on from.", "Start it over."
            )
        record = self._named(found, name or "latest", file.id)
        try:
            verify(record, share=self._share)
        except Unreachable:
            raise
        except BackendError as error:
            older = self._newest_sound(found[: found.index(record)])
            raise BackendError(
                error.sentence,
                f"The one before, {older.name}, is sound: "
                f"main.py job resume {file.id} --checkpoint {older.name}"
                if older is not None
                else "There is no older one that is sound; start the job over.",
            ) from error
        return record

    def _newest_sound(self, found: Sequence[Checkpoint]) -> Checkpoint | None:
        for record in reversed(found):
            try:
                verify(record, share=self._share)
            except BackendError:
                continue
            return record
        return None

    @staticmethod
    def _named(found: Sequence[Checkpoint], name: str, job_id: str) -> Checkpoint:
        record = checkpoint_named(found, name)
        if record is not None:
            return record
        raise BackendError(
            f"The job {job_id} has no checkpoint “{printable(name)}”.",
            f"There are: {', '.join(record.name for record in found)}." if found else "",
        )

    # Looking.

    def look(self, job_id: str, cursor: object = None) -> RunUpdate:
        """The job as it is now, and what is new in its history since ``cursor``."""
        folder = self._folder(job_id)
        before = cursor if isinstance(cursor, _Cursor) else _Cursor(None, self._reader(folder))
        found = before.reader.look()
        file = read_job(folder)
        with _world(f"The history of the job {job_id} could not be read"):
            # Whether there is news at all, the reader has said.
            with contextlib.suppress(Unreachable):
                self._share.look_at_history(folder)
            history, read_to = self._read_history(folder.history, before.history)
        view = self._tell(self._view(folder, file, found))
        return RunUpdate(view, history, _Cursor(read_to, before.reader))

    def list(self) -> tuple[JobView, ...]:
        """Every job, newest first. What is over is taken from the catalogue."""
        known = {view.id: view for view in self._index.jobs()}
        with _world("The queue could not be read"):
            queued = queue_files.queued_ids(self._root, self._share)
        views = []
        for job_id in self._ids():
            view = known.get(job_id)
            if view is None or job_id in queued or self._may_have_changed(view):
                # One spoiled folder must not hide the other jobs.
                with contextlib.suppress(BackendError):
                    view = self.show(job_id)
            if view is not None:
                views.append(view)
        return tuple(sorted(views, key=lambda view: (view.created, view.id), reverse=True))

    def show(self, job_id: str) -> JobView:
        return self._tell(self._at(job_id)[2])

    def history(self, job_id: str) -> HistoryUpdate:
        """Every step of the job."""
        return self.look(job_id).history

    def checkpoints(self, job_id: str) -> tuple[Checkpoint, ...]:
        folder = self._fresh_folder(job_id)
        found = list_checkpoints(folder, read_job(folder).config.checkpoint, self._share)
        return tuple(replace(one, path=self._share.shown(Path(one.path))) for one in found)

    def log(
        self, job_id: str, rank: int | None, offset: int = 0, limit_bytes: int = CHUNK_BYTES
    ) -> LogChunk:
        """A piece of a rank's log, or of mpirun's (None); a negative offset is from the end."""
        folder = self._folder(job_id)
        if rank is not None and rank >= (ranks := read_job(folder).config.world_size):
            raise BackendError(
                f"The job {job_id} has no rank {rank}.", f"Its ranks are 0 to {ranks - 1}."
            )
        path = folder.mpirun_log if rank is None else folder.rank_log(rank)
        with _world(f"{self._share.shown(path)} could not be read"):
            return read_log(path, offset, limit_bytes, self._share)

    def find(self, text: str) -> str:
        """The id that is meant by an id, the beginning of one, or a job's name."""
        if self._folder_exists(text):
            return text
        ids = self._ids()
        begins = [job_id for job_id in ids if text and job_id.startswith(text)]
        if len(begins) == 1:
            return begins[0]
        named = [] if begins else [view.id for view in self.list() if view.name == text]
        if len(named) == 1:
            return named[0]
        several = begins or named
        if several:
            raise BackendError(
                f"“{printable(text)}” could be {len(several)} jobs: {', '.join(several[:5])}"
                f"{', …' if len(several) > 5 else ''}.",
                "Give more of the id.",
            )
        raise BackendError(
            f"There is no job “{printable(text)}”.", "main.py job list shows those there are."
        )

    def _ids(self) -> tuple[str, ...]:
        with _world("The data root could not be read"):
            try:
                self._share.look_at_jobs()
                names = os.listdir(self._root.jobs)
            except FileNotFoundError:
                return ()
        return tuple(sorted((name for name in names if name[0] != "."), reverse=True))

    def _folder_exists(self, job_id: str) -> bool:
        if not job_id or job_id != Path(job_id).name or job_id.startswith("."):
            return False
        folder = self._root.job(job_id)
        if not folder.meta.is_file():
            with contextlib.suppress(OSError):
                self._share.look_at_job(folder)
        return folder.meta.is_file()

    def _folder(self, job_id: str) -> JobFolder:
        if not self._folder_exists(job_id):
            raise BackendError(
                f"There is no job “{printable(job_id)}”.",
                "main.py job list shows those there are.",
            )
        return self._root.job(job_id)

    def _fresh_folder(self, job_id: str) -> JobFolder:
        folder = self._folder(job_id)
        with _world(f"The job {job_id} could not be read"):
            self._share.look_at_job(folder)
        return folder

    def _reader(self, folder: JobFolder) -> RunStateReader:
        return RunStateReader(folder, share=self._share)

    def _at(self, job_id: str) -> tuple[JobFolder, JobFile, JobView]:
        folder = self._folder(job_id)
        found = self._reader(folder).look()
        file = read_job(folder)
        return folder, file, self._view(folder, file, found)

    def _view(self, folder: JobFolder, file: JobFile, found: RunState) -> JobView:
        status = found.status
        policy = file.config.checkpoint
        best = None
        if status.run:
            best = best_value(list_checkpoints(folder, policy, self._share), policy)
        return view_of(file, status, best, found.doubt or " ".join(found.problems))

    def _tell(self, view: JobView) -> JobView:
        """The catalogue learns what was seen; what merely moves on is not worth a write."""
        if view.state.is_live and self._told.get(view.id) == (view.run, view.state):
            return view
        try:
            self._index.put_job(replace(view, doubt=""))
        except BackendError as error:
            # The folder is right without an index of it; what was done stays done, and is told.
            return replace(view, doubt=" ".join(filter(None, (view.doubt, error.sentence))))
        self._told[view.id] = (view.run, view.state)
        return view

    def _may_have_changed(self, known: JobView) -> bool:
        """Whether the folder may hold something else than the catalogue's row.

        A job that is over stays so until somebody starts it, which claims a run, or annotates it,
        which replaces a file; both are one look at the folder.
        """
        if not known.state.is_over:
            return True
        folder = self._root.job(known.id)
        try:
            if folder.newest_run() != known.run:
                return True
            notes = read_json(folder.notes)
        except FileNotFoundError:
            return False
        except (OSError, ValueError):
            return True
        return (notes.get("name"), notes.get("notes"), tuple(notes.get("tags", ()))) != (
            known.name,
            known.notes,
            known.tags,
        )

    def _read_history(
        self, path: Path, cursor: HistoryCursor | None
    ) -> tuple[HistoryUpdate, HistoryCursor]:
        if self._history_reader is None:
            # Late: listing jobs must not wait for numpy.
            from backend.datastore.history_cache import HistoryReader

            self._history_reader = HistoryReader(self._cache / "histories")
        return self._history_reader.read(path, cursor)

    # What a person changes.

    def annotate(
        self,
        job_id: str,
        name: str | None = None,
        notes: str | None = None,
        tags: Sequence[str] | None = None,
    ) -> JobView:
        """Change what is said about a job; None leaves it as it is."""
        folder, file, _ = self._at(job_id)
        if name is not None and job_name_fault(name):
            raise BackendError(job_name_fault(name))
        with _world("The notes could not be written"):
            job_files.write_notes(
                folder,
                file.name if name is None else name,
                file.notes if notes is None else notes,
                file.tags if tags is None else tuple(tags),
                self._share,
            )
        return self.show(job_id)

    def export(
        self,
        job_id: str,
        checkpoint: str,
        format: str,
        output: Path,
        progress: Progress | None = None,
    ) -> Path:
        """Write a checkpoint for use elsewhere; ``checkpoint`` is a name, "latest" or "best"."""
        folder, file, _ = self._at(job_id)
        found = list_checkpoints(folder, file.config.checkpoint, self._share)
        record = self._named(found, checkpoint, job_id)
        with _world(f"The checkpoint {record.name} could not be fetched"):
            self._share.bring_file(Path(record.path), progress or Progress())
            self._share.look_at_history(folder)
        # A dataset is read for ONNX alone, and may be large.
        part = self._library.open_content if format == "onnx" else self._library.content
        tool_process.export(
            Path(record.path),
            format,
            output,
            self._library.open_content(Kind.MODEL, file.pins["model"].reference),
            part(Kind.LOADER, file.pins["loader"].reference),
            part(Kind.DATASET, file.pins["dataset"].reference),
            files={"job.toml": tomli_w.dumps(_without_secrets(file.config))},
            history=folder.history if folder.history.exists() else None,
            progress=progress,
        )
        return output.absolute()

    def remove(self, job_id: str) -> JobView:
        """Move the job's folder to the trash of the data root; refused while it is live."""
        folder, _, view = self._at(job_id)
        if view.state.is_live:
            raise BackendError(f"The job {job_id} is {view.state.word.lower()}.", "Stop it first.")
        with _world(f"The job {job_id} could not be moved to the trash"):
            queue_files.leave(self._root, folder, self._share)
            job_files.move_to_trash(self._root, folder, self._share)
        self._index.forget_job(job_id)
        return view


@contextlib.contextmanager
def _world(what: str) -> Iterator[None]:
    """Put an error of the file system into words; ``what`` begins the sentence."""
    try:
        yield
    except OSError as error:
        raise BackendError(f"{what}: {error.strerror or error}.") from error


def _without_secrets(config: JobConfig) -> dict[str, Any]:
    """The job file for others: a variable may hold a token, so only its name goes along."""
    raw = config.to_dict()
    if config.environment:
        raw["environment"] = dict.fromkeys(config.environment, "")
    return raw


def _cut(name: str) -> str:
    """``name``, no longer than a job's name may be, and no character cut in two."""
    return name.encode()[:_NAME_BYTES].decode(errors="ignore")
