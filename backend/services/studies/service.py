"""Studies: published tables as one click. A started study is a sweep with listed jobs."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path

from backend.base.errors import BackendError, as_backend_error, exists_error
from backend.base.log import suppress
from backend.base.progress import Progress
from backend.datastore.access.root_access import OpenRoot
from backend.datastore.bundles.imported_job import environment_of
from backend.records.base.account import expand_home
from backend.records.base.program_name import COMMAND
from backend.records.base.validation import closest_match, sanitize
from backend.records.jobs.placement import Placement
from backend.records.jobs.state import JobState
from backend.records.library.item import KINDS, STUDY_DETAIL, Kind
from backend.records.studies.study import (
    LIBRARY_KEYS,
    FormName,
    GalleryPart,
    GalleryStudy,
    Measure,
    StartedStudy,
    Study,
    StudyJob,
    StudyRow,
    library_of,
    read_study,
    rows_for,
    sweep_of_study,
)
from backend.records.studies.table import StudyTable, csv_text, markdown_text, study_table
from backend.records.sweeps.spec import QueuedSweep, sweep_name
from backend.services.context.example import EXAMPLE, NAME, import_part
from backend.services.jobs.job_file import read_job_file
from backend.services.jobs.queries import JobQueries
from backend.services.library.gallery import GalleryService
from backend.services.library.service import LibraryService
from backend.services.sweeps.service import SweepService

GALLERY = EXAMPLE.parent / "studies"
FILE = "study.toml"
PICTURES = ("png", "svg", "pdf")


class StudyService:
    """List, start and read studies. Every call blocks and may run on any thread."""

    def __init__(
        self,
        root: OpenRoot,
        library: LibraryService,
        jobs: JobQueries,
        sweeps: SweepService,
        parts: GalleryService,
        gallery: Path = GALLERY,
    ) -> None:
        self._root = root
        self._library = library
        self._jobs = jobs
        self._sweeps = sweeps
        self._parts = parts
        self._gallery = gallery
        self._measures: dict[tuple[str, int, str], dict[Measure, float]] = {}

    def list(self) -> tuple[GalleryStudy, ...]:
        """Return the studies of the gallery."""
        return tuple(
            GalleryStudy.from_study(name, self._read(self._gallery / name / FILE)[0])
            for name in self._names()
        )

    def inspect(self, path: Path) -> GalleryStudy:
        """Return the study of a file of the user.

        Raises:
            BackendError: The file cannot be read, or is invalid.
        """
        return GalleryStudy.from_study(str(path), self._read(path)[0])

    def started_studies(self) -> tuple[StartedStudy, ...]:
        """Return the started studies that still have a job, by the name of their sweep."""
        job_ids = set(self._jobs.ids())
        with as_backend_error("The studies could not be read"), suppress(FileNotFoundError):
            names = sorted(self._root.files.names(self._root.studies))
            studies = [
                self.find(name.removesuffix(".json"))
                for name in names
                if name.endswith(".json") and not name.startswith(".")
            ]
            return tuple(
                study
                for study in studies
                if study is not None and any(job.id in job_ids for job in study.jobs)
            )
        return ()

    def start(
        self,
        name: str,
        form: FormName = FormName.SMALL,
        placement: Sequence[Placement] = (),
        progress: Progress | None = None,
    ) -> QueuedSweep:
        """Queue the jobs of a study.

        Args:
            name: The name of a study of the gallery, or the path of a study file.
            form: The size of the study.
            placement: Replaces the nodes of the study.
            progress: Reports the creation of the jobs.

        Raises:
            BackendError: There is no such study, the study is invalid, or it cannot run on these
                nodes; no job was created.
            IncompleteSweep: Only some jobs were created.
        """
        path = self._path(name)
        study, text = self._read(path)
        library = dict.fromkeys(LIBRARY_KEYS, NAME)
        try:
            sweep_of_study(study, form, placement, library)
        except ValueError as error:
            raise BackendError(f"{study.title}: {error}.", "Choose other nodes: --on.") from error
        row_parts = [
            self._checked_parts(study, form, row) for row in rows_for(study, form, placement)
        ]
        for kind in (Kind.DATASET, Kind.LOADER, Kind.MODEL):
            if all(kind.value in keys or "script" in keys for keys in row_parts):
                continue
            if (path.parent / kind.value).is_dir():
                entry_name = path.parent.name
                library[kind.value] = import_part(
                    self._library, kind, path.parent, entry_name, progress
                )
            else:
                library[kind.value] = import_part(self._library, kind, progress=progress)
        parts = dict.fromkeys(
            part for row in row_parts for part in row.values() if isinstance(part, GalleryPart)
        )
        references = {part: self._add_part(part, study.title, progress) for part in parts}
        sweep, cells = sweep_of_study(study, form, placement, library, references)

        def record_study(queued_sweep: QueuedSweep) -> None:
            jobs = tuple(
                StudyJob(v.id, *cell) for v, cell in zip(queued_sweep.jobs, cells, strict=True)
            )
            record = StartedStudy(sweep_name(queued_sweep.tag), form, text, jobs)
            content = json.dumps(record.to_dict(), indent=1).encode()
            with as_backend_error("The study could not be written down"):
                self._root.files.make_folder(self._root.studies, exist_ok=True)
                self._root.files.create(self._record(record.sweep), content)

        return self._sweeps.queue(sweep, progress, record_study)

    def _add_part(self, part: GalleryPart, title: str, progress: Progress | None) -> str:
        """Add a part of the gallery, or use the identical part of a user, which stays unchanged."""
        kind = self._parts.show(part.entry).kind
        existing_references = {item.reference for item in self._library.list(kind)}
        item = self._parts.add(part.entry, dict(part.settings), part.name, progress)
        if item.reference not in existing_references:
            self._library.note(item, STUDY_DETAIL, title)
        return item.reference

    def find(self, sweep: str) -> StartedStudy | None:
        """Return the study of a sweep, by its name or tag; None for a sweep without a study."""
        path = self._record(sweep_name(sweep))
        if path.parent != self._root.studies:
            return None
        with as_backend_error("The study could not be read"), suppress(FileNotFoundError):
            self._root.files.refresh_file(path)
            try:
                return StartedStudy.from_dict(json.loads(path.read_bytes()))
            except ValueError as error:
                raise BackendError(
                    f"{self._root.display_path(path)} is damaged: {error}."
                ) from error
        return None

    def find_started(self, text: str) -> StartedStudy:
        """Return the started study with a name, or whose name has this beginning.

        Raises:
            BackendError: No study or several studies match.
        """
        study = self.find(text)
        if study is not None:
            return study
        matches = [
            study
            for study in self.started_studies()
            if text and study.sweep.casefold().startswith(text.casefold())
        ]
        if len(matches) == 1:
            return matches[0]
        if matches:
            names = ", ".join(study.sweep for study in matches[:5])
            raise BackendError(f"“{sanitize(text)}” could be {names}.", "Give more of the name.")
        raise BackendError(
            f"There is no started study “{sanitize(text)}”.",
            f"To list studies: {COMMAND} study list",
        )

    def table(self, started_study: StartedStudy) -> StudyTable:
        """Return the table with the results of the finished jobs."""
        # This module imports numpy, which most commands do not need.
        from backend.services.studies.measures import measures_of

        measures, cpu_loads, environments = {}, {}, {}
        for job in started_study.jobs:
            # A job may be in the trash.
            with suppress(BackendError):
                view = self._jobs.show(job.id)
                if view.state is JobState.FINISHED:
                    key = (job.id, view.run, view.status.ended_at)
                    if key not in self._measures:
                        history = self._jobs.history(job.id)
                        self._measures[key] = measures_of(view.config, history)
                    measures[job.id] = self._measures[key]
                    if view.status.other_cpu is not None:
                        cpu_loads[job.id] = view.status.other_cpu
                    environment = environment_of(self._root.job(job.id), view.run)
                    if environment is not None:
                        environments[job.id] = environment
        study = _parse_study(started_study.text, started_study.sweep)
        return study_table(study, started_study, measures, cpu_loads, environments)

    def export(
        self,
        started_study: StartedStudy,
        path: Path,
        *,
        draw_plot: Callable[[StudyTable, str], bytes] | None = None,
        overwrite: bool = False,
    ) -> Path:
        """Write the table to Markdown, its values by seed to CSV, or its plot to a picture.

        The suffix of the path selects the format.

        Args:
            draw_plot: Returns the plot as a file with this suffix; None for tables only.

        Raises:
            BackendError: The suffix is unknown, or the file exists or cannot be written.
        """
        path = expand_home(path).absolute()
        suffix = path.suffix.lower().removeprefix(".")
        format_table = {"md": markdown_text, "csv": csv_text}.get(suffix)
        if format_table is None and (draw_plot is None or suffix not in PICTURES):
            picture_hint = "" if draw_plot is None else f", or a picture in .{', .'.join(PICTURES)}"
            raise BackendError(
                f"{path.name} is no name for an export.",
                f"End a table in .md or .csv{picture_hint}.",
            )
        if path.exists() and not overwrite:
            raise exists_error(path)
        with as_backend_error(f"{path} could not be written"):
            table = self.table(started_study)
            if format_table is not None:
                path.write_bytes(format_table(table).encode())
            elif draw_plot is not None:
                path.write_bytes(draw_plot(table, suffix))
        return path

    def _checked_parts(
        self, study: Study, form: FormName, row: StudyRow
    ) -> dict[str, str | GalleryPart]:
        """Return the parts of the library and the gallery that a row names; all exist.

        Raises:
            BackendError: A part does not exist.
        """
        parts = library_of(study, form, row)
        for key, value in parts.items():
            kind = KINDS[key]
            remedy = ""
            try:
                if isinstance(value, GalleryPart):
                    self._parts.values(value.entry, dict(value.settings), kind)
                else:
                    remedy = f"Import it as a {kind.value} named {value} first."
                    self._library.pin(kind, value)
            except BackendError as error:
                row_label = f"{study.title}, row “{row.name}”"
                raise BackendError(f"{row_label}: {error}", remedy or error.remedy) from error
        return parts

    def _record(self, sweep: str) -> Path:
        return self._root.studies / f"{sweep}.json"

    def _names(self) -> tuple[str, ...]:
        return tuple(sorted(path.parent.name for path in self._gallery.glob(f"*/{FILE}")))

    def _path(self, name: str) -> Path:
        if name in self._names():
            return self._gallery / name / FILE
        path = expand_home(name).absolute()
        if path.is_dir():
            path = path / FILE
        if path.suffix == ".toml" and path.is_file():
            return path
        suggestion = closest_match(name, self._names())
        raise BackendError(
            f"There is no study “{sanitize(name)}”.",
            f"Did you mean “{suggestion}”?"
            if suggestion
            else f"To list studies: {COMMAND} study list",
        )

    def _read(self, path: Path) -> tuple[Study, str]:
        read_job_file(path)
        text = path.read_text("utf-8-sig")
        return _parse_study(text, str(path)), text


def _parse_study(text: str, source: str) -> Study:
    try:
        return read_study(tomllib.loads(text))
    except ValueError as error:
        raise BackendError(f"{source}: {error}.", "Change the study file.") from error
