"""Export of a checkpoint: a state dict, safetensors, ONNX, or a zip that does not need Ringmaster.

The checkpoint is opened once, and hash and contents are read through that one handle: a checkpoint
that the clean-up removes meanwhile can still be read, and the file cannot be exchanged between the
check and the loading. The result is written to the path ``partial``; the caller moves it to its
place.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import pickle
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from backend.base.errors import BackendError
from backend.records.base import cells
from backend.records.base.atomic_files import read_json
from backend.records.base.layout import SIDECAR_SUFFIX
from backend.records.jobs.checkpoint import EXPORT_FORMATS, Checkpoint
from backend.training.tools import history_table
from backend.training.tools import protocol as tool_protocol
from backend.training.user_code import (
    clean_traceback,
    compute_output,
    describe,
    load_loader,
    load_model,
    materialize,
    needs_first_batch,
    split_batch,
)

if TYPE_CHECKING:
    import torch

_READ_BYTES = 1 << 22
_FOLDER = Path(__file__).parent


def export(request: Mapping[str, Any], report: tool_protocol.Report) -> dict[str, Any]:
    """Write the export.

    The request has ``format``, ``checkpoint``, ``partial`` (where to write) and ``model``; for ONNX
    also ``loader`` and ``dataset``; for zip also ``files`` (name -> text) and ``history``.
    """
    format_name = str(request["format"])
    if format_name not in EXPORT_FORMATS:
        raise BackendError(
            f"“{format_name}” is not an export format; choose one of {', '.join(EXPORT_FORMATS)}."
        )
    record, state, input_form = load_checkpoint(Path(request["checkpoint"]), report)
    output = Path(request["partial"])
    notes: list[str] = []
    report("Writing the export…")
    try:
        if format_name == "pt":
            with output.open("wb") as file:
                _save(state, file)
        elif format_name == "safetensors":
            _save_safetensors(state, record, output)
        elif format_name == "onnx":
            notes = _save_onnx(request, state, output, report)
        else:
            notes = _save_zip(request, state, input_form, record, output, report)
        with output.open("rb+") as file:
            os.fsync(file.fileno())
    except OSError as error:
        raise BackendError(
            f"The export cannot be written to {output.parent}: {error.strerror or error}.",
            "Free space in that folder, or choose another folder.",
        ) from error
    return {"bytes": output.stat().st_size, "notes": notes}


# --- the checkpoint ---------------------------------------------------------------------------


def load_checkpoint(
    path: Path, report: tool_protocol.Report
) -> tuple[Checkpoint, dict[str, Any], Mapping[str, Any] | None]:
    """Return a checkpoint's record, model state and form of the input, after it was verified."""
    import torch

    try:
        with path.open("rb") as file:
            record = Checkpoint.from_dict(read_json(path.with_suffix(SIDECAR_SUFFIX)))
            if _sha256(file, record.bytes, report) != record.sha256:
                raise BackendError(
                    f"The checkpoint {record.name} was changed after it was written: its hash "
                    "differs.",
                    "Choose the checkpoint before it.",
                )
            file.seek(0)
            report("Loading the checkpoint…")
            content = torch.load(file, map_location="cpu", weights_only=True)
    except FileNotFoundError as error:
        raise BackendError(
            f"The checkpoint {path.stem} no longer exists.", "Choose another checkpoint of the job."
        ) from error
    except OSError as error:
        raise BackendError(f"The checkpoint {path.stem} cannot be read: {error}.") from error
    except ValueError as error:
        raise BackendError(
            f"The record of the checkpoint {path.stem} cannot be used: {error}.",
            "Choose the checkpoint before it.",
        ) from error
    except (RuntimeError, EOFError, KeyError, pickle.UnpicklingError) as error:
        raise BackendError(
            f"The checkpoint {path.stem} contains an object that is not allowed in one; nothing "
            "of it was executed.",
            "Choose the checkpoint before it.",
        ) from error
    state = content.get("model") if isinstance(content, dict) else None
    if not isinstance(state, dict):
        raise BackendError(f"The checkpoint {path.stem} contains no model.")
    return record, dict(state), content.get("input")


def _sha256(file: IO[bytes], total_bytes: int, report: tool_protocol.Report) -> str:
    sha256 = hashlib.sha256()
    read_bytes = 0
    while chunk := file.read(_READ_BYTES):
        sha256.update(chunk)
        read_bytes += len(chunk)
        report("Verifying the checkpoint…", read_bytes, total_bytes)
    return sha256.hexdigest()


# --- the formats ------------------------------------------------------------------------------


def _save(state: Any, file: IO[bytes]) -> None:
    import torch

    try:
        torch.save(state, file)
    except RuntimeError as error:
        # torch's error for a full disk.
        raise OSError(describe(error)) from error


