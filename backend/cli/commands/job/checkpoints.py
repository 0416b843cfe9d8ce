"""``job checkpoints|keep|layers|export``."""

from __future__ import annotations

from argparse import ArgumentTypeError
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from backend.base.progress import Progress
from backend.cli.command import ArgSpec, command
from backend.cli.parameters import Checkpoint, JobId
from backend.cli.printing import Answer, Note, Table, number_text, size_text
from backend.records.jobs.checkpoint import EXPORT_FORMATS
from backend.services.context.container import Services

if TYPE_CHECKING:
    from backend.records.library.inspection import TensorValues


@command("job checkpoints", reads_jobs=True)
def checkpoints(services: Services, id: JobId) -> Answer:
    """The checkpoints of a job."""
    records = services.queries.checkpoints(id)
    rows = (
        (
            f"{record.name} ({record.file})" if record.file else record.name,
            str(record.epoch or ""),
            str(record.step),
            size_text(record.bytes),
            record.marks,
            ", ".join(f"{name} {number_text(v)}" for name, v in record.metrics.items()),
        )
        for record in records
    )
    head = ("NAME", "EPOCH", "STEP", "SIZE", "", "METRICS")
    return Answer(records, Table(head, rows, "There is no checkpoint yet."))


@command("job keep", reads_jobs=True)
def keep(
    services: Services,
    id: JobId,
    *,
    checkpoint: Checkpoint,
    undo: Annotated[bool, "follow the job's settings again"] = False,
) -> Answer:
    """Never remove a checkpoint, whatever the job's settings say."""
    record = services.jobs.keep(id, checkpoint, is_kept=not undo)
    state = "always kept" if record.is_kept else "kept as long as the job's settings say"
    return Answer(record, f"{record.name} is {state}.")


def _sample(text: str) -> int:
    if not text.isdecimal():
        raise ArgumentTypeError(f"“{text}” should be a sample's number, 0 or more")
    return int(text)


@command("job layers", reads_jobs=True)
def layers(
    services: Services,
    progress: Progress,
    id: JobId,
    *,
    checkpoint: Checkpoint,
    against: Annotated[str, ArgSpec("C", "compare with this checkpoint")] = "",
    sample: Annotated[int, ArgSpec("N", "default: the first, 0", parse=_sample)] = 0,
) -> Answer:
    """The weights of a checkpoint, and one sample passed through them."""
    inspection = services.inspection.checkpoint(id, checkpoint, against, sample, progress=progress)
    values: list[tuple[str, str, TensorValues | None]] = []
    for weight in inspection.weights:
        values += (
            (weight.name, "weight", weight.values),
            (weight.name, "change", weight.change),
            (weight.name, "gradient", weight.gradient),
        )
    values += ((row.name, "activation", row.values) for row in inspection.activations)
    rows = (
        (
            *(name, kind),
            *map(number_text, (s.mean, s.std, s.low, s.high)),
            *(f"{100 * tensor.zero_share:.0f} %", str(s.nan_count)),
        )
        for name, kind, tensor in values
        if tensor is not None and (s := tensor.spread)
    )
    head = ("LAYER", "WHAT", "MEAN", "STD", "LEAST", "MOST", "ZEROS", "NAN")
    table = Table(head, rows, "The model has no weights.")
    return Answer(inspection, table, map(Note, inspection.warnings))


@command("job export", reads_jobs=True)
def export(
    services: Services,
    progress: Progress,
    id: JobId,
    *,
    checkpoint: Checkpoint,
    format: Annotated[str, ArgSpec(choices=EXPORT_FORMATS)],
    output: Annotated[Path, ArgSpec("PATH")],
) -> Answer:
    """Export a checkpoint."""
    path = services.jobs.export(id, checkpoint, format, output, progress=progress)
    size = path.stat().st_size
    data = {"path": str(path), "bytes": size, "format": format}
    return Answer(data, f"Wrote {path} ({size_text(size)}).")
