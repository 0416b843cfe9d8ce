"""Inspect a model and a checkpoint. Results are cached by the hashes of their inputs."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from backend.base.errors import BackendError, as_backend_error
from backend.base.progress import Progress
from backend.datastore.jobs.checkpoint_files import list_checkpoints, require_checkpoint
from backend.records.base.schema import Record
from backend.records.jobs.script import commands, is_entry, usual_entry
from backend.records.jobs.script_help import ScriptHelp
from backend.records.library.inspection import CheckpointInspection
from backend.records.library.item import Kind
from backend.records.library.layers import LayerGraph, ModelLayers
from backend.records.library.variance import DepthVariance
from backend.services.jobs.queries import JobQueries
from backend.services.library.service import LibraryService
from backend.services.tools.graph_layout import lay_out
from backend.services.tools.result_files import ResultCache
from backend.services.tools.tool_process import run_tool

NO_GRAPH = "There is no graph: PyTorch cannot trace the model's forward."
_LIMIT_S = 300.0
_HELP_S = 60.0
"""A program that imports PyTorch and more from a slow disk needs half of it."""
_MAX_SAMPLES = 16
_MAX_BATCH_SIZE = 1_000_000

_T = TypeVar("_T", bound=Record)


class InspectionService:
    """Inspections of models, checkpoints and scripts.

    Every call blocks and may run on any thread; users' code runs in a process of its own.
    """

    def __init__(self, library: LibraryService, queries: JobQueries, cache: Path) -> None:
        self._library = library
        self._queries = queries
        self._cache = ResultCache(cache)

    def layers(
        self,
        model: str,
        dataset: str,
        loader: str,
        batch_size: int = 1,
        progress: Progress | None = None,
    ) -> ModelLayers:
        """Return the layers of a model, from one forward pass of a batch of the dataset."""
        if not 1 <= batch_size <= _MAX_BATCH_SIZE:
            raise BackendError(f"A batch size of {batch_size} is not possible.", "Give 1 or more.")
        names, title = (model, dataset, loader), "Reading the layers"
        return self._run_on_batch("layers", title, ModelLayers, names, batch_size, progress)

    def variance(
        self, model: str, dataset: str, loader: str, progress: Progress | None = None
    ) -> DepthVariance:
        """Return the variances of activations and gradients by depth, of the first samples."""
        names, title = (model, dataset, loader), "Measuring the variances"
        return self._run_on_batch("variance", title, DepthVariance, names, _MAX_SAMPLES, progress)

    def _run_on_batch(
        self,
        tool: str,
        title: str,
        record: type[_T],
        names: tuple[str, str, str],
        batch_size: int,
        progress: Progress | None,
    ) -> _T:
        """Run a tool on a model, a dataset and a loader, or return its cached result."""
        kinds = (Kind.MODEL, Kind.DATASET, Kind.LOADER)
        items = [self._library.show(k, name) for k, name in zip(kinds, names, strict=True)]
        key = (tool, *(item.sha256 for item in items), str(batch_size))

        def inspect() -> _T:
            folders = self._folders({item.kind: item.reference for item in items}, progress)
            request = {**folders, "batch_size": batch_size}
            return run_tool(tool, request, record.from_dict, title, _LIMIT_S, progress)

        return self._cache.get(key, record.from_dict, inspect)

    def script_help(self, raw: Mapping[str, Any], progress: Progress | None = None) -> ScriptHelp:
        """Return the arguments that the script of a job file names for ``--help``, run here."""
        if not raw.get("script"):
            raise BackendError("No script is chosen.", "Choose one.")
        item = self._library.show(Kind.SCRIPT, str(raw["script"]))
        files = [f.path for f in self._library.files(Kind.SCRIPT, item.reference)]
        entry = str(raw.get("entry") or usual_entry(files))
        if not entry or not is_entry(entry):
            raise BackendError(f"{item.reference} has no such entry.", "Choose its entry.")
        python = str(raw.get("python", ""))
        arguments = raw.get("arguments")
        request = {
            "entry": entry,
            # The Python of a node need not be on this computer.
            "python": python if os.access(python, os.X_OK) else "",
            "words": commands(arguments if isinstance(arguments, list) else ()),
            "limit_s": _HELP_S,
        }

        def run() -> ScriptHelp:
            script = str(self._library.open_content(Kind.SCRIPT, item.reference, progress))
            parse, title = ScriptHelp.from_dict, f"{entry} --help"
            return run_tool(
                "script_help", {**request, "script": script}, parse, title, _LIMIT_S, progress
            )

        key = ("script_help", item.sha256, *map(str, request.values()))
        return self._cache.get(key, ScriptHelp.from_dict, run)

    def graph(self, model_layers: ModelLayers) -> LayerGraph:
        """Return the positions of the layers in a picture."""
        edges = [(layer.name, *layer.inputs) for layer in model_layers.layers]
        key = ("graph", hashlib.sha256(repr(edges).encode()).hexdigest())
        return self._cache.get(key, LayerGraph.from_dict, lambda: lay_out(model_layers.layers))

    def checkpoint(
        self,
        job_id: str,
        checkpoint: str,
        baseline: str = "",
        sample: int = 0,
        progress: Progress | None = None,
    ) -> CheckpointInspection:
        """Return weights, gradients, activations and saliency of a job's checkpoint.

        Args:
            baseline: Another checkpoint of the job, whose weights are compared, or "".
            sample: The number of a training sample.
        """
        if sample < 0:
            raise BackendError(f"There is no sample {sample}.", "They are numbered from 0.")
        folder, file, _ = self._queries.read(job_id)
        checkpoints = list_checkpoints(folder, file.config.checkpoint)
        names_by_key = {"checkpoint": checkpoint, **({"against": baseline} if baseline else {})}
        records = {
            key: require_checkpoint(checkpoints, name, job_id) for key, name in names_by_key.items()
        }
        pins = file.parts()
        batch_size = min(file.config.batch_size, _MAX_SAMPLES)

        def inspect() -> CheckpointInspection:
            for record in records.values():
                with as_backend_error(f"The checkpoint {record.name} could not be fetched"):
                    folder.files.bring_file(Path(record.path), progress or Progress())
            request = {
                **self._folders({kind: pin.reference for kind, pin in pins.items()}, progress),
                **{key: record.path for key, record in records.items()},
                "sample": sample,
                "batch_size": batch_size,
            }
            parse, title = CheckpointInspection.from_dict, "Looking into the checkpoint"
            return run_tool("inspect_checkpoint", request, parse, title, _LIMIT_S, progress)

        key = (
            "checkpoint",
            *(pin.sha256 for pin in pins.values()),
            *(f"{key} {record.sha256}" for key, record in records.items()),
            *(str(sample), str(batch_size)),
        )
        return self._cache.get(key, CheckpointInspection.from_dict, inspect)

    def write_events(self, job_id: str, progress: Progress | None = None) -> bool:
        """Write the graph of a job's model and the weights of its checkpoints for TensorBoard.

        The files are next to the event files of the job's curves; earlier files stay.

        Returns:
            Whether there is a graph; see `NO_GRAPH`.
        """
        folder, file, _ = self._queries.read(job_id)
        if file.config.script:
            return False
        checkpoints = list_checkpoints(folder, file.config.checkpoint)
        for record in checkpoints:
            with as_backend_error(f"The checkpoint {record.name} could not be fetched"):
                folder.files.bring_file(Path(record.path), progress or Progress())
        references = {kind: pin.reference for kind, pin in file.parts().items()}
        request = {
            **self._folders(references, progress),
            "folder": str(folder.tensorboard / "weights"),
            "checkpoints": [(record.path, record.step) for record in checkpoints],
        }
        title = "Writing the weights for TensorBoard"
        return run_tool(
            "weight_events", request, lambda raw: bool(raw["graph"]), title, _LIMIT_S, progress
        )

    def _folders(self, references: Mapping[Kind, str], progress: Progress | None) -> dict[str, str]:
        return {
            kind.value: str(self._library.open_content(kind, reference, progress))
            for kind, reference in references.items()
        }