def _save_safetensors(state: dict[str, Any], record: Checkpoint, output: Path) -> None:
    import safetensors.torch
    import torch

    other_names = [name for name, value in state.items() if not isinstance(value, torch.Tensor)]
    if other_names:
        raise BackendError(
            f"“{other_names[0]}” of the model's state is not a tensor, and safetensors stores only "
            "tensors.",
            "Export it as pt or zip.",
        )
    # Tied weights share memory, which the format cannot express.
    tensors = {name: value.detach().clone().contiguous() for name, value in state.items()}
    safetensors.torch.save_file(
        tensors, output, {"format": "pt", "epoch": str(record.epoch), "step": str(record.step)}
    )


def _save_onnx(
    request: Mapping[str, Any], state: dict[str, Any], output: Path, report: tool_protocol.Report
) -> list[str]:
    import onnx
    import torch

    if not request.get("loader"):
        raise BackendError(
            "ONNX needs a batch to trace the model with, and no loader was given.",
            "Export it as pt, safetensors or zip.",
        )
    report("Loading a batch…")
    data = _two_items(request)
    report("Building the model…")
    model = load_model(Path(request["model"]))
    if needs_first_batch(model):
        materialize(model, data)
    load_state(model, state)
    model.eval()
    with torch.no_grad():
        compute_output(model, data)
    notes = _trace(model, data, output, report)
    report("Checking the ONNX file…")
    try:
        onnx.checker.check_model(str(output), full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        raise BackendError(
            f"The ONNX file is not valid: {describe(error)}.", "Export it as pt or zip."
        ) from error
    return notes


def _two_items(request: Mapping[str, Any]) -> Any:
    """Return the data of a batch of two: an exporter may treat a size of one as constant."""
    dataset = load_loader(Path(request["loader"])).training(Path(request["dataset"]))
    data, _ = split_batch(dataset.collate([dataset[n] for n in range(min(2, len(dataset)))]))
    return data


def _trace(
    model: torch.nn.Module, data: Any, output: Path, report: tool_protocol.Report
) -> list[str]:
    """Export with a free batch size, or with the size of 2 if the model does not allow that."""
    import torch
    from torch.utils import _pytree as pytree

    free_shapes = pytree.tree_map(
        lambda value: (
            {0: torch.export.Dim.DYNAMIC}
            if isinstance(value, torch.Tensor) and value.ndim
            else None
        ),
        data,
    )
    names = ["data"] if isinstance(data, torch.Tensor) else None

    def trace(dynamic_shapes: Any) -> None:
        torch.onnx.export(
            model,
            (data,),
            output,
            dynamo=True,
            dynamic_shapes=dynamic_shapes,
            input_names=names,
            external_data=False,
            verbose=False,
        )

    report("Tracing the model…")
    try:
        trace((free_shapes,))
    except torch.onnx.errors.OnnxExporterError as error:
        print_to_log(clean_traceback(error))
        report("Tracing the model with a fixed batch size…")
        try:
            trace(None)
        except torch.onnx.errors.OnnxExporterError as second:
            reason = describe(_root_cause(second)).splitlines()[0]
            raise BackendError(
                f"The model cannot be exported to ONNX: {reason}.",
                "Export it as pt, safetensors or zip.",
            ) from second
        return ["The batch size is fixed at 2: the traced model accepts no other."]
    return []


def _root_cause(error: BaseException) -> BaseException:
    while error.__cause__ is not None:
        error = error.__cause__
    return error


def print_to_log(text: str) -> None:
    """Print to the tool's output, which the desktop shows on request."""
    os.write(2, text.encode("utf-8", "replace"))


def load_state(model: torch.nn.Module, state: dict[str, Any]) -> None:
    """Load the state into the model, or report where they differ."""
    try:
        model.load_state_dict(state)
    except (RuntimeError, KeyError) as error:
        model_names = set(model.state_dict())
        missing_names, unknown_names = (
            sorted(model_names - set(state)),
            sorted(set(state) - model_names),
        )
        reasons = [
            f"the model has {missing_names[0]} and the checkpoint does not"
            if missing_names
            else "",
            f"the checkpoint has {unknown_names[0]} and the model does not"
            if unknown_names
            else "",
        ]
        reason = "; ".join(filter(None, reasons)) or describe(error)
        raise BackendError(
            f"The checkpoint does not fit the model: {reason}.",
            "Use the version of the model that the job pinned.",
        ) from error


# --- the zip ----------------------------------------------------------------------------------


def _save_zip(
    request: Mapping[str, Any],
    state: dict[str, Any],
    input_form: Mapping[str, Any] | None,
    record: Checkpoint,
    output: Path,
    report: tool_protocol.Report,
) -> list[str]:
    """Write the zip; return notes about it."""
    sums: dict[str, str] = {}
    notes: list[str] = []
    with zipfile.ZipFile(output, "w", zipfile.ZIP_DEFLATED) as archive:
        report("Packing the weights…")
        # torch seeks in its output, and an entry can only be appended to. The file has no name, so
        # it disappears in any case.
        with tempfile.TemporaryFile(dir=output.parent) as weights_file:
            _save(state, weights_file)
            weights_file.seek(0)
            sha256_hash = hashlib.sha256()
            entry = _entry("weights.pt", zipfile.ZIP_STORED)
            with archive.open(entry, "w", force_zip64=True) as member:
                while chunk := weights_file.read(_READ_BYTES):
                    sha256_hash.update(chunk)
                    member.write(chunk)
        sums["weights.pt"] = sha256_hash.hexdigest()
        report("Packing the model's source…")
        source = Path(request["model"])
        for path in _files(source):
            _add(
                archive,
                sums,
                f"model_source/{path.relative_to(source).as_posix()}",
                path.read_bytes(),
            )
        history = request.get("history")
        if history and Path(history).is_file():
            report("Packing the history…")
            blocks = list(history_table.blocks(Path(history)))
            complete_blocks = b"".join(
                block for block in blocks if history_table.is_complete(block)
            )
            _add(archive, sums, "history.toml", complete_blocks)
            table = io.StringIO()
            rows, damaged_count = history_table.rows(blocks)
            history_table.write_csv(rows, table)
            _add(archive, sums, "history.csv", table.getvalue().encode())
            if damaged_count:
                notes.append(
                    f"{damaged_count} of {len(blocks)} blocks of the history are damaged; "
                    "history.csv "
                    "lacks their steps."
                )
        example = _example_batch(request)
        if example is not None:
            _add(archive, sums, "example.pt", example)
        details = json.dumps(record.to_dict(), indent=1, sort_keys=True) + "\n"
        _add(archive, sums, "checkpoint.json", details.encode())
        for name, text in dict(request.get("files", {})).items():
            _add(archive, sums, str(name), str(text).encode())
        _add(archive, sums, "load.py", (_FOLDER / "export_load.py").read_bytes())
        if input_form is not None:
            _add(archive, sums, "input.json", json.dumps(input_form, indent=1).encode())
            _add(archive, sums, "predict.py", (_FOLDER / "export_predict.py").read_bytes())
            _add(archive, sums, "cells.py", Path(cells.__file__).read_bytes())
        importer = _FOLDER.parent / "user_code" / "sources.py"
        _add(archive, sums, "model_import.py", importer.read_bytes())
        _add(archive, sums, "README.md", _readme(record, sums, notes).encode())
        lines = "".join(f"{sha256}  {name}\n" for name, sha256 in sorted(sums.items()))
        archive.writestr(_entry("SHA256SUMS"), lines)
    return notes


def _example_batch(request: Mapping[str, Any]) -> bytes | None:
    """Return a batch for a model that takes its sizes from the first batch, before its weights.

    Zeros in the shape of a batch: no user data is exported with the model.
    """
    import torch
    from torch.utils import _pytree as pytree

    if not request.get("loader") or not needs_first_batch(load_model(Path(request["model"]))):
        return None
    zeros = pytree.tree_map_only(torch.Tensor, torch.zeros_like, _two_items(request))
    buffer = io.BytesIO()
    _save(zeros, buffer)
    return buffer.getvalue()


def _entry(name: str, method: int = zipfile.ZIP_DEFLATED) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name)
    entry.compress_type = method
    entry.external_attr = 0o644 << 16
    return entry


