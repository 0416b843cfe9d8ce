"""``job checkpoints|keep|layers|export``."""

from __future__ import annotations

from argparse import ArgumentTypeError
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from backend.base.progress import Progress
from backend.cli.command import Word, command
from backend.cli.parameters import Checkpoint, JobId
from backend.cli.printing import Answer, Note, Table, in_bytes, in_figures
from backend.records.jobs.checkpoint import EXPORT_FORMATS
from backend.services.context.container import Services

if TYPE_CHECKING:
    from backend.records.library.inspection import TensorValues


@command("job checkpoints", reads_jobs=True)
def checkpoints(services: Services, id: JobId) -> Answer:
    """The checkpoints of a job."""
    found = services.queries.checkpoints(id)
    rows = (
        (
            f"{record.name} ({record.file})" if record.file else record.name,
            str(record.epoch or ""),
            str(record.step),
            in_bytes(record.bytes),
            record.marks,
            ", ".join(f"{name} {in_figures(v)}" for name, v in record.metrics.items()),
        )
        for record in found
    )
    head = ("NAME", "EPOCH", "STEP", "SIZE", "", "METRICS")
    return Answer(found, Table(head, rows, "There is no checkpoint yet."))


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
    how = "always kept" if record.is_kept else "kept as long as the job's settings say"
    return Answer(record, f"{record.name} is {how}.")


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
    against: Annotated[str, Word("C", "compare with this checkpoint")] = "",
    sample: Annotated[int, Word("N", "default: the first, 0", parse=_sample)] = 0,
) -> Answer:
    """The weights of a checkpoint, and one sample passed through them."""
    found = services.inspection.checkpoint(id, checkpoint, against, sample, progress=progress)
    values: list[tuple[str, str, TensorValues | None]] = []
    for weight in found.weights:
        values += (
            (weight.name, "weight", weight.values),
            (weight.name, "change", weight.change),
            (weight.name, "gradient", weight.gradient),
        )
    values += ((row.name, "activation", row.values) for row in found.activations)
    rows = (
        (
            *(name, what),
            *map(in_figures, (s.mean, s.std, s.low, s.high)),
            *(f"{100 * one.zero_share:.0f} %", str(s.nan_count)),
        )
        for name, what, one in values
        if one is not None and (s := one.spread)
    )
    head = ("LAYER", "WHAT", "MEAN", "STD", "LEAST", "MOST", "ZEROS", "NAN")
    table = Table(head, rows, "The model has no weights.")
    return Answer(found, table, map(Note, found.warnings))


@command("job export", reads_jobs=True)
def export(
    services: Services,
    progress: Progress,
    id: JobId,
    *,
    checkpoint: Checkpoint,
    format: Annotated[str, Word(choices=EXPORT_FORMATS)],
    output: Annotated[Path, Word("PATH")],
) -> Answer:
    """Export a checkpoint."""
    path = services.jobs.export(id, checkpoint, format, output, progress=progress)
    size = path.stat().st_size
    data = {"path": str(path), "bytes": size, "format": format}
    return Answer(data, f"Wrote {path} ({in_bytes(size)}).")
