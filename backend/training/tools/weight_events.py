"""Write the graph of a model and the weights of its checkpoints as event files for TensorBoard."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy

from backend.base.errors import as_backend_error
from backend.base.log import suppress
from backend.records.base import number_format
from backend.training.tools import protocol as tool_protocol
from backend.training.tools.inspected_model import ModelBatch, model_batch, prepare_process
from backend.training.tools.layers import evaluating_step_by_step
from backend.training.tools.thumbnails import as_array
from backend.training.weights_file import fit_weights, load_weights

GRAPH = "graph"


def weight_events(request: Mapping[str, Any], report: tool_protocol.Report) -> dict[str, Any]:
    """``model``, ``loader``, ``dataset``, ``folder``, ``checkpoints`` (path and step of each).

    A file for the graph and one for each checkpoint; one that exists is not written again.

    Returns:
        ``graph``: False if PyTorch could not trace the model's forward.
    """
    folder = Path(request["folder"])
    batch = model_batch(request, report, 1)
    report("Tracing the model's forward…")
    has_graph = _has_events(folder, GRAPH) or _write_graph(batch, folder)
    checkpoints = [(Path(path), step) for path, step in request["checkpoints"]]
    for number, (path, step) in enumerate(checkpoints):
        name = f"checkpoint {number_format.count_of(number + 1, len(checkpoints))}"
        report(f"Reading the weights of {name}", number, len(checkpoints))
        if _has_events(folder, path.stem):
            continue
        fit_weights(batch.model, load_weights(path), path.stem)
        with _event_writer(folder, path.stem) as events:
            for weight_name, parameter in batch.model.named_parameters():
                values = as_array(parameter)
                finite = values[numpy.isfinite(values)] if values is not None else ()
                if len(finite):
                    events.add_histogram(weight_name, finite, step)
    return {"graph": has_graph}


def _has_events(folder: Path, name: str) -> bool:
    return any(folder.glob(f"events.out.tfevents.*.{name}"))


def _write_graph(batch: ModelBatch, folder: Path) -> bool:
    # A forward with an `if` on a value cannot be traced; the weights are shown all the same.
    with suppress(Exception), evaluating_step_by_step(batch.model), warnings.catch_warnings():
        # tensorboardX 2.6 has no other way than `torch.jit.trace`, which torch 2.13 deprecates.
        warnings.simplefilter("ignore")
        with _event_writer(folder, GRAPH) as events:
            events.add_graph(batch.model, (batch.data,))
    return _has_events(folder, GRAPH)


@contextmanager
def _event_writer(folder: Path, name: str) -> Iterator[Any]:
    """Write a file beside, and move it to its place when it is whole."""
    # Late: it takes a second of the interpreter.
    from tensorboardX import SummaryWriter

    with as_backend_error("The event files cannot be written"):
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as temporary_folder:
            with SummaryWriter(temporary_folder, filename_suffix=f".{name}") as events:
                yield events
            for file in Path(temporary_folder).iterdir():
                file.replace(folder / file.name)


if __name__ == "__main__":
    prepare_process()
    tool_protocol.main(weight_events)