def _add(archive: zipfile.ZipFile, sums: dict[str, str], name: str, content: bytes) -> None:
    sums[name] = hashlib.sha256(content).hexdigest()
    archive.writestr(_entry(name), content)


def _files(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*")):
        relative_parts = path.relative_to(folder).parts
        if path.is_file() and not path.is_symlink() and "__pycache__" not in relative_parts:
            yield path


def _readme(record: Checkpoint, sums: Mapping[str, str], notes: Iterable[str]) -> str:
    descriptions = {
        "weights.pt": "the parameters (`torch.load` with `weights_only=True`)",
        "model_source/": "the model's source, as it was trained",
        "example.pt": "a batch of zeros, from which the model takes its sizes",
        "CARD.md": "what the model was trained on, how, and how it was measured",
        "input.json": "the form of a sample, the names of the classes, and of a table its columns "
        "in order with mean, deviation and texts",
        "predict.py": "predicts for files: `python predict.py FILE...`",
        "cells.py": "reads numbers and dates of tables for predict.py",
        "load.py": "loads the model; needs PyTorch and what the model itself imports",
        "model_import.py": "imports model_source for load.py",
        "job.toml": "the settings of the training; environment variables are named without "
        "their values",
        "history.csv": "loss and metrics of every step, for a spreadsheet",
        "history.toml": "the same, in Ringmaster's own format",
        "checkpoint.json": "epoch, step, metrics and hash of the checkpoint",
        "SHA256SUMS": "checksums of every file: `sha256sum -c SHA256SUMS`",
    }
    names = [n for n in descriptions if n in sums or n in ("model_source/", "SHA256SUMS")]
    lines = [
        f"# {record.name}",
        "",
        f"A model after epoch {record.epoch}, step {record.step}.",
        "",
        *(f"- `{name}` – {descriptions[name]}" for name in names),
        "",
        *(f"{note}\n" for note in notes),
        "Try it:",
        "",
        "    python load.py",
        "",
        "Use it:",
        "",
        "    from load import load_model",
        "    model = load_model()",
        "",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    tool_protocol.main(export)
