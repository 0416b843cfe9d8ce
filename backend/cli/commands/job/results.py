"""``job checkpoints|keep|layers|export|predict|compare|tensorboard``: the results of jobs."""

from __future__ import annotations

import contextlib
import signal
import sys
from argparse import ArgumentTypeError
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from backend.base.progress import Progress
from backend.cli.command import ArgSpec, command
from backend.cli.parameters import Checkpoint, JobId, JobIds
from backend.cli.printing import (
    OK,
    Answer,
    Note,
    Part,
    Properties,
    Table,
    duration_text,
    number_text,
    size_text,
)
from backend.cli.session import Session
from backend.records.jobs.checkpoint import EXPORT_FORMATS
from backend.records.jobs.comparison import ComparedRow, RowKind
from backend.records.jobs.prediction import Prediction, PredictionInput
from backend.records.jobs.settings import value_label
from backend.services.context.container import Services
from backend.services.tools.result_files import require_free

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


@command("job compare", reads_jobs=True)
def compare(
    services: Services,
    ids: JobIds,
    *,
    all: Annotated[bool, "also show equal settings"] = False,
    csv: Annotated[
        Path | None,
        ArgSpec("FILE", "instead, write every scalar of every step of one or more jobs"),
    ] = None,
) -> Answer:
    """Results of jobs, and the settings that differ."""
    if csv is not None:
        path = services.comparison.write_csv(list(dict.fromkeys(ids)), csv)
        return Answer({"path": str(path), "bytes": path.stat().st_size}, f"Wrote {path}.")
    comparison = services.comparison.compare(ids)
    settings = (*comparison.differing, *(comparison.equal if all else ()))
    states = ("State", *(view.state_label for view in comparison.jobs))
    names = ("", *(view.name for view in comparison.jobs))
    table = Table(names, (states, *_lines(comparison.results), *_lines(settings)))
    notes = []
    if not comparison.differing:
        notes.append(Note("These jobs have the same settings."))
    if not all:
        notes.append(Note(f"{len(comparison.equal)} settings are equal; --all shows them."))
    return Answer(comparison, table, notes)


def _lines(rows: Iterable[ComparedRow]) -> list[tuple[str, ...]]:
    return [(row.label, *_cells(row)) for row in rows]


def _cells(row: ComparedRow) -> Iterable[str]:
    for value, is_best in zip(row.values, row.best, strict=True):
        if value is None:
            text = "–"
        elif isinstance(value, str):
            text = value_label(row.key, value)
        else:
            text = duration_text(value) if row.kind is RowKind.SECONDS else number_text(value)
        yield f"{text} (best)" if is_best else text


_ROWS = 20


@command("job predict", reads_jobs=True, at_most_one_of=("dataset", "file"))
def predict(
    services: Services,
    progress: Progress,
    id: JobId,
    *,
    checkpoint: Checkpoint,
    dataset: Annotated[str, ArgSpec("NAME", "NAME or NAME@VERSION; default: the job's")] = "",
    file: Annotated[
        tuple[str, ...],
        ArgSpec("F", "files, or folders of them, for a loader with a method read", nargs="+"),
    ] = (),
    loader: Annotated[str, ArgSpec("NAME", "default: the job's")] = "",
    split: Annotated[str, ArgSpec(choices=("validation", "training"))] = "validation",
    samples: Annotated[str, ArgSpec("N", "only these: 3, 10-20")] = "",
    output: Annotated[Path, ArgSpec("O.csv")],
) -> Answer:
    """Try a checkpoint on a dataset or on files."""
    require_free(output)
    prediction_input = PredictionInput(
        split=split, dataset=dataset, loader=loader, samples=samples, files=file
    )
    prediction = services.predictions.predict(id, checkpoint, prediction_input, progress)
    path = services.predictions.write_table(prediction, output)
    return Answer(lambda: prediction.to_json(str(path)), _parts(prediction), f"Wrote {path}.")


def _parts(prediction: Prediction) -> Iterator[Part]:
    yield Properties([("Samples", str(prediction.sample_count))])
    yield Properties((name, number_text(value)) for name, value in prediction.metrics.items())
    if prediction.classes:
        yield Table(
            ("CLASS", "SAMPLES", "PRECISION", "RECALL", "F1"),
            (
                (
                    entry.name,
                    str(entry.count),
                    *map(number_text, (entry.precision, entry.recall, entry.f1)),
                )
                for entry in prediction.classes
            ),
        )
    elif prediction.detections:
        yield Table(
            ("CLASS", "BOXES", "AP50", "AP75"),
            (
                (entry.name, str(entry.count), *map(number_text, (entry.ap50, entry.ap75)))
                for entry in prediction.detections
            ),
        )
    else:
        for entry in prediction.examples[:_ROWS]:
            guesses = ", ".join(
                g.name if g.confidence is None else f"{g.name} ({g.confidence:.1%})"
                for g in entry.guesses
            )
            yield f"{entry.file or entry.sample.index}: {guesses or entry.prediction}"
    yield from map(Note, prediction.notes)


@command("job tensorboard", reads_jobs=True)
def tensorboard(
    session: Session,
    id: JobId,
    *,
    weights: Annotated[
        bool, "also show the model's graph and the weights of each checkpoint"
    ] = False,
) -> int:
    """Serve the event files of a job until Ctrl+C."""
    from backend.services.jobs.inspection import NO_GRAPH

    services, progress = session.services, session.progress
    has_graph = not weights or services.inspection.write_events(id, progress)
    url = services.event_viewers.open(id, progress)
    note = () if has_graph else NO_GRAPH
    session.print(Answer({"url": url}, url, note, "Press Ctrl+C to end it."))
    sys.stdout.flush()
    with contextlib.suppress(KeyboardInterrupt):
        signal.pause()
    return OK
