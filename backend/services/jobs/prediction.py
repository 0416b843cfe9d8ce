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
from backend.datastore.jobs.checkpoint_files import list_checkpoints, require_checkpoint, verify
from backend.datastore.jobs.files import JobFile
from backend.records.base import number_format
from backend.records.base.account import expand_home
from backend.records.jobs.checkpoint import Checkpoint
from backend.records.jobs.prediction import Prediction, PredictionInput, parse_samples
from backend.records.library.item import KINDS, Kind, Pin
from backend.services.jobs.queries import JobQueries
from backend.services.jobs.single_process import tool_launch
from backend.services.tools import tool_process
from backend.services.tools.result_files import (
    ResultCache,
    partial_path,
    put_in_place,
    require_free,
)

if TYPE_CHECKING:
    from backend.services.library.service import LibraryService

MAX_FILES = 10_000
_LIMIT_S = 3600.0
"""A user can cancel it."""
_MAX_TABLES = 50


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
        self._results = ResultCache(cache)

    def predict(
        self,
        job_id: str,
        checkpoint: str,
        selection: PredictionInput | None = None,
        progress: Progress | None = None,
    ) -> Prediction:
        """Return the predictions of a checkpoint ("latest" and "best" are names, too).

        Raises:
            BackendError: The checkpoint or the data is missing or damaged, or the code cannot
                be used.
            Cancelled: By ``progress``.
        """
        selection, progress = selection or PredictionInput(), progress or Progress()
        folder, file, view = self._queries.read(job_id)
        checkpoints = list_checkpoints(folder, file.config.checkpoint)
        record = require_checkpoint(checkpoints, checkpoint, job_id)
        pins = self._selected_pins(file, selection)
        for kind, pin in pins.items():
            self._library.verify(KINDS[kind], pin, progress)
        request, key = _tool_request(selection)
        hashes = (f"{name} {pin.sha256}" for name, pin in sorted(pins.items()))
        key = (record.sha256, file.config.sha256(), *hashes, *key)
        table = self._results.path(key, ".csv")

        def compute() -> Prediction:
            with as_backend_error(f"The checkpoint {record.name} could not be fetched"):
                folder.files.bring_file(Path(record.path), progress)
            launch = tool_launch(file.id, file.config, pins, self._library, progress)
            request["launch"] = launch.to_dict()
            return self._run(record, request, table, view.state.is_live, progress)

        if table.exists():
            # The tool verifies the checkpoint of a prediction that is computed.
            verify(folder.files, record)
            prediction = self._results.get(key, Prediction.from_dict, compute)
        else:
            prediction = compute()
            self._results.put(key, prediction)
        return replace(prediction, table=str(table))

    def write_table(self, prediction: Prediction, output: Path) -> Path:
        """Copy the table of all predictions to ``output``.

        Raises:
            BackendError: The file exists already, or cannot be written.
        """
        require_free(output)
        partial_file = partial_path(output)
        try:
            with as_backend_error(f"The predictions cannot be written to {output}"):
                shutil.copyfile(prediction.table, partial_file)
            put_in_place(partial_file, output)
        finally:
            partial_file.unlink(missing_ok=True)
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
        partial_file = partial_path(table)
        path = Path(record.path)
        try:
            with (
                tool_process.hold_checkpoint(path, self._cache)
                if is_live
                else nullcontext(path) as checkpoint_file
            ):
                prediction = tool_process.run_tool(
                    "predict",
                    {
                        **request,
                        "checkpoint": str(checkpoint_file.absolute()),
                        "table": str(partial_file),
                    },
                    Prediction.from_dict,
                    "The prediction",
                    _LIMIT_S,
                    progress,
                )
            with as_backend_error(f"Nothing can be written into {self._cache}"):
                os.replace(partial_file, table)
        finally:
            partial_file.unlink(missing_ok=True)
        return prediction

    def _remove_old_tables(self) -> None:
        tables = sorted(self._cache.glob("*.csv"), key=_modified_s)
        for table in tables[: -_MAX_TABLES + 1]:
            with suppress(OSError):
                table.unlink()

    def _selected_pins(self, file: JobFile, selection: PredictionInput) -> dict[str, Pin]:
        """Return the versions to read, by the keys of a job file."""
        file.parts()
        if not selection.dataset and not selection.loader:
            return dict(file.pins)
        pins = file.pins
        default_loader = pins.get("validation_loader", pins["loader"]).reference
        dataset = selection.dataset or pins["dataset"].reference
        return {
            "model": pins["model"],
            "dataset": self._library.pin(Kind.DATASET, dataset),
            "loader": self._library.pin(Kind.LOADER, selection.loader or default_loader),
        }


def read_samples(text: str) -> tuple[int, ...]:
    """Return the numbers of samples as `parse_samples`, or raise a `BackendError`."""
    try:
        return parse_samples(text)
    except ValueError as error:
        raise BackendError(f"{error}.", "Write numbers and ranges: 3, 10-20.") from error


def _tool_request(selection: PredictionInput) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the samples to select, for the tool's request and for the cache key."""
    if selection.files:
        files = _list_files(selection.files)
        stamps = (f"{path} {stat.st_size} {stat.st_mtime_ns}" for path, stat in files.items())
        return {"files": list(files)}, tuple(stamps)
    samples = read_samples(selection.samples)
    return {"split": selection.split, "samples": samples}, (selection.split, repr(samples))


def _list_files(paths: tuple[str, ...]) -> dict[str, os.stat_result]:
    """Return files by their paths; of a folder, all files that are not hidden."""
    files: dict[str, os.stat_result] = {}
    pending_paths = [expand_home(path).absolute() for path in reversed(paths)]
    while pending_paths:
        path = pending_paths.pop()
        with as_backend_error(f"{path} cannot be read"):
            if not path.is_dir():
                files[str(path)] = path.stat()
                continue
            children = []
            with os.scandir(path) as entries:
                for entry in entries:
                    if not entry.name.startswith(".") and not entry.is_symlink():
                        children.append(Path(entry.path))
                    if len(children) + len(files) + len(pending_paths) > MAX_FILES:
                        raise BackendError(
                            f"{path} has more than {number_format.count(MAX_FILES)} files.",
                            "Choose a smaller folder, or import it as a dataset.",
                        )
            pending_paths += sorted(children, reverse=True)
    if not files:
        raise BackendError(f"There is no file in {paths[0]}.", "Choose another folder.")
    return files


def _modified_s(path: Path) -> float:
    with suppress(OSError):
        return path.stat().st_mtime
    return 0.0
