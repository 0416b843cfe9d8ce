"""Try a checkpoint on data: predictions in a process of their own, cached by their inputs."""

from __future__ import annotations

import os
import shutil
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from backend.base.errors import BackendError, as_backend_error
from backend.base.log import suppress
from backend.base.progress import Progress
from backend.datastore.jobs.checkpoint_files import list_checkpoints, verify
from backend.datastore.jobs.files import JobFile
from backend.records.base import number_format
from backend.records.base.account import expand_home
from backend.records.jobs.checkpoint import Checkpoint
from backend.records.jobs.launch import Launch
from backend.records.jobs.prediction import Prediction, PredictionInput, chosen_samples
from backend.records.library.item import KINDS, Kind, Pin
from backend.services.jobs.queries import JobQueries, require_checkpoint
from backend.services.tools import tool_process
from backend.services.tools.kept_results import ResultCache
from backend.services.tools.output_file import partial_path, put_in_place, require_free

if TYPE_CHECKING:
    from backend.services.library.service import LibraryService

MOST_FILES = 10_000
_LIMIT_S = 3600.0
"""A user can cancel it."""
_TABLES_KEPT = 50


class PredictionService:
    """Predictions of checkpoints. Every call blocks and may run on any thread."""

    def __init__(
        self,
        queries: JobQueries,
        library: LibraryService,
        cache: Path,
    ) -> None:
        self._queries = queries
        self._library = library
        self._cache = cache
        self._kept = ResultCache(cache)

    def predict(
        self,
        job_id: str,
        checkpoint: str,
        selection: PredictionInput | None = None,
        progress: Progress | None = None,
    ) -> Prediction:
        """Return the predictions of a checkpoint ("latest" and "best" are names, too).

        Raises:
            BackendError: There is no such checkpoint or data, it is damaged, or the user's code
                cannot be used.
            Cancelled: By ``progress``.
        """
        selection, progress = selection or PredictionInput(), progress or Progress()
        folder, file, view = self._queries.read(job_id)
        found = list_checkpoints(folder, file.config.checkpoint)
        record = require_checkpoint(found, checkpoint, job_id)
        pins = self._pins(file, selection)
        for kind, pin in pins.items():
            self._library.verify(KINDS[kind], pin, progress)
        request, key = _selection(selection)
        hashes = (f"{name} {pin.sha256}" for name, pin in sorted(pins.items()))
        key = (record.sha256, file.config.sha256(), *hashes, *key)
        table = self._kept.path(key, ".csv")

        def compute() -> Prediction:
            with as_backend_error(f"The checkpoint {record.name} could not be fetched"):
                folder.files.bring_file(Path(record.path), progress)
            request["launch"] = self._launch(file, pins, progress).to_dict()
            return self._run(record, request, table, view.state.is_live, progress)

        if table.exists():
            # What is computed comes from a checkpoint that the tool verifies as it loads it.
            verify(folder.files, record)
            prediction = self._kept.get(key, Prediction.from_dict, compute)
        else:
            prediction = compute()
            self._kept.put(key, prediction)
        return replace(prediction, table=str(table))

    def write_table(self, prediction: Prediction, output: Path) -> Path:
        """Copy the table of all predictions to ``output``.

        Raises:
            BackendError: A file is there already; or it cannot be written.
        """
        require_free(output)
        partial = partial_path(output)
        try:
            with as_backend_error(f"The predictions cannot be written to {output}"):
                shutil.copyfile(prediction.table, partial)
            put_in_place(partial, output)
        finally:
            partial.unlink(missing_ok=True)
        return output.absolute()

    def _run(
        self,
        record: Checkpoint,
        request: dict[str, Any],
        table: Path,
        is_live: bool,
        progress: Progress,
    ) -> Prediction:
        with as_backend_error(f"Nothing can be written into {self._cache}"):
            self._cache.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._remove_old_tables()
        partial = partial_path(table)
        path = Path(record.path)
        try:
            with tool_process.hold_checkpoint(path, self._cache) if is_live else nullcontext(path) as held:
                found = tool_process.run_tool(
                    "predict",
                    {**request, "checkpoint": str(held.absolute()), "table": str(partial)},
                    Prediction.from_dict,
                    "The prediction",
                    _LIMIT_S,
                    progress,
                )
            with as_backend_error(f"Nothing can be written into {self._cache}"):
                os.replace(partial, table)
        finally:
            partial.unlink(missing_ok=True)
        return found

    def _remove_old_tables(self) -> None:
        tables = sorted(self._cache.glob("*.csv"), key=_written)
        for old in tables[: -_TABLES_KEPT + 1]:
            with suppress(OSError):
                old.unlink()

    def _pins(self, file: JobFile, given: PredictionInput) -> dict[str, Pin]:
        """Return the versions to read, by the keys of a job file."""
        file.parts()
        if not given.dataset and not given.loader:
            return dict(file.pins)
        known = file.pins
        usual = known.get("validation_loader", known["loader"]).reference
        dataset = given.dataset or known["dataset"].reference
        return {
            "model": known["model"],
            "dataset": self._library.pin(Kind.DATASET, dataset),
            "loader": self._library.pin(Kind.LOADER, given.loader or usual),
        }

    def _launch(self, file: JobFile, pins: dict[str, Pin], progress: Progress) -> Launch:
        content = {
            key: str(self._library.open_content(KINDS[key], pin.reference, progress).absolute())
            for key, pin in pins.items()
        }
        return Launch(
            job_id=file.id,
            run=1,
            config=file.config,
            argv=(),
            ranks=(),
            model_source=content["model"],
            loader_source=content["loader"],
            dataset_files=content["dataset"],
            validation_loader_source=content.get("validation_loader", ""),
            validation_dataset_files=content.get("validation_dataset", ""),
        )


def _selection(given: PredictionInput) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the part of the tool's request that selects samples, and its part of the cache key."""
    if given.files:
        files = _listed(given.files)
        stamps = (f"{path} {stat.st_size} {stat.st_mtime_ns}" for path, stat in files.items())
        return {"files": list(files)}, tuple(stamps)
    try:
        samples = chosen_samples(given.samples)
    except ValueError as error:
        raise BackendError(f"{error}.", "Write numbers and ranges: 3, 10-20.") from error
    return {"split": given.split, "samples": samples}, (given.split, repr(samples))


def _listed(given: tuple[str, ...]) -> dict[str, os.stat_result]:
    """Return files by their paths; of a folder all files in it, but hidden ones."""
    found: dict[str, os.stat_result] = {}
    waiting = [expand_home(path).absolute() for path in reversed(given)]
    while waiting:
        path = waiting.pop()
        with as_backend_error(f"{path} cannot be read"):
            if not path.is_dir():
                found[str(path)] = path.stat()
                continue
            inside = []
            with os.scandir(path) as entries:
                for entry in entries:
                    if not entry.name.startswith(".") and not entry.is_symlink():
                        inside.append(Path(entry.path))
                    if len(inside) + len(found) + len(waiting) > MOST_FILES:
                        raise BackendError(
                            f"{path} has more than {number_format.count(MOST_FILES)} files.",
                            "Choose a smaller folder, or import it as a dataset.",
                        )
            waiting += sorted(inside, reverse=True)
    if not found:
        raise BackendError(f"There is no file in {given[0]}.", "Choose another folder.")
    return found


def _written(path: Path) -> float:
    with suppress(OSError):
        return path.stat().st_mtime
    return 0.0
